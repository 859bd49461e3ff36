"""A mean with weights divides by their sum, in the model as in JAX."""

from __future__ import annotations

import pytest
from real_gradients import require

from wherelint.findings import DetectOptions, detect

_TEXT = "import jax.numpy as jnp\n\n\ndef f(x):\n    return {}\n"


@pytest.mark.parametrize(
    ("expression", "codes"),
    [
        ("jnp.where(jnp.sum(x) > 0, jnp.average(x * 2, weights=x), 0.0)", ["WL103"]),
        ("jnp.where(jnp.sum(x) > 0, jnp.average(x * 2, 0, x, keepdims=True)[0], 0.0)", ["WL103"]),
        ("jnp.where(jnp.sum(x) > 0, jnp.average(x * 2), 0.0)", []),
        ("jnp.where(jnp.sum(x) > 0, jnp.average(x * 2, weights=x * x + 1), 0.0)", []),
        ("jnp.average(jnp.where(x > 0, jnp.sqrt(x), 0.0), weights=x + 1)", ["WL101"]),
        ("jnp.average(x, weights=jnp.where(x > 0, jnp.sqrt(x), 0.0) + 1)", ["WL101"]),
    ],
)
def test_a_weighted_average_is_a_quotient_of_sums(expression: str, codes: list[str]) -> None:
    findings, _ = detect(_TEXT.format(expression), "a.py", DetectOptions())
    assert [finding.code for finding in findings if finding.is_shown] == codes
    require("jax")
    import jax
    import jax.numpy as jnp

    scope: dict[str, object] = {}
    exec(_TEXT.format(expression), scope)
    value, gradient = jax.value_and_grad(lambda x: scope["f"](x).sum())(jnp.zeros(3))  # type: ignore[operator]
    assert jnp.isfinite(value)
    assert bool(jnp.isfinite(gradient).all()) is not bool(codes)
