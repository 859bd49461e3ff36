"""What variables were assigned in the statements before a place."""

from __future__ import annotations

import re
from itertools import pairwise

import libcst as cst

from wherelint.fix.syntax import SUITES, SourceNode, walk


def already_named(text: str, place: SourceNode) -> str | None:
    """The variable that an expression was assigned to in a statement before a place; None where there is none."""
    found, plain = None, _plain(text)
    for part in _before(place):
        if isinstance(part, cst.Assign) and _plain(SourceNode(place.block, part.value).one_line) == plain:
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


def _plain(text: str) -> str:
    """An expression without blanks, its whole numbers without a point."""
    return re.sub(r"(?<![\w.])(\d+)\.0*(?![\w.])", r"\1", text.replace(" ", ""))
