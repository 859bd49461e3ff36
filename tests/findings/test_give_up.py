"""What goes wrong in one function costs that function only, and is said."""

from __future__ import annotations

import pytest

from wherelint.findings import DetectOptions, detect
from wherelint.findings.hazards import FileHazards
from wherelint.frontend.module import Module
from wherelint.frontend.syntax import GiveUp
from wherelint.graph.node import leaf
from wherelint.interpret.lowering import Lowering
from wherelint.interpret.programs import Program

TWO = """\
import jax.numpy as jnp


def broken(x):
    return jnp.where(x > 0, jnp.sqrt(x), 0.0)


def fine(x):
    return jnp.where(x > 0, jnp.log(x), 0.0)
"""


def test_a_defect_in_one_function_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    search = FileHazards.search

    def failing(self: FileHazards, name: tuple[str, ...], program: Program) -> None:
        if name == ("broken",):
            raise KeyError("leaf")
        search(self, name, program)

    monkeypatch.setattr(FileHazards, "search", failing)
    findings, problems = detect(TWO, "a.py", DetectOptions())
    assert [f.function for f in findings] == ["fine"]
    (problem,) = problems
    assert problem.message.startswith("gave up on `broken`: internal error, please report it: KeyError: 'leaf' (test_")
    assert problem.error  # a defect of ours must not pass for a clean run


@pytest.mark.parametrize("tree", ["[], 0.0", "()", "{}, 0.0", "[x], 0.0", "[x, x]"])
def test_a_reduction_over_any_tree_is_followed(tree: str) -> None:
    text = (
        "import jax\nimport jax.numpy as jnp\n\n\ndef f(x):\n"
        f"    s = jax.tree_util.tree_reduce(lambda a, b: a + b, {tree})\n"
        "    return jnp.where(x > 0, jnp.log(x), s)\n"
    )
    findings, problems = detect(text, "a.py", DetectOptions())
    assert problems == []
    assert [f.code for f in findings] == ["WL102"]


def test_what_is_too_long_in_a_constructor_costs_nothing_else() -> None:
    long = " + ".join(["1.0"] * 1500)  # LibCST cannot write it
    text = (
        "import jax.numpy as jnp\nfrom somewhere import table\n\n\n"
        f"class Long:\n    TABLE = table({long})\n\n\n"
        "class Model:\n    def __init__(self):\n        self.long = Long()\n\n"
        "    def __call__(self, x):\n        return jnp.where(x > 0, jnp.sqrt(x), 0.0)\n"
    )
    findings, _ = detect(text, "a.py", DetectOptions())
    assert [f.function for f in findings] == ["Model.__call__"]


def test_a_context_ends_where_something_inside_raises() -> None:
    low = Lowering(Module("a.py", ""), ["jax"])
    with pytest.raises(GiveUp), low.assuming(leaf("m", kind="bool")), low.without_gradient():
        raise GiveUp("it takes too many steps (analysis budget exceeded)")
    assert low.path_conditions == []
    assert low.severed == 0
