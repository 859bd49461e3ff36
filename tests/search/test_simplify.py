"""The numbers of a witness are simplified, many inputs at once."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
from programs import op, where

from wherelint.graph.node import LANES, Leaf, Node, leaf
from wherelint.search.simplify import simplest
from wherelint.search.witness import Search

COUNT = 12


def _sum(nodes: list[Leaf]) -> Node:
    total: Node = nodes[0]
    for node in nodes[1:]:
        total = op("add", total, node)
    return total


def _numbers(root: Node, inputs: list[Leaf], first: float) -> tuple[dict[str, float], int]:
    """What is left of numbers that nobody would choose, and how many runs it took."""
    search = Search(root, "jax")
    (hazard,) = search.hazards()
    points = {**hazard.inputs, **{n: np.full((1, LANES), 1.25 + i / 8, np.float32) for i, n in enumerate(inputs)}}
    points[inputs[0]] = np.full((1, LANES), first, np.float32)
    with mock.patch.object(search, "run", wraps=search.run) as run:
        found = simplest(search, replace(hazard, inputs=points))
    return {n.name: float(found.inputs[n][0, 0]) for n in inputs}, run.call_count


def test_inputs_that_may_be_1_take_one_run() -> None:
    x, others = leaf("x"), [leaf(f"y{i}") for i in range(COUNT)]
    root = where(op("greater", x, 0.0), op("multiply", _sum(others), op("log", x)), 0.0)
    numbers, runs = _numbers(root, others, 1.25)
    assert set(numbers.values()) == {1.0}
    assert runs == 1


def test_an_input_that_cannot_be_1_gets_another_number_and_the_others_are_1() -> None:
    x, others = leaf("x"), [leaf(f"y{i}") for i in range(COUNT)]
    # Only where the first is greater than 1 the arm is dropped.
    dropped = op("logical_and", op("greater", others[0], 1.5), op("less_equal", x, 0.0))
    root = where(op("logical_not", dropped), op("multiply", _sum(others), op("log", x)), 0.0)
    numbers, runs = _numbers(root, others, 3.25)
    assert numbers.pop("y0") == 2.0
    assert set(numbers.values()) == {1.0}
    assert runs < 5
