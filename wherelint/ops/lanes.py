"""Reductions over the few lanes of many probes: column by column, since NumPy spends its time on every short row."""

from functools import reduce
from operator import and_, or_
from typing import Any

from wherelint.ops.catalogue import Array
from wherelint.ops.numeric import np

#: From so many lanes on NumPy adds in another order.
_FEW = 8


def total(x: Any) -> Any:
    """The sum over the lanes, which stay as an axis of length 1; to the last bit as ``np.sum``."""
    lanes = x.shape[-1]
    if x.dtype.kind != "f" or not 0 < lanes < _FEW:
        return np.sum(x, axis=-1, keepdims=True)
    found = x[..., :1] + 0.0  # of nothing but -0.0 it is 0.0
    for lane in range(1, lanes):
        found += x[..., lane : lane + 1]
    return found


def mean(x: Any) -> Any:
    """The mean over the lanes, which stay as an axis of length 1."""
    return total(x) / x.shape[-1]


def some(mask: Array) -> Array:
    """Where a mask holds in some lane; the lanes stay as an axis of length 1."""
    return reduce(or_, columns(mask))


def every(mask: Array) -> Array:
    """Where a mask holds in all lanes; the lanes stay as an axis of length 1."""
    return reduce(and_, columns(mask))


def columns(x: Array) -> list[Array]:
    """The lanes of an array one by one, each as an axis of length 1."""
    return [x[..., lane : lane + 1] for lane in range(x.shape[-1])]
