"""Arithmetic, roots and powers, selections, comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np

from wherelint.ops.catalogue import Array, Operation
from wherelint.ops.entries import drop, entry, no_vjp, pullback, slopes, table, unary, zero

INF = float("inf")
#: Denominators at which a quotient has no finite slope; the numerator of 0 comes second, because 0 / 0 is nan.
DENOMINATOR = ((1.0, 0.0), (0.0, 0.0), (1.0, -0.0))


def _one(out: Array, *operands: Array) -> Array:
    return np.ones_like(out)


def _share(wins: Any, ties: Any) -> Any:
    """The slope of an operand of maximum and minimum: all of the cotangent, or half of it in a tie."""
    return np.where(ties, 0.5, wins)


def _strictly_less(x: Array, y: Array) -> tuple[Array, Array]:
    return x < y, y < x


def _strictly_greater(x: Array, y: Array) -> tuple[Array, Array]:
    return x > y, y > x


_JAX_MAXIMUM = slopes(lambda z, x, y: _share(x == z, x == y).astype(z.dtype),
                      lambda z, x, y: _share(y == z, x == y).astype(z.dtype))  # fmt: skip


def _where(cond: Array, a: Array, b: Array) -> Array:
    return np.where(cond != 0, a, b)


def _clip(x: Array, lo: Array, hi: Array) -> Array:
    return np.minimum(np.maximum(x, lo), hi)


def _unclipped(x: Array, lo: Array, hi: Array) -> tuple[Array, Array, Array]:
    outside = (x < lo) | (x > hi)
    return outside, ~(x < lo), ~(x > hi)


def _selected(ct: Array, out: Array, cond: Array, a: Array, b: Array) -> tuple[None, Array, Array]:
    return None, np.where(cond != 0, ct, 0), np.where(cond != 0, 0, ct)


def _integer_power(x: Array, n: Array) -> Array:
    return np.asarray(np.power(x, n))


def _power_slope(z: Array, x: Array, n: Array) -> Any:
    return n * np.power(x, n - 1)


def _unless_zero_power(z: Array, x: Array, n: Array) -> Array:
    """The slope in the base where the framework tests for an exponent of 0 (``x ** 0`` does not read x)."""
    return np.where(n == 0, 0, n * np.power(x, n - 1))


def _log_slope(z: Array, x: Array, n: Array) -> Array:
    """JAX: log with zero replaced by one, times the power."""
    return np.log(np.where(x == 0, 1, x)) * z


ROOTS = table(
    unary("sqrt", np.sqrt, lambda y, x: 0.5 / y, "WL101", (0.0, -1.0), 1.0),
    entry("clipped_sqrt", lambda x: np.sqrt(np.maximum(x, 0)),
          pullback(lambda ct, y, x: np.where(x < 0, 0, ct * (0.5 / y))), "WL101", (0.0,), 1.0),
    unary("rsqrt", lambda x: 1 / np.sqrt(x), lambda y, x: -0.5 * y / x, "WL101", (0.0, -1.0), 1.0),
    unary("cbrt", np.cbrt, lambda y, x: 1 / (3 * y * y), "WL101", (0.0,), 1.0),
    unary("square", np.square, lambda y, x: 2 * x),
    unary("reciprocal", np.reciprocal, lambda y, x: -y * y, "WL103", (0.0, -0.0), 1.0),
)

ARITHMETIC = table(
    unary("identity", lambda x: x, _one),
    unary("negative", np.negative, lambda y, x: -_one(y)),
    unary("abs", np.abs, lambda y, x: np.sign(x)),
    unary("zeros_like", np.zeros_like, zero),
    unary("ones_like", np.ones_like, zero),
    unary("sign", np.sign, zero),
    unary("floor", np.floor, zero),
    unary("ceil", np.ceil, zero),
    unary("round", np.round, zero),
    unary("trunc", np.trunc, zero),
    unary("frac", lambda x: x - np.trunc(x), _one),
    unary("deg2rad", np.deg2rad, lambda y, x: np.pi / 180),
    unary("rad2deg", np.rad2deg, lambda y, x: 180 / np.pi),
    entry("add", np.add, slopes(_one, _one)),
    entry("subtract", np.subtract, slopes(_one, lambda z, x, y: -_one(z))),
    entry("reverse_subtract", lambda x, y: y - x, slopes(lambda z, x, y: -_one(z), _one)),
    entry("multiply", np.multiply, slopes(lambda z, x, y: y, lambda z, x, y: x)),
    entry("divide", np.divide, slopes(lambda z, x, y: 1 / y, lambda z, x, y: -z / y),
          "WL103", DENOMINATOR, (None, 1.0)),
    entry("floor_divide", np.floor_divide, slopes(zero, zero)),
    entry("mod", np.mod, slopes(_one, lambda z, x, y: -np.floor(x / y)), "WL103", DENOMINATOR, (None, 1.0)),
    entry("fmod", np.fmod, slopes(_one, lambda z, x, y: -np.trunc(x / y)), "WL103", DENOMINATOR, (None, 1.0)),
    entry("divide_no_nan", lambda x, y: np.where(y == 0, 0, x / y),
          slopes(lambda z, x, y: np.where(y == 0, 0, 1 / y), lambda z, x, y: np.where(y == 0, 0, -z / y))),
    entry("multiply_no_nan", lambda x, y: np.where(y == 0, 0, x * y),
          pullback(drop(lambda z, x, y: y), lambda ct, z, x, y: np.where(ct == 0, 0, ct * x))),
    entry("hypot", np.hypot, slopes(lambda z, x, y: x / z, lambda z, x, y: y / z),
          "WL105", ((0.0, 0.0),), (1.0, None)),
    entry("arctan2", np.arctan2,
          slopes(lambda z, y, x: x / (x * x + y * y), lambda z, y, x: -y / (x * x + y * y)),
          "WL105", ((0.0, 0.0),), (None, 1.0)),
    entry("copysign", np.copysign, slopes(lambda z, x, y: np.sign(x) * np.sign(z), zero)),
    entry("heaviside", np.heaviside, slopes(zero, lambda z, x, y: x == 0)),
    entry("squared_difference", lambda x, y: np.square(x - y),
          slopes(lambda z, x, y: 2 * (x - y), lambda z, x, y: -2 * (x - y))),
    entry("lerp", lambda a, b, w: a + w * (b - a),
          slopes(lambda z, a, b, w: 1 - w, lambda z, a, b, w: w, lambda z, a, b, w: b - a)),
    entry("fma", lambda a, b, c: a * b + c, slopes(lambda z, a, b, c: b, lambda z, a, b, c: a, _one)),
    entry("addcmul", lambda x, a, b, value: x + value * a * b,
          slopes(_one, lambda z, x, a, b, v: v * b, lambda z, x, a, b, v: v * a, None)),
    entry("addcdiv", lambda x, a, b, value: x + value * a / b,
          slopes(_one, lambda z, x, a, b, v: v / b, lambda z, x, a, b, v: -v * (a / b) / b, None),
          "WL103", ((1.0, 1.0, 0.0, 1.0), (1.0, 0.0, 0.0, 1.0)), (None, None, 1.0, None)),
)  # fmt: skip

_ALL_POWERS = ((0.0, 0.5), (0.0, -1.0), (-1.0, 0.5), (0.0, 0.0), (0.0, 1.0))
POWERS = table(
    entry("power", np.power, slopes(_power_slope, _log_slope), "WL106", _ALL_POWERS, (1.0, None),
          unselected=lambda x, n: (n == 0, None)),
    entry("power_static", np.power, slopes(_power_slope, None), "WL106", _ALL_POWERS, (1.0, None),
          unselected=lambda x, n: (n == 0, None)),
    entry("integer_power", _integer_power, slopes(_unless_zero_power, None), "WL106", ((0.0, -1.0), (0.0, -2.0)),
          (1.0, None), unselected=lambda x, n: (n == 0, None)),
)  # fmt: skip

SELECTIONS = table(
    entry("where", _where, _selected, unselected=lambda cond, a, b: (None, cond == 0, cond != 0)),
    entry("maximum", np.maximum, _JAX_MAXIMUM, unselected=_strictly_less),
    entry("minimum", np.minimum, _JAX_MAXIMUM, unselected=_strictly_greater),
    entry("fmax", np.fmax, _JAX_MAXIMUM, unselected=_strictly_less),
    entry("fmin", np.fmin, _JAX_MAXIMUM, unselected=_strictly_greater),
    entry("clip", _clip, pullback(drop(lambda z, x, lo, hi: (x >= lo) & (x <= hi)),
                                  drop(lambda z, x, lo, hi: x < lo), drop(lambda z, x, lo, hi: x > hi)),
          unselected=_unclipped),
    entry("clamp", _clip, pullback(drop(lambda z, x, lo, hi: (x > lo) & (x < hi)),
                                   drop(lambda z, x, lo, hi: x < lo), drop(lambda z, x, lo, hi: x > hi)),
          unselected=_unclipped),
)  # fmt: skip


def _isclose(a: Array, b: Array) -> Array:
    return np.isclose(a, b)


COMPARISONS = table(
    *(entry(function.__name__, function, no_vjp) for function in (
        np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal,
        np.logical_and, np.logical_or, np.logical_xor, np.logical_not,
        np.isnan, np.isinf, np.isfinite, np.signbit, np.isneginf, np.isposinf)),
    entry("isclose", _isclose, no_vjp),
)  # fmt: skip

OPERATIONS: dict[str, Operation] = {**ROOTS, **ARITHMETIC, **POWERS, **SELECTIONS, **COMPARISONS}
