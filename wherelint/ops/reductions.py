"""Operations that combine the lanes: reductions, norms, softmax, running sums and dot products."""

from __future__ import annotations

from typing import Any

import numpy as np

from wherelint.ops.catalogue import Array, Operation
from wherelint.ops.entries import drop, entry, no_vjp, pullback, slopes, table, times


def total(x: Any) -> Any:
    """The sum over the lanes, which stay as an axis of length 1."""
    return np.sum(x, axis=-1, keepdims=True)


def _share_of_ties(y: Array, x: Array) -> Any:
    """Where the lane is the extremum, one over the number of lanes that are; 0 elsewhere, and everywhere for a nan."""
    hit = x == y
    return np.where(hit, 1 / np.maximum(total(hit), 1), 0)


def _torch_share_of_ties(y: Array, x: Array) -> Any:
    """torch finds the nan, too."""
    hit = (x == y) | (np.isnan(x) & np.isnan(y))
    return np.where(hit, 1 / np.maximum(total(hit), 1), 0)


def _tf_share_of_ties(y: Array, x: Array) -> Any:
    hit = x == y
    return np.where(hit, 1, 0) / total(hit)


def _middle(x: Array) -> Any:
    """For every lane its weight in the median: the middle one, or half of each of the middle two."""
    order = np.argsort(np.argsort(x, axis=-1, kind="stable"), axis=-1, kind="stable")
    high, low = x.shape[-1] // 2, (x.shape[-1] - 1) // 2
    return np.where(order == low, 0.5, 0) + np.where(order == high, 0.5, 0)


def _lower_median(x: Array) -> Any:
    middle = (x.shape[-1] - 1) // 2
    return np.where(np.any(np.isnan(x), axis=-1, keepdims=True), np.nan, np.sort(x, axis=-1)[..., middle : middle + 1])


def _torch_prod_slope(y: Array, x: Array) -> Any:
    """torch divides the product by the lane where no lane is 0."""
    return np.where(np.any(x == 0, axis=-1, keepdims=True), _others(x), y / x)


def _others(x: Array) -> Array:
    """For every lane the product of the other lanes."""
    ones = np.ones_like(x[..., :1])
    left = np.cumprod(np.concatenate([ones, x[..., :-1]], axis=-1), axis=-1)
    right = np.cumprod(np.concatenate([ones, x[..., :0:-1]], axis=-1), axis=-1)[..., ::-1]
    return left * right


def _variance(x: Array, ddof: int) -> Any:
    return total(np.square(x - np.mean(x, axis=-1, keepdims=True))) / (x.shape[-1] - ddof)


def _plain_deviation_slope(x: Array, ddof: int) -> Any:
    return 2 * (x - np.mean(x, axis=-1, keepdims=True)) / (x.shape[-1] - ddof)


def _deviation_slope(x: Array, ddof: int) -> Any:
    """The slope by the chain rule, whose second centring changes nothing but where nan goes."""
    centred = _plain_deviation_slope(x, ddof)
    return centred - np.mean(centred, axis=-1, keepdims=True)


def _lazy_root(slope: Any) -> Any:
    """A square root whose kernel tests for a zero cotangent, over a sum of squares of the given slope."""
    return pullback(lambda ct, y, x: np.where(ct == 0, 0, ct * (0.5 / y)) * slope(x))


def norm(x: Array) -> Any:
    """The 2-norm over the lanes."""
    return np.sqrt(total(x * x))


def _finite_maximum(x: Array) -> Any:
    top = np.max(x, axis=-1, keepdims=True)
    return np.where(np.isfinite(top), top, 0)


def _logsumexp(x: Array) -> Any:
    top = _finite_maximum(x)
    return np.log(total(np.exp(x - top))) + top


def _softmax(x: Array) -> Any:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / total(e)


def _log_softmax(x: Array) -> Any:
    shifted = x - np.max(x, axis=-1, keepdims=True)
    return shifted - np.log(total(np.exp(shifted)))


def _reverse_cumsum(x: Any) -> Any:
    return np.cumsum(x[..., ::-1], axis=-1)[..., ::-1]


def _cumprod_pull(ct: Array, out: Array, x: Array) -> Array:
    """Sum over later outputs of the product without this lane, written without a division by it."""
    columns = [np.zeros_like(out[..., :1]) + 0 * x[..., :1]] * x.shape[-1]
    for lane in range(x.shape[-1]):
        without = np.cumprod(np.where(np.arange(x.shape[-1]) == lane, 1, x), axis=-1)
        columns[lane] = np.sum((ct * without)[..., lane:], axis=-1, keepdims=True)
    return np.concatenate(columns, axis=-1)


def _logcumsumexp_pull(ct: Array, out: Array, x: Array) -> Array:
    weights = np.exp(x[..., :, None] - out[..., None, :])
    later = np.arange(x.shape[-1])[:, None] <= np.arange(x.shape[-1])[None, :]
    return np.asarray(np.sum(np.where(later, ct[..., None, :] * weights, 0), axis=-1))


def _normalize(x: Array, eps: Array) -> Any:
    return x / np.maximum(norm(x), eps)


def _normalize_pull(ct: Array, out: Array, x: Array, eps: Array) -> Array:
    """F.normalize: x / max(norm, eps), and torch's norm has slope 0 at 0."""
    size = norm(x)
    unit = np.where(size == 0, 0, x / np.where(size == 0, 1, size))
    radial = np.where(size >= eps, total(ct * x) / np.square(np.maximum(size, eps)), 0)
    return np.asarray(ct / np.maximum(size, eps) - unit * radial)


def _l2_normalize(x: Array, eps: Array) -> Any:
    return x / np.sqrt(np.maximum(total(x * x), eps))


def _l2_normalize_pull(ct: Array, out: Array, x: Array, eps: Array) -> Array:
    size = np.sqrt(np.maximum(total(x * x), eps))
    return np.asarray(ct / size - np.where(total(x * x) >= eps, x * total(ct * x) / size**3, 0))


def _safe_unit(out: Array, x: Array) -> Array:
    """x / norm, and 0 at norm 0: torch masks its norm and standard deviation there."""
    return np.where(out == 0, 0, x / np.where(out == 0, 1, out))


REDUCTIONS = table(
    entry("sum", total, slopes(lambda y, x: np.ones_like(x)), mixes=True),
    entry("mean", lambda x: np.mean(x, axis=-1, keepdims=True), slopes(lambda y, x: np.ones_like(x) / x.shape[-1]),
          mixes=True),
    entry("prod", lambda x: np.prod(x, axis=-1, keepdims=True), slopes(lambda y, x: _others(x)), mixes=True,
          torch=slopes(_torch_prod_slope)),
    # XLA turns JAX's product with the mask into a select; TensorFlow divides and multiplies.
    entry("max", lambda x: np.max(x, axis=-1, keepdims=True), pullback(drop(_share_of_ties)), mixes=True,
          torch=pullback(drop(_torch_share_of_ties)), tensorflow=slopes(_tf_share_of_ties)),
    entry("min", lambda x: np.min(x, axis=-1, keepdims=True), pullback(drop(_share_of_ties)), mixes=True,
          torch=pullback(drop(_torch_share_of_ties)), tensorflow=slopes(_tf_share_of_ties)),
    # torch.amax multiplies by its mask, torch.max fills with zeros.
    entry("amax", lambda x: np.max(x, axis=-1, keepdims=True), slopes(_tf_share_of_ties), mixes=True),
    entry("amin", lambda x: np.min(x, axis=-1, keepdims=True), slopes(_tf_share_of_ties), mixes=True),
    entry("nanmax", lambda x: np.nanmax(x, axis=-1, keepdims=True), pullback(drop(_share_of_ties)), mixes=True),
    entry("nanmin", lambda x: np.nanmin(x, axis=-1, keepdims=True), pullback(drop(_share_of_ties)), mixes=True),
    entry("nansum", lambda x: np.nansum(x, axis=-1, keepdims=True), slopes(lambda y, x: ~np.isnan(x)), mixes=True),
    entry("nanmean", lambda x: np.nanmean(x, axis=-1, keepdims=True),
          slopes(lambda y, x: np.where(np.isnan(x), 0, 1) / np.asarray(total(~np.isnan(x))).astype(y.dtype)),
          mixes=True),
    entry("median", lambda x: np.median(x, axis=-1, keepdims=True),
          pullback(drop(lambda y, x: np.where(np.isnan(y), 0, _middle(x)))), mixes=True),
    entry("median_lower", _lower_median, pullback(drop(_torch_share_of_ties)), mixes=True),
    entry("any", lambda x: np.any(x, axis=-1, keepdims=True), no_vjp, mixes=True),
    entry("all", lambda x: np.all(x, axis=-1, keepdims=True), no_vjp, mixes=True),
    entry("count_nonzero", lambda x: np.count_nonzero(x, axis=-1, keepdims=True), no_vjp, mixes=True),
    entry("argmax", lambda x: np.argmax(x, axis=-1, keepdims=True), no_vjp, mixes=True),
    entry("argmin", lambda x: np.argmin(x, axis=-1, keepdims=True), no_vjp, mixes=True),
    entry("allclose", lambda a, b: np.all(np.isclose(a, b), axis=-1, keepdims=True), no_vjp, mixes=True),
    entry("logsumexp", _logsumexp, slopes(lambda y, x: np.exp(x - y)), "WL102", (-float("inf"),), 0.0, mixes=True),
)  # fmt: skip

NORMS = table(
    entry("var", lambda x: _variance(x, 0), slopes(lambda y, x: _deviation_slope(x, 0)), mixes=True,
          torch=slopes(lambda y, x: _plain_deviation_slope(x, 0))),
    entry("var_unbiased", lambda x: _variance(x, 1), slopes(lambda y, x: _deviation_slope(x, 1)), mixes=True,
          torch=slopes(lambda y, x: _plain_deviation_slope(x, 1))),
    entry("std", lambda x: np.sqrt(_variance(x, 0)), slopes(lambda y, x: 0.5 / y * _deviation_slope(x, 0)),
          "WL108", (0.0, 1.0), mixes=True,
          torch=slopes(lambda y, x: 0.5 * _safe_unit(y, _deviation_slope(x, 0))),
          tensorflow=_lazy_root(lambda x: _deviation_slope(x, 0)),
          xla=slopes(lambda y, x: 0.5 / y * _deviation_slope(x, 0))),
    entry("std_unbiased", lambda x: np.sqrt(_variance(x, 1)), slopes(lambda y, x: 0.5 / y * _deviation_slope(x, 1)),
          "WL108", (0.0, 1.0), mixes=True,
          torch=slopes(lambda y, x: 0.5 * _safe_unit(y, _deviation_slope(x, 1)))),
    entry("norm", norm, slopes(lambda y, x: 0.5 / y * (2 * x)), "WL108", (0.0,), 1.0, mixes=True,
          torch=slopes(_safe_unit), tensorflow=_lazy_root(lambda x: 2 * x), xla=slopes(lambda y, x: 0.5 / y * (2 * x))),
    entry("norm1", lambda x: total(np.abs(x)), slopes(lambda y, x: np.sign(x)), mixes=True,
          jax=slopes(lambda y, x: np.where(x >= 0, 1, -1)),
          torch=slopes(lambda y, x: np.where(np.isnan(x), 0, np.sign(x)))),
    entry("norminf", lambda x: np.max(np.abs(x), axis=-1, keepdims=True),
          slopes(lambda y, x: np.where(np.isnan(x), 0, np.sign(x)) * _share_of_ties(y, np.abs(x))), mixes=True,
          jax=slopes(lambda y, x: np.where(x >= 0, 1, -1) * _share_of_ties(y, np.abs(x)))),
    entry("distance", lambda a, b: norm(a - b),
          slopes(lambda y, a, b: 0.5 / y * (2 * (a - b)), lambda y, a, b: -0.5 / y * (2 * (a - b))),
          "WL108", ((1.0, 1.0), (0.0, 0.0)), (1.0, 0.0), mixes=True,
          torch=slopes(lambda y, a, b: _safe_unit(y, a - b), lambda y, a, b: -_safe_unit(y, a - b)),
          tensorflow=pullback(lambda ct, y, a, b: np.where(ct == 0, 0, ct * (0.5 / y)) * (2 * (a - b)),
                              lambda ct, y, a, b: np.where(ct == 0, 0, ct * (-0.5 / y)) * (2 * (a - b))),
          xla=slopes(lambda y, a, b: 0.5 / y * (2 * (a - b)), lambda y, a, b: -0.5 / y * (2 * (a - b)))),
    entry("pairwise_distance", lambda a, b, eps: norm(a - b + eps),
          slopes(lambda y, a, b, eps: _safe_unit(y, a - b + eps), lambda y, a, b, eps: -_safe_unit(y, a - b + eps),
                 None), mixes=True),
    entry("euclidean_norm", norm, pullback(lambda ct, y, x: x / (y / ct)), "WL108", (0.0,), 1.0, mixes=True),
    entry("l2_normalize", _l2_normalize, pullback(_l2_normalize_pull, None), mixes=True),
    entry("normalize", _normalize, pullback(_normalize_pull, None), mixes=True),
)  # fmt: skip


def _broadcast_pull(other: int) -> Any:
    def slope(out: Array, *operands: Array) -> Array:
        return operands[other] * np.ones_like(operands[1 - other])

    return times(slope)


def _cosine(a: Array, b: Array, eps: Array) -> Any:
    return total(a * b) / (np.maximum(norm(a), eps) * np.maximum(norm(b), eps))


def _cosine_slope(out: Array, x: Array, other: Array, eps: Array) -> Array:
    mine, theirs = np.maximum(norm(x), eps), np.maximum(norm(other), eps)
    return np.asarray(other / (mine * theirs) - np.where(norm(x) >= eps, out * x / (mine * mine), 0))


PRODUCTS = table(
    entry("dot", lambda a, b: total(a * b), pullback(_broadcast_pull(1), _broadcast_pull(0)), mixes=True),
    entry("linear", lambda x, w, b: total(x * w) + b,
          # A bias of many lanes makes an output of many lanes.
          pullback(lambda ct, y, x, w, b: total(ct) * w * np.ones_like(x),
                   lambda ct, y, x, w, b: total(ct) * x * np.ones_like(w), times(lambda y, x, w, b: np.ones_like(y))),
          mixes=True),
    entry("cosine_similarity", _cosine,
          slopes(lambda y, a, b, eps: _cosine_slope(y, a, b, eps), lambda y, a, b, eps: _cosine_slope(y, b, a, eps),
                 None), mixes=True),
)  # fmt: skip

RUNNING = table(
    entry("softmax", _softmax, pullback(lambda ct, y, x: y * (ct - total(ct * y))),
          "WL109", (-float("inf"),), 0.0, mixes=True),
    entry("log_softmax", _log_softmax, pullback(lambda ct, y, x: ct - np.exp(y) * total(ct)),
          "WL109", (-float("inf"),), 0.0, mixes=True),
    entry("cumsum", lambda x: np.cumsum(x, axis=-1), pullback(lambda ct, y, x: _reverse_cumsum(ct)), mixes=True),
    entry("cumprod", lambda x: np.cumprod(x, axis=-1), pullback(_cumprod_pull), mixes=True,
          # TensorFlow divides by the lane, and calls the quotient 0 where the lane is 0 (2.21): finite, and wrong.
          tensorflow=pullback(lambda ct, y, x: np.where(x == 0, 0, _reverse_cumsum(ct * y) / np.where(x == 0, 1, x)))),
    entry("logcumsumexp", lambda x: np.logaddexp.accumulate(x, axis=-1), pullback(_logcumsumexp_pull), mixes=True),
)  # fmt: skip

OPERATIONS: dict[str, Operation] = {**REDUCTIONS, **NORMS, **PRODUCTS, **RUNNING}
