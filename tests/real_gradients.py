"""Value and gradient of a function under the real framework."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

_MODULES = {"jax": "jax", "torch": "torch", "tensorflow": "tensorflow"}


def require(framework: str) -> None:
    """Skip where the framework is not installed; on the CI it must be."""
    if importlib.util.find_spec(_MODULES[framework]) is None:
        message = f"{framework} is not installed"
        if os.environ.get("CI") == "true":
            pytest.fail(message + ", and CI=true")
        pytest.skip(message, allow_module_level=True)


def framework_of(source: str) -> str:
    """The framework that an example imports."""
    return next(name for name in _MODULES if f"import {name}" in source or f"from {name}" in source)


def value_and_gradient(framework: str, f: Callable[..., Any], inputs: Sequence[Any]) -> tuple[Any, np.ndarray]:
    """``f(*inputs)`` in float32 and its gradient (compiled in jax), flat; zero where nothing is differentiated."""
    arrays = [np.asarray(x, np.float32) for x in inputs]
    value, gradients = globals()[f"_{framework}"](f, arrays)
    flat = [np.zeros(x.size) if g is None else np.ravel(np.asarray(g)) for g, x in zip(gradients, arrays, strict=True)]
    return np.asarray(value), np.concatenate(flat)


def _jax(f: Callable[..., Any], arrays: list[np.ndarray]) -> tuple[Any, Sequence[Any]]:
    import jax

    result = jax.jit(jax.value_and_grad(f, argnums=tuple(range(len(arrays)))))(*arrays)
    return result[0], result[1]


def _torch(f: Callable[..., Any], arrays: list[np.ndarray]) -> tuple[Any, Sequence[Any]]:
    import torch

    tensors = [torch.tensor(x, requires_grad=True) for x in arrays]
    value = f(*tensors)
    return value.detach().numpy(), torch.autograd.grad(value, tensors, allow_unused=True)


def _tensorflow(f: Callable[..., Any], arrays: list[np.ndarray]) -> tuple[Any, Sequence[Any]]:
    import tensorflow as tf

    tensors = [tf.constant(x) for x in arrays]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        value = f(*tensors)
    return value.numpy(), tape.gradient(value, tensors)
