"""Who calls a function of the project, and whether a gradient comes back through the calls.

The model. A *use* is a place that reads the name of a function: its file, and the syntax that it stands in. A use
*cuts* where something around it lets no gradient back: ``no_grad``, ``detach``, a comparison, a metric. A function is
*shielded* if it is used, and every use cuts or stands in a function that is shielded. Uses are found by name in the
files of the repository; what is not understood counts as a use that is differentiated, so that errors show a finding
too many.

The callers of a helper in its own file, and of a private one in all files, are lowered, too: their graphs say whether a
gradient flows back to a node of the helper, and which values its calls pass (``InlinedCalls``).
"""

import ast
import os
import re
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import NamedTuple

from wherelint.evidence.names import surroundings
from wherelint.frontend import screen
from wherelint.frontend.module import Module
from wherelint.frontend.syntax import FUNCTION_DEFS, FunctionDef, GiveUp, children, dotted, last_name, methods
from wherelint.graph.node import Node
from wherelint.interpret.programs import Program, expression_id, programs
from wherelint.interpret.resolve import NO_GRADIENT

Path = tuple[ast.AST, ...]
Name = tuple[str, ...]

#: Callers of callers that are followed, and files that may mention a name.
_DEPTH, _MOST_FILES = 5, 12
#: What is called around a result, or on it, so that no gradient comes back; the same as contexts and decorators.
_STOPS = frozenset("stop_gradient detach item numpy tolist asarray float int bool print argmax argmin argsort".split())
#: Calls that draw what no gradient comes back from; with a word such as `log_prob` they compute something else, and
#: `torch.bernoulli` returns a gradient of 0.
_DRAWS = re.compile(
    r"(?!.*(log|loss|prob|entropy|relaxed)|(bernoulli|poisson)$).*(bernoulli|binomial|categorical|multinomial|poisson)",
    re.IGNORECASE,
)
#: What differentiates a function that is passed to it, or what it is called on: ``loss.backward()``.
_TRANSFORMS = re.compile(r"(?<!stop_)grad|vjp|jvp|jac|hess|lineari")
_DIFFERENTIATES = re.compile(
    r"(?!(no|zero|stop|enable)_)(\w+_)?(backward|gradients?|grads?|hessian|hvp|jacfwd|jacobian|jacrev|jvp|linearize|minimize|vjp)"
)
#: What gives a function a derivative of its own: nothing passes through what it computes.
_CUSTOM = frozenset({"custom_gradient", "custom_jvp", "custom_op", "custom_vjp"})
#: Rules of a derivative: only a second derivative would pass.
_BACKWARD = frozenset({"backward", "bwd", "setup_context"})
#: Whatever uses a function there says nothing of what others do with it.
_SHOWS = frozenset({"test", "demonstration", "example"})
#: What is computed there may be differentiated later, and an optimizer may be a layer.
_HOLDS = frozenset({"start", "optimizer", "update"})
#: Methods of these names stand in every other class.
_COMMON = frozenset("__call__ __init__ forward call setup update step get apply run loss reset".split())


class Use(NamedTuple):
    """A place that reads the name of a function: the file, and what the name stands in, outermost first."""

    module: Module
    path: Path


class CallGraph:
    """The uses of the functions of a file in its project, and what they say of gradients."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._uses: dict[tuple[str, Name], Sequence[Use] | None] = {}
        self._shielded: dict[tuple[str, Name], bool] = {}

    def is_shielded(self, name: Name) -> bool:
        """Whether a function or method of the file is used, and every use keeps gradients away."""
        return self._is_shielded(self._module, name, _DEPTH)

    def _is_shielded(self, module: Module, name: Name, depth: int) -> bool:
        key = module.filename, name
        if key not in self._shielded:
            self._shielded[key] = False  # until it is known: one that only calls itself is not used
            uses = self._uses_of(module, name) if depth else None
            self._shielded[key] = bool(uses) and all(self._keeps_away(use, depth) for use in uses or ())
        return self._shielded[key]

    def _keeps_away(self, use: Use, depth: int) -> bool:
        transformed = (
            node for node, inner in pairwise(use.path) if isinstance(node, ast.Call) and inner is not node.func
        )
        if any(_TRANSFORMS.search(_last(call)) for call in transformed):
            return False
        functions = _enclosing(use.path)
        if not _HOLDS.issuperset(surroundings(use.module, functions)) or _is_cut(use):
            return True
        if not functions:
            is_call = len(use.path) > 1 and isinstance(use.path[-2], ast.Call) and use.path[-2].func is use.path[-1]
            return is_call and bool(use.module.package)  # a constant of the file; a script may train there
        if _trains_itself(use.path):
            return False
        return self._is_shielded(use.module, _qualified(use.path), depth - 1)

    def _uses_of(self, module: Module, name: Name) -> Sequence[Use] | None:
        """Where a function is used, other than in itself and to show it; None where that is not known."""
        key = module.filename, name
        if key not in self._uses:
            self._uses[key] = self._find_uses(module, name)
        return self._uses[key]

    def _find_uses(self, module: Module, name: Name) -> Sequence[Use] | None:
        last, is_method = name[-1], len(name) > 1
        if is_method and (last in _COMMON or (last.startswith("__") and last.endswith("__"))):
            return None  # operators call methods without their names
        stem = "" if is_method else PurePath(module.filename).stem
        modules = self._module.project.speaking(last, _MOST_FILES, "attribute" if is_method else "said", beside=stem)
        if modules is None:
            return None
        everywhere = dict.fromkeys([*modules, self._module])
        bound = ((here, there.rpartition(".")[2]) for each in everywhere for here, there in _imports(each).items())
        if any(there == last != here for here, there in bound):
            return None  # it has another name there
        classes = [s for each in everywhere for s, _ in each.blocks if isinstance(s, ast.ClassDef)]
        if is_method and any(last in _method_names(each) for each in classes if each.name != name[0]):
            return None  # of which class an object is, is not known
        uses = [use for m in everywhere for path in _paths(m, last) if _may_mean(use := Use(m, path), module, name)]
        shown = _SHOWS.isdisjoint(surroundings(module, name))  # what is shown itself is used where things are shown
        return [u for u in uses if not (shown and not _SHOWS.isdisjoint(surroundings(u.module, _enclosing(u.path))))]


class InlinedCalls:
    """The calls of a file's helpers that were lowered: where a gradient flows back into them, and on which values."""

    def __init__(self, module: Module, used: Sequence[str]) -> None:
        self._module = module
        self._used = used
        #: Helper -> caller, by its file and its name -> the nodes of the helper that a gradient flowed back to.
        self._flows: dict[str, dict[tuple[str, Name], list[Node]]] = {}
        self._lowered: set[tuple[str, Name]] = set()
        #: Functions with a derivative of their own, and those that nobody differentiates.
        self._shielded: set[tuple[str, Name]] = set()

    def note(self, name: Name, found: Sequence[Program], module: Module | None = None) -> None:
        """Record what the programs of a function inlined."""
        caller = (module or self._module).filename, name
        self._lowered.add(caller)
        if not found:
            self._shielded.add(caller)
        for program in found:
            for function, live in program.inlined:
                self._flows.setdefault(function, {}).setdefault(caller, []).extend(live)

    def sever(self, function: str, where: int, above: frozenset[str] = frozenset()) -> bool:
        """Whether no gradient ever flows back to a place in a function: private, and shielded by each caller."""
        callers, above = self._callers(function) if is_private(function) else [], above | {function}
        return bool(callers) and all(self._shields(caller, function, where, above) for caller in callers)

    def contexts(self, function: str, where: int) -> list[Node]:
        """The node written at a place in a helper, once for every call: of a public one, for those of this file.

        Empty where some caller is not known: one that passes the helper on, or is too much to follow.
        """
        callers = self._callers(function)
        flows = self._flows.get(function, {})
        if not all(caller in self._shielded or caller in flows for caller in callers):
            return []
        return [node for caller in callers for node in flows.get(caller, []) if expression_id(node) == where]

    def _callers(self, function: str) -> list[tuple[str, Name]]:
        """The functions that mention a helper, each lowered if that is possible: of the project, or of this file."""
        last = function.rpartition(".")[2]
        is_known_by_name = is_private(function) and last == function  # methods of one name are too many
        callers = []
        for module in [self._module, *(self._module.project.mentioning(last) if is_known_by_name else ())]:
            for name in screen.referring(module, last):
                caller = module.filename, name
                if caller not in self._lowered:
                    try:
                        self.note(name, programs(module, name, self._used), module)
                    except (GiveUp, RecursionError) as error:
                        why = str(error) if isinstance(error, GiveUp) else "it is nested too deeply"
                        module.budget.give_up(f"`{'.'.join(name)}`, which calls `{function}`", why)
                callers.append(caller)
        # A method that a class inherits calls the helper there, too.
        return callers + [c for c in self._flows.get(function, {}) if c not in callers and self._inherits(*c)]

    def _inherits(self, filename: str, name: Name) -> bool:
        if filename != self._module.filename:
            return False
        statement = self._module.definitions[name[0]].statement
        return isinstance(statement, ast.ClassDef) and name[-1] not in _method_names(statement)

    def _shields(self, caller: tuple[str, Name], function: str, where: int, above: frozenset[str]) -> bool:
        """Whether nothing that one caller does lets a gradient flow back to a place in the function."""
        if caller in self._shielded:
            return True
        flows = self._flows.get(function, {}).get(caller)
        if flows is None:
            return False  # mentioned, but not called where the analysis could see it
        if all(expression_id(node) != where for node in flows):
            return True
        filename, name = caller[0], ".".join(caller[1])
        return filename == self._module.filename and name not in above and self.sever(name, where, above)


def is_private(function: str) -> bool:
    """Whether a function's name keeps it to its file or class."""
    last = function.rpartition(".")[2]
    return last.startswith("_") and not last.endswith("__")


def _is_cut(use: Use) -> bool:
    """Whether what stands around a use of a function lets no gradient back to it.

    What is passed to another function may be differentiated there, whatever becomes of the result,
    ``np.asarray(minimize(loss, x))``; not what a function made of it computes, ``np.asarray(vmap(loss)(x))``.
    """
    path, is_value, is_passed = use.path, False, False
    for inner, node, outer in zip(path[:0:-1], path[-2::-1], [*path[-3::-1], None], strict=True):
        if not isinstance(node, ast.Call):
            is_value = is_value and not isinstance(node, ast.Lambda)
            if _cuts(node, inner):
                return True
        elif is_value:
            if not is_passed and (_cuts(node, inner) or _is_of_numpy(node, use.module)):
                return True
        elif inner is node.func:
            is_value = True
        else:
            is_passed = is_passed or not (isinstance(outer, ast.Call) and outer.func is node)
    return False


def _is_of_numpy(call: ast.Call, module: Module) -> bool:
    """Whether NumPy is called, which no framework differentiates."""
    return (_target(call.func, module) or "").partition(".")[0] == "numpy"


def _cuts(node: ast.AST, inner: ast.AST) -> bool:
    """Whether no gradient comes back from a part of a node."""
    if isinstance(node, FUNCTION_DEFS):
        # Of what the `forward` of an `autograd.Function` computes, PyTorch records nothing.
        is_rule = node.name in _BACKWARD or (node.name == "forward" and [a.arg for a in node.args.args[:1]] == ["ctx"])
        return is_rule or any(_stops(each) or not _CUSTOM.isdisjoint(_names(each)) for each in node.decorator_list)
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return any(_stops(item.context_expr) for item in node.items)
    if isinstance(node, ast.Call):
        return _last(node) in _STOPS or _DRAWS.match(_last(node)) is not None
    if isinstance(node, ast.If):
        return _is_training(node.test) is not None and (inner in node.body) is not _is_training(node.test)
    return isinstance(node, (ast.Compare, ast.Assert))


def _stops(expression: ast.expr) -> bool:
    """Whether a context or a decorator keeps gradients away: ``no_grad``, ``set_grad_enabled(False)``."""
    if _last(expression) == "set_grad_enabled" and isinstance(expression, ast.Call) and expression.args:
        first = expression.args[0]
        return isinstance(first, ast.Constant) and not first.value
    return _last(expression) in NO_GRADIENT


def _is_training(test: ast.expr) -> bool | None:
    """What a test says of training; None where it is about something else."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _is_training(test.operand)
        return None if inner is None else not inner
    return True if _last(test) in ("training", "is_training") else None


def _names(decorator: ast.expr) -> set[str]:
    """The last parts of what a decorator names, and is passed: ``partial(jax.custom_jvp, nondiff_argnums=(1,))``."""
    return {_last(each) for each in (decorator, *(decorator.args if isinstance(decorator, ast.Call) else ()))}


def _trains_itself(path: Path) -> bool:
    """Whether the function around a use differentiates something, whatever becomes of its own result."""
    around = next(node for node in path if isinstance(node, (ast.ClassDef, *FUNCTION_DEFS)))
    if isinstance(around, ast.ClassDef):
        around = next((node for node in path if isinstance(node, FUNCTION_DEFS)), around)
    return any(isinstance(n, ast.Call) and _DIFFERENTIATES.fullmatch(_last(n)) for n in ast.walk(around))


def _may_mean(use: Use, home: Module, name: Name) -> bool:
    """Whether a place outside of a function that ends in its name may mean it, by what is imported there."""
    node, is_method = use.path[-1], len(name) > 1
    if use.module is home and _qualified(use.path) == name:
        return False
    if isinstance(node, ast.Name):
        around = [each for each in use.path if isinstance(each, (ast.Lambda, *FUNCTION_DEFS))]
        if (is_method and around) or any(node.id == arg.arg for each in around for arg in _parameters(each)):
            return False  # a variable
        if use.module is home:
            return True
    target = _target(node, use.module)
    found = home.project.find(target) if target is not None else None
    if found is not None and found[0] is not home and found[1][0] in found[0].definitions:
        return False  # another file of the project defines it
    if target is None and isinstance(node, ast.Attribute):
        return is_method  # of whatever object
    above = {
        *home.package.split("."),
        *PurePath(os.path.relpath(home.filename, home.project.scope or None)).with_suffix("").parts,
        "",
    }
    return any(name.partition(".")[0] in above for name in ([target] if target is not None else use.module.stars))


def _method_names(statement: ast.ClassDef) -> set[str]:
    return {method.name for method in methods(statement)}


def _parameters(function: FunctionDef | ast.Lambda) -> list[ast.arg]:
    own = function.args
    return [*own.posonlyargs, *own.args, *own.kwonlyargs, *filter(None, (own.vararg, own.kwarg))]


def _imports(module: Module) -> Mapping[str, str]:
    """What the imports of a file bind, those in functions, too."""
    return ChainMap(module.imports, dict(module.inner_imports))


def _target(name: ast.AST, module: Module) -> str | None:
    """The dotted name that a name, or one in dots, has where it is imported from; None where it is not imported."""
    first, _, rest = dotted(name).partition(".")
    target = _imports(module).get(first)
    return target if target is None else f"{target}.{rest}".rstrip(".")


def _last(node: ast.AST) -> str:
    """The last part of what is named, or called."""
    return last_name(node.func if isinstance(node, ast.Call) else node)


def _enclosing(path: Path) -> list[str]:
    """The names of the classes and functions that a place stands in."""
    return [node.name for node in path if isinstance(node, (ast.ClassDef, *FUNCTION_DEFS))]


def _qualified(path: Path) -> Name:
    """The function of the top level, or the method, that a place stands in."""
    return tuple(_enclosing(path)[: 2 if isinstance(path[0], ast.ClassDef) else 1])


def _paths(module: Module, name: str) -> Iterator[Path]:
    """Every expression of a file that is a name or ends in it, with all that it stands in, outermost first."""
    for statement, block in module.blocks:
        if block.mentions(name) and not isinstance(statement, (ast.Import, ast.ImportFrom)):
            above: dict[ast.AST, ast.AST] = {}
            todo: list[ast.AST] = [statement]
            while todo:
                node = todo.pop()
                if (
                    isinstance(node, (ast.Name, ast.Attribute))
                    and isinstance(node.ctx, ast.Load)
                    and last_name(node) == name
                ):
                    path: list[ast.AST] = [node]
                    while path[-1] is not statement:
                        path.append(above[path[-1]])
                    yield tuple(reversed(path))
                below = children(node)
                above |= dict.fromkeys(below, node)
                todo += below
