"""What a report advises where no fix could be proven: the names of the file, and a gradient that is finite."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from real_gradients import require

from wherelint.io.config import Settings
from wherelint.report.advice import advice
from wherelint.run.check import check_source

HEAD = "import jax\nimport jax.numpy as jnp\n\n\n"
LONG = "(x > 0) & (x < 1000.0) & (x < 2000.0) & (x < 3000.0)"


def advised(body: str) -> str | None:
    text = f"{HEAD}def f(x):\n    {body}\n"
    finding = check_source(text.encode(), "a.py", Settings(level="note"), "no").findings[0]
    return advice(finding, text)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return jnp.where(x > 0, jnp.log(x), 0.0)", "`jnp.log(jnp.where(x > 0, x, 1.0))`"),
        ("return jnp.where(x > 0, 0.5 / x, 0.0)", "`0.5 / jnp.where(x > 0, x, 1.0)`"),
        ("return jnp.where(x <= 0, 0.0, x**0.5)", "`jnp.where(x <= 0, 1.0, x) ** 0.5`"),
        ("return jnp.where(x >= 1, 0.0, jnp.arccos(x))", "`jnp.arccos(jnp.where(x >= 1, 0.0, x))`"),
        ("r = jnp.sqrt(x)\n    return jnp.where(x > 0, 2 * r, 0.0)", "`jnp.sqrt(jnp.where(x > 0, x, 1.0))`"),
        (
            f"return jnp.where({LONG}, jnp.sqrt(x), 0.0)",
            f"`jnp.sqrt(jnp.where(mask, x, 1.0))`, where `mask` is `{LONG[:50]}...`",
        ),
    ],
)
def test_the_double_where_in_the_names_of_the_file(body: str, told: str) -> None:
    assert advised(body) == f"mask the operand too: {told}"


@pytest.mark.parametrize("at", [0.0])
@pytest.mark.parametrize("arm", ["jnp.log(x)", "0.5 / x", "x**0.5", "jnp.sqrt(x)"])
def test_it_does_what_it_says(arm: str, at: float) -> None:
    require("jax")
    names: dict[str, Any] = {}
    line = f"jnp.where(x > 0, {arm}, 0.0)"
    found = re.fullmatch(r"mask the operand too: `(.+)`", advised(f"return {line}") or "")
    assert found is not None
    exec(f"{HEAD}f = lambda x: {line}\ng = lambda x: jnp.where(x > 0, {found[1]}, 0.0)\n", names)
    jax = names["jax"]
    assert math.isnan(jax.grad(names["f"])(at))
    assert float(jax.grad(names["g"])(at)) == 0.0
    assert names["f"](0.3) == names["g"](0.3)


@pytest.mark.parametrize(
    "body",
    [
        "return jnp.maximum(jnp.log(x), -5.0)",
        "r = jnp.sqrt(x)\n    s = r * r\n    return jnp.where(x > 0, s, 0.0)",  # which arm reads it takes a second look
    ],
)
def test_where_it_is_not_plain_nothing_is_advised(body: str) -> None:
    assert advised(body) is None
