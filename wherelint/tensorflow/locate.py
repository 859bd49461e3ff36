"""Which operation and which selection a gradient was lost to."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, wraps
from typing import Any

import tensorflow as tf

from wherelint.companion import Report
from wherelint.companion.frames import calling, places
from wherelint.tensorflow import compat
from wherelint.tensorflow.masked import Call, adopt, all_finite, explained, with_reads

_OWN = tuple(os.path.dirname(os.path.abspath(each)) + os.sep for each in (tf.__file__, __file__))


def locate(f: Callable[..., Any], *args: Any) -> Report:
    """What poisons the gradient of ``f(*args)``, or of its sum, by the arguments and the variables that it reads.

    ``f`` is called once, eagerly, the functions of ``tf.function`` in it as well. Arrays, tensors and variables of
    floats among the arguments are differentiated, in nested structures, too. The report names operation, selection and
    element; loops are not counted; experimental. TypeError where there is nothing to differentiate, ValueError where no
    gradient reaches an argument or a variable, or where ``f`` returns a gradient.
    """
    given = tf.nest.map_structure(_differentiable, args)
    leaves = [each for each in tf.nest.flatten(given) if _is_floating(each)]
    calls: list[Call] = []
    gradients: list[Any] = []
    with recorded(calls), _collected(gradients), tf.GradientTape() as tape:
        results = tf.nest.flatten(f(*given))
    values = [each for each in results if _is_floating(each)]
    variables = [each.handle for each in tape.watched_variables()]
    sources = [*leaves, *variables]
    if any(each is found for each in values for found in gradients):
        raise ValueError("the function returns a gradient: hand over the one that it differentiates")
    if not sources:
        raise TypeError("there is nothing to differentiate: no argument holds floats; write 0.0 for 0")
    if not values:
        raise TypeError("there is nothing to differentiate: the function returns no tensor of floats; return the loss")
    calls = with_reads(calls, variables)
    report = explained(calls, values, sources, [tf.ones_like(each) for each in values])
    if all(each is None for each in report.gradient):
        raise ValueError(
            "the result has no gradient: leave out the `stop_gradient`, `numpy()` or cast between it and the arguments"
        )
    own = len(leaves)
    return replace(report, value_finite=all_finite(values), gradient=report.gradient[:own], masked=report.masked[:own])


def _is_floating(each: Any) -> bool:
    return bool(tf.is_tensor(each) and each.dtype.is_floating)


def _differentiable(each: Any) -> Any:
    kinds = getattr(getattr(each, "dtype", None), "kind", "f" if isinstance(each, float) else "")
    if isinstance(each, tf.Variable) or tf.is_tensor(each) or kinds == "f":
        return tf.identity(each)
    return each


@contextmanager
def recorded(calls: list[Call]) -> Iterator[None]:
    """Within the block all that runs is added to the calls, with the functions of ``tf.function``."""

    def note(kind: str, attributes: Any, operands: Sequence[Any], results: Sequence[Any]) -> None:
        calls.append(Call(kind, attributes, operands, results, partial(places, calling(_OWN))))

    def own(name: str, operands: Sequence[Any], results: Sequence[Any], backward: Callable[..., Any]) -> None:
        adopt(calls, Call(name, (), operands, results, partial(places, calling(_OWN)), backward))

    eager = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        with compat.noting(note), compat.own_gradients(own):
            yield
    finally:
        tf.config.run_functions_eagerly(eager)


@contextmanager
def _collected(gradients: list[Any]) -> Iterator[None]:
    """Within the block the gradients that tapes compute are collected."""
    original = tf.GradientTape.gradient

    @wraps(original)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        found = original(*args, **kwargs)
        gradients.extend(tf.nest.flatten(found))
        return found

    tf.GradientTape.gradient = gradient
    try:
        yield
    finally:
        tf.GradientTape.gradient = original
