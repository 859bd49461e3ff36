"""Arithmetic, roots and powers, selections, comparisons."""

from typing import Any

from wherelint.ops.catalogue import Array, Domain, Operation
from wherelint.ops.entries import (
    both,
    drop,
    entry,
    lazy,
    minus_one,
    no_vjp,
    one,
    pullback,
    slopes,
    table,
    times,
    unary,
    zeros,
)
from wherelint.ops.numeric import np

#: Denominators at which a quotient has no finite slope; the numerator of 0 comes second, because 0 / 0 is nan.
DENOMINATOR = ((1.0, 0.0), (0.0, 0.0), (1.0, -0.0))

RADICAND = both("{x} != 0", "{x} <= 0", "1.0", name="radicand")
_QUOTIENT: dict[str, Any] = {
    "code": "WL103", "place": "with a zero divisor", "quotient": True,
    "domains": (Domain("{x} != 0", "1.0", ("0.0", 'float("nan")'), 1, "denominator", finite=False),),
}  # fmt: skip
BASE = (
    Domain("({x} != 0) | ({y} != 0)", "1.0", (), name="base"),
    Domain("({x} != 0) | ({y} >= 1)", "1.0", (), name="base"),
    Domain("{x} != 0", "1.0", name="base"),
    Domain("{x} <= 0", "1.0", name="base", exact=False),
)


def _share(wins: Any, ties: Any) -> Any:
    """The slope of an operand of maximum and minimum: all of the cotangent, or half of it in a tie."""
    return np.where(ties, 0.5, wins)


#: Which operands are dropped.
_LESSER: dict[str, Any] = {"unselected": lambda x, y: (x < y, y < x)}
_GREATER: dict[str, Any] = {"unselected": lambda x, y: (x > y, y > x)}
#: JAX multiplies by a mask: a cotangent of inf or nan is not stopped.
_MULTIPLIED_EXTREMUM = slopes(lambda z, x, y: _share(x == z, x == y), lambda z, x, y: _share(y == z, x == y))


def _torch_extremum(loses: Any) -> Any:
    """torch fills the loser's cotangent with zero, and gives both all of it where one operand is nan."""
    return pullback(drop(lambda z, x, y: np.where(loses(x, y), 0, _share(1, x == y))),
                    drop(lambda z, x, y: np.where(loses(y, x), 0, _share(1, x == y))))  # fmt: skip


def _first_if(wins: Any) -> Any:
    """All of the cotangent goes to one operand, by a select."""
    return pullback(lambda ct, z, x, y: np.where(wins(x, y), ct, 0), lambda ct, z, x, y: np.where(wins(x, y), 0, ct))


def _jax_clip(ct: Array, out: Array, x: Array, lo: Array, hi: Array) -> tuple[Array, Array, Array]:
    """jax.numpy.clip is minimum(maximum(x, lo), hi), so that a tie halves the cotangent and a mask is multiplied."""
    inner = np.maximum(x, lo)
    passed = ct * _share(inner == out, inner == hi).astype(ct.dtype)
    return (passed * _share(x == inner, x == lo).astype(ct.dtype),
            passed * _share(lo == inner, x == lo).astype(ct.dtype),
            ct * _share(hi == out, inner == hi).astype(ct.dtype))  # fmt: skip


def _tf_clip(ct: Array, out: Array, x: Array, lo: Array, hi: Array) -> tuple[Array, Array, Array]:
    """tf.clip_by_value is maximum(minimum(x, hi), lo)."""
    passed = np.where(np.minimum(x, hi) >= lo, ct, 0)
    return np.where(x <= hi, passed, 0), np.where(np.minimum(x, hi) >= lo, 0, ct), np.where(x <= hi, 0, passed)


def _hypot_parts(x: Array, y: Array) -> tuple[Array, Array, Any]:
    big, small = np.maximum(np.abs(x), np.abs(y)), np.minimum(np.abs(x), np.abs(y))
    ratio = small / np.where(big == 0, 1, big)
    return big, ratio, np.sqrt(1 + ratio * ratio)


def _jax_hypot(ct: Array, out: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """jax.numpy.hypot scales by the larger operand, and selects around 0 and inf: it is regular at the origin."""
    big, ratio, root = _hypot_parts(x, y)
    ct = np.where(np.isposinf(big), 0, ct)
    inner = np.where(big == 0, 0, ct) * big * (0.5 / root) * (2 * ratio)
    scale = np.where(big == 0, 1, big)
    to_small = inner / scale
    to_big = np.where(big == 0, ct, ct * root) + np.where(big == 0, 0, -inner * ratio / scale)
    tie = np.abs(x) == np.abs(y)

    def share(z: Array) -> Array:
        total = to_big * _share(np.abs(z) == big, tie) + to_small * _share(np.abs(z) != big, tie)
        return np.asarray(np.where(z >= 0, total, -total)).astype(ct.dtype)

    return share(x), share(y)


def _keras_hypot(ct: Array, out: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """keras.ops.hypot (keras 3) takes maximum and minimum of the same pair, which both pick the first in a tie."""
    big, ratio, root = _hypot_parts(x, y)
    inner = ct * big * (0.5 / root) * (2 * ratio)
    to_small = np.where(big == 0, 0, inner / big)
    to_big = ct * root + np.where(big == 0, 0, -inner * ratio / big)
    a, b = np.abs(x), np.abs(y)
    to_first = np.where(a >= b, to_big, 0) + np.where(a <= b, to_small, 0)
    to_second = np.where(a >= b, 0, to_big) + np.where(a <= b, 0, to_small)
    return to_first * np.sign(x), to_second * np.sign(y)


def _jax_mod(ct: Array, z: Array, x: Array, y: Array) -> Array:
    """jax.numpy.mod is a remainder that follows x, and by a select plus y where the signs differ."""
    remainder = np.fmod(x, y)
    return np.asarray(np.where((remainder != 0) & ((remainder < 0) != (y < 0)), ct, 0) - ct * np.trunc(x / y))


def _ratio_or_zero(z: Array, x: Array, y: Array) -> Any:
    return np.where(x == 0, 0, z / np.where(x == 0, 1, x))


def _reciprocal_or_zero(x: Array) -> Any:
    return np.where(x == 0, 0, 1 / x)


def _lerp(a: Array, b: Array, w: Array) -> Any:
    """torch starts from the nearer end."""
    return np.where(np.abs(w) < 0.5, a + w * (b - a), b - (b - a) * (1 - w))


def _clip(x: Array, lo: Array, hi: Array) -> Array:
    return np.minimum(np.maximum(x, lo), hi)


def _unclipped(x: Array, lo: Array, hi: Array) -> tuple[Array, Array, Array]:
    outside = (x < lo) | (x > hi)
    return outside, ~(x < lo), ~(x > hi)


def _power(x: Array, n: Array) -> Array:
    """NumPy takes the root for one exponent of 0.5: nan of -inf, and -0.0 of -0.0."""
    ends = (np.abs(n) == 0.5) & ((x == 0) | np.isneginf(x))
    return np.asarray(np.power(np.where(ends, np.abs(x), x) if ends.any() else x, n))


def _torch_power(x: Array, n: Array) -> Array:
    """torch takes the root for every exponent of 0.5, and divides by it for -0.5."""
    root = np.sqrt(x)
    return np.where(np.abs(n) == 0.5, np.where(n > 0, root, 1 / root), np.power(x, n))


def _power_slope(z: Array, x: Array, n: Array) -> Any:
    return n * np.power(x, n - 1)


def _unless_zero(power: Any) -> Any:
    """The cotangent of the base where the framework tests for an exponent of 0 (``x ** 0`` does not read x)."""
    return lambda ct, z, x, n: np.where(n == 0, 0, ct * (n * power(x, n - 1)))


def _jax_log_slope(z: Array, x: Array, n: Array) -> Any:
    """JAX takes the logarithm with zero replaced by one."""
    return np.log(np.where(x == 0, 1, x)) * z


def _tf_log_slope(z: Array, x: Array, n: Array) -> Any:
    """TensorFlow gives a base outside the domain no logarithm at all."""
    return z * np.where(x > 0, np.log(np.where(x > 0, x, 1)), 0)


ROOTS = table(
    entry("sqrt", np.sqrt, slopes(lambda y, x: 0.5 / y), (0.0, -1.0), 1.0,
          # The eager kernels of SqrtGrad, RsqrtGrad and ReciprocalGrad test for a zero cotangent; XLA's do not.
          tensorflow=pullback(lazy(lambda y, x: 0.5 / y)), xla=slopes(lambda y, x: 0.5 / y),
          code="WL101", place="at 0 or below", domains=RADICAND),
    entry("clipped_sqrt", lambda x: np.sqrt(np.maximum(x, 0)),
          pullback(lambda ct, y, x: np.where(x >= 0, ct * (0.5 / y), 0)), (0.0,), 1.0,
          tensorflow=pullback(lambda ct, y, x: np.where((x >= 0) & (ct != 0), ct * (0.5 / y), 0)),
          xla=pullback(lambda ct, y, x: np.where(x >= 0, ct * (0.5 / y), 0)),
          code="WL101", place="at 0", spoken="sqrt", domains=RADICAND),
    entry("rsqrt", lambda x: 1 / np.sqrt(x), pullback(lambda ct, y, x: -0.5 * ct * y**3), (0.0, -1.0), 1.0,
          jax=slopes(lambda y, x: -0.5 * y / x), xla=slopes(lambda y, x: -0.5 * y**3),
          tensorflow=pullback(lambda ct, y, x: np.where(ct == 0, 0, -0.5 * ct * y**3)),
          code="WL101", place="at 0 or below",
          domains=both("{x} <= 0", "{x} != 0", "1.0", name="radicand", finite=False)),
    unary("cbrt", np.cbrt, lambda y, x: 1 / (3 * y * y), (0.0,), 1.0,
          # keras.ops.cbrt is sign(x) * abs(x) ** (1 / 3).
          tensorflow=lambda y, x: np.sign(x) ** 2 / (3 * y * y),
          code="WL101", place="at 0", domains=(Domain("{x} != 0", "1.0", name="radicand"),)),
    unary("square", np.square, lambda y, x: 2 * x, result="same"),
    entry("reciprocal", np.reciprocal, slopes(lambda y, x: -y * y), (0.0, -0.0), 1.0,
          tensorflow=pullback(lazy(lambda y, x: -y * y)), xla=slopes(lambda y, x: -y * y),
          code="WL103", place="at 0",
          domains=(Domain("{x} != 0", "1.0", name="denominator", finite=False),)),
)  # fmt: skip


def _over_divisor(ct: Array, z: Array, x: Array, y: Array) -> Array:
    """The cotangent divided: a reciprocal would overflow where the divisor is subnormal, and make nan of a zero."""
    return np.asarray(ct / y)


def _zero_if(where: Array, value: Array) -> Array:
    return np.where(where, value.dtype.type(0), value)


ARITHMETIC = table(
    unary("identity", lambda x: x, one, result="same"),
    entry("stop_gradient", lambda x: x, no_vjp),
    unary("negative", np.negative, minus_one, result="same"),
    entry("abs", np.abs, slopes(lambda y, x: np.sign(x)), jax=pullback(lambda ct, y, x: np.where(x >= 0, ct, -ct)),
          torch=slopes(lambda y, x: np.where(np.isnan(x), 0, np.sign(x))), result="same"),
    entry("zeros_like", np.zeros_like, no_vjp, result="same"),
    entry("ones_like", np.ones_like, no_vjp, result="same"),
    entry("full_like", lambda x, value: value + np.zeros_like(x), slopes(None, one), numbers=(1,)),
    # JAX and TensorFlow hand nothing on (TensorFlow's sign apart), so that what comes before is not reached; torch
    # hands on zeros, and a zero times an infinite slope is nan.
    entry("sign", np.sign, pullback(zeros), jax=no_vjp, piecewise=True, result="same",
          forwards={"torch": lambda x: _zero_if(np.isnan(x), np.sign(x))}),
    *(entry(name, getattr(np, name), no_vjp, torch=pullback(zeros), piecewise=True)
      for name in ("floor", "ceil", "round", "trunc")),
    entry("round_away", lambda x: np.where(np.isinf(x), x, np.trunc(x + np.copysign(0.5, x))), no_vjp),
    unary("frac", lambda x: x - np.trunc(x), one),
    unary("deg2rad", np.deg2rad, lambda y, x: np.pi / 180),
    unary("rad2deg", np.rad2deg, lambda y, x: 180 / np.pi),
    entry("add", np.add, slopes(one, one), result="same"),
    entry("subtract", np.subtract, slopes(one, minus_one), result="same"),
    entry("reverse_subtract", lambda x, y: y - x, slopes(minus_one, one)),
    entry("multiply", np.multiply, slopes(lambda z, x, y: y, lambda z, x, y: x), result="same"),
    entry("divide", np.divide, pullback(_over_divisor, times(lambda z, x, y: -z / y)),
          DENOMINATOR, (None, 1.0),
          # Both divide by the square, which underflows and overflows before the quotient does.
          jax=pullback(_over_divisor, lambda ct, z, x, y: -(ct * (1 / (y * y)) * x)),
          xla=pullback(_over_divisor, times(lambda z, x, y: -x / (y * y))), **_QUOTIENT),
    # torch raises: "derivative for aten::floor_divide is not implemented".
    entry("floor_divide", np.floor_divide, no_vjp, result="same"),
    entry("mod", np.mod, slopes(one, lambda z, x, y: -np.floor(x / y)), DENOMINATOR, (None, 1.0),
          jax=pullback(times(one), _jax_mod), torch=slopes(one, lambda z, x, y: -np.floor_divide(x, y)),
          result="same", **_QUOTIENT),
    entry("fmod", np.fmod, slopes(one, lambda z, x, y: -np.trunc(x / y)), DENOMINATOR, (None, 1.0),
          # keras.ops.fmod goes through sign and abs.
          tensorflow=slopes(lambda z, x, y: np.sign(x) ** 2,
                            lambda z, x, y: -np.floor(np.abs(x) / np.abs(y)) * np.sign(x) * np.sign(y)), **_QUOTIENT),
    entry("divide_no_nan", lambda x, y: np.where(y == 0, 0, x / y),
          pullback(lambda ct, z, x, y: np.where(y == 0, 0, ct / y),
                   times(lambda z, x, y: np.where(y == 0, 0, -z / y)))),
    entry("reciprocal_no_nan", _reciprocal_or_zero, slopes(lambda z, x: -z * z)),
    entry("multiply_no_nan", lambda x, y: np.where(y == 0, 0, x * y),
          pullback(drop(lambda z, x, y: y), lambda ct, z, x, y: np.where(ct == 0, 0, ct * x)), selects="multiply"),
    entry("hypot", np.hypot, slopes(lambda z, x, y: x / z, lambda z, x, y: y / z),
          ((0.0, 0.0),), (1.0, None), jax=_jax_hypot, tensorflow=_keras_hypot,
          code="WL105", place="at 0", domains=(Domain("({x} != 0) | ({y} != 0)", "1.0"),)),
    entry("arctan2", np.arctan2,
          slopes(lambda z, y, x: x / (x * x + y * y), lambda z, y, x: -y / (x * x + y * y)),
          ((0.0, 0.0),), (None, 1.0),
          # torch masks the reciprocal of a sum that may have underflowed.
          torch=slopes(lambda z, y, x: x * _reciprocal_or_zero(x * x + y * y),
                       lambda z, y, x: -y * _reciprocal_or_zero(x * x + y * y)),
          code="WL105", place="at (0, 0)", domains=(Domain("({x} != 0) | ({y} != 0)", "1.0", ("0.0",), 1, name="x"),)),
    entry("copysign", np.copysign, pullback(times(_ratio_or_zero), zeros),
          jax=pullback(times(lambda z, x, y: np.where(np.signbit(y), -1, 1) * np.where(x >= 0, 1, -1)), None)),
    entry("heaviside", np.heaviside, pullback(None, drop(lambda z, x, y: x == 0)), torch=no_vjp,
          jax=pullback(drop(lambda z, x, y: np.isnan(x)), drop(lambda z, x, y: x == 0)),
          forwards={"torch": lambda x, y: _zero_if(np.isnan(x), np.heaviside(x, y))}),
    entry("squared_difference", lambda x, y: np.square(x - y),
          slopes(lambda z, x, y: 2 * (x - y), lambda z, x, y: -2 * (x - y))),
    entry("lerp", _lerp,
          slopes(lambda z, a, b, w: 1 - w, lambda z, a, b, w: w, lambda z, a, b, w: b - a)),
    entry("fma", lambda a, b, c: a * b + c, slopes(lambda z, a, b, c: b, lambda z, a, b, c: a, one)),
    entry("addcmul", lambda x, a, b, value: x + value * a * b,
          slopes(one, lambda z, x, a, b, v: v * b, lambda z, x, a, b, v: v * a, None), numbers=(3,)),
    entry("addcdiv", lambda x, a, b, value: x + value * a / b,
          slopes(one, lambda z, x, a, b, v: v / b, lambda z, x, a, b, v: -v * (a / b) / b, None),
          ((1.0, 1.0, 0.0, 1.0), (1.0, 0.0, 0.0, 1.0)), (None, None, 1.0, None),
          code="WL103", place="with a zero divisor", numbers=(3,)),
)  # fmt: skip

_ALL_POWERS = ((0.0, 0.5), (0.0, -1.0), (-1.0, 0.5), (0.0, 0.0), (0.0, 1.0))
POWERS = table(
    entry("power", _power, slopes(_power_slope, _jax_log_slope), _ALL_POWERS, (1.0, None),
          unselected=lambda x, n: (n == 0, None),
          torch=pullback(_unless_zero(np.power),
                         times(lambda z, x, n: np.where((x == 0) & (n >= 0), 0, z * np.log(x)))),
          tensorflow=slopes(_power_slope, _tf_log_slope), code="WL106", place="at 0 or a negative base", domains=BASE),
    entry("power_static", _power, slopes(_power_slope, None), _ALL_POWERS, (1.0, None),
          unselected=lambda x, n: (n == 0, None), torch=pullback(_unless_zero(_torch_power), None),
          forwards={"torch": _torch_power},
          code="WL106", place="at 0 or a negative base", spoken="power", numbers=(1,), domains=BASE),
    entry("integer_power", np.power, pullback(_unless_zero(np.power), None), ((0.0, -1.0), (0.0, -2.0)),
          (1.0, None), unselected=lambda x, n: (n == 0, None), tensorflow=slopes(_power_slope, None),
          code="WL106", place="at 0 with a negative exponent", spoken="power", result="same", numbers=(1,),
          domains=BASE[:3]),
)  # fmt: skip

SELECTIONS = table(
    entry("where", lambda cond, a, b: np.where(cond != 0, a, b),
          pullback(None, lambda ct, z, cond, a, b: np.where(cond != 0, ct, 0),
                   lambda ct, z, cond, a, b: np.where(cond != 0, 0, ct)),
          unselected=lambda cond, a, b: (None, cond == 0, cond != 0),
          selects="where", result="same"),
    entry("maximum", np.maximum, _MULTIPLIED_EXTREMUM, **_LESSER,
          torch=_torch_extremum(np.less), tensorflow=_first_if(np.greater_equal), selects="maximum", result="same"),
    entry("minimum", np.minimum, _MULTIPLIED_EXTREMUM, **_GREATER,
          torch=_torch_extremum(np.greater), tensorflow=_first_if(np.less_equal), selects="minimum", result="same"),
    entry("fmax", np.fmax, _first_if(lambda x, y: (x >= y) | np.isnan(y)), **_LESSER,
          jax=_first_if(lambda x, y: (x > y) | np.isnan(y)), selects="maximum"),
    entry("fmin", np.fmin, _first_if(lambda x, y: (x <= y) | np.isnan(y)), **_GREATER,
          jax=_first_if(lambda x, y: (x < y) | np.isnan(y)), selects="minimum"),
    entry("clamp_min", np.maximum, pullback(drop(lambda z, x, lo: x >= lo), drop(lambda z, x, lo: x < lo)),
          **_LESSER, selects="clip"),
    entry("clamp_max", np.minimum, pullback(drop(lambda z, x, hi: x <= hi), drop(lambda z, x, hi: x > hi)),
          **_GREATER, selects="clip"),
    entry("clip", _clip, pullback(drop(lambda z, x, lo, hi: ~((x < lo) | (x > hi))),
                                  drop(lambda z, x, lo, hi: x < lo), drop(lambda z, x, lo, hi: x > hi)),
          unselected=_unclipped, jax=_jax_clip, tensorflow=_tf_clip,
          torch=pullback(drop(lambda z, x, lo, hi: (x >= lo) & (x <= hi)),
                         drop(lambda z, x, lo, hi: (x < lo) & (lo < hi)),
                         drop(lambda z, x, lo, hi: (x > hi) | (hi < lo))), selects="clip", result="same"),
    entry("clamp", _clip, pullback(drop(lambda z, x, lo, hi: (x > lo) & (x < hi)),
                                   drop(lambda z, x, lo, hi: (x < lo) & (lo < hi)), drop(lambda z, x, lo, hi: x > hi)),
          unselected=_unclipped, selects="clip"),
)  # fmt: skip

COMPARISONS = table(
    *(entry(function.__name__, function, no_vjp, result="bool") for function in (
        np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal,
        np.logical_and, np.logical_or, np.logical_xor, np.logical_not,
        np.isnan, np.isinf, np.isfinite, np.signbit, np.isneginf, np.isposinf, np.isclose)),
)  # fmt: skip

OPERATIONS: dict[str, Operation] = {**ROOTS, **ARITHMETIC, **POWERS, **SELECTIONS, **COMPARISONS}
