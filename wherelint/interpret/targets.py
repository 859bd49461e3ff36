"""Assignment to a target of any form: a name, an attribute, an element, several at once."""

from __future__ import annotations

import libcst as cst

from wherelint.graph.node import Const, Node
from wherelint.interpret import indexing
from wherelint.interpret.lowering import Lowering
from wherelint.interpret.values import Instance, Value


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
    index = target.slice[0].slice if len(target.slice) == 1 else None
    if isinstance(base, (dict, list)) and isinstance(index, cst.Index):
        key = low.expression(index.value)
        if isinstance(base, dict):
            base[key if isinstance(key, (str, int, float, bool)) else low.text(target)] = value
            return
        if isinstance(key, int) and -len(base) <= key < len(base):
            base[key] = value
            return
    named = isinstance(index, cst.Index) and isinstance(index.value, (cst.SimpleString, cst.FormattedString))
    if not isinstance(base, Node) or named:  # an item of a dictionary that others have, too
        low.leaves_function(value)
        return
    mask = indexing.where_written(low, target.slice)
    if isinstance(mask, Const) and mask.value.all():
        assign(low, target.value, low.node("identity", (value,), target))
        return
    base = low.overwritten(base, target)
    assign(low, target.value, low.select(mask, value, base, target, "assignment"))
