"""What a fix writes several times, given a name and written once."""

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, count
from typing import TypeGuard

from wherelint.finding import Edit, Fix, Location
from wherelint.fix.masks import WHERES
from wherelint.fix.spelling import safe_name
from wherelint.frontend.syntax import last_name
from wherelint.io.edits import Source, changed

_HEAD, _VALUE = re.compile(r"where(?:_v2)?\(\w+,[\w.]+"), re.compile(r"^[ \t]*\w+ = (.+)$", re.MULTILINE)
#: What has variables of its own.
_COMPREHENSIONS = (ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp)
_SCOPES = (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
#: What may not be evaluated, or more than once, or has variables of its own.
_LAZY = (*_COMPREHENSIONS, ast.Lambda, ast.IfExp, ast.BoolOp)
_ARMS = 3


def written_once(source: Source, fix: Fix) -> Fix:
    """A fix that writes a mask that it binds, and what it selects by that, once."""
    if not _may_repeat("".join(edit.content for edit in fix.edits), source.text):
        return fix
    text = source.edited(fix.edits)
    try:
        while (shorter := next(_shorter(source, Source(text)), None)) is not None:
            text = shorter
    except (SyntaxError, ValueError, RecursionError):  # the cells of a notebook
        return fix
    return fix if text == source.edited(fix.edits) else replace(fix, edits=source.difference(text))


def _may_repeat(written: str, old: str) -> bool:
    """Whether a fix seems to select twice in the same way, or by what it binds: most do not, and need not be parsed."""
    plain = _without_spaces(written)
    heads = _HEAD.findall(plain)
    asked = [f"where({_without_spaces(value)}," for value in _VALUE.findall(written)]
    if len(heads) > len(set(heads)) or any(each in plain for each in asked):
        return True
    plain = _without_spaces(old) if asked else ""
    return any(each in plain for each in asked)


def _without_spaces(text: str) -> str:
    return re.sub(r"\s", "", text)


def _shorter(source: Source, new: Source) -> Iterator[str]:
    """A text in which a name stands for what was written out."""
    old, fresh = source.text, _fresh(source, new)
    for suite in _suites(ast.parse(new.text)):
        for at, statement in enumerate(suite):
            for node in _selections(suite[at : at + 1]):  # by what the author has bound
                same = [n for n in _selections(suite[at:], node) if _same(n, node)]
                if len(same) > 1 and isinstance(node.args[0], ast.Name) and new.between(*_region(new, node)) not in old:
                    yield _named(new, statement, statement.lineno, same)
            bound = _bound(statement)
            if bound is None or statement.lineno not in fresh:
                continue
            name, value = bound
            before = suite[at - 1] if at and suite[at - 1].lineno in fresh else None
            asks = before is not None and any(_same(node.args[0], value) for node in _selections([before]))
            if before is not None and asks and not _stores(before, value):
                yield _swapped(new, before, statement)
            asking = list(_asking(suite[at + 1 :], name, value)) if not isinstance(value, ast.Name) else []
            if asking:
                yield new.edited([_replaced(new, node.args[0], name) for node in asking])
            by_name = [
                n for n in _selections(suite[at + 1 :]) if isinstance(n.args[0], ast.Name) and n.args[0].id == name
            ]
            for node in sorted(by_name, key=lambda node: -len(ast.dump(node))):
                same = [n for n in _selections(suite[at + 1 :], node) if _same(n, node)]
                if len(same) > 1:
                    yield _named(new, statement, (statement.end_lineno or statement.lineno) + 1, same)


def _fresh(source: Source, new: Source) -> set[int]:
    """The rows of a text that another does not have."""
    return {row + 1 for part in changed(source.lines, new.lines) for row in range(*part)}


def _swapped(new: Source, first: ast.stmt, second: ast.stmt) -> str:
    """A text with two statements, of which one follows the other, in the other order."""
    rows = [*new.lines]
    rows[first.lineno - 1 : second.end_lineno] = [
        row for each in (second, first) for row in new.lines[each.lineno - 1 : each.end_lineno]
    ]
    return "".join(rows)[:-1]  # the last newline is one that only the list has


def _same(node: ast.expr, other: ast.expr) -> bool:
    return ast.dump(node) == ast.dump(other)


def _named(new: Source, beside: ast.stmt, at: int, same: Sequence[ast.Call]) -> str:
    """A text in which a name that is bound in a new row, beside a statement, stands for some selections."""
    taken = set(re.findall(r"\w+", new.text))
    called = next(name for name in _names(same[0]) if name not in taken)
    line, row = new.lines[beside.lineno - 1], Location(at, 1)
    indent, ending = line[: len(line) - len(line.lstrip())], line[len(line.rstrip("\r\n")) :]
    bound = Edit(f"{indent}{called} = {new.between(*_region(new, same[0]))}{ending}", row, row)
    return new.edited([bound, *(_replaced(new, node, called) for node in same)])


def _bound(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    """The variable that a statement gives a value to, if it is one, and the value."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id, statement.value
    return None


def _suites(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            if isinstance(suite := getattr(node, field, None), list):
                yield suite


def _selections(statements: Sequence[ast.stmt], value: ast.expr | None = None) -> Iterator[ast.Call]:
    """The selections in simple statements, up to one that assigns what a value reads."""
    for each in statements:
        if hasattr(each, "body"):
            return
        yield from filter(_is_selection, _walk(each))
        if value is not None and _stores(each, value):
            return


def _asking(statements: Sequence[ast.stmt], name: str, value: ast.expr) -> Iterator[ast.Call]:
    """The selections that ask for a value which has a name, up to a statement that may change it."""

    def within(node: ast.AST) -> Iterator[ast.AST]:
        if isinstance(node, _SCOPES):  # what is called later reads what the variables are by then
            own = {*(arg.arg for arg in ast.walk(node) if isinstance(arg, ast.arg)), *_stored(node)}
            if not lasting or _overlap(own, {name, *_paths(value)}):
                return
        yield node
        for child in ast.iter_child_nodes(node) if not isinstance(node, _COMPREHENSIONS) else ():
            yield from within(child)

    changing = [_stores(each, value) or name in _stored(each) for each in statements]
    last = max((at for at, changes in enumerate(changing) if changes), default=-1)
    for at, (each, changes) in enumerate(zip(statements, changing, strict=True)):
        if changes and hasattr(each, "body"):
            return
        lasting = last < at
        for node in within(each):
            if _is_selection(node) and _same(node.args[0], value):
                yield node
        if changes:
            return


def _is_selection(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and last_name(node.func) in WHERES and len(node.args) == _ARMS


def _stores(statement: ast.stmt, value: ast.expr) -> bool:
    """Whether a statement gives a variable, or a part of one, that a value reads, something else.

    A call may change the parts of what it is given, and of what it is a method of.
    """
    read = _paths(value)
    return _overlap(set(_stored(statement)), read) or any(
        path.startswith(f"{given}.") for given in _given(statement) for path in read
    )


def _given(statement: ast.stmt) -> Iterator[str]:
    """What calls in a statement are given as it is, and what they are methods of."""
    for call in ast.walk(statement):
        if isinstance(call, ast.Call):
            own = [call.func.value] if isinstance(call.func, ast.Attribute) else []
            yield from filter(None, map(_path, [*own, *call.args, *(k.value for k in call.keywords)]))


def _overlap(stored: Collection[str], read: Collection[str]) -> bool:
    """Whether one path is another, or begins with it: ``a.b`` of ``a``."""
    pairs = [(f"{a}.", f"{b}.") for a in stored for b in read]
    return any(a.startswith(b) or b.startswith(a) for a, b in pairs)


def _paths(node: ast.AST) -> set[str]:
    """What a value reads: variables, and attributes of them; of a call what it is a method of."""
    if path := _path(node):
        return {path}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        parts: Iterable[ast.AST] = [node.func.value, *node.args, *node.keywords]
    else:
        parts = ast.iter_child_nodes(node)
    return {path for part in parts for path in _paths(part)}


def _path(node: ast.AST) -> str:
    """A variable, or an attribute of one, as it is written; empty for one of what is computed."""
    if isinstance(node, ast.Attribute):
        return f"{of}.{node.attr}" if (of := _path(node.value)) else ""
    return node.id if isinstance(node, ast.Name) else ""


def _stored(statement: ast.AST) -> Iterator[str]:
    """What a statement assigns, or calls a method of that changes it: PyTorch's end in an underscore."""
    for node in ast.walk(statement):
        target = node if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)) else None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"):
            target = node.func.value
        while target is not None and not _path(target):
            target = getattr(target, "value", None)
        if target is not None:
            yield _path(target)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node) if not isinstance(node, _LAZY) else ():
        yield from _walk(child)


def _replaced(new: Source, node: ast.expr, name: str) -> Edit:
    return Edit(name, *_region(new, node))


def _region(new: Source, node: ast.expr) -> tuple[Location, Location]:
    ends = (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
    start, end = (Location(r, len(new.lines[r - 1].encode()[:c].decode()) + 1) for r, c in ends)
    return start, end


def _names(selection: ast.Call) -> Iterator[str]:
    """What a selection that is written once may be called: by what it guards."""
    arm = _arm(selection)
    inner = next((n for n in ast.walk(arm) if isinstance(n, ast.Call) and last_name(n.func) in WHERES), None)
    safe = safe_name(last_name(arm if inner is None else _arm(inner)) or "operand")
    done = last_name(arm.func) if isinstance(arm, ast.Call) else ""
    ratio = isinstance(arm, ast.BinOp) and isinstance(arm.op, ast.Div)
    first = "ratio" if ratio else f"{done}_{safe.removeprefix('safe_')}" if done else safe
    return chain([first], (f"{first}_{number}" for number in count(2)))


def _arm(selection: ast.Call) -> ast.expr:
    """The value of a selection that is no number."""
    return next((arm for arm in selection.args[1:] if not isinstance(arm, (ast.Constant, ast.UnaryOp))), selection)
