"""Which inputs can carry a gradient: each is followed back over the project, by what is written.

An input that receives the nan matters if it is computed from something that is differentiated. Grids, counts, settings,
and what was detached are not. A parameter is what its callers pass, and of a public function nobody knows them all.
What is not known may carry a gradient.
"""

import ast
import re
from collections.abc import Iterable

from wherelint.evidence.names import inherits, is_configured
from wherelint.evidence.reach import TAKERS
from wherelint.frontend import screen
from wherelint.frontend.module import Module, bases
from wherelint.frontend.syntax import FUNCTION_DEFS, FunctionDef, dotted, last_name, methods
from wherelint.interpret.annotations import takes_numbers_alone

#: Calls whose result is made of nothing that is differentiated.
_MAKERS = frozenset(
    """arange bartlett blackman constant empty eye fftfreq finfo full full_like geomspace hamming hann_window hanning
    identity iinfo indices leggauss linspace logspace meshgrid mgrid ones ones_like range rfftfreq tri zeros
    zeros_like""".split()
)
_COUNTERS = frozenset(
    """argmax argmin argsort bincount bucketize ceil count_nonzero digitize floor histogram int len long nonzero numel
    one_hot round searchsorted sign unique""".split()
)
_CUTS = frozenset("detach device_get item numpy stop_gradient tolist".split())
_NONE = _MAKERS | _COUNTERS | _CUTS
#: Calls that make a weight, whatever it begins as.
_WEIGHTS = frozenset("Parameter Variable add_weight get_parameter get_variable".split())
_MODULE = re.compile(r"(?:Module|Layer|Model|Block|Cell)$")
_NUMBER = re.compile(r"(?:Optional\[)?(?:float|int|bool|str)\]?(?: \| None)?")
_SHAPES = frozenset("device dtype ndim shape size".split())
_BUILDERS = frozenset("__init__ __post_init__ build setup".split())
_DEEPEST, _MOST_STEPS, _MOST_CALLS = 7, 2000, 6


class Scope:
    """A function, and what its names may mean: the class and the functions around it, its file."""

    def __init__(self, module: Module, cls: ast.ClassDef | None, function: ast.stmt, outer: "Scope | None" = None):
        self.module, self.cls, self.function, self.outer = module, cls, function, outer

    @classmethod
    def of(cls, module: Module, name: tuple[str, ...]) -> "Scope | None":
        """That of a function by its qualified name; one inside another has the rest of the name."""
        known = module.once(screen.functions)
        length = next((n for n in (2, 1) if name[:n] in known), None)
        if length is None:
            return None
        definition = module.definitions.get(name[0])
        owner = definition.statement if definition is not None else None
        scope = cls(module, owner if isinstance(owner, ast.ClassDef) else None, known[name[:length]])
        for inner in name[length:]:
            found = (n for n in ast.walk(scope.function) if isinstance(n, FUNCTION_DEFS) and n.name == inner)
            function = next((n for n in found if n is not scope.function), None)
            if function is None:
                break
            scope = cls(module, scope.cls, function, scope)
        return scope


class Carrying:
    """Answers for the inputs of one finding."""

    def __init__(self) -> None:
        self._known: dict[object, bool] = {}
        self._steps = 0

    def may_carry(self, name: str, scope: Scope) -> bool:
        """Whether an input, by the author's text for it, may carry a gradient."""
        try:
            expression = ast.parse(name, mode="eval").body
        except (SyntaxError, ValueError):
            return True
        return self._expression(expression, scope, 0)

    def _any(self, parts: Iterable[ast.expr], scope: Scope, depth: int) -> bool:
        """Whether one of several parts may carry a gradient; of no part nothing is known."""
        answers = [self._expression(part, scope, depth + 1) for part in parts]
        return any(answers) or not answers

    def _expression(self, node: ast.expr, scope: Scope, depth: int) -> bool:
        self._steps += 1
        if depth > _DEEPEST or self._steps > _MOST_STEPS:
            return True
        if isinstance(node, (ast.Constant, ast.Compare, ast.BoolOp)):
            return False
        if isinstance(node, ast.Name):
            return self._name(node.id, scope, depth)
        if isinstance(node, ast.Attribute):
            if node.attr in _SHAPES or is_configured(dotted(node)):
                return False
            own = dotted(node.value) == "self"
            return self._attribute(node.attr, scope, depth) if own else self._expression(node.value, scope, depth + 1)
        if isinstance(node, ast.Call):
            return self._call(node, scope, depth)
        if isinstance(node, (ast.Subscript, ast.Starred, ast.Await)):
            return self._expression(node.value, scope, depth + 1)
        parts = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
        plain = isinstance(node, (ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Tuple, ast.List))
        return not plain or self._any(parts, scope, depth)

    def _call(self, node: ast.Call, scope: Scope, depth: int) -> bool:
        name = last_name(node.func)
        if name in _NONE:
            return False
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        is_ours = receiver is None and name in scope.module.definitions
        if name in _WEIGHTS or is_ours or dotted(receiver) == "self":
            return True  # what a function of the project, or a layer, makes of its arguments is not known
        is_method = receiver is not None and dotted(receiver).partition(".")[0] not in scope.module.imports
        return self._any([*node.args, *([receiver] if is_method and receiver is not None else [])], scope, depth)

    def _name(self, name: str, scope: Scope, depth: int) -> bool:
        each: Scope | None = scope
        while each is not None:
            parameter = next((a for a in _parameters(each.function) if a.arg == name), None)
            values = _assigned(each.function, name)
            if parameter is not None or values:
                key = each.function, name
                if key not in self._known:
                    self._known[key] = True  # a name that is computed from itself
                    found = any(self._expression(value, each, depth + 1) for value in values)
                    self._known[key] = found or (parameter is not None and self._parameter(parameter, each, depth))
                return self._known[key]
            each = each.outer
        if scope.cls is not None and name in _kept_arguments(scope.cls):
            return not inherits(scope.cls.name, scope.module, _MODULE)
        return name not in scope.module.definitions and name not in scope.module.imports

    def _attribute(self, name: str, scope: Scope, depth: int) -> bool:
        """An attribute of ``self``: what the class declares and what its methods assign."""
        if scope.cls is None:
            return True
        key = scope.cls, name
        if key not in self._known:
            self._known[key] = True
            for home, cls in [(scope.module, scope.cls), *bases(scope.module, scope.cls)]:
                found = list(self._declared(name, home, cls, depth))
                if found:
                    self._known[key] = any(found)
                    break
        return self._known[key]

    def _declared(self, name: str, module: Module, cls: ast.ClassDef, depth: int) -> Iterable[bool]:
        for statement in cls.body:
            if isinstance(statement, ast.AnnAssign) and last_name(statement.target) == name:
                yield _NUMBER.fullmatch(ast.unparse(statement.annotation)) is None
        for method in methods(cls):
            for node in ast.walk(method):
                if isinstance(node, ast.Assign) and f"self.{name}" in map(dotted, node.targets):
                    yield self._expression(node.value, Scope(module, cls, method), depth + 1)
                elif isinstance(node, ast.Call) and _registers(node, name):
                    yield last_name(node.func) == "register_parameter"

    def _parameter(self, parameter: ast.arg, scope: Scope, depth: int) -> bool:
        function = scope.function
        annotation = ast.unparse(parameter.annotation) if parameter.annotation is not None else ""
        if not isinstance(function, FUNCTION_DEFS) or parameter.arg == "self":
            return True
        is_number = _NUMBER.fullmatch(annotation) is not None and not takes_numbers_alone(function.args)
        if is_number or _has_number(function, parameter):
            return False
        if function.name in _BUILDERS:
            return scope.cls is None or not inherits(scope.cls.name, scope.module, _MODULE)
        return self._callers(function, parameter, scope, depth)

    def _callers(self, function: FunctionDef, parameter: ast.arg, scope: Scope, depth: int) -> bool:
        """Whether some call of a function may pass what carries a gradient; a public one may be called by anybody."""
        if not function.name.startswith("_") and scope.outer is None:
            return True
        order = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        number = order.index(parameter.arg) if parameter.arg in order else -1
        number -= order[:1] in (["self"], ["cls"])
        found = 0
        for module in [scope.module, *scope.module.project.mentioning(function.name)]:
            for name in screen.referring(module, function.name):
                caller = Scope.of(module, name)
                for call in ast.walk(caller.function) if caller is not None else ():
                    if not isinstance(call, ast.Call) or found > _MOST_CALLS:
                        continue
                    if last_name(call.func) in TAKERS and call.args and last_name(call.args[0]) == function.name:
                        return True
                    if last_name(call.func) == function.name and caller is not None:
                        found += 1
                        value = _passed(call, number, parameter.arg)
                        if value is None or self._expression(value, caller, depth + 2):
                            return True
        return not found


def _parameters(function: ast.stmt) -> list[ast.arg]:
    if not isinstance(function, FUNCTION_DEFS):
        return []
    arguments = function.args
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def _kept_arguments(cls: ast.ClassDef) -> set[str]:
    """What the constructor of a class calls the arguments that have no name of their own: ``kwargs``."""
    builders = [method.args for method in methods(cls) if method.name in _BUILDERS]
    return {each.arg for args in builders for each in (args.vararg, args.kwarg) if each is not None}


def _assigned(function: ast.stmt, name: str) -> list[ast.expr]:
    """What is assigned to a name in a function, or iterated over with it."""
    found: list[ast.expr] = []
    for node in ast.walk(function):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and node.value is not None:
            targets, value = [node.target], node.value
        elif isinstance(node, (ast.For, ast.comprehension)):
            targets, value = [node.target], node.iter
        names = (each for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))
        if any(each.id == name and isinstance(each.ctx, ast.Store) for each in names):
            found.append(value)
    return found


def _has_number(function: FunctionDef, parameter: ast.arg) -> bool:
    """Whether a parameter is a number by default."""
    arguments = function.args
    order = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(order[len(order) - len(arguments.defaults) :], arguments.defaults, strict=True),
             *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]  # fmt: skip
    default = next((value for each, value in pairs if each is parameter), None)
    value = default.operand if isinstance(default, ast.UnaryOp) else default
    return isinstance(value, ast.Constant) and value.value is not None


def _registers(call: ast.Call, name: str) -> bool:
    """Whether a call of a torch module gives it a buffer or a parameter of a name."""
    named = [each.value for each in call.args[:1] if isinstance(each, ast.Constant)]
    return last_name(call.func) in ("register_buffer", "register_parameter") and named == [name]


def _passed(call: ast.Call, number: int, name: str) -> ast.expr | None:
    """The argument that a call passes for a parameter."""
    value = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    starred = any(isinstance(each, ast.Starred) for each in call.args)
    return call.args[number] if value is None and not starred and 0 <= number < len(call.args) else value
