"""What variables were assigned in the statements before a place."""

from __future__ import annotations

import re
from itertools import pairwise

import libcst as cst

from wherelint.finding import Edit, Location
from wherelint.fix.syntax import SUITES, SourceNode, Spot, spot_before, walk
from wherelint.io.edits import Region


def already_named(text: str, place: SourceNode) -> str | None:
    """The variable that an expression was assigned to in a statement before a place; None where there is none."""
    found, wanted = None, plain(text)
    for part in _before(place):
        if isinstance(part, cst.Assign) and plain(SourceNode(place.block, part.value).one_line) == wanted:
            found = next((t.target.value for t in part.targets if isinstance(t.target, cst.Name)), found)
    return found


def assigned(name: str, place: SourceNode) -> SourceNode | None:
    """The value that a variable was last given in a statement before a place, alone or as one of several."""
    found = None
    for part in _before(place):
        targets = [t.target for t in part.targets] if isinstance(part, cst.Assign) else [part.target]
        named = any(isinstance(n, cst.Name) and n.value == name for target in targets for n in walk(target))
        if named and part.value is not None:
            found = SourceNode(place.block, part.value)
    return found


def moved(later: SourceNode, spot: Spot) -> tuple[str, list[Edit]] | None:
    """The name that an assignment binds, and the edits that move it to an earlier spot; None where it cannot move."""
    node, own, kind = later.node, spot_before(later), ""
    if isinstance(node, cst.AnnAssign):
        target, kind = node.target, f": {later.block.concrete.code(node.annotation.annotation)}"
    elif isinstance(node, cst.Assign) and len(node.targets) == 1:
        target = node.targets[0].target
    else:
        return None
    if not isinstance(target, cst.Name) or own is None or own.indent != spot.indent or own.location <= spot.location:
        return None
    between = later.source.between(spot.location, own.location)
    rows = later.source.lines[own.location.row - 1 : later.region[1].row]
    alone = "".join(rows).strip() == later.text
    if not alone or re.search(rf"\b{target.value}\b", between):
        return None
    gone = without_rows(later.region)
    value = "" if node.value is None else SourceNode(later.block, node.value).one_line
    return target.value, [spot.line(target.value + kind, value), gone]


def next_value(place: SourceNode) -> tuple[str, SourceNode, cst.SimpleStatementLine] | None:
    """The variable whose value an expression is, the one that the next row gives it, and that row, if it does."""
    for suite, line in pairwise(place.path()):
        if isinstance(suite, SUITES) and isinstance(line, cst.SimpleStatementLine):
            below = next((b for a, b in pairwise(suite.body) if a is line), None)
            first, second = _alone(line), _alone(below)
            if first is None or second is None or first[0] != second[0] or first[1] is not place.node:
                return None
            assert isinstance(below, cst.SimpleStatementLine)
            return first[0], SourceNode(place.block, second[1]), below
    return None


def _alone(row: cst.CSTNode | None) -> tuple[str, cst.BaseExpression] | None:
    """The variable that a row gives a value to and does nothing else, and the value."""
    part = row.body[0] if isinstance(row, cst.SimpleStatementLine) and len(row.body) == 1 else None
    target = part.targets[0].target if isinstance(part, cst.Assign) and len(part.targets) == 1 else None
    return (target.value, part.value) if isinstance(part, cst.Assign) and isinstance(target, cst.Name) else None


def without_rows(region: Region) -> Edit:
    """An edit that takes away a statement that stands alone on its rows."""
    start, end = region
    return Edit("", Location(start.row, 1), Location(end.row + 1, 1))


def _before(place: SourceNode) -> list[cst.Assign | cst.AnnAssign]:
    """The assignments in the statements before a place, within its function."""
    found: list[cst.Assign | cst.AnnAssign] = []
    for around, inner in pairwise(place.path()):
        if isinstance(around, cst.FunctionDef):
            found.clear()
        for statement in around.body if isinstance(around, SUITES) else ():
            if statement is inner:
                break
            parts = statement.body if isinstance(statement, cst.SimpleStatementLine) else ()
            found += [part for part in parts if isinstance(part, (cst.Assign, cst.AnnAssign))]
    return found


def plain(text: str) -> str:
    """An expression without blanks, its whole numbers without a point."""
    return re.sub(r"(?<![\w.])(\d+)\.0*(?![\w.])", r"\1", text.replace(" ", ""))
