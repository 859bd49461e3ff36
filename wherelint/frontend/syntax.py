"""One text, indexed cheaply with ``ast``; LibCST sees only the statements that are asked for.

What is known here depends on the text alone, so that it is shared by every file that imports the text.
"""

from __future__ import annotations

import ast
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from wherelint.finding import Location
from wherelint.io.edits import physical_lines
from wherelint.io.encoding import NOWHERE

if TYPE_CHECKING:
    import libcst as cst

Answer = TypeVar("Answer")
#: Texts kept for the files that import them, and their characters: enough for a package, and trees that fit in memory.
_MOST_TEXTS, _MOST_CHARACTERS = 192, 3_000_000
_ROLES = {
    "defvjp": "vjp", "defjvp": "jvp", "defjvps": "jvp", "custom_vjp": "primal", "custom_jvp": "primal",
    "custom_gradient": "primal",
}  # fmt: skip
#: LibCST takes three times as long for every bracket more around a pattern.
_MOST_NESTED = 7
#: The recursion limit while LibCST writes; Python 3.10 has the stack for several times as much.
_RECURSION = 3_000
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class GiveUp(Exception):
    """This is too much for the analysis; the message says why."""


def _normalize(node: cst.CSTNode) -> None:
    """Spell every name as Python reads it, which takes letters of full width for plain ones."""
    import libcst as cst

    if isinstance(node, cst.Name):
        object.__setattr__(node, "value", unicodedata.normalize("NFKC", node.value))
    for child in node.children:
        _normalize(child)


def below(node: cst.CSTNode, but: tuple[type[cst.CSTNode], ...] = ()) -> Iterator[cst.CSTNode]:
    """The nodes below one in the order of the text, without what stands below nodes of some types."""
    stack = [*reversed(node.children)]
    while stack:
        each = stack.pop()
        yield each
        if not isinstance(each, but):
            stack += reversed(each.children)


class Chunk:
    """The rows of a top-level statement (or of one in an ``if`` or ``try`` there), parsed by LibCST on demand."""

    def __init__(self, lines: Sequence[str], first: int, last: int, *, indented: bool) -> None:
        self.first = first
        self.last = last
        self.indented = indented
        self._lines = lines
        self._tree: cst.Module | None = None
        self._positions: Mapping[cst.CSTNode, Any] | None = None
        #: By question and node, which stays: one of another file that is gone would leave its identity to a third.
        self._answers: dict[tuple[object, cst.CSTNode], Any] = {}

    def moved(self, rows: int) -> Chunk:
        """The same rows of a text in which they stand further down."""
        made = copy(self)
        made.first += rows
        made.last += rows
        made.text = self.text
        return made

    @cached_property
    def text(self) -> str:
        """The rows themselves."""
        return "".join(self._lines[self.first - 1 : self.last])

    @property
    def tree(self) -> cst.Module:
        """The parsed rows. Raises GiveUp where LibCST cannot take them (it recurses where ``ast`` does not)."""
        import libcst as cst  # half of the start-up time: only for a file that has something to look at

        if self._tree is None:
            # An indented block parses under an `if`; its row then counts from the row before it.
            text = f"if 1:\n{self.text}" if self.indented else self.text
            if sys.version_info < (3, 11) and _depth(text) > _RECURSION:  # later ones do not even parse it
                raise GiveUp("it is nested too deeply")
            if "case" in text and _deepest_pattern(text) > _MOST_NESTED:
                raise GiveUp("its patterns are nested too deeply")
            try:
                self._tree = cst.parse_module(text)
                if not unicodedata.is_normalized("NFKC", text):
                    self.region(self._tree)  # the places are those of the text as it is
                    _normalize(self._tree)
            except (cst.ParserSyntaxError, RecursionError, KeyError, ValueError) as error:
                raise GiveUp(f"LibCST cannot parse this block ({type(error).__name__})") from None
        return self._tree

    @cached_property
    def alone(self) -> bool:
        """Whether the statement has its rows to itself."""
        with suppress(SyntaxError):
            return not self.indented and len(ast.parse(self.text, NOWHERE).body) == 1
        return False

    def statements(self) -> list[cst.CSTNode]:
        """The statements in these rows."""
        import libcst as cst

        body: list[cst.CSTNode] = list(self.tree.body)
        if self.indented and body and isinstance(body[0], cst.If):
            body = list(body[0].body.body)
        return body

    def region(self, node: cst.CSTNode) -> tuple[Location, Location]:
        """Where a node begins and ends in the file."""
        if self._positions is None:
            from libcst.metadata import MetadataWrapper, PositionProvider

            # `wrapper.resolve` would visit the tree a second time, for providers that visit it.
            wrapper = MetadataWrapper(self.tree, unsafe_skip_copy=True)
            with _deeper():
                self._positions = PositionProvider()._gen(wrapper)
        span = self._positions[node]
        shift = self.first - 1 - (1 if self.indented else 0)
        return (
            Location(span.start.line + shift, span.start.column + 1),
            Location(span.end.line + shift, span.end.column + 1),
        )

    def once(self, question: Callable[[Any], Answer], node: cst.CSTNode) -> Answer:
        """``question(node)`` for a node of these rows; it is asked only once, however many files ask."""
        key = question, node
        if key not in self._answers:
            self._answers[key] = question(node)
        answer: Answer = self._answers[key]
        return answer

    def code(self, node: cst.CSTNode) -> str:
        """The source of a node on one line."""
        return self.once(self._code, node)

    def _code(self, node: cst.CSTNode) -> str:
        with _deeper():
            return " ".join(self.tree.code_for_node(node).split())


@contextmanager
def _deeper() -> Iterator[None]:
    """Let LibCST write nodes that are nested as deeply as a sum of hundreds of terms. Raises GiveUp for more."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _RECURSION))
    try:
        yield
    except Exception as error:  # LibCST stumbles over something else on the way out of a RecursionError, or of Ctrl-C
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, KeyboardInterrupt):
                raise cause from None
            cause = cause.__context__
        raise GiveUp("it is nested too deeply") from None
    finally:
        sys.setrecursionlimit(before)


def _depth(text: str) -> int:
    """How deeply the syntax of a text is nested; 0 for what is no Python."""
    depth = 0
    level: list[ast.AST] = []
    with suppress(SyntaxError):
        level.append(ast.parse(text, NOWHERE))
    while level:
        depth += 1
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return depth


def _deepest_pattern(text: str) -> int:
    """How many brackets are open at once in a pattern of ``match``; those of strings count, too."""
    rows = text.encode().splitlines(keepends=True)
    most = 0
    for match in (node for node in ast.walk(ast.parse(text, NOWHERE)) if isinstance(node, ast.Match)):
        before: ast.AST = match.subject
        for case in match.cases:
            end = case.guard or case.body[0]
            pattern = b"".join(rows[before.end_lineno - 1 : end.lineno])  # type: ignore[attr-defined]
            stop = len(pattern) - len(rows[end.lineno - 1]) + end.col_offset
            depth = 0
            for bracket in re.findall(rb"[(\[{]|[)\]}]", pattern[before.end_col_offset : stop]):  # type: ignore[attr-defined]
                depth += 1 if bracket in b"([{" else -1
                most = max(most, depth)
            before = case.body[-1]
    return most


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
        self.names |= other.names
        self.attributes |= other.attributes
        self.imported |= other.imported
        self.kinds |= other.kinds
        self.keywords |= other.keywords


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
        self._index(ast.parse(text, NOWHERE).body, indented=False)

    def revised(self, text: str) -> Syntax:
        """The syntax of a text that differs from this one; where one statement does, it alone is parsed again.

        Raises SyntaxError.
        """
        lines = physical_lines(text)
        first = next((i for i, pair in enumerate(zip(self.lines, lines, strict=False)) if pair[0] != pair[1]), None)
        if first is None:
            return Syntax(text)
        ends = list(zip(reversed(self.lines[first:]), reversed(lines[first:]), strict=False))
        last = len(self.lines) - next((i for i, pair in enumerate(ends) if pair[0] != pair[1]), len(ends))
        moved = len(lines) - len(self.lines)
        for number, (_, chunk) in enumerate(self.statements):
            if chunk.first <= first + 1 and last <= chunk.last and chunk.alone:
                body: list[ast.stmt] = []
                with suppress(SyntaxError):  # its rows alone; the whole text may be another matter
                    body = ast.parse("".join(lines[chunk.first - 1 : chunk.last + moved]), NOWHERE).body
                if len(body) != 1 or isinstance(body[0], (ast.Import, ast.ImportFrom, ast.If, ast.Try, ast.With)):
                    break
                made = copy(self)
                made.lines, made.rules, made.inner_imports = lines, dict(self.rules), list(self.inner_imports)
                made._words = dict(self._words)
                made._words[body[0]] = made._note(body[0])
                begins, ends_at = (row + chunk.first - 1 for row in _rows(body[0]))
                own = Chunk(lines, begins, ends_at, indented=False)
                later = [(statement, each.moved(moved)) for statement, each in self.statements[number + 1 :]]
                made.statements = [*self.statements[:number], (body[0], own), *later]
                return made
        return Syntax(text)

    def words(self, statement: ast.stmt) -> Words:
        """What a statement of the top level, or of a class there, mentions."""
        return self._words[statement]

    def _index(self, body: list[ast.stmt], *, indented: bool) -> None:
        for statement in body:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                self.imports.append(statement)
            elif isinstance(statement, (ast.If, ast.Try, ast.With)):
                for part in ("body", "handlers", "orelse", "finalbody"):
                    for item in getattr(statement, part, []):
                        self._index(item.body if isinstance(item, ast.ExceptHandler) else [item], indented=True)
            else:
                first, last = _rows(statement)
                self.statements.append((statement, Chunk(self.lines, first, last, indented=indented)))
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
            elif isinstance(node, _FUNCTIONS) and isinstance(root, ast.ClassDef) and node in root.body:
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
            for value in vars(node).values():
                if type(value) is list:
                    todo += [item for item in value if isinstance(item, ast.AST)]
                elif isinstance(value, ast.AST):
                    todo.append(value)
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


#: Those kept, the one that was asked for last at the end.
_kept: dict[str, Syntax] = {}


def read(text: str) -> Syntax:
    """The syntax of a text, shared between all who read it. Raises SyntaxError."""
    syntax = _kept.pop(text, None) or Syntax(text)
    _kept[text] = syntax
    while len(_kept) > _MOST_TEXTS or (len(_kept) > 1 and sum(map(len, _kept)) > _MOST_CHARACTERS):
        del _kept[next(iter(_kept))]
    return syntax


def methods(statement: ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions that a class defines."""
    return (item for item in statement.body if isinstance(item, _FUNCTIONS))
