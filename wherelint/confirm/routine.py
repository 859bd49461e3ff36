"""The plain program of a finding: what the harness runs, and what a script shows.

A routine is a list of steps, operands first; its last step is the selection. It has only operations of the catalogue,
numbers and parameters: what was not followed is a parameter. Its probes are inputs at which it is to be run, the first
one the witness.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from wherelint.finding import Finding
from wherelint.graph.node import Kind
from wherelint.io.plain import decoder, plain

#: How many inputs a snippet is run at.
PROBES = 64
#: A routine of more steps is not run: compiling it would take minutes.
MOST_STEPS = 2000


Number: TypeAlias = float | int | bool
if TYPE_CHECKING:  # the operation says which of them it is
    Data: TypeAlias = Any
else:
    Data = Number | tuple[Number, ...] | None


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
    data: Data = None
    #: What the author calls a parameter.
    name: str = ""


@dataclass(frozen=True)
class Routine:
    """Steps, and for each parameter (each "leaf") its probes, each with one number an element."""

    steps: tuple[Step, ...]
    probes: tuple[tuple[tuple[Number, ...], ...], ...]

    def __post_init__(self) -> None:
        if len(self.probes) != len(self.parameters):
            raise ValueError("every parameter has probes")

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


def packed(snippet: object) -> object:
    """A snippet, or why there is none, in lists, texts and numbers."""
    return plain(snippet)


def snippet_of(finding: Finding) -> Snippet | str:
    """The program of a finding, which may come from a cache; or why there is none."""
    try:
        found = finding.snippet if isinstance(finding.snippet, Snippet) else decoder(Snippet | str)(finding.snippet)
    except ValueError:
        found = "it has no program to run"
    return found
