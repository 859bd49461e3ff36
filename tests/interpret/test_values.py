"""What an expression can be besides a node of the graph."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from wherelint.frontend.module import Module
from wherelint.graph.node import leaf
from wherelint.interpret.lowering import Lowering
from wherelint.interpret.values import MISSING, Class, Dotted, Instance, Scope, nodes_in

MODULE = Module("a.py", "class A: ...\n")
X, Y = leaf("x"), leaf("y")


def make(name: str, *bases: Any) -> Class:
    (definition,) = ast.parse(f"class {name}: ...").body
    assert isinstance(definition, ast.ClassDef)
    return Class(definition, Scope(MODULE), MODULE.blocks[0][1], name, bases)


def test_a_name_is_looked_up_from_the_inside_out() -> None:
    outer = Scope(MODULE)
    inner = Scope(MODULE, outer)
    outer.names.update(a=1, b=2)
    inner.names.update(a=3)
    assert (inner.find("a"), inner.find("b"), outer.find("a")) == (3, 2, 1)


def test_none_is_a_value_and_absence_is_not() -> None:
    scope = Scope(MODULE)
    scope.names["a"] = None
    assert scope.find("a") is None
    assert scope.find("b") is MISSING


def test_the_nearest_class_comes_first() -> None:
    base = make("Base")
    middle = make("Middle", base)
    last = make("Last", middle, make("Mixin"))
    assert [c.name for c in last.ancestry()] == ["Last", "Middle", "Base", "Mixin"]


@pytest.mark.parametrize(
    ("value", "nodes"),
    [
        (X, [X]),
        ((X, [Y, 1.0], "a"), [X, Y]),
        ({"a": X, "b": {"c": Y}}, [X, Y]),
        (None, []),
        (3.0, []),
        (Dotted("jax.numpy"), []),
    ],
    ids=["node", "nested", "dict", "none", "number", "module"],
)
def test_nodes_are_found_inside_of_containers(value: Any, nodes: list[Any]) -> None:
    assert list(nodes_in(value)) == nodes


def test_objects_that_refer_to_each_other_end_somewhere() -> None:
    a, b = Instance(make("A"), "a"), Instance(make("B"), "b")
    a.attributes.update(other=b, x=X)
    b.attributes.update(other=a, y=Y)
    assert X in list(nodes_in(a))


def test_the_fixture_parses() -> None:
    assert isinstance(ast.parse(MODULE.text).body[0], ast.ClassDef)


def test_what_is_gone_leaves_its_identity_to_nobody() -> None:
    low = Lowering(MODULE, ["jax"])
    assert len({low.identity([i]) for i in range(1000)}) == 1000
    assert low.identity(1.5) == low.identity(3.0 / 2) != low.identity("1.5")
