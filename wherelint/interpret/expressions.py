"""Expressions: names, operators, subscripts, comprehensions."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import Any

import libcst as cst

from wherelint.graph.node import LANES, Leaf, Node, Static
from wherelint.interpret.arithmetic import as_mask, binary, capped
from wherelint.interpret.lowering import Lowering
from wherelint.interpret.resolve import lookup_name
from wherelint.interpret.tables import expression
from wherelint.interpret.targets import assign
from wherelint.interpret.values import DEFAULTS, Function, Scope, Value

MAX_UNROLL = 8


_LITERALS = {"True": True, "False": False, "None": None}


@expression(cst.Name)
def _name(low: Lowering, node: cst.Name) -> Value:
    return _LITERALS[node.value] if node.value in _LITERALS else lookup_name(low, node.value)


_literal = lru_cache(4096)(ast.literal_eval)


@expression(cst.Integer, cst.Float, cst.Imaginary)
def _number(low: Lowering, node: cst.BaseNumber) -> Value:
    value = _literal(node.value)  # type: ignore[attr-defined]
    if isinstance(value, complex):
        return low.opaque(node.value, differentiable=False)  # type: ignore[attr-defined]
    return capped(value)


@expression(cst.SimpleString)
def _string(low: Lowering, node: cst.SimpleString) -> Value:
    try:
        text: str | bytes = _literal(node.value)
        return text
    except (ValueError, SyntaxError):
        return ""


@expression(cst.Tuple, cst.List)
def _sequence(low: Lowering, node: cst.Tuple | cst.List) -> Value:
    items: list[Value] = []
    for element in node.elements:
        value = low.expression(element.value)
        if isinstance(element, cst.StarredElement) and isinstance(value, (list, tuple)):
            low.step(len(value))
            items += value
        else:
            items.append(value)
    return tuple(items) if isinstance(node, cst.Tuple) else items


@expression(cst.Dict)
def _dict(low: Lowering, node: cst.Dict) -> Value:
    out: dict[Any, Value] = {}
    for element in node.elements:
        value = low.expression(element.value)
        if isinstance(element, cst.DictElement):
            key = low.expression(element.key)
            out[key if isinstance(key, (str, int, float, bool)) else low.text(element.key)] = value
        elif isinstance(value, dict):
            out.update(value)
    return out


@expression(cst.BinaryOperation)
def _binary_operation(low: Lowering, node: cst.BinaryOperation) -> Value:
    # A sum of hundreds of terms nests as deep as it is long: walk the left spine instead of recursing down it.
    spine = [node]
    while isinstance(spine[-1].left, cst.BinaryOperation):
        spine.append(spine[-1].left)
    value = low.expression(spine[-1].left)
    for item in reversed(spine):
        value = binary(low, type(item.operator), value, low.expression(item.right), item)
    return value


@expression(cst.UnaryOperation)
def _unary_operation(low: Lowering, node: cst.UnaryOperation) -> Value:
    value = low.expression(node.expression)
    kind = type(node.operator)
    if kind is cst.Not:
        return low.negation(low.condition(value, node), node)
    if isinstance(value, (bool, int, float)):
        if kind is cst.Minus:
            return -value
        if kind is cst.Plus:
            return +value
        return (not value) if isinstance(value, bool) else ~value if isinstance(value, int) else value
    if kind is cst.Minus:
        return low.node("negative", (value,), node)
    if kind is cst.Plus:
        return value
    tensor = low.tensor(value, node)
    mask = as_mask(low, tensor, node)
    return low.opaque(low.text(node), low.identity(tensor), kind="int") if mask is None else low.negation(mask, node)


@expression(cst.BooleanOperation)
def _boolean_operation(low: Lowering, node: cst.BooleanOperation) -> Value:
    a = low.expression(node.left)
    conjunction = isinstance(node.operator, cst.And)
    first = low.condition(a, node.left)
    if isinstance(first, bool):
        return low.expression(node.right) if first == conjunction else a
    with low.assuming(first if conjunction else low.negation(first, node.left)):
        b = low.expression(node.right)
    if isinstance(a, DEFAULTS) or (isinstance(a, Node) and a.kind != "bool"):
        return low.choose(first, b, a, node) if conjunction else low.choose(first, a, b, node)
    second = low.condition(b, node.right)
    if isinstance(second, bool):
        return first if second == conjunction else second
    return low.node("logical_and" if conjunction else "logical_or", (first, second), node)


@expression(cst.IfExp)
def _if_expression(low: Lowering, node: cst.IfExp) -> Value:
    test = low.condition(low.expression(node.test), node.test)
    if isinstance(test, bool):
        return low.expression(node.body if test else node.orelse)
    with low.assuming(test):
        a = low.expression(node.body)
    with low.assuming(low.negation(test, node.test)):
        b = low.expression(node.orelse)
    return low.choose(test, a, b, node)


@expression(cst.Lambda)
def _lambda(low: Lowering, node: cst.Lambda) -> Value:
    name = f"{low.frame.function}.<lambda>".removeprefix(".")
    function = Function(node, low.frame.scope, low.block, name)
    function.path_conditions = tuple(low.path_conditions)
    low.closures.append(function)
    return function


@expression(cst.NamedExpr)
def _walrus(low: Lowering, node: cst.NamedExpr) -> Value:
    value = low.expression(node.value)
    if isinstance(node.target, cst.Name):
        low.frame.scope.names[node.target.value] = value
    return value


@expression(cst.GeneratorExp, cst.ListComp, cst.SetComp, cst.DictComp)
def _comprehension(low: Lowering, node: cst.GeneratorExp | cst.ListComp | cst.SetComp | cst.DictComp) -> Value:
    outer = low.frame.scope
    low.frame.scope = Scope(outer.module, outer)
    try:
        items: list[tuple[Value, Value]] = []
        _iterate(low, node, node.for_in, items)
    finally:
        low.frame.scope = outer
    if isinstance(node, cst.DictComp):
        return {k if isinstance(k, (str, int)) else f"<{i}>": v for i, (k, v) in enumerate(items)}
    return [v for _, v in items]


def _iterate(low: Lowering, node: Any, clause: cst.CompFor, items: list[tuple[Value, Value]]) -> None:
    for element in elements(low, low.expression(clause.iter), clause.iter):
        assign(low, clause.target, element)
        tests = [low.condition(low.expression(c.test), c.test) for c in clause.ifs]
        if any(t is False for t in tests):
            continue
        with low.assuming(*tests):
            if clause.inner_for_in is not None:
                _iterate(low, node, clause.inner_for_in, items)
            elif isinstance(node, cst.DictComp):
                items.append((low.expression(node.key), low.expression(node.value)))
            else:
                items.append((None, low.expression(node.elt)))


def elements(low: Lowering, value: Value, at: cst.CSTNode) -> list[Value]:
    """What iterating over a value yields: its items where they are known, one element that stands for all otherwise."""
    if isinstance(value, dict):
        value = list(value)
    if isinstance(value, (list, tuple)) and len(value) <= MAX_UNROLL:
        return list(value)
    if isinstance(value, (list, tuple)):
        return [low.node("gather", (list(value[:LANES]),), at, static=Static(lanes=tuple(range(LANES))))]
    tensor = low.tensor(value, at)
    if isinstance(tensor, Leaf):
        name, flows = f"{tensor.name}[...]", tensor.differentiable
        return [low.opaque(name, low.identity(tensor), kind=tensor.kind, differentiable=flows)]
    return [low.node("identity", (tensor,), at)]


@expression(cst.FormattedString)
def _formatted(low: Lowering, node: cst.BaseExpression) -> Value:
    return low.opaque(low.text(node), differentiable=False, fixed=True)  # some string


@expression(cst.Await)
def _await(low: Lowering, node: cst.Await) -> Value:
    return low.expression(node.expression)


@expression(cst.Yield)
def _yield(low: Lowering, node: cst.Yield) -> Value:
    value = node.value
    inner = value.item if isinstance(value, cst.From) else value
    if inner is not None:
        low.leaves_function(low.expression(inner))
    return low.opaque("(yield)")


@expression(cst.ConcatenatedString)
def _concatenated(low: Lowering, node: cst.ConcatenatedString) -> Value:
    return ""


@expression(cst.Ellipsis)
def _ellipsis(low: Lowering, node: cst.Ellipsis) -> Value:
    return ...
