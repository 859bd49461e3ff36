"""Programs under the real framework, in every mode that a finding may speak of."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import answers
import numpy as np

_number = itertools.count()
#: An answer depends on how the question is put, too.
_HOW = answers.how(Path(__file__))


class Outcome(NamedTuple):
    """The value of a function, and the gradient of its sum for each differentiated argument."""

    mode: str
    value: np.ndarray
    gradients: list[np.ndarray]

    @property
    def regular(self) -> bool:
        """Whether every gradient is finite."""
        return all(bool(np.isfinite(g).all()) for g in self.gradients)


def load(path: Path) -> ModuleType:
    """A file as a fresh module. For files of this repository only."""
    spec = importlib.util.spec_from_file_location(f"executed_{next(_number)}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def outcomes(
    framework: str, f: Callable[..., Any], inputs: Sequence[Any], argnums: Sequence[int] | None = None, text: str = ""
) -> list[Outcome]:
    """``f(*inputs)`` with its gradients: compiled in jax, eager in torch, compiled and then eager in TensorFlow.

    Inputs are converted to float32; ``argnums`` are the ones that are differentiated (all of them by default). A
    ``text`` that says all of what ``f`` is makes it a question whose answer may be kept.
    """
    return compiled(framework, f, list(range(len(inputs)) if argnums is None else argnums), text=text)(inputs)


def compiled(
    framework: str, f: Callable[..., Any], argnums: Sequence[int], *, eager: bool = True, text: str = ""
) -> Callable[[Sequence[Any]], list[Outcome]]:
    """The same for many inputs; ``eager=False`` leaves out what runs TensorFlow operation by operation."""
    start = cache(lambda: globals()[f"_{framework}"](f, list(argnums), eager))

    def run(inputs: Sequence[Any]) -> list[Outcome]:
        arrays = [np.asarray(x, np.float32) for x in inputs]
        if not text:
            return start()(arrays)

        def ask() -> answers.Answer:
            found = {o.mode: [o.value, *o.gradients] for o in start()(arrays)}
            return {f"{mode} {i}": array for mode, each in found.items() for i, array in enumerate(each)}

        modes: dict[str, list[np.ndarray]] = {}
        for name, array in answers.to(framework, (_HOW, text, list(argnums), eager, arrays), ask).items():
            modes.setdefault(name.split()[0], []).append(array)
        return [Outcome(mode, value, gradients) for mode, (value, *gradients) in modes.items()]

    return run


def at_points(
    framework: str, f: Callable[..., Any], count: int, points: Iterable[Sequence[np.ndarray]], text: str
) -> list[Outcome]:
    """The outcomes at some points, in one mode, as one question: up to the first that the function refuses."""
    points = [list(point) for point in points]

    def ask() -> answers.Answer:
        run = compiled(framework, f, range(count), eager=False)
        found = []
        for point in points:
            try:
                found.append(run(point)[0])
            except Exception:
                break
        return {
            f"{at} {o.mode} {i}": array for at, o in enumerate(found) for i, array in enumerate([o.value, *o.gradients])
        }

    made: dict[tuple[str, str], list[np.ndarray]] = {}
    for name, array in answers.to(framework, (_HOW, text, count, points), ask).items():
        at, mode, _ = name.split()
        made.setdefault((at, mode), []).append(array)
    return [Outcome(mode, value, gradients) for (_, mode), (value, *gradients) in made.items()]


Run = Callable[[list[np.ndarray]], list[Outcome]]


def _jax(f: Callable[..., Any], argnums: list[int], eager: bool) -> Run:
    import jax
    import jax.numpy as jnp

    def summed(ct: Any, *args: Any) -> tuple[Any, Any]:
        value = f(*args)
        # The cotangent is an input: with a constant 1, XLA would fold products with masks that a loss leaves standing.
        return jnp.sum(value * ct), value

    gradient = jax.jit(jax.value_and_grad(summed, argnums=tuple(i + 1 for i in argnums), has_aux=True))
    one = np.float32(1)

    def run(arrays: list[np.ndarray]) -> list[Outcome]:
        (_, value), gradients = gradient(one, *[jnp.asarray(a) for a in arrays])
        return [Outcome("jit", np.asarray(value), [np.asarray(g) for g in gradients])]

    return run


def _torch(f: Callable[..., Any], argnums: list[int], eager: bool) -> Run:
    import torch

    def run(arrays: list[np.ndarray]) -> list[Outcome]:
        tensors = [torch.tensor(a, requires_grad=i in argnums) for i, a in enumerate(arrays)]
        value = f(*tensors)
        total = value.sum()
        chosen = [tensors[i] for i in argnums]
        found = torch.autograd.grad(total, chosen, allow_unused=True) if total.requires_grad else [None] * len(chosen)
        pairs = zip(argnums, found, strict=True)
        gradients = [np.zeros_like(arrays[i]) if g is None else g.numpy(force=True) for i, g in pairs]
        return [Outcome("eager", value.detach().numpy(), gradients)]

    return run


def _tensorflow(f: Callable[..., Any], argnums: list[int], eager: bool) -> Run:
    import tensorflow as tf

    def gradient(*args: Any) -> tuple[Any, Any]:
        chosen = [args[i] for i in argnums]
        with tf.GradientTape() as tape:
            tape.watch(chosen)
            value = f(*args)
            total = tf.reduce_sum(value)
        return value, tape.gradient(total, chosen, unconnected_gradients=tf.UnconnectedGradients.ZERO)

    modes = {"xla": tf.function(gradient, jit_compile=True, autograph=False), **({"eager": gradient} if eager else {})}

    def run(arrays: list[np.ndarray]) -> list[Outcome]:
        found = []
        for mode, call in modes.items():
            value, gradients = call(*[tf.constant(a) for a in arrays])
            found.append(Outcome(mode, value.numpy(), [tf.convert_to_tensor(g).numpy() for g in gradients]))
        return found

    return run
