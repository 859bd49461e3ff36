"""The script of a snippet: what anyone can run with nothing but the framework, and paste into a report."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

import numpy as np

from wherelint.confirm.routine import Routine, Snippet, Step
from wherelint.confirm.spelling import Identifiers, body, literal, program
from wherelint.finding import Finding
from wherelint.frameworks import FRAMEWORKS
from wherelint.io.notebook import spelled
from wherelint.ops import OPERATIONS
from wherelint.ops.numeric import shortest
from wherelint.version import __version__

_SINGLE = frozenset({"lane", "gather", "join", "keep"})


def script(snippet: Snippet, finding: Finding) -> str:
    """A program that prints the finite value and the gradient that is not, and both after the fix.

    It contains nothing of the linted file but names, made into plain identifiers.
    """
    framework = snippet.framework
    names = Identifiers()
    function = names.new(snippet.function.rpartition(".")[2].replace("<lambda>", "f") or "f")
    routines = [(function, "before the fix", snippet.before)]
    if snippet.after is not None:
        routines.append(("fixed", "after the fix", snippet.after))
    inputs: dict[object, tuple[str, str]] = {}
    vector = any(_vector(routine) for _, _, routine in routines)
    functions, calls = [], []
    for name, label, routine in routines:
        parameters, signature = _parameters(routine, names, inputs, framework, vector)
        functions.append((name, signature, body(framework, routine.steps, parameters, names.inside())))
        watched = [text for text, step in zip(parameters, routine.parameters, strict=True) if step.data]
        passed = f"({', '.join(signature)}{',' * (len(signature) == 1)})"
        calls.append(f"report({json.dumps(label)}, {name}, {passed}, {json.dumps(watched)})")
    place = f"{finding.filename}:{spelled(finding.location, finding.cells).rpartition(':')[0]}"
    head = [  # Python reads an encoding from the first two lines, so that no name of the author's may stand there
        f"Written by wherelint {__version__} from what {framework} computes at the place below;",
        "it imports nothing of that file and has only names of its text.",
        f"{finding.code} {finding.name} in {finding.function}, {place}",
        *(["an array has four elements here, whatever its real size"] if vector else []),
        *([] if snippet.after else ["no fix is offered"]),
    ]
    defined = program(framework, functions)
    imports = [line for line, mark in FRAMEWORKS[framework].imports.items() if mark in defined]
    parts = [
        "\n".join([*(f"# {''.join(c if c.isprintable() else '?' for c in line)}" for line in head), *imports]),
        defined,
        FRAMEWORKS[framework].report.strip(),
        "\n".join([*(line for _, line in inputs.values()), *calls]),
    ]
    return "\n\n\n".join(parts) + "\n"


def _vector(routine: Routine) -> bool:
    """Whether the program tells elements apart, or joins them: then its inputs are arrays."""
    mixes = any(step.op in OPERATIONS and OPERATIONS[step.op].mixes for step in routine.steps)
    joins = any(step.op in _SINGLE or isinstance(step.data, tuple) for step in routine.steps)
    return mixes or joins or any(isinstance(shortest(probes[0]), list) for probes in routine.probes)


def _parameters(
    routine: Routine, names: Identifiers, inputs: dict[object, tuple[str, str]], framework: str, vector: bool
) -> tuple[list[str], list[str]]:
    """An identifier for every parameter, and the signature: the differentiated ones first, then those that are not."""
    seen: Counter[object] = Counter()
    found = []
    for step, probes in zip(routine.parameters, routine.probes, strict=True):
        seen[step.name, step.kind] += 1
        key = step.name, step.kind, seen[step.name, step.kind]
        if key not in inputs:
            name = names.new(step.name)
            inputs[key] = name, f"{name} = {_literal(probes[0], step, framework, vector)}"
        found.append(inputs[key][0])
    order = sorted(range(len(found)), key=lambda i: not routine.parameters[i].data)
    return found, [found[i] for i in order]


def _literal(row: Sequence[float], step: Step, framework: str, vector: bool) -> str:
    numbers = [bool(v) if step.kind == "bool" else float(str(np.float32(v))) for v in row]
    text = literal(numbers[0]) if not vector else f"[{', '.join(map(literal, numbers))}]"
    spelled = FRAMEWORKS[framework]
    return (spelled.parameter if step.data and spelled.parameter else spelled.literal).format(text)
