"""Statements: assignments, definitions, imports. A handler returns True where control does not go on."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import Any

import libcst as cst

from wherelint.frontend.names import imported
from wherelint.graph.node import Node
from wherelint.interpret import indexing
from wherelint.interpret.attributes import last_name
from wherelint.interpret.expressions import binary
from wherelint.interpret.lowering import STATEMENTS, Lowering
from wherelint.interpret.resolve import external, make_class, make_function
from wherelint.interpret.values import Function, Instance, Value
from wherelint.io.encoding import NOWHERE


def _line(low: Lowering, node: cst.SimpleStatementLine) -> bool:
    return low.run(node.body)


def _expression(low: Lowering, node: cst.Expr) -> bool:
    low.expression(node.value)
    return False


def _assign(low: Lowering, node: cst.Assign) -> bool:
    value = low.expression(node.value)
    for target in node.targets:
        assign(low, target.target, value)
    return False


def _annotated(low: Lowering, node: cst.AnnAssign) -> bool:
    if node.value is not None:
        assign(low, node.target, low.expression(node.value))
    elif isinstance(node.target, cst.Name) and low.frame.owner is not None:
        # A field without a default: `sigma: float` of a dataclass, a NamedTuple or a module. The body of a class runs
        # once, without gradient; what the field will hold is another matter.
        name = node.target.value
        kind = annotation_kind(node.annotation.annotation)
        made = low.opaque(
            f"self.{name}", (low.identity(low.frame.owner), name), kind="float" if kind in (None, "static") else kind
        )
        made.differentiable = kind is None
        low.frame.scope.names[name] = made
    return False


_KINDS = {"int": "int", "bool": "bool", "str": "static", "Callable": "static", "LongTensor": "int", "IntTensor": "int",
          "BoolTensor": "bool", "Literal": "static", "Type": "static", "type": "static"}  # fmt: skip
#: jaxtyping's array types, by what their elements are.
_ELEMENTS = {"Int": "int", "Integer": "int", "UInt": "int", "Int32": "int", "Int64": "int", "Bool": "bool"}
_CONTAINERS = frozenset(
    {"tuple", "Tuple", "list", "List", "Sequence", "Iterable", "Optional", "Union", "Final", "ClassVar"}
)


def annotation_kind(annotation: cst.BaseExpression) -> Any:
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


def _agreed(parts: list[cst.BaseExpression]) -> Any:
    """The kind that all parts have, None aside."""
    parts = [
        p for p in parts if not (isinstance(p, cst.Name) and p.value == "None") and not isinstance(p, cst.Ellipsis)
    ]
    kinds = {annotation_kind(p) for p in parts}
    return kinds.pop() if len(kinds) == 1 else None


def assign(low: Lowering, target: cst.BaseExpression, value: Value) -> None:
    """Bind a value to a target of any form."""
    if isinstance(target, cst.Name):
        low.frame.scope.bind(target.value, value)
    elif isinstance(target, (cst.Tuple, cst.List)):
        starred = next((i for i, e in enumerate(target.elements) if isinstance(e, cst.StarredElement)), None)
        if starred is not None and isinstance(value, (list, tuple)):
            after = len(target.elements) - starred - 1
            value = [*value[:starred], list(value[starred : len(value) - after]), *value[len(value) - after :]]
        items = indexing.unpack(low, value, len(target.elements), target)
        for element, item in zip(target.elements, items, strict=False):
            assign(low, element.value, item)
    elif isinstance(target, cst.StarredElement):
        assign(low, target.value, value)
    elif isinstance(target, cst.Attribute):
        receiver = low.expression(target.value)
        if isinstance(receiver, Instance):
            receiver.attributes[target.attr.value] = value
        low.leaves_function(value)
    elif isinstance(target, cst.Subscript):
        _assign_item(low, target, value)


def _assign_item(low: Lowering, target: cst.Subscript, value: Value) -> None:
    base = low.expression(target.value)
    if isinstance(base, (dict, list)) and len(target.slice) == 1 and isinstance(target.slice[0].slice, cst.Index):
        key = low.expression(target.slice[0].slice.value)
        if isinstance(base, dict):
            base[key if isinstance(key, (str, int, float, bool)) else low.text(target)] = value
            return
        if isinstance(key, int) and -len(base) <= key < len(base):
            base[key] = value
            return
    if not isinstance(base, Node):
        low.leaves_function(value)
        return
    mask = indexing.where_written(low, target.slice)
    if mask.op == "const" and mask.params["value"].all():
        assign(low, target.value, low.node("identity", (value,), target))
        return
    assign(low, target.value, low.select(mask, value, base, target, "assignment"))


def _augmented(low: Lowering, node: cst.AugAssign) -> bool:
    if isinstance(node.target, cst.Subscript):
        base = low.expression(node.target.value)
        if isinstance(base, Node):
            # `x[m] op= y` computes on the selected elements alone: lazy, no zero meets the others.
            mask = indexing.where_written(low, node.target.slice)
            updated = binary(low, type(node.operator), base, low.expression(node.value), node)
            assign(low, node.target.value, low.node("cond", (mask, updated, base), node))
            return False
    value = binary(low, type(node.operator), low.expression(node.target), low.expression(node.value), node)
    assign(low, node.target, value)
    return False


def _function(low: Lowering, node: cst.FunctionDef) -> bool:
    frame = low.frame
    made = make_function(low, node, frame.scope, frame.block, frame.function, frame.owner)
    frame.scope.names[node.name.value] = made
    if isinstance(made, Function) and frame.owner is None:
        made.facts = tuple(low.facts)
        low.closures.append(made)
    return False


def _class(low: Lowering, node: cst.ClassDef) -> bool:
    made = make_class(low, node, low.frame.scope, low.block, low.frame.function)
    low.frame.scope.names[node.name.value] = made
    low.closures += [each for each in made.members.values() if isinstance(each, Function) and each.owner is made]
    return False


def _import(low: Lowering, node: cst.Import | cst.ImportFrom) -> bool:
    statement = _parsed(low.block.tree.code_for_node(node).strip())
    module = low.frame.scope.module
    for local, name in module.resolve(imported(statement, module.package)).items():
        low.frame.scope.names[local] = external(low, module, name)
    return False


@lru_cache(1024)
def _parsed(text: str) -> ast.Import | ast.ImportFrom:
    return ast.parse(text, NOWHERE).body[0]  # type: ignore[return-value]


def _given_away(low: Lowering, node: cst.Nonlocal | cst.Global) -> bool:
    low.frame.scope.outer |= {item.name.value for item in node.names}
    return False


def _delete(low: Lowering, node: cst.Del) -> bool:
    if isinstance(node.target, cst.Name):
        low.frame.scope.names.pop(node.target.value, None)
    return False


STATEMENTS.update({
    cst.SimpleStatementLine: _line, cst.Expr: _expression, cst.Assign: _assign, cst.AnnAssign: _annotated,
    cst.AugAssign: _augmented, cst.FunctionDef: _function, cst.ClassDef: _class, cst.Import: _import,
    cst.ImportFrom: _import, cst.Del: _delete, cst.Nonlocal: _given_away, cst.Global: _given_away,
})  # fmt: skip
