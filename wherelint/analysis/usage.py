"""Who uses a function of the project: whether every place that calls it keeps gradients away.

A function that is called under ``no_grad``, by metrics and by what computes constants is not differentiated, whatever
it computes. Names are compared by their last part, and by what is imported: a use too many is one more that would have
to keep gradients away.
"""

import ast
import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, starmap
from pathlib import PurePath

import numpy as np

from wherelint.analysis import places
from wherelint.analysis.arguments import Arguments
from wherelint.analysis.receivers import Path, Receivers, Use, imports, method_of, named, needs_arguments, target_of
from wherelint.analysis.variables import is_differentiated, of_primals
from wherelint.frontend.module import Module
from wherelint.frontend.syntax import children
from wherelint.graph.node import Leaf
from wherelint.graph.run import Hazard
from wherelint.interpret.resolve import NO_GRADIENT
from wherelint.ops import Array

#: Callers of callers that are followed, and files that may speak of a name.
_DEPTH, _MOST_FILES = 5, 12
#: Numbers beyond are hardly ever set.
_TINY, _HUGE = 1e-7, 1e4
#: What is called around a result, or on it, so that no gradient comes back; the same as contexts and decorators.
_STOPS = frozenset("stop_gradient detach item numpy tolist asarray float int bool print argmax argmin argsort".split())
#: Calls that draw what no gradient comes back from; with a word such as `log_prob` they compute something else, and
#: `torch.bernoulli` hands on a gradient of 0.
_DRAWS = re.compile(
    r"(?!.*(log|loss|prob|entropy|relaxed)|(bernoulli|poisson)$).*(bernoulli|binomial|categorical|multinomial|poisson)",
    re.IGNORECASE,
)
#: What differentiates a function that is handed to it.
_DIFFERENTIATES = re.compile(r"(?<!stop_)grad|vjp|jvp|jac|hess|lineari")
#: What gives a function a derivative of its own: nothing passes through what it computes.
_CUSTOM = frozenset({"custom_gradient", "custom_jvp", "custom_op", "custom_vjp"})
#: Whatever uses a function there says nothing of what others do with it.
_SHOWS = frozenset({"in a test", "in a demonstration", "in an example"})
#: Rules of a derivative that somebody wrote: only a second derivative would pass.
_BACKWARD = frozenset({"backward", "bwd", "setup_context"})
#: What is made there may be differentiated later, and an optimizer may be a layer.
_HOLDS = frozenset({"at the start of a run", "in an optimizer", "in an update"})
#: Methods of these names stand in every other class.
_COMMON = frozenset("__call__ __init__ forward call setup update step get apply run loss reset".split())


class Usage:
    """Whether the functions of a file are used where nobody differentiates."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._known: dict[tuple[str, tuple[str, ...]], bool] = {}
        self._used: dict[tuple[str, tuple[str, ...]], Sequence[Use] | None] = {}
        self._arguments = Arguments(self)

    def evidence(self, name: tuple[str, ...], hazard: Hazard, *, whole: bool) -> Iterator[str]:
        """What the uses of a function or method of the file say of a hazard in it, by the score's table.

        ``whole``: its inputs are those of the function, and not those of one inside it.
        """
        if self._shielded(self._module, name, _DEPTH):
            yield "used without gradients"
        elif whole:
            poisoned = {_parameter(n) for n, g in hazard.gradient.items() if not np.isfinite(g).all()}
            if self._arguments.without_gradient(self._module, name, poisoned):
                yield "called without gradients"
            if any(self._is_no_callers(name, n, values) for n, values in hazard.inputs.items() if isinstance(n, Leaf)):
                yield "no caller's number"

    def _is_no_callers(self, name: tuple[str, ...], leaf: Leaf, values: Array) -> bool:
        """Whether a parameter is somewhere 0, tiny, huge or below zero where all callers hand it ordinary numbers."""
        if not leaf.name.isidentifier() or leaf.kind != "float" or not _is_unusual(values).any():
            return False
        numbers = self._arguments.numbers(self._module, name, leaf.name)
        return bool(numbers) and not _is_unusual(np.array(numbers)).any()

    def _shielded(self, module: Module, name: tuple[str, ...], depth: int) -> bool:
        key = module.filename, name
        if key not in self._known:
            self._known[key] = False  # until it is known: one that only calls itself is not used
            uses = self.uses(module, name) if depth else None
            self._known[key] = bool(uses) and all(self._keeps_away(use, depth) for use in uses or ())
        return self._known[key]

    def uses(self, module: Module, name: tuple[str, ...]) -> Sequence[Use] | None:
        """Where a function is spoken of, other than in itself and to show it; None where that is not known."""
        key = module.filename, name
        if key not in self._used:
            self._used[key] = self._find_uses(module, name)
        return self._used[key]

    def cuts(self, path: Path) -> bool:
        """Whether no gradient comes back from the last part of a path."""
        return any(starmap(_cuts, pairwise(path)))

    def _find_uses(self, module: Module, name: tuple[str, ...]) -> Sequence[Use] | None:
        last = name[-1]
        # Operators call methods without their names.
        unknown = len(name) > 1 and (last in _COMMON or (last.startswith("__") and last.endswith("__")))
        modules = None if unknown else self._speaking(module, name)
        if modules is None:
            return None
        everywhere = dict.fromkeys([*modules, self._module])
        bound = ((here, there.rpartition(".")[2]) for each in everywhere for here, there in imports(each).items())
        if any(there == last != here for here, there in bound):
            return None  # it has another name there
        every = (Use(m, path) for m in everywhere for path in _paths(m, last) if not _is_own(m, path, module, name))
        said = (use for use in every if _may_mean(use, module, is_method=len(name) > 1))
        classes = {s.name: s for each in everywhere for s, _ in each.blocks if isinstance(s, ast.ClassDef)}
        uses = Receivers(module, name, classes).meant(said) if len(name) > 1 else list(said)
        if uses is None:
            return None
        shown = _SHOWS.isdisjoint(places.of(module, name))  # what is shown itself is used where things are shown
        return [
            use for use in uses if not (shown and not _SHOWS.isdisjoint(places.of(use.module, _functions(use.path))))
        ]

    def _speaking(self, module: Module, name: tuple[str, ...]) -> list[Module] | None:
        """The files that may use a function: those that speak of it, and where they are many of its file as well."""
        project, last = self._module.project, name[-1]
        if len(name) > 1:
            method = method_of(module, name)
            given = method is not None and needs_arguments(method)
            return project.speaking(last, _MOST_FILES, "given" if given else "attribute")
        return project.speaking(last, _MOST_FILES, beside=PurePath(module.filename).stem)

    def _keeps_away(self, use: Use, depth: int) -> bool:
        functions = _functions(use.path)
        handed = (node for node, inner in pairwise(use.path) if isinstance(node, ast.Call) and inner is not node.func)
        if any(_DIFFERENTIATES.search(named(call)) for call in handed):
            return False
        if _keeps_variable_away(use.path) or of_primals(use.path):
            return True
        if not _HOLDS.issuperset(places.of(use.module, functions)) or _is_cut(use):
            return True
        if is_differentiated(use.path):
            return False
        called = len(use.path) > 1 and isinstance(use.path[-2], ast.Call) and use.path[-2].func is use.path[-1]
        if (alias := _alias(use.path)) is not None:
            return self._shielded(use.module, (alias,), depth - 1)
        if not functions:
            return called and bool(use.module.package)  # a constant of the file; a script may train there
        return self._shielded(use.module, _qualified(use.path), depth - 1)


def _is_cut(use: Use) -> bool:
    """Whether what stands around a use of a function lets no gradient back to it.

    What is handed to another function may be differentiated there, whatever becomes of the result,
    ``np.asarray(minimize(loss, x))``; not what a function made of it computes, ``np.asarray(vmap(loss)(x))``.
    """
    is_value, handed = False, False
    outwards = list(pairwise(reversed(use.path)))
    for i, (inner, node) in enumerate(outwards):
        if isinstance(node, ast.Lambda):
            is_value = False
        elif not isinstance(node, ast.Call):
            if _cuts(node, inner):
                return True
        elif is_value:
            if not handed and (_cuts(node, inner) or _of_numpy(node, use.module)):
                return True
        elif inner is node.func:
            is_value = True
        elif not _gives_function(node, outwards[i + 1 :]):
            is_value = handed = True
    return False


def _gives_function(call: ast.Call, outwards: Sequence[tuple[ast.AST, ast.AST]]) -> bool:
    """Whether what a call is given a function for is another one: it is called in turn, or ``partial``."""
    above = outwards[0][1] if outwards else None
    return named(call) == "partial" or (isinstance(above, ast.Call) and above.func is call)


def _of_numpy(call: ast.Call, module: Module) -> bool:
    """Whether NumPy is called, which no framework differentiates."""
    return (target_of(call.func, module) or "").partition(".")[0] == "numpy"


def _parameter(leaf: Leaf) -> str:
    """The parameter that an input is, or is a part of."""
    return re.split(r"[.(\[]", leaf.name)[0]


def _is_unusual(values: Array) -> Array:
    """Which numbers are hardly ever set."""
    return np.asarray((values <= _TINY) | (values >= _HUGE) | ~np.isfinite(values))


def _alias(path: Path) -> str | None:
    """The other name that a statement of a file gives to a function: ``root = ops.root``."""
    assign = path[0]
    if not isinstance(assign, ast.Assign) or assign.value is not path[-1] or len(assign.targets) != 1:
        return None
    return assign.targets[0].id if isinstance(assign.targets[0], ast.Name) else None


def _keeps_variable_away(path: Path) -> bool:
    """Whether a place is in what a local variable is set to, and no use of that lets a gradient back."""
    around = next((n for n in reversed(path) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))), None)
    assign = next((n for n in reversed(path) if isinstance(n, ast.Assign)), None)
    if around is None or assign is None or len(assign.targets) != 1 or not isinstance(assign.targets[0], ast.Name):
        return False
    uses = list(_below(around, assign.targets[0].id))
    return bool(uses) and all(any(starmap(_cuts, pairwise(use))) for use in uses)


def _may_mean(use: Use, home: Module, *, is_method: bool) -> bool:
    """Whether a place that ends in the name of a function may mean that of one file, by what is imported there."""
    node = use.path[-1]
    if isinstance(node, ast.Name):
        around = [each for each in use.path if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))]
        if (is_method and around) or any(node.id == arg.arg for each in around for arg in _arguments(each)):
            return False  # a variable
        if use.module is home:
            return True
    target = target_of(node, use.module)
    if target is not None and _is_of_another(target, home):
        return False
    if target is None and isinstance(use.path[-1], ast.Attribute):
        return is_method  # of whatever object
    above = {*home.package.split("."), *PurePath(os.path.relpath(home.filename, home.around)).with_suffix("").parts, ""}
    return any(name.partition(".")[0] in above for name in ([target] if target is not None else use.module.stars))


def _is_of_another(name: str, home: Module) -> bool:
    """Whether a dotted name means what another file of the project defines itself."""
    found = home.project.find(name)
    return found is not None and found[0] is not home and found[1][0] in found[0].definitions


def _arguments(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[ast.arg]:
    """The arguments that a function names, but those that take what is left over."""
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def _is_own(module: Module, path: Path, home: Module, name: tuple[str, ...]) -> bool:
    return module is home and _qualified(path) == name


def _paths(module: Module, name: str) -> Iterator[Path]:
    """Every expression of a file that is a name or ends in it, with all that it stands in, outermost first."""
    imports = (ast.Import, ast.ImportFrom)
    for statement, block in module.blocks:
        if block.mentions(name) and not isinstance(statement, imports):
            yield from _below(statement, name)


def _below(root: ast.AST, name: str) -> Iterator[Path]:
    """Every expression below a node that reads a name or ends in it, with all that it stands in."""
    above: dict[ast.AST, ast.AST] = {}
    todo = [root]
    while todo:
        node = todo.pop()
        said = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None
        if said == name and isinstance(node.ctx, ast.Load):  # type: ignore[attr-defined]
            path: list[ast.AST] = [node]
            while path[-1] is not root:
                path.append(above[path[-1]])
            yield tuple(reversed(path))
        for child in children(node):
            above[child] = node
            todo.append(child)


def _functions(path: Path) -> list[str]:
    """The names of the classes and functions that a place stands in."""
    named = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [node.name for node in path if isinstance(node, named)]


def _qualified(path: Path) -> tuple[str, ...]:
    """The function of the top level, or the method, that a place stands in."""
    return tuple(_functions(path)[: 2 if isinstance(path[0], ast.ClassDef) else 1])


def _cuts(node: ast.AST, inner: ast.AST) -> bool:
    """Whether no gradient comes back from a part of a node."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        # Of what the `forward` of an `autograd.Function` computes, PyTorch records nothing.
        own = node.name in _BACKWARD or (node.name == "forward" and [a.arg for a in node.args.args[:1]] == ["ctx"])
        return own or any(_stops(each) or not _CUSTOM.isdisjoint(_names(each)) for each in node.decorator_list)
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return any(_stops(item.context_expr) for item in node.items)
    if isinstance(node, ast.Call):
        return named(node) in _STOPS or _DRAWS.match(named(node)) is not None
    if isinstance(node, ast.If):
        return _trains(node.test) is not None and (inner in node.body) is not _trains(node.test)
    return isinstance(node, (ast.Compare, ast.Assert))


def _stops(expression: ast.expr) -> bool:
    """Whether a context or a decorator keeps gradients away: ``no_grad``, ``set_grad_enabled(False)``."""
    if named(expression) == "set_grad_enabled" and isinstance(expression, ast.Call) and expression.args:
        first = expression.args[0]
        return isinstance(first, ast.Constant) and not first.value
    return named(expression) in NO_GRADIENT


def _trains(test: ast.expr) -> bool | None:
    """What a test says of training; None where it is about something else."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        said = _trains(test.operand)
        return None if said is None else not said
    return True if named(test) in ("training", "is_training") else None


def _names(decorator: ast.expr) -> set[str]:
    """The last parts of what a decorator names, and is handed: ``partial(jax.custom_jvp, nondiff_argnums=(1,))``."""
    return {named(each) for each in (decorator, *(decorator.args if isinstance(decorator, ast.Call) else ()))}
