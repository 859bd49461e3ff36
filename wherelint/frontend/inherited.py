"""Inherited methods that a subclass gives something else to call or read: they are worth lowering once more."""

import ast
from collections.abc import Iterator

from wherelint.frameworks import framework_of
from wherelint.frontend import gate
from wherelint.frontend.module import MOST_HOPS, Module
from wherelint.frontend.syntax import methods


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
        told = [gate.kinds(words, module) for words in (said, *functions)]
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
