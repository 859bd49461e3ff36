"""The double where, written into the source and proven before it is offered."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from wherelint.defects import describe
from wherelint.edits import Source, consistent
from wherelint.finding import Edit, Finding, Fix, Location
from wherelint.fix.candidates import Candidate, Site
from wherelint.fix.proof import Record, come, gone, key, record, same
from wherelint.fix.shapes import differ
from wherelint.graph.node import Node, topological
from wherelint.graph.search import Effort
from wherelint.source import gate
from wherelint.source.callers import place
from wherelint.source.findings import Analysis, analyse
from wherelint.source.hunt import Catch
from wherelint.source.module import Module
from wherelint.source.roots import Program, programs
from wherelint.source.syntax import GiveUp

__all__ = ["TOO_MANY", "patience", "propose", "together"]

Grade = Literal["safe", "unsafe", "display"]
_GRADES: tuple[Grade, ...] = ("safe", "unsafe", "display")
_MOST_TRIED = 32
#: Nodes of the graph that may be computed to prove one fix; searching a graph for findings costs as much as many.
_MOST_WORK, _OFFERED_WORK, _SEARCHING = 50_000, 15_000, 10
#: The same for a file, in node evaluations; and how many characters, which are read again for every rewrite, cost one.
_MOST_IN_ALL, _OFFERED_IN_ALL, _CHARACTERS = 50_000_000, 10_000_000, 20
TOO_MANY = "no fix is offered: the file has more findings than fixes are looked for"
_MOST_CALLERS = 6
#: How many rewrites one after the other may be needed: masking a divisor can lay bare the root that it was computed by.
_MOST_STEPS = 3
_MOST_DETOURS = 2


def patience(*, thorough: bool) -> Effort:
    """What the fixes of one file may cost together."""
    return Effort(_MOST_IN_ALL if thorough else _OFFERED_IN_ALL)


def propose(analysis: Analysis, finding: Finding, whole: Effort | None = None, *, thorough: bool = True) -> Fix | None:
    """The rewrite that removes a finding, proven; one without edits that says why where there is none.

    None for a finding that no search made. Not ``thorough``: little time is spent, for a report that somebody waits
    for. ``whole`` is what is left for the file.
    """
    if _catch(analysis, finding) is None:
        return None
    if whole is not None and whole.spent:
        return Fix("display", TOO_MANY, ())
    try:
        effort = Effort(_MOST_WORK if thorough else _OFFERED_WORK, whole)
        steps = _steps(analysis, finding, _MOST_STEPS, effort)
    except (GiveUp, RecursionError):
        return Fix("display", "no fix is offered: it is too much to follow", ())
    except Exception as error:  # a defect of ours: it is said where, and the finding stands all the same
        return Fix("display", f"no fix is offered: {describe(error)}", ())
    if steps is None:
        return Fix("display", _why_not(analysis, finding), ())
    text, first, grade = steps
    edits = first.edits
    old = Source(analysis.module.text)
    if old.edited(edits) != text:
        edits = _line_edits(old, text)
    return Fix(grade, first.message, edits)


def together(analysis: Analysis, after: Module, done: list[Finding], whole: Effort) -> bool:
    """Whether rewrites that were proven one by one compute the same when ``after`` has all of them."""
    if len(done) == 1:
        return True
    catches = [catch for finding in done if (catch := _catch(analysis, finding)) is not None]
    proofs = (_Proof(analysis, catch, Effort(_MOST_WORK, whole)) for catch in catches)
    return all(proof.holds(after, proof.names) for proof in proofs)


def _steps(analysis: Analysis, finding: Finding, most: int, effort: Effort) -> tuple[str, Candidate, Grade] | None:
    """The text after the rewrites that remove a finding and whatever they lay bare; the first one; how sure all are."""
    catch = _catch(analysis, finding)
    if catch is None:
        return None
    proof = _Proof(analysis, catch, effort)
    detours: list[tuple[Candidate, Analysis, Finding, Grade]] = []
    siblings = [
        c.hazard.op for f, c in analysis.found if c is not None and f.select.location == finding.select.location
    ]
    site = Site(analysis.module, catch.framework, catch.hazard, list(_around(catch)), siblings)
    start, end = site.arm.region if site.arm is not None else (finding.location, finding.location)
    arm = [f for f in analysis.findings if start <= f.location <= end]
    proven: list[_Proven] = []
    rival = ""
    for tried, candidate in enumerate(site.candidates(several=len(arm) > 1)):
        if tried >= _MOST_TRIED or effort.spent:
            break
        if rival and candidate.kind != rival:
            continue
        if (found := proof.of(candidate)) is None:
            continue
        wanted = arm if candidate.kind == "arm" else [finding]
        sure = candidate.elementwise and not found.doubtful
        if gone(analysis.findings, found.after.findings, wanted):
            if found.poisoned and not any(f.function == finding.function for f in found.after.findings):
                continue  # what was written instead poisons something that no finding speaks of
            doubtful = proof.doubts(found.after, wanted)
            if doubtful is None:
                continue
            grade = _grade(candidate, sure and not doubtful)
            rank = _GRADES.index(grade), found.lost, not found.clean
            proven.append(_Proven(rank, found.after.module.text, candidate, grade))
            if doubtful:
                continue  # another may leave every nan what it was, and every argument
            if candidate.kind == "arm" and not found.clean:
                rival = "arm"  # another number may be one that every operation of the arm likes
            elif found.lost and finding.select.kind == "multiply":
                rival = "guard"  # a product drops nothing where the mask is 1
            else:
                break
        elif not proven:
            fresh = come(analysis.findings, found.after.findings)
            others = [f for f in found.after.findings if f not in fresh]
            if len(fresh) == 1 and gone(analysis.findings, others, wanted):
                detours.append((candidate, found.after, fresh[0], _grade(candidate, sure)))
    if proven:
        best = min(proven, key=lambda each: each.rank)  # the first of the best
        return best.text, best.candidate, best.grade
    for candidate, after, fresh_one, grade in detours[:_MOST_DETOURS] if most > 1 else ():
        rest = _steps(after, fresh_one, most - 1, effort)
        if rest is not None:
            return rest[0], candidate, max(grade, rest[2], key=_GRADES.index)
    return None


def _grade(candidate: Candidate, sure: bool) -> Grade:
    """How a rewrite is offered; one that changes what an operand is for everybody has to be sure."""
    return "safe" if sure else "display" if candidate.alone else "unsafe"


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


class _Proven(NamedTuple):
    """A rewrite that may be offered."""

    rank: tuple[int, int, bool]
    text: str
    candidate: Candidate
    grade: Grade


class _Found(NamedTuple):
    """What a rewrite leads to."""

    after: Analysis
    #: Whether calls that are not known had their arguments changed, or what was nan is a number.
    doubtful: bool
    #: At how many probes the gradient is still lost.
    lost: int
    #: Whether everything is finite at the witness.
    clean: bool
    #: Whether a gradient is lost at the witness still.
    poisoned: bool


class _Passed(NamedTuple):
    """How a function passed the proof."""

    #: Whether a call that is not known has another argument, or a value, for all that is known, another shape.
    crossed: bool
    lost: int
    clean: bool
    poisoned: bool
    swallows: bool


class _Proof:
    """What a candidate has to keep."""

    def __init__(self, analysis: Analysis, catch: Catch, effort: Effort) -> None:
        self._effort = effort
        self._analysis = analysis
        self._catch = catch
        self._source = Source(analysis.module.text)
        self.names, self._callers = self._concerned()
        self._records: dict[tuple[tuple[str, ...], bool], list[tuple[Program, Record]]] = {}

    def _concerned(self) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
        """The functions that hold the two places, and those that call them."""
        module, hazard = self._analysis.module, self._catch.hazard
        known = set(gate.roots(module, everything=True))
        names = [self._catch.name]
        callers: list[tuple[str, ...]] = []
        for node in (hazard.op, hazard.select):
            parts = tuple(node.origin.function.split(".")) if node.origin.block.module is module else ()
            for name in (parts[:2], parts[:1]):
                if name in known:
                    names.append(name)
                    callers += gate.referring(module, name[-1])[:_MOST_CALLERS]
                    break
        return list(dict.fromkeys(names)), [name for name in dict.fromkeys(callers) if name not in names]

    def of(self, candidate: Candidate) -> _Found | None:
        """What is found in the file after a rewrite; None where the rewrite computes something else."""
        project = self._analysis.module.project
        assert project is not None
        if not consistent(candidate.edits):
            return None
        try:
            module = project.revised(self._source.edited(candidate.edits))
            passed = [self._pass(module, name) for name in self.names]
        except (SyntaxError, GiveUp, RecursionError, ValueError, _OtherwiseError):
            return None
        nodes = sum(len(p.order) for known in self._records.values() for p, _ in known)
        self._effort.spend(nodes * _SEARCHING)
        after = analyse(module, self._analysis.used, self.names, frozenset(), low=False, draft=True)
        self._charge(after)
        if after.problems:
            return None
        return _Found(
            after=after,
            doubtful=any(p.crossed or p.swallows for p in passed),
            lost=sum(p.lost for p in passed),
            clean=all(p.clean for p in passed),
            poisoned=any(p.poisoned for p in passed),
        )

    def holds(self, module: Module, names: list[tuple[str, ...]]) -> bool:
        """Whether some functions compute the same in another text."""
        return self._passed(module, names) is not None

    def _passed(self, module: Module, names: list[tuple[str, ...]]) -> list[_Passed] | None:
        """How functions pass the proof, with their defaults and whatever else is given; None where one does not."""
        try:
            return [self._pass(module, name, strict=strict) for strict in (False, True) for name in names]
        except (GiveUp, RecursionError, _OtherwiseError):
            return None

    def doubts(self, after: Analysis, wanted: list[Finding]) -> bool | None:
        """Whether a call that is not known, or a nan, may tell a rewrite from the original, in callers too.

        None where the finding is not gone for good, or a value is another.
        """
        mended = set(map(key, wanted))
        sure = analyse(after.module, after.used, self.names, frozenset(), draft=True)
        self._charge(sure)
        findings = [finding for finding in sure.findings if key(finding) in mended]
        if not gone(self._analysis.findings, findings, wanted):
            return None
        passed = self._passed(after.module, [*self.names, *self._callers])
        return None if passed is None else any(p.crossed or p.swallows for p in passed)

    def _charge(self, found: Analysis) -> None:
        """Count what an analysis really took for what the fixes of the whole file may cost."""
        if self._effort.whole is not None:
            self._effort.whole.spend(found.cost + len(found.module.text) // _CHARACTERS)

    def _pass(self, module: Module, name: tuple[str, ...], *, strict: bool = False) -> _Passed:
        """How a function passes the proof. Raises where it computes something else."""
        if (name, strict) not in self._records:
            old = programs(self._analysis.module, name, self._analysis.used, strict=strict)
            self._records[name, strict] = [(p, record(p, self._catch)) for p in old]
        known = self._records[name, strict]
        new = programs(module, name, self._analysis.used, strict=strict)
        if [p.name for p, _ in known] != [p.name for p in new]:
            raise _OtherwiseError
        crossed, lost, clean, poisoned, swallows = False, 0, True, False, False
        reshaped: list[bool | None] = []
        for (_, before), program in zip(known, new, strict=True):
            self._effort.spend(len(program.order))
            now = same(before, program, self._catch.framework)
            if now is None:
                raise _OtherwiseError
            crossed, lost, clean = crossed or bool(now.crossed), lost + now.lost, clean and now.clean
            poisoned, swallows = poisoned or now.poisoned, swallows or now.swallows
            if strict:
                reshaped.append(differ(before.outlets, now.outlets, now.crossed))
        if True in reshaped:
            raise _OtherwiseError
        return _Passed(crossed or None in reshaped, lost, clean, poisoned, swallows)


class _OtherwiseError(Exception):
    """The rewritten program computes something else."""
