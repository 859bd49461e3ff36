"""Which selections of a function are worth a search, and which of their hazards are bugs of the whole program."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from wherelint.evidence.callers import InlinedCalls
from wherelint.evidence.gradient_flow import gradient_flow, known_beforehand
from wherelint.evidence.judge import EvidenceJudge, Outlook
from wherelint.evidence.names import is_setting
from wherelint.evidence.pieces import Evidence
from wherelint.evidence.structure import FOR, by_structure
from wherelint.frameworks import FRAMEWORKS
from wherelint.frontend.module import Module
from wherelint.frontend.names import written
from wherelint.frontend.syntax import GiveUp
from wherelint.graph.node import Node, differentiable_inputs, leaves, nearest_framework, topological
from wherelint.interpret.programs import Program, expression_id, spot
from wherelint.interpret.values import Origin
from wherelint.ops import OPERATIONS
from wherelint.ops.traits import CLIPS, FINITE_TESTS
from wherelint.search.budget import WorkBudget
from wherelint.search.whole_program import InProgram
from wherelint.search.witness import Hazard, Search, singular_operations

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


class FileHazards:
    """The hazards of one file: what the searches of its functions found."""

    def __init__(
        self,
        module: Module,
        used: Sequence[str],
        *,
        low: bool = True,
        only: Callable[[Node], bool] | None = None,
        whole: WorkBudget | None = None,
        outlook: Outlook | None = None,
    ) -> None:
        self._module = module
        self._used = used
        self._low = low
        self._only = only
        self._outlook = outlook or Outlook()
        self._detections: dict[object, Detection] = {}
        #: Pairs of a selection and an operation that some function was searched for already.
        self._asked: set[object] = set()
        self._inlined = InlinedCalls(module, used)
        self._budget = module.budget
        most = self._budget.file_work
        self._effort = WorkBudget(most) if whole is None else whole.part(most)

    @property
    def spent(self) -> bool:
        """Whether enough was done for this file."""
        return self._effort.spent

    def search(self, name: tuple[str, ...], found: Sequence[Program]) -> None:
        """Search the selections of a function. Raises GiveUp where that would take too long."""
        self._inlined.note(name, found)
        for program in found:
            self._search(name, program)

    def _search(self, name: tuple[str, ...], program: Program) -> None:
        effort = self._effort.part(self._budget.function_work)
        programs: dict[str, InProgram] = {}
        satisfiable: dict[tuple[Node, ...], bool] = {}
        for root in self._roots(program):
            if self._only is not None and not self._only(root):
                continue
            if effort.spent:
                raise GiveUp("it has too many selections (analysis budget exceeded)")
            nearest = nearest_framework(root)  # of a helper for arrays of any framework, not that of this file's
            framework = nearest if nearest and nearest in self._used else self._used[0]
            accept = programs.setdefault(framework, InProgram(program, arithmetic(framework), self._budget))
            outlook = self._outlook.with_known(self._known_beforehand(root, program))
            judge = partial(EvidenceJudge, outlook, arithmetic(framework))
            search = Search(root, arithmetic(framework), effort, accept, judge, satisfiable)
            for hazard in search.hazards(low=self._low):
                self._note(Detection(hazard, framework, search, name, program))
        for accept in programs.values():
            accept.forget()
        if effort.spent and not self._effort.spent:
            raise GiveUp("its computations are too long (analysis budget exceeded)")
        if self._effort.spent:
            raise GiveUp("the file has too many selections (analysis budget exceeded)")

    def _known_beforehand(self, root: Node, program: Program) -> frozenset[Evidence]:
        """What is known of every hazard of a search; the selection of an operation that clips feed may be any."""
        if self._outlook.least <= 0:
            return frozenset()
        selects = [root] if root.selection is not None else [n for n in topological([root]) if n.selection in CLIPS]
        structure = [by_structure(select) for select in selects]
        known = [
            {*known_beforehand(select, program.inputs), *of} - FOR
            for select, of in zip(selects, structure, strict=True)
        ]
        return frozenset.intersection(*map(frozenset, known)) | (frozenset().union(*structure) & FOR)

    def _note(self, detection: Detection) -> None:
        known = self._detections.get(detection.key)
        if known is None or (detection.hazard.is_shown and not known.hazard.is_shown):
            self._detections[detection.key] = detection

    def detections(self) -> list[Detection]:
        """What was found, with all evidence, without what only happens where nothing is differentiated."""
        weighed = (self._weighed(each) for each in self._detections.values() if self._may_reach(each))
        return [each for each in weighed if each is not None and self._may_reach(each)]

    def _may_reach(self, detection: Detection) -> bool:
        return self._outlook.may_reach(detection.hazard.evidence)

    def _weighed(self, detection: Detection) -> Detection | None:
        hazard = detection.hazard
        select = hazard.select
        if not self._meet_here(hazard.op, select) or self._inlined.sever(select.origin.function, expression_id(select)):
            return None
        name = tuple(map(written, detection.name))
        hazard = hazard.with_evidence(*gradient_flow(hazard, detection.program.inputs, self._module, name))
        function, where = select.origin.function, expression_id(select)
        if (
            hazard.is_shown
            and self._inlined.sever_here(function, where)
            and not self._inlined.is_used_elsewhere(function)
        ):
            hazard = hazard.with_evidence(Evidence.UNREACHED)
        return self._in_context(replace(detection, hazard=hazard))

    def _in_context(self, detection: Detection) -> Detection:
        """A hazard of a helper is one that the arguments of some caller allow; of a public one, not all are known."""
        hazard = detection.hazard
        # A clip below the operation is found from there.
        root = hazard.op if hazard.select in topological([hazard.op]) else hazard.select
        contexts = self._inlined.contexts(root.origin.function, expression_id(root))[:_MOST_CONTEXTS]
        if not hazard.is_shown or not contexts:
            return detection
        effort = self._effort.part(self._budget.function_work)
        for context in contexts:
            if any(leaf.imaginary for leaf in leaves(context)):
                return detection  # what a caller does with complex numbers is not known
            search = Search(context, arithmetic(detection.framework), effort)
            same = [n for n in search.order if n.op == hazard.op.op and expression_id(n) == expression_id(hazard.op)]
            wide = Evidence.UNRELATED_INPUT in hazard.evidence
            if search.meets(same, fixed=[n for n in search.leaves if is_setting(n)], wide=wide):
                return detection
            if effort.spent:  # what the other callers pass is not known
                return replace(detection, hazard=hazard.with_evidence(Evidence.DOUBTFUL))
        private = self._inlined.knows_all(root.origin.function)
        return replace(detection, hazard=hazard.with_evidence(Evidence.SHIELDED if private else Evidence.SETTING))

    def _roots(self, program: Program) -> Iterator[Node]:
        """Selections with something singular among what they drop, and singular operations that a clip feeds."""
        live = set(program.made)
        selections = [n for n in program.made if n.selection is not None]
        fed = singular_operations(topological(program.made)) if any(n.selection in CLIPS for n in selections) else []
        roots = [*selections, *(n for n in fed if n in live)]
        met_by = _met(roots)
        for root in roots:
            met = [n for n in met_by[root] if n is not root or root.op != "where"]
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


def _met(roots: Sequence[Node]) -> dict[Node, list[Node]]:
    """The singular operations that each root hands a cotangent to."""
    singular: list[Node] = []
    reached: dict[Node, int] = {}  # as bits, by their place in the list
    for node in topological(roots):
        bits = 0
        for i in differentiable_inputs(node):
            bits |= reached[node.inputs[i]]
        if _singular(node):
            bits |= 1 << len(singular)
            singular.append(node)
        reached[node] = bits
    return {root: [n for place, n in enumerate(singular) if reached[root] >> place & 1] for root in roots}


def _singular(node: Node) -> bool:
    entry = OPERATIONS.get(node.op)
    return entry is not None and (entry.code is not None or entry.unselected is not None)
