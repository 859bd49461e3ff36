"""Which functions of a file can hold a finding at all, judged by ``ast`` alone, and which frameworks they reach.

Most files and functions are dismissed here, before NumPy is loaded or anything is lowered.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator

from wherelint.frameworks import FRAMEWORKS, framework_of
from wherelint.frontend.module import MOST_HOPS, Module
from wherelint.frontend.names import canonical, written
from wherelint.frontend.syntax import Words, children, methods, named_methods
from wherelint.ops import words
from wherelint.ops.traits import BRANCHING, FINITE_TESTS, INDEXING, SELECTING, SELECTS, SINGULAR, TO_BOOL

#: One of these strings stands in every file that can hold a finding.
MARKERS = (*(m for f in FRAMEWORKS.values() for m in (*f.packages, *f.markers)), "array_namespace", ".numpy")
#: Opt-in rules that ask about every function, not just about those with a selection.
CUTS = frozenset({"WL401", "WL402"})
#: What a statement says that selects, is singular, makes booleans, or multiplies.
_SELECT = (words(SELECTS) | SELECTING).difference(dir(builtins))
#: What selects only beside something singular: an index, words of Python itself, what an arm alone reads.
_PICK = words(SELECTS) - _SELECT | {*INDEXING, *BRANCHING}
_SINGULAR = words(SINGULAR) | words(FINITE_TESTS)
_BOOLEAN = words(TO_BOOL)
_PRODUCT = words({"multiply"})
#: One of these words stands in every file that names no framework and can hold a finding.
WORDS = _SELECT | _PICK | _SINGULAR
_WORD = re.compile(r"[^\W\d]\w*")


def speaks(text: str) -> bool:
    """Whether a text has a word that selects or is singular."""
    return not WORDS.isdisjoint(_WORD.findall(text))


def roots(module: Module, *, everything: bool = False) -> list[tuple[str, ...]]:
    """Qualified names of the functions and methods worth lowering, in file order (``everything``: of all of them)."""
    found: list[tuple[str, ...]] = []
    combining = set() if everything else _combining(module)
    for statement, _ in module.blocks:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            name = module.names.get(statement, statement.name)
            if everything or (name,) in combining or interesting(statement, module):
                found.append((name,))
        elif isinstance(statement, ast.ClassDef):
            named = (
                (statement.name, called)
                for item, called in named_methods(statement).items()
                if everything or (statement.name, called) in combining or interesting(item, module)
            )
            found += named
        elif ast.Lambda in module.syntax.words(statement).kinds and interesting(statement, module):
            found += [(name,) for name in module.definitions if module.definitions[name].statement is statement]
    return list(dict.fromkeys(found))


def _combining(module: Module) -> set[tuple[str, ...]]:
    """Functions and methods that bring together a selection of one helper and a singular operation of another."""
    refers: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    selects: set[tuple[str, ...]] = set()
    singular: set[tuple[str, ...]] = set()
    for name, definition in module.definitions.items():
        inner = named_methods(definition.statement) if isinstance(definition.statement, ast.ClassDef) else {}
        items = [((name,), definition.statement), *(((name, called), item) for item, called in inner.items())]
        for qualified, statement in items:
            said = module.syntax.words(statement)
            names = _mentioned(said, module)
            refers[qualified] = {(n,) for n in names if n in module.definitions and n != name}
            has_selection, has_singular = kinds(said, module)
            if has_selection:
                selects.add(qualified)
            if has_singular:
                singular.add(qualified)
    if not selects:
        return set()
    found = set()
    for qualified, referred in refers.items():
        statement = module.definitions[qualified[0]].statement
        if referred and (len(qualified) > 1 or isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)):
            reached, todo = {qualified}, [qualified]
            while todo and len(reached) < module.budget.functions:
                fresh = refers[todo.pop()] - reached
                reached |= fresh
                todo += fresh
            chosen = reached & selects
            if todo or (chosen and any(reached & singular - {c} for c in chosen)):  # some were not followed: search it
                found.add(qualified)
    return found


def kinds(said: Words, module: Module) -> tuple[bool, bool]:
    """Whether something that was said has a selection, and whether it has something singular."""
    names = _mentioned(said, module)
    return bool(names & _SELECT) or _masks(said, names), bool(names & _SINGULAR or said.kinds & {ast.Div, ast.Pow})


def referring(module: Module, name: str) -> list[tuple[str, ...]]:
    """Functions and methods of the file that mention a name."""
    if mentions not in module.kept:
        module.kept[mentions] = mentions(module)
    return [qualified for qualified in module.kept[mentions].get(name, ()) if written(qualified[-1]) != name]


def mentions(module: Module) -> dict[str, list[tuple[str, ...]]]:
    """For every name in the file, seen through renaming imports, the functions and methods that mention it."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for qualified in roots(module, everything=True):
        statement: ast.stmt = module.definitions[qualified[0]].statement
        if len(qualified) > 1 and isinstance(statement, ast.ClassDef):
            statement = next(item for item, called in named_methods(statement).items() if called == qualified[1])
        for name in _seen(module.syntax.words(statement), module):
            found.setdefault(name, []).append(qualified)
    return found


def _seen(said: Words, module: Module) -> set[str]:
    """The names a statement mentions, each as its last part, seen through a renaming import."""
    return said.attributes | {module.imports.get(name, name).rpartition(".")[2] for name in said.names}


def _mentioned(said: Words, module: Module) -> set[str]:
    """The names a statement mentions, renamed ones by both."""
    return _seen(said, module) | said.imported | said.names


def interesting(statement: ast.stmt, module: Module) -> bool:
    """Whether a function has something that can make a zero and, for the quiet kinds, something singular too."""
    said = module.syntax.words(statement)
    names = _seen(said, module) | said.imported
    if names & _SELECT or "where" in said.keywords:
        return True
    if not names & _SINGULAR and said.kinds.isdisjoint((ast.Div, ast.Pow, ast.Mod, ast.MatMult)):
        return False
    if ast.Subscript in said.kinds or names & _PICK or _masks(said, names):
        return True
    return _multiplies(said, names) and any(_is_assigned(name, module) for name in said.names)


def _multiplies(said: Words, names: set[str]) -> bool:
    return ast.Mult in said.kinds or not names.isdisjoint(_PRODUCT)


def _masks(said: Words, names: set[str]) -> bool:
    """Whether there is a product, and something that makes booleans."""
    return _multiplies(said, names) and (ast.Compare in said.kinds or not names.isdisjoint(_BOOLEAN))


def _is_assigned(name: str, module: Module) -> bool:
    """Whether a name is a constant of the file."""
    definition = module.definitions.get(module.imports.get(name, name).rpartition(".")[2])
    return definition is not None and isinstance(definition.statement, (ast.Assign, ast.AnnAssign))


def inherited(module: Module) -> list[tuple[str, str]]:
    """Each class of a file with a method that it inherits and that what it defines itself may make singular."""
    found = []
    for statement, _ in module.blocks:
        if isinstance(statement, ast.ClassDef) and statement.bases:
            own = _Told(module, statement)
            if own.selects or own.singular:
                found += [(statement.name, name) for name in _affected(module, statement, own)]
    return list(dict.fromkeys(found))


def heirs(module: Module, name: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The classes of a file that inherit a method of one of them, each with the method."""
    for statement, _ in module.blocks:
        if not isinstance(statement, ast.ClassDef) or any(m.name == name[-1] for m in methods(statement)):
            continue
        if any(home is module and base.name == name[0] for home, base in bases(module, statement)):
            yield statement.name, name[-1]


def bases(module: Module, statement: ast.ClassDef) -> Iterator[tuple[Module, ast.ClassDef]]:
    """The bases of a class that the project defines, each with its file."""
    todo, seen = [(module, statement)], {statement}
    while todo:
        home, cls = todo.pop(0)
        for base in cls.bases:
            found = _class(home, base.value if isinstance(base, ast.Subscript) else base)
            if found is not None and found[1] not in seen:
                seen.add(found[1])
                todo.append(found)
                yield found


class _Told:
    """What a statement, and the functions of its file that it names, say of selections and singular operations."""

    def __init__(self, module: Module, statement: ast.stmt) -> None:
        said = module.syntax.words(statement)
        self.reads = said.attributes
        around = [module.definitions[name].statement for name in said.names & module.definitions.keys()]
        functions = [module.syntax.words(s) for s in around if isinstance(s, ast.FunctionDef)]
        told = [kinds(words, module) for words in (said, *functions)]
        self.selects, self.singular = any(selects for selects, _ in told), any(singular for _, singular in told)


def _affected(module: Module, statement: ast.ClassDef, own: _Told) -> Iterator[str]:
    """The inherited methods that read something of a class, and with it have a selection and something singular."""
    defined = _defined(statement)
    known: dict[str, _Told] = {}
    for home, base in bases(module, statement):
        for method in methods(base):
            if method.name not in defined and method.name not in known:
                known[method.name] = _Told(home, method)
    for name in known:
        if name != "__init__":
            reached = _reached(name, known)
            told = [own, *(known[each] for each in reached)]
            if any(known[each].reads & defined for each in reached) and (
                any(each.selects for each in told) and any(each.singular for each in told)
            ):
                yield name


def _reached(name: str, known: dict[str, _Told]) -> set[str]:
    """The inherited methods that one of them leads to."""
    reached, todo = {name}, [name]
    while todo:
        fresh = (known[todo.pop()].reads & known.keys()) - reached
        reached |= fresh
        todo += fresh
    return reached


def _defined(statement: ast.ClassDef) -> set[str]:
    """The attributes of a class and of its objects that the class itself assigns."""
    names = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
    for item in statement.body:
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names.add(item.name)
        elif isinstance(item, (ast.Assign, ast.AnnAssign)):
            targets = item.targets if isinstance(item, ast.Assign) else [item.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names - {"__init__"}


def _class(module: Module, base: ast.expr) -> tuple[Module, ast.ClassDef] | None:
    """The class of the project that an expression names, and its file."""
    name = ast.unparse(base)
    for _ in range(MOST_HOPS):
        definition = module.definitions.get(name)
        if definition is not None:
            return (module, definition.statement) if isinstance(definition.statement, ast.ClassDef) else None
        first, _, rest = name.partition(".")
        target = module.target(first)
        if target is None or framework_of(target):
            return None
        found = module.project.find(f"{target}.{rest}".rstrip("."))
        if found is None:
            return None
        module, name = found[0], ".".join(found[1])
    return None


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
