"""Which functions of a file can hold a finding at all, judged by ``ast`` alone, and which frameworks they reach.

Most files and functions are dismissed here, before NumPy is loaded or anything is lowered.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from wherelint.frameworks import FRAMEWORKS, framework_of
from wherelint.frontend import flow
from wherelint.frontend.module import Module, bases, bound_names
from wherelint.frontend.names import canonical, written
from wherelint.frontend.syntax import FUNCTION_DEFS, FunctionDef, Words, below, dotted, methods, named_methods
from wherelint.ops import words
from wherelint.ops.traits import BRANCHING, FINITE_TESTS, INDEXING, SELECTING, SELECTS, SINGULAR, TO_BOOL

#: One of these strings stands in every file that can hold a finding.
MARKERS = (*(m for f in FRAMEWORKS.values() for m in (*f.packages, *f.markers)), "array_namespace", ".numpy", "jnp.")
#: Opt-in rules that ask about every function, not just about those with a selection.
EVERYWHERE = frozenset({"WL305", "WL401", "WL402"})
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
_Name = TypeVar("_Name")


def speaks(text: str) -> bool:
    """Whether a text has a word that selects or is singular."""
    return not WORDS.isdisjoint(_WORD.findall(text))


def roots(module: Module, *, everything: bool = False) -> list[tuple[str, ...]]:
    """Qualified names of the functions and methods worth lowering, in file order (``everything``: of all of them)."""
    found = module.once(functions)
    if everything:
        return list(found)
    combining = _combining(module)
    chosen = ((name, each) for name, each in found.items() if name in combining or _is_interesting(each, module))
    return [name for name, each in chosen if meets(module, name, module, each)]


def meets(module: Module, name: tuple[str, ...], home: Module, function: ast.stmt) -> bool:
    """Whether a singular operation can reach a selection in a function, or in a method of the file ``home``."""
    cls = module.definitions[name[0]].statement
    return flow.meets(module, cls if isinstance(cls, ast.ClassDef) else None, home, function)


def functions(module: Module) -> dict[tuple[str, ...], ast.stmt]:
    """Every function and method by its qualified name, in file order; a lambda with a name if it is interesting."""
    found: dict[tuple[str, ...], ast.stmt] = {}
    for statement, _ in module.blocks:
        if isinstance(statement, FUNCTION_DEFS):
            found.setdefault((module.names.get(statement, statement.name),), statement)
        elif isinstance(statement, ast.ClassDef):
            for item, name in named_methods(statement).items():
                found.setdefault((statement.name, name), item)
        elif ast.Lambda in module.syntax.words(statement).kinds and _is_interesting(statement, module):
            names = (name for name, definition in module.definitions.items() if definition.statement is statement)
            found.update(((name,), statement) for name in names)
    return found


def _combining(module: Module) -> set[tuple[str, ...]]:
    """Functions and methods that bring together a selection of one helper and a singular operation of another."""
    refers: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    selects: set[tuple[str, ...]] = set()
    singular: set[tuple[str, ...]] = set()
    own = set[tuple[str, ...]]()
    for name, definition in module.definitions.items():
        statement = definition.statement
        inner = named_methods(statement) if isinstance(statement, ast.ClassDef) else {}
        own |= {(name,)} if isinstance(statement, FUNCTION_DEFS) else {(name, each) for each in inner.values()}
        for qualified, each in [((name,), statement), *(((name, called), item) for item, called in inner.items())]:
            words = module.syntax.words(each)
            refers[qualified] = {(n,) for n in _mentioned(words, module) if n in module.definitions and n != name}
            has_selection, has_singular = _kinds(words, module)
            selects |= {qualified} if has_selection else set()
            singular |= {qualified} if has_singular else set()
    found = set()
    for qualified in own if selects else ():
        if refers[qualified]:
            reached, is_complete = _reached(qualified, refers, module.budget.functions)
            chosen = reached & selects
            if not is_complete or (chosen and any(reached & singular - {c} for c in chosen)):
                found.add(qualified)
    return found


def _reached(start: _Name, refers: Mapping[_Name, set[_Name]], most: int) -> tuple[set[_Name], bool]:
    """What one thing leads to, itself included; whether that is all."""
    reached, todo = {start}, [start]
    while todo and len(reached) < most:
        fresh = refers[todo.pop()] - reached
        reached |= fresh
        todo += fresh
    return reached, not todo


def _kinds(words: Words, module: Module) -> tuple[bool, bool]:
    """Whether a statement has a selection, and whether it has something singular."""
    names = _mentioned(words, module)
    return bool(names & _SELECT) or _masks(words, names), bool(names & _SINGULAR or words.kinds & {ast.Div, ast.Pow})


def referring(module: Module, name: str) -> list[tuple[str, ...]]:
    """Functions and methods of the file that mention a name."""
    return [qualified for qualified in module.once(_mentions).get(name, ()) if written(qualified[-1]) != name]


def _mentions(module: Module) -> dict[str, list[tuple[str, ...]]]:
    """For every name in the file, seen through renaming imports, the functions and methods that mention it."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for qualified, statement in module.once(functions).items():
        for name in _seen(module.syntax.words(statement), module):
            found.setdefault(name, []).append(qualified)
    return found


def _seen(words: Words, module: Module) -> set[str]:
    """The names a statement mentions, each as its last part, seen through a renaming import."""
    return words.attributes | {module.imports.get(name, name).rpartition(".")[2] for name in words.names}


def _mentioned(words: Words, module: Module) -> set[str]:
    """The names a statement mentions, renamed ones by both."""
    return _seen(words, module) | words.imported | words.names


def _is_interesting(statement: ast.stmt, module: Module) -> bool:
    """Whether a function has something that can make a zero and, for the quiet kinds, something singular too."""
    words = module.syntax.words(statement)
    names = _seen(words, module) | words.imported
    if names & _SELECT or "where" in words.keywords:
        return True
    if not names & _SINGULAR and words.kinds.isdisjoint((ast.Div, ast.Pow, ast.Mod, ast.MatMult)):
        return False
    if ast.Subscript in words.kinds or names & _PICK or _masks(words, names):
        return True
    return _multiplies(words, names) and any(_is_constant(name, module) for name in words.names)


def _multiplies(words: Words, names: set[str]) -> bool:
    return ast.Mult in words.kinds or not names.isdisjoint(_PRODUCT)


def _masks(words: Words, names: set[str]) -> bool:
    """Whether there is a product, and something that makes booleans."""
    return _multiplies(words, names) and (ast.Compare in words.kinds or not names.isdisjoint(_BOOLEAN))


def _is_constant(name: str, module: Module) -> bool:
    """Whether a name is a constant of the file."""
    definition = module.definitions.get(module.imports.get(name, name).rpartition(".")[2])
    return definition is not None and isinstance(definition.statement, (ast.Assign, ast.AnnAssign))


def inherited(module: Module) -> list[tuple[str, str]]:
    """Each class of a file with a method that it inherits and that what it defines itself may make singular.

    A subclass gives it something else to call or read, so that it is worth lowering once more.
    """
    found = []
    for statement, _ in module.blocks:
        if isinstance(statement, ast.ClassDef) and statement.bases:
            selects, singular = _kinds_with_helpers(module, statement)
            if selects or singular:
                found += [(statement.name, name) for name in _affected(module, statement, selects, singular)]
    return list(dict.fromkeys(found))


def _kinds_with_helpers(module: Module, statement: ast.stmt) -> tuple[bool, bool]:
    """What ``_kinds`` tells of a statement together with the functions of its file that it names."""
    words = module.syntax.words(statement)
    named = [module.definitions[name].statement for name in words.names & module.definitions.keys()]
    helpers = [module.syntax.words(each) for each in named if isinstance(each, ast.FunctionDef)]
    selects, singular = zip(*(_kinds(each, module) for each in (words, *helpers)), strict=True)
    return any(selects), any(singular)


def _affected(module: Module, statement: ast.ClassDef, selects: bool, singular: bool) -> Iterator[str]:
    """The inherited methods that read something of a class, and with it bring something singular to a selection."""
    defined = {name for item in statement.body for name in bound_names(item)} - {"__init__"}
    nodes = (node for node in ast.walk(statement) if isinstance(node, ast.Attribute))
    defined |= {node.attr for node in nodes if isinstance(node.ctx, ast.Store)}
    kinds: dict[str, tuple[bool, bool]] = {}
    found: dict[str, tuple[Module, FunctionDef]] = {}
    reads: dict[str, set[str]] = {}
    for home, base in bases(module, statement):
        for method in methods(base):
            if method.name not in defined and method.name not in kinds:
                kinds[method.name], found[method.name] = _kinds_with_helpers(home, method), (home, method)
                reads[method.name] = home.syntax.words(method).attributes
    calls = {name: attributes & kinds.keys() for name, attributes in reads.items()}
    for name in kinds:
        reached = _reached(name, calls, len(calls) + 1)[0] if name != "__init__" else set()
        both = [any(each) for each in zip((selects, singular), *(kinds[each] for each in reached), strict=True)]
        affects = all(both) and any(reads[each] & defined for each in reached)
        if affects and any(meets(module, (statement.name, each), *found[each]) for each in reached):
            yield name


def heirs(module: Module, name: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The classes of a file that inherit a method of one of them, each with the method."""
    for statement, _ in module.blocks:
        if not isinstance(statement, ast.ClassDef) or any(m.name == name[-1] for m in methods(statement)):
            continue
        if any(home is module and base.name == name[0] for home, base in bases(module, statement)):
            yield statement.name, name[-1]


class Reach:
    """Which frameworks the names of a file lead to: through renamed modules, re-exports, wrappers of its project.

    Files are opened as imports lead to them; none is imported.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self._known: dict[tuple[str, str], list[str]] = {}
        self._left = module.budget.files
        #: Whether something was not followed since that would take too many files.
        self.spent = False

    def frameworks(self, names: Iterable[tuple[str, ...]], words: frozenset[str]) -> list[str]:
        """The frameworks that some functions of the file reach, first by the calls whose names are among ``words``."""
        known = self._module.once(functions)
        statements = [known.get(name) or self._module.definitions[name[0]].statement for name in names]
        nodes = (node for statement in statements for node in below([statement]))
        dotted_names = [dotted(node).split(".") for node in nodes if isinstance(node, (ast.Attribute, ast.Name))]
        for chosen in ([each for each in dotted_names if each[-1] in words], dotted_names):
            found = [f for root, *rest in map(tuple, chosen) for f in self._of(self._module, root, rest)]
            if found:
                return list(dict.fromkeys(found))
        return []

    def _of(self, module: Module, name: str, rest: list[str]) -> list[str]:
        """The frameworks that a name of a file's top level leads to, with the attributes ``rest``."""
        target = None if name in module.definitions else module.target(name)
        if target is not None:
            return self._behind(module, ".".join([target, *rest]))
        key = module.filename, name
        if key not in self._known and name in module.definitions:
            self._known[key] = []  # a circle leads nowhere
            words = module.syntax.words(module.definitions[name].statement)
            found = [f for each in sorted(words.names - {name}) for f in self._of(module, each, [])]
            own = [] if words.kinds.isdisjoint((ast.Import, ast.ImportFrom)) else module.frameworks()
            self._known[key] = list(dict.fromkeys([*found, *own]))
        return self._known.get(key, [])

    def _behind(self, module: Module, name: str) -> list[str]:
        """The frameworks that a dotted name leads to."""
        framework = framework_of(canonical(name, module.aliases))
        if framework is not None or self.spent:
            return [] if framework is None else [framework]
        key = "", name
        if key not in self._known:
            self._known[key] = []
            before = module.project.opened
            found = module.project.find(name)
            self._left -= module.project.opened - before
            self.spent = self._left < 0
            if found is not None:
                home, (first, *rest) = found
                self._known[key] = self._of(home, first, rest)
        return self._known[key]
