"""The plugin in sessions of their own: what the fixture says, what is recorded, and what is imported."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from real_gradients import require

from wherelint.pytest_plugin import framework

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytest_plugins = ["pytester"]

TORCH = """
    import torch

    def energy(x):
        return torch.where(x > 0, x.sqrt(), 0.0).sum()

    def safe(x):
        return torch.where(x > 0, torch.where(x > 0, x, 1.0).sqrt(), 0.0).sum()
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A session with the plugin and no other."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def session(*arguments: str) -> pytest.RunResult:
        return pytester.runpytest_subprocess("-p", "wherelint.pytest_plugin", *arguments)

    return session


def test_pytest_finds_the_plugin_by_its_entry_point() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"wherelint": "wherelint.pytest_plugin"}


def test_loading_the_plugin_imports_no_framework_and_nothing_heavy(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makepyfile("""
        import sys

        def test(gradients):
            heavy = {"jax", "torch", "tensorflow", "numpy", "scipy", "libcst", "rich", "wherelint.companion"}
            assert not heavy & set(sys.modules)
            gradients.check
    """)
    run().assert_outcomes(passed=1)


def test_this_test_can_fail(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makepyfile("""
        import sys, numpy

        def test():
            assert "numpy" not in sys.modules
    """)
    run().assert_outcomes(failed=1)


def test_a_poisoned_gradient_fails_with_both_places(pytester: pytest.Pytester, run: Any) -> None:
    require("torch")
    pytester.makepyfile(
        model=TORCH,
        test_model="""
        import torch
        from model import energy, safe

        def test_poisoned(gradients):
            gradients.check(energy, torch.arange(3.0))

        def test_hunted(gradients):
            gradients.check(energy, torch.ones(3), hunt=True, budget=100)

        def test_positive(gradients):
            assert gradients.check(energy, torch.ones(3), hunt=True, positive=[0], budget=100).ok

        def test_safe(gradients):
            assert gradients.check(safe, torch.arange(3.0), hunt=True, budget=100).ok
    """,
    )
    result = run()
    result.assert_outcomes(failed=2, passed=2)
    result.stdout.fnmatch_lines([
        "*PoisonedGradient: The value is finite, but the gradient is not*",
        "*model.py:4:*: sqrt has no finite derivative at element (0,)",
        "*`where` discards the result -> WL101, wherelint explain WL101",
        "*gradient: (tensor(*nan*",
        "*masked gradient: (tensor([[]0.0000, 0.5000, 0.3536]),)",
    ])  # fmt: skip
    result.stdout.no_fnmatch_line("*report.py:*")  # the frames of the plugin say nothing of the test


def test_the_framework_is_told_by_arguments_function_or_what_is_loaded() -> None:
    jnp, torch = pytest.importorskip("jax.numpy"), pytest.importorskip("torch")
    assert framework(lambda x: x, jnp.ones(2)) == "jax"
    assert framework(lambda x: x, {"a": [torch.ones(2)]}) == "torch"
    assert framework(torch.nn.Linear(2, 2), 1.0) == "torch"
    assert framework(torch.sqrt, 1.0) == "torch"
    named = {"jnp": jnp, "torch": torch}
    assert framework(eval("lambda x: jnp.sqrt(x)", named), np.ones(2)) == "jax"
    assert framework(eval("lambda x: torch.sqrt(x)", named), np.ones(2)) == "torch"
    with pytest.raises(TypeError, match="cannot tell the framework"):
        framework(lambda x: x, 1.0)


SUITE = """
    import torch
    from model import energy, safe

    def test_one():
        x = torch.ones(3, requires_grad=True)
        energy(x).backward()

    def test_other():
        with torch.no_grad():
            safe(torch.ones(3))
"""


def recorded(path: Path) -> dict[str, Any]:
    files = json.loads(path.read_text())["files"]
    return {name: {kind: {span[0] for span in kinds[kind]} for kind in ("gradient", "blocked")}
            for name, kinds in files.items()}  # fmt: skip


@pytest.mark.rotated(2)
@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "2")], ids=["alone", "xdist"])
def test_a_session_is_recorded_and_an_older_one_forgotten(
    pytester: pytest.Pytester, run: Any, workers: tuple[str, ...]
) -> None:
    require("torch")
    if workers:
        pytest.importorskip("xdist")
    pytester.makepyfile(model=TORCH, test_model=SUITE)
    path = pytester.path / "gradient-coverage.json"
    path.write_text("of another time")
    result = run("--gradient-coverage", *workers)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["gradient coverage written to *gradient-coverage.json"])
    assert recorded(path)["model.py"] == {"gradient": {4}, "blocked": {7}}
    assert [p.name for p in pytester.path.glob("*.json*")] == [path.name]


def test_nothing_is_recorded_unless_asked_for(pytester: pytest.Pytester, run: Any) -> None:
    pytester.makepyfile("def test(): pass")
    run().assert_outcomes(passed=1)
    assert not list(pytester.path.glob("*.json"))


def test_every_gradient_of_a_suite_is_watched(pytester: pytest.Pytester, run: Any) -> None:
    require("torch")
    pytester.makepyfile(
        TORCH
        + """
    def step(loss, value):
        x = torch.full((2,), value, requires_grad=True)
        loss(x).backward()

    def test_poisoned():
        step(energy, 0.0)

    def test_after_it():
        step(energy, 1.0)
        step(safe, 0.0)

    def test_that_fails_by_itself():
        assert 1 + 1 == 3
    """
    )
    run().assert_outcomes(passed=2, failed=1)
    result = run("--watch-gradients")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*sqrt has no finite derivative at element (0,) and 1 more", "*assert (1 + 1) == 3"])
