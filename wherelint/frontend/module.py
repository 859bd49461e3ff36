"""One file of a project, what its names mean and the blocks that it consists of; and the project around it."""

from __future__ import annotations

import ast
import builtins
import os
import stat
from collections.abc import Callable, Hashable, Iterator, Mapping
from copy import copy
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wherelint.finding import Location
from wherelint.frameworks import framework_of
from wherelint.frontend.names import OVERLOAD, canonical, imported, starred
from wherelint.frontend.options import Budget
from wherelint.frontend.sources import content, package, texts
from wherelint.frontend.syntax import FUNCTION_DEFS, Answer, Chunk, Syntax, dotted, read
from wherelint.graph.work import Work
from wherelint.io.disk import leads_out, project_root
from wherelint.io.edits import Source
from wherelint.ops import lookup

if TYPE_CHECKING:
    import libcst as cst

    from wherelint.frontend.concrete import Concrete

#: Characters that are read at the cost of one node evaluation.
_CHARACTERS = 10
#: How often a name is followed from one file to the next.
MOST_HOPS = 8


@dataclass(eq=False)
class Block:
    """A top-level statement of a file."""

    module: Module
    chunk: Chunk
    _parts: dict[ast.AST, Block] = field(default_factory=dict, init=False)

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

    def region(self, node: ast.AST) -> tuple[Location, Location]:
        """Where a node of the block begins and ends in the file."""
        return self.chunk.region(node)

    def text(self, node: ast.AST) -> str:
        """The source of a node on one line."""
        return self.chunk.code(node)

    def part(self, node: ast.AST) -> Block:
        """The method in which a node of a class stands, as a block of its own: LibCST need not parse the class."""
        chunk = self.chunk.part(node)
        return self if chunk is self.chunk else self._parts.setdefault(chunk.statement, Block(self.module, chunk))

    @property
    def concrete(self) -> Concrete:
        """The block as LibCST parses it. Raises GiveUp where it cannot."""
        from wherelint.frontend.concrete import Concrete  # only for a file that has something to rewrite

        return self.chunk.once(Concrete, self.chunk.text)

    def written(self, node: ast.AST) -> cst.CSTNode | None:
        """The concrete syntax of an operation or a selection. Raises GiveUp where LibCST cannot parse the block."""
        start, end = (Location(place.row - self.first + 1, place.column) for place in self.region(node))
        return self.concrete.find(start, end)

    def place(self, node: cst.CSTNode) -> tuple[Location, Location]:
        """Where concrete syntax of the block begins and ends in the file, parentheses around it excluded."""
        start, end = self.concrete.region(node)
        return Location(start.row + self.first - 1, start.column), Location(end.row + self.first - 1, end.column)


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
    #: Its own, unless it was read for another file.
    project: Project = field(default=None)  # type: ignore[assignment]
    #: Whether imports were followed through other files, see ``settle``.
    settled: bool = field(default=False, init=False)
    _answers: dict[object, Any] = field(default_factory=dict, init=False)
    #: The syntax of a text that this one differs little from.
    before: InitVar[Syntax | None] = None

    def __post_init__(self, before: Syntax | None) -> None:
        self.syntax = read(self.text) if before is None else before.revised(self.text)
        if not self.project:
            self.package = Project(self).package
        self.lines = self.syntax.lines
        #: Functions that take part in a custom derivative: "primal", "vjp" (forward and backward), "jvp".
        self.rules = self.syntax.rules
        self.imports: dict[str, str] = {}
        #: What everything public is imported from, the last first.
        self.stars: list[str] = []
        for statement in self.syntax.imports:
            star = starred(statement, self.package)
            if star is not None:
                self.stars.insert(0, canonical(star, self.aliases))
            for name, target in self.resolve(imported(statement, self.package)).items():
                if not (statement.col_offset and framework_of(self.imports.get(name, "")) and not framework_of(target)):
                    self.imports[name] = target
        self.blocks = [(statement, Block(self, chunk)) for statement, chunk in self.syntax.statements]
        self.definitions: dict[str, Definition] = {}
        for definition, block in self.blocks:
            for name in bound_names(definition):
                if not (definition.col_offset and self._is_second_choice(name, definition)):
                    self._keep_overload(name, definition)
                    self.definitions[name] = Definition(definition, block)
        functions = ((d.statement, name) for name, d in self.definitions.items())
        #: The name of every function in ``definitions``.
        self.names = {each: name for each, name in functions if isinstance(each, FUNCTION_DEFS)}
        self._starred: dict[str, str | None] = {}

    def once(self, question: Callable[..., Answer], *details: Hashable) -> Answer:
        """``question(module, *details)``, which is computed when it is first asked."""
        key = question, *details
        if key not in self._answers:
            self._answers[key] = question(self, *details)
        answer: Answer = self._answers[key]
        return answer

    @cached_property
    def source(self) -> Source:
        """The text, for places in it."""
        return Source(self.text)

    def named_beside(self, filename: str) -> str:
        """How the file is called where that is the name of one: like this, from the root or from here."""
        return self.filename if os.path.isabs(filename) else os.path.relpath(self.filename)

    @property
    def budget(self) -> Budget:
        """What may be spent on the file that is checked, whether it is this one or led here."""
        return self.project.budget

    def _keep_overload(self, name: str, statement: ast.stmt) -> None:
        """Keep a function that the next one of its name would replace: a dispatcher or an ``if`` may choose it."""
        known = self.definitions.get(name)
        if known is not None and isinstance(known.statement, FUNCTION_DEFS) and isinstance(statement, FUNCTION_DEFS):
            number = next(n for n in count(1) if f"{name}{OVERLOAD}{n}" not in self.definitions)
            self.definitions[f"{name}{OVERLOAD}{number}"] = known

    def _is_second_choice(self, name: str, statement: ast.stmt) -> bool:
        """Whether an assignment in an ``if`` or ``try`` stands in for a framework that was bound to the name before."""
        if not isinstance(statement, ast.Assign):
            return False
        known = self.definitions.get(name)
        if known is not None:
            return self._is_framework(known.statement) and not self._is_framework(statement)
        target = self.imports.get(name)
        missing = isinstance(statement.value, ast.Constant)  # `except ImportError: jnp = None`
        return target is not None and (missing or (bool(framework_of(target)) and not self._is_framework(statement)))

    def _is_framework(self, statement: ast.stmt) -> bool:
        """Whether a statement assigns a framework, or a part of one."""
        name = dotted(statement.value if isinstance(statement, ast.Assign) else None).partition(".")[0]
        return framework_of(self.imports.get(name, "")) is not None

    def target(self, name: str) -> str | None:
        """The dotted name that an import binds a name to, one of everything included."""
        if name in self.imports or not self.stars or name.startswith("_"):
            return self.imports.get(name)
        if name not in self._starred:
            self._starred[name] = None  # files that import everything from each other
            found = (f"{star}.{name}" for star in self.stars if self._has(star, name))
            self._starred[name] = next(found, None)
        return self._starred[name]

    def settle(self) -> None:
        """Have the imports that lead to a framework through other files of the project name it themselves."""
        self.settled = True
        self.imports.update({local: self._meaning(name) for local, name in self.imports.items()})

    def _meaning(self, name: str) -> str:
        """A dotted name; the framework's, if the project's files only re-export or rename that."""
        for _ in range(MOST_HOPS):
            found = self.project.find(name) if framework_of(name) is None else None
            target = found[0].alias(found[1][0]) if found is not None else None
            if found is None or target is None:
                break
            name = canonical(".".join([target, *found[1][1:]]), self.aliases)
        return name

    def alias(self, name: str) -> str | None:
        """The dotted name that a name of the file is another one for: it is imported, or assigned just that."""
        if name not in self.definitions:
            return self.target(name)
        statement = self.definitions[name].statement
        first, dot, rest = dotted(statement.value if isinstance(statement, ast.Assign) else None).partition(".")
        target = self.target(first) if first != name else None
        return target and target + dot + rest

    def class_of(self, expression: ast.expr) -> tuple[Module, ast.ClassDef] | None:
        """The class of the project that an expression names, and its file."""
        module, name = self, ast.unparse(expression)
        for _ in range(MOST_HOPS):
            definition = module.definitions.get(name)
            if definition is not None:
                return (module, definition.statement) if isinstance(definition.statement, ast.ClassDef) else None
            first, _, rest = name.partition(".")
            target = module.target(first)
            found = None if target is None else self.project.find(f"{target}.{rest}".rstrip("."))
            if found is None or framework_of(target or ""):
                return None
            module, name = found[0], ".".join(found[1])
        return None

    def _has(self, star: str, name: str) -> bool:
        if framework_of(star):
            return lookup(f"{star}.{name}") is not None or not hasattr(builtins, name)
        home = self.project.module(star)
        return home is not None and (name in home.definitions or home.target(name) is not None)

    def resolve(self, names: Mapping[str, str]) -> dict[str, str]:
        """Import targets in their canonical spelling."""
        return {local: self._host_numpy(name) or canonical(name, self.aliases) for local, name in names.items()}

    def _host_numpy(self, name: str) -> str | None:
        """``numpy.where`` for a name like ``pack.compat.numpy.where`` if that file of the project imports NumPy."""
        parent, found, rest = f"{name}.".partition(".numpy.")
        home = self.project.module(parent) if found else None
        return f"numpy.{rest}".rstrip(".") if home is not None and home.imports.get("numpy") == "numpy" else None

    @cached_property
    def inner_imports(self) -> list[tuple[str, str]]:
        """The names that imports of functions and classes bind, each with its target."""
        found = [self.resolve(imported(statement, self.package)) for statement in self.syntax.inner_imports]
        return [pair for names in found for pair in names.items()]

    def frameworks(self) -> list[str]:
        """The frameworks that any import of the file names, functions' own imports included."""
        names = [*self.imports.values(), *self.stars, *(target for _, target in self.inner_imports)]
        return list(dict.fromkeys(filter(None, map(framework_of, names))))


class Project:
    """Files of the package that the checked file belongs to, read when an import leads to them. Nothing is imported."""

    def __init__(self, module: Module) -> None:
        path = Path(module.filename).absolute()
        #: The package of the file itself, "" for a script.
        self._package, self.package = package(str(path.parent))
        self._top = Path(self._package).parent if self._package else path.parent
        self._root = os.path.realpath(project_root(path.parent) or self._top)
        self._first = self.package.partition(".")[0]
        #: The directory from which its folders are counted, "" for a script on its own.
        self.scope = str(project_root(path.parent) or self._package)
        self._aliases: Mapping[str, str] = module.aliases
        self.budget = Budget()
        self._modules: dict[str, Module | None] = {}
        #: The files that were looked at, each with its digest; "" where there is none that can be read.
        self.reads: dict[str, str] = {}
        #: The names whose files were asked for, and the directory that was searched for them.
        self.asked: set[tuple[str, str]] = set()
        dotted = ".".join(filter(None, (self.package, path.stem if path.stem != "__init__" else "")))
        if not module.filename.endswith(".ipynb"):  # nothing imports a notebook: a module beside it may have its name
            self._modules[dotted] = module
        self._checked = module
        module.project = self

    @property
    def opened(self) -> int:
        """How many files were opened so far."""
        return sum(module is not None for module in self._modules.values())

    def module(self, name: str) -> Module | None:
        """The file that a dotted name of a module means."""
        return self._load(name) if not self.package or name.split(".", 1)[0] == self._first else None

    def find(self, name: str) -> tuple[Module, list[str]] | None:
        """The file that defines a dotted name, and what is left of the name inside that file."""
        parts = name.split(".")
        if self.package and parts[0] != self._first:
            return None
        if self._load(name) is not None:
            return None  # a module of the project, not something inside one
        for length in range(len(parts) - 1, 0, -1):
            module = self._load(".".join(parts[:length]))
            if module is not None:
                return module, parts[length:]
        return None

    def revised(self, text: str) -> Module:
        """The checked file with another text, among the same other files. Raises SyntaxError."""
        Work.count(len(text) // _CHARACTERS)
        twin = copy(self)
        twin.budget = Budget()
        twin._modules = {name: module for name, module in self._modules.items() if module is not self._checked}
        old = self._checked
        made = Module(old.filename, text, old.aliases, old.package, twin, old.syntax)
        twin._modules.update({name: made for name, module in self._modules.items() if module is old})
        twin._checked = made
        if old.settled:
            made.settle()
        return made

    def mentioning(self, name: str) -> list[Module]:
        """The other files of the package that speak of a name; none where they are too many to follow."""
        if not self.package:
            return []
        found = self._speaking(name)
        if len(found) > self.budget.mentions:
            self.budget.give_up(f"the callers of `{name}` in other files", "too many files name it")
            return []
        return self._others(found)

    def users(self, name: str) -> list[Module]:
        """The other files of the project that speak of a name, scripts and tests too; none if they are too many."""
        self.asked.add((self.scope, name))
        found = texts(self.scope).speaking(name)
        opened = [self._at(path) for path in found] if len(found) <= self.budget.mentions else []
        return [module for module in opened if module is not None and module.filename != self._checked.filename]

    def is_spoken(self, name: str) -> bool:
        """Whether some file of the project speaks of a name."""
        self.asked.add((self.scope, name))
        return bool(texts(self.scope).speaking(name))

    def _at(self, path: str) -> Module | None:
        """A file of the project by its path."""
        home, dotted = package(os.path.dirname(path))
        name = ".".join(filter(None, (dotted, "" if path.endswith("__init__.py") else Path(path).stem)))
        if home == self._package:
            return self._load(name)
        if path not in self._modules:
            self._modules[path] = self._open(Path(path), dotted)
        return self._modules[path]

    def speaks(self, name: str) -> bool:
        """Whether some file of the package speaks of a name."""
        return bool(self.package) and bool(self._speaking(name))

    def _speaking(self, name: str) -> list[str]:
        self.asked.add((self._package, name))
        return texts(self._package).speaking(name)

    def _others(self, paths: list[str]) -> list[Module]:
        names = [".".join(Path(path).relative_to(self._top).with_suffix("").parts) for path in paths]
        loaded = [self._load(name.removesuffix(".__init__")) for name in names]
        return [module for module in loaded if module is not None and module is not self._checked]

    def _load(self, dotted: str) -> Module | None:
        if dotted not in self._modules:
            self._modules[dotted] = None  # a cycle of imports sees no file yet
            self._modules[dotted] = self._read(dotted)
        return self._modules[dotted]

    def _read(self, dotted: str) -> Module | None:
        stem = self._top.joinpath(*dotted.split("."))
        beside = self._open(stem.with_suffix(".py"), dotted.rpartition(".")[0])
        return self._open(stem / "__init__.py", dotted) if beside is None else beside

    def _open(self, path: Path, package: str) -> Module | None:
        self.reads[str(path)] = ""
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode) or leads_out(path, self._root):
                return None
            if status.st_size > self.budget.file_bytes:
                self.budget.give_up(f"what {path.name} defines", "the file is too large")
                return None
            text, self.reads[str(path)] = content(str(path), status.st_mtime_ns, status.st_size)
            return Module(str(path), text, self._aliases, package, self)
        except (OSError, SyntaxError, ValueError, RecursionError):
            return None  # a helper that cannot be read is a call that cannot be followed


def bound_names(statement: ast.stmt) -> list[str]:
    """The names that a definition or an assignment binds."""
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


def bases(module: Module, statement: ast.ClassDef) -> Iterator[tuple[Module, ast.ClassDef]]:
    """The bases of a class that the project defines, each with its file."""
    todo, seen = [(module, statement)], {statement}
    while todo:
        home, cls = todo.pop(0)
        for base in cls.bases:
            found = home.class_of(base.value if isinstance(base, ast.Subscript) else base)
            if found is not None and found[1] not in seen:
                seen.add(found[1])
                todo.append(found)
                yield found
