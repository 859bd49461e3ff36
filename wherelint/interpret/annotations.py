"""What annotations promise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import libcst as cst

from wherelint.graph.node import Kind, Leaf
from wherelint.interpret.builder import Builder


def last_name(node: cst.CSTNode) -> str:
    """The last part of a dotted name; empty for anything else."""
    last = node.attr if isinstance(node, cst.Attribute) else node
    return last.value if isinstance(last, cst.Name) else ""


def dotted(node: cst.CSTNode | None) -> str:
    """A name with the modules and classes it stands in; empty for anything else."""
    if isinstance(node, cst.Attribute):
        parent = dotted(node.value)
        return parent and f"{parent}.{node.attr.value}"
    return node.value if isinstance(node, cst.Name) else ""


def original_name(node: cst.CSTNode, imports: Mapping[str, str]) -> str:
    """The same, seen through a renaming import."""
    name = last_name(node)
    return imports.get(name, name).rpartition(".")[2] if isinstance(node, cst.Name) else name


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


def annotation_kind(annotation: cst.BaseExpression) -> _Kind | None:
    """The kind of value an annotation promises: "int", "bool", "static", or None for a float or what is not known."""
    if isinstance(annotation, (cst.Name, cst.Attribute)):
        return _KINDS.get(last_name(annotation))
    if isinstance(annotation, cst.SimpleString):
        return _KINDS.get(annotation.value.strip("'\""))
    if isinstance(annotation, cst.BinaryOperation):  # int | None
        return _agreed([annotation.left, annotation.right])
    if isinstance(annotation, cst.Subscript):
        head = last_name(annotation.value)
        if head in _CONTAINERS:
            return _agreed([s.slice.value for s in annotation.slice if isinstance(s.slice, cst.Index)])
        return _ELEMENTS.get(head, "static" if _KINDS.get(head) == "static" else None)
    return None


def is_number(annotation: cst.BaseExpression) -> bool:
    """Whether an annotation promises one of Python's floating-point numbers, or none."""
    if isinstance(annotation, cst.BinaryOperation):  # float | None
        return is_number(annotation.left) and getattr(annotation.right, "value", "float") in ("None", "int", "float")
    if isinstance(annotation, cst.Subscript) and last_name(annotation.value) == "Optional":
        element = annotation.slice[0].slice
        return isinstance(element, cst.Index) and is_number(element.value)
    return last_name(annotation) == "float"


def annotated(low: Builder, name: str, key: object, annotation: cst.BaseExpression | None) -> Leaf:
    """An input as its annotation describes it."""
    promised = None if annotation is None else annotation_kind(annotation)
    kind: Kind = "float" if promised is None or promised == "static" else promised
    made = low.opaque(name, key, kind=kind, differentiable=promised is None)
    if annotation is not None:
        made.setting |= is_number(annotation)
        made.array |= last_name(annotation) in _ARRAYS
    return made


def _agreed(parts: list[cst.BaseExpression]) -> _Kind | None:
    """The kind that all parts have, None aside."""
    parts = [
        p for p in parts if not (isinstance(p, cst.Name) and p.value == "None") and not isinstance(p, cst.Ellipsis)
    ]
    kinds = {annotation_kind(p) for p in parts}
    return kinds.pop() if len(kinds) == 1 else None
