"""Operations that combine the lanes: reductions, norms, softmax, running sums and dot products."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from wherelint.ops.catalogue import Array, Domain, Operation, Vjp
from wherelint.ops.entries import Pull, drop, entry, no_vjp, pullback, slopes, table, times
from wherelint.ops.lanes import mean, total
from wherelint.ops.numeric import np


def _over_numbers(function: Callable[..., Any]) -> Callable[[Array], Any]:
    """A reduction that leaves out nan: of nothing but nan it is nan, and NumPy need not warn of that."""

    def forward(x: Array) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return function(x, axis=-1, keepdims=True)

    return forward


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


def _share_of_numbers(y: Array, x: Array) -> Any:
    """One over the number of lanes that are not nan, in those lanes."""
    return np.where(np.isnan(x), 0, 1) / total(~np.isnan(x))


def _keras_nan_extremum(ct: Array, y: Array, x: Array) -> Array:
    return np.where(np.isnan(x), 0, ct * _tf_share_of_ties(y, x).astype(ct.dtype))


def _middle(x: Array) -> Any:
    """For every lane its weight in the median: the middle one, or half of each of the middle two."""
    order = np.argsort(np.argsort(x, axis=-1, kind="stable"), axis=-1, kind="stable")
    high, low = x.shape[-1] // 2, (x.shape[-1] - 1) // 2
    return np.where(order == low, 0.5, 0) + np.where(order == high, 0.5, 0)


def _keras_median(ct: Array, y: Array, x: Array) -> Array:
    """keras.ops.median interpolates between two lanes, also where the weight of the lower one is 0."""
    order = np.argsort(np.argsort(x, axis=-1, kind="stable"), axis=-1, kind="stable")
    high = x.shape[-1] // 2
    return np.where((order == high) | (order == high - 1), ct * _middle(x).astype(ct.dtype), 0)


def _lower_median(x: Array) -> Any:
    middle = (x.shape[-1] - 1) // 2
    return np.where(np.any(np.isnan(x), axis=-1, keepdims=True), np.nan, np.sort(x, axis=-1)[..., middle : middle + 1])


def _torch_prod(ct: Array, y: Array, x: Array) -> Array:
    """torch divides the product by the lane where no lane is 0, and gives zeros where several are."""
    holes = total(x == 0)
    return np.where(holes > 1, 0, ct * np.where(holes == 1, _others(x), y / x))


def _others(x: Array) -> Array:
    """For every lane the product of the other lanes."""
    ones = np.ones_like(x[..., :1])
    left = np.cumprod(np.concatenate([ones, x[..., :-1]], axis=-1), axis=-1)
    right = np.cumprod(np.concatenate([ones, x[..., :0:-1]], axis=-1), axis=-1)[..., ::-1]
    return left * right


def _variances(suffix: str, ddof: int) -> tuple[Operation, Operation]:
    """The variance and the standard deviation with a number of degrees of freedom less than there are lanes."""

    def variance(x: Array) -> Any:
        return total(np.square(x - mean(x))) / (x.shape[-1] - ddof)

    def slope(y: Array, x: Array) -> Any:
        return 2 * (x - mean(x)) / (x.shape[-1] - ddof)

    def pull(ct: Array, x: Array) -> Array:
        """By the chain rule, whose second centring changes nothing but where inf and nan go."""
        squared = ct * slope(x, x)
        return np.asarray(squared - mean(squared))

    root = pullback(lambda ct, y, x: pull(ct * (0.5 / y), x))
    return (
        entry(f"var{suffix}", variance, pullback(lambda ct, y, x: pull(ct, x)), mixes=True, torch=slopes(slope)),
        entry(f"std{suffix}", lambda x: np.sqrt(variance(x)), root, (0.0, 1.0), mixes=True, xla=root,
              # torch masks what it has divided by the standard deviation, so that nothing passes where that is 0.
              torch=pullback(lambda ct, y, x: np.where(y == 0, 0, ct * (0.5 / y)) * slope(y, x)),
              tensorflow=pullback(lambda ct, y, x: pull(_pull_lazy_root(ct, y), x)),
              code="WL108", place="at a constant array", spoken="std"),
    )  # fmt: skip


def _pull_lazy_root(ct: Array, y: Array) -> Array:
    """A square root whose kernel tests for a zero cotangent."""
    return np.where(ct == 0, 0, ct * (0.5 / y))


def norm(x: Array) -> Any:
    """The 2-norm over the lanes."""
    return np.sqrt(total(x * x))


def _logsumexp(x: Array) -> Any:
    top = np.max(x, axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
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


def _torch_cumprod(ct: Array, out: Array, x: Array) -> Array:
    """torch divides by the lanes before the first zero, and gives zeros after it."""
    seen = np.cumsum(x == 0, axis=-1)
    before = _reverse_cumsum(np.where(seen == 0, ct * out, 0)) / np.where(x == 0, 1, x)
    first = (seen == 1) & (x == 0)
    without = np.cumprod(np.where(first, 1, x), axis=-1)
    at_first = total(np.where(seen == 1, ct * without, 0))
    return np.where(seen == 0, before, np.where(first, at_first, 0))


def _logcumsumexp_pull(ct: Array, out: Array, x: Array) -> Array:
    weights = np.exp(x[..., :, None] - out[..., None, :])
    later = np.arange(x.shape[-1])[:, None] <= np.arange(x.shape[-1])[None, :]
    return np.asarray(np.sum(np.where(later, ct[..., None, :] * weights, 0), axis=-1))


def _in_logarithms(add: Any) -> Any:
    """In logarithms, the positive and the negative cotangents apart; a nan is neither."""

    def half(ct: Array, out: Array, x: Array) -> Any:
        logarithm = np.where(ct > 0, np.log(np.where(ct > 0, ct, 1)), np.finfo(ct.dtype).min)
        terms = (logarithm - out)[..., ::-1]
        columns = [terms[..., :1]]
        for lane in range(1, x.shape[-1]):
            columns.append(add(columns[-1], terms[..., lane : lane + 1]))
        return np.exp(np.concatenate(columns, axis=-1)[..., ::-1] + x)

    return pullback(lambda ct, out, x: half(ct, out, x) - half(-ct, out, x))


def _naive_logaddexp(a: Array, b: Array) -> Any:
    """The kernel of TensorFlow, which knows no infinite sum."""
    return np.maximum(a, b) + np.log1p(np.exp(np.minimum(a, b) - np.maximum(a, b)))


def _normalize_pull(ct: Array, out: Array, x: Array, eps: Array) -> Array:
    """F.normalize: x / max(norm, eps), and torch's norm has slope 0 at 0."""
    size = norm(x)
    unit = np.where(size == 0, 0, x / np.where(size == 0, 1, size))
    radial = np.where(size >= eps, total(ct * x) / np.square(np.maximum(size, eps)), 0)
    return np.asarray(ct / np.maximum(size, eps) - unit * radial)


def _l2_normalize_pull(ct: Array, out: Array, x: Array, eps: Array) -> Array:
    size = np.sqrt(np.maximum(total(x * x), eps))
    return np.asarray(ct / size - np.where(total(x * x) >= eps, x * total(ct * x) / size**3, 0))


def _safe_unit(out: Array, x: Array) -> Array:
    """x / norm, and 0 at norm 0: torch masks its norm and standard deviation there."""
    return np.where(out == 0, 0, x / np.where(out == 0, 1, out))


def _norm_slope(y: Array, x: Array) -> Any:
    return 0.5 / y * (2 * x)


def _pull_lazy_norm(ct: Array, y: Array, x: Array) -> Array:
    return np.asarray(_pull_lazy_root(ct, y) * (2 * x))


def _of_difference(pull: Pull) -> Vjp:
    """The VJP with respect to the terms of a difference; what is added to that is a setting."""

    def vjp(ct: Array, out: Array, a: Array, b: Array, *settings: Array) -> tuple[Array | None, ...]:
        found = pull(ct, out, sum(settings, a - b))
        return found, -found, *(None for _ in settings)

    return vjp


_VECTOR: dict[str, Any] = {"code": "WL108", "place": "at the zero vector",
                           "domains": (Domain("{x} != 0", "1.0", name="vector", reduces=True),)}  # fmt: skip

REDUCTIONS = table(
    entry("sum", total, slopes(lambda y, x: np.ones_like(x)), mixes=True, result="same"),
    entry("mean", mean, slopes(lambda y, x: np.ones_like(x) / x.shape[-1]),
          mixes=True),
    entry("prod", lambda x: np.prod(x, axis=-1, keepdims=True), slopes(lambda y, x: _others(x)), mixes=True,
          torch=pullback(_torch_prod), result="same"),
    # XLA turns JAX's product with the mask into a select; TensorFlow divides and multiplies.
    entry("max", lambda x: np.max(x, axis=-1, keepdims=True), pullback(drop(_share_of_ties)), mixes=True,
          torch=pullback(drop(_torch_share_of_ties)), tensorflow=slopes(_tf_share_of_ties), result="same"),
    entry("min", lambda x: np.min(x, axis=-1, keepdims=True), pullback(drop(_share_of_ties)), mixes=True,
          torch=pullback(drop(_torch_share_of_ties)), tensorflow=slopes(_tf_share_of_ties), result="same"),
    # torch.amax multiplies by its mask, torch.max fills with zeros.
    entry("amax", lambda x: np.max(x, axis=-1, keepdims=True), slopes(_tf_share_of_ties), mixes=True),
    entry("amin", lambda x: np.min(x, axis=-1, keepdims=True), slopes(_tf_share_of_ties), mixes=True),
    # Keras selects around a maximum with TensorFlow's product.
    entry("nanmax", _over_numbers(np.nanmax), pullback(drop(_share_of_ties)), mixes=True,
          tensorflow=pullback(_keras_nan_extremum)),
    entry("nanmin", _over_numbers(np.nanmin), pullback(drop(_share_of_ties)), mixes=True,
          tensorflow=pullback(_keras_nan_extremum)),
    # torch multiplies by its mask.
    entry("nansum", _over_numbers(np.nansum), pullback(drop(lambda y, x: ~np.isnan(x))),
          mixes=True, torch=slopes(lambda y, x: ~np.isnan(x))),
    entry("nanmean", _over_numbers(np.nanmean), pullback(drop(_share_of_numbers)), mixes=True,
          torch=slopes(_share_of_numbers)),
    entry("median", lambda x: np.median(x, axis=-1, keepdims=True),
          pullback(drop(lambda y, x: np.where(np.isnan(y), 0, _middle(x)))), mixes=True,
          tensorflow=pullback(_keras_median)),
    entry("median_lower", _lower_median, pullback(drop(_torch_share_of_ties)), mixes=True),
    *(entry(name, partial(getattr(np, name), axis=-1, keepdims=True), no_vjp, mixes=True,
            result="bool" if name in ("any", "all") else "int")
      for name in ("any", "all", "count_nonzero", "argmax", "argmin")),
    entry("allclose", lambda a, b: np.all(np.isclose(a, b), axis=-1, keepdims=True), no_vjp, mixes=True,
          result="bool"),
    entry("logsumexp", _logsumexp, slopes(lambda y, x: np.exp(x - y)), (-float("inf"),), 0.0, mixes=True,
          code="WL102", place="with every element -inf"),
)  # fmt: skip

NORMS = table(
    *_variances("", 0),
    *_variances("_unbiased", 1),
    entry("norm", norm, slopes(_norm_slope), (0.0,), 1.0, mixes=True,
          torch=slopes(_safe_unit), tensorflow=pullback(_pull_lazy_norm), xla=slopes(_norm_slope), **_VECTOR),
    entry("norm1", lambda x: total(np.abs(x)), slopes(lambda y, x: np.sign(x)), mixes=True,
          jax=slopes(lambda y, x: np.where(x >= 0, 1, -1)),
          torch=slopes(lambda y, x: np.where(np.isnan(x), 0, np.sign(x)))),
    entry("norminf", lambda x: np.max(np.abs(x), axis=-1, keepdims=True),
          slopes(lambda y, x: np.where(np.isnan(x), 0, np.sign(x)) * _share_of_ties(y, np.abs(x))), mixes=True,
          jax=pullback(drop(lambda y, x: np.where(x >= 0, 1, -1) * _share_of_ties(y, np.abs(x))))),
    entry("distance", lambda a, b: norm(a - b), _of_difference(times(_norm_slope)),
          ((1.0, 1.0), (0.0, 0.0)), (1.0, 0.0), mixes=True, torch=_of_difference(times(_safe_unit)),
          tensorflow=_of_difference(_pull_lazy_norm), xla=_of_difference(times(_norm_slope)),
          code="WL108", place="at the zero vector"),
    # torch.cdist, of which the backward pass tests for a distance of 0.
    entry("cdist", lambda a, b: norm(a - b), _of_difference(lambda ct, y, d: np.where(y == 0, 0, ct * (d / y))),
          mixes=True),
    entry("pairwise_distance", lambda a, b, eps: norm(a - b + eps), _of_difference(times(_safe_unit)),
          mixes=True, numbers=(2,)),
    entry("euclidean_norm", norm, pullback(lambda ct, y, x: x / (y / ct)), (0.0,), 1.0, mixes=True, spoken="norm",
          **_VECTOR),
    entry("l2_normalize", lambda x, eps: x / np.sqrt(np.maximum(total(x * x), eps)),
          pullback(_l2_normalize_pull, None), mixes=True, numbers=(1,)),
    entry("normalize", lambda x, eps: x / np.maximum(norm(x), eps),
          pullback(_normalize_pull, None), mixes=True, numbers=(1,)),
)  # fmt: skip


def _broadcast_pull(other: int) -> Any:
    def slope(out: Array, *operands: Array) -> Array:
        return operands[other] * np.ones_like(operands[1 - other])

    return times(slope)


def _cosine_pull(ct: Array, x: Array, other: Array, eps: Array) -> Array:
    """torch multiplies the two unit vectors, and its norm has slope 0 at 0."""
    size = np.maximum(norm(x), eps)
    ct = ct * (other / np.maximum(norm(other), eps))
    radial = -total(ct * (x / size) / size)
    return np.asarray(ct / size + radial * _safe_unit(norm(x), x))


PRODUCTS = table(
    entry("dot", lambda a, b: total(a * b), pullback(_broadcast_pull(1), _broadcast_pull(0)), mixes=True),
    entry("linear", lambda x, w, b: total(x * w) + b,
          # A bias of many lanes makes an output of many lanes.
          pullback(lambda ct, y, x, w, b: total(ct) * w * np.ones_like(x),
                   lambda ct, y, x, w, b: total(ct) * x * np.ones_like(w), times(lambda y, x, w, b: np.ones_like(y))),
          mixes=True),
    entry("cosine_similarity",
          lambda a, b, eps: total(a * b) / (np.maximum(norm(a), eps) * np.maximum(norm(b), eps)),
          pullback(lambda ct, y, a, b, eps: _cosine_pull(ct, a, b, eps),
                   lambda ct, y, a, b, eps: _cosine_pull(ct, b, a, eps), None), mixes=True, numbers=(2,)),
)  # fmt: skip

RUNNING = table(
    entry("softmax", _softmax, pullback(lambda ct, y, x: y * (ct - total(ct * y))),
          (-float("inf"),), 0.0, mixes=True, code="WL109", place="with every element -inf"),
    entry("log_softmax", _log_softmax, pullback(lambda ct, y, x: ct - np.exp(y) * total(ct)),
          (-float("inf"),), 0.0, mixes=True, code="WL109", place="with every element -inf"),
    entry("cumsum", lambda x: np.cumsum(x, axis=-1), pullback(lambda ct, y, x: _reverse_cumsum(ct)), mixes=True,
          result="same"),
    entry("cumprod", lambda x: np.cumprod(x, axis=-1), pullback(_cumprod_pull), mixes=True,
          torch=pullback(_torch_cumprod),
          # TensorFlow divides by the lane, and calls the quotient 0 where the lane is 0 (2.21): finite, and wrong.
          tensorflow=pullback(lambda ct, y, x: np.where(x == 0, 0, _reverse_cumsum(ct * y) / np.where(x == 0, 1, x)))),
    entry("logcumsumexp", lambda x: np.logaddexp.accumulate(x, axis=-1), pullback(_logcumsumexp_pull), mixes=True,
          torch=_in_logarithms(np.logaddexp),
          tensorflow=_in_logarithms(_naive_logaddexp), xla=_in_logarithms(np.logaddexp)),
)  # fmt: skip

OPERATIONS: dict[str, Operation] = {**REDUCTIONS, **NORMS, **PRODUCTS, **RUNNING}
