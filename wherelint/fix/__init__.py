"""The double where, written into the source and proven before it is offered."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

from wherelint.edits import Source, consistent
from wherelint.finding import Edit, Finding, Fix, Location
from wherelint.fix.candidates import Candidate, Site
from wherelint.fix.proof import Record, come, gone, record, renamed, same
from wherelint.graph.node import Node, topological
from wherelint.source import gate
from wherelint.source.callers import place
from wherelint.source.findings import Analysis, analyse
from wherelint.source.hunt import Catch
from wherelint.source.module import GiveUp, Module
from wherelint.source.roots import Program, programs

__all__ = ["propose"]

_MOST_TRIED = 48
_MOST_CALLERS = 6
#: How many rewrites one after the other may be needed: masking a divisor can lay bare the root that it was computed by.
_MOST_STEPS = 3
_MOST_DETOURS = 3


def propose(analysis: Analysis, finding: Finding) -> Fix:
    """The rewrite that removes a finding, proven; one without edits that says why where there is none."""
    steps = _steps(analysis, finding, _MOST_STEPS)
    if steps is None:
        return Fix("display", _why_not(analysis, finding), ())
    text, first, elementwise = steps
    edits = first.edits
    old = Source(analysis.module.text)
    if old.edited(edits) != text:
        edits = _line_edits(old, text)
    return Fix("safe" if elementwise else "unsafe", first.message, edits)


def _steps(analysis: Analysis, finding: Finding, most: int) -> tuple[str, Candidate, bool] | None:
    """The text after the rewrites that remove a finding and whatever they lay bare; the first one; all elementwise."""
    catch = _catch(analysis, finding)
    if catch is None:
        return None
    proof = _Proof(analysis, finding, catch)
    detours: list[tuple[Candidate, Analysis, Finding, bool]] = []
    site = Site(analysis.module, catch.framework, catch.hazard, list(_around(catch)))
    start, end = site.arm.region if site.arm is not None else (finding.location, finding.location)
    arm = [f for f in analysis.findings if start <= f.location <= end]
    for tried, candidate in enumerate(site.candidates(several=len(arm) > 1)):
        if tried >= _MOST_TRIED:
            break
        if (found := proof.of(candidate)) is None:
            continue
        after, crossed = found
        wanted = arm if candidate.whole_arm else [finding]
        sure = candidate.elementwise and not crossed
        if gone(analysis.findings, after.findings, wanted):
            return after.module.text, candidate, sure
        fresh = come(analysis.findings, after.findings)
        if len(fresh) == 1 and gone(analysis.findings, [f for f in after.findings if f not in fresh], wanted):
            detours.append((candidate, after, fresh[0], sure))
    for candidate, after, fresh_one, sure in detours[:_MOST_DETOURS] if most > 1 else ():
        rest = _steps(after, fresh_one, most - 1)
        if rest is not None:
            return rest[0], candidate, sure and rest[2]
    return None


def _catch(analysis: Analysis, finding: Finding) -> Catch | None:
    return next((c for f, c in analysis.found if f is finding), None)


def _around(catch: Catch) -> Iterator[Node]:
    """The selections that the hazard's own flows through on its way out of the function, the nearest first."""
    select = catch.hazard.select
    reading = {select}
    for node in catch.program.order:
        if node not in reading and not reading.isdisjoint(node.inputs):
            reading.add(node)
            outer = node.op == "where" and node.selection is not None and place(node) != place(select)
            if outer and any(select in topological([i]) for i in node.inputs[1:]):
                yield node


def _why_not(analysis: Analysis, finding: Finding) -> str:
    catch = _catch(analysis, finding)
    if catch is not None and catch.hazard.op.origin.block.module is not analysis.module:
        return f"no fix is offered: the operation is in {catch.hazard.op.origin.block.module.filename}"
    return "no fix is offered: no rewrite that was tried could be proven to keep the value and mend the gradient"


def _line_edits(old: Source, text: str) -> tuple[Edit, ...]:
    """Whole lines to replace, where several rewrites were made one after the other."""
    a, b = list(old.lines), text.splitlines(keepends=True)
    edits = []
    for kind, a0, a1, b0, b1 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if kind != "equal":
            edits.append(Edit("".join(b[b0:b1]), Location(a0 + 1, 1), Location(a1 + 1, 1)))
    return tuple(edits)


class _Proof:
    """What a candidate has to keep."""

    def __init__(self, analysis: Analysis, finding: Finding, catch: Catch) -> None:
        self._analysis = analysis
        self._finding = finding
        self._catch = catch
        self._source = Source(analysis.module.text)
        self._names = self._concerned()
        self._records: dict[tuple[str, ...], list[tuple[Program, Record]]] = {}

    def _concerned(self) -> list[tuple[str, ...]]:
        """The functions whose values a rewrite may change: those that hold the two places, and their callers."""
        module, hazard = self._analysis.module, self._catch.hazard
        known = set(gate.roots(module, everything=True))
        names = [self._catch.name]
        for node in (hazard.op, hazard.select):
            parts = tuple(node.origin.function.split(".")) if node.origin.block.module is module else ()
            for name in (parts[:2], parts[:1]):
                if name in known:
                    names += [name, *gate.referring(module, name[-1])[:_MOST_CALLERS]]
                    break
        return list(dict.fromkeys(names))

    def of(self, candidate: Candidate) -> tuple[Analysis, bool] | None:
        """What is found in the file after a rewrite, and whether calls that are not known had their arguments changed.

        None where the rewrite computes something else.
        """
        project = self._analysis.module.project
        assert project is not None
        if not consistent(candidate.edits):
            return None
        try:
            module = project.revised(self._source.edited(candidate.edits))
            crossed = [self._crosses(module, name) for name in self._names]
        except (SyntaxError, GiveUp, RecursionError, ValueError, _OtherwiseError):
            return None
        after = analyse(module, self._analysis.used, self._names, frozenset())
        return None if after.problems else (after, any(crossed))

    def _crosses(self, module: Module, name: tuple[str, ...]) -> bool:
        """Whether a function computes the same only if calls that are not known do. Raises where it does not."""
        if name not in self._records:
            old = programs(self._analysis.module, name, self._analysis.used)
            own = self._catch.program if name == self._catch.name else None
            old = [own if own is not None and p.name == own.name else p for p in old]
            self._records[name] = [(p, record(p, self._catch)) for p in old]
        known = self._records[name]
        new = programs(module, name, self._analysis.used)
        if [p.name for p, _ in known] != [p.name for p in new]:
            raise _OtherwiseError
        crossed = False
        for (_, before), program in zip(known, new, strict=True):
            renames = renamed(before, program)
            if not same(before, program, self._catch.framework, renames):
                raise _OtherwiseError
            crossed = crossed or bool(renames)
        return crossed


class _OtherwiseError(Exception):
    """The rewritten program computes something else."""
