"""What annotations promise."""

import ast
from typing import Literal

from wherelint.frontend.syntax import last_name
from wherelint.graph.node import Kind, Leaf
from wherelint.interpret.builder import Builder

_Kind = Kind | Literal["static"]
_KINDS: dict[str, _Kind] = {
    "int": "int", "bool": "bool", "str": "static", "Callable": "static", "LongTensor": "int", "IntTensor": "int",
    "BoolTensor": "bool", "Literal": "static", "Type": "static", "type": "static",
}  # fmt: skip
#: jaxtyping's array types, by what their elements are.
_ELEMENTS: dict[str, _Kind] = {**dict.fromkeys("Int Integer UInt Int32 Int64".split(), "int"), "Bool": "bool"}
_ARRAYS = frozenset({"Tensor", "Array", "ndarray"})
_CONTAINERS = frozenset(
    {"tuple", "Tuple", "list", "List", "Sequence", "Iterable", "Optional", "Union", "Final", "ClassVar"}
)


def annotation_kind(annotation: ast.expr) -> _Kind | None:
    """The kind of value an annotation promises: "int", "bool", "static", or None for a float or what is not known."""
    if isinstance(annotation, (ast.Name, ast.Attribute)):
        return _KINDS.get(last_name(annotation))
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return _KINDS.get(annotation.value)
    if isinstance(annotation, ast.BinOp):  # int | None
        return _agreed([annotation.left, annotation.right])
    if isinstance(annotation, ast.Subscript):
        head, inner = last_name(annotation.value), annotation.slice
        if head in _CONTAINERS:
            return _agreed(inner.elts if isinstance(inner, ast.Tuple) else [inner])
        return _ELEMENTS.get(head, "static" if _KINDS.get(head) == "static" else None)
    return None


def is_none(node: ast.AST) -> bool:
    """Whether an expression is None itself."""
    return isinstance(node, ast.Constant) and node.value is None


def is_number(annotation: ast.expr) -> bool:
    """Whether an annotation promises one of Python's floating-point numbers, or none."""
    if isinstance(annotation, ast.BinOp):  # float | None
        other = annotation.right
        return is_number(annotation.left) and (is_none(other) or last_name(other) in ("int", "float"))
    if isinstance(annotation, ast.Subscript) and last_name(annotation.value) == "Optional":
        return is_number(annotation.slice)
    return last_name(annotation) == "float"


def takes_numbers_alone(parameters: ast.arguments) -> bool:
    """Whether all that a function takes are numbers: JAX's arrays without axes are often annotated so."""
    every = [*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs]
    return bool(every) and all(each.annotation is not None and is_number(each.annotation) for each in every)


def annotated(low: Builder, name: str, key: object, annotation: ast.expr | None) -> Leaf:
    """An input as its annotation describes it."""
    promised = None if annotation is None else annotation_kind(annotation)
    kind: Kind = "float" if promised is None or promised == "static" else promised
    made = low.opaque(name, key, kind=kind, differentiable=promised is None)
    if annotation is not None:
        made.setting |= is_number(annotation)
        made.array |= last_name(annotation) in _ARRAYS
    return made


def _agreed(parts: list[ast.expr]) -> _Kind | None:
    """The kind that all parts have, None aside."""
    kinds = {annotation_kind(p) for p in parts if not (isinstance(p, ast.Constant) and p.value in (None, ...))}
    return kinds.pop() if len(kinds) == 1 else None
