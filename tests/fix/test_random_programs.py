"""Random functions, fixed and executed: the same value, and the gradient that symbolic zeros give.

With scalars and without compilation, JAX itself computes the symbolic-zero gradient: a ``where`` that is a choice of
Python leaves the dropped arm out of the result.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from real_gradients import require

from wherelint.finding import FileReport
from wherelint.io.config import Settings
from wherelint.run.check import check_source

_UNARY = ["xp.sqrt({})", "xp.log({})", "xp.arccos({})", "xp.exp({})", "xp.log1p({})", "1.0 / ({})", "({}) ** 0.5"]
_REGULAR = ["xp.sin({})", "-({})", "({}) ** 2", "2.0 * ({})", "({}) + 1.0", "xp.tanh({})"]
_BINARY = ["({}) + ({})", "({}) * ({})", "({}) / ({})", "xp.arctan2({}, {})", "({}) - ({})"]
_MASKS = ["{} > 0", "{} != 0", "{} >= 1", "{} == 0", "xp.abs({}) < 1"]

atoms = st.sampled_from(["x", "y", "x * y", "x - y", "x + 1.0"])
singular = st.builds(str.format, st.sampled_from(_UNARY), atoms)
regular = st.builds(str.format, st.sampled_from(_REGULAR), atoms)
operations = singular | st.builds(str.format, st.sampled_from(_BINARY), atoms | singular, atoms | regular)
masks = st.builds(str.format, st.sampled_from(_MASKS), st.sampled_from(["x", "y"]))


@st.composite
def selections(draw: st.DrawFn) -> str:
    arms = [draw(operations), draw(st.sampled_from(["0.0", "x", "1.0"]))]
    if draw(st.booleans()):
        arms[1] = f"xp.where({draw(masks)}, {draw(operations)}, {arms[1]})"
    return f"xp.where({draw(masks)}, {', '.join(arms if draw(st.booleans()) else arms[::-1])})"


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A function of two scalars: the selection at once, or over operations that have names."""
    body = f"    return {draw(selections())}\n" if draw(st.booleans()) else (
        f"    a = {draw(operations)}\n    keep = {draw(masks)}\n"
        f"    b = xp.where(keep, a, {draw(atoms)})\n    return b + {draw(regular)}\n"
    )  # fmt: skip
    return f"import jax.numpy as xp\n\n\ndef f(x, y):\n{body}"


def fixed(text: str) -> FileReport:
    return check_source(text.encode(), "f.py", Settings(root=Path("/"), level="note"), "unsafe")


def function(text: str, where: Any) -> Any:
    """``f`` of a program, with another ``where``."""
    import jax.numpy as jnp

    namespace: dict[str, Any] = {}
    exec(text, namespace)  # our own text
    names = {name: getattr(jnp, name) for name in dir(jnp)}
    namespace["xp"] = types.SimpleNamespace(**{**names, "where": where})
    return namespace["f"]


def lazy(condition: Any, a: Any, b: Any) -> Any:
    """The arm that is selected, and nothing of the other."""
    return a if bool(condition) else b


POINTS = [(x, y) for x in (0.0, 1.0, -1.0, 0.5, 2.0) for y in (0.0, 1.0, -2.0, 0.7)]


def check(text: str, report: FileReport) -> None:
    """Run a program before and after its fixes."""
    import jax
    import jax.numpy as jnp

    after = report.after.decode()
    old, new, exact = function(text, jnp.where), function(after, jnp.where), function(text, lazy)
    at = list(POINTS)
    for finding in report.fixed:
        assert finding.witness is not None
        shown = {name: float(np.resize(value, 4)[0]) for name, value in finding.witness.inputs.items()}
        at.append((shown.get("x", 0.6), shown.get("y", 0.6)))
    for point in at:
        x, y = (jnp.float32(v) for v in point)
        value = old(x, y)
        if not np.isfinite(value):
            continue
        np.testing.assert_allclose(new(x, y), value, rtol=1e-5, atol=1e-6, err_msg=after)
        expected = jax.grad(exact, argnums=(0, 1))(x, y)
        gradient = jax.grad(new, argnums=(0, 1))(x, y)
        for one, other in zip(expected, gradient, strict=True):
            if np.isfinite(one) and (np.isfinite(other) or not report.findings):
                np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5, err_msg=f"{text}\n{after}\n{point}")


@cache
def drawn() -> list[tuple[str, FileReport]]:
    """The same programs each time, and what is fixed in them."""
    texts: list[str] = []

    @settings(max_examples=60, derandomize=True, database=None)
    @given(programs())
    def draw(text: str) -> None:
        texts.append(text)

    draw()
    return [(text, fixed(text)) for text in dict.fromkeys(texts)]


def test_many_are_fixed() -> None:
    fixed = sum(len(report.fixed) for _, report in drawn())
    assert fixed >= 20
    assert fixed >= 3 * sum(len(report.findings) for _, report in drawn())


def test_a_fix_keeps_the_value_and_gives_the_symbolic_zero_gradient(a_tenth: Callable[..., Sequence[Any]]) -> None:
    require("jax")
    for text, report in a_tenth([each for each in drawn() if each[1].fixed]):
        check(text, report)


@pytest.mark.parametrize(("condition", "expected"), [(True, 1.0), (False, 2.0)])
def test_the_lazy_where_is_one(condition: bool, expected: float) -> None:
    assert lazy(condition, 1.0, 2.0) == expected
