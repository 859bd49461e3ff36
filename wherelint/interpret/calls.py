"""Calls: of the project's functions (inlined), of objects, of the catalogue, and of what cannot be followed."""

import ast
import re
from typing import TypeGuard

import numpy as np

from wherelint.frameworks import FRAMEWORKS, framework_of
from wherelint.frontend.namespaces import namespaces, selecting
from wherelint.frontend.syntax import FUNCTION_DEFS, FunctionDef, below, dotted, last_name, methods
from wherelint.graph.evaluate import evaluate
from wherelint.graph.node import Kind, Leaf, Node, flowing_back, inputs_in, topological
from wherelint.interpret import attributes
from wherelint.interpret.annotations import annotated, annotation_kind, is_none, takes_numbers_alone
from wherelint.interpret.builder import Frame
from wherelint.interpret.defaults import of_parameter
from wherelint.interpret.indexing import assign
from wherelint.interpret.lowering import (
    CALLS,
    CONTAINER_METHODS,
    FUNCTIONS,
    METHOD,
    METHODS,
    CallSite,
    Lowering,
    expression,
)
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
    elif isinstance(function, Dotted) and function.name.rpartition(".")[0] in low.frame.scope.module.once(selecting):
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
    if bound and base in module.once(namespaces) and _is_unknown(low, function):
        return _as_numpy(at.attr) or function
    return function


def _as_numpy(name: str) -> Dotted | None:
    """The function of arrays that a name stands for where NumPy is followed."""
    name = "astype" if name == "cast" else name
    spellings = dict.fromkeys((name, name.replace("_", "")))  # `is_nan`
    names = [f"{package}.{each}" for each in spellings for package in ("jax.numpy", "torch")]
    return next((Dotted(each) for each in names if lookup(each) is not None or each in FUNCTIONS), None)


def _is_unknown(low: Lowering, function: Value) -> bool:
    """Whether a function of the project is made in a way that is not followed."""
    if isinstance(function, Dotted):
        own = low.module.project.find(function.name) is not None
        return lookup(function.name) is None and (own or framework_of(function.name) is None)
    return isinstance(function, (Leaf, Method))


def _register(low: Lowering, function: ast.Attribute, args: Args, kwargs: Kwargs) -> None:
    """``self.register_buffer("scale", tensor)`` and its like: an attribute of some dtype; a buffer that lasts."""
    receiver = low.expression(function.value)
    receiver = receiver.receiver if isinstance(receiver, Super) else receiver
    name, value = args[0] if args else kwargs.get("name"), args[1] if len(args) > 1 else kwargs.get("default")
    if not (isinstance(receiver, Instance) and isinstance(name, str) and name.isidentifier()):
        return
    buffer = function.attr == "register_buffer"
    if buffer and is_constant(value):
        receiver.attributes[name] = low.stop(value, function, value.kind)
    else:
        attributes.keep_kind(low, receiver, name, value, buffer=buffer)


def is_constant(value: Value) -> TypeGuard[Node]:
    """Whether a tensor that nobody trains stays what it is made as: zeros and ones are what statistics begin with."""
    if not isinstance(value, Node) or isinstance(value, Leaf):
        return False
    order = topological([value])
    return bool(inputs_in(order)) or not np.isin(evaluate(order, {})[value], (0.0, 1.0)).all()


def _external(low: Lowering, function: Dotted, call: CallSite) -> Value:
    if _converts(function.name) and not low.path_conditions:
        for node in flowing_back(nodes_in(*call.values)):
            if isinstance(node, Leaf):
                node.host = True
    call = call.named(function.name)
    handler = FUNCTIONS.get(call.name)
    found = MISSING if handler is None else handler(low, call)
    if found is not MISSING:
        return found
    made = operation(low, call)
    return MISSING if made is None else made


def _converts(name: str) -> bool:
    """Whether NumPy computes with the elements of what a function is given, not just with its shape."""
    return name.startswith("numpy.linalg.") or (name.startswith("numpy.") and lookup(name) is not None)


def _partial(low: Lowering, function: Partial, call: CallSite) -> Value:
    return low.invoke(function.function, [*function.args, *call.args], {**function.kwargs, **call.kwargs}, call.at)


def _bound(low: Lowering, function: Bound, call: CallSite) -> Value:
    return low.invoke(function.function, [function.receiver, *call.args], call.kwargs, call.at)


def _instance(low: Lowering, function: Instance, call: CallSite) -> Value:
    methods = (member(function.cls, name) for name in ("__call__", "forward", "call"))
    method = next((each for each in methods if isinstance(each, Function)), None)
    return MISSING if method is None else inline(low, method, call.with_receiver(function))


def unknown(low: Lowering, function: Value, call: CallSite) -> Node:
    """A call that cannot be followed: its result may be anything, and what it was given leaves our sight."""
    name = function.name if isinstance(function, (Dotted, Function)) else low.text(getattr(call.at, "func", call.at))
    if _DTYPE.search(name) and len(call.args) == 1 and isinstance(call.args[0], (int, float, Node)):
        return low.node("identity", (call.args[0],), call.at)  # ``dtype(1.0)``, whatever NumPy type that is
    inputs = list(nodes_in(*call.values))
    differentiable = low.reads_gradient(inputs)
    if not isinstance(function, Dotted):
        made = low.called(call, name, low.identity(function), differentiable=differentiable or not inputs)
    else:
        differentiable &= not name.startswith("numpy.")
        made = low.called(call, name, name, pure=is_pure(name), differentiable=differentiable)
        if only_gives(name) and draws(name):
            low.given[made] = call.values
            return made
    _hand_on(low, name, [*call.args, *(v for key, v in call.kwargs.items() if key not in _TOLERANCES)])
    return made


#: A type of NumPy, by what it is called: ``dtype``, ``as_numpy_dtype(x.dtype)``.
_DTYPE = re.compile(r"dtype(?:\([^()]*\))?$")
#: What writes values down (``log`` where it is told what to call them), or keeps one that no gradient comes back to.
_RECORDS = frozenset(
    """add_histogram add_scalar add_scalars add_summary debug error info log_dict log_metrics log_scalar print scalar
    warning write register_buffer""".split()
)
#: How closely a call is to compute: what it returns is not differentiated with respect to that.
_TOLERANCES = frozenset("atol ftol gtol rtol tol tolerance xtol".split())


def _hand_on(low: Lowering, name: str, values: list[Value]) -> None:
    """Note that values leave the function by a call, unless they are only written down or kept."""
    last = name.rpartition(".")[2]
    if last not in _RECORDS and not (last == "log" and values and isinstance(values[0], (str, dict))):
        low.leaves_function(values)


def inline(low: Lowering, function: Function, call: CallSite) -> Value:
    """Lower the body of a function of the project in place of the call."""
    function.called = True
    active = any(frame.definition is function.definition for frame in low.frames)
    if function.opaque and function.custom_value and not active:
        return _with_own_rule(low, function, call)
    if is_abstract(function):
        return _overridden(low, function, call)
    if function.opaque or active or _is_too_much(low):
        low.leaves_function(call.values)
        differentiable = low.reads_gradient(nodes_in(*call.values))
        return low.called(call, function.name, low.identity(function), differentiable=differentiable)
    scope = Scope(function.scope.module, function.scope)
    bind(low, function, list(call.args), dict(call.kwargs), scope)
    frame = Frame(scope, function.name, function.block, len(low.path_conditions), method_of=function.owner)
    frame.definition, frame.receiver = function.definition, next(iter(scope.names.values()), None)
    if function.block.module is not low.module:  # the call by which control leaves the checked file
        leaves = low.block.module is low.module and isinstance(call.at, ast.expr)
        frame.call = low.origin(call.at) if leaves else low.frame.call
    before = len(low.made)
    try:
        with low.inside(frame):
            if isinstance(function.definition, ast.Lambda):
                return low.expression(function.definition.body)
            with low.without_gradient(bool(function.decorators & NO_GRADIENT)):
                low.run(function.definition.body)
            del low.path_conditions[frame.conditions_at_entry :]
            low.path_conditions += frame.postconditions
    finally:
        low.inlined.append((function, before, len(low.made)))
    # The call stands in the caller's block, and so does what is made of the call itself.
    if function.block.mentions("yield") and function.block.chunk.once(_yields, function.definition):
        return low.opaque(low.text(call.at), low.identity(frame))
    return _result(low, frame, call.at)


def _is_too_much(low: Lowering) -> bool:
    """Whether a call is better not followed: it is nested deeply, or, which is noted, too much was computed already."""
    if low.crowded:
        name = next((frame.function for frame in low.frames if frame.function), "")
        low.budget.give_up(f"calls in `{name}`", "it computes too many values")
    return low.crowded or len(low.frames) > low.budget.depth


def _with_own_rule(low: Lowering, function: Function, call: CallSite) -> Value:
    """A ``custom_jvp`` or ``custom_vjp`` function: the value is its body's, the derivative something finite."""
    function.opaque = False
    try:
        with low.without_gradient():
            result = inline(low, function, call)
    finally:
        function.opaque = True
    operands = list(nodes_in(*call.values))
    if isinstance(result, (tuple, list)):
        return type(result)(low.node("custom", (r, *operands), call.at) if isinstance(r, Node) else r for r in result)
    return low.node("custom", (result, *operands), call.at) if isinstance(result, (Node, int, float)) else result


def is_abstract(function: Function) -> bool:
    """Whether a method is there for others to override: it says nothing, or that it is not implemented."""
    definition = function.definition
    if function.owner is None or isinstance(definition, ast.Lambda):
        return False
    statements = (each.value if isinstance(each, ast.Expr) else each for each in definition.body)
    body = [each for each in statements if not isinstance(each, (ast.Constant, ast.Pass))]
    if not body:  # a docstring, an ellipsis, ``pass``
        returns = definition.returns is not None and not is_none(definition.returns)
        return returns or "abstractmethod" in function.decorators
    return len(body) == 1 and isinstance(body[0], ast.Raise)


def _overridden(low: Lowering, function: Function, call: CallSite) -> Value:
    """What an abstract method returns: all that is known is what its annotation promises."""
    low.leaves_function(call.values)
    key, returns = low.identity(function.definition), getattr(function.definition, "returns", None)
    cls = annotated_class(low, returns, function.scope)
    if cls is not None:
        return low.objects.setdefault((key, *map(low.identity, call.values)), Instance(cls, low.text(call.at)))
    promised = None if returns is None else annotation_kind(returns)
    kind: Kind = "float" if promised is None or promised == "static" else promised
    inputs = list(nodes_in(*call.values))
    differentiable = promised is None and (not inputs or low.reads_gradient(inputs)) and not _is_detached(function)
    return low.called(call, function.name, key, kind=kind, differentiable=differentiable)


def _is_detached(function: Function) -> bool:
    """Whether every override of an abstract method in its file returns a value without its derivative."""
    owner, name = function.owner.name if function.owner is not None else "", function.name.rpartition(".")[2]
    found = [each for statement, _ in function.block.module.blocks
             if isinstance(statement, ast.ClassDef) and owner in map(last_name, statement.bases)
             for each in methods(statement) if each.name == name]  # fmt: skip
    returned = [node.value for each in found for node in below(each.body) if isinstance(node, ast.Return)]
    calls = [last_name(value.func) if isinstance(value, ast.Call) else "" for value in returned]
    return bool(calls) and frozenset(calls) <= {"stop_gradient", "detach"}


def _yields(definition: FunctionDef) -> bool:
    """Whether a call runs the body later."""
    inside = below(definition.body, but=(*FUNCTION_DEFS, ast.Lambda))
    return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in inside)


def _result(low: Lowering, frame: Frame, at: ast.AST) -> Value:
    """What a call returns: the values of its ``return`` statements, chosen lazily by the paths to them."""
    returns = frame.returns
    if len(low.frames) == 1:  # whoever calls the function that is searched asks whether it gave None
        returns = [(path, value) for path, value in returns if value is not None]
    if not returns:
        return None
    result = returns[-1][1]
    for path, value in reversed(returns[:-1]):
        condition: Node | bool = True
        for part in path:
            condition = part if condition is True else low.node("logical_and", (condition, part), at)
        result = low.choose(condition, value, result, at)
    return result


def _method(low: Lowering, method: Method, call: CallSite) -> Value:
    receiver, name = method.receiver, method.name
    site = call.with_receiver(receiver).named(METHOD + name)
    is_container = isinstance(receiver, (list, dict, tuple, str))
    for table in (CONTAINER_METHODS, METHODS) if is_container else (METHODS,):
        found = table[name](low, site) if name in table else MISSING
        if found is not MISSING:
            return found
    is_tensor = isinstance(receiver, (Node, Method))
    if is_tensor:
        tensor = low.tensor(receiver, call.at)
        for prefix in filter(None, (FRAMEWORKS[framework].methods for framework in low.frameworks)):
            made = operation(low, call.with_receiver(tensor).named(f"{prefix}.{name}"))
            if made is not None:
                return made
    _hand_on(low, name, call.values)
    low.leaves_function(receiver)
    inputs = list(nodes_in(*site.values))
    differentiable = not inputs or low.reads_gradient(inputs)
    key = (low.identity(receiver), name)
    return low.called(call, f".{name}", key, pure=is_tensor and is_pure_method(name), differentiable=differentiable)


CALLS.update({
    Dotted: _external, Partial: _partial, Bound: _bound, Function: inline, Instance: _instance, Method: _method,
    Element: _method, object: unknown, Handler: lambda low, function, call: function.call(low, call),
})  # fmt: skip


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
    """The default of a parameter, evaluated where the function was defined.

    Without one it is an input, or an object where its class is known.
    """
    if default is not None:
        with low.inside(Frame(function.scope, function.name, function.block, len(low.path_conditions))):
            return low.expression(default)
    cls = annotated_class(low, parameter.annotation, function.scope)
    if cls is not None:
        return Instance(cls, parameter.arg)
    made = annotated(low, parameter.arg, ("parameter", low.identity(parameter)), parameter.annotation)
    made.array |= isinstance(parameter.annotation, ast.Subscript)  # jaxtyping's Bool[Array, "..."]
    made.setting &= not takes_numbers_alone(function.definition.args)
    return made


def root_arguments(low: Lowering, function: Function) -> Kwargs:
    """Arguments for a function that is analysed on its own: inputs, and the defaults that are numbers."""
    given: Kwargs = {}
    for parameter, default in _with_defaults(function.definition.args):
        name, key = parameter.arg, ("parameter", low.identity(parameter))
        value = _default(low, function, parameter, default)
        if default is not None and value is None:
            value = _default(low, function, parameter, None)
        elif isinstance(value, bool):
            value = low.opaque(name, key, kind="bool", preferred=value)
        elif isinstance(value, (int, float)):
            value = of_parameter(low, name, key, value)
        elif value == Dotted("numpy") and "jax" in low.frameworks:
            value = Dotted("jax.numpy")  # `xnp=np` is there for a caller to pass the other one
        elif isinstance(value, str):
            value = low.opaque(name, key, differentiable=False)
        given[name] = value
    return given
