"""Fixes applied round by round: those that get in each other's way wait for the next, until nothing changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from wherelint.edits import Source, compatible
from wherelint.finding import Edit, Finding, Fix
from wherelint.fix import TOO_MANY, patience, propose, together
from wherelint.fix.proof import gone, key
from wherelint.graph.search import Effort

if TYPE_CHECKING:
    from wherelint.engine import Look

_MOST_ROUNDS = 20
_BINDS = re.compile(r"^[ \t]*(\w+) = ", re.MULTILINE)


def fixpoint(
    text: str, seen: Look, look: Callable[[str], Look], *, unsafe: bool
) -> tuple[str, Look, tuple[Finding, ...]]:
    """The text after every fix that may be applied, what is seen in it, and the findings that were fixed.

    What is left is seen with the fix that is offered for it.
    """
    fixed: list[Finding] = []
    whole = patience(thorough=True)
    refused: dict[object, Fix | None] = {}
    allowed = ("safe", "unsafe") if unsafe else ("safe",)
    for _ in range(_MOST_ROUNDS):
        chosen: list[tuple[Finding, Fix]] = []
        for finding in seen.shown:
            where = _where(seen, finding)
            if where in refused:
                continue
            fix = finding.fix or (propose(seen.analysis, finding, whole) if seen.analysis else None)
            if fix is None or not fix.edits or fix.applicability not in allowed:
                refused[where] = fix
            elif _fits(fix, [f for _, f in chosen]):
                chosen.append((finding, fix))
        while chosen:
            after = _edited(seen, [fix for _, fix in chosen])
            now = look(after)
            whole.spend(now.analysis.cost if now.analysis else 0)
            done = [finding for finding, _ in chosen]
            if _better(seen, now, done) and _alike(seen, now, done, whole):
                text, seen = after, now
                fixed += done
                break
            if whole.spent:
                refused.update((_where(seen, finding), Fix("display", TOO_MANY, ())) for finding in done)
                chosen = []
            else:
                chosen.pop()  # together they do what none of them does alone: one of them waits
        else:
            break
    left = []
    for finding in seen.shown:
        offered = refused.get(_where(seen, finding))
        if offered is not None and offered.edits and fixed and seen.analysis is not None:
            offered = propose(seen.analysis, finding, whole)  # its rows may have moved
        left.append(replace(finding, fix=offered))
    return text, replace(seen, shown=tuple(left)), tuple(fixed)


def _where(seen: Look, finding: Finding) -> object:
    """A finding, and the text of the function or class that it is in: while that is the same, so is the fix."""
    assert seen.analysis is not None
    module = seen.analysis.module
    block = next((b for _, b in module.blocks if b.first <= finding.location.row <= b.last), None)
    if block is None:
        return finding.location
    text = "".join(module.lines[block.first - 1 : block.last])
    return key(finding), finding.location.row - block.first, finding.location.column, text


def _fits(fix: Fix, chosen: list[Fix]) -> bool:
    """Whether a fix can be applied with others: apart from edits that they share it touches none, nor their names."""
    shared = {edit for other in chosen for edit in other.edits}
    own = [edit for edit in fix.edits if edit not in shared]
    return compatible(own, list(shared)) and not _bound(shared) & _bound(own)


def _bound(edits: Iterable[Edit]) -> set[str]:
    """The names that are bound by lines that some edits add."""
    return {name for edit in edits for name in _BINDS.findall(edit.content)}


def _edited(seen: Look, fixes: list[Fix]) -> str:
    assert seen.analysis is not None
    module = seen.analysis.module
    edits: dict[Edit, None] = {edit: None for fix in fixes for edit in fix.edits}
    return Source(module.text).edited(edits)


def _alike(seen: Look, now: Look, done: list[Finding], whole: Effort) -> bool:
    """Whether fixes together keep what each of them keeps."""
    if seen.analysis is None or now.analysis is None:
        return True
    return together(seen.analysis, now.analysis.module, done, whole)


def _better(seen: Look, now: Look, done: list[Finding]) -> bool:
    """Whether fixes removed at least as many findings as they were said to, and brought none."""
    before = seen.analysis.findings if seen.analysis else []
    after = now.analysis.findings if now.analysis else []
    return gone(before, after, done)
