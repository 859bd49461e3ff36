"""The graph itself: order, constants, and what a derivative can flow through."""

from __future__ import annotations

import numpy as np
import pytest
from programs import op, positive, where

from wherelint.graph.node import (
    LANES,
    const,
    differentiable_inputs,
    differentiated,
    leaf,
    leaves,
    reading,
    topological,
    whole,
)


def test_operands_come_before_what_reads_them() -> None:
    x = leaf("x")
    shared = op("sin", x)
    root = op("add", op("multiply", shared, shared), op("exp", shared))
    order = topological([root])
    assert len(order) == len(set(order)) == 5
    assert all(order.index(i) < order.index(n) for n in order for i in n.inputs)


def test_a_long_chain_needs_no_recursion() -> None:
    node = leaf("x")
    for _ in range(20_000):
        node = op("sin", node)
    assert len(topological([node])) == 20_001


def test_leaves_are_in_the_order_they_are_read() -> None:
    x, y = leaf("x"), leaf("y")
    assert leaves(op("add", op("sin", y), op("multiply", x, y))) == [y, x]


def test_an_element_stands_for_the_outermost_input_that_is_known() -> None:
    x, row, element = leaf("x"), leaf("x[0]"), leaf("x[0][1]")
    row.of, element.of = (x, 0), (row, 1)
    assert whole(element, {x, row, element}) is whole(element, {x, element}) is x
    assert whole(element, {row, element}) is row
    assert whole(element, {element}) is element


@pytest.mark.parametrize(
    ("value", "kind"), [(1, "int"), (1.5, "float"), (True, "bool"), ([1, 2], "int"), ([0.5, 1], "float")]
)
def test_the_kind_of_a_constant(value: object, kind: str) -> None:
    assert const(value).kind == kind


def test_a_short_constant_fills_the_lanes() -> None:
    assert const([1.0, 2.0]).value.tolist() == [[1.0, 2.0, 1.0, 2.0]]
    assert const([1.0, 2.0, 3.0]).value.shape == (1, LANES)
    assert const(3.0).value.shape == (1, 1)


@pytest.mark.parametrize("zero", [0, 1, 17, 99])
def test_a_long_constant_keeps_its_extremes_and_its_zero(zero: int) -> None:
    values = np.linspace(-5.0, 7.0, 100)
    values[zero] = 0.0
    kept = const(values).value.reshape(-1)
    assert kept.size == LANES
    assert {values.min(), values.max(), 0.0} <= set(kept.tolist())


def test_no_derivative_flows_through_a_condition_or_an_integer() -> None:
    x, n = leaf("x"), leaf("n", kind="int")
    select = where(positive(x), op("sqrt", x), op("divide", x, n))
    assert differentiable_inputs(select) == (1, 2)
    assert differentiable_inputs(positive(x)) == ()
    assert differentiable_inputs(select.inputs[2]) == (0,)
    assert differentiable_inputs(op("stop", x)) == ()


def test_only_what_reaches_a_differentiable_leaf_is_differentiated() -> None:
    x, data = leaf("x"), leaf("data", differentiable=False)
    fixed, moving = op("sqrt", data), op("multiply", x, data)
    root = op("add", fixed, moving)
    assert differentiated(topological([root])) == {x, moving, root}


def test_integers_and_booleans_are_never_differentiable() -> None:
    assert not leaf("n", kind="int").differentiable
    assert not leaf("flag", kind="bool").differentiable
    assert leaf("x").differentiable


def test_what_reads_a_node_is_above_it() -> None:
    x, y = leaf("x"), leaf("y")
    low, other = op("sqrt", x), op("exp", y)
    root = op("add", low, other)
    assert reading(topological([root]), [x]) == {x, low, root}
    assert reading(topological([other]), [x]) == {x}
