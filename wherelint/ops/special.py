"""Special functions. SciPy is imported when one of them is evaluated, and not before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wherelint.ops.catalogue import Array, Operation
from wherelint.ops.entries import entry, paths, pullback, slopes, table, unary


def scipy_special(name: str) -> Callable[..., Any]:
    """The function of that name in scipy.special, looked up when it is called."""

    def call(*operands: Any) -> Any:
        import scipy.special

        return getattr(scipy.special, name)(*operands)

    return call


gammaln, digamma, polygamma = scipy_special("gammaln"), scipy_special("digamma"), scipy_special("polygamma")
erf, erfc, erfinv, ndtr = (scipy_special(name) for name in ("erf", "erfc", "erfinv", "ndtr"))
xlogy, xlog1py = scipy_special("xlogy"), scipy_special("xlog1py")
i0e, i1e = scipy_special("i0e"), scipy_special("i1e")
TINY = 1e-7
ROOT_PI, ROOT_2PI = float(np.sqrt(np.pi)), float(np.sqrt(2 * np.pi))


def _trigamma(x: Array) -> Array:
    return np.asarray(polygamma(1, x)).astype(x.dtype)


def _digamma_nan_at_zero(y: Array, x: Array) -> Any:
    """JAX and TensorFlow give digamma(0) = nan, torch and SciPy -inf."""
    return np.where(x == 0, np.nan, digamma(x))


def _torch_trigamma(y: Array, x: Array) -> Any:
    """torch reflects below 1/2, and sin(pi x) is not 0 at a negative integer: the slope there is huge, not inf."""
    reflected = (np.pi / np.sin(np.asarray(np.pi).astype(x.dtype) * x)) ** 2 - _trigamma(np.maximum(1 - x, 0.5))
    return np.where(x < 0.5, reflected, _trigamma(np.maximum(x, 0.5)))


def _density(x: Array) -> Any:
    return np.exp(-0.5 * x * x) / ROOT_2PI


def _gammainc_slope(z: Array, a: Array, x: Array) -> Any:
    """d/dx of the regularised lower incomplete gamma function: x**(a-1) exp(-x) / gamma(a)."""
    return np.exp(-x + (a - 1) * np.log(x) - gammaln(a))


def _gammainc_shape_slope(z: Array, a: Array, x: Array) -> Array:
    """d/da by central differences: finite inside the domain, nan outside; the frameworks use a series."""
    step = np.asarray(1e-3 * np.maximum(np.abs(a), 1)).astype(a.dtype)
    gammainc = scipy_special("gammainc")
    return np.asarray((gammainc(a + step, x) - gammainc(a - step, x)) / (2 * step))


def _i0e_slope(x: Array) -> Any:
    return i1e(x) - np.sign(x) * i0e(x)


def _i1e_slope(y: Array, x: Array) -> Any:
    return np.where(np.abs(x) > TINY, i0e(x) - y * (np.sign(x) + 1 / x), 0.5)


def _outward(x: Array) -> Any:
    """The slope of exp(abs(x)), as JAX takes it at 0."""
    return np.where(x >= 0, 1, -1) * np.exp(np.abs(x))


def _betaln_pull(ct: Array, a: Array, b: Array) -> Array:
    """jax.scipy.special.betaln takes minimum and maximum first, each of which multiplies by its mask."""
    together = ct * digamma(a + b)
    to_minimum, to_maximum = (ct * digamma(each) - together for each in (np.minimum(a, b), np.maximum(a, b)))
    least, most = (np.where(a == b, 0.5, mask).astype(ct.dtype) for mask in (a < b, a > b))
    return np.asarray(to_minimum * least + to_maximum * most)


def _gelu_slope(y: Array, x: Array) -> Any:
    return ndtr(x) + x * _density(x)


OPERATIONS: dict[str, Operation] = table(
    unary("erf", erf, lambda y, x: 2 / ROOT_PI * np.exp(-x * x)),
    unary("erfc", erfc, lambda y, x: -2 / ROOT_PI * np.exp(-x * x)),
    unary("erfinv", erfinv, lambda y, x: ROOT_PI / 2 * np.exp(y * y), (1.0, -1.0, 2.0), 0.0),
    unary("ndtr", ndtr, lambda y, x: _density(x)),
    entry("ndtri", scipy_special("ndtri"), slopes(lambda y, x: ROOT_2PI * np.exp(0.5 * y * y)),
          (0.0, 1.0, 2.0), 0.5,
          # jax.scipy.special.ndtri selects around a rational function, whose terms have both signs.
          jax=pullback(lambda ct, y, x: np.where(np.isinf(y), 0, ct * (ROOT_2PI * np.exp(0.5 * y * y)) + 0 * ct))),
    unary("log_ndtr", scipy_special("log_ndtr"), lambda y, x: np.exp(-0.5 * x * x - y) / ROOT_2PI),
    entry("gelu", lambda x: x * ndtr(x), slopes(_gelu_slope),
          tensorflow=pullback(paths(lambda y, x: ndtr(x), lambda y, x: x * _density(x)))),
    unary("lgamma", lambda x: np.where(np.isinf(x), np.inf, gammaln(x)), _digamma_nan_at_zero,
          (0.0, -1.0), 1.0, torch=lambda y, x: digamma(x)),
    unary("gamma", scipy_special("gamma"), lambda y, x: y * _digamma_nan_at_zero(y, x), (0.0, -1.0), 1.0),
    unary("digamma", digamma, lambda y, x: _trigamma(x), (0.0, -1.0), 1.0,
          jax=lambda y, x: np.where(np.isposinf(x), np.nan, _trigamma(x)), torch=_torch_trigamma),
    entry("polygamma", lambda n, x: np.asarray(polygamma(n, x)).astype(x.dtype),
          slopes(None, lambda z, n, x: np.asarray(polygamma(n + 1, x)).astype(x.dtype)),
          ((1.0, 0.0),), (None, 1.0)),
    entry("betaln", scipy_special("betaln"),
          pullback(lambda ct, z, a, b: _betaln_pull(ct, a, b), lambda ct, z, a, b: _betaln_pull(ct, b, a)),
          ((0.0, 1.0), (1.0, 0.0)), (1.0, 1.0)),
    entry("gammainc", scipy_special("gammainc"), slopes(_gammainc_shape_slope, _gammainc_slope),
          ((0.5, 0.0), (1.0, -1.0)), (1.0, 1.0), torch=slopes(None, _gammainc_slope)),
    entry("gammaincc", scipy_special("gammaincc"),
          slopes(lambda z, a, x: -_gammainc_shape_slope(z, a, x), lambda z, a, x: -_gammainc_slope(z, a, x)),
          ((0.5, 0.0), (1.0, -1.0)), (1.0, 1.0),
          torch=slopes(None, lambda z, a, x: -_gammainc_slope(z, a, x))),
    unary("logit", lambda x: np.log(x / (1 - x)), lambda y, x: 1 / (x * (1 - x)), (0.0, 1.0, -1.0), 0.5,
          torch=lambda y, x: np.where((x < 0) | (x > 1), np.nan, 1 / (x * (1 - x)))),
    unary("entr", scipy_special("entr"), lambda y, x: -np.log(x) - 1,
          (0.0, -1.0), 1.0),
    entry("xlogy", xlogy, slopes(lambda z, x, y: np.log(y), lambda z, x, y: x / y),
          ((0.0, 0.0), (1.0, 0.0), (1.0, -1.0)), (None, 1.0),
          torch=pullback(lambda ct, z, x, y: np.where((x == 0) & (y <= 0), 0, xlogy(ct, y)),
                         lambda ct, z, x, y: ct * x / y),
          tensorflow=slopes(lambda z, x, y: np.where(x == 0, 0, np.log(y)),
                            lambda z, x, y: np.where(x == 0, 0, x / y))),
    entry("xlog1py", xlog1py, slopes(lambda z, x, y: np.log1p(y), lambda z, x, y: x / (1 + y)),
          ((0.0, -1.0), (1.0, -1.0), (1.0, -2.0)), (None, 0.0),
          torch=pullback(lambda ct, z, x, y: np.where((x == 0) & (y <= -1), 0, xlog1py(ct, y)),
                         lambda ct, z, x, y: ct * x / (1 + y)),
          tensorflow=slopes(lambda z, x, y: np.where(x == 0, 0, np.log1p(y)),
                            lambda z, x, y: np.where(x == 0, 0, x / (1 + y)))),
    entry("xdivy", lambda x, y: np.where(x == 0, 0, x / y),
          slopes(lambda z, x, y: np.where(x == 0, 0, 1 / y), lambda z, x, y: np.where(x == 0, 0, -z / y)),
          ((1.0, 0.0),), (None, 1.0)),
    # jax.scipy.special.rel_entr is a double where: regular outside its domain.
    entry("rel_entr", scipy_special("rel_entr"),
          pullback(lambda ct, z, p, q: np.where((p > 0) & (q > 0), ct * (np.log(p) + 1) - ct * np.log(q), 0),
                   lambda ct, z, p, q: np.where((p > 0) & (q > 0), ct * (-p / q), 0))),
    entry("i0", scipy_special("i0"), slopes(lambda y, x: scipy_special("i1")(x)), (1000.0,), 0.0,
          # jax.scipy.special.i0 is exp(abs(x)) * i0e(x): inf - inf where it overflows. So is i1.
          jax=pullback(paths(lambda y, x: _outward(x) * i0e(x), lambda y, x: np.exp(np.abs(x)) * _i0e_slope(x)))),
    unary("i0e", i0e, lambda y, x: _i0e_slope(x)),
    entry("i1", scipy_special("i1"),
          slopes(lambda y, x: np.where(np.abs(x) <= TINY, 0.5, scipy_special("i0")(x) - y / x)),
          (1000.0,), 0.0,
          jax=pullback(paths(lambda y, x: _outward(x) * i1e(x),
                             lambda y, x: np.exp(np.abs(x)) * _i1e_slope(i1e(x), x))),
          torch=slopes(lambda y, x: np.where(np.abs(x) > TINY, scipy_special("i0")(x) - y / x, 0.5)),
          # The slope of tf.math.bessel_i1 at 0 is 1 (tensorflow 2.21); it should be 1/2.
          tensorflow=slopes(lambda y, x: np.where(x == 0, 1, scipy_special("i0")(x) - y / x))),
    unary("i1e", i1e, _i1e_slope,
          tensorflow=lambda y, x: np.where(np.abs(x) <= TINY, 0.5, i0e(x) - y * (np.sign(x) + 1 / x))),
)  # fmt: skip
