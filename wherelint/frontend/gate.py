"""The cheap gate: which functions of a file can hold a finding at all, judged by ``ast`` alone."""

import ast
import builtins
import re

from wherelint.frameworks import FRAMEWORKS
from wherelint.frontend.module import Module
from wherelint.frontend.names import written
from wherelint.frontend.syntax import Words, named_methods
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
