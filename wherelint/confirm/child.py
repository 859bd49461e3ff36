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
from typing import Any

import numpy as np

from wherelint.confirm.routine import NotRunnableError, Step
from wherelint.confirm.spelling import Argument, call, floats, templates
from wherelint.frameworks import FRAMEWORKS
from wherelint.frameworks.base import DeviceError, Function, Mode


def main(framework: str, device: str) -> None:
    """Answer requests until there are no more. The first line says what framework and device there are."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a framework prints is not an answer

    def reply(message: dict[str, Any]) -> None:
        replies.write(json.dumps(message) + "\n")
        replies.flush()

    try:
        backend = FRAMEWORKS[framework].backend
        assert backend is not None
        version, found, modes = backend(device)
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


def answer(framework: str, modes: dict[str, Mode], request: dict[str, Any]) -> dict[str, Any]:
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


def build(framework: str, steps: Sequence[Step]) -> Function:
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


def _planned(framework: str, steps: Sequence[Step], step: Step) -> tuple[Any, ...]:
    template, arguments = call(framework, steps, step)
    extra = slice(step.data, step.data + 1) if step.op == "lane" else step.data
    extras = [] if extra is None else [list(extra) if isinstance(extra, tuple) else extra]
    before, after = (extras, []) if template.variadic else ([], extras)
    return _compiled(framework, template.text), arguments, before, after


def _function(framework: str, op: str) -> Callable[..., Any]:
    return _compiled(framework, templates(framework)[op].text)


@cache
def _namespace(framework: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(
        "\n".join([*FRAMEWORKS[framework].imports, *FRAMEWORKS[framework].helpers.values()]), names
    )  # texts of this package
    return names


@cache
def _compiled(framework: str, text: str) -> Callable[..., Any]:
    """A template as a function; templates are texts of this package."""
    parameters = "index, *each" if "nth" in text else "*each" if "each" in text else "a, b=None, c=None, d=None"
    text = text.replace("nth(a", "nth(index")
    return eval(f"lambda {parameters}: {text}", _namespace(framework))  # type: ignore[no-any-return]
