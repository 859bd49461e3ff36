"""What cannot score enough is not searched for, and nothing else is left out."""

from __future__ import annotations

from unittest import mock

import numpy as np
import programs
import pytest
from programs import op, positive, where

from wherelint.evidence.judge import Outlook
from wherelint.evidence.pieces import Evidence
from wherelint.graph.node import const, leaf
from wherelint.search.witness import Search

X, Y = leaf("x"), leaf("y")
ROOT = where(positive(X), op("sqrt", X), 0.0)
UNSAID = frozenset({Evidence.DIFFERENTIATED})


def search(outlook: Outlook, root: object = ROOT) -> Search:
    return programs.search(root, outlook=outlook)  # type: ignore[arg-type]


@pytest.mark.parametrize("known", [(), (Evidence.SELDOM_TRAINED,)])
def test_what_may_score_enough_is_found_with_the_same_evidence(known: tuple[Evidence, ...]) -> None:
    (every,) = search(Outlook()).hazards()
    asked = search(Outlook(0.3, frozenset(known), UNSAID))
    (hazard,) = asked.hazards()
    assert hazard.evidence == every.evidence


def test_what_cannot_score_enough_is_not_evaluated() -> None:
    asked = search(Outlook(0.5, frozenset({Evidence.NOT_DIFFERENTIATED}), UNSAID))
    with mock.patch.object(Search, "run", side_effect=AssertionError):
        assert asked.hazards() == []


def test_evidence_for_it_that_may_still_come_is_waited_for() -> None:
    assert search(Outlook(0.5, frozenset({Evidence.TEST, Evidence.DIFFERENTIATED}))).hazards()
    assert search(Outlook(0.5, frozenset({Evidence.TEST}))).hazards()


def test_a_wide_search_is_only_for_what_the_condition_may_speak_of() -> None:
    root = where(positive(Y), op("divide", 1.0, X), 0.0)
    assert search(Outlook(), root).hazards()
    asked = search(Outlook(0.3, absent=UNSAID), root)
    assert asked.hazards() == []


def test_an_epsilon_that_float32_loses_may_still_be_noticed() -> None:
    kept, lost = Outlook(0.5, absent=UNSAID), op("sqrt", op("subtract", const(1.0 - 1e-9), X))
    assert kept.may_reach({Evidence.DIRECT})
    assert not kept.may_reach({Evidence.DIRECT, Evidence.UNTRAINED_CODE})
    assert search(Outlook(0.3, absent=UNSAID), where(op("less", X, 1.0), lost, 0.0)).hazards()


def test_only_probes_at_which_the_operation_fails_are_evaluated_beyond_it() -> None:
    root = where(positive(X), op("add", op("sqrt", X), op("exp", Y)), 0.0)
    asked = search(Outlook(), root)
    failing = [n for n in asked.order if n.op == "sqrt"]
    batch = {X: np.array([[0.0], [1.0], [2.0]], np.float32), Y: np.ones((1, 1), np.float32)}
    assert len(asked.run(batch, targets=(failing, False)).values[X]) == len(asked.run(batch).values[X]) == 1
    regular = {**batch, X: batch[X] + 1}
    with mock.patch.object(Search, "_backward", side_effect=AssertionError):
        asked.run(regular, targets=(failing, False))
        with pytest.raises(AssertionError):
            asked.run(regular)


def test_missing_data_are_asked_for_whatever_fails() -> None:
    asked = search(Outlook(), where(op("isfinite", X), op("multiply", X, Y), 0.0))
    batch = {X: np.array([[1.0], [np.nan]], np.float32), Y: np.ones((1, 1), np.float32)}
    assert [len(asked.run(batch, targets=([], data)).witness) for data in (False, True)] == [0, 1]


def test_an_element_of_what_fails_at_generic_points_is_found() -> None:
    asked = Outlook(0.3, absent=UNSAID)
    assert search(asked, op("lane", op("sqrt", X), selection="index")).hazards() == []
    halves = op("divide", X, const([0.0, 1.0, 2.0, 3.0]))
    assert [h.op for h in search(asked, op("lane", halves, selection="index", index=1)).hazards()] == [halves]


def test_an_operation_that_reads_nothing_that_moves_is_asked_about_at_the_starts_alone() -> None:
    asked = Outlook(0.3, absent=UNSAID)
    with mock.patch("wherelint.search.witness.perturbations", side_effect=AssertionError):
        assert search(asked, where(positive(X), op("sqrt", Y), X)).hazards() == []
        with pytest.raises(AssertionError):
            search(asked, where(positive(X), op("sqrt", op("add", X, Y)), X)).hazards()
    halves = op("divide", Y, const([0.0, 1.0, 2.0, 3.0]))
    assert [h.op for h in search(asked, where(positive(X), halves, X)).hazards()] == [halves]


def test_missing_data_are_asked_for_where_they_may_be_moved_to() -> None:
    still = leaf("still")
    still.fixed = True
    root = where(positive(X), op("multiply", X, still), where(op("isfinite", still), still, 0.0))
    with mock.patch("wherelint.search.witness.bases", side_effect=AssertionError):
        assert search(Outlook(0.3, absent=UNSAID), root).hazards() == []
        with pytest.raises(AssertionError):
            search(Outlook(0.3, absent=UNSAID), where(op("isfinite", X), op("multiply", X, Y), 0.0)).hazards()


def test_the_starts_of_what_is_found_are_the_benign_ones() -> None:
    root = where(positive(X), op("divide", op("sqrt", X), op("log", op("subtract", Y, 1.0))), 0.0)
    found = search(Outlook(), root)
    assert found.hazards()
    benign = search(Outlook(), root).begin()
    assert [start[Y].tolist() for start in found.starts] == [start[Y].tolist() for start in benign]
    assert all((start[Y] > 1).all() for start in benign)


def test_only_flags_that_decide_about_an_operation_are_raised() -> None:
    used, unused = leaf("used", kind="bool"), leaf("unused", kind="bool")
    operand = op("cond", used, X, Y)
    root = where(positive(X), op("sqrt", operand), op("cond", unused, X, Y))
    for each in (root, where(positive(X), op("cond", used, op("sqrt", X), Y), unused)):
        raised, lowered = search(Outlook(), each).begin()[3:]
        assert raised[used].all()
        assert not lowered[used].any()
