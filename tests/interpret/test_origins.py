"""Every node of a graph was written in the block that its origin names: a fix rewrites it there."""

from __future__ import annotations

import pytest

from wherelint.frontend.module import Module
from wherelint.graph.node import topological
from wherelint.interpret.programs import programs
from wherelint.interpret.values import Origin

_HELPER = "import jax.numpy as jnp\n\n\ndef helper(u, v=0.5):\n    {}\n\n\n"
PROGRAMS = {
    "early returns": (
        "if u > 2:\n        return jnp.log(u)\n    return jnp.sqrt(u)",
        "def f(x):\n    return jnp.where(x > 0, helper(x), 0.0)\n",
    ),
    "several": (
        "if u > 1:\n        return u * v\n    return jnp.sqrt(u)",
        "def f(x):\n    return jnp.where(x > 0, helper(x), 0.0)\n",
    ),
    "a closure of another function": (
        "def inner(w):\n        if w > 2:\n            return w\n        return u / w\n    return inner",
        "def f(x):\n    inner = helper(x, jnp.abs(x))\n    return map(inner, [x])\n",
    ),
    "a generator": ("yield u", "def f(x):\n    return jnp.where(x > 0, list(helper(x)), 0.0)\n"),
}


@pytest.mark.parametrize(("body", "caller"), PROGRAMS.values(), ids=PROGRAMS)
def test_origins_lie_in_their_blocks(body: str, caller: str) -> None:
    check(Module("m.py", _HELPER.format(body) + caller), "f")


def check(module: Module, name: str) -> None:
    found = [
        node.origin
        for program in programs(module, (name,), ["jax"])
        for node in topological([*program.outputs, *program.made])
        if isinstance(node.origin, Origin)
    ]
    assert found
    for origin in found:
        start, end = origin.block.region(origin.node)  # a KeyError where another block holds it
        assert origin.block.first <= start.row <= end.row <= origin.block.last
