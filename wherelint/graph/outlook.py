"""What can still become of a score: what cannot reach the one that is asked for need not be searched for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from wherelint.graph.dependence import Dependence
from wherelint.graph.guard import Guard
from wherelint.graph.node import Const, Node, inputs_in, rounded_away
from wherelint.graph.occurrence import read_gradient
from wherelint.graph.run import Hazard, code
from wherelint.score import NEAR, WEIGHTS, worth

_FOR = frozenset(name for name, weight in WEIGHTS.items() if weight > 0 and name != NEAR)
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Outlook:
    """The least score that is asked for, and what is known of a finding before it is searched for."""

    least: float = 0.0
    #: Evidence of every finding at a place, by the names of the score's table.
    known: frozenset[str] = frozenset()
    #: Evidence for a finding that is known to be absent.
    absent: frozenset[str] = frozenset()

    def with_known(self, names: Iterable[str]) -> Outlook:
        """The same, and more that is known."""
        return replace(self, known=self.known.union(names))

    def most(self, evidence: Iterable[str], absent: Collection[str] = ()) -> float:
        """The greatest score of a finding with some evidence, if other evidence for it is absent."""
        return worth({*self.known, *evidence, *_FOR.difference(self.absent, absent)})

    def may_reach(self, evidence: Iterable[str]) -> bool:
        """Whether a hazard that was found may score what is asked for: an epsilon may turn out to be lost."""
        return self.reaches(self.most(evidence, _FOR - {"an epsilon is lost"}))

    def reaches(self, score: float) -> bool:
        """Whether a score is one that is asked for."""
        return score >= self.least - _ROUNDING


class Prospects:
    """Which operations below a selection can still be findings that score what is asked for."""

    def __init__(
        self, outlook: Outlook, guard: Guard, order: Sequence[Node], dependence: Dependence, missing: Collection[Node]
    ) -> None:
        self._outlook = outlook
        self._guard = guard
        self._order = order
        #: The operations that a finding may be of.
        self.singular = [n for n in order if code(n)]
        self._dependence = dependence
        self._known: dict[tuple[Node, frozenset[str]], float] = {}
        self._absent: dict[Node, frozenset[str]] = {}
        #: Inputs that may be nan or infinite of themselves, if they are moved; then any operation may be named.
        self._missing = frozenset(missing)
        self._infinite = _infinite(order)

    @cached_property
    def _rounds(self) -> bool:
        return any(map(rounded_away, self._order))

    def closed(self, culprit: Node, evidence: frozenset[str]) -> bool:
        """Whether no hazard of an operation can be one that is asked for; ``evidence`` is what is known of it."""
        return self._outlook.least > 0 and not self._outlook.reaches(self._most(culprit, evidence))

    def settled(
        self, culprit: Node, evidence: frozenset[str], found: Mapping[Node, Hazard], missing_data: bool
    ) -> bool:
        """Whether no hazard of an operation can be asked for and worth more than the one that was found."""
        known = found.get(culprit)
        most = self._outlook.most(evidence) if missing_data else self._most(culprit, evidence)
        return not self._outlook.reaches(most) or (known is not None and known.rank >= most)

    def _most(self, culprit: Node, evidence: frozenset[str]) -> float:
        if (culprit, evidence) not in self._known:
            sure = {*evidence, *self._guard.settled(culprit), *read_gradient(culprit, self._dependence.requires_grad)}
            self._known[culprit, evidence] = self._outlook.most(sure, self.absent(culprit))
        return self._known[culprit, evidence]

    def decided_by_boundary(self, evidence: Collection[str]) -> bool:
        """Whether a hazard of which all is known but its boundary may score what is asked for."""
        open_ = ("at the boundary", "an epsilon is lost") if self._rounds else ("at the boundary",)
        return self._outlook.reaches(self._outlook.most(evidence, _FOR.difference(open_)))

    def any(self, evidence: frozenset[str], movable: Sequence[Node], found: Mapping[Node, Hazard]) -> bool:
        """Whether some hazard that is worth more than those found can score what is asked for."""
        if self._data(evidence, movable):
            return True
        open_ = (n for n in self.singular if not self.closed(n, evidence))
        return any(n not in found or found[n].rank < self._most(n, evidence) for n in open_)

    def asked(self, evidence: frozenset[str], movable: Sequence[Node]) -> tuple[list[Node], bool]:
        """The operations that a hazard may be found of, and whether one of missing data may be."""
        return [n for n in self.singular if not self.closed(n, evidence)], self._data(evidence, movable)

    def _data(self, evidence: frozenset[str], movable: Sequence[Node]) -> bool:
        missing = self._infinite or not self._missing.isdisjoint(movable)
        return missing and self._outlook.reaches(self._outlook.most(evidence))

    def absent(self, culprit: Node) -> frozenset[str]:
        """Evidence for a hazard of an operation that there cannot be, if it is not one of missing data."""
        if culprit not in self._absent:
            condition = self._guard.condition
            absent = {"missing data"}
            absent.update(() if self._rounds else ("an epsilon is lost",), () if condition else ("at the boundary",))
            read = self._dependence.inputs(culprit)
            absent.update(("direct",) if all(read.isdisjoint(self._dependence.inputs(c)) for c in condition) else ())
            self._absent[culprit] = frozenset(absent)
        return self._absent[culprit]


def _infinite(order: Sequence[Node]) -> bool:
    """Whether an input may be infinite without a test that asks for it: by default, or to equal a constant."""
    usual = [n.usual for n in inputs_in(order) if n.usual is not None]
    compared = [i.value for n in order if n.op in ("equal", "not_equal") for i in n.inputs if isinstance(i, Const)]
    return not (np.isfinite(usual).all() and all(np.isfinite(value).all() for value in compared))
