"""Statements of a function around a fix, as functions of what they read: where the whole of it cannot be executed."""

from __future__ import annotations

import ast
import difflib
import itertools
from collections.abc import Iterator

Two = tuple[str, str]


def changed_rows(before: str, after: str) -> set[int]:
    """The rows of the statements of the first text that the second one does not have."""
    a, b = before.splitlines(), after.splitlines()
    rows: set[int] = set()
    for kind, a0, a1, _, _ in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if kind != "equal":
            rows |= set(range(a0 + 1, max(a1, a0 + 1) + 1))
    for node in ast.walk(ast.parse(before)):
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            own = set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
            rows |= own if rows & own else set()
    return rows


def slices(texts: Two, rows: tuple[set[int], set[int]]) -> Iterator[tuple[Two, str, str]]:
    """Both texts with such a function at the end, its name, and which rows it has; the longest first."""
    functions = [_innermost(text, own) for text, own in zip(texts, rows, strict=True)]
    if functions[0] is None or functions[1] is None:
        return
    local = {n.id for n in ast.walk(functions[0]) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    local |= {n.arg for n in ast.walk(functions[0]) if isinstance(n, ast.arg)}
    levels = [(functions[0].body, functions[1].body)]
    while (inner := _inside(*levels[-1])) is not None:
        levels.append(inner)
    for before, after in levels:
        first, last = _parted(before, after)
        for start, end in itertools.product(
            sorted({0, first // 2, max(first - 1, 0), first}), sorted({0, last // 2, last})
        ):
            bodies = [body[start : len(body) - end] for body in (before, after)]
            # What only the fixed one reads, a mask say, would be made up as anything.
            if bodies[0] and set(_free(bodies[1])) & local <= set(_free(bodies[0])):
                made = _sliced(bodies, local)
                yield made, "sliced", f"rows {bodies[0][0].lineno} to {bodies[0][-1].end_lineno}: "


def _innermost(text: str, rows: set[int]) -> ast.FunctionDef | None:
    every = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)]
    holding = [n for n in every if n.lineno <= min(rows) and max(rows) <= (n.end_lineno or 0)]
    return max(holding, key=lambda n: n.lineno, default=None)


def _parted(before: list[ast.stmt], after: list[ast.stmt]) -> tuple[int, int]:
    """How many statements at the start and at the end are the same."""
    a, b = [ast.dump(s) for s in before], [ast.dump(s) for s in after]
    shorter = min(len(a), len(b))
    first = next((i for i in range(shorter) if a[i] != b[i]), shorter)
    last = next((i for i in range(shorter - first) if a[-1 - i] != b[-1 - i]), shorter - first)
    return first, last


def _inside(before: list[ast.stmt], after: list[ast.stmt]) -> tuple[list[ast.stmt], list[ast.stmt]] | None:
    """The bodies of the one compound statement that differs."""
    first, last = _parted(before, after)
    if len(before) != len(after) or len(before) - first - last != 1:
        return None
    for field in ("body", "orelse"):
        one, other = getattr(before[first], field, None), getattr(after[first], field, None)
        if one and other and [ast.dump(s) for s in one] != [ast.dump(s) for s in other]:
            return one, other
    return None


def _sliced(bodies: list[list[ast.stmt]], local: set[str]) -> Two:
    """Functions of the names that are read and may be local, giving what is returned or else assigned."""
    free = sorted(set(_free(bodies[0])) & local)
    stored = dict.fromkeys(n.id for s in bodies[0] for n in _names(s) if isinstance(n.ctx, ast.Store))
    texts = []
    for body in bodies:
        written = "\n".join(ast.unparse(s) for s in body) + f"\nreturn ({''.join(f'{name}, ' for name in stored)})"
        texts.append(f"def sliced({', '.join(free)}):\n" + "\n".join(f"    {line}" for line in written.splitlines()))
    return texts[0], texts[1]


def _names(statement: ast.stmt) -> list[ast.Name]:
    inner = {n for f in ast.walk(statement) if isinstance(f, (ast.Lambda, ast.FunctionDef)) for n in ast.walk(f)}
    inner |= {n for f in ast.walk(statement) if isinstance(f, ast.comprehension) for n in ast.walk(f.target)}
    return [n for n in ast.walk(statement) if isinstance(n, ast.Name) and n not in inner]


def _free(body: list[ast.stmt]) -> Iterator[str]:
    """The names that statements read before they assign them."""
    stored: set[str] = set()
    for statement in body:
        here = [n for n in ast.walk(statement) if isinstance(n, ast.Name)]
        read = {n.id for n in here if isinstance(n.ctx, ast.Load)}
        if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            read.add(statement.target.id)
        yield from read - stored
        stored |= {n.id for n in _names(statement) if isinstance(n.ctx, ast.Store)}
