"""Calls: of the project's functions (inlined), of objects, of the catalogue, and of what cannot be followed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import libcst as cst

from wherelint.frontend.syntax import GiveUp
from wherelint.graph.node import Node
from wherelint.interpret import attributes
from wherelint.interpret.constraints import constrain
from wherelint.interpret.defaults import of_parameter
from wherelint.interpret.lowering import Frame, Lowering
from wherelint.interpret.resolve import global_value, member
from wherelint.interpret.values import (
    MISSING,
    Bound,
    Class,
    Dotted,
    Function,
    Handler,
    Instance,
    Method,
    Origin,
    Partial,
    Scope,
    Super,
    Value,
    nodes_in,
)
from wherelint.ops import lookup
from wherelint.ops.purity import is_pure, is_pure_method

Args = Sequence[Value]
Kwargs = dict[str, Value]


def call(low: Lowering, node: cst.Call) -> Value:
    """``function(arguments)``."""
    function = low.expression(node.func)
    args: list[Value] = []
    kwargs: Kwargs = {}
    for argument in node.args:
        value = low.expression(argument.value)
        if argument.star == "*":
            args += value if isinstance(value, (list, tuple)) else [value]
        elif argument.star == "**":
            kwargs.update({k: v for k, v in value.items() if isinstance(k, str)} if isinstance(value, dict) else {})
        elif argument.keyword is not None:
            kwargs[argument.keyword.value] = value
        else:
            args.append(value)
    if isinstance(function, Node) and isinstance(node.func, cst.Attribute):
        _register(low, node.func, args, kwargs)
    result = invoke(low, function, args, kwargs, node)
    if isinstance(function, Method) and function.name.endswith("_") and not function.name.startswith("_"):
        _rebind(low, node.func, result)
    return result


def _register(low: Lowering, function: cst.Attribute, args: Args, kwargs: Kwargs) -> None:
    """``self.register_buffer("scale", tensor)`` and its like, inherited from outside: an attribute of some dtype."""
    receiver = low.expression(function.value)
    receiver = receiver.receiver if isinstance(receiver, Super) else receiver
    name, value = args[0] if args else kwargs.get("name"), args[1] if len(args) > 1 else kwargs.get("default")
    if isinstance(receiver, Instance) and isinstance(name, str) and name.isidentifier():
        attributes.keep_kind(low, receiver, name, value, buffer=function.attr.value == "register_buffer")


def _rebind(low: Lowering, function: cst.BaseExpression, result: Value) -> None:
    """PyTorch's methods with a trailing underscore write to their receiver."""
    from wherelint.interpret.statements import assign

    if isinstance(function, cst.Attribute) and isinstance(function.value, (cst.Name, cst.Attribute)):
        assign(low, function.value, result)


def invoke(low: Lowering, function: Value, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    """Call a value."""
    if isinstance(function, Handler):
        return function.call(low, args, kwargs, at)
    if isinstance(function, Dotted):
        return _external(low, function.name, args, kwargs, at)
    if isinstance(function, Partial):
        return invoke(low, function.function, [*function.args, *args], {**function.kwargs, **kwargs}, at)
    if isinstance(function, Bound):
        return invoke(low, function.function, [function.receiver, *args], kwargs, at)
    if isinstance(function, Function):
        return inline(low, function, args, kwargs, at)
    if isinstance(function, Class):
        made = Instance(function, low.text(at))
        construct(low, made, args, kwargs, at)
        constrain(low, made)
        low.facts += made.facts
        return made
    if isinstance(function, Instance):
        for name in ("__call__", "forward", "call"):
            method = member(function.cls, name)
            if isinstance(method, Function):
                return inline(low, method, [function, *args], kwargs, at)
    if isinstance(function, Method):
        return _method(low, function, args, kwargs, at)
    if len(args) == 1 and not kwargs and isinstance(args[0], (int, float)) and _is_dtype(function):
        return args[0]  # `dtype = as_numpy_dtype(x); dtype(0.5)`
    return unknown(low, function, args, kwargs, at)


def _is_dtype(function: Value) -> bool:
    """Whether a value that could not be followed goes by the name of a dtype: it converts what it is called with."""
    name = function.params.get("name", "") if isinstance(function, Node) else getattr(function, "text", "")
    return "dtype" in name


def unknown(
    low: Lowering, function: Value, args: Args, kwargs: Kwargs, at: cst.CSTNode, *, kind: Any = "float"
) -> Node:
    """A call that cannot be followed: its result may be anything, and what it was given leaves our sight."""
    given = [*args, *kwargs.values()]
    for value in given:
        low.leaves_function(value)
    inputs = list(nodes_in(*given))
    constant = not low.reads_gradient(inputs) if inputs else isinstance(function, Dotted)
    key = (function.name if isinstance(function, Dotted) else low.identity(function), *map(low.identity, given))
    pure = isinstance(function, Dotted) and is_pure(function.name)
    return low.called(at, callee(low, function, at), given, key, pure=pure, kind=kind, differentiable=not constant)


def callee(low: Lowering, function: Value, at: cst.CSTNode) -> str:
    """What a call is made to, whatever its arguments."""
    if isinstance(function, (Dotted, Function)):
        return function.name
    return low.text(at.func) if isinstance(at, cst.Call) else low.text(at)


def _external(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    from wherelint.intrinsics.selections import HANDLERS

    handler = HANDLERS.get(name)
    if handler is not None:
        result = handler(low, name, args, kwargs, at)
        if result is not NotImplemented:
            return result
    made = operation(low, name, args, kwargs, at)
    return unknown(low, Dotted(name), args, kwargs, at) if made is None else made


def operation(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    """A call of the catalogue, with the arguments that change what it computes; None where it is not in the tables."""
    signature = lookup(name)
    if signature is None:
        return None
    from wherelint.intrinsics.selections import adapt

    return adapt(low, name, signature, args, kwargs, at)


def inline(low: Lowering, function: Function, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    """Lower the body of a function of the project in place of the call."""
    function.called = True
    if function.opaque and function.custom_value and function.definition not in low.active:
        return _with_own_rule(low, function, args, kwargs, at)
    if function.opaque or function.definition in low.active or _too_much(low):
        given = [*args, *kwargs.values()]
        for value in given:
            low.leaves_function(value)
        key = (low.identity(function), *map(low.identity, given))
        differentiable = low.reads_gradient(nodes_in(*given))
        return low.called(at, function.name, given, key, pure=False, differentiable=differentiable)
    scope = Scope(function.scope.module, function.scope)
    bind(low, function, list(args), dict(kwargs), scope)
    frame = Frame(scope, function.name, function.block, len(low.facts), method_of=function.owner)
    frame.receiver = next(iter(scope.names.values()), None)
    frame.call = _way_out(low, function, at)
    low.frames.append(frame)
    low.active.append(function.definition)
    before = len(low.made)
    try:
        if isinstance(function.definition, cst.Lambda):
            return low.expression(function.definition.body)
        severed = _never_differentiated(function)
        low.severed += severed
        try:
            low.run(list(function.definition.body.body))
        finally:
            low.severed -= severed
        del low.facts[frame.facts_at_entry :]
        low.facts += frame.lasting
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


def _way_out(low: Lowering, function: Function, at: cst.CSTNode) -> Origin | None:
    """The call by which control leaves the checked file."""
    if function.block.module is low.module:
        return None
    leaves = low.block.module is low.module and isinstance(at, cst.BaseExpression)
    return low.origin(at) if leaves else low.frame.call


def _with_own_rule(low: Lowering, function: Function, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
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


def _never_differentiated(function: Function) -> int:
    return int(bool(attributes.decorator_names(function) & {"no_grad", "inference_mode"}))


class _Yields(cst.CSTVisitor):
    def __init__(self) -> None:
        self.found = False

    def visit_Yield(self, node: cst.Yield) -> None:
        self.found = True

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return False

    def visit_Lambda(self, node: cst.Lambda) -> bool:
        return False


def is_generator(function: Function) -> bool:
    """Whether calling a function runs its body later."""
    definition = function.definition
    if isinstance(definition, cst.Lambda) or not function.block.mentions("yield"):
        return False
    return function.block.chunk.once(_yields, definition)


def _yields(definition: cst.FunctionDef) -> bool:
    finder = _Yields()
    definition.body.visit(finder)
    return finder.found


def result_of(low: Lowering, frame: Frame, at: cst.CSTNode) -> Value:
    """What a call returns: the values of its ``return`` statements, chosen lazily by the paths to them."""
    if not frame.returns:
        return None
    result = frame.returns[-1][1]
    for path, value in reversed(frame.returns[:-1]):
        condition: Node | bool = True
        for fact in path:
            condition = fact if condition is True else low.node("logical_and", (condition, fact), at)
        result = low.choose(condition, value, result, at)
    return result


def bind(low: Lowering, function: Function, args: list[Value], kwargs: Kwargs, scope: Scope) -> None:
    """Bind arguments to parameters; a parameter without argument takes its default or becomes an input."""
    parameters = function.definition.params
    positional = [*parameters.posonly_params, *parameters.params]
    for i, parameter in enumerate(positional):
        name = parameter.name.value
        if i < len(args):
            scope.names[name] = args[i]
        else:
            scope.names[name] = kwargs.pop(name) if name in kwargs else default(low, function, parameter)
    for parameter in parameters.kwonly_params:
        name = parameter.name.value
        scope.names[name] = kwargs.pop(name) if name in kwargs else default(low, function, parameter)
    if isinstance(parameters.star_arg, cst.Param):
        scope.names[parameters.star_arg.name.value] = tuple(args[len(positional) :])
    if parameters.star_kwarg is not None:
        scope.names[parameters.star_kwarg.name.value] = kwargs


def default(low: Lowering, function: Function, parameter: cst.Param) -> Value:
    """The default of a parameter, evaluated where the function was defined; an input where there is none."""
    if parameter.default is None:
        return parameter_input(low, function, parameter)
    low.frames.append(Frame(function.scope, function.name, function.block, len(low.facts)))
    try:
        return low.expression(parameter.default)
    finally:
        low.frames.pop()


def parameter_input(low: Lowering, function: Function, parameter: cst.Param) -> Value:
    """The input that a parameter stands for when nobody gave an argument: an object where its class is known."""
    from wherelint.interpret.statements import annotation_kind

    cls = _annotated_class(low, function, parameter)
    if cls is not None:
        return Instance(cls, parameter.name.value)

    kind = annotation_kind(parameter.annotation.annotation) if parameter.annotation is not None else None
    static = kind == "static"
    made = low.opaque(
        parameter.name.value,
        ("parameter", low.identity(parameter)),
        kind="float" if static or kind is None else kind,
        differentiable=not static,
    )
    if parameter.annotation is not None and isinstance(parameter.annotation.annotation, cst.Subscript):
        made.params["array"] = True  # jaxtyping's Bool[Array, "..."]
    return made


def _annotated_class(low: Lowering, function: Function, parameter: cst.Param) -> Class | None:
    """The class of the project that a parameter is annotated with."""
    annotation = parameter.annotation.annotation if parameter.annotation is not None else None
    if isinstance(annotation, cst.BinaryOperation) and getattr(annotation.right, "value", None) == "None":
        annotation = annotation.left
    elif isinstance(annotation, cst.Subscript) and attributes.last_name(annotation.value) == "Optional":
        element = annotation.slice[0].slice
        annotation = element.value if isinstance(element, cst.Index) else None
    name = annotation.evaluated_value if isinstance(annotation, cst.SimpleString) else None
    name = annotation.value if isinstance(annotation, cst.Name) else name
    if not isinstance(name, str) or not name.isidentifier():
        return None
    found = function.scope.find(name)
    found = global_value(low, function.scope.module, name) if found is MISSING else found
    return found if isinstance(found, Class) else None


def root_arguments(low: Lowering, function: Function) -> Kwargs:
    """Arguments for a function that is analysed on its own: inputs, and the defaults that are numbers."""
    given: Kwargs = {}
    parameters = function.definition.params
    for parameter in [*parameters.posonly_params, *parameters.params, *parameters.kwonly_params]:
        name = parameter.name.value
        value: Value = MISSING
        if parameter.default is not None:
            value = default(low, function, parameter)
            if isinstance(value, bool):
                value = low.opaque(name, ("parameter", low.identity(parameter)), kind="bool", preferred=value)
            elif isinstance(value, (int, float)) and low.strict:
                usual = value
                value = low.opaque(name, ("parameter", low.identity(parameter)), differentiable=False)
                value.params["default"] = usual
            elif isinstance(value, (int, float)):
                value = of_parameter(low, name, ("parameter", low.identity(parameter)), value)
            elif value is None:
                value = parameter_input(low, function, parameter)
            elif isinstance(value, str):
                value = low.opaque(name, ("parameter", low.identity(parameter)), differentiable=False)
        given[name] = parameter_input(low, function, parameter) if value is MISSING else value
    return given


def construct(low: Lowering, made: Instance, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> None:
    """Run the constructor of a class of the project; dataclasses and NamedTuples take their fields in order."""
    constructor = member(made.cls, "__init__")
    if isinstance(constructor, Function):
        if args or kwargs or made.cls.instance is None or made is not made.cls.instance:
            inline(low, constructor, [made, *args], kwargs, at)
        else:
            _construct_unknown(low, made, constructor, at)
        return
    setup = member(made.cls, "setup")
    fields = _fields(made.cls)
    for name, value in zip(fields, args, strict=False):
        made.attributes[name] = value
    made.attributes.update(kwargs)
    if isinstance(setup, Function):
        inline(low, setup, [made], {}, at)


def _construct_unknown(low: Lowering, made: Instance, constructor: Function, at: cst.CSTNode) -> None:
    """Attributes of an object about which only its class is known."""
    given = root_arguments(low, constructor)
    first = next(iter(given), None)
    if first is not None:
        given[first] = made
    sinks, kept, closures, facts = len(low.sinks), list(low.made), list(low.closures), len(low.facts)
    try:
        inline(low, constructor, [], given, at)
    except GiveUp:
        pass  # what it did not come to assign may be anything
    finally:
        # The constructor is a root of its own; here only the attributes it leaves behind matter, and what it checked.
        made.facts = tuple(low.facts[facts:])
        del low.sinks[sinks:], low.facts[facts:]
        low.made[:], low.closures[:] = kept, closures
        constructor.called = False


def _fields(cls: Class) -> list[str]:
    fields: list[str] = []
    for ancestor in reversed(list(cls.ancestry())):
        body = ancestor.definition.body
        for line in body.body:
            for statement in line.body if isinstance(line, cst.SimpleStatementLine) else ():
                if isinstance(statement, cst.AnnAssign) and isinstance(statement.target, cst.Name):
                    fields.append(statement.target.value)
    return list(dict.fromkeys(fields))


def _method(low: Lowering, method: Method, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    from wherelint.intrinsics.methods import METHODS
    from wherelint.intrinsics.python import CONTAINER_METHODS

    receiver = method.receiver
    if isinstance(receiver, (list, dict, tuple, str)) and method.name != "at[]" and not _is_at(method):
        container = CONTAINER_METHODS.get(method.name)
        if container is not None:
            result = container(low, receiver, args, kwargs, at)
            if result is not NotImplemented:
                return result
    if method.name in METHODS:
        result = METHODS[method.name](low, receiver, args, kwargs, at)
        if result is not NotImplemented:
            return result
    if isinstance(receiver, (Node, Method)):
        tensor = low.tensor(receiver, at)
        for framework in low.frameworks:
            prefix = {"torch": "torch.Tensor", "jax": "jax.Array"}.get(framework)
            made = operation(low, f"{prefix}.{method.name}", [tensor, *args], kwargs, at) if prefix else None
            if made is not None:
                return made
    for value in (*args, *kwargs.values()):
        low.leaves_function(value)
    low.leaves_function(receiver)
    inputs = list(nodes_in(receiver, *args, *kwargs.values()))
    key = (low.identity(receiver), method.name, *map(low.identity, args), *map(low.identity, kwargs.values()))
    pure = isinstance(receiver, (Node, Method)) and is_pure_method(method.name)
    differentiable = not inputs or low.reads_gradient(inputs)
    return low.called(at, f".{method.name}", (*args, *kwargs.values()), key, pure=pure, differentiable=differentiable)


def _is_at(method: Method) -> bool:
    return (
        isinstance(method.receiver, tuple)
        and len(method.receiver) == 2
        and isinstance(method.receiver[1], cst.Subscript)
    )
