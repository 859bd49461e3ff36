"""What a hazard is worth, and what it could be worth before it is searched for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from wherelint.evidence.condition import Condition
from wherelint.evidence.pieces import Evidence, worth
from wherelint.evidence.structure import FOR as OF_PLACES
from wherelint.evidence.structure import by_structure
from wherelint.evidence.witness import witness
from wherelint.graph.node import Node
from wherelint.search.attribution import Blamed
from wherelint.search.batch import Run
from wherelint.search.guard import Guard
from wherelint.search.probes import Inputs
from wherelint.search.prune import Judge

#: What speaks for a finding, and may be known by its text; what its place says is known before the search.
_FOR = frozenset(each for each in Evidence if each.weight > 0) - {Evidence.NEAR} - OF_PLACES
#: What speaks for a finding and is known by its operation.
_OF_OPERATIONS = frozenset({Evidence.LOG_RATIO, Evidence.MASKED_ROW, Evidence.DISTANCE, Evidence.ROOT})
#: Pieces of which a finding has one at most.
_EXCLUSIVE = (
    frozenset({Evidence.DIRECT, Evidence.PADDING, Evidence.FACTOR}),
    _OF_OPERATIONS - {Evidence.ROOT} | {Evidence.MISSING_DATA},
)
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Outlook:
    """The least score that is asked for, and what is known of a finding before it is searched for."""

    least: float = 0.0
    #: Evidence of every finding at a place.
    known: frozenset[Evidence] = frozenset()
    #: Evidence for a finding that is known to be absent.
    absent: frozenset[Evidence] = frozenset()

    def with_known(self, more: Iterable[Evidence]) -> Outlook:
        """The same, and more that is known."""
        return replace(self, known=self.known.union(more))

    def most(self, evidence: Iterable[Evidence], absent: Collection[Evidence] = ()) -> float:
        """The greatest score of a finding with some evidence, if other evidence for it is absent."""
        possible = _FOR.difference(self.absent, absent)
        for group in _EXCLUSIVE:
            possible -= frozenset(sorted(group & possible, key=lambda each: each.weight)[:-1])
        return worth({*self.known, *evidence, *possible})

    def may_reach(self, evidence: Iterable[Evidence]) -> bool:
        """Whether a hazard that was found scores what is asked for."""
        return self.reaches(worth({*self.known, *evidence}))

    def reaches(self, score: float) -> bool:
        """Whether a score is one that is asked for."""
        return score >= self.least - _ROUNDING


class EvidenceJudge(Judge):
    """Weighs the hazards of one selection by what its condition and the witness say."""

    def __init__(self, outlook: Outlook, framework: str, guard: Guard) -> None:
        self._outlook = outlook
        self._guard = guard
        self._dependence = guard.dependence
        self._condition = Condition(guard, framework)
        self._most: dict[tuple[Node | None, frozenset[Evidence]], float] = {}

    def start_at(self, base: Inputs) -> None:
        """Note the benign point that witnesses depart from."""
        self._condition.start_at(base)

    def reaches(self, score: float) -> bool:
        """Whether a score is one that is asked for."""
        return self._outlook.reaches(score)

    def most(self, culprit: Node | None, extent: frozenset[Evidence]) -> float:
        """The greatest score of a hazard of an operation; of one of missing data where that is None."""
        if (culprit, extent) not in self._most:
            if culprit is None:
                found = self._outlook.most(extent, _OF_OPERATIONS)
            else:
                sure = self._condition.settled(culprit)
                if culprit not in self._dependence.requires_grad:
                    sure |= {Evidence.SETTING}
                found = self._outlook.most(extent | sure, set(self._absent(culprit)))
            self._most[culprit, extent] = found
        return self._most[culprit, extent]

    def weigh(self, run: Run, blamed: Blamed, p: int, extent: frozenset[Evidence]) -> frozenset[Evidence]:
        """All evidence for and against a hazard; where it lies far from what is asked for, not all of it."""
        culprit, select, data = blamed
        evidence = {
            *extent,
            *by_structure(select),
            *self._condition.evidence(run, culprit, p, data, onto=select is not self._guard.root),
        }
        evidence.update(witness(run, culprit, p, self._dependence.requires_grad))
        if culprit not in run.ieee.cotangents and not self._condition.tests(culprit):
            evidence.add(Evidence.NOT_LEARNED)  # arithmetic on settings: nobody sets them to what breaks it
        if self._outlook.reaches(self._outlook.most(evidence, _FOR - {Evidence.AT_BOUNDARY})):
            boundary = self._condition.boundary(run, culprit, p)
            evidence.update([boundary] if boundary is not None else [])
        return frozenset(evidence)

    def _absent(self, culprit: Node) -> Iterator[Evidence]:
        """Evidence for a hazard of an operation that there cannot be, if it is not one of missing data."""
        condition, inputs = self._guard.condition, self._dependence.inputs
        yield Evidence.MISSING_DATA
        yield from _OF_OPERATIONS - self._condition.settled(culprit)
        if not self._condition.is_mask:
            yield Evidence.PADDING
        if not self._condition.tests_factor(culprit):
            yield Evidence.FACTOR
        if not condition:
            yield Evidence.AT_BOUNDARY
        if all(inputs(culprit).isdisjoint(inputs(each)) for each in condition):
            yield Evidence.DIRECT
