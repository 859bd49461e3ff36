"""Exponentials, logarithms, trigonometry and activations."""

import math
from typing import Any

from wherelint.ops.catalogue import Array, Domain, Operation
from wherelint.ops.entries import both, drop, entry, one, paths, pullback, slopes, table, times, unary
from wherelint.ops.numeric import np

LN2, LN10 = math.log(2), math.log(10)
HUGE = (1000.0, 1e30)
INFINITE = ("0.0", "{inf}", "-{inf}")
OVERFLOW: dict[str, Any] = {"code": "WL107", "place": "at an overflow"}
_EXP = OVERFLOW | {"domains": (Domain("{x} > 80.0", "80.0", (), name="exponent", finite=False, exact=False),)}
_COSH = OVERFLOW | {"domains": (Domain("{abs}({x}) > 80", "80.0", (), name="exponent", finite=False, exact=False),)}
_LOG: dict[str, Any] = {"code": "WL102", "place": "at 0",
                        "domains": both("{x} <= 0", "{x} != 0", "1.0", ("-{inf}", "0.0"), finite=False)}  # fmt: skip


def sigmoid(x: Any) -> Any:
    """The logistic function, without overflow at either end."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


def softplus(x: Any) -> Any:
    """log(1 + exp(x)), without overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _finite(x: Array) -> Any:
    """JAX replaces +inf by 0 in the derivative of logaddexp."""
    return np.where(np.isposinf(x), 0, x)


def _keras_excess(difference: Array) -> Any:
    """keras.ops.logaddexp is maximum + log1p(exp(-abs)): in a tie the maximum picks the first and abs has no slope."""
    return np.sign(difference) * sigmoid(-np.abs(difference))


EXPONENTIALS = table(
    unary("exp", np.exp, lambda y, x: y, HUGE, 0.0, **_EXP),
    unary("exp2", np.exp2, lambda y, x: LN2 * y, HUGE, 0.0, **_EXP),
    unary("expm1", np.expm1, lambda y, x: y + 1, HUGE, 0.0, **_EXP),
    unary("sinh", np.sinh, lambda y, x: np.cosh(x), (*HUGE, -1000.0), 0.0, **_COSH),
    unary("cosh", np.cosh, lambda y, x: np.sinh(x), (*HUGE, -1000.0), 0.0, **_COSH),
    entry("log", np.log, pullback(lambda ct, y, x: ct / x), (0.0, -1.0), 1.0,
          tensorflow=slopes(lambda y, x: 1 / x), **_LOG),
    unary("log2", np.log2, lambda y, x: 1 / (x * LN2), (0.0, -1.0), 1.0, **_LOG),
    unary("log10", np.log10, lambda y, x: 1 / (x * LN10), (0.0, -1.0), 1.0, **_LOG),
    unary("log1p", np.log1p, lambda y, x: 1 / (x + 1), (-1.0, -2.0), 0.0,
          code="WL102", place="at -1",
          domains=both("{x} <= -1", "{x} != -1", "0.0", ("-{inf}",), finite=False)),
    unary("log1mexp", lambda x: np.log(-np.expm1(-x)), lambda y, x: 1 / np.expm1(x), (0.0,), 1.0,
          code="WL102", place="at 0", domains=(Domain("{x} <= 0", "1.0", INFINITE, finite=False),)),
    entry("logaddexp", np.logaddexp, slopes(lambda z, x, y: sigmoid(x - y), lambda z, x, y: sigmoid(y - x)),
          jax=slopes(lambda z, x, y: np.exp(_finite(x) - _finite(z)), lambda z, x, y: np.exp(_finite(y) - _finite(z))),
          tensorflow=pullback(lambda ct, z, x, y: np.where(x >= y, ct, 0) - ct * _keras_excess(x - y),
                              lambda ct, z, x, y: np.where(x >= y, 0, ct) + ct * _keras_excess(x - y))),
    entry("logaddexp2", np.logaddexp2,
          slopes(lambda z, x, y: sigmoid((x - y) * LN2), lambda z, x, y: sigmoid((y - x) * LN2)),
          jax=slopes(lambda z, x, y: np.exp2(_finite(x) - _finite(z)),
                     lambda z, x, y: np.exp2(_finite(y) - _finite(z))),
          tensorflow=pullback(lambda ct, z, x, y: np.where(x >= y, ct, 0) - ct * _keras_excess((x - y) * LN2),
                              lambda ct, z, x, y: np.where(x >= y, 0, ct) + ct * _keras_excess((x - y) * LN2))),
)  # fmt: skip


def _rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)


def _jax_tanh(ct: Array, y: Array, x: Array) -> Array:
    """JAX factors 1 - y**2."""
    return np.asarray((ct + ct * y) * (1 - y))


_sinc_quotient = paths(lambda y, x: np.cos(np.pi * x) / x, lambda y, x: -y / x)

TRIGONOMETRY = table(
    unary("sin", np.sin, lambda y, x: np.cos(x)),
    unary("cos", np.cos, lambda y, x: -np.sin(x)),
    unary("tan", np.tan, lambda y, x: 1 + y * y),
    entry("tanh", np.tanh, slopes(lambda y, x: 1 - y * y), jax=pullback(_jax_tanh)),
    unary("arcsin", np.arcsin, lambda y, x: _rsqrt(1 - x * x), (1.0, -1.0, 2.0), 0.0,
          code="WL104", place="at the edge of its domain",
          domains=(Domain("{abs}({x}) >= 1", "0.0", (), name="sine"),)),
    unary("arccos", np.arccos, lambda y, x: -_rsqrt(1 - x * x), (1.0, -1.0, 2.0), 0.0,
          code="WL104", place="at the edge of its domain",
          domains=(Domain("{abs}({x}) >= 1", "0.0", (), name="cosine"),)),
    unary("arctan", np.arctan, lambda y, x: 1 / (1 + x * x)),
    unary("arcsinh", np.arcsinh, lambda y, x: _rsqrt(x * x + 1)),
    unary("arccosh", np.arccosh, lambda y, x: _rsqrt(x * x - 1), (1.0, 0.0), 2.0,
          tensorflow=lambda y, x: 1 / np.sinh(y),
          code="WL104", place="at the edge of its domain", domains=(Domain("{x} <= 1", "2.0"),)),
    unary("arctanh", np.arctanh, lambda y, x: 1 / (1 - x * x), (1.0, -1.0, 2.0), 0.0,
          code="WL104", place="at the edge of its domain",
          domains=(Domain("{abs}({x}) >= 1", "0.0", (), finite=False),)),
    entry("sinc", np.sinc, pullback(lambda ct, y, x: np.where(x == 0, 0, ct * ((np.cos(np.pi * x) - y) / x))),
          jax=pullback(lambda ct, y, x: np.where(x == 0, 0 * ct, _sinc_quotient(ct, y, x))),
          # keras.ops.sinc (keras 3) selects around sin(pi x) / (pi x), which is the very bug that wherelint finds.
          tensorflow=pullback(_sinc_quotient)),
)  # fmt: skip

GELU_SCALE = math.sqrt(2 / math.pi)


def _gelu_tanh(x: Array) -> Any:
    return np.tanh(GELU_SCALE * (x + 0.044715 * x**3))


def _gelu_tanh_inner(y: Array, x: Array) -> Any:
    t = _gelu_tanh(x)
    return 0.5 * x * (1 - t * t) * GELU_SCALE * (1 + 3 * 0.044715 * x * x)


def _hard_sigmoid(x: Array) -> Any:
    return np.clip(x + 3, 0, 6) / 6


def _hard_sigmoid_slope(x: Array) -> Any:
    return np.where((x > -3) & (x < 3), 1 / 6, 0)


def _hard_silu_product(ct: Array, y: Array, x: Array) -> Array:
    """x * hard_sigmoid(x), where hard_sigmoid selects."""
    return np.asarray(ct * _hard_sigmoid(x) + np.where((x > -3) & (x < 3), ct * x / 6, 0))


SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def _mish_slope(y: Array, x: Array) -> Any:
    t = np.tanh(softplus(x))
    return t + x * sigmoid(x) * (1 - t * t)


def _jax_mish(ct: Array, y: Array, x: Array) -> Array:
    t = np.tanh(softplus(x))
    return np.asarray(ct * t + _jax_tanh(ct * x, t, x) * sigmoid(x))


ACTIVATIONS = table(
    unary("sigmoid", sigmoid, lambda y, x: y * (1 - y)),
    unary("log_sigmoid", lambda x: -softplus(-x), lambda y, x: sigmoid(-x)),
    unary("softplus", softplus, lambda y, x: sigmoid(x)),
    entry("softplus_threshold",
          lambda x, beta, threshold: np.where(x * beta > threshold, x, softplus(x * beta) / beta),
          slopes(lambda y, x, beta, threshold: np.where(x * beta > threshold, 1, sigmoid(x * beta)), None, None),
          numbers=(1, 2)),
    entry("softsign", lambda x: x / (1 + np.abs(x)),
          pullback(paths(lambda y, x: 1 / (1 + np.abs(x)), lambda y, x: -np.abs(y) / (1 + np.abs(x)))),
          tensorflow=slopes(lambda y, x: 1 / np.square(1 + np.abs(x)))),
    entry("squareplus", lambda x: 0.5 * (x + np.sqrt(x * x + 4)),
          pullback(paths(lambda y, x: 0.5, lambda y, x: 0.5 * x / np.sqrt(x * x + 4)))),
    entry("silu", lambda x: x * sigmoid(x), slopes(lambda y, x: sigmoid(x) * (1 + x * (1 - sigmoid(x)))),
          jax=pullback(paths(lambda y, x: sigmoid(x), lambda y, x: x * (sigmoid(x) * (1 - sigmoid(x)))))),
    entry("mish", lambda x: x * np.tanh(softplus(x)), slopes(_mish_slope), jax=pullback(_jax_mish)),
    entry("gelu_tanh", lambda x: 0.5 * x * (1 + _gelu_tanh(x)),
          pullback(paths(lambda y, x: 0.5 * (1 + _gelu_tanh(x)), _gelu_tanh_inner))),
    # JAX and XLA select; torch too, and lets a nan pass; TensorFlow's eager kernel multiplies by a mask.
    entry("relu", lambda x: np.maximum(x, 0), pullback(drop(lambda y, x: x > 0)), unselected=lambda x: (x < 0,),
          torch=pullback(drop(lambda y, x: ~(x <= 0))), tensorflow=slopes(lambda y, x: x > 0),
          xla=pullback(drop(lambda y, x: x > 0)), selects="relu"),
    entry("relu6", lambda x: np.clip(x, 0, 6), pullback(drop(lambda y, x: (x > 0) & (x < 6))),
          unselected=lambda x: ((x < 0) | (x > 6),),
          torch=pullback(drop(lambda y, x: ~((x <= 0) | (x >= 6)))), tensorflow=slopes(lambda y, x: (x > 0) & (x < 6)),
          xla=pullback(drop(lambda y, x: (x > 0) & (x < 6))), selects="relu6"),
    entry("hard_tanh", lambda x, lo, hi: np.minimum(np.maximum(x, lo), hi),
          pullback(drop(lambda y, x, lo, hi: ~((x < lo) | (x > hi))), None, None),
          unselected=lambda x, lo, hi: ((x < lo) | (x > hi), None, None),
          torch=pullback(drop(lambda y, x, lo, hi: ~((x <= lo) | (x >= hi))), None, None),
          selects="clip", numbers=(1, 2)),
    entry("hard_sigmoid", _hard_sigmoid, pullback(drop(lambda y, x: _hard_sigmoid_slope(x))),
          unselected=lambda x: ((x < -3) | (x > 3),),
          tensorflow=slopes(lambda y, x: _hard_sigmoid_slope(x)),
          xla=pullback(drop(lambda y, x: _hard_sigmoid_slope(x))), selects="clip"),
    entry("hard_silu", lambda x: x * _hard_sigmoid(x), pullback(_hard_silu_product), xla=pullback(_hard_silu_product),
          unselected=lambda x: (x < -3,),
          torch=pullback(lambda ct, y, x: np.where(
              x <= -3, 0, ct * (_hard_sigmoid(x) + np.where((x > -3) & (x < 3), x / 6, 0)))),
          tensorflow=pullback(paths(lambda y, x: _hard_sigmoid(x), lambda y, x: x * _hard_sigmoid_slope(x))),
          selects="clip"),
    entry("leaky_relu", lambda x, slope: np.where(x >= 0, x, slope * x),
          slopes(lambda y, x, slope: np.where(x > 0, 1, slope), None),
          jax=slopes(lambda y, x, slope: np.where(x >= 0, 1, slope), None), numbers=(1,)),
    entry("prelu", lambda x, slope: np.where(x > 0, x, slope * x),
          pullback(times(lambda y, x, slope: np.where(x > 0, 1, slope)),
                   lambda ct, y, x, slope: np.where(x > 0, 0, ct * x))),
    entry("elu", lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
          slopes(lambda y, x, alpha: np.where(x <= 0, alpha * np.exp(np.minimum(x, 0)), 1), None),
          jax=slopes(lambda y, x, alpha: np.where(x > 0, 1, alpha * np.exp(np.minimum(x, 0))), None), numbers=(1,)),
    entry("celu", lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / alpha)),
          slopes(lambda y, x, alpha: np.where(x <= 0, np.exp(np.minimum(x, 0) / alpha), 1), None),
          # jax.nn.celu adds a maximum and a minimum, each with its mask.
          jax=pullback(paths(lambda y, x, alpha: np.where(x == 0, 0.5, x > 0),
                             lambda y, x, alpha: np.where(x == 0, 0.5, x < 0) * np.exp(np.minimum(x, 0) / alpha)),
                       None),
          # keras.ops.celu too, but its pair both pass the cotangent at 0 and drop it at nan.
          tensorflow=pullback(lambda ct, y, x, alpha: np.where(x >= 0, ct, 0)
                              + np.where(x <= 0, ct * np.exp(np.minimum(x, 0) / alpha), 0), None), numbers=(1,)),
    unary("selu", lambda x: SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(np.minimum(x, 0))),
          lambda y, x: SELU_SCALE * np.where(x > 0, 1, SELU_ALPHA * np.exp(np.minimum(x, 0))),
          torch=lambda y, x: SELU_SCALE * np.where(x <= 0, SELU_ALPHA * np.exp(np.minimum(x, 0)), 1),
          tensorflow=lambda y, x: SELU_SCALE * np.where(np.exp(x) < 1, SELU_ALPHA * np.exp(np.minimum(x, 0)), 1),
          xla=lambda y, x: SELU_SCALE * np.where(x > 0, 1, SELU_ALPHA * np.exp(np.minimum(x, 0)))),
    entry("tanhshrink", lambda x: x - np.tanh(x), pullback(paths(one, lambda y, x: np.square(np.tanh(x)) - 1))),
    entry("softshrink", lambda x, lam: np.where(x > lam, x - lam, np.where(x < -lam, x + lam, 0)),
          pullback(drop(lambda y, x, lam: ~(np.abs(x) <= lam)), None),
          unselected=lambda x, lam: (np.abs(x) <= lam, None), selects="clip", numbers=(1,)),
    entry("hardshrink", lambda x, lam: np.where(np.abs(x) <= lam, 0, x),
          pullback(drop(lambda y, x, lam: ~(np.abs(x) <= lam)), None),
          unselected=lambda x, lam: (np.abs(x) <= lam, None), selects="clip", numbers=(1,)),
    entry("threshold", lambda x, at, value: np.where(x <= at, value, x),
          pullback(drop(lambda y, x, at, value: ~(x <= at)), None, None),
          unselected=lambda x, at, value: (x <= at, None, None), selects="threshold", numbers=(1, 2)),
)  # fmt: skip

OPERATIONS: dict[str, Operation] = {**EXPONENTIALS, **TRIGONOMETRY, **ACTIVATIONS}
