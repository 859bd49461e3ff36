"""Fixes applied round by round: those that get in each other's way wait for the next, until nothing changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from wherelint.finding import Edit, Finding, Fix, FixKey, SortKey
from wherelint.fix import offered_for, work_budget
from wherelint.fix.layout import wrapped
from wherelint.fix.messages import ALONE, ROUNDS, TOO_MANY, refused
from wherelint.fix.scope import Taken, laid_bare
from wherelint.fix.together import changed_behavior
from wherelint.fix.verify.findings import Comparison, key
from wherelint.io.edits import Source
from wherelint.search.budget import WorkBudget

if TYPE_CHECKING:
    from wherelint.findings.analysis import Analysis
    from wherelint.frontend.module import Module
    from wherelint.suppress.view import View

_MOST_ROUNDS = 20

Chosen = list[tuple[Finding, Fix]]


@dataclass(frozen=True)
class Allowed:
    """Which fixes may be applied."""

    unsafe: bool = False
    #: Not these, and why: a run of the framework refuted them.
    refuted: Mapping[FixKey, str] = field(default_factory=dict)
    #: Makes the programs that show a finding.
    snippet: Callable[[Analysis, Finding], Finding] = lambda analysis, finding: finding
    #: How long the lines of a fix may be.
    width: int = 88
    #: Of which rules; None stands for all.
    codes: Collection[str] | None = None
    #: Whether a comment says why.
    comment: bool = False
    #: What is offered at first, where that is known.
    offers: Mapping[SortKey, Fix | None] = field(default_factory=dict)


def fixpoint(
    text: str, seen: View, analysed: Callable[[str], View], allowed: Allowed
) -> tuple[str, View, tuple[Finding, ...]]:
    """The text after every fix that may be applied, what is seen in it, and the findings that were fixed.

    What is left is seen with the fix that is offered for it, or with why it was given up.
    """
    fixed: list[Finding] = []
    given_up: dict[object, Fix] = {}
    refusals: dict[object, Fix] = {}
    whole = work_budget()
    grades = ("safe", "unsafe")[: 1 + allowed.unsafe]
    for number in range(_MOST_ROUNDS + 1):
        if number == 1:  # what the first offers `check` offers as well; all the others cost no more than that
            whole = work_budget()
        chosen: Chosen = []
        left: list[Finding] = []
        taken = Taken(seen.analysis.module) if seen.analysis is not None else None
        known = allowed.offers if number == 0 else {}
        for finding, offer in zip(seen.shown, _offered(seen, whole, allowed, refusals, known), strict=True):
            why = allowed.refuted.get(replace(finding, fix=offer).fix_key())
            fix = refused(why) if why else given_up.get(finding.sort_key(), offer)
            is_allowed = fix is not None and fix.edits and fix.applicability in grades
            if is_allowed and number == _MOST_ROUNDS:
                fix = refused(ROUNDS)
            elif fix is not None and is_allowed and taken is not None and taken.takes(fix.edits):
                chosen.append((finding, fix))
            left.append(replace(finding, fix=fix))
        if not chosen:
            break
        chosen, after, now = _agreeing(seen, chosen, allowed.width, analysed, whole)
        if now is None:
            given_up |= {finding.sort_key(): refused(ALONE) for finding, _ in chosen}
            continue
        if seen.analysis is not None:
            fixed += [allowed.snippet(seen.analysis, replace(finding, fix=fix)) for finding, fix in chosen]
        seen, text, given_up = now, after, {}
    return text, replace(seen, shown=tuple(left)), tuple(fixed)


def _offered(
    seen: View, whole: WorkBudget, allowed: Allowed, refusals: dict[object, Fix], known: Mapping[SortKey, Fix | None]
) -> list[Fix | None]:
    """What is offered for each finding. ``refusals``, known by statement, hold as long as no fix changes that."""
    if seen.analysis is None:
        return [f.fix for f in seen.shown]
    places = [_statement(seen.analysis.module, finding) for finding in seen.shown]
    shown = [replace(f, fix=f.fix or refusals.get(place)) for f, place in zip(seen.shown, places, strict=True)]
    if all(finding.sort_key() in known for finding in shown):
        offered = [known[finding.sort_key()] for finding in shown]
    else:
        offered = offered_for(seen.analysis, shown, allowed.codes, whole, comment=allowed.comment)
    for place, fix in zip(places, offered, strict=True):
        if fix is not None and not fix.edits and fix != refused(TOO_MANY):
            refusals[place] = fix
    return offered


def _statement(module: Module, finding: Finding) -> object:
    """What tells a finding from others as long as the top-level statement around it stays, wherever that stands."""
    row = finding.location.row
    rows = next(((b.first, b.last) for _, b in module.blocks if b.first <= row <= b.last), (1, len(module.lines)))
    place = row - rows[0], finding.location.column, finding.select.location.column
    return (*place, *key(finding), *module.lines[rows[0] - 1 : rows[1]])


def _agreeing(
    seen: View, chosen: Chosen, width: int, analysed: Callable[[str], View], whole: WorkBudget
) -> tuple[Chosen, str, View | None]:
    """As many fixes as do together what each does alone, the text after them, what is seen in it (None: none does)."""
    assert seen.analysis is not None
    text = seen.analysis.module.text
    while True:
        after = wrapped(text, Source(text).edited(_edits(chosen)), width)
        now = analysed(after)
        blamed = _blamed(seen, now, chosen, whole)
        rest = [(finding, fix) for finding, fix in chosen if not any(finding is each for each in blamed)]
        if not rest or not blamed:
            return chosen, after, now if not blamed else None
        chosen = rest


def _blamed(seen: View, now: View, chosen: Chosen, whole: WorkBudget) -> list[Finding]:
    """The findings whose fixes have to wait, since with them others come, or something else is computed.

    Of several that concern one function, the first half does not wait.
    """
    if seen.analysis is None or now.analysis is None:
        return []
    done = [finding for finding, _ in chosen]
    source, after = seen.analysis.module.source, now.analysis.module.text
    edits = _edits(chosen) if source.edited(_edits(chosen)) == after else source.difference(after)
    compared = Comparison(source, edits, seen.analysis.findings)
    searched = (f for f, made in now.analysis.found if made is not None and f.is_shown)
    fixed = [place for finding in done for place, _ in seen.analysis.places(finding)[:1]]
    fresh = compared.come(searched, fixed)
    still = [f for f in fresh if any(compared.stays(each, [f]) for each in fixed)]
    fresh = [f for f in fresh if f in still or not laid_bare(seen.analysis, now.analysis, f)]
    sure = all(fix.applicability == "safe" for _, fix in chosen)
    changed = changed_behavior(seen.analysis, now.analysis.module, done, whole, sure=sure)
    blamed = []
    for function in {_outermost(finding) for finding in (*fresh, *changed)}:
        near = [finding for finding in done if _outermost(finding) == function] or done
        blamed += near[(len(near) + 1) // 2 :] or near
    return blamed


def _outermost(finding: Finding) -> str:
    return finding.function.partition(".")[0]


def _edits(chosen: Chosen) -> list[Edit]:
    return list(dict.fromkeys(edit for _, fix in chosen for edit in fix.edits))
