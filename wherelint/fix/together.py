"""Fixes that are made at once: those that need each other, and those of one function that were proven one by one."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count

from wherelint.finding import Edit, Finding, Fix
from wherelint.findings.analysis import Analysis
from wherelint.findings.hazards import Detection
from wherelint.fix.messages import made_with
from wherelint.fix.scope import BINDS, Function, concerned, places_of
from wherelint.fix.verify.proof import Proof
from wherelint.frontend.module import Module
from wherelint.io.edits import compatible
from wherelint.search.budget import WorkBudget

_GRADES = ("safe", "unsafe", "display")

Fixed = tuple[Finding, Fix]


def named(finding: Finding) -> str:
    """An operation as the fix of another finding refers to it."""
    return f"`{finding.op}` at {finding.location.row}:{finding.location.column}"


def completed(
    analysis: Analysis,
    findings: Sequence[Finding],
    propose: Callable[[Finding], Fix | None],
    wanted: Callable[[Finding], bool],
    whole: WorkBudget,
) -> list[Fix | None]:
    """The fixes of some findings, each with those that the gradient at its witness needs as well.

    Where these cannot be made together, or one of them is not known or ``wanted``, the fix is not safe.
    """
    fixes = [finding.fix or propose(finding) for finding in findings]
    offered = {named(f): (f, fix) for f, fix in zip(findings, fixes, strict=True) if fix is not None and fix.edits}
    needed = {name for _, fix in offered.values() for name in fix.remaining} - offered.keys()
    for other in [f for f in analysis.findings if named(f) in needed and f not in findings and wanted(f)]:
        if (fix := propose(other)) is not None and fix.edits:
            offered[named(other)] = other, fix
    joint: dict[int, Fix] = {}
    tried: dict[frozenset[str], Fix | None] = {}
    for finding, fix in offered.values():
        if fix.remaining and id(finding) not in joint:
            group = _needed(finding, fix, offered)
            names = frozenset(named(f) for f, _ in group)
            if names not in tried:
                missing = any(name not in offered for _, each in group for name in each.remaining)
                tried[names] = None if missing else _made(analysis, group, whole)
            made = tried[names]
            rows = sorted({f.location.row for f, _ in group})
            for f, each in group if made is not None else [(finding, fix)]:
                if made is None:
                    joint[id(f)] = replace(each, applicability=max("unsafe", each.applicability, key=_GRADES.index))
                elif each.remaining:
                    message = made_with(each.message, [row for row in rows if row != f.location.row])
                    joint[id(f)] = replace(made, message=message)
    return [joint.get(id(finding), fix) for finding, fix in zip(findings, fixes, strict=True)]


def _needed(finding: Finding, fix: Fix, offered: Mapping[str, Fixed]) -> list[Fixed]:
    """A fix and all that it needs, directly or not."""
    found = {named(finding): (finding, fix)}
    waiting = [fix]
    while waiting:
        names = [name for name in waiting.pop().remaining if name in offered and name not in found]
        found |= {name: offered[name] for name in names}
        waiting += [offered[name][1] for name in names]
    return [*found.values()]


def _made(analysis: Analysis, group: Sequence[Fixed], whole: WorkBudget) -> Fix | None:
    """Some fixes as one, proven to leave every gradient finite at its witness; None where that cannot be."""
    detections = [detection for f, _ in group for _, detection in places_of(analysis, f)[:1]]
    proof = Proof(analysis, detections, whole)
    grade = max((fix.applicability for _, fix in group), key=_GRADES.index)
    edits = _union(analysis.module, [fix.edits for _, fix in group])
    try:
        after = analysis.module.project.revised(analysis.module.source.edited(edits or ()))
    except (SyntaxError, ValueError, RecursionError):
        return None
    found = proof.everywhere(after) if edits else None
    if not edits or found is None or any(each.remains for each in found):
        return None
    doubtful = grade == "safe" and any(each.doubtful for each in found)
    return Fix("unsafe" if doubtful else grade, "", edits)


def _union(module: Module, each: Iterable[Sequence[Edit]]) -> tuple[Edit, ...] | None:
    """The edits of several fixes, each name bound once; None where they overlap.

    One whose places others change already is left out: the same operation may have several fixes.
    """
    edits: list[Edit] = []
    bound: dict[str, str] = {}
    for own in sorted(each, key=len, reverse=True):
        taken = {(edit.location, edit.end_location) for edit in edits}
        places = {(edit.location, edit.end_location) for edit in own if not _inserted(edit)}
        if places and places <= taken:
            continue
        for edit in _renamed(module.text, own, bound):
            at = next((i for i, other in enumerate(edits) if edit.location == other.location), None)
            if at is not None and _inserted(edit) and _inserted(edits[at]):
                rows = [row for row in edit.content.splitlines(keepends=True) if row not in edits[at].content]
                edits[at] = replace(edits[at], content=edits[at].content + "".join(rows))
            elif edit in edits:
                continue
            elif compatible([edit], edits):
                edits.append(edit)
            else:
                return None
    edits = [replace(edit, content=_unbound(module, edit, edits)) if _inserted(edit) else edit for edit in edits]
    return tuple(edit for edit in edits if edit.content or not _inserted(edit))


def _unbound(module: Module, edit: Edit, others: Sequence[Edit]) -> str:
    """The rows of an edit that no other one binds before it in the same block."""
    rows = edit.content.splitlines(keepends=True)
    if not BINDS.match(edit.content):
        return edit.content
    indent = len(rows[0]) - len(rows[0].lstrip())
    for other in (each for each in others if _inserted(each) and each.location < edit.location):
        between = module.lines[other.location.row - 1 : edit.location.row - 1]
        if all(len(line) - len(line.lstrip()) >= indent for line in between if line.strip()):
            rows = [row for row in rows if row not in other.content.splitlines(keepends=True)]
    return "".join(rows)


def _renamed(text: str, edits: Sequence[Edit], bound: dict[str, str]) -> list[Edit]:
    """The edits of a fix without the rows that others bind already, with other names for what is bound to other values.

    ``bound``: the row that binds each name; it is added to.
    """
    for name in dict.fromkeys(name for edit in edits for name in BINDS.findall(edit.content)):
        row = next(row for edit in edits for row in edit.content.splitlines(keepends=True) if _binds(row, name))
        if bound.setdefault(name, row) != row:
            names = (f"{name}_{i}" for i in count(2))
            new = next(n for n in names if bound.get(n) == _with(row, name, n) or not (n in bound or n in text))
            edits = [replace(edit, content=_with(edit.content, name, new)) for edit in edits]
            bound[new] = _with(row, name, new)
    return list(edits)


def _with(content: str, name: str, new: str) -> str:
    return re.sub(rf"\b{name}\b", new, content)


def _binds(row: str, name: str) -> bool:
    return row.lstrip().startswith(f"{name} = ")


def _inserted(edit: Edit) -> bool:
    return edit.location == edit.end_location and edit.location.column == 1


def changed_behavior(
    analysis: Analysis, after: Module, done: list[Finding], whole: WorkBudget, *, sure: bool
) -> list[Finding]:
    """The fixes that do not compute the same any more when ``after`` has all of them.

    ``sure``: each alone is safe, and so they have to be: of two nans that meet, one stays as long as the other does.
    Those that share no function need no other proof.
    """
    made = [(finding, detection) for finding in done for _, detection in places_of(analysis, finding)[:1]]
    sharing: dict[Function, list[tuple[Finding, Detection]]] = {}
    for finding, detection in made:
        for name in concerned(analysis, detection)[0]:
            sharing.setdefault(name, []).append((finding, detection))
    changed: list[Finding] = []
    for name, group in sharing.items():
        if len(group) > 1:
            found = Proof(analysis, [detection for _, detection in group], whole).everywhere(after, [name])
            if found is None or (sure and any(each.doubtful for each in found)):
                changed += [finding for finding, _ in group]
    return changed
