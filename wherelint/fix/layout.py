"""Lines that a fix made too long, broken as Black breaks them; the program stays the same, token for token."""

from __future__ import annotations

import ast
import io
import keyword
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from wherelint.finding import Edit, Fix, Location
from wherelint.io.edits import Source

_OPENING, _CLOSING = "([{", ")]}"
_STEP = " " * 4
#: Where a line may be broken, before an operator: the greater number first.
_BREAKS = {
    "for": 20, ",": 18, "if": 16, "else": 16, "or": 14, "and": 14, "in": 10, "not": 10, "is": 10, "<": 10, ">": 10,
    "==": 10, "!=": 10, "<=": 10, ">=": 10, "|": 9, "^": 8, "&": 7, "<<": 6, ">>": 6, "+": 5, "-": 5, "*": 4, "/": 4,
    "//": 4, "%": 4, "@": 4,
}  # fmt: skip
_WHY = "# Keep nan out of the gradient of"
_OPERANDS = (tokenize.NAME, tokenize.NUMBER, tokenize.STRING)


def laid_out(text: str, fix: Fix, width: int) -> Fix:
    """A fix whose lines are no longer than a width, where that can be had."""
    if not fix.edits:
        return fix
    source = Source(text)
    after = source.edited(fix.edits)
    broken = wrapped(text, after, width)
    return fix if broken == after else replace(fix, edits=source.difference(broken))


def commented(text: str, fix: Fix, op: str) -> Fix:
    """A fix with a line above the first statement that it changes, which says why."""
    row = min(edit.location.row for edit in fix.edits)
    try:
        statements = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.stmt)]
    except (SyntaxError, ValueError, RecursionError):  # the cells of a notebook
        return fix
    start = max((n.lineno for n in statements if n.lineno <= row <= (n.end_lineno or 0)), default=0)
    lines = Source(text).lines
    if start == 0 or (start > 1 and lines[start - 2].strip().startswith(_WHY)):
        return fix
    line, at = lines[start - 1], Location(start, 1)
    ending = line[len(line.rstrip("\r\n")) :]
    comment = f"{line[: len(line) - len(line.lstrip())]}{_WHY} `{op}` where it is not selected.{ending}"
    first = next((edit for edit in fix.edits if edit.location == edit.end_location == at), Edit("", at, at))
    rest = tuple(edit for edit in fix.edits if edit is not first)
    return replace(fix, edits=(replace(first, content=comment + first.content), *rest))


def wrapped(before: str, after: str, width: int) -> str:
    """A changed text with those of its new lines broken that are longer than a width."""
    known = set(Source(before).lines)
    lines = Source(after).lines
    long = {row for row, line in enumerate(lines, 1) if len(line.rstrip()) > width and line not in known}
    if not long:
        return after
    try:
        statements = [node for node in ast.walk(ast.parse(after)) if isinstance(node, ast.stmt)]
    except (SyntaxError, ValueError, RecursionError):  # the cells of a notebook
        return after
    for node in sorted(statements, key=lambda node: -node.lineno):
        first, last = node.lineno, node.end_lineno or node.lineno
        if hasattr(node, "body") or isinstance(node, ast.Match) or long.isdisjoint(range(first, last + 1)):
            continue
        old = lines[first - 1 : last]
        alone = [_row(line, width) if row in long else [line] for row, line in enumerate(old, first)]
        rows = [line for part in alone for line in part or ()]
        if first in long or None in alone or not _alike("".join(old), "".join(rows)):
            rows = _statement("".join(old), width) or old
        lines[first - 1 : last] = rows
    return "".join(lines)[:-1]  # the last newline is one that only the list has


def flat(text: str) -> str:
    """An expression on one line, without comments."""
    if "\n" not in text:
        return text
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(f"({text}\n)").readline))
    except (tokenize.TokenError, SyntaxError):
        return " ".join(text.split())
    return _tree([t for t in tokens if t.string.strip() and t.type != tokenize.COMMENT])[0].flat[1:-1]


def _row(line: str, width: int) -> list[str] | None:
    """The lines of a row inside of brackets, broken anew; None where it does not hold whole items, or comments."""
    indent, ending = _around(line)
    text = line.strip()
    comma = text[-1:] == ","
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(f"({text[:-1] if comma else text}\n)").readline))
    except (tokenize.TokenError, SyntaxError):
        return None
    depths = [*accumulate((t.string in _OPENING) - (t.string in _CLOSING) for t in tokens if t.type == tokenize.OP)]
    if 0 in depths[:-1] or any(t.type == tokenize.COMMENT for t in tokens):
        return None
    (group,) = (i.content for i in _tree([t for t in tokens if t.string.strip()]))
    assert isinstance(group, _Group)
    lines = [*_inside(group.items, indent, width - comma)]
    lines[-1] += "," * (comma and not lines[-1].endswith(","))
    return [f"{new}{ending}" for new in lines]


def _around(text: str) -> tuple[str, str]:
    """The blanks before a text, and the end of its lines."""
    return text[: len(text) - len(text.lstrip(" \t"))], "\r\n" if text.endswith("\r\n") else "\n"


def _alike(old: str, new: str) -> bool:
    """Whether two texts are the same program."""
    try:
        return ast.dump(ast.parse(old.strip())) == ast.dump(ast.parse(new.strip()))
    except SyntaxError:  # `return` outside of a function is one to no parser
        return False


def _statement(text: str, width: int) -> list[str] | None:
    """The lines of a statement, broken anew; None where that cannot be done, or comments stand inside."""
    indent, ending = _around(text)
    try:
        tokens = [t for t in tokenize.generate_tokens(io.StringIO(text.lstrip(" \t")).readline) if t.string.strip()]
    except (tokenize.TokenError, SyntaxError):
        return None
    comment = f"  {tokens.pop().string}" if tokens and tokens[-1].type == tokenize.COMMENT else ""
    whole = [t.string for t in tokens]
    if ";" in whole or any(t.type == tokenize.COMMENT or "\n" in t.string for t in tokens):
        return None
    lines = list(_broken(_tree(tokens), indent, width))
    lines[-1] += comment
    made = [f"{line}{ending}" for line in lines]
    return made if _alike(text, "".join(made)) else None


@dataclass
class _Group:
    """Brackets and what is in them."""

    opening: str
    items: list[_Item]
    closing: str = ""
    #: Whether the author broke it with a comma at its end, by which formatters keep it so.
    kept: bool = False

    @property
    def flat(self) -> str:
        return f"{self.opening}{_flat(self.items)}{self.closing}"


@dataclass
class _Item:
    """A token, or brackets, with the blank before it."""

    blank: str
    content: str | _Group
    #: Whether it ends an operand, so that what follows is no sign but an operator.
    operand: bool

    @property
    def flat(self) -> str:
        return self.content if isinstance(self.content, str) else self.content.flat


def _tree(tokens: Sequence[tokenize.TokenInfo]) -> list[_Item]:
    stack = [_Group("", [])]
    for last, token in zip([None, *tokens], tokens, strict=False):
        text = token.string
        apart = last is not None and last.string not in _OPENING and text not in _CLOSING
        broken = last is not None and last.end[0] != token.start[0]
        blank = " " if apart and (text != "." if broken else last.end != token.start) else ""  # type: ignore[union-attr]
        group = stack[-1]
        if text in _OPENING:
            stack.append(_Group(text, []))
            group.items.append(_Item(blank, stack[-1], operand=True))
        elif text in _CLOSING:
            commas = sum(item.content == "," for item in group.items)
            if commas and group.items[-1].content == "," and (commas > 1 or group.opening != "(" or broken):
                group.kept = broken
                *function, brackets = stack[-2].items[-2:]
                is_call = bool(function) and function[0].operand and not brackets.blank
                if commas > 1 or group.opening == "{" or is_call:
                    group.items.pop()
            group.closing = text
            stack.pop()
        else:
            operand = token.type in _OPERANDS and not keyword.iskeyword(text)
            group.items.append(_Item(blank, text, operand or text in ("None", "True", "False")))
    return stack[0].items


def _flat(items: Sequence[_Item]) -> str:
    return "".join(f"{item.blank if i else ''}{item.flat}" for i, item in enumerate(items))


def _kept(items: Sequence[_Item]) -> bool:
    groups = [item.content for item in items if isinstance(item.content, _Group)]
    return any(group.kept or _kept(group.items) for group in groups)


def _broken(items: list[_Item], indent: str, width: int) -> Iterator[str]:
    """The lines of a statement."""
    flat = indent + _flat(items)
    if len(flat) <= width and not _kept(items):
        yield flat
        return
    given = max((i for i, item in enumerate(items) if _assigns(item)), default=-1) + 1
    if given == 0 and items[0].content in ("return", "assert", "raise", "yield"):
        given = 1
    value = items[given:]
    at = _last_group(value, width - len(indent) - len(_flat(items[:given])) - 1)
    breaks = _breaks(value)
    if at is None and not breaks and len(indent + _STEP + _flat(value)) > width:
        yield flat  # it would be as long
    elif given and (at is None or len(breaks) > 1 or (breaks and not isinstance(value[-1].content, _Group))):
        yield f"{indent}{_flat(items[:given])} ("
        yield from _inside(value, indent + _STEP, width)
        yield f"{indent})"
    elif at is not None:
        yield from _exploded(items, given + at, indent, width)
    else:
        yield flat


def _assigns(item: _Item) -> bool:
    text = item.content
    return isinstance(text, str) and text.endswith("=") and text not in ("==", "!=", "<=", ">=")


def _last_group(items: Sequence[_Item], room: int) -> int | None:
    """The last brackets with something in them before which the line is not too long; else the first."""
    filled = [i for i, item in enumerate(items) if isinstance(item.content, _Group) and item.content.items]
    fitting = (i for i in reversed(filled) if len(_flat(items[:i])) + len(items[i].blank) < room)
    return next(fitting, filled[0] if filled else None)


def _exploded(items: list[_Item], at: int, indent: str, width: int) -> Iterator[str]:
    """The lines of an expression whose brackets at a place are opened."""
    group = items[at].content
    assert isinstance(group, _Group)
    yield indent + _flat(items[: at + 1])[: -len(group.flat)] + group.opening
    yield from _inside(group.items, indent + _STEP, width, kept=group.kept)
    yield indent + group.closing + _flat([_Item("", "", operand=False), *items[at + 1 :]])


def _inside(items: list[_Item], indent: str, width: int, *, kept: bool = False) -> Iterator[str]:
    """The lines of what stands in brackets."""
    flat = indent + _flat(items)
    if len(flat) <= width and not kept and not _kept(items):
        yield flat
        return
    breaks = _breaks(items)
    if not breaks and not kept:
        at = _last_group(items, width - len(indent))
        yield from [flat] if at is None else _exploded(items, at, indent, width)
        return
    commas = bool(breaks) and items[breaks[0] - 1].content == ","
    for start, stop in zip([0, *breaks], [*breaks, len(items)], strict=True):
        part = items[start:stop]
        comma = "," if commas or (kept and stop == len(items)) else ""
        part = part[:-1] if part[-1].content == "," else part
        *lines, last = _inside(part, indent, width - len(comma))
        yield from lines
        yield last + comma


def _breaks(items: Sequence[_Item]) -> list[int]:
    """Before which items a line may be broken, at the operators that bind least."""
    found: dict[int, list[int]] = {}
    within = ""
    for i, item in enumerate(items):
        text = item.content
        within = "lambda" if text == "lambda" else "" if text in (",", "for") and within == ":" else within
        if text == ":" and within:
            within = ":"
        elif within:
            continue
        if i and isinstance(text, str) and text in _BREAKS and (items[i - 1].operand or text == "not"):
            if text == "not" and not (i + 1 < len(items) and items[i + 1].content == "in"):
                continue
            if text == "in" and (items[i - 1].content == "not" or 20 in found):
                continue
            rank = 20 if text == "if" and 20 in found else _BREAKS[text]
            found.setdefault(rank, []).append(i + (text == ","))
    return [i for i in found[max(found)] if i < len(items)] if found else []
