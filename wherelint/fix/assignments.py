"""What variables were assigned in the statements before a place."""

from __future__ import annotations

import re
from itertools import pairwise

import libcst as cst

from wherelint.fix.syntax import SUITES, SourceNode, walk


def already_named(text: str, place: SourceNode) -> str | None:
    """The variable that an expression was assigned to in a statement before a place; None where there is none."""
    found, plain = None, _plain(text)
    path = place.path()
    for around, inner in pairwise(path):
        if isinstance(around, cst.FunctionDef):
            found = None
        if not isinstance(around, SUITES):
            continue
        for statement in around.body:
            if statement is inner:
                break
            for part in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
                if not isinstance(part, cst.Assign) or _plain(SourceNode(place.block, part.value).one_line) != plain:
                    continue
                found = next((t.target.value for t in part.targets if isinstance(t.target, cst.Name)), found)
    return found


def assigned(name: str, place: SourceNode) -> SourceNode | None:
    """The value that a variable was last given in a statement before a place, alone or as one of several."""
    found = None
    for around, inner in pairwise(place.path()):
        if isinstance(around, cst.FunctionDef):
            found = None
        for statement in around.body if isinstance(around, SUITES) else ():
            if statement is inner:
                break
            for part in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
                if not isinstance(part, (cst.Assign, cst.AnnAssign)) or part.value is None:
                    continue
                targets = [t.target for t in part.targets] if isinstance(part, cst.Assign) else [part.target]
                if any(isinstance(n, cst.Name) and n.value == name for target in targets for n in walk(target)):
                    found = SourceNode(place.block, part.value)
    return found


def _plain(text: str) -> str:
    """An expression without blanks, its whole numbers without a point."""
    return re.sub(r"(?<![\w.])(\d+)\.0*(?![\w.])", r"\1", text.replace(" ", ""))
