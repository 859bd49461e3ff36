"""The child's side of the harness: runs routines under one framework, one request a line, one reply a line.

A request is data. What is computed is the templates' alone: an operation is looked up by its name, and no text of the
linted program arrives here at all.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from wherelint.confirm.routine import NotRunnableError, Step
from wherelint.confirm.spelling import HELPERS, IMPORTS, Argument, call, floats, templates
from wherelint.finding import Framework
from wherelint.ops import Array


class DeviceError(Exception):
    """The device that was asked for is not there; the message says what to do."""


class Result(NamedTuple):
    """The value of a routine and the gradient of its sum for each differentiated parameter, at every probe."""

    value: Array
    gradients: list[Array]


Routine = Callable[..., Any]
#: ``mode(routine, parameters, watched)`` runs a routine; ``watched`` are the differentiated parameters.
Mode = Callable[[Routine, Sequence[Array], Sequence[int]], Result]


def main(framework: Framework, device: str) -> None:
    """Answer requests until there are no more. The first line says what framework and device there are."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a framework prints is not an answer

    def reply(message: dict[str, Any]) -> None:
        replies.write(json.dumps(message) + "\n")
        replies.flush()

    try:
        version, found, modes = _BACKENDS[framework](device)
    except DeviceError as error:
        reply({"fatal": str(error)})
        return
    reply({"version": version, "device": found})
    for line in sys.stdin:
        try:
            reply(answer(framework, modes, json.loads(line)))
        except NotRunnableError as error:
            reply({"error": str(error)})
        except MemoryError:
            reply({"error": "it ran out of memory"})
        except Exception as error:
            first = (str(error).strip().splitlines() or [""])[0]
            reply({"error": f"{framework} raises {type(error).__name__}: {first[:200]}"})


def answer(framework: Framework, modes: dict[str, Mode], request: dict[str, Any]) -> dict[str, Any]:
    """The results of a request's routines, by name and mode."""
    found: dict[str, Any] = {}
    for name, sent in request.items():
        steps = [
            Step(op, tuple(inputs), kind, tuple(data) if isinstance(data, list) else data)
            for op, inputs, kind, data in sent["steps"]
        ]
        leaves = [step for step in steps if step.op == "leaf"]
        parameters = [
            np.asarray(probes, np.bool_ if step.kind == "bool" else np.float32)
            for step, probes in zip(leaves, sent["probes"], strict=True)
        ]
        watched = [i for i, step in enumerate(leaves) if step.data]
        routine = build(framework, steps)
        found[name] = {}
        for mode, run in modes.items():
            result = run(routine, parameters, watched)
            count = len(parameters[0]) if parameters else 1
            value = np.broadcast_to(result.value, (count, result.value.shape[-1] if result.value.ndim else 1))
            found[name][mode] = {"value": value.tolist(), "gradients": [g.tolist() for g in result.gradients]}
    return found


def build(framework: Framework, steps: Sequence[Step]) -> Routine:
    """The function of the parameters that some steps make. Raises NotRunnableError where an operation is missing."""
    plan = [None if step.op in ("leaf", "const") else _planned(framework, steps, step) for step in steps]
    array = _function(framework, "array")
    as_float = _function(framework, "float")

    def routine(*parameters: Any) -> Any:
        given = iter(parameters)
        values: list[Any] = []

        def passed(argument: Argument) -> Any:
            value = values[argument.step]
            if argument.how == "decimal":
                return floats(value)
            if steps[argument.step].op == "const" and argument.how != "number":
                value = array(floats(value))
            return value != 0 if argument.how == "truth" else as_float(value) if argument.how == "float" else value

        for step, planned in zip(steps, plan, strict=True):
            if planned is None:
                values.append(next(given) if step.op == "leaf" else step.data)
            else:
                function, arguments, before, after = planned
                values.append(function(*before, *map(passed, arguments), *after))
        return values[-1]

    return routine


def _planned(framework: Framework, steps: Sequence[Step], step: Step) -> tuple[Any, ...]:
    template, arguments = call(framework, steps, step)
    extra = slice(step.data, step.data + 1) if step.op == "lane" else step.data
    extras = [] if extra is None else [list(extra) if isinstance(extra, tuple) else extra]
    before, after = (extras, []) if template.variadic else ([], extras)
    return _compiled(framework, template.text), arguments, before, after


def _function(framework: Framework, op: str) -> Callable[..., Any]:
    return _compiled(framework, templates(framework)[op].text)


@cache
def _namespace(framework: Framework) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec("\n".join([IMPORTS[framework], *HELPERS[framework].values()]), names)  # texts of this package
    return names


@cache
def _compiled(framework: Framework, text: str) -> Callable[..., Any]:
    """A template as a function; templates are texts of this package."""
    parameters = "index, *each" if "nth" in text else "*each" if "each" in text else "a, b=None, c=None, d=None"
    text = text.replace("nth(a", "nth(index")
    return eval(f"lambda {parameters}: {text}", _namespace(framework))  # type: ignore[no-any-return]


# -- the frameworks ---------------------------------------------------------------------------------------------------


def _jax(device: str) -> tuple[str, str, dict[str, Mode]]:
    import jax
    import jax.numpy as jnp

    try:
        chosen = jax.devices(None if device == "auto" else device)[0]
    except Exception as error:  # of which kind depends on what is wrong with the platform
        if device == "auto":
            why = (str(error).strip().splitlines() or [type(error).__name__])[0]
            asked = os.environ.get("JAX_PLATFORMS")
            asked = f" (JAX_PLATFORMS={asked})" if asked else ""
            raise DeviceError(f"jax {jax.__version__} finds no device{asked}: {why[:200]}") from None
        remedy = "pip install 'jax[cuda13]' for NVIDIA, 'jax[tpu]' for TPU"
        raise _missing(device, f"jax {jax.__version__}", remedy) from None

    def gradient(routine: Routine, watched: Sequence[int]) -> Callable[..., Any]:
        def call(*parameters: Any) -> tuple[Any, Any]:
            def part(*chosen: Any) -> Any:
                given = list(parameters)
                for i, each in zip(watched, chosen, strict=True):
                    given[i] = each
                return routine(*given)

            # The gradient of the sum, at once with the value: compiled in less time than `value_and_grad`.
            value, pull = jax.vjp(part, *(parameters[i] for i in watched))
            return value, pull(jnp.ones_like(value))

        return call

    def mode(compiled: bool) -> Mode:
        def run(routine: Routine, parameters: Sequence[Array], watched: Sequence[int]) -> Result:
            call = gradient(routine, watched)
            with jax.default_device(chosen):
                value, gradients = (jax.jit(call) if compiled else call)(*map(jnp.asarray, parameters))
            return Result(np.asarray(value), [np.asarray(g) for g in gradients])

        return run

    return jax.__version__, _named(chosen.platform, chosen.device_kind), {"jit": mode(True), "eager": mode(False)}


def _torch(device: str) -> tuple[str, str, dict[str, Mode]]:
    import torch

    there = torch.accelerator.current_accelerator() if hasattr(torch, "accelerator") else None
    there = there or (torch.device("cuda") if torch.cuda.is_available() else None)
    if device == "tpu" or (device == "gpu" and there is None):
        raise _missing(device, f"torch {torch.__version__}", "install a build of torch for it (https://pytorch.org)")
    chosen = torch.device("cpu") if device == "cpu" or there is None else there
    torch.set_default_device(chosen)
    kind = torch.cuda.get_device_name() if chosen.type == "cuda" else ""

    def run(routine: Routine, parameters: Sequence[Array], watched: Sequence[int]) -> Result:
        tensors = [torch.tensor(p, requires_grad=i in watched) for i, p in enumerate(parameters)]
        value = routine(*tensors)
        wanted = [tensors[i] for i in watched]
        flows = value.requires_grad and wanted
        found = torch.autograd.grad(value.sum(), wanted, allow_unused=True) if flows else [None] * len(wanted)
        gradients = [torch.zeros_like(w) if g is None else g for g, w in zip(found, wanted, strict=True)]
        return Result(value.numpy(force=True), [g.numpy(force=True) for g in gradients])

    return torch.__version__, _named("gpu" if kind else chosen.type, kind), {"eager": run}


def _tensorflow(device: str) -> tuple[str, str, dict[str, Mode]]:
    import tensorflow as tf

    devices = [d for d in tf.config.list_physical_devices() if d.device_type in ("GPU", "TPU")]
    wanted = [d for d in devices if device in ("auto", d.device_type.lower())]
    if device in ("gpu", "tpu") and not wanted:
        raise _missing(device, f"tensorflow {tf.__version__}", "pip install 'tensorflow[and-cuda]' for NVIDIA")
    place = f"/{wanted[0].device_type}:0" if wanted else "/CPU:0"
    kind = tf.config.experimental.get_device_details(wanted[0]).get("device_name", "") if wanted else ""

    def mode(compiled: bool) -> Mode:
        def run(routine: Routine, parameters: Sequence[Array], watched: Sequence[int]) -> Result:
            def gradient(*tensors: Any) -> tuple[Any, Any]:
                chosen = [tensors[i] for i in watched]
                with tf.GradientTape() as tape:
                    tape.watch(chosen)
                    value = routine(*tensors)
                    total = tf.reduce_sum(value)
                return value, tape.gradient(total, chosen, unconnected_gradients=tf.UnconnectedGradients.ZERO)

            call = tf.function(gradient, jit_compile=True, autograph=False) if compiled else gradient
            with tf.device(place):
                value, gradients = call(*map(tf.constant, parameters))
            return Result(value.numpy(), [tf.convert_to_tensor(g).numpy() for g in gradients])

        return run

    platform = wanted[0].device_type.lower() if wanted else "cpu"
    return tf.__version__, _named(platform, kind), {"eager": mode(False), "xla": mode(True)}


_BACKENDS: dict[str, Callable[[str], tuple[str, str, dict[str, Mode]]]] = {
    "jax": _jax,
    "torch": _torch,
    "tensorflow": _tensorflow,
}


def _missing(device: str, framework: str, remedy: str) -> DeviceError:
    return DeviceError(f"{framework} sees no {device.upper()}: {remedy}, or use --device auto")


def _named(platform: str, kind: str) -> str:
    return platform if platform == "cpu" or not kind else f"{platform} ({kind})"
