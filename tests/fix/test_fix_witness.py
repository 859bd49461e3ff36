"""A factor that is 0 hands a cotangent of 0 to what the other was computed by: its fix has to reach that, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from executing import load, outcomes
from real_gradients import require

from wherelint.io.config import Settings
from wherelint.run.check import check_source

#: The framework, and the bodies of functions of x and y whose gradient at (0, 0) is nan for two reasons.
PROGRAMS = {
    "the factor": ("jax", "r = jnp.sqrt(x**2 + y**2)", "jnp.exp(-r) * jnp.where(r > 0, 1 / r, 0)"),
    "a name for the selection": (
        "jax", "r = jnp.sqrt(x**2 + y**2)\n    w = jnp.where(r > 0, 1 / r, 0.0)", "w * jnp.exp(-r)",
    ),
    "a logarithm": ("jax", "r = jnp.sqrt(x**2 + y**2)", "(1 - r) * jnp.where(r > 0, jnp.log(r), 0.0)"),
    "a cutoff": ("jax", "r = jnp.sqrt(x * x + y * y)", "jnp.cos(r) * jnp.where(r > 1e-6, jnp.exp(-r) / r, 0.0)"),
    "a power": ("jax", "r = (x**2 + y**2) ** 0.5", "jnp.where(r != 0, 1 / r, 0.0) * jnp.exp(-r) + x"),
    "a norm": ("jax", "r = jnp.linalg.norm(jnp.stack([x, y]))", "jnp.exp(-r) * jnp.where(r > 0, 1 / r, 0)"),
    "torch": ("torch", "r = torch.sqrt(x**2 + y**2)", "torch.exp(-r) * torch.where(r > 0, 1 / r, 0.0)"),
    "a square in the divisor": (
        "torch", "d = torch.sqrt(torch.square(x) + torch.square(y))",
        "torch.cos(d) * torch.where(d > 0, torch.sin(d) / d**2, torch.zeros_like(d))",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PROGRAMS)
def test_the_gradient_at_the_witness_is_finite_after_the_fix(case: str, tmp_path: Path) -> None:
    framework, first, result = PROGRAMS[case]
    require(framework)
    imports = "import torch" if framework == "torch" else "import jax.numpy as jnp"
    text = f"{imports}\n\n\ndef f(x, y):\n    {first}\n    return {result}\n"
    report = check_source(text.encode(), "a.py", Settings(), "unsafe")
    assert len(report.fixed) == 1
    assert not report.findings
    before, after = tmp_path / "before.py", tmp_path / "after.py"
    before.write_text(text)
    after.write_bytes(report.after)
    for point in ((0.0, 0.0), (0.3, -0.4), (0.0, 2.0)):
        olds, news = (outcomes(framework, load(path).f, point, text=path.read_text()) for path in (before, after))
        for old, new in zip(olds, news, strict=True):
            assert new.value == pytest.approx(old.value, rel=1e-5)
            assert new.regular
            assert old.regular or point == (0.0, 0.0)
            if old.regular:
                assert np.allclose(new.gradients, old.gradients, rtol=1e-4)
    assert not outcomes(framework, load(before).f, (0.0, 0.0), text=text)[0].regular


def test_an_infinity_that_a_guard_keeps_loses_the_gradient_of_a_product() -> None:
    """There the operation itself loses none: its value is nan, and the factor of a product."""
    body = "    v = tf.math.log(y)\n    low = 1.0 / y <= 2.0\n    kept = part(low)\n"
    body += "    return tf.where(kept, v * y, 0.001)\n"
    text = f"import tensorflow as tf\n\n\ndef part(low):\n    return ~low\n\n\ndef f(y):\n{body}"
    report = check_source(text.encode(), "a.py", Settings(level="note"), "safe")
    assert [(f.op, f.witness.inputs) for f in report.findings if f.witness] == [("log", {"y": -1.0})]
    assert not report.fixed


def test_what_an_index_moves_is_broken_elsewhere() -> None:
    """At the witness either root is at 0, and indexing hands the nan of the one that is left to the other's input."""
    lines = """
    q = x[j]
    s = x[k] - q
    u = s / torch.sqrt(torch.linalg.vecdot(s, s)).clamp_min(1e-8).unsqueeze(-1)
    n = torch.linalg.cross(a, x[i] - q, dim=-1)
    w = n / torch.sqrt(torch.linalg.vecdot(n, n)).clamp_min(1e-8).unsqueeze(-1)
    c = torch.where(m, torch.linalg.vecdot(w, u), 0.0).clamp(-1.0, 1.0)
    return torch.sqrt(1.0 - c * c).clamp_min(1e-8)
"""
    text = f"import torch\n\n\ndef f(x: torch.Tensor, i, j, k, a, m):{lines}"
    report = check_source(text.encode(), "a.py", Settings(), "safe")
    assert not report.problems
    assert [finding.op for finding in report.fixed] == ["sqrt", "sqrt"]
    require("torch")
    import torch

    names: dict[str, Any] = {}
    exec(report.after.decode(), names)
    x, a = torch.zeros(4, 3).requires_grad_(), torch.zeros(2, 3).requires_grad_()
    first, second, third = (torch.tensor(at) for at in ([0, 1], [1, 2], [3, 2]))
    names["f"](x, first, second, third, a, torch.tensor([True, True])).sum().backward()
    assert torch.isfinite(x.grad).all()
    assert torch.isfinite(a.grad).all()


def test_an_element_that_is_selected_is_singular_in_earnest() -> None:
    """The witness is 0 in every element, and only the one that the mask drops is to be saved."""
    text = (
        "import jax.numpy as jnp\n\nOFF = jnp.array([False, True, False])\n\n\n"
        "def f(x):\n    return jnp.where(OFF, 0.0, jnp.arctan2(x, x))\n"
    )
    report = check_source(text.encode(), "a.py", Settings(), "safe")
    assert b"jnp.arctan2(x, jnp.where(OFF, 1.0, x))" in report.after


def test_what_minus_zero_makes_infinite_is_dropped_as_what_zero_does() -> None:
    """PyTorch's own power of -0.0 is -inf, which the mask of the degrees was not written to keep."""
    body = '    v = x.pow(-0.5)\n    return v.masked_fill(v == float("inf"), 0.0)\n'
    report = check_source(f"import torch\n\n\ndef f(x):\n{body}".encode(), "a.py", Settings(), "safe")
    assert (
        b'v = torch.where(x != 0, x, x.detach()).pow(-0.5)\n    return v.masked_fill(v == float("inf"), 0.0)'
        in report.after
    )
