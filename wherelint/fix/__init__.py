"""The double where, written into the source and proven before it is offered."""

from __future__ import annotations

import builtins
import symtable
from collections.abc import Collection, Sequence
from functools import partial

from wherelint.defects import describe
from wherelint.finding import Edit, Finding, Fix
from wherelint.findings.analysis import Analysis
from wherelint.fix.layout import commented
from wherelint.fix.messages import TOO_LONG, TOO_MANY, TOO_MUCH, UNBOUND, UNWANTED, left_in, refused
from wherelint.fix.scope import Places, places_of
from wherelint.fix.search import MOST_STEPS, Proven, rewritten
from wherelint.fix.together import completed
from wherelint.frontend.module import Module
from wherelint.frontend.syntax import GiveUp
from wherelint.search.budget import WorkBudget

#: What is done for one fix, and for all of a file, whatever it is done for.
_MOST_WORK, _MOST_IN_ALL = 1_000_000, 4_000_000


def work_budget() -> WorkBudget:
    """What the fixes of one file may cost together."""
    return WorkBudget(_MOST_IN_ALL)


def propose(analysis: Analysis, finding: Finding, whole: WorkBudget | None = None) -> Fix | None:
    """The rewrite that removes a finding, proven; one without edits that says why where there is none.

    None for a finding that no search made. ``whole`` is what is left for the file.
    """
    places = places_of(analysis, finding)
    if not places:
        return None
    if whole is not None and whole.spent:
        return refused(TOO_MANY)
    if places[0][1].name in analysis.unfinished:  # what a rewrite leaves would not be known either
        return refused(TOO_LONG)
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
    except (GiveUp, RecursionError):
        return refused(TOO_MUCH)
    except Exception as error:  # a defect of ours: it is said where, and the finding stands all the same
        return refused(describe(error))
    if isinstance(steps, str):
        return refused(TOO_LONG if effort.spent else steps)
    old = analysis.module.source
    edits = steps.candidate.edits if old.edited(steps.candidate.edits) == steps.text else old.difference(steps.text)
    if not _binds_all(analysis.module, steps.text):
        return refused(UNBOUND)
    return Fix(steps.grade, steps.candidate.message + others, edits, steps.remaining)


def _binds_all(module: Module, text: str) -> bool:
    """Whether every name that the functions of a new text read is bound, or was not bound before either."""
    try:
        new, old = _unbound(text), _unbound(module.text)
    except (SyntaxError, ValueError, RecursionError):  # the cells of a notebook
        return True
    return bool(module.stars) or new <= old | vars(builtins).keys()


def _unbound(text: str) -> set[str]:
    """The names that the functions of a text read and neither they nor the file binds."""
    tables = [symtable.symtable(text, "", "exec")]
    bound = {symbol.get_name() for symbol in tables[0].get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    read: set[str] = set()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        if table.get_type() != "module":
            read.update(symbol.get_name() for symbol in table.get_symbols() if symbol.is_global())
    return read - bound


def _others(places: Places, edits: Sequence[Edit]) -> str:
    """What the message of a fix says of the findings of the same cause in rows that it leaves as they are."""
    changed = {row for e in edits for row in range(e.location.row, e.end_location.row + (e.end_location.column > 1))}
    rows = dict.fromkeys(finding.location.row for finding, _ in places[1:])
    return left_in([row for row in rows if row not in changed])


def offered_for(
    analysis: Analysis,
    findings: Sequence[Finding],
    codes: Collection[str] | None,
    whole: WorkBudget,
    *,
    comment: bool = False,
) -> list[Fix | None]:
    """The fix of each finding, where those of its rule are wanted; with a ``comment`` that says why."""

    def is_wanted(finding: Finding) -> bool:
        return codes is None or finding.code in codes

    wanted = list(filter(is_wanted, findings))
    propose_one = partial(propose, analysis, whole=whole)
    complete = completed(analysis, wanted, propose_one, is_wanted, WorkBudget(_MOST_WORK))
    fixes = {id(finding): fix for finding, fix in zip(wanted, complete, strict=True)}
    if comment:
        shown = [(f, fix) for f in wanted if f.witness and (fix := fixes[id(f)]) is not None and fix.offered]
        fixes |= {id(f): commented(analysis.module.text, fix, f.op) for f, fix in shown}
    return [fixes.get(id(finding), refused(UNWANTED.format(finding.code))) for finding in findings]
