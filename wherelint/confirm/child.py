"""The child's side of the harness: runs routines under one framework, one request a line, one reply a line.

A request is data. The program that runs is made here, of templates and numbers, as the one of a script is: an operation
is looked up by its name, and no text of the linted program arrives at all.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from wherelint.confirm.routine import NotRunnableError, Step
from wherelint.confirm.spelling import RESERVED, Identifiers, body, program
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
    names: dict[str, Any] = {}
    exec(text(framework, steps), names)  # templates of this package, and numbers
    function: Function = names["routine"]
    return function


def text(framework: str, steps: Sequence[Step]) -> str:
    """The program of that function, with all that it needs."""
    parameters = [f"x{i}" for i, step in enumerate(steps) if step.op == "leaf"]
    statements = body(framework, steps, parameters, Identifiers({*RESERVED, *parameters}))
    return "\n".join([*FRAMEWORKS[framework].imports, program(framework, [("routine", parameters, statements)])])
