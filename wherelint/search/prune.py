"""Which operations are still worth a search: a judge says what a hazard of them could be worth at most."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from wherelint.evidence.pieces import Evidence
from wherelint.graph.node import Const, Node, inputs_in
from wherelint.ops.traits import SINGULAR
from wherelint.search.attribution import Blamed
from wherelint.search.batch import Hazard, Run
from wherelint.search.probes import Inputs

#: How far a search goes, as evidence: beyond what the condition reads, without some predicates, to late breaks.
Extent = frozenset[Evidence]


class Judge:
    """What hazards are worth. A search asks it and knows no weights; to this one all are worth the same."""

    def start_at(self, base: Inputs) -> None:
        """Note the benign point that witnesses depart from."""

    def most(self, culprit: Node | None, extent: Extent) -> float:
        """The greatest score of a hazard of an operation; of one of missing data where that is None."""
        return 1.0

    def reaches(self, score: float) -> bool:
        """Whether a score is one that is asked for."""
        return True

    def weigh(self, run: Run, blamed: Blamed, p: int, extent: Extent) -> frozenset[Evidence]:
        """All evidence for and against what a probe shows."""
        return extent


class Targets:
    """The operations below a selection of which a hazard may be found that is asked for."""

    def __init__(self, judge: Judge, order: Sequence[Node], missing: Collection[Node]) -> None:
        self._judge = judge
        self._singular = [n for n in order if n.op in SINGULAR]
        #: Inputs that may be nan or infinite of themselves, if they are moved; then any operation may be named.
        self._missing = frozenset(missing)
        self._infinite = _infinite(order)

    def open(self, extent: Extent) -> list[Node]:
        """The operations that a hazard may be found of."""
        return [n for n in self._singular if self._judge.reaches(self._judge.most(n, extent))]

    def may_miss_data(self, extent: Extent, movable: Sequence[Node]) -> bool:
        """Whether a hazard of missing data may be found."""
        missing = self._infinite or not self._missing.isdisjoint(movable)
        return missing and self._judge.reaches(self._judge.most(None, extent))

    def any(self, extent: Extent, movable: Sequence[Node], found: Mapping[Node, Hazard]) -> bool:
        """Whether some hazard may be found that is worth more than those found."""
        return self.may_miss_data(extent, movable) or any(
            n not in found or found[n].rank < self._judge.most(n, extent) for n in self.open(extent)
        )

    def is_settled(self, culprit: Node, extent: Extent, found: Mapping[Node, Hazard], missing_data: bool) -> bool:
        """Whether no hazard of an operation can be asked for and worth more than the one that was found."""
        most = self._judge.most(None if missing_data else culprit, extent)
        return not self._judge.reaches(most) or (culprit in found and found[culprit].rank >= most)


def _infinite(order: Sequence[Node]) -> bool:
    """Whether an input may be infinite without a test that asks for it: by default, or to equal a constant."""
    usual = [n.usual for n in inputs_in(order) if n.usual is not None]
    compared = [i.value for n in order if n.op in ("equal", "not_equal") for i in n.inputs if isinstance(i, Const)]
    return not (np.isfinite(usual).all() and all(np.isfinite(value).all() for value in compared))
