"""What the callers of a function hand to its parameters: whether a gradient comes back through it, which numbers.

A call hands on no gradient where its argument is a constant, a setting, given data, a buffer, detached, or computed
from nothing but such things; what a caller was handed itself is looked for among its own callers.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

from wherelint.analysis import places
from wherelint.analysis.receivers import Path, Use, method_of, named, target_of
from wherelint.analysis.words import words_of
from wherelint.frameworks import framework_of
from wherelint.frontend.module import Module
from wherelint.frontend.syntax import FUNCTION_DEFS, FunctionDef
from wherelint.graph.occurrence import is_configured
from wherelint.interpret.annotations import annotation_kind, dotted, is_number

#: What makes an array of nothing that is differentiated.
_MAKES = frozenset(
    """arange empty empty_like eye full full_like len linspace logspace meshgrid new_empty new_full new_ones new_zeros
    normal_ numel ones ones_like rand rand_like randint randn randn_like size uniform_ zeros zeros_like""".split()
)
#: What an array says of itself without its elements.
_PLAIN = frozenset("data device dtype itemsize ndim shape size".split())
#: Methods that compute nothing: what else they are given is a shape or a dtype.
_SHAPES = frozenset(
    "astype expand flatten permute repeat reshape squeeze swapaxes to transpose type unsqueeze view".split()
)
_CALLERS = 3


class Uses(Protocol):
    """Where the functions of a project are used."""

    def uses(self, module: Module, name: tuple[str, ...]) -> Sequence[Use] | None:
        """The places that speak of a function; None where they are not known."""

    def cuts(self, path: Path) -> bool:
        """Whether no gradient comes back from the last part of a path."""


class Arguments:
    """What a project's calls hand to the parameters of its functions."""

    def __init__(self, uses: Uses) -> None:
        self._uses = uses
        self._known: dict[tuple[str, tuple[str, ...], str], bool] = {}

    def without_gradient(self, module: Module, name: tuple[str, ...], parameters: Collection[str]) -> bool:
        """Whether a function is called, and no call hands it what is differentiated for one of some parameters."""
        return bool(parameters) and all(self._without(module, name, each, _CALLERS) for each in parameters)

    def numbers(self, module: Module, name: tuple[str, ...], parameter: str) -> list[float]:
        """The numbers that all calls hand to a parameter; none where some call hands something else."""
        found: list[float] = []
        default = _default(_definition(module, name), parameter)
        for _, value in self._handed(module, name, parameter) or ():
            number = _number(default if value is None else value)
            if number is None:
                return []
            found.append(number)
        return found

    def _without(self, module: Module, name: tuple[str, ...], parameter: str, depth: int) -> bool:
        key = module.filename, name, parameter
        if key not in self._known:
            self._known[key] = False
            handed = self._handed(module, name, parameter) if depth else None
            self._known[key] = bool(handed) and all(
                value is None or self._uses.cuts(use.path) or self._is_constant(value, use, depth)
                for use, value in handed or ()
            )
        return self._known[key]

    def _handed(
        self, module: Module, name: tuple[str, ...], parameter: str
    ) -> list[tuple[Use, ast.expr | None]] | None:
        """What every use of a function hands to a parameter, None for its default; None where some is not known."""
        function = _definition(module, name)
        own = [arg.arg for arg in _parameters(function)] if function is not None else []
        if function is None or parameter not in own or parameter in ("self", "cls"):
            return None
        found: list[tuple[Use, ast.expr | None]] = []
        for use in self._uses.uses(module, name) or ():
            call = use.path[-2] if len(use.path) > 1 else None
            if not isinstance(call, ast.Call) or (
                call.func is not use.path[-1] and not _is_partial(call, use.path[-1])
            ):
                return None
            value = _argument(function, call, parameter, bound=len(name) > 1 and _is_bound(function, use, name[0]))
            if isinstance(value, ast.Starred):
                return None
            found.append((use, value))
        return found

    def _is_constant(self, value: ast.expr, use: Use, depth: int) -> bool:
        """Whether no gradient comes back through an expression."""
        return self._plain(value, use, depth, frozenset())

    def _plain(self, node: ast.expr, use: Use, depth: int, seen: frozenset[str]) -> bool:
        if isinstance(node, (ast.Constant, ast.Compare, ast.JoinedStr)):
            return True
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            said = ast.unparse(node)
            if words_of(said) & places.DATA or is_configured(said):
                return True
        if isinstance(node, ast.Name):
            return self._name(node.id, use, depth, seen)
        if isinstance(node, ast.Attribute):
            return node.attr in _PLAIN or self._attribute(node, use) or self._plain(node.value, use, depth, seen)
        if isinstance(node, ast.Call):
            return self._call(node, use, depth, seen)
        if isinstance(node, ast.Lambda):
            return False
        inner = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
        return bool(inner) and all(self._plain(each, use, depth, seen) for each in inner)

    def _call(self, node: ast.Call, use: Use, depth: int, seen: frozenset[str]) -> bool:
        if named(node) in _MAKES or self._uses.cuts((node, node.func)):
            return True
        if isinstance(node.func, ast.Attribute) and node.func.attr in _SHAPES:
            return self._plain(node.func.value, use, depth, seen)
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        if not _is_function(use.module, node.func):  # what is called may hold parameters of its own
            if not isinstance(node.func, ast.Attribute) or dotted(node.func).partition(".")[0] in ("self", "cls"):
                return False
            given.append(node.func.value)
        return bool(given) and all(self._plain(each, use, depth, seen) for each in given)

    def _name(self, name: str, use: Use, depth: int, seen: frozenset[str]) -> bool:
        if name in seen:
            return True  # whatever else it is set to decides
        functions = [node for node in use.path if isinstance(node, FUNCTION_DEFS)]
        for place, function in enumerate(reversed(functions)):
            parameter = next((arg for arg in _parameters(function) if arg.arg == name), None)
            values = list(self._set_to(function, name))
            if parameter is not None:
                outermost = place == len(functions) - 1
                if not _is_number(parameter, use.module) and not (outermost and self._caller(use, name, depth)):
                    return False
                return all(v is not None and self._plain(v, use, depth, seen | {name}) for v in values)
            if values:
                return all(v is not None and self._plain(v, use, depth, seen | {name}) for v in values)
        known = use.module.definitions.get(name)
        return (
            known is not None and isinstance(known.statement, ast.Assign) and _number(known.statement.value) is not None
        )

    def _set_to(self, function: ast.AST, name: str) -> Iterator[ast.expr | None]:
        """What a variable of a function is set to; None where more than an expression says it.

        What is computed under ``no_grad`` is a constant.
        """
        withs = (node for node in ast.walk(function) if isinstance(node, (ast.With, ast.AsyncWith)))
        cut = {each for node in withs if self._uses.cuts((node, node.body[0])) for each in ast.walk(node)}
        for node in ast.walk(function):
            value: ast.expr | None = None
            targets: list[ast.expr] = []
            if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
                targets, value = node.targets if isinstance(node, ast.Assign) else [node.target], node.value
            elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
                targets, value = [node.target], node.iter
            elif isinstance(node, ast.withitem) and node.optional_vars is not None:
                targets = [node.optional_vars]
            if any(_binds(target, name) for target in targets):
                yield ast.Constant(None) if node in cut else value

    def _caller(self, use: Use, parameter: str, depth: int) -> bool:
        named_nodes = [n.name for n in use.path if isinstance(n, (ast.ClassDef, *FUNCTION_DEFS))]
        name = tuple(named_nodes[: 2 if isinstance(use.path[0], ast.ClassDef) else 1])
        return self._without(use.module, name, parameter, depth - 1)

    def _attribute(self, node: ast.Attribute, use: Use) -> bool:
        """Whether an attribute is a buffer of the class around."""
        around = use.path[0]
        if not isinstance(around, ast.ClassDef) or not isinstance(node.value, ast.Name) or node.value.id != "self":
            return False
        return any(
            isinstance(each, ast.Call) and named(each) == "register_buffer" and each.args
            and isinstance(each.args[0], ast.Constant) and each.args[0].value == node.attr
            for each in ast.walk(around)
        )  # fmt: skip


def _is_function(module: Module, called: ast.expr) -> bool:
    """Whether what is called computes with its arguments alone: a framework's function, or one of the project."""
    target = target_of(called, module)
    if target is not None and framework_of(target) is not None:
        return True
    if isinstance(called, ast.Name) and called.id in module.definitions:
        return isinstance(module.definitions[called.id].statement, FUNCTION_DEFS)
    found = module.project.find(target) if target is not None else None
    return found is not None and len(found[1]) == 1 and _definition(found[0], tuple(found[1])) is not None


def _definition(module: Module, name: tuple[str, ...]) -> FunctionDef | None:
    if len(name) > 1:
        return method_of(module, name)
    known = module.definitions.get(name[0])
    return known.statement if known is not None and isinstance(known.statement, FUNCTION_DEFS) else None


def _is_bound(function: FunctionDef, use: Use, owner: str) -> bool:
    """Whether a call of a method leaves its first parameter to the object."""
    node = use.path[-1]
    by_class = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == owner
    return not by_class and not any(named(each) == "staticmethod" for each in function.decorator_list)


def _argument(function: FunctionDef, call: ast.Call, parameter: str, *, bound: bool) -> ast.expr | None:
    """The argument for a parameter, None where it is left out; a starred one, where it may be in that."""
    names = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)][bound:]
    if named(call) == "partial":
        given = [keyword.value for keyword in call.keywords if keyword.arg == parameter]
        return given[0] if given else ast.Starred(call)  # it may be handed later
    before = call.args[: names.index(parameter) + 1] if parameter in names else []
    for each in before:
        if isinstance(each, ast.Starred):
            return each
    if parameter in names and len(before) > names.index(parameter):
        return before[-1]
    for keyword in call.keywords:
        if keyword.arg == parameter:
            return keyword.value
    rest = [keyword.value for keyword in call.keywords if keyword.arg is None]
    settings = all(is_configured(f"{ast.unparse(each)}.{parameter}") for each in rest)
    return None if settings else ast.Starred(rest[0])


def _is_partial(call: ast.Call, node: ast.AST) -> bool:
    return named(call) == "partial" and call.args[:1] == [node]


def _parameters(function: FunctionDef) -> list[ast.arg]:
    own = function.args
    return [*own.posonlyargs, *own.args, *own.kwonlyargs, *filter(None, (own.vararg, own.kwarg))]


def _default(function: FunctionDef | None, parameter: str) -> ast.expr | None:
    if function is None:
        return None
    own = function.args
    names = [arg.arg for arg in (*own.posonlyargs, *own.args)]
    known = dict(zip(reversed(names), reversed(own.defaults), strict=False))
    only = {arg.arg: value for arg, value in zip(own.kwonlyargs, own.kw_defaults, strict=True) if value is not None}
    return known.get(parameter, only.get(parameter))


def _is_number(parameter: ast.arg, module: Module) -> bool:
    """Whether an annotation promises what is not differentiated; what JAX traces is annotated as a number, too."""
    annotation = parameter.annotation
    if annotation is None:
        return False
    return annotation_kind(annotation) is not None or (is_number(annotation) and "jax" not in module.frameworks())


def _binds(target: ast.expr, name: str) -> bool:
    if isinstance(target, (ast.Tuple, ast.List)):
        return any(_binds(each, name) for each in target.elts)
    if isinstance(target, (ast.Starred, ast.Subscript)):
        return _binds(target.value, name)
    return isinstance(target, ast.Name) and target.id == name


def _number(value: ast.expr | None) -> float | None:
    """A number that is written out."""
    sign = 1.0
    while isinstance(value, ast.UnaryOp) and isinstance(value.op, (ast.USub, ast.UAdd)):
        sign, value = (-sign if isinstance(value.op, ast.USub) else sign), value.operand
    known = value.value if isinstance(value, ast.Constant) else None
    return sign * known if isinstance(known, (int, float)) and not isinstance(known, bool) else None
