"""WL304: the slope that a selection loses, against the slope of the limit and what JAX makes of the selection."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import numpy as np
import pytest
from real_gradients import require, value_and_gradient

from wherelint.finding import Finding
from wherelint.io.config import Settings
from wherelint.run.check import check_source

#: A double where around `arm`, which is 0 / 0 at 0.
DOUBLE = """
def f(x):
    small = {condition}
    safe = jnp.where(small, 1.0, x)
    return jnp.where(small, {value}, {arm})
"""
NEAR = "jnp.abs(x) < 1e-4"


CLIPPED = "def f(x):\n    return jnp.where(x < 1e-3, 1.0, jnp.expm1(x) / jnp.maximum(x, 1e-3))"
AT_ONE = """
def f(x):
    safe = jnp.where(x == 1, 2.0, x)
    return jnp.where(x == 1, 1.0, jnp.log(safe) / (safe - 1))
"""


def double(arm: str, value: str = "1.0", condition: str = NEAR) -> str:
    return DOUBLE.format(arm=arm, value=value, condition=condition)


def findings(source: str) -> tuple[Finding, ...]:
    text = "import jax\nimport jax.numpy as jnp\n" + textwrap.dedent(source)
    report = check_source(text.encode(), "a.py", Settings(select=("WL304",), root=Path("/")))
    assert report.problems == ()
    return report.findings


def gradient(source: str, *at: float) -> np.ndarray:
    require("jax")
    namespace: dict[str, object] = {}
    exec("import jax\nimport jax.numpy as jnp\n" + textwrap.dedent(source), namespace)
    value, found = value_and_gradient("jax", namespace["f"], at)
    assert np.isfinite(value)
    return found


WRONG = {
    "expm1": (double("jnp.expm1(safe) / safe"), 0.0, 0.5),
    "log1p": (double("jnp.log1p(safe) / safe"), 0.0, -0.5),
    "a bare equality": (double("(jnp.exp(safe) - 1) / safe", condition="x == 0"), 0.0, 0.5),
    "one side only": (double("jnp.arcsinh(jnp.sqrt(safe)) / jnp.sqrt(safe)", condition="x < 1e-6"), 0.0, -1 / 6),
    "half of the series": (double("jnp.expm1(safe) / safe", value="1.0 + 0.25 * x"), 0.25, 0.5),
    "the wrong sign": (double("(1 - jnp.cos(safe)) / safe", value="-0.5 * x"), -0.5, 0.5),
    "a clip for the inner mask": (CLIPPED, 0.0, 0.5),
    "a singularity elsewhere": (AT_ONE, 0.0, -0.5),
}


@pytest.mark.parametrize(("source", "slope", "limit"), WRONG.values(), ids=WRONG)
def test_a_lost_slope_is_told_with_that_of_the_limit(source: str, slope: float, limit: float) -> None:
    (finding,) = findings(source)
    assert finding.witness is not None
    (at,) = finding.witness.inputs.values()
    np.testing.assert_allclose(gradient(source, at), slope, atol=1e-6)
    told = re.search(r"by x it is (\S+), the limit's is (\S+)$", finding.message)
    assert told is not None
    np.testing.assert_allclose([float(told[1]), float(told[2])], [slope, limit], rtol=1e-3, atol=1e-9)
    beyond = [gradient(source, at + step) for step in (0.02, 0.04)]  # out of the arm that replaces the other
    np.testing.assert_allclose(2 * beyond[0] - beyond[1], limit, atol=2e-3)


LEFT = "the slope stays wrong: by x it is 0, the limit's is 0.5 (WL304)"


@pytest.mark.parametrize(("arm", "left"), [("jnp.expm1(x) / x", LEFT), ("jnp.sin(x) / x", "")])
def test_a_double_where_says_that_it_leaves_a_wrong_slope(arm: str, left: str) -> None:
    text = f"import jax.numpy as jnp\n\n\ndef f(x):\n    return jnp.where(x == 0, 1.0, {arm})\n"
    report = check_source(text.encode(), "a.py", Settings(root=Path("/")), "offer")
    (finding,) = report.findings
    assert finding.fix is not None
    assert finding.fix.message.partition("; ")[2] == left


SILENT = {
    "an even function": double("jnp.sin(safe) / safe"),
    "the linear term": double("jnp.expm1(safe) / safe", value="1.0 + 0.5 * x"),
    "the value jumps": double("jnp.expm1(safe) / safe", value="0.0"),
    "the gradient is nan": "def f(x):\n    return jnp.where(x == 0, 1.0, jnp.expm1(x) / x)",
    "relu": "def f(x):\n    return jnp.where(x > 0, x, 0.0)",
    "leaky relu": "def f(x):\n    return jnp.where(x > 0, x, 0.01 * x)",
    "elu": "def f(x):\n    return jnp.where(x > 0, x, 1.5 * jnp.expm1(jnp.where(x > 0, 0.0, x)))",
    "a dead zone": "def f(x):\n    return jnp.where(jnp.abs(x) < 0.1, 0.0, x)",
    "Huber": "def f(x):\n    return jnp.where(jnp.abs(x) < 1, 0.5 * x**2, jnp.abs(x) - 0.5)",
    "infinite": double("safe * jnp.log(safe)", value="0.0", condition="x <= 0"),
    "the square root": double("jnp.sqrt(safe)", value="0.0", condition="x <= 0"),
    "flat": double("jnp.exp(-1 / safe)", value="0.0", condition="x <= 0"),
    "a kink": double("safe**2 / jnp.abs(safe)", value="0.0"),
    "each arm has a side of its own": double("jnp.expm1(safe) / safe", value="1.0 - x", condition="x <= 0"),
    "the norm": """
        def f(x):
            square = jnp.sum(x * x)
            return jnp.where(square == 0, 0.0, jnp.sqrt(jnp.where(square == 0, 1.0, square)))
        """,
    "a stopped gradient": double("safe * jax.lax.stop_gradient(jnp.expm1(safe) / safe**2)"),
    "integers": "def f(n: int):\n    return jnp.where(n == 0, 1.0, jnp.expm1(n) / n)",
    "compared by place": """
        def f(x):
            first = jnp.argmin(x) == 0
            return jnp.where(first, 1.0, jnp.expm1(jnp.where(first, 1.0, x[0])) / jnp.where(first, 1.0, x[0]))
        """,
    "only compared": double("jnp.expm1(safe) / safe").replace("return ", "return 0 < "),
}


@pytest.mark.parametrize("source", SILENT.values(), ids=SILENT)
def test_no_other_selection_is_told(source: str) -> None:
    assert findings(source) == ()


def test_infinities_of_both_signs_are_no_warning() -> None:
    text = "import jax.numpy as J\ndef f(x):\n    return J.where(x > 0, J.log(x) * 1e999, 1e-999)\n"
    (finding,) = check_source(text.encode(), "a.py", Settings(root=Path("/")), "offer").findings
    assert finding.fix is not None  # a warning is an error here, and would be the reason why there is none
    assert finding.fix.edits
