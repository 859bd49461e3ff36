"""What belongs to a finding: the places of its cause, the functions that it concerns, the selections further out."""

import re
from collections.abc import Iterable, Iterator, Sequence

from wherelint.finding import Edit, Finding
from wherelint.findings.analysis import Analysis
from wherelint.findings.hazards import Detection
from wherelint.fix.verify.compare import is_finite_at
from wherelint.frontend import screen
from wherelint.frontend.module import Module
from wherelint.frontend.names import written
from wherelint.frontend.screen import heirs
from wherelint.frontend.syntax import GiveUp
from wherelint.graph.node import Node, topological
from wherelint.interpret.programs import expression_id, lowered
from wherelint.io.edits import compatible

Function = tuple[str, ...]
#: The findings of one cause.
Places = Sequence[tuple[Finding, Detection]]

#: The variables that the lines of an edit bind.
BINDS = re.compile(r"^[ \t]*(\w+) = ", re.MULTILINE)
_MOST_CALLERS = 6


class Taken:
    """Edits that are made at once: apart from those that they share they touch no other, nor bind its names."""

    def __init__(self, module: Module) -> None:
        self._blocks = [(block.first, block.last) for _, block in module.blocks]
        self._edits: set[Edit] = set()
        self._bound: set[tuple[int, str]] = set()

    def takes(self, edits: Iterable[Edit]) -> bool:
        """Whether some more fit, which are made as well then."""
        own = [edit for edit in edits if edit not in self._edits]
        bound = {(self._block(edit), name) for edit in own for name in BINDS.findall(edit.content)}
        if bound & self._bound or not compatible(own, list(self._edits)):
            return False
        self._edits.update(own)
        self._bound |= bound
        return True

    def _block(self, edit: Edit) -> int:
        return next((first for first, last in self._blocks if first <= edit.location.row <= last), 0)


def concerned(analysis: Analysis, detection: Detection) -> tuple[list[Function], list[Function]]:
    """The functions that hold the two places of a hazard; those that call them, and the heirs of any."""
    module, hazard = analysis.module, detection.hazard
    known = set(screen.roots(module, everything=True))
    names = [detection.name]
    callers: list[Function] = []
    for node in (hazard.op, hazard.select):
        parts = tuple(node.origin.function.split(".")) if node.origin.block.module is module else ()
        for name in (parts[:2], parts[:1]):
            if name in known:
                names.append(name)
                callers += screen.referring(module, written(name[-1]))[:_MOST_CALLERS]
                break
    callers += [heir for name in (*names, *callers) if len(name) > 1 for heir in heirs(module, name)]
    return list(dict.fromkeys(names)), [name for name in dict.fromkeys(callers) if name not in names]


def places_of(analysis: Analysis, finding: Finding) -> Places:
    """The findings of one cause that a search made, as it made them."""
    return [(found, made) for found, made in analysis.places(finding) if made is not None]


def laid_bare(before: Analysis, after: Analysis, finding: Finding) -> bool:
    """Whether what is found after a rewrite was not finite before either, at its witness: it was hidden."""
    places = places_of(after, finding)
    if not places:
        return False
    detection = places[0][1]
    try:
        programs = lowered(before.module, detection.name, before.used, False)
        return any(not is_finite_at(p, detection) for p in programs if p.name == detection.program.name)
    except (GiveUp, RecursionError):
        return False


def around(detection: Detection) -> Iterator[Node]:
    """The selections that the hazard's own flows through on its way out of the function, the nearest first."""
    select = detection.hazard.select
    reading = {select}
    for node in detection.program.order:
        if node not in reading and not reading.isdisjoint(node.inputs):
            reading.add(node)
            outer = node.op == "where" and node.selection is not None and expression_id(node) != expression_id(select)
            if outer and any(select in topological([i]) for i in node.inputs[1:]):
                yield node
