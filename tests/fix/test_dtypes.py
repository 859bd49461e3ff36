"""A safe fix runs with every dtype that the original runs with, and keeps it: a Python number has none of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixes import executed, program, tensor

from wherelint.io.config import Settings
from wherelint.run.check import check_source

#: Functions of x; the divisor may be a number, which `where(mask, divisor, 1.0)` would make a float32.
NUMBERS = {
    "a default": ("torch", """
        def f(x, rate=0.0):
            scaled = x / rate
            return torch.where(x > 1, scaled, x)
    """),
    "a default, far from the selection": ("tensorflow", """
        def f(x, rate=0.0):
            v = tf.math.reciprocal_no_nan(x / rate)
            return tf.where(x > 1, tf.cosh(v), x) + x
    """),
    "what a helper is given": ("tensorflow", """
        def scaled(x, rate):
            return tf.where(x > 1, x / rate, x)


        def f(x):
            return scaled(x, 0.0)
    """),
    "a number that was a tensor": ("torch", """
        def f(x):
            rate = (x - x).sum().item()
            scaled = x / torch.tensor(rate) if rate > 0 else x * rate
            return torch.where(x > 1, x.log() / scaled, x)
    """),
    "an annotation": ("tensorflow", """
        def f(x, rate: float):
            return tf.where(x > 1, x / rate, x)
    """),
    "an attribute": ("torch", """
        class Scale:
            def __init__(self, rate):
                self.rate = rate

            def __call__(self, x):
                return torch.where(x > 1, x / self.rate, x)


        f = Scale(0.0)
    """),
}  # fmt: skip


@pytest.mark.parametrize("why", NUMBERS)
def test_a_safe_fix_keeps_the_dtype(why: str, tmp_path: Path) -> None:
    framework, body = NUMBERS[why]
    report, before, after = executed(framework, program(framework, body), tmp_path, level="note")
    assert report.fixed or report.findings
    given = (0.0,) if "annotation" in why else ()
    for dtype in ("float32", "float64", "float16"):
        x = tensor(framework, np.array([0.5, 2.0], dtype))
        old, new = (seeded(framework, f, x, *given) for f in (before, after))
        assert new.dtype == old.dtype, report.after.decode()
        np.testing.assert_array_equal(np.asarray(new), np.asarray(old))


@pytest.mark.parametrize(("annotation", "safe"), [("torch.Tensor", True), ("float", False), ("object", False)])
def test_an_annotation_says_whether_a_field_is_a_number(annotation: str, safe: bool) -> None:
    text = program("torch", f"""
        from dataclasses import dataclass

        @dataclass
        class Scale:
            rate: {annotation}

            def __call__(self, x):
                return torch.where(self.rate > 0, x / self.rate, x)
    """)  # fmt: skip
    report = check_source(text.encode(), "f.py", Settings(root=Path("/"), level="note"), "safe")
    assert bool(report.fixed) is safe


def seeded(framework: str, f: Any, *given: Any) -> Any:
    """What a function returns, always with the same random numbers."""
    if framework == "torch":
        import torch

        torch.manual_seed(1052)
    return f(*given)


@pytest.mark.parametrize("number", ["int(length * factor)", "math.sqrt(factor)", "(length * factor).item()"])
def test_no_condition_is_put_on_a_number_of_python(number: str) -> None:
    """PyTorch selects by tensors alone: not even an unsafe fix raises for certain."""
    text = program(
        "torch",
        f"""
        def f(x, length, factor):
            size = {number}
            return torch.clamp(x * length / size, min=1e-5)
    """,
    )
    report = check_source(f"import math\n{text}".encode(), "f.py", Settings(root=Path("/"), level="note"), "unsafe")
    assert report.findings
    assert "size != 0" not in report.after.decode()
