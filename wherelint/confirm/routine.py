"""The plain program of a finding: what the harness runs, and what a script shows.

A routine is a list of steps, operands first; its last step is the selection. It has only operations of the catalogue,
numbers and parameters: what was not followed is a parameter. Its probes are inputs at which it is to be run, the first
one the witness. Arrays are (probes, elements).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from wherelint.finding import Finding
from wherelint.graph.node import Kind
from wherelint.io.plain import decoder, plain
from wherelint.ops import Array

#: How many inputs a snippet is run at.
PROBES = 64
#: A routine of more steps is not run: compiling it would take minutes.
MOST_STEPS = 2000


class NotRunnableError(Exception):
    """Why there is no program that shows a finding."""


@dataclass(frozen=True)
class Step:
    """One operation, number or parameter."""

    op: str
    #: The steps that are its operands.
    inputs: tuple[int, ...] = ()
    kind: Kind = "float"
    #: "const": one number or one an element; "lane", "nth": an index; "gather": several; "leaf": differentiated or not.
    data: Any = None
    #: What the author calls a parameter.
    name: str = ""


@dataclass(frozen=True)
class Routine:
    """Steps, and for each parameter (each "leaf") its probes."""

    steps: tuple[Step, ...]
    probes: tuple[Array, ...]

    @property
    def parameters(self) -> list[Step]:
        """The inputs, in order."""
        return [step for step in self.steps if step.op == "leaf"]


@dataclass(frozen=True)
class Snippet:
    """The program of a finding, and what it becomes with the fix (None: there is none)."""

    framework: str
    function: str
    before: Routine
    after: Routine | None
    #: The probes at which the graph says that a selection poisons the gradient.
    poisoned: tuple[bool, ...]
    #: Those of them at which it is finite after the fix; at the others another operation is at fault.
    repaired: tuple[bool, ...]
    #: Whether the value at the witness is the infinity that the author wrote.
    infinite: bool = False


#: What a step may be told.
_DATA = bool | int | float | tuple[bool | int | float, ...] | None


def packed(snippet: object) -> object:
    """A snippet, or why there is none, in lists, texts and numbers."""
    if not isinstance(snippet, Snippet):
        return snippet
    routines = [
        r and [plain(r.steps), [probes.tolist() for probes in r.probes]] for r in (snippet.before, snippet.after)
    ]
    return [snippet.framework, snippet.function, *routines, snippet.poisoned, snippet.repaired, snippet.infinite]


def snippet_of(finding: Finding) -> Snippet | str:
    """The program of a finding, which may come from a cache; or why there is none."""
    try:
        return finding.snippet if isinstance(finding.snippet, Snippet) else _unpacked(finding.snippet)
    except (ValueError, TypeError, LookupError, OverflowError):
        return "it has no program to run"


def _unpacked(data: Any) -> Snippet | str:
    if isinstance(data, str):
        reason: str = decoder(str)(data)
        return reason
    framework, function, before, after, *flags, infinite = data
    if before is None:
        raise ValueError("this is no program")
    poisoned, repaired = map(decoder(tuple[bool, ...]), flags)
    return Snippet(
        decoder(str)(framework), decoder(str)(function), _routine(before), after and _routine(after),
        poisoned, repaired, decoder(bool)(infinite),
    )  # fmt: skip


def _routine(data: Any) -> Routine:
    of = [decoder(kind) for kind in (str, tuple[int, ...], Kind, _DATA, str)]
    steps = tuple(Step(*(read(each) for read, each in zip(of, step, strict=True))) for step in data[0])
    kinds = [np.bool_ if step.kind == "bool" else np.float32 for step in steps if step.op == "leaf"]
    return Routine(steps, tuple(np.asarray(each, kind) for each, kind in zip(data[1], kinds, strict=True)))
