"""Fixes applied round by round: those that get in each other's way wait for the next, until nothing changes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from wherelint.edits import Source, compatible
from wherelint.finding import Edit, Finding, Fix
from wherelint.fix import propose
from wherelint.fix.proof import gone, key

if TYPE_CHECKING:
    from wherelint.engine import Look

_MOST_ROUNDS = 20
_BINDS = re.compile(r"^\s*(\w+) = ")


def fixpoint(
    text: str, seen: Look, look: Callable[[str], Look], *, unsafe: bool
) -> tuple[str, Look, tuple[Finding, ...]]:
    """The text after every fix that may be applied, what is seen in it, and the findings that were fixed."""
    fixed: list[Finding] = []
    hopeless: set[object] = set()
    for _ in range(_MOST_ROUNDS):
        chosen: list[tuple[Finding, Fix]] = []
        for finding in seen.shown:
            where = (key(finding), _surroundings(seen, finding))
            if where not in hopeless:
                fix = _applicable(seen, finding, unsafe=unsafe)
                if fix is None:
                    hopeless.add(where)
                elif _fits(fix, [f for _, f in chosen]):
                    chosen.append((finding, fix))
        while chosen:
            after = _edited(seen, [fix for _, fix in chosen])
            now = look(after)
            done = [finding for finding, _ in chosen]
            if _better(seen, now, done):
                text, seen = after, now
                fixed += done
                break
            chosen.pop()  # together they do what none of them does alone: one of them waits
        else:
            break
    return text, seen, tuple(fixed)


def _applicable(seen: Look, finding: Finding, *, unsafe: bool) -> Fix | None:
    assert seen.analysis is not None
    fix = propose(seen.analysis, finding)
    allowed = ("safe", "unsafe") if unsafe else ("safe",)
    return fix if fix is not None and fix.edits and fix.applicability in allowed else None


def _fits(fix: Fix, chosen: list[Fix]) -> bool:
    """Whether a fix can be applied with others: apart from edits that they share it touches none, nor their names."""
    shared = {edit for other in chosen for edit in other.edits}
    own = [edit for edit in fix.edits if edit not in shared]
    names = {m[1] for edit in shared for m in [_BINDS.match(edit.content)] if m}
    bound = {m[1] for edit in own for m in [_BINDS.match(edit.content)] if m}
    return compatible(own, list(shared)) and not names & bound


def _edited(seen: Look, fixes: list[Fix]) -> str:
    assert seen.analysis is not None
    module = seen.analysis.module
    edits: dict[Edit, None] = {edit: None for fix in fixes for edit in fix.edits}
    return Source(module.text).edited(edits)


def _better(seen: Look, now: Look, done: list[Finding]) -> bool:
    """Whether fixes removed at least as many findings as they were said to, and brought none."""
    before = seen.analysis.findings if seen.analysis else []
    after = now.analysis.findings if now.analysis else []
    return gone(before, after, done)


def _surroundings(seen: Look, finding: Finding) -> str:
    """The text of the function or class that a finding is in."""
    assert seen.analysis is not None
    module = seen.analysis.module
    block = next((b for _, b in module.blocks if b.first <= finding.location.row <= b.last), None)
    return "" if block is None else "".join(module.lines[block.first - 1 : block.last])
