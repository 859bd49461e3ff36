"""What to write where no fix could be proven: the double where in the names of the file, for the reader to check."""

import ast
from contextlib import suppress

from wherelint.finding import Finding, Location
from wherelint.io.edits import Source

#: A longer condition is called ``mask``.
_LONG = 50
#: Operations that are regular at 0; the others are at 1.
_AT_ZERO = frozenset("arccos arcsin arctanh exp exp2 expm1 cosh sinh".split())


def advice(finding: Finding, text: str) -> str | None:
    """The operation of a finding with its operand masked, in a sentence; None where its arm is not plain to see."""
    if finding.select.kind != "where" or finding.elsewhere or finding.cells:
        return None
    source = Source(text)
    if finding.end_location.row > len(source.lines) or finding.select.end_location.row > len(source.lines):
        return None
    with suppress(SyntaxError, ValueError, RecursionError, AssertionError):  # no expression; no place in this text
        select = _expression(source, finding.select.location, finding.select.end_location)
        operation = _expression(source, finding.location, finding.end_location)
        if not isinstance(select, ast.Call) or len(select.args) < 3:
            return None
        condition, *arms = select.args
        arm = _arm(arms, operation, _variable(text, finding))
        if arm is None:
            return None
        told, is_long = ast.unparse(condition), len(ast.unparse(condition)) > _LONG
        masked = _masked(operation, ast.unparse(select.func), "mask" if is_long else told, arm, finding.op)
        where = f", where `mask` is `{told[:_LONG]}...`" if is_long else ""
        return masked and f"mask the operand too: `{masked}`{where}"
    return None


def _expression(source: Source, start: Location, end: Location) -> ast.expr:
    text = source.text[source.offset(start) : source.offset(end)]
    return ast.parse(f"({text}\n)", mode="eval").body


def _variable(text: str, finding: Finding) -> str:
    """The variable that the operation is assigned to, in its row; empty if it is a part of something else."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign) and node.lineno == finding.location.row:
            return node.targets[0].id if isinstance(node.targets[0], ast.Name) else ""
    return ""


def _arm(arms: list[ast.expr], operation: ast.expr, variable: str) -> int | None:
    """Which arm reads an operation: as it stands there, or by the variable that it is assigned to."""
    whole = ast.dump(operation)
    for each, arm in enumerate(arms[:2]):
        for node in ast.walk(arm):
            if (isinstance(node, ast.Name) and node.id == variable) or ast.dump(node) == whole:
                return each
    return None


def _masked(operation: ast.expr, where: str, mask: str, arm: int, name: str) -> str | None:
    """An operation whose operand is a harmless number wherever its arm is not selected."""

    def safe(operand: ast.expr) -> ast.expr:
        number = ast.Constant(0.0 if name in _AT_ZERO else 1.0)
        arms = (operand, number) if arm == 0 else (number, operand)
        return ast.Call(ast.Name(where), [ast.Name(mask), *arms], [])

    if isinstance(operation, ast.BinOp) and isinstance(operation.op, ast.Pow):
        operation.left = safe(operation.left)
    elif isinstance(operation, ast.BinOp) and isinstance(operation.op, (ast.Div, ast.Mod)):
        operation.right = safe(operation.right)
    elif isinstance(operation, ast.Call) and operation.args and not isinstance(operation.args[0], ast.Starred):
        operation.args[0] = safe(operation.args[0])
    else:
        return None
    return ast.unparse(operation)
