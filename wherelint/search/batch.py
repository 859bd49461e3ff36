"""One batch of probes, evaluated forward and twice in reverse, and the hazards read off it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from wherelint.evidence.pieces import Evidence, Level, level, reaches, worth
from wherelint.graph.differentiate import Backward
from wherelint.graph.evaluate import Values
from wherelint.graph.node import Const, Leaf, Node
from wherelint.ops import Array
from wherelint.ops.lanes import every, some
from wherelint.ops.traits import CLIPS, SINGULAR
from wherelint.search.probes import Inputs

#: How many operations may stand between a clip and the singular operation that it feeds.
_FAR = 4
#: Values of as many nodes at as many probes are in memory at once, where several batches can be told apart.
_MOST_AT_ONCE = 2_000_000


@dataclass(frozen=True)
class Hazard:
    """A singular operation, the selection that makes its zero, and the input that shows it."""

    op: Node
    select: Node
    #: What speaks for it and against it.
    evidence: frozenset[Evidence]
    inputs: Inputs
    value: Array
    gradient: dict[Leaf, Array]
    #: The operand is nan or inf data; no operation made it so.
    missing_data: bool = False

    def with_evidence(self, *more: Evidence) -> Hazard:
        """The same hazard, and more that is known of it."""
        return replace(self, evidence=self.evidence.union(more))

    @property
    def level(self) -> Level:
        """How sure it is."""
        return level(self.evidence)

    @property
    def is_shown(self) -> bool:
        """Whether it is shown unless the settings ask for more or for less."""
        return reaches(self.level, "warning")

    @property
    def rank(self) -> float:
        """Which of two hazards of one operation is worth more: the greater."""
        return worth(self.evidence)


@dataclass
class Run:
    """One batch of probes, evaluated forward and twice in reverse."""

    inputs: Inputs
    values: Values
    ieee: Backward
    symbolic: Backward
    #: Probes that are witnesses.
    witness: Array
    #: For each batch the point that its probes depart from.
    bases: Sequence[Inputs]
    #: Which batch each probe belongs to.
    batch: Array
    #: What every probe of the first batch gave, whether it is a witness or not.
    first: Values
    _broken: dict[tuple[str, Node], list[bool]] = field(default_factory=dict)

    def base(self, p: int) -> Inputs:
        """The point that a probe departs from."""
        return self.bases[int(self.batch[p])]

    def moved(self, leaf: Node, p: int) -> bool:
        """Whether an input is another at a probe than where the probe departs from."""
        values = self.inputs[leaf]
        return not np.array_equal(values[row(values, p)], self.base(p)[leaf])

    def is_broken(self, arrays: Literal["values", "ieee", "symbolic"], node: Node, p: int) -> bool:
        """Whether a value or a cotangent is not finite in some element of a probe; computed once for all probes."""
        key = arrays, node
        if key not in self._broken:
            of = self.values if arrays == "values" else getattr(self, arrays).cotangents
            self._broken[key] = any_lane(~np.isfinite(of[node])).tolist() if node in of else [False]
        found = self._broken[key]
        return found[p if len(found) > 1 else 0]

    def poisoned(self, leaf: Node) -> Array:
        """Elements of a leaf whose gradient only the dropped arm breaks. Missing data has no gradient to lose."""
        broken = ~np.isfinite(self.ieee.cotangents[leaf]) & np.isfinite(self.symbolic.cotangents[leaf])
        return np.asarray(broken & np.isfinite(self.values[leaf]))


def singular_operations(order: Sequence[Node]) -> list[Node]:
    """Operations that a clip feeds through little else: the roots of the clip-onto-the-boundary rule."""
    distance: dict[Node, int] = {}
    found = []
    for node in order:
        below = min((distance[i] for i in node.inputs if i in distance), default=_FAR) + 1
        if below <= _FAR and node.op in SINGULAR:
            found.append(node)
        elif node.selection in CLIPS:
            distance[node] = 0
        elif below <= _FAR and node.op not in ("where", "cond", "stop"):
            distance[node] = below
    return found


def parts(batches: Iterable[Inputs], nodes: int) -> Iterator[list[Inputs]]:
    """Batches to evaluate at once: few enough that the values of so many nodes fit into memory."""
    part: list[Inputs] = []
    probes = 0
    for batch in batches:
        count = max(map(len, batch.values()), default=1)
        if part and (probes + count) * nodes > _MOST_AT_ONCE:
            yield part
            part, probes = [], 0
        part.append(batch)
        probes += count
    yield part


def joined(batches: Sequence[Inputs]) -> tuple[Inputs, Array]:
    """Several batches as one, and which of them each probe belongs to; what does not vary within one is repeated."""
    counts = [max((v.shape[0] for v in inputs.values()), default=1) for inputs in batches]
    which = np.repeat(np.arange(len(batches)), counts)
    if len(batches) == 1:
        return batches[0], which
    whole = {}
    for node in dict.fromkeys(n for inputs in batches for n in inputs):
        # A constant of which a batch tries every element is itself in the others.
        parts = [inputs[node] if node in inputs else _number(node) for inputs in batches]
        lanes = max(part.shape[1] for part in parts)
        shapes = [(count, lanes) for count in counts]
        rows = [p if p.shape == shape else np.broadcast_to(p, shape) for p, shape in zip(parts, shapes, strict=True)]
        whole[node] = np.concatenate(rows).astype(parts[0].dtype, copy=False)
    return whole, which


def _number(node: Node) -> Array:
    assert isinstance(node, Const), node
    return node.value


def keep(chosen: Array, arrays: dict[Node, Array]) -> dict[Node, Array]:
    """Some probes of a batch; what is the same for every probe stays as it is."""
    if chosen.all():
        return arrays
    if not chosen.any():
        return {}
    rows = np.flatnonzero(chosen)
    return {n: v.take(rows, axis=0) if v.shape[0] == len(chosen) else v for n, v in arrays.items()}


def rows(mask: Array) -> Array:
    """Probes at which a mask holds for every element."""
    return every(mask)[:, 0]


def any_lane(mask: Array) -> Array:
    """Probes at which a mask holds for some element."""
    return some(mask)[:, 0]


def row(array: Array, p: int) -> slice:
    """Probe ``p`` of an array, which may be the same for every probe."""
    return slice(0, 1) if array.shape[0] == 1 else slice(p, p + 1)


def at(array: Array, p: int) -> Array:
    """The elements of an array at probe ``p``."""
    return np.asarray(array[row(array, p)][0])


def sound(run: Run, node: Node) -> Array:
    """Probes at which everything that a node reads is finite: what broke there broke at the node itself."""
    sound = np.ones(len(run.witness), np.bool_)
    for operand in node.inputs:
        sound &= rows(np.isfinite(run.values[operand]))
    return sound
