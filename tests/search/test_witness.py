"""The witness search: what is a hazard, how sure it is, and which numbers are printed."""

from __future__ import annotations

import numpy as np
import pytest
from programs import hazards, named, op, positive, search, where

from wherelint.evidence.pieces import Evidence
from wherelint.graph.node import LANES, Node, const, leaf
from wherelint.search.simplify import simplest
from wherelint.search.witness import Search, singular_operations

X, Y = leaf("x"), leaf("y")


def test_an_unmasked_root_is_found_at_zero() -> None:
    root_of_x = op("sqrt", X)
    (hazard,) = hazards(where(positive(X), root_of_x, 0.0))
    assert hazard.op is root_of_x
    assert hazard.is_shown
    assert named(hazard) == {"x": [0.0] * LANES}
    assert (hazard.value == 0).all()
    assert np.isnan(hazard.gradient[X]).all()


def test_a_masked_root_is_not() -> None:
    mask = positive(X)
    assert hazards(where(mask, op("sqrt", where(mask, X, 1.0)), 0.0)) == []


def test_a_root_of_what_the_guard_admits_is_found_beyond_the_guard_only() -> None:
    # At 0 the root is selected, and its infinite slope is the program's own; at -1 it is dropped.
    (hazard,) = hazards(where(op("greater_equal", X, 0.0), op("sqrt", X), 0.0))
    assert (hazard.inputs[X] < 0).any()


def test_a_true_singularity_is_not() -> None:
    # sqrt(x)**2 is nan at 0 under both arithmetics, whatever stands beside it.
    assert hazards(op("add", where(positive(X), op("sin", X), 0.0), op("square", op("sqrt", X)))) == []


def test_a_witness_needs_a_finite_value() -> None:
    # Both arms are infinite or nan where the gradient is: nothing is protected.
    assert hazards(where(positive(X), op("log", X), op("log", X))) == []


def test_moving_only_the_guard_is_shown() -> None:
    (sure,) = hazards(where(op("not_equal", X, 0.0), op("divide", Y, X), 0.0))
    assert sure.is_shown
    assert set(named(sure)["x"]) == {0.0}


def test_moving_anything_else_is_a_note() -> None:
    (unsure,) = hazards(where(positive(Y), op("divide", 1.0, X), 0.0))
    assert not unsure.is_shown


def test_what_is_evaluated_at_once_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    root = where(positive(X), op("divide", Y, op("sqrt", op("multiply", X, Y))), 0.0)
    whole = hazards(root)
    counts: list[int] = []
    run = Search.run
    monkeypatch.setattr(
        Search, "run", lambda self, *batches, **kw: counts.append(len(kw and batches)) or run(self, *batches, **kw)
    )
    monkeypatch.setattr("wherelint.search.batch._MOST_AT_ONCE", 1)
    assert [(h.op, named(h), h.evidence) for h in hazards(root)] == [(h.op, named(h), h.evidence) for h in whole]
    assert len(whole) == 2
    assert counts[1:]
    assert set(counts) <= {0, 1}  # to simplify a witness takes no more probes than it has inputs


def test_notes_can_be_left_out() -> None:
    root = where(positive(Y), op("divide", 1.0, X), 0.0)
    assert search(root).hazards(low=False) == []


def test_a_condition_that_reads_nothing_lets_everything_move() -> None:
    (hazard,) = hazards(where(const(False), op("log", X), 0.0))
    assert Evidence.UNRELATED_INPUT not in hazard.evidence


def test_facts_drop_the_probes_that_contradict_them() -> None:
    nonzero = op("not_equal", X, 0.0)
    root = where(nonzero, op("divide", 1.0, X), 0.0)
    assert hazards(root)
    guarded = where(nonzero, op("divide", 1.0, X), 0.0, path_conditions=(nonzero,))
    assert hazards(guarded) == []


def test_a_fact_about_something_else_drops_nothing() -> None:
    root = where(positive(X), op("log", X), 0.0, path_conditions=(positive(Y),))
    assert [h.is_shown for h in hazards(root)] == [True]


def test_what_is_found_under_facts_that_contradict_each_other_is_unsure() -> None:
    root = where(positive(X), op("log", X), 0.0, path_conditions=(positive(Y), op("less", Y, 0.0)))
    assert [h.is_shown for h in hazards(root)] == [False]
    assert search(root).hazards(low=False) == []


def test_the_witness_is_the_simplest() -> None:
    # Any x <= 0 and any y would do.
    (hazard,) = hazards(where(positive(X), op("multiply", Y, op("log", X)), 0.0))
    assert named(hazard) == {"x": [0.0] * LANES, "y": [1.0] * LANES}


def test_the_witness_still_shows_the_hazard_after_it_was_simplified() -> None:
    root = where(op("greater", X, Y), op("sqrt", op("subtract", X, Y)), 0.0)
    done = search(root)
    for hazard in done.hazards():
        assert done.shows(simplest(done, hazard))


@pytest.mark.parametrize(
    "root",
    [
        where(positive(X), op("divide", op("log", X), op("sqrt", Y)), X),
        where(op("less", X, Y), op("power", op("subtract", X, Y), 0.5), op("divide", X, Y)),
        where(op("greater", op("sum", X), 0.0), op("divide", X, op("sum", X)), 0.0),
    ],
    ids=["chain", "power", "sum"],
)
def test_two_runs_give_the_same_witnesses(root: Node) -> None:
    first, second = ([(h.op, h.level, named(h)) for h in hazards(root)] for _ in range(2))
    assert first == second
    assert first


def test_the_culprit_is_the_operation_and_not_what_reads_it() -> None:
    log = op("log", X)
    (hazard,) = hazards(where(positive(X), op("multiply", op("sin", log), 2.0), 0.0))
    assert hazard.op is log


def test_every_singular_operation_of_a_selection_is_found() -> None:
    log, root = op("log", X), op("sqrt", X)
    assert {h.op for h in hazards(where(positive(X), op("add", log, root), 0.0))} == {log, root}


def test_a_reduction_meets_zero_in_one_lane_and_in_all() -> None:
    norm = op("norm", X)
    (hazard,) = hazards(where(op("greater", norm, 0.0), norm, 0.0))
    assert named(hazard) == {"x": [0.0] * LANES}


def test_a_norm_of_a_difference_can_be_zero() -> None:
    norm = op("norm", op("subtract", X, Y))
    found = hazards(where(op("greater", norm, 0.0), norm, 0.0))
    assert [h.op for h in found] == [norm]
    assert found[0].is_shown


def test_what_is_centred_is_not_zero_everywhere() -> None:
    # x - mean(x) vanishes only for equal lanes; a single lane would always vanish.
    centred = op("subtract", X, op("mean", X))
    assert hazards(where(positive(X), op("add", op("square", centred), X), 0.0)) == []


def test_a_guard_with_a_margin_is_a_note() -> None:
    # where(t > 0, rsqrt(t + eps), 0) fails only beyond the boundary that the author protected.
    safe = hazards(where(positive(X), op("sqrt", op("add", X, 1e-3)), 0.0))
    assert all(not h.is_shown for h in safe)
    bare = hazards(where(positive(X), op("sqrt", X), 0.0))
    assert [h.is_shown for h in bare] == [True]


def test_an_epsilon_that_float32_loses_is_no_margin() -> None:
    (hazard,) = hazards(where(positive(X), op("sqrt", op("add", X, 1e-50)), 0.0))
    assert hazard.is_shown


def test_a_quotient_that_the_condition_compares_is_incidental() -> None:
    a, b = leaf("a"), leaf("b")
    position = op("divide", op("subtract", X, a), op("subtract", b, a))
    found = hazards(where(op("less", position, 1.0), op("sin", position), 0.0))
    assert all(not h.is_shown for h in found)


def test_a_test_for_nan_is_explicit() -> None:
    quotient = op("divide", X, Y)
    found = hazards(where(op("isfinite", quotient), quotient, 0.0))
    assert [(h.op, h.is_shown) for h in found] == [(quotient, True)]


def test_missing_data_has_no_gradient_to_lose() -> None:
    # The nan is x's own; x gets a nan gradient, which is nobody's loss.
    assert hazards(where(op("isnan", X), 0.0, op("square", X))) == []


def test_missing_data_that_poisons_a_parameter_is_found() -> None:
    (hazard,) = hazards(where(op("isnan", X), 0.0, op("square", op("subtract", Y, X))))
    assert hazard.missing_data
    assert set(hazard.gradient) == {X, Y}
    assert np.isnan(hazard.inputs[X]).any()
    assert np.isfinite(hazard.inputs[Y]).all()


def test_a_lazy_choice_is_no_selection_that_drops() -> None:
    lazy = op("cond", positive(X), op("sqrt", X), 0.0)
    assert hazards(where(op("less", X, 5.0), lazy, 1.0)) == []


def test_what_is_not_differentiated_is_no_hazard() -> None:
    data = leaf("data", differentiable=False)
    assert hazards(where(positive(data), op("log", data), 0.0)) == []
    assert hazards(where(positive(X), op("stop", op("log", X)), 0.0)) == []


def test_a_constant_of_unknown_value_is_not_moved() -> None:
    width = leaf("width")
    width.fixed = True
    assert hazards(where(positive(X), op("divide", X, width), 0.0)) == []


@pytest.mark.parametrize(("framework", "found"), [("jax", 1), ("torch", 0)])
def test_the_framework_decides(framework: str, found: int) -> None:
    assert len(hazards(where(op("greater", op("abs", X), 0.5), op("arctan2", X, X), 0.0), framework)) == found


def test_a_hazard_of_xla_may_not_show_in_eager_mode() -> None:
    (hazard,) = search(root := where(positive(X), op("sqrt", X), 0.0), "xla").hazards()
    assert not Search(root, "tensorflow").shows(hazard)


@pytest.mark.parametrize(
    ("root", "kind"),
    [
        (op("maximum", op("log", X), -5.0, selection="maximum"), "maximum"),
        (op("compress", positive(X), op("log", X), selection="index"), "index"),
        (op("pick", X, op("divide", 1.0, X), selection="index", index=0), "index"),
        (op("lane", op("sqrt", X), selection="index", index=1), "index"),
    ],
    ids=["maximum", "compress", "pick", "lane"],
)
def test_every_kind_of_selection_is_searched(root: Node, kind: str) -> None:
    found = hazards(root)
    assert {h.select.selection for h in found} <= {kind}
    # Nothing says that the other elements of an array are special.
    assert [h.is_shown for h in found] == [root.op not in ("lane", "pick")]


def test_a_clip_onto_the_singular_point_is_the_root_of_its_own_search() -> None:
    clip = op("clip", X, -1.0, 1.0, selection="clip")
    arc = op("arccos", clip)
    assert singular_operations([X, *clip.inputs[1:], clip, arc]) == [arc]
    (hazard,) = hazards(arc)
    assert (hazard.op, hazard.select) == (arc, clip)


def test_a_clip_inside_the_domain_is_none() -> None:
    clip = op("clip", X, -1.0 + 1e-6, 1.0 - 1e-6, selection="clip")
    assert hazards(op("arccos", clip)) == []


def test_a_clip_that_float32_rounds_onto_the_boundary_is_one() -> None:
    clip = op("clip", X, -1.0 + 1e-9, 1.0 - 1e-9, selection="clip")
    assert [h.select for h in hazards(op("arccos", clip))] == [clip]


def test_an_element_of_an_element_of_an_input() -> None:
    vector = leaf("v")
    row, element = leaf("v[0]"), leaf("v[0][1]")
    row.of, element.of = (vector, 0), (row, 1)
    length = op("sqrt", op("multiply", element, element))
    root = where(
        op("greater", element, 0.0), op("divide", length, element), op("add", op("multiply", row, row), vector)
    )
    (hazard,) = [h for h in search(root).hazards() if h.op.op == "divide"]
    assert vector in hazard.inputs
    assert row not in hazard.inputs
