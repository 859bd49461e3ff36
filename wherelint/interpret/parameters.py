"""Parameters: bound to arguments, to their defaults, or to inputs."""

from __future__ import annotations

import libcst as cst

from wherelint.graph.node import Leaf
from wherelint.interpret.annotations import annotated, dotted, original_name
from wherelint.interpret.builder import Frame
from wherelint.interpret.defaults import of_parameter
from wherelint.interpret.lowering import Lowering
from wherelint.interpret.resolve import external, global_value, member
from wherelint.interpret.values import MISSING, Class, Dotted, Function, Instance, Kwargs, Scope, Value


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
    with low.inside(Frame(function.scope, function.name, function.block, len(low.path_conditions))):
        return low.expression(parameter.default)


def parameter_input(low: Lowering, function: Function, parameter: cst.Param) -> Value:
    """The input that a parameter without an argument stands for: an object where its class is known."""
    cls = _annotated_class(low, function, parameter)
    if cls is not None:
        return Instance(cls, parameter.name.value)

    annotation = parameter.annotation.annotation if parameter.annotation is not None else None
    made = annotated(low, parameter.name.value, ("parameter", low.identity(parameter)), annotation)
    made.array |= isinstance(annotation, cst.Subscript)  # jaxtyping's Bool[Array, "..."]
    return made


def _annotated_class(low: Lowering, function: Function, parameter: cst.Param) -> Class | None:
    """The class of the project that a parameter is annotated with."""
    annotation = parameter.annotation.annotation if parameter.annotation is not None else None
    imports = function.scope.module.imports
    if isinstance(annotation, cst.BinaryOperation) and getattr(annotation.right, "value", None) == "None":
        annotation = annotation.left
    elif isinstance(annotation, cst.Subscript) and original_name(annotation.value, imports) == "Optional":
        element = annotation.slice[0].slice
        annotation = element.value if isinstance(element, cst.Index) else None
    written = annotation.evaluated_value if isinstance(annotation, cst.SimpleString) else dotted(annotation)
    first, *rest = written.split(".") if isinstance(written, str) else ("",)
    found = function.scope.find(first) if first.isidentifier() else None
    found = global_value(low, function.scope.module, first) if found is MISSING else found
    for name in rest:
        if isinstance(found, Dotted):
            found = external(low, function.scope.module, f"{found.name}.{name}")
        else:
            found = member(found, name) if isinstance(found, Class) else None
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
            elif isinstance(value, (int, float)):
                value = of_parameter(low, name, ("parameter", low.identity(parameter)), value)
            elif value is None:
                value = parameter_input(low, function, parameter)
                if isinstance(value, Leaf):
                    value.optional = True
            elif isinstance(value, str):
                value = low.opaque(name, ("parameter", low.identity(parameter)), differentiable=False)
        given[name] = parameter_input(low, function, parameter) if value is MISSING else value
    return given
