"""Random programs: no printed witness is ever wrong.

The programs chain elementwise operations, reductions and selections in no sensible order; whatever is reported for
them, of either confidence, has a finite value and a bad gradient under the framework at the numbers that are printed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from executing import compiled
from real_gradients import require

from wherelint.config import Settings
from wherelint.engine import check_source

_UNARY = {
    "jax": "sqrt log exp arccos arctanh sin abs square expm1 log1p arcsin cbrt sinh tanh reciprocal log2",
    "torch": "sqrt log acos atanh sin abs square expm1 log1p asin sinh tanh reciprocal log2 rsqrt sigmoid relu logit",
}
_BINARY = {"jax": "maximum minimum arctan2 power hypot", "torch": "maximum minimum hypot pow"}
_REDUCTIONS = {"jax": "sum mean max min linalg.norm cumsum", "torch": "sum mean max min norm"}
_IMPORTS = {"jax": "import jax.numpy as xp\n", "torch": "import torch as xp\n"}
_PROGRAMS = {"jax": 60, "torch": 400}


def program(rng: random.Random, framework: str) -> str:
    """A function of two arrays that ends in a selection."""
    values, masks, lines = ["x", "y"], [], []

    def operand() -> str:
        return rng.choice([*values[-4:], "x"])

    def array(value: str) -> str:
        return f"{value} + xp.zeros_like(x)"

    for i in range(rng.randint(3, 7)):
        draw, name = rng.random(), f"v{i}"
        if draw < 0.3:
            made = f"xp.{rng.choice(_UNARY[framework].split())}({operand()})"
        elif draw < 0.42:
            made = f"xp.{rng.choice(_BINARY[framework].split())}({operand()}, {operand()})"
        elif draw < 0.56:
            made = f"{operand()} {rng.choice('+*/')} {operand()}"
        elif draw < 0.62:
            made = f"xp.{rng.choice(_REDUCTIONS[framework].split())}({operand()})"
        elif draw < 0.68:
            made = f"{operand()} {rng.choice('+-*')} {rng.choice((0.5, 1.0, 2.0, 1e-3))}"
        elif draw < 0.72:
            made = f"{operand()} ** {rng.choice((2, 0.5, -1, 3, 1.5))}"
        else:
            if not masks or rng.random() < 0.5:
                bound = rng.choice(("0.0", "1.0", "0.5", operand()))
                lines.append(f"m{i} = {operand()} {rng.choice(('>', '<', '>=', '<='))} {bound}")
                masks.append(f"m{i}")
            other = rng.choice(("xp.ones_like(x)", "xp.zeros_like(x)", array(operand())))
            made = f"xp.where({rng.choice(masks)}, {array(operand())}, {other})"
        lines.append(f"{name} = {made}")
        values.append(name)
    mask = rng.choice(masks) if masks and rng.random() < 0.6 else f"{operand()} > 0.0"
    lines.append(f"return xp.where({mask}, {array(values[-1])}, {rng.choice(('x', '1.0 * y', 'xp.zeros_like(x)'))})")
    return _IMPORTS[framework] + "def f(x, y):\n    " + "\n    ".join(lines) + "\n"


def witnesses(framework: str) -> Iterator[tuple[str, Any]]:
    rng = random.Random(1052)
    for _ in range(_PROGRAMS[framework]):
        text = program(rng, framework)
        report = check_source(text.encode(), "a.py", Settings(confidence="low", root=Path("/")))
        assert report.problems == (), text
        yield from ((text, f.witness) for f in report.findings)


@pytest.mark.slow
@pytest.mark.parametrize("framework", _PROGRAMS)
def test_no_printed_witness_is_wrong(framework: str) -> None:
    require(framework)
    confirmed = 0
    for text, witness in witnesses(framework):
        namespace: dict[str, Any] = {}
        exec(compile(text, "a.py", "exec"), namespace)
        # An argument that the finding does not speak of may be anything.
        arrays = [np.broadcast_to(np.float32(witness.inputs.get(n, 1.0)), (4,)).copy() for n in ("x", "y")]
        (outcome,) = compiled(framework, namespace["f"], (0, 1))(arrays)
        assert np.isfinite(outcome.value).all(), (witness, text)
        assert not outcome.regular, (witness, text)
        confirmed += 1
    assert confirmed > _PROGRAMS[framework] / 4


class _Lazy:
    """torch, with a ``where`` of numbers that computes the chosen arm only: symbolic zeros, by construction."""

    def __getattr__(self, name: str) -> Any:
        import torch

        return (lambda c, a, b: a if bool(c) else b) if name == "where" else getattr(torch, name)


#: The exactly telling values that the search tries too; in between, a missed alarm is a matter of luck.
_POINTS = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 100.0, -100.0, 1e-4, 1e4, -1e4)


def scalar_program(rng: random.Random) -> str:
    """A function of one number that ends in a selection."""
    values, masks, lines = ["x"], [], []

    def operand() -> str:
        return rng.choice([*values[-3:], "x"])

    for i in range(rng.randint(2, 5)):
        draw = rng.random()
        if draw < 0.45:
            made = f"xp.{rng.choice(_UNARY['torch'].split())}({operand()})"
        elif draw < 0.6:
            made = f"{operand()} {rng.choice('+*/')} {operand()}"
        elif draw < 0.75:
            made = f"{operand()} {rng.choice('+-*')} {rng.choice((0.5, 1.0, 2.0, 1e-3))}"
        else:
            lines.append(f"m{i} = {operand()} {rng.choice(('>', '<', '>=', '<='))} {rng.choice(('0.0', '1.0', '0.5'))}")
            masks.append(f"m{i}")
            other = rng.choice(("xp.ones_like(x)", "xp.zeros_like(x)", operand()))
            made = f"xp.where({rng.choice(masks)}, {operand()}, {other})"
        lines.append(f"v{i} = {made}")
        values.append(f"v{i}")
    mask = rng.choice(masks) if masks and rng.random() < 0.6 else f"{operand()} > 0.0"
    lines.append(f"return xp.where({mask}, {values[-1]}, {rng.choice(('x', 'xp.zeros_like(x)'))})")
    return "def f(x):\n    " + "\n    ".join(lines) + "\n"


def mended_by_a_lazy_selection(text: str) -> list[float]:
    """Where the value is finite, the gradient is not, and the gradient with lazy selections is."""
    import torch

    functions = []
    for module in (torch, _Lazy()):
        namespace: dict[str, Any] = {"xp": module}
        exec(compile(text, "a.py", "exec"), namespace)
        functions.append(compiled("torch", namespace["f"], (0,)))
    found = []
    for x in _POINTS:
        (real,), (lazy,) = (f([x]) for f in functions)
        if np.isfinite(real.value) and not real.regular and lazy.regular:
            found.append(x)
    return found


@pytest.mark.slow
def test_what_a_lazy_selection_would_mend_is_found() -> None:
    """Of either confidence: a guard that keeps the singular point at a distance (``x > 0`` for asin) is low."""
    require("torch")
    rng = random.Random(1052)
    unsafe = high = 0
    for text in [scalar_program(rng) for _ in range(400)]:
        points = mended_by_a_lazy_selection(text)
        if points:
            source = "import torch as xp\n" + text
            report = check_source(source.encode(), "a.py", Settings(confidence="low", root=Path("/")))
            assert report.findings, (points, text)
            unsafe += 1
            high += any(f.confidence == "high" for f in report.findings)
    assert unsafe > 100
    assert high > 0.85 * unsafe
