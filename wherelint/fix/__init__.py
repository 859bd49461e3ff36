"""The double where, written into the source and proven before it is offered."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace

from wherelint.defects import describe
from wherelint.finding import Edit, Finding, Fix
from wherelint.findings.analysis import Analysis
from wherelint.fix.groups import Attempt, Places, Taken, concerned, otherwise, places_of, proven
from wherelint.fix.layout import commented
from wherelint.fix.masks import MANY_MASKS, masking
from wherelint.fix.otherfile import guarded_at_home
from wherelint.fix.proving import Proof
from wherelint.fix.refusals import TOO_LONG, TOO_MANY, TOO_MUCH, UNBOUND, UNWANTED, refused
from wherelint.fix.repeated import written_once
from wherelint.fix.rewrites import MOST_STEPS, Proven, grade_of, hopeless, rewritten, site_of, targets_of
from wherelint.fix.twins import completed, joined
from wherelint.fix.unbound import binds_all
from wherelint.frontend.module import Module
from wherelint.frontend.syntax import GiveUp
from wherelint.io.edits import consistent
from wherelint.search.budget import WorkBudget

#: What is done for one fix, and for all of a file, whatever it is done for.
_MOST_WORK, _MOST_IN_ALL = 1_000_000, 4_000_000


def work_budget() -> WorkBudget:
    """What the fixes of one file may cost together."""
    return WorkBudget(_MOST_IN_ALL)


def propose(analysis: Analysis, finding: Finding, whole: WorkBudget | None = None) -> Fix | None:
    """The rewrite that removes a finding, proven; one without edits that says why where there is none.

    None for a finding that nothing was measured for. ``whole`` is what is left for the file.
    """
    places = places_of(analysis, finding)
    if not places:
        return None
    if whole is not None and whole.spent:
        return refused(TOO_MANY)
    try:
        effort = WorkBudget(_MOST_WORK) if whole is None else whole.part(_MOST_WORK)
        most = effort.part(_MOST_WORK // 2) if len(places) > 1 else effort  # one alone has the rest
        steps: Proven | str = ""
        for first in range(len(places)):  # the rewrite of any of them may fix all, or make way for another
            steps = rewritten(analysis, [*places[first:], *places[:first]], max(MOST_STEPS, len(places)), most)
            if not isinstance(steps, str) or most.spent:
                break
        others = ""
        elsewhere = len(places) > 1 and all(f.location != finding.location for f, _ in places[1:])
        if isinstance(steps, str) and elsewhere and not effort.spent:
            alone = rewritten(analysis, places[:1], MOST_STEPS, effort)
            if not isinstance(alone, str):
                steps, others = alone, _others(places, analysis.module.source.difference(alone.text))
        if isinstance(steps, str) and not effort.spent and (fix := guarded_at_home(analysis, places, effort)):
            return fix
    except (GiveUp, RecursionError):
        return refused(TOO_MUCH)
    except Exception as error:  # a defect of ours: it is said where, and the finding stands all the same
        return refused(describe(error))
    if isinstance(steps, str):
        return refused(TOO_LONG if effort.spent else steps)
    old = analysis.module.source
    edits = steps.candidate.edits if old.edited(steps.candidate.edits) == steps.text else old.difference(steps.text)
    return Fix(steps.grade, steps.candidate.message + others, edits, steps.bare)


def _others(places: Places, edits: Sequence[Edit]) -> str:
    """What the message of a fix says of the findings of the same cause in rows that it leaves as they are."""
    changed = {row for e in edits for row in range(e.location.row, e.end_location.row + (e.end_location.column > 1))}
    rows = dict.fromkeys(finding.location.row for finding, _ in places[1:])
    left = [str(row) for row in rows if row not in changed]
    return f"; in row{'s' * (len(left) > 1)} {', '.join(left)} the same cause stays" if left else ""


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
                done[id(one.finding)] = fixes[id(one.finding)]
                rounds[id(one.finding)] = len(waiting)
        waiting = [each for each in waiting if not any(each is one for one in group)]
    alone = [finding.fix or done.get(id(finding)) or propose(analysis, finding, whole) for finding in findings]
    more = WorkBudget(_MOST_WORK)
    whole_ones = completed(analysis, findings, joined(analysis, findings, alone, rounds, more), more)
    module = analysis.module
    tidy = [written_once(module.source, fix) if fix is not None else None for fix in whole_ones]
    bound = (
        [each for each in pair if each is None or binds_all(module, each.edits)]
        for pair in zip(tidy, alone, strict=True)
    )
    return [each[0] if each else refused(UNBOUND) for each in bound]


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
        shown = [(f, fix) for f in wanted if f.witness and (fix := fixes[id(f)]) is not None and fix.offered]
        fixes |= {id(f): _commented(analysis.module, fix, f.op) for f, fix in shown}
    return [fixes.get(id(finding), refused(UNWANTED.format(finding.code))) for finding in findings]


def _commented(module: Module, fix: Fix, op: str) -> Fix:
    if fix.edits:
        return commented(module.text, fix, op)
    others = []
    for other in fix.elsewhere:
        home = module.project.at(os.path.abspath(other.filename))
        edits = commented(home.text, replace(fix, edits=other.edits), op).edits if home is not None else other.edits
        others.append(replace(other, edits=edits))
    return replace(fix, elsewhere=tuple(others))


def _attempt(analysis: Analysis, finding: Finding) -> tuple[Attempt, Fix] | None:
    """The first rewrite that would be tried for a finding; None where it had better be tried alone."""
    places = places_of(analysis, finding) if finding.fix is None else []
    if not places or hopeless(places):
        return None
    try:
        site, arm = site_of(analysis, places)
        candidate = next(site.candidates(several=len(arm) > 1), None)
    except Exception:  # it is met again, and reported, where the finding is tried alone
        return None
    if candidate is None or candidate.alone or not consistent(candidate.edits):
        return None
    if len(masking(candidate.edits)) >= MANY_MASKS:
        return None
    grade = grade_of(candidate, candidate.elementwise)
    fix = Fix(grade, candidate.message, candidate.edits)
    near = concerned(analysis, places[0][1])
    return Attempt(finding, places[0][1], *near, candidate.edits, targets_of(candidate, places, arm)), fix


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
