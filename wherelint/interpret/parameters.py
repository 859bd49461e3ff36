"""Parameters: bound to arguments, to their defaults, or to inputs."""

import ast

from wherelint.graph.node import Leaf
from wherelint.interpret.annotations import annotated
from wherelint.interpret.builder import Frame
from wherelint.interpret.defaults import of_parameter
from wherelint.interpret.lowering import Lowering
from wherelint.interpret.resolve import annotated_class
from wherelint.interpret.values import MISSING, Dotted, Function, Instance, Kwargs, Scope, Value


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
