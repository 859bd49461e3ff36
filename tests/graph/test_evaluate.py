"""Forward evaluation: the structural operations, the shapes, the precision."""

from __future__ import annotations

import numpy as np
import pytest
from programs import op, positive, row, run, where

from wherelint.graph.evaluate import evaluate
from wherelint.graph.node import LANES, Node, const, leaf, spread, topological


def value(root: Node, **inputs: np.ndarray) -> np.ndarray:
    """The value of a program whose leaves are given by name."""
    from programs import topological

    given = {n: inputs[n.name] for n in topological([root]) if n.op == "leaf"}
    return run(root, given)[root]


X = leaf("x")
LINE = row(1, 2, 3, 4)


def test_a_constant_array_and_a_scalar_broadcast_along_the_lanes() -> None:
    assert value(op("add", X, 1.0), x=LINE).tolist() == [[2, 3, 4, 5]]
    assert value(op("add", const([1.0, 2.0, 3.0, 4.0]), 1.0)).tolist() == [[2, 3, 4, 5]]


def test_a_reduction_has_one_lane_and_broadcasts_back() -> None:
    mean = op("mean", X)
    assert value(mean, x=LINE).shape == (1, 1)
    assert value(op("subtract", X, mean), x=LINE).tolist() == [[-1.5, -0.5, 0.5, 1.5]]


def test_every_probe_is_on_its_own() -> None:
    batch = np.concatenate([LINE, 2 * LINE, 0 * LINE])
    assert value(op("sum", X), x=batch).tolist() == [[10], [20], [0]]


def test_selection_and_lazy_choice_have_one_value() -> None:
    for name in ("where", "cond"):
        chosen = op(name, op("greater", X, 2.0), X, 0.0)
        assert value(chosen, x=LINE).tolist() == [[0, 0, 3, 4]]


def test_a_number_is_true_where_it_is_not_zero() -> None:
    assert value(op("where", X, 1.0, 2.0), x=row(0, 1, -1, 0)).tolist() == [[2, 1, 1, 2]]


@pytest.mark.parametrize(("index", "element"), [(0, 1), (1, 2), (-1, 4), (7, 4)])
def test_lane_is_one_element(index: int, element: float) -> None:
    assert value(op("lane", X, index=index), x=LINE).tolist() == [[element]]


def test_an_element_of_a_scalar_is_the_scalar() -> None:
    assert value(op("lane", op("sum", X), index=2), x=LINE).tolist() == [[10]]


def test_stack_takes_each_lane_from_its_operand() -> None:
    y = op("multiply", X, 10.0)
    assert value(op("stack", X, y), x=LINE).tolist() == [[1, 2, 30, 40]]
    assert value(op("stack", X, y, X, 0.0), x=LINE).tolist() == [[1, 20, 3, 0]]


@pytest.mark.parametrize(
    ("parts", "single", "shown"),
    [(1, [], (0, 0, 0, 0)), (2, [], (0, 0, 1, 1)), (3, [], (0, 1, 1, 2)), (4, [], (0, 1, 2, 3)), (6, [], (0, 1, 2, 3)),
     (2, [0], (0, 1, 1, 1)), (2, [1], (0, 0, 0, 1)), (3, [0, 2], (0, 1, 1, 2)), (3, [1], (0, 0, 1, 2))],
)  # fmt: skip
def test_a_concatenation_keeps_the_order_of_its_parts(parts: int, single: list[int], shown: tuple[int, ...]) -> None:
    assert spread(parts, single) == shown


def test_pick_is_one_operand() -> None:
    assert value(op("pick", X, op("sqrt", X), index=0), x=LINE).tolist() == LINE.tolist()


def test_gather_moves_the_elements() -> None:
    assert value(op("gather", X, lanes=(1, 2, 3, 0)), x=LINE).tolist() == [[2, 3, 4, 1]]
    assert value(op("gather", X, lanes=(0, 1, 0, 1)), x=LINE).tolist() == [[1, 2, 1, 2]]
    assert value(op("gather", op("sum", X), lanes=(1, 2, 3, 0)), x=LINE).tolist() == [[10]]


def test_compress_repeats_what_was_kept() -> None:
    kept = op("compress", op("greater", X, 2.0), X)
    assert value(kept, x=LINE).tolist() == [[3, 3, 3, 4]]


def test_the_precision_is_that_of_float32() -> None:
    assert value(op("subtract", 1.0, 1e-9)).item() == 1.0
    assert np.isinf(value(op("exp", X), x=row(100, 0, 0, 0))[0, 0])
    assert value(op("add", X, 1e-50), x=row(0, 0, 0, 0)).dtype == np.float32


def test_float64_sees_what_float32_does_not() -> None:
    tiny = op("subtract", 1.0, 1e-9)
    assert run(tiny, {}, np.float64)[tiny].item() < 1.0


def test_a_mask_counts_as_zeros_and_ones_in_arithmetic_only() -> None:
    assert value(op("multiply", positive(X), X), x=row(-1, 2, 0, 3)).tolist() == [[0, 2, 0, 3]]
    both = op("logical_and", positive(X), op("less", X, 3.0))
    assert value(both, x=row(-1, 2, 0, 3)).dtype == np.bool_


def test_stop_is_the_value_and_an_integer_is_truncated() -> None:
    assert value(op("stop", X), x=row(1.5, -1.5, 0, 2)).tolist() == [[1.5, -1.5, 0, 2]]
    whole = Node("stop", (X,), kind="int")
    assert value(whole, x=row(1.5, -1.5, 0, 2)).tolist() == [[1, -1, 0, 2]]


def test_a_function_with_a_rule_of_its_own_has_the_value_of_its_body() -> None:
    assert value(op("custom", op("square", X), X), x=LINE).tolist() == [[1, 4, 9, 16]]


def test_no_warning_is_given_for_what_is_singular() -> None:
    # The suite turns warnings into errors, so evaluating is the test.
    assert np.isinf(value(where(positive(X), op("log", X), op("divide", 1.0, X)), x=row(0, 0, 0, 0))).all()
    assert LANES == 4


def test_what_is_known_is_not_computed_again() -> None:
    x, y = leaf("x"), leaf("y")
    still = op("exp", y)
    root = op("add", op("sqrt", x), still)
    known = evaluate([y, still], {y: row(0.0)})
    values = evaluate([n for n in topological([root]) if n not in known], {x: row(4.0)}, known=known)
    assert values[root].tolist() == [[3.0]]
    assert values[still] is known[still]
