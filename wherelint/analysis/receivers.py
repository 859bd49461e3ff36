"""Which method a call means, where several classes have one of its name: by its receiver and by its arguments."""

import ast
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import NamedTuple

from wherelint.frontend.module import Module
from wherelint.frontend.syntax import FUNCTION_DEFS, FunctionDef, methods
from wherelint.interpret.annotations import dotted, last_name

Path = tuple[ast.AST, ...]

#: Python's own containers, by what makes one.
_CONTAINERS = frozenset("Counter OrderedDict defaultdict deque dict list set".split())
#: Decorators that leave a method the arguments that it has.
_PLAIN = frozenset({"staticmethod", "classmethod", "abstractmethod"})
_DISPLAYS = (ast.Dict, ast.DictComp, ast.List, ast.ListComp, ast.Set, ast.SetComp)


class Use(NamedTuple):
    """A place that speaks of a function: the file, and what the name stands in, outermost first."""

    module: Module
    path: Path


class Receivers:
    """What places that end in the name of a method can mean by it."""

    def __init__(self, module: Module, name: tuple[str, ...], classes: Mapping[str, ast.ClassDef]) -> None:
        self._module = module
        self._last = name[-1]
        self._classes = classes
        self._own = classes.get(name[0])
        self._method = method_of(module, name)
        others = [s for s in classes.values() if any(item.name == self._last for item in methods(s))]
        self._families = {s.name: _family(s, classes) for s in others}

    def meant(self, uses: Iterable[Use]) -> list[Use] | None:
        """The places that may mean the method; None where that is not known.

        Where a class that has nothing to do with it has such a method as well, only those of a file that imports
        something of the method's file are sure to.
        """
        ambiguous = bool(self._families) and not set.intersection(*self._families.values())
        found = []
        for use in uses:
            near = not ambiguous or self._is_near(use)
            if not self._means_another(use):
                if not near:
                    return None
                found.append(use)
        return found

    def _means_another(self, use: Use) -> bool:
        call = use.path[-2] if len(use.path) > 1 else None
        node = use.path[-1]
        if not isinstance(node, ast.Attribute):
            return False
        if isinstance(call, ast.Call) and call.func is node and self._method and not accepts(self._method, call):
            return True
        if _of_container(node.value, use):
            return True
        if _is_self(node.value, use) and isinstance(use.path[0], ast.ClassDef):
            around, own = use.path[0], self._own
            if own is None or around.name not in self._families:
                return False  # it inherits the method, or is mixed into what has it
            return own.name not in self._families[around.name] and around.name not in _family(own, self._classes)
        return False

    def _is_near(self, use: Use) -> bool:
        """Whether a file is the method's own, or imports something of it."""
        if use.module is self._module:
            return True
        stem = PurePath(self._module.filename).stem
        said = [*imports(use.module).values(), *use.module.stars]
        return any(stem in name.split(".") for name in said)


def accepts(function: FunctionDef, call: ast.Call) -> bool:
    """Whether the arguments of a call on an object, or on its class, are those that a method takes."""
    given = [each for each in call.args if not isinstance(each, ast.Starred)]
    open_ended = len(given) < len(call.args)
    keywords = [each.arg for each in call.keywords]
    own = function.args
    names = [each.arg for each in (*own.posonlyargs, *own.args)]
    static = any(last_name(each) == "staticmethod" for each in function.decorator_list)
    if not _PLAIN.issuperset(map(last_name, function.decorator_list)):
        return True  # a decorator may change what it takes
    by_class = isinstance(call.func, ast.Attribute) and last_name(call.func.value)[:1].isupper()
    if own.vararg is None and len(given) > len(names) - (not static and not by_class):
        return False
    if own.kwarg is None and any(each and each not in {*names, *(a.arg for a in own.kwonlyargs)} for each in keywords):
        return False
    required = len(names) - len(own.defaults) - (not static)
    return open_ended or None in keywords or len(given) + len(keywords) >= required


def needs_arguments(function: FunctionDef) -> bool:
    """Whether a method cannot be called on an object without an argument."""
    return not accepts(function, ast.Call(ast.Name("f"), [], []))


def method_of(module: Module, name: tuple[str, ...]) -> FunctionDef | None:
    """The method of a class of a file that a qualified name means."""
    known = module.definitions.get(name[0])
    statement = known.statement if known is not None else None
    found = methods(statement) if isinstance(statement, ast.ClassDef) else iter(())
    return next((item for item in found if item.name == name[-1]), None)


def imports(module: Module) -> Mapping[str, str]:
    """What the imports of a file bind, those in functions, too."""
    return ChainMap(module.imports, dict(module.inner_imports))


def target_of(name: ast.AST, module: Module) -> str | None:
    """The dotted name that a name, or one in dots, has where it is imported from; None where it is not imported."""
    first, _, rest = dotted(name).partition(".")
    target = imports(module).get(first)
    return target if target is None else f"{target}.{rest}".rstrip(".")


def named(node: ast.AST) -> str:
    """The last part of what is named, or called."""
    return last_name(node.func if isinstance(node, ast.Call) else node)


def _family(statement: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> set[str]:
    """The names of a class and of those that it inherits from."""
    family, todo = set[str](), [statement]
    while todo:
        each = todo.pop()
        bases = set(map(named, each.bases)) - family
        family |= {each.name, *bases}
        todo += [classes[name] for name in bases & classes.keys()]
    return family - {"", "object", "ABC", "Module"}


def _is_self(node: ast.AST, use: Use) -> bool:
    """Whether an expression is the receiver of the method around it."""
    around = next((n for n in use.path if isinstance(n, FUNCTION_DEFS)), None)
    first = next((a.arg for a in (*around.args.posonlyargs, *around.args.args)), "") if around is not None else ""
    return isinstance(node, ast.Name) and node.id == first and first in ("self", "cls")


def _of_container(node: ast.AST, use: Use) -> bool:
    """Whether all that a variable, or an attribute of ``self``, is set to is one of Python's own containers."""
    around: ast.AST | None
    if isinstance(node, ast.Name):
        around = next((n for n in reversed(use.path) if isinstance(n, FUNCTION_DEFS)), None)
    elif isinstance(node, ast.Attribute) and _is_self(node.value, use):
        around = use.path[0]
    else:
        return isinstance(node, _DISPLAYS)
    values = list(_set_to(around, node)) if around is not None else []
    return bool(values) and all(map(_makes_container, values))


def _set_to(around: ast.AST, target: ast.Name | ast.Attribute) -> Iterator[ast.expr | None]:
    """What a variable, or an attribute of ``self``, is set to; None where that is not known."""
    for each in ast.walk(around):
        if isinstance(each, (ast.Assign, ast.AnnAssign)):
            for place in each.targets if isinstance(each, ast.Assign) else [each.target]:
                if isinstance(place, (ast.Tuple, ast.List)):
                    if any(_is_same(part, target) for part in place.elts):
                        yield None
                elif _is_same(place, target):
                    yield each.value
        elif isinstance(each, (ast.For, ast.comprehension)):
            if _is_same(each.target, target):
                yield None
        elif isinstance(each, ast.arg) and isinstance(target, ast.Name) and each.arg == target.id:
            yield None


def _is_same(node: ast.AST, target: ast.Name | ast.Attribute) -> bool:
    if isinstance(target, ast.Name):
        return isinstance(node, ast.Name) and node.id == target.id
    return isinstance(node, ast.Attribute) and node.attr == target.attr and isinstance(node.value, ast.Name)


def _makes_container(value: ast.expr | None) -> bool:
    return isinstance(value, _DISPLAYS) or (isinstance(value, ast.Call) and named(value) in _CONTAINERS)
