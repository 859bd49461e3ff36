"""Every fix of a published bug is executed: the same value, and a finite gradient, under the real framework."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from executing import load, outcomes
from fixes import NOT_FIXED
from real_gradients import require
from test_cases import CASES, FRAMEWORKS, NOTES, POSITIVE, arrays, points, read

from wherelint.evidence.pieces import Level
from wherelint.finding import FileReport
from wherelint.io.config import Settings
from wherelint.run.check import check_source


@cache
def repaired(name: str) -> FileReport:
    content = (CASES / name / "unsafe.py").read_bytes()
    level: Level = "note" if name in NOTES else "warning"
    return check_source(content, "/alone/unsafe.py", Settings(root=Path("/"), level=level), "unsafe")


@pytest.mark.parametrize("name", [name for name in POSITIVE if name not in NOT_FIXED])
def test_the_fix_keeps_the_value_and_fixes_the_gradient(name: str, tmp_path: Path) -> None:
    report = repaired(name)
    assert report.fixed
    assert report.findings == ()
    case = read(name)
    framework = FRAMEWORKS[case["framework"]]
    require(framework)
    path = tmp_path / "fixed.py"
    path.write_bytes(report.after)
    texts = [(CASES / name / "unsafe.py").read_text("utf-8"), path.read_text("utf-8")]
    before, after = load(CASES / name / "unsafe.py").f, load(path).f
    for at in [witness := arrays(case["witness"]), *points(case)]:
        bad = outcomes(framework, before, at, case.get("argnums"), texts[0])
        good = outcomes(framework, after, at, case.get("argnums"), texts[1])
        np.testing.assert_allclose(good[0].value, bad[0].value, rtol=1e-5, atol=1e-6)
        assert all(outcome.regular for outcome in good), [o.gradients for o in good]
        if at is not witness:
            for old, new in zip(bad[0].gradients, good[0].gradients, strict=True):
                known = np.isfinite(old)
                np.testing.assert_allclose(new[known], old[known], rtol=2e-4, atol=1e-4)


@pytest.mark.parametrize("name", sorted(NOT_FIXED))
def test_what_cannot_be_fixed_is_left_alone(name: str) -> None:
    assert repaired(name).fixed == ()


def test_a_fix_is_offered_for_nine_of_ten() -> None:
    assert len(NOT_FIXED) <= len(POSITIVE) / 10


@pytest.mark.parametrize("name", [name for name in POSITIVE if name not in NOT_FIXED])
def test_a_second_run_changes_nothing(name: str) -> None:
    again = check_source(repaired(name).after, "/alone/unsafe.py", Settings(root=Path("/")), "unsafe")
    assert again.fixed == ()


FLOAT64 = {
    "torch": "import torch\n\n\ndef f(x):\n"
    "    return torch.where(x <= 0, 0.0, x.log()) + torch.sqrt(x.clamp(min=0.0))\n",
    "tensorflow": "import tensorflow as tf\n\n\ndef f(x):\n"
    "    return tf.where(x <= 0, tf.zeros_like(x), tf.math.log(x)) + tf.sqrt(tf.maximum(x, tf.zeros_like(x)))\n",
}


@pytest.mark.parametrize("framework", FLOAT64)
def test_a_fix_keeps_the_dtype(framework: str, tmp_path: Path) -> None:
    require(framework)
    report = check_source(FLOAT64[framework].encode(), "f.py", Settings(root=Path("/")), "safe")
    assert len(report.fixed) == 2
    path = tmp_path / "fixed.py"
    path.write_bytes(report.after)
    f = load(path).f
    values = np.array([0.0, 0.3, -1.0], np.float64)
    if framework == "torch":
        import torch

        x = torch.tensor(values, requires_grad=True)
        y = f(x)
        y.sum().backward()
        assert y.dtype == torch.float64
        assert torch.isfinite(x.grad).all()
    else:
        import tensorflow as tf

        for run in (f, tf.function(f)):
            x = tf.Variable(values)
            with tf.GradientTape() as tape:
                y = run(x)
            assert y.dtype == tf.float64
            assert np.isfinite(tape.gradient(y, x)).all()
