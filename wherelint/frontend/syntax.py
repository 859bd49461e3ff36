"""One text as ``ast`` parses it; LibCST sees only the statements in which something is rewritten.

What is known here depends on the text alone, so that it is shared by every file that imports the text.
"""

from __future__ import annotations

import ast
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

from wherelint.finding import Location
from wherelint.frontend.names import OVERLOAD
from wherelint.io.edits import physical_lines
from wherelint.io.encoding import NOWHERE

Answer = TypeVar("Answer")
FunctionDef: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTION_DEFS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: Texts that are remembered, and their characters: enough for a package, and trees that fit in memory.
_MOST_TEXTS, _MOST_CHARACTERS = 192, 2_000_000
_ROLES = {
    "defvjp": "vjp", "defjvp": "jvp", "defjvps": "jvp", "custom_vjp": "primal", "custom_jvp": "primal",
    "custom_gradient": "primal",
}  # fmt: skip


class GiveUp(Exception):
    """This is too much for the analysis; the message says why."""


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes right below a node, in the order of the text; as ``ast.iter_child_nodes``, in a third of the time."""
    found: list[ast.AST] = []
    if isinstance(node, (ast.Name, ast.Constant)):
        return found
    for value in vars(node).values():
        if type(value) is list:
            found += [item for item in value if isinstance(item, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def below(nodes: Sequence[ast.AST], but: tuple[type[ast.AST], ...] = ()) -> Iterator[ast.AST]:
    """Some nodes and those below them in the order of the text, without what stands below nodes of some types."""
    stack = [*reversed(nodes)]
    while stack:
        each = stack.pop()
        yield each
        if not isinstance(each, but):
            stack += reversed(children(each))


def last_name(node: ast.AST) -> str:
    """The last part of a dotted name; empty for anything else."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def dotted(node: ast.AST | None) -> str:
    """A name with the modules and classes it stands in; empty for anything else."""
    if isinstance(node, ast.Attribute):
        parent = dotted(node.value)
        return parent and f"{parent}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


class Chunk:
    """A top-level statement (or one in an ``if`` or ``try`` there), and the rows that it stands in."""

    def __init__(self, lines: Sequence[str], statement: ast.stmt) -> None:
        self.statement = statement
        self.first, self.last = _rows(statement)
        self._lines = lines
        #: How many rows further down it stands now than where it was parsed.
        self._moved = 0
        #: By question and node, which stays: one of another file that is gone would leave its identity to a third.
        self._answers: dict[tuple[object, object], Any] = {}
        self._parts: dict[ast.AST, Chunk] = {}

    def part(self, node: Any) -> Chunk:
        """The rows of the method in which a node stands, if this is a class; else these."""
        body = self.statement.body if isinstance(self.statement, ast.ClassDef) else ()
        for method in (each for each in body if isinstance(each, FUNCTION_DEFS)):
            first, last = _rows(method)
            if first <= node.lineno <= last:
                return self._parts.setdefault(method, Chunk(self._lines, method)).moved(self._moved)
        return self

    def moved(self, rows: int) -> Chunk:
        """The same rows of a text in which they stand further down."""
        made = copy(self)
        made.first += rows
        made.last += rows
        made._moved += rows
        return made

    @cached_property
    def text(self) -> str:
        """The rows themselves."""
        return "".join(self._lines[self.first - self._moved - 1 : self.last - self._moved])

    @cached_property
    def alone(self) -> bool:
        """Whether the statement has its rows to itself, so that they can be parsed without the others."""
        with suppress(SyntaxError):
            return len(ast.parse(self.text, NOWHERE).body) == 1
        return False

    def region(self, node: Any) -> tuple[Location, Location]:
        """Where a node begins and ends in the file."""
        return (
            Location(node.lineno + self._moved, self._column(node.lineno, node.col_offset) + 1),
            Location(node.end_lineno + self._moved, self._column(node.end_lineno, node.end_col_offset) + 1),
        )

    def _column(self, row: int, offset: int) -> int:
        """A column of the parser, which counts bytes of UTF-8, in characters."""
        line = self._lines[row - 1]
        return offset if line.isascii() else len(line.encode()[:offset].decode())

    def once(self, question: Callable[[Any], Answer], node: object) -> Answer:
        """``question(node)`` for a node of these rows, or the rows; it is asked only once, however many files ask."""
        key = question, node
        if key not in self._answers:
            self._answers[key] = question(node)
        answer: Answer = self._answers[key]
        return answer

    def code(self, node: ast.AST) -> str:
        """The source of a node on one line."""
        return self.once(self._code, node)

    def _code(self, node: Any) -> str:
        rows = self._lines[node.lineno - 1 : node.end_lineno]
        last = rows[-1][: self._column(node.end_lineno, node.end_col_offset)]
        first = self._column(node.lineno, node.col_offset)
        text = " ".join("".join([*rows[:-1], last])[first:].split())
        return unicodedata.normalize("NFKC", text)  # as Python reads names


@dataclass
class Words:
    """What a statement mentions, all that is inside it included."""

    #: Names of variables, names of attributes, and the last parts of what is imported.
    names: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    imported: set[str] = field(default_factory=set)
    #: Types of its other nodes: operators, subscripts, comparisons, lambdas ...
    kinds: set[type] = field(default_factory=set)
    keywords: set[str] = field(default_factory=set)

    def add(self, other: Words) -> None:
        """What another statement mentions, too."""
        for name, words in vars(other).items():
            getattr(self, name).update(words)


class Syntax:
    """What one text says. Raises SyntaxError where it is not Python."""

    def __init__(self, text: str) -> None:
        self.lines = physical_lines(text)
        #: The statements of the top level, those inside an ``if``, ``try`` or ``with`` there included.
        self.statements: list[tuple[ast.stmt, Chunk]] = []
        self.imports: list[ast.Import | ast.ImportFrom] = []
        #: The imports of functions and classes.
        self.inner_imports: list[ast.Import | ast.ImportFrom] = []
        #: Functions that take part in a custom derivative: "primal", "vjp" (forward and backward), "jvp".
        self.rules: dict[str, str] = {}
        self._words: dict[ast.AST, Words] = {}
        self._index(ast.parse(text, NOWHERE).body)

    def revised(self, text: str) -> Syntax:
        """The syntax of another text; where one statement differs, it alone is parsed again. Raises SyntaxError."""
        lines = physical_lines(text)
        first = next((i for i, pair in enumerate(zip(self.lines, lines, strict=False)) if pair[0] != pair[1]), None)
        if first is None:
            return self if len(lines) == len(self.lines) else Syntax(text)
        ends = list(zip(reversed(self.lines[first:]), reversed(lines[first:]), strict=False))
        last = len(self.lines) - next((i for i, pair in enumerate(ends) if pair[0] != pair[1]), len(ends))
        moved = len(lines) - len(self.lines)
        for number, (_, chunk) in enumerate(self.statements):
            if chunk.first <= first + 1 and last <= chunk.last and chunk.alone:
                body: list[ast.stmt] = []
                with suppress(SyntaxError):  # its rows alone; the whole text may be another matter
                    above = "\n" * (chunk.first - 1)  # they keep their rows
                    body = ast.parse(above + "".join(lines[chunk.first - 1 : chunk.last + moved]), NOWHERE).body
                if len(body) != 1 or isinstance(body[0], (ast.Import, ast.ImportFrom, ast.If, ast.Try, ast.With)):
                    break
                made = copy(self)
                made.lines, made.rules, made.inner_imports = lines, dict(self.rules), list(self.inner_imports)
                made._words = dict(self._words)
                made._words[body[0]] = made._note(body[0])
                own = Chunk(lines, body[0])
                later = [(statement, each.moved(moved)) for statement, each in self.statements[number + 1 :]]
                made.statements = [*self.statements[:number], (body[0], own), *later]
                return made
        return Syntax(text)

    def words(self, statement: ast.stmt) -> Words:
        """What a statement of the top level, or of a class there, mentions."""
        return self._words[statement]

    def _index(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                self.imports.append(statement)
            elif isinstance(statement, (ast.If, ast.Try, ast.With)):
                for part in ("body", "handlers", "orelse", "finalbody"):
                    for item in getattr(statement, part, []):
                        self._index(item.body if isinstance(item, ast.ExceptHandler) else [item])
            else:
                self.statements.append((statement, Chunk(self.lines, statement)))
                self._words[statement] = self._note(statement)

    def _note(self, root: ast.AST) -> Words:
        """The words below a node; the methods of a class have theirs, too."""
        found = Words()
        todo = [root]
        for node in todo:
            kind = type(node)
            if kind is ast.Name:
                found.names.add(node.id)  # type: ignore[attr-defined]
                continue
            if kind is ast.Constant:
                continue
            if kind is ast.Attribute:
                found.attributes.add(node.attr)  # type: ignore[attr-defined]
            elif isinstance(node, FUNCTION_DEFS) and isinstance(root, ast.ClassDef) and node in root.body:
                self._words[node] = self._note(node)
                found.add(self._words[node])
                continue
            elif kind is ast.alias:
                found.imported.add(node.name.rpartition(".")[2])  # type: ignore[attr-defined]
            elif kind is ast.keyword:
                found.keywords.add(node.arg or "")  # type: ignore[attr-defined]
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                self.inner_imports.append(node)
            elif kind is ast.Call:
                self._note_rule(node)  # type: ignore[arg-type]
            else:
                found.kinds.add(kind)
            todo += children(node)
        return found

    def _note_rule(self, call: ast.Call) -> None:
        """``f.defvjp(fwd, bwd)``, ``f.defjvp(rule)``, ``jax.custom_vjp(f)``."""
        function = call.func
        last = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        role = _ROLES.get(last)
        if role is not None:
            named = [a for a in call.args if isinstance(a, ast.Name | ast.Attribute)]
            self.rules.update({ast.unparse(a): role for a in named})
            # A decorator in the image of these takes the parts of the derivative by keyword.
            self.rules.update({k.value.id: "vjp" for k in call.keywords if isinstance(k.value, ast.Name)})


def _rows(statement: ast.stmt) -> tuple[int, int]:
    """The first and last row of a statement, its decorators included."""
    decorators = getattr(statement, "decorator_list", [])
    first = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
    return first, statement.end_lineno or statement.lineno


#: Those that were read last, the latest at the end.
_recent: dict[str, Syntax] = {}


def read(text: str) -> Syntax:
    """The syntax of a text, shared between all who read it. Raises SyntaxError."""
    syntax = _recent.pop(text, None) or Syntax(text)
    _recent[text] = syntax
    while len(_recent) > _MOST_TEXTS or (len(_recent) > 1 and sum(map(len, _recent)) > _MOST_CHARACTERS):
        del _recent[next(iter(_recent))]
    return syntax


def methods(statement: ast.ClassDef) -> Iterator[FunctionDef]:
    """The functions that a class defines."""
    return (item for item in statement.body if isinstance(item, FUNCTION_DEFS))


def named_methods(statement: ast.ClassDef) -> dict[FunctionDef, str]:
    """The functions that a class defines, and what each is called: those of one name are all told apart.

    The last of them has the name itself, or the last one that does not set or delete a property.
    """
    found: dict[FunctionDef, str] = {}
    plain: dict[str, FunctionDef] = {item.name: item for item in methods(statement) if not writes_property(item)}
    counts: Counter[str] = Counter()
    for item in methods(statement):
        counts[item.name] += plain.get(item.name) is not item
        found[item] = item.name if plain.get(item.name) is item else f"{item.name}{OVERLOAD}{counts[item.name]}"
    return found


def writes_property(function: FunctionDef) -> bool:
    """Whether a method sets or deletes a property."""
    written = [ast.unparse(each) for each in function.decorator_list if isinstance(each, ast.Attribute)]
    return any(each in (f"{function.name}.setter", f"{function.name}.deleter") for each in written)
