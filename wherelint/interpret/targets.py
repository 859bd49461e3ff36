"""Assignment to a target of any form: a name, an attribute, an element, several at once."""

import ast

from wherelint.graph.node import Const, Node
from wherelint.interpret import indexing
from wherelint.interpret.lowering import Lowering
from wherelint.interpret.values import Instance, Value


def assign(low: Lowering, target: ast.expr, value: Value) -> None:
    """Bind a value to a target of any form."""
    if isinstance(target, ast.Name):
        low.frame.scope.bind(target.id, value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        starred = next((i for i, e in enumerate(target.elts) if isinstance(e, ast.Starred)), None)
        if starred is not None and isinstance(value, (list, tuple)):
            after = len(target.elts) - starred - 1
            value = [*value[:starred], list(value[starred : len(value) - after]), *value[len(value) - after :]]
        items = indexing.unpack(low, value, len(target.elts), target)
        for element, item in zip(target.elts, items, strict=False):
            assign(low, element, item)
    elif isinstance(target, ast.Starred):
        assign(low, target.value, value)
    elif isinstance(target, ast.Attribute):
        receiver = low.expression(target.value)
        if isinstance(receiver, Instance):
            receiver.attributes[target.attr] = value
        low.leaves_function(value)
    elif isinstance(target, ast.Subscript):
        _assign_item(low, target, value)


def _assign_item(low: Lowering, target: ast.Subscript, value: Value) -> None:
    base = low.expression(target.value)
    if isinstance(base, (dict, list)) and not isinstance(target.slice, (ast.Tuple, ast.Slice)):
        key = low.expression(target.slice)
        if isinstance(base, dict):
            base[key if isinstance(key, (str, int, float, bool)) else low.text(target)] = value
            return
        if isinstance(key, int) and -len(base) <= key < len(base):
            base[key] = value
            return
    if not isinstance(base, Node) or _is_text(target.slice):  # an item of a dictionary that others have, too
        low.leaves_function(value)
        return
    mask = indexing.where_written(low, target.slice)
    if isinstance(mask, Const) and mask.value.all():
        assign(low, target.value, low.node("identity", (value,), target))
        return
    base = low.overwritten(base, target)
    assign(low, target.value, low.select(mask, value, base, target, "assignment"))


def _is_text(index: ast.expr) -> bool:
    return isinstance(index, ast.JoinedStr) or (isinstance(index, ast.Constant) and isinstance(index.value, str))
