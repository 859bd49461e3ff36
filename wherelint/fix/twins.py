"""Statements of one function that go wrong in the same way, fixed together: whoever reads one fix sees them all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import libcst as cst

from wherelint.finding import Edit, Finding, Fix
from wherelint.findings.analysis import Analysis
from wherelint.findings.hazards import Detection
from wherelint.fix.comparison import Comparison
from wherelint.fix.groups import BINDS, Attempt, concerned, laid_bare, places_of, proven
from wherelint.fix.masks import MANY_MASKS, masking
from wherelint.fix.proving import Proof
from wherelint.fix.spelling import condition_names, free_name
from wherelint.fix.syntax import SUITES, SourceNode, condition, operands, source_node
from wherelint.frontend.syntax import GiveUp
from wherelint.io.edits import compatible
from wherelint.ops import OPERATIONS
from wherelint.search.budget import WorkBudget

#: What statements of one shape may differ in: names, numbers and signs.
_WORDS = re.compile(r"\b(?!where\b)[^\W\d]\w*|\b\d[\d.]*|[-+]")


def has_twins(analysis: Analysis, finding: Finding, detection: Detection) -> bool:
    """Whether a statement beside that of a finding, of the same shape, goes wrong in another operand."""
    alike = [(f, made) for f, made in analysis.found if made is not None and _kind(f) == _kind(finding)]
    if len(alike) < 2 or (suite := _around(detection, *SUITES)) is None:
        return False
    own, statement = _marks(detection), _around(detection, cst.SimpleStatementLine)
    others = [made for _, made in alike if _around(made, *SUITES) is suite]
    marks = [_marks(made) for made in others if _around(made, cst.SimpleStatementLine) is not statement]
    return any("shape" in {kind for kind, _ in own & other} and own != other for other in marks)


def joined(
    analysis: Analysis,
    findings: Sequence[Finding],
    fixes: Sequence[Fix | None],
    rounds: Mapping[int, int],
    whole: WorkBudget,
) -> list[Fix | None]:
    """The fixes of some findings, each with those of its twins in it, where they are proven together.

    ``rounds``: in which of several proofs of many fixes that of a finding has been proven.
    """
    groups: list[tuple[set[Hashable], list[_Member]]] = []
    for finding, fix in zip(findings, fixes, strict=True):
        places = places_of(analysis, finding) if fix is not None and fix.edits else []
        if fix is not None and places:
            written = "".join(edit.content for edit in fix.edits)
            own = {mark for mark in _marks(places[0][1]) if mark[0] != "condition" or mark[1] in written}
            marks: set[Hashable] = {(*_kind(finding), fix.applicability, mark) for mark in own}
            known, members = next((group for group in groups if group[0] & marks), (marks, []))
            if not members:
                groups.append((known, members))
            known.update(marks)
            members.append(_Member(finding, places[0][1], fix))
    done: dict[int, Fix] = {}
    for _, members in groups:
        edits = _together(members)
        if edits is None or all(set(each.fix.edits) == set(edits) for each in members):
            continue
        at_once = len({rounds.get(id(each.finding), -number) for number, each in enumerate(members)}) == 1
        as_they_were = Counter(edit for each in members for edit in each.fix.edits) == Counter(edits)
        enough = _enough(analysis, members, edits, whole)
        edits = enough or edits
        if enough or (at_once and as_they_were) or _proven(analysis, members, edits, whole):
            rows = {each.finding.location.row for each in members}
            for finding, _, fix in members:
                done[id(finding)] = replace(fix, edits=edits, message=_and_in(fix, rows - {finding.location.row}))
    return [done.get(id(finding), fix) for finding, fix in zip(findings, fixes, strict=True)]


def _enough(
    analysis: Analysis, members: Sequence[_Member], edits: Sequence[Edit], whole: WorkBudget
) -> tuple[Edit, ...]:
    """The fix of one of several findings that is one for all, where all of them together would mask much."""
    own = sorted((each.fix.edits for each in members), key=len, reverse=True)
    much = len(masking(edits)) >= MANY_MASKS
    return own[0] if much and len(own[0]) > len(own[-1]) and _proven(analysis, members, own[0], whole) else ()


def completed(
    analysis: Analysis, findings: Sequence[Finding], fixes: Sequence[Fix | None], whole: WorkBudget
) -> list[Fix | None]:
    """The fixes of some findings; those that leave another operation singular at the witness with the fix of that."""
    offered = [(finding, fix) for finding, fix in zip(findings, fixes, strict=True) if fix is not None and fix.edits]
    own = {f"`{finding.op}` in row {finding.location.row}": (finding, fix) for finding, fix in offered}
    done: dict[int, Fix] = {}
    for finding, fix in offered:
        if fix.bare and id(finding) not in done:
            done |= {id(each): found for each, found in _completed(analysis, finding, fix, own, whole)}
    return [done.get(id(finding), fix) for finding, fix in zip(findings, fixes, strict=True)]


def _completed(
    analysis: Analysis, finding: Finding, fix: Fix, own: Mapping[str, tuple[Finding, Fix]], whole: WorkBudget
) -> list[tuple[Finding, Fix]]:
    """A fix, and those of what it leaves, as one; one of these alone, where that is enough."""
    found = [(finding, fix)]
    for _, each in found:
        others = [own[bare] for bare in each.bare if bare in own]
        found += [other for other in others if other not in found and not set(other[1].edits) <= set(fix.edits)]
    left = tuple(dict.fromkeys(bare for _, each in found for bare in each.bare if bare not in own))
    placed = [(f, places, each) for f, each in found if (places := places_of(analysis, f))]
    members = [_Member(f, places[0][1], each) for f, places, each in placed]
    if len(found) == 1 or len(members) < len(found):
        return [(finding, replace(fix, bare=left))]
    grade = max((each.fix.applicability for each in members), key=("safe", "unsafe", "display").index)
    for edits in (*(each.fix.edits for each in members[1:]), _together(members)):
        if edits is not None and _proven(analysis, members, edits, whole):
            rows = {f.location.row for f, _ in found}
            return [(f, Fix(grade, _and_in(each, rows - {f.location.row}), edits, left)) for f, each in found]
    return [(finding, fix)]


def _and_in(fix: Fix, rows: Collection[int]) -> str:
    """The message of a fix that is made in other rows, too."""
    named = ", ".join(str(row) for row in sorted(rows))
    return f"{fix.message}, and in row{'s' * (len(rows) > 1)} {named}" if rows else fix.message


def _proven(analysis: Analysis, members: Sequence[_Member], edits: Sequence[Edit], whole: WorkBudget) -> bool:
    """Whether edits that fix several findings are proven as the fix of each."""
    targets = [target for each in members for target, _ in places_of(analysis, each.finding)]
    attempts = [Attempt(f, made, *concerned(analysis, made), edits, targets) for f, made, _ in members]
    try:
        if len(proven(analysis, attempts, whole)) == len(attempts):
            return True
        proof = Proof(analysis, members[0].detection, whole)
        compared = Comparison(proof.source, edits, proof.findings)
        found = proof.of(proof.source.edited(edits), compared)
        if found is None or found.silent or found.worse:
            return False
        come = compared.come(found.after.findings, targets)
        if come != compared.come(found.after.findings) or not all(laid_bare(analysis, found.after, f) for f in come):
            return False
        doubtful = proof.doubts(found, targets, compared)
    except (GiveUp, RecursionError):
        return False
    return doubtful is not None and not (members[0].fix.applicability == "safe" and (doubtful or found.doubtful))


class _Member(NamedTuple):
    """A finding, and its own fix."""

    finding: Finding
    detection: Detection
    fix: Fix


def _kind(finding: Finding) -> tuple[Hashable, ...]:
    return finding.function, finding.op, finding.select.kind


def _marks(detection: Detection) -> set[tuple[str, str]]:
    """What twins share one of: an operand, a condition, or the shape of the statement."""
    op, test = source_node(detection.hazard.op), condition(detection.hazard.select)
    if op is None:
        return set()
    safe = OPERATIONS[detection.hazard.op.op].safe
    given = operands(op, len(detection.hazard.op.inputs))
    marks = {("operand", p.one_line) for p, v in zip(given, safe, strict=False) if v is not None}
    statement = _around(detection, cst.SimpleStatementLine)
    if statement is not None:
        marks.add(("shape", _WORDS.sub("_", SourceNode(op.block, statement).one_line)))
    return marks if test is None else {*marks, ("condition", test.one_line)}


def _around(detection: Detection, *kinds: type[cst.CSTNode]) -> cst.CSTNode | None:
    """The innermost node of some kinds in which an operation stands."""
    place = source_node(detection.hazard.op)
    path = place.path()[::-1] if place is not None else []
    return next((n for n in path if isinstance(n, kinds)), None)


def _together(members: Sequence[_Member]) -> tuple[Edit, ...] | None:
    """The edits of several fixes as one, each name bound once; None where they get in each other's way."""
    edits: list[Edit] = []
    bound: set[tuple[int, str]] = set()
    ordered = sorted(members, key=lambda each: min(edit.location for edit in each.fix.edits))
    apart = _named_apart([(each.detection, list(each.fix.edits)) for each in ordered])
    for made, fixed in _named_apart(apart):  # what asks a name that is another now has another name, too
        own = []
        for edit in fixed:
            kept = [row for row in _rows(edit) if not _names(row) or (_suite(made), row) not in bound]
            bound |= {(_suite(made), row) for row in _rows(edit)}
            own += [replace(edit, content="".join(kept))] if kept or not edit.content else []
        for edit in [edit for edit in own if edit not in edits]:
            at = next((i for i, each in enumerate(edits) if _at_one_spot(each, edit)), None)
            if at is not None:
                edits[at] = replace(edits[at], content=edits[at].content + edit.content)
            elif compatible([edit], edits):
                edits.append(edit)
            else:
                return None
    return tuple(edits)


def _at_one_spot(edit: Edit, other: Edit) -> bool:
    """Whether two edits bind names in rows of their own, before the same row."""
    spots = {edit.location, edit.end_location, other.location, other.end_location}
    return len(spots) == 1 and all(_names(each.content) and each.location.column == 1 for each in (edit, other))


def _named_apart(members: Sequence[tuple[Detection, list[Edit]]]) -> list[tuple[Detection, list[Edit]]]:
    """The edits of each of several fixes, with names that say of what each condition is where two have one name."""
    meant: dict[tuple[int, str], set[str]] = {}
    for made, edits in members:
        for row in [row for edit in edits for row in _rows(edit)]:
            for name in _names(row):
                meant.setdefault((_scope(made), name), set()).add(row)
    called: dict[tuple[int, str], str] = {}
    done = []
    for made, edits in members:
        place = source_node(made.hazard.op)
        for row in [row for edit in edits for row in _rows(edit)]:
            name, _, value = row.strip().partition(" = ")
            if place is None or len(meant.get((_scope(made), name), ())) <= 1 or free_name(place, name) != name:
                continue  # the same for both, or a name that the author has given
            if (_scope(made), row) not in called:
                numbered = (f"{name}_{number}" for number in range(2, len(called) + 3))
                others = (*condition_names(value, twins=True), *_of_target(made, name), name, *numbered)
                free = (each for each in others if each not in called.values() and free_name(place, each) == each)
                called[_scope(made), row] = next(free)
            pattern, new = re.compile(rf"\b{name}\b"), called[_scope(made), row]
            edits = [replace(edit, content=pattern.sub(new, edit.content)) for edit in edits]
        done.append((made, edits))
    return done


def _of_target(made: Detection, name: str) -> list[str]:
    """What a variable may be called that is for the statement of an operation: by what that gives a value."""
    statement = _around(made, cst.Assign)
    targets = [target.target for target in statement.targets] if isinstance(statement, cst.Assign) else []
    names = [target.value for target in targets if isinstance(target, cst.Name)]
    return [f"{target}_{name}" for target in names if not name.startswith(target)]


def _suite(made: Detection) -> int:
    return id(_around(made, *SUITES))


def _scope(made: Detection) -> int:
    return id(_around(made, cst.FunctionDef))


def _names(text: str) -> list[str]:
    return BINDS.findall(text)


def _rows(edit: Edit) -> list[str]:
    """The rows of an edit that binds a name in each; its whole content where it does something else."""
    rows = edit.content.splitlines(keepends=True)
    return rows if len(rows) == len(_names(edit.content)) else [edit.content]
