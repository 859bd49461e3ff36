"""Reverse mode: right where it is finite, and the two meanings of a zero cotangent where it is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import gradients, op, positive, reverse, row, run, where

from wherelint.graph.differentiate import Tape, backward
from wherelint.graph.node import LANES, Node, const, leaf, topological

X, Y = leaf("x"), leaf("y")
FLAG = leaf("flag", kind="bool")
MASK = const([True, False, True, True])

_UNARY = ("sin", "tanh", "exp", "sqrt", "log", "square", "reciprocal", "sum", "mean", "norm", "logsumexp", "softmax",
          "cumsum", "sigmoid", "negative", "identity")  # fmt: skip
_BINARY = ("add", "subtract", "multiply", "divide", "power", "arctan2", "hypot", "logaddexp", "dot")
_STRUCTURE = ("where", "cond", "compress", "stack", "pick", "lane", "gather")


def moderate(node: Node) -> Node:
    """Into (0.5, 1.5), where every operation above is regular."""
    return op("add", op("multiply", op("tanh", node), 0.5), 1.0)


@st.composite
def graphs(draw: Any) -> Node:
    """A few operations on earlier values, each result moderated."""
    nodes = [X, Y]
    for _ in range(draw(st.integers(1, 6))):
        name = draw(st.sampled_from(_UNARY + _BINARY + _STRUCTURE))
        a, b = draw(st.sampled_from(nodes)), draw(st.sampled_from(nodes))
        if name in _UNARY:
            made = op(name, a)
        elif name in _BINARY:
            made = op(name, a, b)
        elif name in ("where", "cond"):
            made = op(name, draw(st.sampled_from([MASK, FLAG])), a, b)
        elif name == "compress":
            made = op(name, MASK, a)
        elif name == "stack":
            made = op(name, a, b)
        elif name == "gather":
            made = op(name, a, lanes=tuple(draw(st.permutations(range(LANES)))))
        else:
            operands = (a, b) if name == "pick" else (a,)
            made = op(name, *operands, index=draw(st.integers(0, len(operands) - 1)))
        nodes.append(moderate(made))
    return nodes[-1]


@given(graphs(), st.integers(0, 1000), st.booleans())
@settings(max_examples=60)
def test_reverse_mode_agrees_with_difference_quotients(root: Node, seed: int, flag: bool) -> None:
    rng = np.random.default_rng(seed)
    inputs = {n: rng.uniform(0.6, 1.4, (2, LANES)) for n in (X, Y)}
    inputs[FLAG] = np.full((2, LANES), flag)

    def total(moved: dict[Node, np.ndarray]) -> np.ndarray:
        return run(root, moved, np.float64)[root].sum(axis=1)

    values = run(root, inputs, np.float64)
    ieee = reverse(root, values, symbolic=False).cotangents
    symbolic = reverse(root, values, symbolic=True).cotangents
    for node in (X, Y):
        got = np.broadcast_to(ieee.get(node, np.zeros((2, LANES))), (2, LANES))  # of what is dropped: one zero for all
        # Where nothing is singular the two arithmetics are one.
        np.testing.assert_allclose(symbolic.get(node, np.zeros((2, LANES))), got, rtol=1e-9, atol=1e-12)
        for j in range(LANES):
            step = np.zeros((2, LANES))
            step[:, j] = 1e-6
            quotient = (
                total({**inputs, node: inputs[node] + step}) - total({**inputs, node: inputs[node] - step})
            ) / 2e-6
            np.testing.assert_allclose(got[:, j], quotient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "node",
    [
        op("gather", X, lanes=(1, 2, 3, 0)),
        op("gather", X, lanes=(0, 1, 0, 1)),
        op("lane", X, index=2),
        op("lane", X, index=-1),
        op("stack", X, Y),
        op("stack", X, Y, X),
        op("pick", X, Y, index=1),
        op("compress", MASK, X),
        op("compress", const([False, False, True, False]), X),
        op("where", MASK, X, Y),
        op("cond", MASK, X, Y),
        op("sum", X),
        op("add", X, op("sum", Y)),
    ],
    ids=lambda node: repr(node),
)
def test_the_pullback_of_a_linear_operation_is_its_transpose(node: Node) -> None:
    """<c, A v> = <A' c, v> for the weights c that a product puts on the output."""
    rng = np.random.default_rng(0)
    inputs = {n: rng.normal(size=(3, LANES)) for n in (X, Y)}
    weighted = op("multiply", node, const([1.0, -2.0, 3.0, 0.5]))
    values = run(weighted, inputs, np.float64)
    cotangents = reverse(weighted, values, symbolic=False).cotangents
    back = sum((cotangents[n] * inputs[n]).sum(axis=1) for n in (X, Y) if n in cotangents)
    np.testing.assert_allclose(back, np.broadcast_to(values[weighted], (3, LANES)).sum(axis=1), rtol=1e-12)


def test_a_dropped_arm_receives_a_zero_that_meets_infinity() -> None:
    ieee, symbolic = gradients(where(positive(X), op("sqrt", X), 0.0), {X: row(0, 1, 4, -1)})
    assert np.isnan(ieee.cotangents[X]).tolist() == [[True, False, False, True]]
    np.testing.assert_allclose(symbolic.cotangents[X], row(0, 0.5, 0.25, 0))


def test_nothing_kept_is_nothing_differentiated() -> None:
    root = op("sum", op("divide", 1.0, op("compress", op("greater", X, 9.0), X)))
    for pass_ in gradients(root, {X: row(0, 0, 0, 0)}):
        assert pass_.cotangents[X].tolist() == [[0, 0, 0, 0]]


def test_a_true_singularity_is_one_under_both() -> None:
    root = op("square", op("sqrt", X))
    for pass_ in gradients(root, {X: row(0, 1, 1, 1)}):
        assert np.isnan(pass_.cotangents[X]).tolist() == [[True, False, False, False]]


def test_a_lazy_choice_contributes_nothing_not_even_a_zero() -> None:
    lazy = op("cond", positive(X), op("sqrt", X), op("multiply", X, 0.0))
    for pass_ in gradients(lazy, {X: row(0, 1, 0, -1)}):
        assert np.isfinite(pass_.cotangents[X]).all()


def test_an_inner_selection_drops_the_nan() -> None:
    mask = positive(X)
    root = where(mask, op("log", where(mask, X, 0.0)), 0.0)
    ieee, _ = gradients(root, {X: row(0, 1, 2, -1)})
    assert ieee.cotangents[X].tolist() == [[0, 1, 0.5, 0]]


def test_what_is_live_on_one_path_is_live() -> None:
    # The dropped arm and a used value read the same root: its infinite slope is the program's own.
    root_of_x = op("sqrt", X)
    both = op("add", where(positive(X), root_of_x, 0.0), root_of_x)
    _, symbolic = gradients(both, {X: row(0, 1, 1, 1)})
    assert not np.isfinite(symbolic.cotangents[X][0, 0])


def test_a_shared_operation_is_dead_only_where_every_path_drops_it() -> None:
    root_of_x = op("sqrt", X)
    both = op("add", where(positive(X), root_of_x, 0.0), where(positive(X), op("sin", root_of_x), 1.0))
    ieee, symbolic = gradients(both, {X: row(0, 1, 1, 1)})
    assert np.isnan(ieee.cotangents[X][0, 0])
    assert symbolic.cotangents[X][0, 0] == 0


def test_the_node_that_broke_the_cotangent_is_named() -> None:
    root_of_x = op("sqrt", op("multiply", X, 2.0))
    ieee, symbolic = gradients(where(positive(X), op("sin", root_of_x), 0.0), {X: row(0, 1, 1, 1)})
    assert [node for node, broke in ieee.broke.items() if broke.any()] == [root_of_x]
    assert not any(broke.any() for broke in symbolic.broke.values())


def test_a_reduction_of_dropped_elements_is_dropped() -> None:
    # norm(x) feeds every lane of a selection that takes none of them: no cotangent reaches it.
    n = op("norm", X)
    ieee, symbolic = gradients(where(op("greater", n, 0.0), op("divide", X, n), 0.0), {X: row(0, 0, 0, 0)})
    assert np.isnan(ieee.cotangents[X]).all()
    assert np.isfinite(symbolic.cotangents[X]).all()


def test_a_reduction_with_one_used_element_is_used() -> None:
    total = op("norm", X)
    kept = where(const([True, False, False, False]), total, 0.0)
    for pass_ in gradients(kept, {X: row(0, 0, 0, 0)}):
        assert not np.isfinite(pass_.cotangents[X]).all()


@pytest.mark.parametrize(
    ("node", "operand"),
    [
        (op("maximum", op("log", X), -5.0), 0.0),
        (op("minimum", op("exp", X), 5.0), 1000.0),
        (op("clip", op("log", X), -5.0, 5.0), 0.0),
        (op("pick", X, op("log", X), index=0), 0.0),
        (op("compress", positive(X), op("log", X)), 0.0),
    ],
    ids=["maximum", "minimum", "clip", "pick", "compress"],
)
def test_every_kind_of_selection_kills_under_symbolic_zero(node: Node, operand: float) -> None:
    ieee, symbolic = gradients(node, {X: row(operand, 1, 1, 1)})
    assert not np.isfinite(ieee.cotangents[X]).all()
    assert np.isfinite(symbolic.cotangents[X]).all()


def test_a_product_with_a_mask_kills_only_where_it_is_marked_as_a_selection() -> None:
    def product(selection: str | None) -> Node:
        mask = op("identity", positive(X))
        return op("multiply", mask, op("sqrt", X), selection=selection, operand=1)

    for selection, finite in (("multiply", True), (None, False)):
        ieee, symbolic = gradients(product(selection), {X: row(0, 1, 1, 1)})
        assert np.isnan(ieee.cotangents[X][0, 0])
        assert bool(np.isfinite(symbolic.cotangents[X]).all()) is finite


def test_a_rule_of_its_own_is_taken_to_be_finite() -> None:
    ruled = op("custom", op("sqrt", X), X)
    ieee, _ = gradients(where(positive(X), ruled, 0.0), {X: row(0, 1, 1, 1)})
    assert np.isfinite(ieee.cotangents[X]).all()


def test_elements_that_are_not_read_receive_nothing() -> None:
    ieee, _ = gradients(op("gather", op("sqrt", X), lanes=(1, 2, 3, 1)), {X: row(0, 1, 1, 1)})
    assert ieee.cotangents[X].tolist() == [[0, 1, 0.5, 0.5]]


def test_what_an_index_moves_it_does_not_break() -> None:
    moved = op("gather", X, lanes=(1, 2, 3, 1))
    ieee, _ = gradients(op("sqrt", moved), {X: row(1, 1, 0, 1)})
    assert not np.isfinite(ieee.cotangents[X][0, 2])
    assert [node.op for node in ieee.broke] == ["sqrt"]


def test_stop_ends_the_derivative() -> None:
    ieee, _ = gradients(op("multiply", X, op("stop", op("sqrt", X))), {X: row(4, 4, 4, 4)})
    assert ieee.cotangents[X].tolist() == [[2, 2, 2, 2]]


@pytest.mark.parametrize(("framework", "finite"), [("jax", False), ("torch", True)])
def test_the_derivative_is_that_of_the_framework(framework: str, finite: bool) -> None:
    root = where(positive(X), op("arctan2", X, X), 0.0)
    ieee, _ = gradients(root, {X: row(0, 1, 1, 1)}, framework=framework)
    assert bool(np.isfinite(ieee.cotangents[X]).all()) is finite


def test_xla_falls_back_on_eager_tensorflow() -> None:
    # sqrt differs between the modes, log does not.
    for operation, modes in (("sqrt", ["xla"]), ("log", ["tensorflow", "xla"])):
        root = where(positive(X), op(operation, X), 0.0)
        at = {X: row(0, 1, 1, 1)}
        passes = {mode: gradients(root, at, framework=mode)[0] for mode in ("tensorflow", "xla")}
        bad = [mode for mode, ieee in passes.items() if not np.isfinite(ieee.cotangents[X]).all()]
        assert bad == modes


def test_scalars_and_arrays_sum_their_cotangents_to_their_own_shape() -> None:
    scalar, line = leaf("s"), leaf("x")
    root = op("multiply", scalar, line)
    ieee, _ = gradients(root, {scalar: np.array([[2.0], [3.0]], np.float32), line: row(1, 2, 3, 4)})
    assert ieee.cotangents[scalar].tolist() == [[10], [10]]
    assert ieee.cotangents[line].tolist() == [[2, 2, 2, 2], [3, 3, 3, 3]]


def test_leaves_that_are_not_differentiated_get_no_cotangent() -> None:
    data = leaf("data", differentiable=False)
    ieee, _ = gradients(op("multiply", X, data), {X: row(1, 2, 3, 4), data: row(1, 1, 1, 1)})
    assert set(ieee.cotangents) & {X, data} == {X}


def test_a_part_of_a_tape_gives_the_cotangents_that_the_whole_gives() -> None:
    x, y = leaf("x"), leaf("y")
    root_of_x = op("sqrt", x)
    product = op("multiply", root_of_x, op("exp", y))
    root = where(positive(x), op("add", product, op("log", y)), 0.0)
    values = run(root, {x: row(0.0, 4.0, 9.0, 1.0), y: row(1.0, 2.0, 3.0, 4.0)})
    order = topological([root])
    whole = backward(Tape(order), values, root, "jax", symbolic=False)
    path = {n for n in order if root_of_x in topological([n])} | {x}
    part = backward(Tape([n for n in order if n in path], path), values, root, "jax", symbolic=False)
    assert y not in part.cotangents
    assert y in whole.cotangents
    for node in (root_of_x, product, x):
        np.testing.assert_array_equal(part.cotangents[node], whole.cotangents[node])
    np.testing.assert_array_equal(part.broke[root_of_x], whole.broke[root_of_x])
    assert part.broke[root_of_x].any()
