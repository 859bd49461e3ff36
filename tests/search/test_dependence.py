"""What each node of a graph depends on, against a walk from every node."""

from __future__ import annotations

import random

from programs import op, where

from wherelint.graph.node import Leaf, Node, differentiated, inputs_in, leaf, topological
from wherelint.search.dependence import Dependence


def test_every_pair_of_nodes() -> None:
    choose = random.Random(1052)
    nodes: list[Node] = [leaf(name) for name in "xyz"]
    for _ in range(60):
        some = choose.choices(nodes, k=2)
        nodes.append(op(choose.choice(["add", "multiply"]), *some) if choose.random() < 0.7 else op("sqrt", some[0]))
    order = topological(nodes)
    dependence = Dependence(order)
    assert dependence.requires_grad == differentiated(order)
    for node in order:
        below = frozenset(topological([node]))
        assert dependence.below(node) == below
        assert dependence.inputs(node) == frozenset(inputs_in(below))
        assert {n for n in order if dependence.reads(node, n)} == below


def test_an_element_stands_for_the_whole_where_that_is_known() -> None:
    x = leaf("x")
    first = Leaf(name="x[0]", of=(x, 0))
    root = where(op("greater", first, 0.0), op("sqrt", x), 0.0)
    order = topological([root])
    assert Dependence(order).inputs(first) == {x}
    assert Dependence(topological([first])).inputs(first) == {first}
