"""A fix on lines that fit: on one line, or broken at its brackets. The formatter of the project does the rest."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from wherelint.finding import Edit, Fix, Location
from wherelint.fix.messages import COMMENT, comment
from wherelint.io.edits import Source

_OPENING, _CLOSING = "([{", ")]}"
_STEP = " " * 4


def laid_out(text: str, fix: Fix, width: int) -> Fix:
    """A fix whose lines are no longer than a width, where that can be had."""
    source = Source(text)
    after = source.edited(fix.edits)
    broken = wrapped(text, after, width)
    return fix if broken == after else replace(fix, edits=source.difference(broken))


def commented(text: str, fix: Fix, op: str) -> Fix:
    """A fix with a line above the first statement that it changes, which says why."""
    row = min(edit.location.row for edit in fix.edits)
    start = max((n.lineno for n in _statements(text) if n.lineno <= row <= (n.end_lineno or 0)), default=0)
    lines = Source(text).lines
    if start == 0 or (start > 1 and lines[start - 2].strip().startswith(COMMENT)):
        return fix
    line, at = lines[start - 1], Location(start, 1)
    indent, ending = _around(line)
    above = f"{indent}{comment(op)}{ending}"
    first = next((edit for edit in fix.edits if edit.location == edit.end_location == at), Edit("", at, at))
    rest = tuple(edit for edit in fix.edits if edit is not first)
    return replace(fix, edits=(replace(first, content=above + first.content), *rest))


def wrapped(before: str, after: str, width: int) -> str:
    """A changed text with those of its new lines broken that are longer than a width; the program is the same."""
    known = set(Source(before).lines)
    lines = Source(after).lines
    long = {row for row, line in enumerate(lines, 1) if len(line.rstrip()) > width and line not in known}
    for node in sorted(_statements(after) if long else (), key=lambda node: -node.lineno):
        first, last = node.lineno, node.end_lineno or node.lineno
        if hasattr(node, "body") or isinstance(node, ast.Match) or long.isdisjoint(range(first, last + 1)):
            continue
        old = lines[first - 1 : last]
        rows = [new for row, line in enumerate(old, first) for new in (_broken(line, width) if row in long else [line])]
        if not _alike(old, rows):
            whole = _broken(flat("".join(old)), width, *_around(old[0]))
            rows = whole if "#" not in "".join(old) and _alike(old, whole) else old
        lines[first - 1 : last] = rows
    return "".join(lines)[:-1]  # the last newline is one that only the list has


def flat(text: str) -> str:
    """An expression, or a statement, on one line, without comments."""
    if "\n" not in text.strip():
        return text.strip()
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(f"({text.strip()}\n)").readline))
    except (tokenize.TokenError, SyntaxError):
        return " ".join(text.split())
    tokens = [t for t in tokens if t.string.strip() and t.type != tokenize.COMMENT][1:-1]
    parts = [tokens[0].string]
    for last, token in pairwise(tokens):
        broken = last.end[0] != token.start[0]
        apart = (
            last.string not in _OPENING and token.string not in (*_CLOSING, ".") if broken else last.end != token.start
        )
        if token.string in _CLOSING and last.string == "," and broken and parts.count(",") > 1:
            parts.pop()
        parts.append(" " * apart + token.string)
    return "".join(parts)


def _statements(text: str) -> list[ast.stmt]:
    try:
        return [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.stmt)]
    except (SyntaxError, ValueError, RecursionError):  # the cells of a notebook
        return []


def _around(line: str) -> tuple[str, str]:
    """The blanks before a line, and its end."""
    return line[: len(line) - len(line.lstrip())], line[len(line.rstrip("\r\n")) :]


def _alike(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether the lines of a statement are those of the same program."""
    try:
        return ast.dump(ast.parse("".join(old).strip())) == ast.dump(ast.parse("".join(new).strip()))
    except SyntaxError:  # `return` outside of a function is one to no parser
        return False


def _broken(text: str, width: int, indent: str | None = None, ending: str = "") -> list[str]:
    """The lines of a row, opened at its last brackets before which it fits; the row where there are none."""
    if indent is None:
        indent, ending = _around(text)
    return [f"{line}{ending}" for line in _opened(text.strip(), indent, width)] if "#" not in text else [text]


def _opened(text: str, indent: str, width: int) -> Iterator[str]:
    groups, commas = _brackets(text)
    fitting = [group for group in groups if len(indent) + group[0] < width]
    if len(indent + text) <= width or not groups:
        yield indent + text
        return
    start, stop = (fitting or groups)[-1 if fitting else 0]
    yield indent + text[: start + 1]
    inner = text[start + 1 : stop].strip()
    places = [at for at in commas if start < at < stop]
    if len(indent + _STEP + inner) <= width or not places or " for " in inner:
        yield from _opened(inner, indent + _STEP, width)
    else:
        for a, b in zip([start, *places], [*places, stop], strict=True):
            if item := text[a + 1 : b].strip():
                yield from _opened(f"{item},", indent + _STEP, width)
    yield indent + text[stop:]


def _brackets(text: str) -> tuple[list[tuple[int, int]], list[int]]:
    """Where the outer brackets of a text that hold something begin and end, and where commas stand right in them."""
    groups: list[tuple[int, int]] = []
    commas: list[int] = []
    stack: list[int] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            at = token.start[1]
            if token.type != tokenize.OP:
                continue
            if token.string in _OPENING:
                stack.append(at)
            elif token.string in _CLOSING:
                start = stack.pop()
                groups += [(start, at)] if not stack and text[start + 1 : at].strip() else []
            elif token.string == "," and len(stack) == 1:
                commas.append(at)
    except (tokenize.TokenError, SyntaxError, IndexError):
        return [], []
    return groups, commas
