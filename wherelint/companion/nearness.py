"""By how much the operands of an operation miss the points at which its derivative is lost.

Written for torch and JAX alike: ``xp`` is ``torch`` or ``jax.numpy``.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

import numpy as np

from wherelint.ops import OPERATIONS

#: So far an operand is moved away from a point.
_STEP = 0.3


@dataclass(frozen=True)
class Edge:
    """One such point: the operands that matter there, with their numbers; whether all is lost below, or above."""

    targets: tuple[tuple[int, float], ...]
    below: bool
    above: bool

    def miss(self, operands: Sequence[Any], xp: Any) -> Any:
        """By how much each element misses the point, or the domain beyond it."""
        gaps = [operands[i] - target for i, target in self.targets]
        if self.below or self.above:
            return (gaps[0] if self.below else -gaps[0]).clip(0)
        return reduce(xp.maximum, map(abs, gaps))


@cache
def edges(op: str, framework: str) -> tuple[Edge, ...]:
    """The points of an operation of the catalogue, found by its own derivative."""
    operation = OPERATIONS[op]

    def is_lost(*operands: float) -> bool:
        arrays = [np.full((1, 2), each, np.float32) for each in operands]
        out = operation.computes(framework)(*arrays)
        cts = operation.variants.get(framework, operation.vjp)(np.zeros_like(out), out, *arrays)
        return any(ct is not None and not np.isfinite(ct).all() for ct in cts)

    found: dict[Edge, None] = {}
    with np.errstate(all="ignore"):
        for point in operation.singular:
            if not np.isfinite(point).all() or not is_lost(*point):
                continue
            sides = [[is_lost(*point[:i], x + by, *point[i + 1 :]) for by in (-_STEP, _STEP)]
                     for i, x in enumerate(point)]  # fmt: skip
            matter = [i for i, lost in enumerate(sides) if not all(lost)]
            below, above = sides[matter[0]] if len(matter) == 1 else (False, False)
            if matter:
                found[Edge(tuple((i, point[i] + 0.0) for i in matter), below, above)] = None
    return tuple(found)


def nearest(
    op: str, framework: str, operands: Sequence[Any], result: Any, xp: Any
) -> Iterator[tuple[float | None, Any]]:
    """For each point (None: an overflow), how near some operands come: the least distance, and minus the mean one.

    An operand that is no array of reals is None. A norm is its own distance.
    """
    operation = OPERATIONS[op]
    misses: list[tuple[float | None, Any]] = []
    if operation.code == "WL108":
        misses = [(0.0, abs(result))]
    elif operation.code == "WL107" and len(operands) == 1:
        misses = [(None, (math.log(float(xp.finfo(result.dtype).max)) - xp.log(abs(result))).clip(0))]
    elif not operation.mixes and operation.code not in ("WL107", "WL110"):
        known = {i for i, each in enumerate(operands) if each is not None}
        misses = [(edge.targets[0][1], edge.miss(operands, xp)) for edge in edges(op, framework)
                  if known.issuperset(dict(edge.targets))]  # fmt: skip
    for point, miss in misses:
        is_known = xp.isfinite(miss)
        scale = xp.where(is_known, miss, 0).mean(dtype=xp.promote_types(miss.dtype, xp.float32))
        yield point, xp.stack([xp.where(is_known, miss, math.inf).min(), -scale])
