"""Which frameworks a file reaches through other files of its project: renamed modules, re-exports, wrappers."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from wherelint.frameworks import framework_of
from wherelint.frontend.names import canonical
from wherelint.frontend.syntax import children

if TYPE_CHECKING:
    from wherelint.frontend.module import Module

_IMPORTS = {ast.Import, ast.ImportFrom}


class Reach:
    """What the names of a file lead to. Files are opened as imports lead to them; none is imported."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._known: dict[tuple[str, str], list[str]] = {}
        self._left = module.budget.files
        #: Whether something was not followed since that would take too many files.
        self.spent = False

    def frameworks(self, names: Iterable[tuple[str, ...]], words: frozenset[str]) -> list[str]:
        """The frameworks that some functions of the file reach, first by the calls whose names are among ``words``."""
        dotted = [each for name in names for each in _dotted(self._statement(name))]
        for chosen in ([each for each in dotted if each[-1] in words], dotted):
            found = [f for root, *rest in dict.fromkeys(chosen) for f in self._of(self._module, root, rest)]
            if found:
                return list(dict.fromkeys(found))
        return []

    def _statement(self, name: tuple[str, ...]) -> ast.stmt:
        statement = self._module.definitions[name[0]].statement
        inner = statement.body if isinstance(statement, ast.ClassDef) else []
        return next((item for item in inner if getattr(item, "name", "") == name[-1]), statement)

    def _of(self, module: Module, name: str, rest: list[str]) -> list[str]:
        """The frameworks that a name of a file's top level leads to, with the attributes ``rest``."""
        target = None if name in module.definitions else module.target(name)
        if target is not None:
            return self._named(module, ".".join([target, *rest]))
        key = module.filename, name
        if key not in self._known:
            self._known[key] = []  # a circle leads nowhere
            self._known[key] = self._defined(module, name) if name in module.definitions else []
        return self._known[key]

    def _defined(self, module: Module, name: str) -> list[str]:
        """The frameworks that a definition mentions."""
        words = module.syntax.words(module.definitions[name].statement)
        found = [f for each in sorted(words.names - {name}) for f in self._of(module, each, [])]
        if not words.kinds.isdisjoint(_IMPORTS):  # of its own
            found += module.frameworks()
        return list(dict.fromkeys(found))

    def _named(self, module: Module, dotted: str) -> list[str]:
        framework = framework_of(canonical(dotted, module.aliases))
        if framework is not None:
            return [framework]
        project = module.project
        if self.spent:
            return []
        key = "", dotted
        if key not in self._known:
            self._known[key] = []
            before = project.opened
            found = project.find(dotted)
            self._left -= project.opened - before
            self.spent = self._left < 0
            if found is not None:
                home, (name, *rest) = found
                self._known[key] = self._of(home, name, rest)
        return self._known[key]


def _dotted(statement: ast.AST) -> Iterator[tuple[str, ...]]:
    """The dotted names below a statement, the longest of each."""
    todo = [statement]
    while todo:
        node: ast.AST = todo.pop()
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            yield (node.id, *reversed(parts))
        else:
            todo += children(node)
