"""One runner a mode: value and reverse-mode gradient of a function, all points in as few calls as possible."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import answers
import numpy as np
import numpy.typing as npt
import pytest

Array = npt.NDArray[Any]
#: ``call(*tensors)`` is the framework's spelling of one operation on its own tensors.
Call = Callable[..., Any]
#: value and one gradient a differentiated operand
Result = tuple[Array, list[Array]]

#: An answer depends on how the question is put, too.
_HOW = answers.how(*(Path(__file__).with_name(name) for name in ("runners.py", "spelling.py")))
FRAMEWORK = {"jax": "jax", "torch": "torch", "tensorflow": "tensorflow", "xla": "tensorflow"}


def require(framework: str) -> None:
    """Skip where the framework is not installed; on the CI it must be."""
    if importlib.util.find_spec(framework) is None:
        message = f"{framework} is not installed"
        if os.environ.get("CI") == "true":
            pytest.fail(message + ", and CI=true")
        pytest.skip(message)


def resolve(name: str) -> Any:
    """The object of a canonical dotted name; a method comes back as a function of its receiver."""
    for prefix in ("jax.Array.", "torch.Tensor."):
        if name.startswith(prefix):
            return _method(name.removeprefix(prefix))
    root, *path = name.split(".")
    found: Any = importlib.import_module(root)
    if root == "tensorflow" and not hasattr(found, path[0]) and hasattr(found.compat.v1, path[0]):
        found = found.compat.v1  # whose names are those of TensorFlow, but for a few that it has alone
    for depth, attribute in enumerate(path):
        if not hasattr(found, attribute):  # a submodule that its package does not import
            importlib.import_module(".".join([root, *path[: depth + 1]]))
        found = getattr(found, attribute)
    return found


def _method(name: str) -> Call:
    def call(x: Any, *arguments: Any, **keywords: Any) -> Any:
        bound = getattr(x, name)
        return bound(*arguments, **keywords) if callable(bound) else bound

    return call


def run(
    mode: str, text: str, call: Call, operands: Sequence[Array], requires_grad: Sequence[bool], ct: Array, rows: bool
) -> Result:
    """Value and gradients of the wanted operands; ``rows`` calls it once a row instead of once.

    ``text`` says what the call is: what was asked before need not be called again.
    """
    runner = {"jax": _jax, "torch": _torch, "tensorflow": _tf_eager, "xla": _tf_xla}[mode]

    def ask() -> answers.Answer:
        value, grads = runner(call, operands, requires_grad, ct, rows)
        return {"value": value, **{str(index): grad for index, grad in enumerate(grads)}}

    value, *grads = answers.to(FRAMEWORK[mode], (_HOW, mode, text, operands, requires_grad, ct, rows), ask).values()
    return value, grads


def _merge(requires_grad: Sequence[bool], chosen: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    queue = iter(chosen)
    return [next(queue) if want else operand for want, operand in zip(requires_grad, operands, strict=True)]


def _jax(call: Call, operands: Sequence[Array], requires_grad: Sequence[bool], ct: Array, rows: bool) -> Result:
    import jax

    def program(ct: Any, *operands: Any) -> Any:
        def of(*chosen: Any) -> Any:
            out = call(*_merge(requires_grad, chosen, operands))
            return out.reshape(ct.shape)

        chosen = [operand for want, operand in zip(requires_grad, operands, strict=True) if want]
        if not chosen:
            return of(), ()
        value, pull = jax.vjp(of, *chosen)
        return value, pull(ct.astype(value.dtype))

    with jax.enable_x64(True):
        compiled = jax.jit(jax.vmap(program) if rows else program)
        value, grads = compiled(ct, *operands)
        return np.asarray(value), [np.asarray(grad) for grad in grads]


def _by_row(one: Callable[..., Result], operands: Sequence[Array], ct: Array, rows: bool) -> Result:
    if not rows:
        return one(ct, *operands)
    results = [one(*row) for row in zip(ct, *operands, strict=True)]
    grads = [np.stack(each) for each in zip(*(result[1] for result in results), strict=True)]
    return np.stack([result[0] for result in results]), grads


def _torch(call: Call, operands: Sequence[Array], requires_grad: Sequence[bool], ct: Array, rows: bool) -> Result:
    import torch

    def one(ct: Array, *operands: Array) -> Result:
        inputs = [
            torch.tensor(operand, requires_grad=want) for want, operand in zip(requires_grad, operands, strict=True)
        ]
        value = torch.as_tensor(call(*inputs))
        chosen = [each for want, each in zip(requires_grad, inputs, strict=True) if want]
        if value.requires_grad:
            found = torch.autograd.grad(value, chosen, torch.tensor(ct.reshape(value.shape)), allow_unused=True)
        else:
            found = (None,) * len(chosen)
        pairs = zip(found, chosen, strict=True)
        grads = [np.zeros(each.shape) if grad is None else grad.numpy(force=True) for grad, each in pairs]
        return value.detach().numpy().reshape(ct.shape), grads

    return _by_row(one, operands, ct, rows)


def _tape(call: Call, requires_grad: Sequence[bool]) -> Callable[..., Any]:
    import tensorflow as tf

    def program(ct: Any, *operands: Any) -> Any:
        chosen = [operand for want, operand in zip(requires_grad, operands, strict=True) if want]
        with tf.GradientTape() as tape:
            tape.watch(chosen)
            value = tf.reshape(call(*operands), ct.shape)
        if not chosen or not value.dtype.is_floating:
            return value, [tf.zeros_like(each) for each in chosen]
        found = tape.gradient(value, chosen, ct)
        pairs = zip(found, chosen, strict=True)
        return value, [tf.zeros_like(each) if grad is None else grad for grad, each in pairs]

    return program


def _tf_eager(call: Call, operands: Sequence[Array], requires_grad: Sequence[bool], ct: Array, rows: bool) -> Result:
    return _tf(_tape(call, requires_grad), operands, ct, rows)


def _tf_xla(call: Call, operands: Sequence[Array], requires_grad: Sequence[bool], ct: Array, rows: bool) -> Result:
    import tensorflow as tf

    return _tf(tf.function(_tape(call, requires_grad), jit_compile=True, autograph=False), operands, ct, rows)


def _tf(program: Callable[..., Any], operands: Sequence[Array], ct: Array, rows: bool) -> Result:
    import tensorflow as tf

    def one(ct: Array, *operands: Array) -> Result:
        value, grads = program(tf.constant(ct), *(tf.constant(operand) for operand in operands))
        return value.numpy(), [tf.convert_to_tensor(grad).numpy() for grad in grads]

    return _by_row(one, operands, ct, rows)
