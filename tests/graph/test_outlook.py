"""What cannot score enough is not searched for, and nothing else is left out."""

from __future__ import annotations

from unittest import mock

import pytest
from programs import op, positive, where

from wherelint.graph.node import const, leaf
from wherelint.graph.outlook import Outlook
from wherelint.graph.search import Search

X, Y = leaf("x"), leaf("y")
ROOT = where(positive(X), op("sqrt", X), 0.0)
UNSAID = frozenset({"said to be differentiated"})


def search(outlook: Outlook, root: object = ROOT) -> Search:
    return Search(root, "jax", outlook=outlook)  # type: ignore[arg-type]


@pytest.mark.parametrize("known", [(), ("in an optimizer",)])
def test_what_may_score_enough_is_found_with_the_same_evidence(known: tuple[str, ...]) -> None:
    (every,) = search(Outlook()).hazards()
    asked = search(Outlook(0.3, frozenset(known), UNSAID))
    (hazard,) = asked.hazards()
    assert hazard.evidence == every.evidence
    assert not asked.left_out


def test_what_cannot_score_enough_is_not_evaluated() -> None:
    asked = search(Outlook(0.5, frozenset({"said not to be differentiated"}), UNSAID))
    with mock.patch.object(Search, "_run", side_effect=AssertionError):
        assert asked.hazards() == []
    assert [n.op for n in asked.left_out] == ["sqrt"]


def test_evidence_for_it_that_may_still_come_is_waited_for() -> None:
    assert search(Outlook(0.5, frozenset({"in a test", "said to be differentiated"}))).hazards()
    assert search(Outlook(0.5, frozenset({"in a test"}))).hazards()


def test_a_wide_search_is_only_for_what_the_condition_may_speak_of() -> None:
    root = where(positive(Y), op("divide", 1.0, X), 0.0)
    assert search(Outlook(), root).hazards()
    asked = search(Outlook(0.5, absent=UNSAID), root)
    assert asked.hazards() == []
    assert [n.op for n in asked.left_out] == ["divide"]


def test_chosen_operations_are_found_whatever_they_score() -> None:
    division = op("divide", 1.0, X)
    root = where(positive(Y), op("add", op("sqrt", Y), division), 0.0)
    assert {h.op.op for h in search(Outlook(), root).hazards()} == {"sqrt", "divide"}
    assert [h.op for h in search(Outlook(operations=frozenset({division})), root).hazards()] == [division]


def test_an_epsilon_that_float32_loses_may_still_be_noticed() -> None:
    kept, lost = Outlook(0.6, absent=UNSAID), op("sqrt", op("subtract", const(1.0 - 1e-9), X))
    assert kept.may_reach({"direct"})
    assert not kept.may_reach({"direct", "in a metric"})
    assert search(Outlook(0.5, absent=UNSAID), where(op("less", X, 1.0), lost, 0.0)).hazards()
