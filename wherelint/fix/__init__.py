"""The double where, written into the source and proven before it is offered."""

from __future__ import annotations

from wherelint.finding import Finding, Fix
from wherelint.fix.candidates import Candidate, Site
from wherelint.fix.edits import Source
from wherelint.fix.proof import Record, gone, record, same
from wherelint.source import gate
from wherelint.source.findings import Analysis, analyse
from wherelint.source.hunt import Catch
from wherelint.source.module import GiveUp, Module
from wherelint.source.roots import Program, programs

__all__ = ["propose"]

_MOST_TRIED = 40
_MOST_CALLERS = 6


def propose(analysis: Analysis, finding: Finding) -> Fix | None:
    """The rewrite that removes a finding, proven; ``display`` with the reason where none is."""
    catch = next((c for f, c in analysis.found if f is finding), None)
    if catch is None or analysis.module.project is None:
        return None
    proof = _Proof(analysis, finding, catch)
    tried = 0
    for candidate in Site(analysis.module, catch.framework, catch.hazard).candidates():
        tried += 1
        if tried > _MOST_TRIED:
            break
        if proof.holds(candidate):
            sure = candidate.elementwise
            return Fix("safe" if sure else "unsafe", candidate.message, candidate.edits)
    return None


class _Proof:
    """What a candidate has to keep."""

    def __init__(self, analysis: Analysis, finding: Finding, catch: Catch) -> None:
        self._analysis = analysis
        self._finding = finding
        self._catch = catch
        self._source = Source(analysis.module.text, analysis.module.lines)
        self._names = self._concerned()
        self._records: dict[tuple[str, ...], list[tuple[Program, Record]]] = {}

    def _concerned(self) -> list[tuple[str, ...]]:
        """The functions whose values a rewrite may change: those that hold the two places, and their callers."""
        module, hazard = self._analysis.module, self._catch.hazard
        names = [self._catch.name]
        for node in (hazard.op, hazard.select):
            if node.origin.block.module is module:
                name = _root(module, node.origin.function)
                names += [name, *gate.referring(module, name[-1])[:_MOST_CALLERS]] if name else []
        return list(dict.fromkeys(names))

    def holds(self, candidate: Candidate) -> bool:
        project = self._analysis.module.project
        assert project is not None
        try:
            module = project.revised(self._source.edited(candidate.edits))
            if not all(self._same(module, name) for name in self._names):
                return False
        except (SyntaxError, GiveUp, RecursionError, ValueError):
            return False
        after = analyse(module, self._analysis.used, self._names, frozenset())
        return not after.problems and gone(self._analysis.findings, after.findings, self._finding)

    def _same(self, module: Module, name: tuple[str, ...]) -> bool:
        if name not in self._records:
            old = programs(self._analysis.module, name, self._analysis.used)
            own = self._catch.program if name == self._catch.name else None
            old = [own if own is not None and p.name == own.name else p for p in old]
            self._records[name] = [(p, record(p, self._catch)) for p in old]
        new = programs(module, name, self._analysis.used)
        old_programs = self._records[name]
        return len(new) == len(old_programs) and all(
            p.name == q.name and same(known, q, self._catch.framework)
            for (p, known), q in zip(old_programs, new, strict=True)
        )


def _root(module: Module, function: str) -> tuple[str, ...] | None:
    """The function or method of the file's top level that a qualified name lies in."""
    parts = function.split(".")
    for length in (2, 1):
        name = tuple(parts[:length])
        if name in _roots(module):
            return name
    return None


def _roots(module: Module) -> set[tuple[str, ...]]:
    return set(gate.roots(module, everything=True))
