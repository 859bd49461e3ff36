"""Attributes: of modules, of tensors, of objects of the project."""

import ast

import numpy as np

from wherelint.frontend.names import canonical
from wherelint.frontend.namespaces import namespaces
from wherelint.frontend.syntax import dotted
from wherelint.graph.node import Leaf, Node, leaves
from wherelint.interpret.annotations import annotated
from wherelint.interpret.defaults import of_parameter
from wherelint.interpret.lowering import Lowering, expression
from wherelint.interpret.resolve import CONSTANTS, external, field_class, fields, member
from wherelint.interpret.values import MISSING, Bound, Class, Dotted, Function, Instance, Method, Shape, Super, Value

#: ``finfo`` of float32, the precision in which the search runs.
_FLOAT32 = np.finfo(np.float32)
FINFO = {
    name: float(getattr(_FLOAT32, name))
    for name in ("eps", "epsneg", "tiny", "smallest_normal", "smallest_subnormal", "max", "min", "resolution")
}
_SAME_ARRAY = frozenset({"T", "mT", "real", "data_", "H", "array"})
_SIZES = frozenset({"ndim", "nbytes", "itemsize"})


@expression(ast.Attribute)
def attribute(low: Lowering, node: ast.Attribute) -> Value:
    """``value.name``; a namespace of array functions has the constants of NumPy."""
    found = read(low, low.expression(node.value), node.attr, node)
    if node.attr.lower() in ("pi", "inf", "nan", "newaxis") and isinstance(found, (Dotted, Leaf, Method)):
        return CONSTANTS[node.attr.lower()] if dotted(node.value) in low.frame.scope.module.once(namespaces) else found
    return found


def read(low: Lowering, value: Value, name: str, at: ast.AST) -> Value:
    """An attribute of a value that was already lowered."""
    if isinstance(value, Dotted):
        return _external(low, value, name, at)
    if isinstance(value, Instance):
        return instance_attribute(low, value, name, at)
    if isinstance(value, Super):
        found = member(value.cls, name)
        return _bound(low, value.receiver, found, at) if found is not MISSING else low.opaque(low.text(at))
    if isinstance(value, Class):
        found = member(value, name)
        return found if found is not MISSING else low.opaque(low.text(at), low.identity(value), differentiable=False)
    if isinstance(value, Node):
        if name in _SAME_ARRAY:
            return low.node("identity", (value,), at)
        if name == "shape" or name in _SIZES:
            low.measure(value)
        if name == "shape":
            return Shape(low.text(at))
        if name in _SIZES:
            return low.opaque(low.text(at), ("size", low.identity(value)), kind="int")
        if name == "data":  # torch: the tensor without its history
            return low.stop(value, at)
        if name == "value" and isinstance(value, Leaf):
            return value
    if isinstance(value, Shape):
        return low.opaque(low.text(at), kind="int")
    if isinstance(value, Method) and value.name == "dtype" and name in ("max", "min"):  # TensorFlow's
        return FINFO[name]
    if isinstance(value, (int, float)) and name == "value":  # a member of an enumeration
        return value
    if isinstance(value, tuple) and len(value) == len(_RANKED) and name in _RANKED:
        return value[_RANKED.index(name)]
    return Method(value, name, low.text(at))


def _external(low: Lowering, value: Dotted, name: str, at: ast.AST) -> Value:
    if value.name.endswith("finfo()") and name in FINFO:
        return FINFO[name]
    if value.name.endswith("iinfo()"):
        return 2**31 - 1 if name == "max" else -(2**31)
    return external(low, low.module, canonical(f"{value.name}.{name}", low.module.aliases))


#: What functions that rank elements return, by the names of its parts.
_RANKED = ("values", "indices")


def instance_attribute(low: Lowering, value: Instance, name: str, at: ast.AST) -> Value:
    """``self.name``: assigned by the constructor, a method, a class constant, or unknown."""
    if name in value.attributes:
        return value.attributes[name]
    found, label, key = member(value.cls, name), f"{value.name}.{name}", (low.identity(value), name)
    if isinstance(found, Function):
        return _bound(low, value, found, at)
    if isinstance(found, bool):  # the default of an option: objects differ in it
        return low.opaque(label, key, kind="bool", differentiable=False, preferred=found)
    if isinstance(found, str):
        return low.opaque(label, key, differentiable=False)
    generated = value.stands_for_any and name in fields(value.cls)
    if isinstance(found, (int, float)) and generated and not isinstance(member(value.cls, "__init__"), Function):
        return of_parameter(low, label, key, found)
    if found is None or found is MISSING or isinstance(found, Leaf):
        cls = field_class(low, value.cls, name)
        if cls is not None:
            part = value.attributes[name] = Instance(cls, label)
            return part
    alone = isinstance(found, Leaf) and not value.stands_for_any  # each object has a field of its own
    if found is not MISSING and found is not None and not alone:
        return found
    annotation = fields(value.cls).get(name) if found is not MISSING else None
    made = value.attributes[name] = annotated(low, label, key, annotation)  # None is set later
    return made


def _bound(low: Lowering, receiver: Instance, found: Value, at: ast.AST) -> Value:
    """A class attribute as an object sees it: a method with its receiver, the value of a property."""
    if not isinstance(found, Function):
        return found
    if found.decorators & {"property", "cached_property", "lazy_property"}:
        return low.invoke(found, (receiver,), {}, at)
    if "staticmethod" in found.decorators:
        return found
    return Bound(found, receiver.cls if "classmethod" in found.decorators else receiver)


def keep_kind(low: Lowering, receiver: Instance, name: str, value: Value, *, buffer: bool = False) -> None:
    """An attribute whose later values are only known to have the dtype of its first."""
    if isinstance(value, Node):
        key = (low.identity(receiver), name)
        made = low.opaque(f"{receiver.name}.{name}", key, kind=value.kind, differentiable=not buffer)
        read = leaves(value)
        made.setting |= buffer and any(n.setting for n in (*read, *leaves(*(g for n in read for g in n.given))))
        receiver.attributes[name] = made
