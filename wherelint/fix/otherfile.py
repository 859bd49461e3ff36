"""The operation of a finding guarded where it stands: in a function that the file takes from another one.

What the file computes is proven as ever, with that text behind it; so is what the other file's own functions compute,
those that call the guarded one among them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from wherelint.finding import Edit, Finding, Fix, Rewrite
from wherelint.findings.analysis import Analysis, analyse_functions
from wherelint.fix.candidates import Site
from wherelint.fix.comparison import Comparison
from wherelint.fix.conditions import between
from wherelint.fix.dtypes import may_be_plain
from wherelint.fix.groups import Places
from wherelint.fix.layout import laid_out
from wherelint.fix.masks import Candidate
from wherelint.fix.proving import Found, Proof
from wherelint.fix.repeated import written_once
from wherelint.fix.rewrites import grade_of
from wherelint.frontend import screen
from wherelint.frontend.module import Module
from wherelint.graph.node import Node
from wherelint.io.edits import consistent
from wherelint.io.formatter import line_length
from wherelint.search.budget import WorkBudget

#: How many guards may be needed: what one reads can be singular as well.
_MOST_GUARDS = 3


def guarded_at_home(analysis: Analysis, places: Places, effort: WorkBudget) -> Fix | None:
    """The first guard in the file of the operation, another one of the project, that can be proven in both."""
    home = places[0][1].hazard.op.origin.block.module
    return None if home is analysis.module else _Home(analysis, places, effort).guarded(home, [], _MOST_GUARDS)


class _Home:
    """The file in which the operation of a finding stands."""

    def __init__(self, analysis: Analysis, places: Places, effort: WorkBudget) -> None:
        self._analysis, self._places, self._effort = analysis, places, effort
        self._targets = [finding for finding, _ in places]
        self._detection = places[0][1]
        self._hazard = self._detection.hazard
        self._proof = Proof(analysis, self._detection, effort)
        self._compared = Comparison(analysis.module.source, (), analysis.findings)
        self._home = self._hazard.op.origin.block.module

    @cached_property
    def _own(self) -> Proof:
        """What the functions of that file have to keep: the operation's, and those that call it."""
        parts = tuple(self._hazard.op.origin.function.split("."))
        known = screen.roots(self._home, everything=True)
        local = replace(self._detection, name=next((name for name in (parts[:2], parts[:1]) if name in known), parts))
        used = self._home.frameworks() or [self._detection.framework]
        return Proof(Analysis(self._home, used, [(self._targets[0], local)], ()), local, self._effort)

    @cached_property
    def _before(self) -> list[Finding]:
        """What is found in these functions already."""
        return self._searched(self._home)

    def _searched(self, home: Module) -> list[Finding]:
        names, used = [*self._own.names, *self._own.callers], home.frameworks() or [self._detection.framework]
        return analyse_functions(home, used, names, frozenset(), low=False, draft=True, whole=self._effort).findings

    def guarded(self, home: Module, done: list[Candidate], most: int, op: Node | None = None) -> Fix | None:
        """The first proven guard of the operation, or of one that others leave, in the text that these have made."""
        for candidate in self._candidates(home, op):
            if self._effort.spent:
                break
            if not consistent(candidate.edits):
                continue
            try:
                module, now = self._analysis.module.project.beside(self._home, home.source.edited(candidate.edits))
            except (SyntaxError, RecursionError):
                continue
            found = self._proof.within(module, self._compared) if now is not None else None
            if now is None or found is None or not self._compared.gone(self._targets, found.after.findings):
                continue
            if found.silent:
                op = found.silent[0]
                if most > 1 and op.origin.block.module is now:
                    fix = self.guarded(now, [*done, candidate], most - 1, op)
                    if fix is not None:
                        return fix
            elif not found.worse and (fix := self._proven(now, found, [*done, candidate])) is not None:
                return fix
        return None

    def _candidates(self, home: Module, op: Node | None) -> Iterator[Candidate]:
        """The masks of a selection of that file which drops the operation as well, and guards."""
        hazard = self._hazard if op is None else replace(self._hazard, op=op, select=op)
        for select in between(hazard.select, hazard.op) if op is None else ():
            if select.op == "where" and select.selection and select.origin.block.module is home:
                yield from Site(home, self._detection.framework, replace(hazard, select=select), (), {}).candidates(
                    several=False
                )
        yield from Site(home, self._detection.framework, hazard, (), {}).guards()

    def _proven(self, now: Module, found: Found, done: list[Candidate]) -> Fix | None:
        """The fix that a text of that file is, if what its functions compute is the same."""
        gone = self._proof.doubts(found, self._targets, self._compared) is not None
        passed = self._own.everywhere(now) if gone else None
        if passed is None:
            return None
        compared = Comparison(self._home.source, self._home.source.difference(now.text), self._before)
        if compared.come(self._searched(now)):
            return None
        exposed = any(each.alone for each in done) and (self._proof.exposed or self._own.exposed)
        # Whatever calls a function that computes the same beyond doubt is given the same, if it gives arrays of floats.
        apart = any(each.floats or not each.elementwise for each in done) or may_be_plain(self._hazard.op)
        sure = not (apart or exposed or any(p.doubtful for p in passed))
        first = done[0]
        edits = first.edits if len(done) == 1 else self._home.source.difference(now.text)
        grade = grade_of(replace(first, alone=any(each.alone for each in done)), sure)
        fix = written_once(self._home.source, Fix(grade, first.message, tuple(edits)))
        fix = laid_out(self._home.text, fix, line_length(Path(self._home.filename), self._home.text))
        name = self._home.named_beside(self._analysis.module.filename)
        return replace(fix, edits=(), elsewhere=(rewrite(name, self._home.lines, fix.edits),))


def rewrite(filename: str, lines: Sequence[str], edits: Sequence[Edit]) -> Rewrite:
    """Edits of a file of some lines."""
    first, last = min(e.location.row for e in edits), max(e.end_location.row for e in edits)
    return Rewrite(filename, tuple(edits), "".join(lines[first - 1 : last]))
