"""The double where, written into the source and proven before it is offered."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Literal, NamedTuple

from wherelint.analysis.findings import Analysis
from wherelint.analysis.search import Detection
from wherelint.defects import describe
from wherelint.finding import Edit, Finding, Fix
from wherelint.fix.candidates import Site
from wherelint.fix.domains import has_epsilon
from wherelint.fix.groups import (
    Attempt,
    Places,
    Taken,
    around,
    concerned,
    laid_bare,
    otherwise,
    places_of,
    proven,
    slope_left,
)
from wherelint.fix.layout import commented
from wherelint.fix.masks import Candidate, masked_twice
from wherelint.fix.proof import Comparison
from wherelint.fix.proving import Found, Proof
from wherelint.fix.refusals import EPSILON, MATRIX, TOO_LONG, TOO_MANY, TOO_MUCH, TRIES, UNWANTED, refused
from wherelint.fix.slopes import linear_term
from wherelint.fix.twins import has_twins, joined
from wherelint.frontend.module import Module
from wherelint.frontend.syntax import GiveUp
from wherelint.graph.work import WorkBudget
from wherelint.io.edits import Source, consistent, without
from wherelint.ops import OPERATIONS
from wherelint.ops.traits import MATRICES

Grade = Literal["safe", "unsafe", "display"]
_GRADES: tuple[Grade, ...] = ("safe", "unsafe", "display")
_MOST_TRIED = 32
#: What is done for one fix, and for all of a file, whatever it is done for.
_MOST_WORK, _MOST_IN_ALL = 450_000, 1_500_000
#: How many rewrites one after the other may be needed: masking a divisor can lay bare the root that it was computed by.
_MOST_STEPS = 3
_MOST_DETOURS = 2


def work_budget() -> WorkBudget:
    """What the fixes of one file may cost together."""
    return WorkBudget(_MOST_IN_ALL)


def propose(analysis: Analysis, finding: Finding, whole: WorkBudget | None = None) -> Fix | None:
    """The rewrite that removes a finding, proven; one without edits that says why where there is none.

    None for a finding that nothing was measured for. ``whole`` is what is left for the file.
    """
    places = places_of(analysis, finding)
    if places and whole is not None and whole.spent:
        return refused(TOO_MANY)
    try:
        if not places:
            return linear_term(analysis, finding, whole)
        effort = WorkBudget(_MOST_WORK) if whole is None else whole.part(_MOST_WORK)
        steps: _Proven | str = ""
        for first in range(len(places)):  # the rewrite of any of them may fix all, or make way for another
            steps = _steps(analysis, [*places[first:], *places[:first]], max(_MOST_STEPS, len(places)), effort)
            if not isinstance(steps, str) or effort.spent:
                break
        left = "" if isinstance(steps, str) else slope_left(places)
    except (GiveUp, RecursionError):
        return refused(TOO_MUCH)
    except Exception as error:  # a defect of ours: it is said where, and the finding stands all the same
        return refused(describe(error))
    if isinstance(steps, str):
        return refused(TOO_LONG if effort.spent else steps)
    old = Source(analysis.module.text)
    edits = steps.candidate.edits if old.edited(steps.candidate.edits) == steps.text else old.difference(steps.text)
    return Fix(steps.grade, steps.candidate.message + left, edits, steps.bare)


def propose_all(analysis: Analysis, findings: Sequence[Finding], whole: WorkBudget) -> list[Fix | None]:
    """The fix of each finding: those that can be proven at once, the others one by one."""
    done: dict[int, Fix] = {}
    rounds: dict[int, int] = {}
    likely = [each for finding in findings if (each := _attempt(analysis, finding)) is not None]
    fixes = {id(attempt.finding): fix for attempt, fix in likely}
    waiting = [attempt for attempt, _ in likely]
    while waiting:
        taken = Taken(analysis.module)
        group = [each for each in waiting if taken.takes(each.edits)]
        with suppress(GiveUp, RecursionError):  # each is tried alone
            for one in proven(analysis, group, whole):
                fix = fixes[id(one.finding)]
                left = slope_left(places_of(analysis, one.finding))
                done[id(one.finding)] = replace(fix, message=fix.message + left)
                rounds[id(one.finding)] = len(waiting)
        waiting = [each for each in waiting if not any(each is one for one in group)]
    alone = [finding.fix or done.get(id(finding)) or propose(analysis, finding, whole) for finding in findings]
    return joined(analysis, findings, alone, rounds, WorkBudget(_MOST_WORK))


def offered_for(
    analysis: Analysis,
    findings: Sequence[Finding],
    codes: Collection[str] | None,
    whole: WorkBudget,
    *,
    comment: bool = False,
) -> list[Fix | None]:
    """The fix of each finding, where those of its rule are wanted; with a ``comment`` that says why."""
    wanted = [finding for finding in findings if codes is None or finding.code in codes]
    fixes = {id(f): fix for f, fix in zip(wanted, propose_all(analysis, wanted, whole), strict=True)}
    if comment:
        shown = [(f, fix) for f in wanted if f.witness and (fix := fixes[id(f)]) is not None and fix.edits]
        fixes |= {id(f): commented(analysis.module.text, fix, f.op) for f, fix in shown}
    return [fixes.get(id(finding), refused(UNWANTED.format(finding.code))) for finding in findings]


def _attempt(analysis: Analysis, finding: Finding) -> tuple[Attempt, Fix] | None:
    """The first rewrite that would be tried for a finding; None where it had better be tried alone."""
    places = places_of(analysis, finding) if finding.fix is None else []
    if not places or _hopeless(places):
        return None
    try:
        site, arm = _site(analysis, places)
        candidate = next(site.candidates(several=len(arm) > 1), None)
    except Exception:  # it is met again, and reported, where the finding is tried alone
        return None
    if candidate is None or candidate.alone or not consistent(candidate.edits):
        return None
    grade = _grade(candidate, candidate.elementwise)
    fix = Fix(grade, candidate.message, candidate.edits)
    near = concerned(analysis, places[0][1])
    return Attempt(finding, places[0][1], *near, candidate.edits, _targets(candidate, places, arm)), fix


def together(analysis: Analysis, after: Module, done: list[Finding], whole: WorkBudget, *, sure: bool) -> list[Finding]:
    """Rewrites that were proven one by one and do not compute the same when ``after`` has all of them.

    ``sure``: each alone is safe, and so they have to be: of two nans that meet, one stays as long as the other does.

    Those that share no function need no other proof.
    """
    detections = [(finding, detection) for finding in done for _, detection in places_of(analysis, finding)[:1]]
    attempts = [Attempt(finding, detection, concerned(analysis, detection)[0]) for finding, detection in detections]
    often = Counter(name for each in attempts for name in each.names)
    failing = otherwise(analysis, after, [each for each in attempts if any(often[name] > 1 for name in each.names)])
    proofs = [(each.finding, Proof(analysis, each.detection, whole)) for each in failing]
    shared = [(finding, proof, [name for name in proof.names if often[name] > 1]) for finding, proof in proofs]
    return [finding for finding, proof, names in shared if not proof.holds(after, names, sure=sure)]


def reach(analysis: Analysis | None, finding: Finding) -> frozenset[str]:
    """The functions and classes of the file that a fix for a finding may concern, or that it depends on."""
    places = places_of(analysis, finding) if analysis is not None else []
    if analysis is None or not places:
        return frozenset()
    detection = places[0][1]
    proof = Proof(analysis, detection)
    inlined = (name.partition(".")[0] for name, _ in detection.program.inlined)
    return frozenset([*inlined, *(name[0] for name in [*proof.names, *proof.callers])])


def _steps(analysis: Analysis, places: Places, most: int, effort: WorkBudget) -> _Proven | str:
    """The rewrites, one after the other, that remove a finding and whatever they lay bare; why there are none.

    ``places``: the finding and the others of its cause, which have to go as well.
    """
    finding, detection = places[0]
    if why := _hopeless(places):
        return why
    proof = Proof(analysis, detection, effort)
    detours: list[tuple[Candidate, Analysis, list[Finding], Grade, list[Finding]]] = []
    site, arm = _site(analysis, places)
    bare: list[tuple[Candidate, Found, list[Finding], bool, list[Finding]]] = []
    good: list[_Proven] = []
    shown: list[_Proven] = []  # better than nothing
    unfinished: list[tuple[Candidate, Found, list[Finding]]] = []
    rival = ""
    tried, asked, idle = 0, set[tuple[Edit, ...]](), set[tuple[object, ...]]()
    for tried, candidate in enumerate(site.candidates(several=len(arm) > 1)):
        if tried >= _MOST_TRIED or effort.spent:
            break
        if rival and candidate.kind != rival:
            continue
        if candidate.edits in asked or candidate.slot in idle or not consistent(candidate.edits):
            continue
        asked.add(candidate.edits)
        compared = Comparison(proof.source, candidate.edits, analysis.findings)
        if (found := proof.of(proof.source.edited(candidate.edits), compared)) is None:
            continue
        targets = _targets(candidate, places, arm)
        sure = candidate.elementwise and not found.doubtful
        if compared.gone(targets, found.after.findings):
            if found.worse:
                continue
            if found.silent:
                unfinished.append((candidate, found, targets))
                continue
            doubtful = proof.doubts(found, targets, compared)
            if doubtful is None:
                continue
            grade = _grade(candidate, sure and not doubtful and not (candidate.alone and proof.exposed))
            rank = _GRADES.index(grade), found.lost, not found.clean
            (shown if grade == "display" else good).append(_Proven(rank, found.after.module.text, candidate, grade))
            if doubtful:
                continue  # another may leave every nan what it was, and every argument
            if candidate.kind == "arm" and not found.clean:
                rival = "arm"  # another number may be one that every operation of the arm likes
            elif found.lost and finding.select.kind == "multiply":
                rival = "guard"  # a product drops nothing where the mask is 1
            else:
                break
        elif not good:
            if candidate.slot and compared.stays(finding, found.after.findings):
                idle.add(candidate.slot)  # it is another input that goes wrong, and no number of the mask is its value
            fresh = compared.come(found.after.findings)
            stay = compared.come(found.after.findings, targets)
            sure = sure and not (candidate.alone and proof.exposed)
            if not fresh and len(stay) < len(targets) and not found.silent:
                detours.append((candidate, found.after, stay, _grade(candidate, sure), targets))
            elif fresh == stay:
                if not found.worse:
                    bare.append((candidate, found, fresh, sure, targets))
                if len(fresh) == 1:
                    detours.append((candidate, found.after, fresh, _grade(candidate, sure), targets))
                    if candidate.slot:
                        idle.add(candidate.slot)  # what it lays bare, another number does too
    if good:
        return min(good, key=lambda each: each.rank)  # the first of the best
    detours.sort(key=lambda detour: _GRADES.index(detour[3]))
    for candidate, after, left, grade, targets in detours[:_MOST_DETOURS] if most > 1 else ():
        following = [place for one in left for place in places_of(after, one)]
        rest = _steps(after, following, most - 1, effort) if following else ""
        if isinstance(rest, str) or masked_twice(rest.text) > masked_twice(proof.source.text):
            continue
        if (last := proof.of(rest.text)) is None or last.worse:
            continue
        compared = Comparison(proof.source, proof.source.difference(rest.text), analysis.findings)
        if (doubtful := proof.doubts(last, targets, compared)) is not None:
            least: Grade = "unsafe" if doubtful else "safe"
            both = rest._replace(candidate=candidate, grade=max(grade, rest.grade, least, key=_GRADES.index))
            return _shorter(analysis, proof, both, rest, targets) or both
    for candidate, found, targets in unfinished[:_MOST_DETOURS]:
        if (finished := _finished(proof, candidate, found, targets, most - 1)) is not None:
            return finished
    for candidate, found, come, sure, targets in bare[:_MOST_DETOURS] if most == _MOST_STEPS else ():
        if not found.silent and all(laid_bare(analysis, found.after, each) for each in come):
            compared = Comparison(proof.source, candidate.edits, analysis.findings)
            if (doubtful := proof.doubts(found, targets, compared)) is not None:
                grade = _grade(candidate, sure and not doubtful)
                rank, ops = (_GRADES.index(grade), found.lost, True), tuple(dict.fromkeys(each.op for each in come))
                return _Proven(rank, found.after.module.text, candidate, grade, ops)
    if shown:
        return min(shown, key=lambda each: each.rank)
    return TRIES if tried >= _MOST_TRIED else _why_not(analysis, detection, unfinished[0][1] if unfinished else None)


def _hopeless(places: Places) -> str:
    """Why no rewrite need be tried."""
    hazards = [detection.hazard for _, detection in places]
    return EPSILON if has_epsilon(hazards[0]) else MATRIX if any(h.op.op in MATRICES for h in hazards) else ""


def _targets(candidate: Candidate, places: Places, arm: list[Finding]) -> list[Finding]:
    """The findings that a rewrite has to remove: all of one cause, and those of the arm that it is made for."""
    asked = [finding for finding, _ in places]
    more = arm if candidate.kind == "arm" else []
    return [*asked, *(f for f in more if not any(f is each for each in asked))]


def _site(analysis: Analysis, places: Places) -> tuple[Site, list[Finding]]:
    """A finding in the file that is rewritten, and every finding in the arm that drops it, or of the same cause."""
    finding, detection = places[0]
    siblings = {
        c.hazard.op: f.confidence in ("high", finding.confidence)
        for f, c in analysis.found
        if c is not None and (f.select.location == finding.select.location or any(f is each for each, _ in places))
    }
    twins = has_twins(analysis, finding, detection)
    site = Site(analysis.module, detection.framework, detection.hazard, list(around(detection)), siblings, twins=twins)
    start, end = site.arm.region if site.arm is not None else (finding.location, finding.location)
    arm = [f for f in analysis.findings if start <= f.location <= end]
    reading = [place.region for places in site.sharing.values() for place in places]
    arm += [
        f
        for f in analysis.findings
        if f.select.location == finding.select.location
        and not any(f is each for each in arm)
        and any(f.location <= start and end <= f.end_location for start, end in reading)
    ]
    return site, [*arm, *(f for f, _ in places if not any(f is each for each in arm))]


def _shorter(analysis: Analysis, proof: Proof, both: _Proven, last: _Proven, targets: list[Finding]) -> _Proven | None:
    """The last of two rewrites alone, if it does what both do: what it masks reaches what the first one masked."""
    text = without(proof.source, both.candidate.edits, both.text)
    if text is None or (found := proof.of(text)) is None or found.silent or found.worse:
        return None
    if not found.clean and not both.rank[2]:
        return None  # a selection drops what is not finite still, which is better not there
    compared = Comparison(proof.source, proof.source.difference(text), analysis.findings)
    if not compared.gone(targets, found.after.findings):
        return None
    doubtful = proof.doubts(found, targets, compared)
    kept = doubtful is not None and (both.grade != "safe" or not (doubtful or found.doubtful))
    return last._replace(text=text, grade=both.grade) if kept else None


def _finished(proof: Proof, candidate: Candidate, found: Found, targets: list[Finding], most: int) -> _Proven | None:
    """A rewrite, and guards for the operations that lose a gradient at the witness still, with no finding of theirs."""
    op = found.silent[0]
    hazard = replace(proof.detection.hazard, op=op, select=op)
    source = Source(found.after.module.text)
    for guard in Site(found.after.module, proof.detection.framework, hazard, (), {}).guards() if most else ():
        text = source.edited(guard.edits) if consistent(guard.edits) else ""
        if not text or (last := proof.of(text)) is None or last.worse:
            continue
        both = replace(candidate, elementwise=candidate.elementwise and guard.elementwise, alone=guard.alone)
        compared = Comparison(proof.source, proof.source.difference(text), proof.findings)
        if not compared.gone(targets, last.after.findings):
            continue
        if len(found.silent) > len(last.silent) > 0 and (rest := _finished(proof, both, last, targets, most - 1)):
            return rest
        doubtful = None if last.silent else proof.doubts(last, targets, compared)
        if doubtful is not None:
            grade = _grade(both, both.elementwise and not doubtful and not both.alone)
            return _Proven((_GRADES.index(grade), last.lost, not last.clean), text, both, grade)
    return None


def _grade(candidate: Candidate, sure: bool) -> Grade:
    """How a rewrite is offered; one that changes what an operand is for everybody has to be sure."""
    return "safe" if sure else "display" if candidate.alone else "unsafe"


def _why_not(analysis: Analysis, detection: Detection, unfinished: Found | None) -> str:
    home = detection.hazard.op.origin.block.module
    if home is not analysis.module:
        shown = home.filename if os.path.isabs(analysis.module.filename) else os.path.relpath(home.filename)
        return f"the operation is in {shown}"
    if unfinished is not None:
        op = unfinished.silent[0]
        what = f"`{op.op}` in `{op.origin.function}` is singular, too" if op.op in OPERATIONS else "it overflows"
        return f"the gradient would still be lost at the witness: {what}"
    return "no rewrite could be proven to keep the value and fix the gradient"


class _Proven(NamedTuple):
    """A rewrite that may be offered."""

    rank: tuple[int, int, bool]
    text: str
    candidate: Candidate
    grade: Grade
    bare: tuple[str, ...] = ()
