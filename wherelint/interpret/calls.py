"""Calls: of the project's functions (inlined), of objects, of the catalogue, and of what cannot be followed."""

import ast
from collections.abc import Callable, Sequence
from typing import TypeGuard

import numpy as np

from wherelint.frameworks import FRAMEWORKS, framework_of
from wherelint.frontend.namespaces import namespaces, selecting
from wherelint.frontend.syntax import FUNCTION_DEFS, FunctionDef, below
from wherelint.graph.evaluate import evaluate
from wherelint.graph.node import Leaf, Node, flowing_back, inputs_in, topological
from wherelint.interpret import attributes
from wherelint.interpret.annotations import annotated, annotation_kind, dotted, is_none
from wherelint.interpret.builder import Frame
from wherelint.interpret.defaults import of_parameter
from wherelint.interpret.indexing import assign
from wherelint.interpret.lowering import CALLS, CONTAINER_METHODS, FUNCTIONS, METHODS, Lowering, expression
from wherelint.interpret.operations import operation
from wherelint.interpret.resolve import NO_GRADIENT, annotated_class, member
from wherelint.interpret.values import (
    MISSING,
    Args,
    Bound,
    Dotted,
    Element,
    Function,
    Handler,
    Instance,
    Kwargs,
    Method,
    Origin,
    Partial,
    Scope,
    Super,
    Value,
    nodes_in,
)
from wherelint.ops import lookup
from wherelint.ops.purity import draws, is_pure, is_pure_method, only_gives


@expression(ast.Call)
def call(low: Lowering, node: ast.Call) -> Value:
    """``function(arguments)``."""
    function = low.expression(node.func)
    args: list[Value] = []
    kwargs: Kwargs = {}
    for argument in node.args:
        value = low.expression(argument)
        args += value if isinstance(argument, ast.Starred) and isinstance(value, (list, tuple)) else [value]
    for keyword in node.keywords:
        value = low.expression(keyword.value)
        if keyword.arg is not None:
            kwargs[keyword.arg] = value
        elif isinstance(value, dict):
            kwargs.update({k: v for k, v in value.items() if isinstance(k, str)})
    if isinstance(node.func, ast.Attribute):
        function, written = _of_namespace(low, node.func, function), function
        if isinstance(function, Node):
            _register(low, node.func, args, kwargs)
        if function is not written and args and isinstance(args[0], str) and node.func.attr != "einsum":
            del args[0]  # axes by their names, which the operands follow
    elif isinstance(function, Dotted) and function.name.rpartition(".")[0] in selecting(low.frame.scope.module):
        function = _as_numpy(function.name.rpartition(".")[2]) or function
    result = low.invoke(function, args, kwargs, node)
    if isinstance(function, Method) and function.name.endswith("_") and not function.name.startswith("_"):
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        if isinstance(receiver, (ast.Name, ast.Attribute)):
            assign(low, receiver, result)  # PyTorch's methods with a trailing underscore write to their receiver
    return result


def _of_namespace(low: Lowering, at: ast.Attribute, function: Value) -> Value:
    """What is called on a namespace of array functions, as NumPy has it; what the project defines in earnest stays."""
    base, module = dotted(at.value), low.frame.scope.module
    root = base.partition(".")[0]
    bound = low.frame.scope.find(root) is not MISSING or root in module.imports or root in module.definitions
    if bound and base in namespaces(module) and _is_unknown(low, function, at.attr):
        return _as_numpy(at.attr) or function
    return function


def _as_numpy(name: str) -> Dotted | None:
    """The function of arrays that a name stands for where NumPy is followed."""
    name = "astype" if name == "cast" else name
    spellings = dict.fromkeys((name, name.replace("_", "")))  # `is_nan`
    names = [f"{package}.{each}" for each in spellings for package in ("jax.numpy", "torch")]
    return next((Dotted(each) for each in names if lookup(each) is not None or each in FUNCTIONS), None)


def _is_unknown(low: Lowering, function: Value, name: str) -> bool:
    """Whether a function of the project is made in a way that is not followed, or hands on to one that is."""
    function = function.function if isinstance(function, Bound) else function
    if isinstance(function, Dotted):
        own = low.module.project.find(function.name) is not None
        return lookup(function.name) is None and (own or framework_of(function.name) is None)
    return isinstance(function, (Leaf, Method)) or (isinstance(function, Function) and _hands_on(function, name))


def _hands_on(function: Function, name: str) -> bool:
    """Whether all that a function does is to call another one of its name: ``return self.module.sqrt(x)``."""
    definition = function.definition
    if isinstance(definition, ast.Lambda):
        return False
    last = definition.body[-1]
    called = last.value if isinstance(last, ast.Return) else None
    if not isinstance(called, ast.Call) or not isinstance(called.func, ast.Attribute) or called.func.attr != name:
        return False
    given = [each.arg for each in definition.args.args if each.arg not in ("self", "cls")]
    passed = [each.id if isinstance(each, ast.Name) else "" for each in called.args]
    alone = all(isinstance(each, ast.Expr) for each in definition.body[:-1])  # a docstring
    known = dotted(called.func.value) in namespaces(function.block.module)
    return alone and known and bool(passed) and passed == given[: len(passed)]


def _register(low: Lowering, function: ast.Attribute, args: Args, kwargs: Kwargs) -> None:
    """``self.register_buffer("scale", tensor)`` and its like: an attribute of some dtype; a buffer that lasts."""
    receiver = low.expression(function.value)
    receiver = receiver.receiver if isinstance(receiver, Super) else receiver
    name, value = args[0] if args else kwargs.get("name"), args[1] if len(args) > 1 else kwargs.get("default")
    if not (isinstance(receiver, Instance) and isinstance(name, str) and name.isidentifier()):
        return
    buffer = function.attr == "register_buffer"
    if buffer and lasts(value):
        receiver.attributes[name] = low.stop(value, function, value.kind)
    else:
        attributes.keep_kind(low, receiver, name, value, buffer=buffer)


def lasts(value: Value) -> TypeGuard[Node]:
    """Whether a tensor that nobody trains stays what it is made as: zeros and ones are what statistics begin with."""
    if not isinstance(value, Node) or isinstance(value, Leaf):
        return False
    order = topological([value])
    return bool(inputs_in(order)) or not np.isin(evaluate(order, {})[value], (0.0, 1.0)).all()


def _external(low: Lowering, function: Dotted, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if _converts(function.name) and not low.path_conditions:
        for node in flowing_back(nodes_in(*args, *kwargs.values())):
            if isinstance(node, Leaf):
                node.host = True
    handler = FUNCTIONS.get(function.name)
    if handler is not None:
        result = handler(low, function.name, args, kwargs, at)
        if result is not MISSING:
            return result
    made = operation(low, function.name, args, kwargs, at)
    return MISSING if made is None else made


def _converts(name: str) -> bool:
    """Whether NumPy computes with the elements of what a function is given, not just with its shape."""
    return name.startswith("numpy.linalg.") or (name.startswith("numpy.") and lookup(name) is not None)


def _partial(low: Lowering, function: Partial, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    return low.invoke(function.function, [*function.args, *args], {**function.kwargs, **kwargs}, at)


def _bound(low: Lowering, function: Bound, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    return low.invoke(function.function, [function.receiver, *args], kwargs, at)


def _instance(low: Lowering, function: Instance, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    methods = (member(function.cls, name) for name in ("__call__", "forward", "call"))
    method = next((each for each in methods if isinstance(each, Function)), None)
    return MISSING if method is None else inline(low, method, [function, *args], kwargs, at)


def _anything(low: Lowering, function: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    name = function.name if isinstance(function, Leaf) else getattr(function, "text", "")
    if "dtype" in name and len(args) == 1 and not kwargs and isinstance(args[0], (int, float)):
        return args[0]  # `dtype = as_numpy_dtype(x); dtype(0.5)`
    return unknown(low, function, args, kwargs, at)


def unknown(low: Lowering, function: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Node:
    """A call that cannot be followed: its result may be anything, and what it was given leaves our sight."""
    given = [*args, *kwargs.values()]
    inputs = list(nodes_in(*given))
    constant = not low.reads_gradient(inputs) if inputs else isinstance(function, Dotted)
    constant |= isinstance(function, Dotted) and function.name.startswith("numpy.")
    key = (function.name if isinstance(function, Dotted) else low.identity(function), *map(low.identity, given))
    pure = isinstance(function, Dotted) and is_pure(function.name)
    made = low.called(at, callee(low, function, at), given, key, pure=pure, differentiable=not constant)
    if isinstance(function, Dotted) and only_gives(function.name) and draws(function.name):
        low.given[made] = given
    else:
        differentiated = [*args, *(v for name, v in kwargs.items() if name not in _TOLERANCES)]
        _hand_on(low, callee(low, function, at), differentiated)
    return made


#: What writes values down; ``log`` where it is told what to call them.
_LOGS = frozenset(
    """add_histogram add_scalar add_scalars add_summary debug error info log_dict log_metrics log_scalar print scalar
    warning write""".split()
)
#: What keeps a value that no gradient comes back to: PyTorch trains no buffer.
_KEEPS = frozenset({"register_buffer"})
#: How closely a call is to compute: what it returns is not differentiated with respect to that.
_TOLERANCES = frozenset("atol ftol gtol rtol tol tolerance xtol".split())


def _hand_on(low: Lowering, name: str, given: Sequence[Value]) -> None:
    """Note that values leave the function by a call, unless they are only written down or kept."""
    last = name.rpartition(".")[2]
    if last not in _LOGS | _KEEPS and not (last == "log" and given and isinstance(given[0], (str, dict))):
        for value in given:
            low.leaves_function(value)


def callee(low: Lowering, function: Value, at: ast.AST) -> str:
    """What a call is made to, whatever its arguments."""
    if isinstance(function, (Dotted, Function)):
        return function.name
    return low.text(at.func) if isinstance(at, ast.Call) else low.text(at)


def inline(low: Lowering, function: Function, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    """Lower the body of a function of the project in place of the call."""
    function.called = True
    if function.opaque and function.custom_value and function.definition not in low.active:
        return _with_own_rule(low, function, args, kwargs, at)
    if is_abstract(function):
        return _overridden(low, function, [*args, *kwargs.values()], at)
    if function.opaque or function.definition in low.active or _too_much(low):
        given = [*args, *kwargs.values()]
        for value in given:
            low.leaves_function(value)
        key = (low.identity(function), *map(low.identity, given))
        differentiable = low.reads_gradient(nodes_in(*given))
        return low.called(at, function.name, given, key, pure=False, differentiable=differentiable)
    scope = Scope(function.scope.module, function.scope)
    bind(low, function, list(args), dict(kwargs), scope)
    frame = Frame(scope, function.name, function.block, len(low.path_conditions), method_of=function.owner)
    frame.receiver = next(iter(scope.names.values()), None)
    frame.call = _way_out(low, function, at)
    low.frames.append(frame)
    low.active.append(function.definition)
    before = len(low.made)
    try:
        if isinstance(function.definition, ast.Lambda):
            return low.expression(function.definition.body)
        with low.without_gradient(bool(function.decorators & NO_GRADIENT)):
            low.run(function.definition.body)
        del low.path_conditions[frame.conditions_at_entry :]
        low.path_conditions += frame.postconditions
    finally:
        low.active.pop()
        low.frames.pop()
        low.inlined.append((function, before, len(low.made)))
    # The call stands in the caller's block, and so does what is made of the call itself.
    if is_generator(function):
        return low.opaque(low.text(at), low.identity(frame))
    return result_of(low, frame, at)


def _too_much(low: Lowering) -> bool:
    """Whether a call is better not followed: it is nested deeply, or, which is noted, too much was computed already."""
    if low.crowded:
        name = next((frame.function for frame in low.frames if frame.function), "")
        low.budget.give_up(f"calls in `{name}`", "it computes too many values")
    return low.crowded or len(low.frames) > low.budget.depth


def _way_out(low: Lowering, function: Function, at: ast.AST) -> Origin | None:
    """The call by which control leaves the checked file."""
    if function.block.module is low.module:
        return None
    leaves = low.block.module is low.module and isinstance(at, ast.expr)
    return low.origin(at) if leaves else low.frame.call


def _with_own_rule(low: Lowering, function: Function, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    """A ``custom_jvp`` or ``custom_vjp`` function: the value is its body's, the derivative something finite."""
    function.opaque = False
    try:
        with low.without_gradient():
            result = inline(low, function, args, kwargs, at)
    finally:
        function.opaque = True
    given = list(nodes_in(*args, *kwargs.values()))
    if isinstance(result, (tuple, list)):
        return type(result)(low.node("custom", (r, *given), at) if isinstance(r, Node) else r for r in result)
    return low.node("custom", (result, *given), at) if isinstance(result, (Node, int, float)) else result


def is_abstract(function: Function) -> bool:
    """Whether a method is there for others to override: it says nothing, or that it is not implemented."""
    definition = function.definition
    if function.owner is None or isinstance(definition, ast.Lambda):
        return False
    body = definition.body
    if len(body) == 1 and isinstance(body[0], ast.If) and isinstance(body[0].test, ast.Constant) and body[0].test.value:
        body = body[0].body
    said = [each for each in body if not _says_nothing(each)]
    if not said:
        returns = definition.returns is not None and not is_none(definition.returns)
        return returns or "abstractmethod" in function.decorators
    return len(said) == 1 and isinstance(said[0], ast.Raise)


def _says_nothing(statement: ast.stmt) -> bool:
    """Whether a statement is a docstring, an ellipsis or ``pass``."""
    constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return constant or isinstance(statement, ast.Pass)


def _overridden(low: Lowering, function: Function, given: Args, at: ast.AST) -> Value:
    """What an abstract method returns: all that is known is what its annotation promises."""
    for value in given:
        low.leaves_function(value)
    key = (low.identity(function.definition), *map(low.identity, given))
    returns = getattr(function.definition, "returns", None)
    cls = annotated_class(low, returns, function.scope)
    if cls is not None:
        return low.objects.setdefault(key, Instance(cls, low.text(at)))
    promised = None if returns is None else annotation_kind(returns)
    inputs = list(nodes_in(*given))
    return low.called(
        at, function.name, given, key, pure=False, kind="float" if promised in (None, "static") else promised,
        differentiable=promised is None and (not inputs or low.reads_gradient(inputs)),
    )  # fmt: skip


def is_generator(function: Function) -> bool:
    """Whether calling a function runs its body later."""
    definition = function.definition
    if isinstance(definition, ast.Lambda) or not function.block.mentions("yield"):
        return False
    return function.block.chunk.once(_yields, definition)


def _yields(definition: FunctionDef) -> bool:
    return any(
        isinstance(n, (ast.Yield, ast.YieldFrom)) for n in below(definition.body, but=(*FUNCTION_DEFS, ast.Lambda))
    )


def result_of(low: Lowering, frame: Frame, at: ast.AST) -> Value:
    """What a call returns: the values of its ``return`` statements, chosen lazily by the paths to them."""
    if not frame.returns:
        return None
    result = frame.returns[-1][1]
    for path, value in reversed(frame.returns[:-1]):
        condition: Node | bool = True
        for part in path:
            condition = part if condition is True else low.node("logical_and", (condition, part), at)
        result = low.choose(condition, value, result, at)
    return result


def _method(low: Lowering, method: Method, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    receiver = method.receiver
    if isinstance(receiver, (list, dict, tuple, str)):
        container = CONTAINER_METHODS.get(method.name)
        if container is not None:
            result = container(low, receiver, args, kwargs, at)
            if result is not MISSING:
                return result
    if method.name in METHODS:
        result = METHODS[method.name](low, receiver, args, kwargs, at)
        if result is not MISSING:
            return result
    if isinstance(receiver, (Node, Method)):
        tensor = low.tensor(receiver, at)
        for framework in low.frameworks:
            prefix = FRAMEWORKS[framework].methods
            made = operation(low, f"{prefix}.{method.name}", [tensor, *args], kwargs, at) if prefix else None
            if made is not None:
                return made
    _hand_on(low, method.name, (*args, *kwargs.values()))
    low.leaves_function(receiver)
    inputs = list(nodes_in(receiver, *args, *kwargs.values()))
    key = (low.identity(receiver), method.name, *map(low.identity, args), *map(low.identity, kwargs.values()))
    pure = isinstance(receiver, (Node, Method)) and is_pure_method(method.name)
    differentiable = not inputs or low.reads_gradient(inputs)
    return low.called(at, f".{method.name}", (*args, *kwargs.values()), key, pure=pure, differentiable=differentiable)


_HANDLERS: dict[type, Callable[..., Value]] = {
    Handler: lambda low, function, args, kwargs, at: function.call(low, args, kwargs, at),
    Dotted: _external, Partial: _partial, Bound: _bound, Function: inline, Instance: _instance, Method: _method,
    Element: _method, object: _anything,
}  # fmt: skip
CALLS.update(_HANDLERS)


def bind(low: Lowering, function: Function, args: list[Value], kwargs: Kwargs, scope: Scope) -> None:
    """Bind arguments to parameters; a parameter without argument takes its default or becomes an input."""
    parameters = function.definition.args
    positional = len(parameters.posonlyargs) + len(parameters.args)
    for i, (parameter, default) in enumerate(_with_defaults(parameters)):
        name = parameter.arg
        if i < min(positional, len(args)):
            scope.names[name] = args[i]
        else:
            scope.names[name] = kwargs.pop(name) if name in kwargs else _default(low, function, parameter, default)
    if parameters.vararg is not None:
        scope.names[parameters.vararg.arg] = tuple(args[positional:])
    if parameters.kwarg is not None:
        scope.names[parameters.kwarg.arg] = kwargs


def _with_defaults(parameters: ast.arguments) -> list[tuple[ast.arg, ast.expr | None]]:
    """The parameters that take one argument, those by keyword alone last, each with its default."""
    positional = [*parameters.posonlyargs, *parameters.args]
    required = len(positional) - len(parameters.defaults)
    defaults = [*[None] * required, *parameters.defaults, *parameters.kw_defaults]
    return list(zip([*positional, *parameters.kwonlyargs], defaults, strict=True))


def _default(low: Lowering, function: Function, parameter: ast.arg, default: ast.expr | None) -> Value:
    """The default of a parameter, evaluated where the function was defined; an input where there is none."""
    if default is None:
        return parameter_input(low, function, parameter)
    with low.inside(Frame(function.scope, function.name, function.block, len(low.path_conditions))):
        return low.expression(default)


def parameter_input(low: Lowering, function: Function, parameter: ast.arg) -> Value:
    """The input that a parameter without an argument stands for: an object where its class is known."""
    cls = annotated_class(low, parameter.annotation, function.scope)
    if cls is not None:
        return Instance(cls, parameter.arg)

    made = annotated(low, parameter.arg, ("parameter", low.identity(parameter)), parameter.annotation)
    made.array |= isinstance(parameter.annotation, ast.Subscript)  # jaxtyping's Bool[Array, "..."]
    return made


def root_arguments(low: Lowering, function: Function) -> Kwargs:
    """Arguments for a function that is analysed on its own: inputs, and the defaults that are numbers."""
    given: Kwargs = {}
    for parameter, default in _with_defaults(function.definition.args):
        name = parameter.arg
        value: Value = MISSING
        if default is not None:
            value = _default(low, function, parameter, default)
            if isinstance(value, bool):
                value = low.opaque(name, ("parameter", low.identity(parameter)), kind="bool", preferred=value)
            elif isinstance(value, (int, float)):
                value = of_parameter(low, name, ("parameter", low.identity(parameter)), value)
            elif value is None:
                value = parameter_input(low, function, parameter)
                if isinstance(value, Leaf):
                    value.optional = True
            elif value == Dotted("numpy") and "jax" in low.frameworks:
                value = Dotted("jax.numpy")  # `xnp=np` is there for a caller to pass the other one
            elif isinstance(value, str):
                value = low.opaque(name, ("parameter", low.identity(parameter)), differentiable=False)
        given[name] = parameter_input(low, function, parameter) if value is MISSING else value
    return given
