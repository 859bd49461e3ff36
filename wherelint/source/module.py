"""One file of a project: what its names mean, and the blocks that it consists of."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from wherelint.finding import Location
from wherelint.source.names import canonical, framework_of, imported
from wherelint.source.syntax import Chunk, Syntax, read

if TYPE_CHECKING:
    import libcst as cst

    from wherelint.source.project import Project


@dataclass(eq=False)
class Block:
    """A top-level statement of a file."""

    module: Module
    chunk: Chunk

    @property
    def tree(self) -> cst.Module:
        """The parsed block. Raises GiveUp where LibCST cannot take it."""
        return self.chunk.tree

    @property
    def first(self) -> int:
        """The row at which the block begins."""
        return self.chunk.first

    @property
    def last(self) -> int:
        """The row at which the block ends."""
        return self.chunk.last

    def mentions(self, word: str) -> bool:
        """Whether a word stands anywhere in the block's text."""
        return word in self.chunk.text

    def region(self, node: cst.CSTNode) -> tuple[Location, Location]:
        """Where a node of the block begins and ends in the file."""
        return self.chunk.region(node)

    def text(self, node: cst.CSTNode) -> str:
        """The source of a node on one line."""
        return self.chunk.code(node)


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
    #: How many steps were taken so far to read its functions.
    steps: int = field(default=0, init=False)
    #: The syntax of a text that this one differs little from.
    before: InitVar[Syntax | None] = None

    def __post_init__(self, before: Syntax | None) -> None:
        self.syntax = read(self.text) if before is None else before.revised(self.text)
        if self.project is None:
            from wherelint.source.project import Project

            self.package = Project(self).package
        self.lines = self.syntax.lines
        #: Functions that take part in a custom derivative: "primal", "vjp" (forward and backward), "jvp".
        self.rules = self.syntax.rules
        self.imports: dict[str, str] = {}
        for statement in self.syntax.imports:
            self.imports.update(self.resolve(imported(statement, self.package)))
        self.blocks = [(statement, Block(self, chunk)) for statement, chunk in self.syntax.statements]
        self.definitions: dict[str, Definition] = {}
        for definition, block in self.blocks:
            for name in _bound_names(definition):
                self.definitions[name] = Definition(definition, block)

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
        for statement in self.syntax.inner_imports:
            names += self.resolve(imported(statement, self.package)).values()
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
