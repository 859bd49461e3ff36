"""Special functions."""

import math
from typing import Any

from wherelint.ops.catalogue import Array, Domain, Operation
from wherelint.ops.elementwise import INFINITE
from wherelint.ops.entries import entry, paths, pullback, slopes, table, unary
from wherelint.ops.numeric import np, special

TINY = 1e-7
ROOT_PI, ROOT_2PI = math.sqrt(math.pi), math.sqrt(2 * math.pi)
_POLE: dict[str, Any] = {"code": "WL109", "place": "at a pole",
                         "domains": (Domain("{x} <= 0", "1.0", INFINITE, finite=False, exact=False),)}  # fmt: skip
_PROBABILITY: dict[str, Any] = {
    "code": "WL109", "place": "at the edge of its domain",
    "domains": (Domain("({x} <= 0) | ({x} >= 1)", "0.5", (), name="probability", finite=False),),
}  # fmt: skip


def _trigamma(x: Array) -> Array:
    return np.asarray(special.polygamma(1, x)).astype(x.dtype)


def _digamma_nan_at_zero(y: Array, x: Array) -> Any:
    """JAX and TensorFlow give digamma(0) = nan, torch and SciPy -inf."""
    return np.where(x == 0, np.nan, special.digamma(x))


def _torch_trigamma(y: Array, x: Array) -> Any:
    """torch reflects below 1/2, and sin(pi x) is not 0 at a negative integer: the slope there is huge, not inf."""
    reflected = (np.pi / np.sin(np.asarray(np.pi).astype(x.dtype) * x)) ** 2 - _trigamma(np.maximum(1 - x, 0.5))
    return np.where(x < 0.5, reflected, _trigamma(np.maximum(x, 0.5)))


def _density(x: Array) -> Any:
    return np.exp(-0.5 * x * x) / ROOT_2PI


def _gammainc_slope(z: Array, a: Array, x: Array) -> Any:
    """d/dx of the regularised lower incomplete gamma function: x**(a-1) exp(-x) / gamma(a)."""
    return np.exp(-x + (a - 1) * np.log(x) - special.gammaln(a))


def _gammainc_shape_slope(z: Array, a: Array, x: Array) -> Array:
    """d/da by central differences: finite inside the domain, nan outside; the frameworks use a series."""
    step = np.asarray(1e-3 * np.maximum(np.abs(a), 1)).astype(a.dtype)
    return np.asarray((special.gammainc(a + step, x) - special.gammainc(a - step, x)) / (2 * step))


def _i0e_slope(x: Array) -> Any:
    return special.i1e(x) - np.sign(x) * special.i0e(x)


def _i1e_slope(y: Array, x: Array) -> Any:
    return np.where(np.abs(x) > TINY, special.i0e(x) - y * (np.sign(x) + 1 / x), 0.5)


def _outward(x: Array) -> Any:
    """The slope of exp(abs(x)), as JAX takes it at 0."""
    return np.where(x >= 0, 1, -1) * np.exp(np.abs(x))


def _betaln_pull(ct: Array, a: Array, b: Array) -> Array:
    """jax.scipy.special.betaln takes minimum and maximum first, each of which multiplies by its mask."""
    together = ct * special.digamma(a + b)
    to_minimum, to_maximum = (ct * special.digamma(each) - together for each in (np.minimum(a, b), np.maximum(a, b)))
    least, most = (np.where(a == b, 0.5, mask).astype(ct.dtype) for mask in (a < b, a > b))
    return np.asarray(to_minimum * least + to_maximum * most)


def _zeta_terms(q: Array) -> int:
    """How many terms JAX sums before the integral."""
    return 8 if q.dtype == np.float32 else 16


def _zeta_sum(x: Array, q: Array) -> Array:
    """What the Euler-Maclaurin formula (Johansson, arXiv:1309.2877) adds to the integral: in JAX, also for x < 1."""
    count = _zeta_terms(q)
    steps, even = np.arange(2 * count, dtype=q.dtype), np.arange(2, 2 * count + 1, 2)
    weights = (special.bernoulli(2 * count)[even] / special.factorial(even)).astype(q.dtype)
    end = q + count
    rising = np.cumprod((x[..., None] + steps) / end[..., None], -1)[..., ::2]
    terms = (q[..., None] + steps[:count]) ** -x[..., None]
    return np.asarray(np.sum(terms, -1) + end**-x * (0.5 + np.sum(rising * weights, -1)))


def _jax_zeta_pull(ct: Array, z: Array, x: Array, q: Array) -> tuple[Array, Array]:
    """JAX differentiates the formula, whose terms have both signs: an infinite cotangent becomes nan."""
    end, tiny = q + _zeta_terms(q), 1e-20
    to_x = np.where(q < 0, np.nan, _zeta_sum(x + tiny * 1j, q).imag / tiny)
    to_x = to_x - end ** (1 - x) / (x - 1) * (np.log(end) + 1 / (x - 1))
    to_q = -x * _zeta_sum(x + 1, q) + (1 - x) * end**-x / (x - 1)
    return ct * to_x.astype(x.dtype) + 0 * ct, ct * to_q + 0 * ct


OPERATIONS: dict[str, Operation] = table(
    unary("erf", special.erf, lambda y, x: 2 / ROOT_PI * np.exp(-x * x)),
    unary("erfc", special.erfc, lambda y, x: -2 / ROOT_PI * np.exp(-x * x)),
    unary("erfinv", special.erfinv, lambda y, x: ROOT_PI / 2 * np.exp(y * y), (1.0, -1.0, 2.0), 0.0,
          code="WL109", place="at the edge of its domain",
          domains=(Domain("{abs}({x}) >= 1", "0.0", (), finite=False),)),
    unary("ndtr", special.ndtr, lambda y, x: _density(x)),
    entry("ndtri", special.ndtri, slopes(lambda y, x: ROOT_2PI * np.exp(0.5 * y * y)),
          (0.0, 1.0, 2.0), 0.5,
          # jax.scipy.special.ndtri selects around a rational function, whose terms have both signs.
          jax=pullback(lambda ct, y, x: np.where(np.isinf(y), 0, ct * (ROOT_2PI * np.exp(0.5 * y * y)) + 0 * ct)),
          **_PROBABILITY),
    unary("log_ndtr", special.log_ndtr, lambda y, x: np.exp(-0.5 * x * x - y) / ROOT_2PI),
    entry("gelu", lambda x: x * special.ndtr(x), slopes(lambda y, x: special.ndtr(x) + x * _density(x)),
          tensorflow=pullback(paths(lambda y, x: special.ndtr(x), lambda y, x: x * _density(x)))),
    unary("lgamma", lambda x: np.where(np.isinf(x), np.inf, special.gammaln(x)), _digamma_nan_at_zero,
          (0.0, -1.0), 1.0, torch=lambda y, x: special.digamma(x), **_POLE),
    unary("gamma", special.gamma, lambda y, x: y * _digamma_nan_at_zero(y, x), (0.0, -1.0), 1.0, **_POLE),
    unary("digamma", special.digamma, lambda y, x: _trigamma(x), (0.0, -1.0), 1.0,
          jax=lambda y, x: np.where(np.isposinf(x), np.nan, _trigamma(x)), torch=_torch_trigamma, **_POLE),
    entry("polygamma", lambda n, x: np.asarray(special.polygamma(n, x)).astype(x.dtype),
          slopes(None, lambda z, n, x: np.asarray(special.polygamma(n + 1, x)).astype(x.dtype)),
          ((1.0, 0.0),), (None, 1.0), code="WL109", place="at a pole", numbers=(0,)),
    entry("betaln", special.betaln,
          pullback(lambda ct, z, a, b: _betaln_pull(ct, a, b), lambda ct, z, a, b: _betaln_pull(ct, b, a)),
          ((0.0, 1.0), (1.0, 0.0)), (1.0, 1.0), code="WL109", place="at a pole"),
    entry("zeta", special.zeta, slopes(None, lambda z, x, q: -x * special.zeta(x + 1, q)),
          ((2.0, 0.0), (1.0, 1.0)), (2.0, 1.0), jax=_jax_zeta_pull,
          forwards={"jax": lambda x, q: _zeta_sum(x, q) + (q + _zeta_terms(q)) ** (1 - x) / (x - 1)},
          code="WL109", place="at a pole"),
    entry("gammainc", special.gammainc, slopes(_gammainc_shape_slope, _gammainc_slope),
          ((0.5, 0.0), (1.0, -1.0)), (1.0, 1.0), torch=slopes(None, _gammainc_slope), code="WL109", place="at a pole"),
    entry("gammaincc", special.gammaincc,
          slopes(lambda z, a, x: -_gammainc_shape_slope(z, a, x), lambda z, a, x: -_gammainc_slope(z, a, x)),
          ((0.5, 0.0), (1.0, -1.0)), (1.0, 1.0),
          torch=slopes(None, lambda z, a, x: -_gammainc_slope(z, a, x)), code="WL109", place="at a pole"),
    unary("logit", lambda x: np.log(x / (1 - x)), lambda y, x: 1 / (x * (1 - x)), (0.0, 1.0, -1.0), 0.5,
          torch=lambda y, x: np.where((x < 0) | (x > 1), np.nan, 1 / (x * (1 - x))), **_PROBABILITY),
    unary("entr", special.entr, lambda y, x: -np.log(x) - 1,
          (0.0, -1.0), 1.0, code="WL109", place="at 0", domains=(Domain("{x} <= 0", "1.0", INFINITE, finite=False),)),
    entry("xlogy", special.xlogy, slopes(lambda z, x, y: np.log(y), lambda z, x, y: x / y),
          ((0.0, 0.0), (1.0, 0.0), (1.0, -1.0)), (None, 1.0),
          torch=pullback(lambda ct, z, x, y: np.where((x == 0) & (y <= 0), 0, special.xlogy(ct, y)),
                         lambda ct, z, x, y: ct * x / y),
          tensorflow=slopes(lambda z, x, y: np.where(x == 0, 0, np.log(y)),
                            lambda z, x, y: np.where(x == 0, 0, x / y)),
          code="WL109", place="with a zero argument", domains=(Domain("{x} <= 0", "1.0", ("0.0", "-{inf}"), 1),),
          forwards={"tensorflow": lambda x, y: np.where(x == 0, x * 0, special.xlogy(x, y))}),
    entry("xlog1py", special.xlog1py, slopes(lambda z, x, y: np.log1p(y), lambda z, x, y: x / (1 + y)),
          ((0.0, -1.0), (1.0, -1.0), (1.0, -2.0)), (None, 0.0),
          torch=pullback(lambda ct, z, x, y: np.where((x == 0) & (y <= -1), 0, special.xlog1py(ct, y)),
                         lambda ct, z, x, y: ct * x / (1 + y)),
          tensorflow=slopes(lambda z, x, y: np.where(x == 0, 0, np.log1p(y)),
                            lambda z, x, y: np.where(x == 0, 0, x / (1 + y))), code="WL109", place="at -1",
          forwards={"tensorflow": lambda x, y: np.where(x == 0, x * 0, special.xlog1py(x, y))}),
    entry("xdivy", lambda x, y: np.where(x == 0, 0, x / y),
          slopes(lambda z, x, y: np.where(x == 0, 0, 1 / y), lambda z, x, y: np.where(x == 0, 0, -z / y)),
          ((1.0, 0.0),), (None, 1.0),
          code="WL103", place="with a zero divisor", quotient=True,
          domains=(Domain("{x} != 0", "1.0", ("0.0",), 1, "denominator"),)),
    # jax.scipy.special.rel_entr is a double where: regular outside its domain.
    entry("rel_entr", special.rel_entr,
          pullback(lambda ct, z, p, q: np.where((p > 0) & (q > 0), ct * (np.log(p) + 1) - ct * np.log(q), 0),
                   lambda ct, z, p, q: np.where((p > 0) & (q > 0), ct * (-p / q), 0))),
    entry("i0", special.i0, slopes(lambda y, x: special.i1(x)), (1000.0,), 0.0,
          # jax.scipy.special.i0 is exp(abs(x)) * i0e(x): inf - inf where it overflows. So is i1.
          jax=pullback(paths(lambda y, x: _outward(x) * special.i0e(x),
                             lambda y, x: np.exp(np.abs(x)) * _i0e_slope(x))),
          code="WL107", place="at an overflow"),
    unary("i0e", special.i0e, lambda y, x: _i0e_slope(x)),
    entry("i1", special.i1,
          slopes(lambda y, x: np.where(np.abs(x) <= TINY, 0.5, special.i0(x) - y / x)),
          (1000.0,), 0.0,
          jax=pullback(paths(lambda y, x: _outward(x) * special.i1e(x),
                             lambda y, x: np.exp(np.abs(x)) * _i1e_slope(special.i1e(x), x))),
          torch=slopes(lambda y, x: np.where(np.abs(x) > TINY, special.i0(x) - y / x, 0.5)),
          # The slope of tf.math.bessel_i1 at 0 is 1 (tensorflow 2.21); it should be 1/2.
          tensorflow=slopes(lambda y, x: np.where(x == 0, 1, special.i0(x) - y / x)),
          code="WL107", place="at an overflow"),
    unary("i1e", special.i1e, _i1e_slope,
          tensorflow=lambda y, x: np.where(np.abs(x) <= TINY, 0.5, special.i0e(x) - y * (np.sign(x) + 1 / x))),
)  # fmt: skip
