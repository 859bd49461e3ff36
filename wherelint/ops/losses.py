"""Elementwise losses, before any reduction."""

from typing import Any

from wherelint.ops.catalogue import Array, Operation
from wherelint.ops.elementwise import sigmoid, softplus
from wherelint.ops.entries import entry, paths, pullback, slopes, table, times
from wherelint.ops.numeric import np, special


def _sign(d: Array) -> Any:
    """torch's sign of nan is 0."""
    return np.where(np.isnan(d), 0, np.sign(d))


def _huber(x: Array, y: Array, delta: Array) -> Any:
    d = np.abs(x - y)
    return np.where(d <= delta, 0.5 * d * d, delta * (d - 0.5 * delta))


def _huber_slope(x: Array, y: Array, delta: Array) -> Any:
    d = x - y
    return np.where(np.abs(d) <= delta, d, delta * np.sign(d))


def _smooth_l1(x: Array, y: Array, beta: Array) -> Any:
    d = np.abs(x - y)
    return np.where(d < beta, 0.5 * d * d / np.where(beta == 0, 1, beta), d - 0.5 * beta)


def _smooth_l1_slope(x: Array, y: Array, beta: Array) -> Any:
    d = x - y
    inside = np.where(np.abs(d) >= beta, np.sign(d), d / np.where(beta == 0, 1, beta))
    return np.where(beta == 0, _sign(d), inside)


def _cross_entropy(p: Array, target: Array) -> Any:
    """torch clamps both logarithms at -100, and the denominator of the gradient at 1e-12."""
    return -(target * np.maximum(np.log(p), -100) + (1 - target) * np.maximum(np.log1p(-p), -100))


def _cross_entropy_logits(ct: Array, z: Array, t: Array, x: Array) -> Array:
    """TensorFlow adds relu(x) - x * t and log1p(exp(-abs(x))), by selects."""
    return np.asarray(np.where(x >= 0, ct, 0) - ct * t + np.where(x >= 0, -ct, ct) * sigmoid(-np.abs(x)))


OPERATIONS: dict[str, Operation] = table(
    entry("squared_error", lambda x, y: np.square(x - y),
          slopes(lambda z, x, y: 2 * (x - y), lambda z, x, y: 2 * (y - x))),
    entry("absolute_error", lambda x, y: np.abs(x - y),
          slopes(lambda z, x, y: _sign(x - y), lambda z, x, y: _sign(y - x))),
    entry("huber", _huber, slopes(lambda z, x, y, d: _huber_slope(x, y, d),
                                  lambda z, x, y, d: -_huber_slope(x, y, d), None), numbers=(2,)),
    entry("smooth_l1", _smooth_l1, slopes(lambda z, x, y, b: _smooth_l1_slope(x, y, b),
                                          lambda z, x, y, b: -_smooth_l1_slope(x, y, b), None), numbers=(2,)),
    entry("binary_cross_entropy", _cross_entropy,
          slopes(lambda z, p, t: (p - t) / np.maximum((1 - p) * p, 1e-12), lambda z, p, t: np.log1p(-p) - np.log(p))),
    entry("sigmoid_cross_entropy", lambda x, t: (1 - t) * x + softplus(-x),
          slopes(lambda z, x, t: sigmoid(x) - t, lambda z, x, t: -x)),
    entry("cross_entropy_with_logits", lambda t, x: softplus(x) - x * t,
          pullback(times(lambda z, t, x: -x), _cross_entropy_logits)),
    entry("kl_divergence", lambda x, t: special.xlogy(t, t) - t * x,
          pullback(times(lambda z, x, t: -t),
                   lambda ct, z, x, t: np.where(t == 0, 0, special.xlogy(ct, t)) + ct * t / t - ct * x),
          ((1.0, 0.0), (1.0, -1.0)), (None, 1.0), code="WL109", place="with a zero argument"),
    entry("poisson_nll", lambda x, t: np.exp(x) - t * x,
          pullback(paths(lambda z, x, t: np.exp(x), lambda z, x, t: -t), times(lambda z, x, t: -x)),
          ((1000.0, 1.0),), (0.0, None), code="WL107", place="at an overflow"),
)  # fmt: skip
