"""Which selections of a function are worth a search, and which of their hazards are bugs of the whole program."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from wherelint.analysis.callers import Callers, expression_id, spot
from wherelint.analysis.flow import flow
from wherelint.analysis.programs import Program, flowing_back
from wherelint.frameworks import FRAMEWORKS
from wherelint.frontend.budget import Budget
from wherelint.frontend.module import Module
from wherelint.frontend.syntax import GiveUp
from wherelint.graph.differentiate import Tape, backward
from wherelint.graph.evaluate import Values, evaluate
from wherelint.graph.node import Node, reading, topological
from wherelint.graph.search import Hazard, Search, singular_operations
from wherelint.graph.work import Effort, WorkBudget
from wherelint.interpret.values import Origin
from wherelint.ops import OPERATIONS, Array
from wherelint.ops.traits import CLIPS, FINITE_TESTS

_MOST_CONTEXTS = 8


@dataclass(frozen=True)
class Detection:
    """A hazard, the framework it was found under, and the search that found it."""

    hazard: Hazard
    framework: str
    search: Search
    #: The function that was searched, and its graph.
    name: tuple[str, ...]
    program: Program

    @property
    def key(self) -> object:
        """The singular operation and the selection as places in the source."""
        return spot(self.hazard.op), spot(self.hazard.select)


def arithmetic(framework: str) -> str:
    """The derivatives to search with: TensorFlow's compiled ones, which fail wherever the eager ones do."""
    return (framework in FRAMEWORKS and FRAMEWORKS[framework].compiled) or framework


class FileSearch:
    """The searches of one file."""

    def __init__(
        self,
        module: Module,
        used: Sequence[str],
        *,
        low: bool = True,
        only: Callable[[Node], bool] | None = None,
        whole: WorkBudget | None = None,
    ) -> None:
        self._module = module
        self._used = used
        self._low = low
        self._only = only
        self._detections: dict[object, Detection] = {}
        #: Pairs of a selection and an operation that some function was searched for already.
        self._asked: set[object] = set()
        self._callers = Callers(module, used)
        self._budget = module.budget
        self._effort = Effort(self._budget.file_evaluations, whole)

    @property
    def spent(self) -> bool:
        """Whether enough was done for this file."""
        return self._effort.spent or self._module.steps > self._budget.file_steps

    def search(self, name: tuple[str, ...], found: Sequence[Program]) -> None:
        """Search the selections of a function. Raises GiveUp where that would take too long."""
        self._callers.note(name, found)
        for program in found:
            self._search(name, program)

    def _search(self, name: tuple[str, ...], program: Program) -> None:
        effort = Effort(self._budget.evaluations, self._effort)
        programs: dict[str, _InProgram] = {}
        for root in self._roots(program):
            if self._only is not None and not self._only(root):
                continue
            if effort.spent:
                raise GiveUp("it has more selections over longer computations than the search follows")
            framework = nearest_framework(root) or self._used[0]
            accept = programs.setdefault(framework, _InProgram(program, arithmetic(framework), effort, self._budget))
            search = Search(root, arithmetic(framework), effort, accept)
            for hazard in search.hazards(low=self._low):
                detection = Detection(hazard, framework, search, name, program)
                known = self._detections.get(detection.key)
                if known is None or (known.hazard.confidence == "low" and hazard.confidence == "high"):
                    self._detections[detection.key] = detection
        if effort.spent and not self._effort.spent:
            raise GiveUp("it has selections over longer computations than the search follows")
        if self._effort.spent:
            raise GiveUp("the file has more selections over longer computations than the search follows")

    def detections(self) -> list[Detection]:
        """What was found, without what only happens where nothing is differentiated."""
        mine = [c for c in self._detections.values() if self._meet_here(c.hazard.op, c.hazard.select)]
        kept = [
            c for c in mine if not self._callers.sever(c.hazard.select.origin.function, expression_id(c.hazard.select))
        ]
        return [
            self._in_context(replace(c, hazard=c.hazard.with_evidence(*flow(c.hazard, c.program.order)))) for c in kept
        ]

    def _in_context(self, detection: Detection) -> Detection:
        """A hazard of a private helper is one that the arguments of some caller allow; else confidence is low."""
        hazard = detection.hazard
        contexts = self._callers.contexts(hazard.select.origin.function, expression_id(hazard.select))[:_MOST_CONTEXTS]
        if hazard.confidence == "low" or not contexts:
            return detection
        effort = Effort(self._budget.evaluations, self._effort)
        for root in contexts:
            search = Search(root, arithmetic(detection.framework), effort)
            if effort.spent or search.meets(
                [n for n in search.order if n.op == hazard.op.op and expression_id(n) == expression_id(hazard.op)]
            ):
                return detection
        return replace(detection, hazard=hazard.with_evidence("no caller"))

    def _roots(self, program: Program) -> Iterator[Node]:
        """Selections with something singular among what they drop, and singular operations that a clip feeds."""
        made = set(program.made)
        selections = [n for n in program.made if n.selection is not None]
        fed = singular_operations(topological(program.made)) if any(n.selection in CLIPS for n in selections) else []
        for root in [*selections, *(n for n in fed if n in made)]:
            met = [n for n in flowing_back([root]) if _singular(n) and (n is not root or root.op != "where")]
            pairs = {(spot(root), spot(n)) for n in met}
            if self._own(root, program):
                worth = bool(met) or any(n.op in FINITE_TESTS for n in topological([root]))
            else:
                # A helper's own operations are asked about where it is analysed itself; here, only new encounters.
                worth = not pairs <= self._asked and any(self._meet_here(n, root) for n in met)
            if worth:
                self._asked |= pairs
                yield root

    def _own(self, root: Node, program: Program) -> bool:
        """Whether a selection is analysed with this function: written in it, or in a function inside it."""
        name = root.origin.function
        if not self._at_home(root):
            return False
        top = name.partition(".")[0]
        if name == program.name or top not in self._module.definitions:
            return True
        statement = self._module.definitions[top].statement
        depth = 1 if isinstance(statement, ast.ClassDef) else 0
        return bool(name.count(".") > depth)

    def _meet_here(self, op: Node, select: Node) -> bool:
        """Whether it is this file that brings an operation and a selection together: one is its own, or two calls."""
        if self._at_home(op) or self._at_home(select):
            return True
        calls = [n.origin.call for n in (op, select) if isinstance(n.origin, Origin) and n.origin.call is not None]
        return len(calls) == 2 and calls[0].node is not calls[1].node

    def _at_home(self, node: Node) -> bool:
        return isinstance(node.origin, Origin) and node.origin.block.module is self._module


def _singular(node: Node) -> bool:
    entry = OPERATIONS.get(node.op)
    return entry is not None and (entry.code is not None or entry.unselected is not None)


def nearest_framework(root: Node) -> str | None:
    """The framework of the nearest call that names one."""
    layer, seen = [root], {root}
    while layer:
        following = []
        for node in layer:
            if node.framework is not None:
                return node.framework
            fresh = [i for i in node.inputs if i not in seen]
            seen.update(fresh)
            following += fresh
        layer = following
    return None


class _InProgram:
    """Whether a hazard is a bug of the whole program, not just of the selection.

    Something finite has to leave the function at the witness, and only the zero may break the operation's cotangent: a
    program that is nan there anyway loses nothing, and one that uses the operation outside of the selection too is
    singular in earnest.
    """

    def __init__(self, program: Program, arithmetic: str, effort: Effort, budget: Budget) -> None:
        self._program = program
        self._arithmetic = arithmetic
        self._effort = effort
        self._budget = budget
        self._outlets: dict[Node, list[tuple[Node, list[Node], Tape]]] = {}
        self._paths: dict[tuple[Node, Node], Tape] = {}
        self._reached: dict[tuple[Node, Node], bool] = {}
        self._still: dict[tuple[Node, frozenset[Node]], tuple[list[Node], Values]] = {}

    def __call__(self, hazard: Hazard) -> bool:
        outlets = self._outlets_of(hazard.select)
        if not outlets:
            return True
        values = self._values(hazard)
        below_a_clip = hazard.select in set(topological([hazard.op]))
        for output, order, tape in outlets:
            self._effort.spend(2 * len(order))
            if not np.isfinite(values[output]).all():
                continue
            path = self._path(output, order, tape, hazard.op)
            found = backward(path, values, output, self._arithmetic, symbolic=True)
            if hazard.op not in found.broke and self._reaches(output, order, tape, values, hazard.select):
                return True
            # Below a clip the operation is singular in earnest; it is the clip that has to hold the gradient back.
            if below_a_clip:
                cts = backward(tape, values, output, self._arithmetic, symbolic=True).cotangents
                if any(n in cts and _heals(cts[n], gradient) for n, gradient in hazard.gradient.items()):
                    return True
        return False

    def _values(self, hazard: Hazard) -> Values:
        """What the program computes at a witness; inputs that the selection does not read are benign."""
        key = hazard.select, frozenset(hazard.inputs)
        if key not in self._still:
            order = topological(output for output, _, _ in self._outlets_of(hazard.select))
            moved = reading(order, hazard.inputs)
            benign = {
                n: np.full((1, 1), True if n.kind == "bool" else np.float32(0.75))
                for n in order
                if n.op == "leaf" and n not in moved
            }
            still = evaluate((n for n in order if n not in moved), benign)
            self._still[key] = [n for n in order if n in moved], still
        order, still = self._still[key]
        return evaluate(order, hazard.inputs, known=still)

    def _path(self, output: Node, order: list[Node], tape: Tape, op: Node) -> Tape:
        """The part of a reverse pass from an outlet that leads to an operation and its operands."""
        if (output, op) not in self._paths:
            above = reading((n for n in order if n in tape.requires_grad), [op])
            flowing = above.union(op.inputs).intersection(tape.requires_grad)
            self._paths[output, op] = Tape([n for n in order if n in above], flowing)
        return self._paths[output, op]

    def _reaches(self, output: Node, order: list[Node], tape: Tape, values: Values, select: Node) -> bool:
        """Whether a selection receives a cotangent from an outlet: `floor` and the like hand nothing on."""
        if (output, select) not in self._reached:
            path = self._path(output, order, tape, select)
            found = backward(path, values, output, self._arithmetic, symbolic=True).cotangents
            self._reached[output, select] = select in found or select not in tape.requires_grad
        return self._reached[output, select]

    def _outlets_of(self, select: Node) -> list[tuple[Node, list[Node], Tape]]:
        """The values leaving the function that read a selection, each with what it reads."""
        if select not in self._outlets:
            above = reading(self._program.order, [select])
            outputs = [s for s in self._program.outputs if s.kind == "float" and s in above]
            if len(outputs) > self._budget.results:
                what = f"{len(outputs) - self._budget.results} results of `{self._program.name}`"
                self._budget.give_up(what, "it has more than are followed")
            del outputs[self._budget.results :]
            orders = [topological([s]) for s in outputs]
            self._outlets[select] = [(s, order, Tape(order)) for s, order in zip(outputs, orders, strict=True)]
        return self._outlets[select]


def _heals(symbolic: Array, ieee: Array) -> bool:
    """Whether some element of a gradient is finite that was not."""
    return bool((np.isfinite(symbolic) & ~np.isfinite(ieee)).any())
