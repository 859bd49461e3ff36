"""The files of examples/ under the real frameworks: right values, and gradients as their docstrings say."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from real_gradients import framework_of, require, value_and_gradient

EXAMPLES = Path(__file__).parent.parent / "examples"
NAN = float("nan")
#: File, function, an input at which it fails. TensorFlow runs eagerly here, which is why its distance is missing.
FAILURES = [
    ("two_disks", "area", (0.0, 1.0, 2.0)),
    ("two_disks", "area", (3.0, 1.0, 1.0)),
    ("two_disks", "area", (0.5, 1.0, 2.0)),
    ("safe_distance", "inverse", (0.0,)),
    ("angle", "angle", (0.0, 0.0)),
    ("phase_flag", "phases", ([1.0, 0.0, 1.0],)),
    ("entropy", "entropy", ([0.0, 0.5, 0.5],)),
]
REGULAR = [
    ("two_disks", "area", (1.5, 1.0, 1.0)),
    ("safe_distance", "inverse", (2.0,)),
    ("safe_distance", "distance", ([1.0, 2.0], [0.0, 2.0])),
    ("angle", "angle", (0.0, -2.0)),
    ("phase_flag", "phases", ([1.0, 2.0, -3.0],)),
    ("entropy", "entropy", ([0.25, 0.25, 0.5],)),
]


def run(file: str, function: str, inputs: tuple[Any, ...]) -> tuple[np.ndarray, np.ndarray]:
    path = EXAMPLES / f"{file}.py"
    framework = framework_of(path.read_text())
    require(framework)
    f = runpy.run_path(str(path))[function]

    def summed(*arrays: Any) -> Any:
        result = f(*arrays)
        return result.sum() if framework == "jax" else result

    return value_and_gradient(framework, summed, inputs)


@pytest.mark.parametrize(("file", "function", "inputs"), FAILURES, ids=str)
def test_the_gradient_is_poisoned_and_repaired(file: str, function: str, inputs: tuple[Any, ...]) -> None:
    value, gradient = run(file, function, inputs)
    assert not np.isfinite(gradient).all()
    safe_value, safe_gradient = run(file, f"{function}_safe", inputs)
    np.testing.assert_allclose(safe_value, value, rtol=1e-6)
    assert np.isfinite(safe_gradient).all()


@pytest.mark.parametrize(("file", "function", "inputs"), REGULAR, ids=str)
def test_the_repair_changes_nothing_elsewhere(file: str, function: str, inputs: tuple[Any, ...]) -> None:
    value, gradient = run(file, function, inputs)
    safe_value, safe_gradient = run(file, f"{function}_safe", inputs)
    np.testing.assert_allclose(safe_value, value, rtol=1e-5)
    np.testing.assert_allclose(safe_gradient, gradient, rtol=1e-4)


def test_missing_data() -> None:
    # The gradient with respect to the missing measurement itself is of no interest, so it is not asked for.
    require("torch")
    import torch

    functions = runpy.run_path(str(EXAMPLES / "gaps.py"))
    measured = torch.tensor([NAN, 2.0])
    for name, finite in (("loss", False), ("loss_safe", True)):
        prediction = torch.tensor([1.0, 1.0], requires_grad=True)
        value = functions[name](prediction, measured)
        value.backward()
        assert float(value.detach()) == 1.0
        assert bool(torch.isfinite(prediction.grad).all()) is finite


def test_the_distance_is_poisoned_under_xla_only() -> None:
    require("tensorflow")
    import tensorflow as tf

    distance = runpy.run_path(str(EXAMPLES / "safe_distance.py"))["distance"]

    def gradient(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = distance(x, y)
        return tape.gradient(value, x)

    point = tf.constant([1.0, 2.0])
    assert np.isfinite(gradient(point, point)).all()
    assert np.isnan(tf.function(gradient, jit_compile=True)(point, point)).all()
