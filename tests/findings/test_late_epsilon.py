"""WL305: an epsilon after a root keeps the value finite, and not the gradient."""

from __future__ import annotations

import textwrap

import pytest

from wherelint.finding import Finding
from wherelint.io.config import Settings
from wherelint.run.check import check_source

HEADER = "import jax.numpy as jnp\nimport torch\nimport tensorflow as tf\n"


def findings(body: str, mode: str = "no", *chosen: str) -> tuple[Finding, ...]:
    text = (HEADER + textwrap.dedent(body)).encode()
    report = check_source(text, "model.py", Settings(select=chosen or ("WL305",)), mode)  # type: ignore[arg-type]
    assert report.problems == ()
    return report.findings


@pytest.mark.parametrize(
    ("body", "op"),
    [
        ("def f(x): return x / (jnp.sqrt(jnp.sum(x * x)) + 1e-8)", "sqrt"),
        ("def f(x, eps=1e-6): return jnp.log(eps + jnp.linalg.norm(x))", "norm"),
        ("def f(x): return (x - x.mean()) / (jnp.std(x) + 1e-8)", "std"),
        ("def f(a, b): return 1 / (torch.sqrt(((a - b) ** 2).sum()) + 1e-5)", "sqrt"),
        ("def f(x): return x / (tf.sqrt(tf.reduce_sum(x * x)) + 1e-5)", "sqrt"),
    ],
)
def test_an_epsilon_after_the_root_is_reported_and_fixed(body: str, op: str) -> None:
    (found,) = findings(body.replace(": return", ":\n    return"), "offer")
    assert (found.code, found.op) == ("WL305", op)
    assert found.fix is not None
    assert found.fix.applicability == "safe"


@pytest.mark.parametrize(
    "body",
    [
        "def f(x): return x / jnp.sqrt(jnp.sum(x * x) + 1e-8)",
        "def f(x): return x / (torch.linalg.norm(x) + 1e-8)",
        "def f(x): return (x - x.mean()) / (torch.std(x) + torch.tensor(1e-8))",
        "def f(x): return x / (jnp.sqrt(jnp.sum(x * x)) + 1.0)",
        "def f(x): return x * (jnp.sqrt(jnp.sum(x * x)) + 1e-8)",
        "def f(x): return x / (jnp.sqrt(1 + jnp.sum(x * x)) + 1e-8)",
        "def f(x): return x / (jax.lax.stop_gradient(jnp.sqrt(jnp.sum(x * x))) + 1e-8)",
        """
        def f(x):
            s = jnp.sum(x * x)
            return x / (jnp.where(s > 0, jnp.sqrt(jnp.where(s > 0, s, 1.0)), 0.0) + 1e-8)
        """,
    ],
)
def test_a_root_with_a_finite_gradient_is_not(body: str) -> None:
    assert findings("import jax\n" + textwrap.dedent(body)) == ()


def test_the_rule_is_off_by_default() -> None:
    assert findings("def f(x): return x / (jnp.sqrt(jnp.sum(x * x)) + 1e-8)", "no", "WL1", "WL2", "WL301") == ()
