"""One file, indexed cheaply with ``ast``; LibCST sees only the blocks that are asked for."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from wherelint.edits import physical_lines
from wherelint.finding import Location
from wherelint.source.names import canonical, framework_of, imported

if TYPE_CHECKING:
    import libcst as cst

    from wherelint.source.project import Project


class GiveUp(Exception):
    """This block is too much for the analysis; the message says why."""


@dataclass(eq=False)
class Block:
    """A statement of the file's top level (or of an ``if``/``try`` at the top level), parsed by LibCST on demand."""

    module: Module
    first: int
    last: int
    indented: bool
    _tree: cst.Module | None = None
    _positions: Mapping[cst.CSTNode, Any] | None = None
    #: By the identity of nodes, which live as long as the tree.
    _texts: dict[int, str] = field(default_factory=dict)

    @property
    def tree(self) -> cst.Module:
        """The parsed block. Raises GiveUp where LibCST cannot take it (it recurses where ``ast`` does not)."""
        import libcst as cst  # half of the start-up time: only for a file that has something to look at

        if self._tree is None:
            text = "".join(self.module.lines[self.first - 1 : self.last])
            # An indented block parses under an `if`; its row then counts from the row before it.
            text = f"if 1:\n{text}" if self.indented else text
            try:
                self._tree = cst.parse_module(text)
            except (cst.ParserSyntaxError, RecursionError, KeyError, ValueError) as error:
                raise GiveUp(f"LibCST cannot parse this block ({type(error).__name__})") from None
        return self._tree

    def mentions(self, word: str) -> bool:
        """Whether a word stands anywhere in the block's text."""
        return any(word in line for line in self.module.lines[self.first - 1 : self.last])

    def statements(self) -> list[cst.CSTNode]:
        """The statements of the block."""
        import libcst as cst

        body: list[cst.CSTNode] = list(self.tree.body)
        if self.indented and body and isinstance(body[0], cst.If):
            body = list(body[0].body.body)
        return body

    def region(self, node: cst.CSTNode) -> tuple[Location, Location]:
        """Where a node of the block begins and ends in the file."""
        if self._positions is None:
            from libcst.metadata import MetadataWrapper, PositionProvider

            wrapper = MetadataWrapper(self.tree, unsafe_skip_copy=True)
            self._positions = wrapper.resolve(PositionProvider)
        span = self._positions[node]
        shift = self.first - 1 - (1 if self.indented else 0)
        return (
            Location(span.start.line + shift, span.start.column + 1),
            Location(span.end.line + shift, span.end.column + 1),
        )

    def text(self, node: cst.CSTNode) -> str:
        """The source of a node on one line."""
        if id(node) not in self._texts:
            self._texts[id(node)] = " ".join(self.tree.code_for_node(node).split())
        return self._texts[id(node)]


@dataclass(eq=False)
class Definition:
    """A name bound at the top level: by an import, a ``def``, a ``class`` or an assignment."""

    statement: ast.stmt
    block: Block


@dataclass(eq=False)
class Module:
    """A file of the project: its text, its imports, and the index of what it defines."""

    filename: str
    text: str
    aliases: Mapping[str, str] = field(default_factory=dict)
    #: Dotted name of the package that holds the file, "" for a script.
    package: str = ""
    project: Project | None = None

    def __post_init__(self) -> None:
        self.tree = ast.parse(self.text, self.filename)
        if self.project is None:
            from wherelint.source.project import Project

            self.package = Project(self).package
        self.lines = physical_lines(self.text)
        self.imports: dict[str, str] = {}
        self.definitions: dict[str, Definition] = {}
        self.blocks: list[tuple[ast.stmt, Block]] = []
        #: Functions that take part in a custom derivative: "primal", "vjp" (forward and backward), "jvp".
        self.rules: dict[str, str] = {}
        self._index(self.tree.body, indented=False)
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                self._note_rule(node)

    def _note_rule(self, call: ast.Call) -> None:
        """``f.defvjp(fwd, bwd)``, ``f.defjvp(rule)``, ``jax.custom_vjp(f)``."""
        last = (
            call.func.attr
            if isinstance(call.func, ast.Attribute)
            else call.func.id
            if isinstance(call.func, ast.Name)
            else ""
        )
        role = {"defvjp": "vjp", "defjvp": "jvp", "defjvps": "jvp", "custom_vjp": "primal", "custom_jvp": "primal",
                "custom_gradient": "primal"}.get(last)  # fmt: skip
        if role is not None:
            self.rules.update({a.id: role for a in call.args if isinstance(a, ast.Name)})
            # A decorator in the image of these takes the parts of the derivative by keyword.
            self.rules.update({k.value.id: "vjp" for k in call.keywords if isinstance(k.value, ast.Name)})

    def _index(self, body: list[ast.stmt], *, indented: bool) -> None:
        for statement in body:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                self.imports.update(self.resolve(imported(statement, self.package)))
                continue
            nested = [getattr(statement, part, []) for part in ("body", "handlers", "orelse", "finalbody")]
            if isinstance(statement, (ast.If, ast.Try, ast.With)):
                for part in nested:
                    for item in part if isinstance(part, list) else []:
                        self._index(item.body if isinstance(item, ast.ExceptHandler) else [item], indented=True)
                continue
            decorators = getattr(statement, "decorator_list", [])
            first = min([statement.lineno, *(d.lineno for d in decorators)])
            block = Block(self, first, statement.end_lineno or statement.lineno, indented)
            self.blocks.append((statement, block))
            for name in _bound_names(statement):
                self.definitions[name] = Definition(statement, block)

    @cached_property
    def mentions(self) -> dict[str, list[tuple[str, ...]]]:
        """For every name in the file, the functions and methods that mention it."""
        from wherelint.source import gate

        return gate.mentions(self)

    def resolve(self, names: Mapping[str, str]) -> dict[str, str]:
        """Import targets in their canonical spelling."""
        return {local: canonical(name, self.aliases) for local, name in names.items()}

    def frameworks(self) -> list[str]:
        """The frameworks that any import of the file names, functions' own imports included."""
        names = list(self.imports.values())
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names += self.resolve(imported(node, self.package)).values()
        found = [framework_of(name) for name in names]
        return list(dict.fromkeys(f for f in found if f))


def _bound_names(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [statement.name]
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets = [statement.target]
    names = []
    for target in targets:
        names += [n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return names
