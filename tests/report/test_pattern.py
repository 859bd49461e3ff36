"""Findings of one pattern are summarised."""

from pathlib import Path

import pytest
from conftest import Run, write

J = "import jax.numpy as jnp\n\n\n"
RATIO = "def {0}({1}, {2}):\n    return jnp.where({2} > {3}, {1} / {2}, {4})\n"


def ratio(name: str, *parts: str) -> str:
    return RATIO.format(name, *parts)


@pytest.mark.parametrize(
    ("programs", "said"),
    [
        pytest.param([], "", id="nothing"),
        pytest.param([ratio("f", "x", "n", "0", "0.0"), ratio("g", "y", "m", "0", "1e-08")], "", id="too few"),
        pytest.param(
            [ratio("f", "x", "n", "0", "0.0"), ratio("g", "y", "m", "0", "1e-08"), ratio("h", "a", "b", "0.0", "1.")],
            "These 3 are the same pattern: WL103 `divide` in `jnp.where(n > 0, x / n, 0.0)`, first at a.py:5:29.",
            id="other names and numbers",
        ),
        pytest.param(
            [
                "def r(x):\n    return jnp.where(x > 0, jnp.sqrt(x), 0.0)\n",
                *(ratio(name, "x", "n", "0", "0.0") for name in "fgh"),
                "def q(x, n):\n    return jnp.where(n > 0, n + x / n, 0.0)\n",
            ],
            "3 of these 5 are the same pattern: WL103 `divide` in `jnp.where(n > 0, x / n, 0.0)`, first at b.py:5:29.",
            id="some",
        ),
        pytest.param(
            [ratio(name, "x", "n" * 60, "0", "0.0") for name in "fgh"],
            "These 3 are the same pattern: WL103 `divide`, first at a.py:5:",
            id="long",
        ),
    ],
)
def test_a_pattern_is_told_once(wherelint: Run, project: Path, programs: list[str], said: str) -> None:
    write(project, {f"{name}.py": J + program for name, program in zip("abcde", programs, strict=False)})
    output = wherelint("check")[1]
    assert (said in output) if said else ("pattern" not in output)
    assert "pattern" not in wherelint("check", "-q")[1]
    assert "pattern" not in wherelint("check", "--output-format", "concise")[1]
