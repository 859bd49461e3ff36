"""Expressions: names, operators, subscripts, comprehensions."""

import ast
from itertools import pairwise
from typing import Any

from wherelint.graph.node import LANES, Leaf, Node, Static
from wherelint.interpret.arithmetic import as_mask, binary, capped
from wherelint.interpret.indexing import assign
from wherelint.interpret.lowering import Lowering, expression
from wherelint.interpret.resolve import lookup_name
from wherelint.interpret.values import DEFAULTS, Function, Scope, Value

MAX_UNROLL = 8


@expression(ast.Name)
def _name(low: Lowering, node: ast.Name) -> Value:
    return lookup_name(low, node.id)


@expression(ast.Constant)
def _constant(low: Lowering, node: ast.Constant) -> Value:
    value = node.value
    if isinstance(value, complex):
        return low.imaginary(node)
    return capped(value) if isinstance(value, (int, float)) else value


@expression(ast.Tuple, ast.List)
def _sequence(low: Lowering, node: ast.Tuple | ast.List) -> Value:
    items: list[Value] = []
    for element in node.elts:
        value = low.expression(element)
        if isinstance(element, ast.Starred) and isinstance(value, (list, tuple)):
            low.step(len(value))
            items += value
        else:
            items.append(value)
    return tuple(items) if isinstance(node, ast.Tuple) else items


@expression(ast.Dict)
def _dict(low: Lowering, node: ast.Dict) -> Value:
    out: dict[Any, Value] = {}
    for written, item in zip(node.keys, node.values, strict=True):
        value = low.expression(item)
        if written is not None:
            key = low.expression(written)
            out[key if isinstance(key, (str, int, float, bool)) else low.text(written)] = value
        elif isinstance(value, dict):
            out.update(value)
    return out


@expression(ast.BinOp)
def _binary_operation(low: Lowering, node: ast.BinOp) -> Value:
    # A sum of hundreds of terms nests as deep as it is long: walk the left spine instead of recursing down it.
    spine = [node]
    while isinstance(spine[-1].left, ast.BinOp):
        spine.append(spine[-1].left)
    value = low.expression(spine[-1].left)
    for item in reversed(spine):
        value = binary(low, type(item.op), value, low.expression(item.right), item)
    return value


@expression(ast.UnaryOp)
def _unary_operation(low: Lowering, node: ast.UnaryOp) -> Value:
    value = low.expression(node.operand)
    kind = type(node.op)
    if kind is ast.Not:
        return low.negation(low.condition(value, node), node)
    if isinstance(value, (bool, int, float)):
        if kind is ast.USub:
            return -value
        if kind is ast.UAdd:
            return +value
        return (not value) if isinstance(value, bool) else ~value if isinstance(value, int) else value
    if kind is ast.USub:
        return low.node("negative", (value,), node)
    if kind is ast.UAdd:
        return value
    tensor = low.tensor(value, node)
    mask = as_mask(low, tensor, node)
    return low.opaque(low.text(node), low.identity(tensor), kind="int") if mask is None else low.negation(mask, node)


@expression(ast.BoolOp)
def _boolean_operation(low: Lowering, node: ast.BoolOp) -> Value:
    value = low.expression(node.values[0])
    for left, right in pairwise(node.values):
        value = _joined(low, node, value, left, right)
    return value


def _joined(low: Lowering, node: ast.BoolOp, a: Value, left: ast.expr, right: ast.expr) -> Value:
    """``a and right``, or ``a or right``; ``left`` is what stands before that."""
    conjunction = isinstance(node.op, ast.And)
    first = low.condition(a, left)
    if isinstance(first, bool):
        return low.expression(right) if first == conjunction else a
    with low.assuming(first if conjunction else low.negation(first, left)):
        b = low.expression(right)
    if isinstance(a, DEFAULTS) or (isinstance(a, Node) and a.kind != "bool"):
        return low.choose(first, b, a, node) if conjunction else low.choose(first, a, b, node)
    second = low.condition(b, right)
    if isinstance(second, bool):
        return first if second == conjunction else second
    return low.node("logical_and" if conjunction else "logical_or", (first, second), node)


@expression(ast.IfExp)
def _if_expression(low: Lowering, node: ast.IfExp) -> Value:
    test = low.condition(low.expression(node.test), node.test)
    if isinstance(test, bool):
        return low.expression(node.body if test else node.orelse)
    with low.assuming(test):
        a = low.expression(node.body)
    with low.assuming(low.negation(test, node.test)):
        b = low.expression(node.orelse)
    return low.choose(test, a, b, node)


@expression(ast.Lambda)
def _lambda(low: Lowering, node: ast.Lambda) -> Value:
    name = f"{low.frame.function}.<lambda>".removeprefix(".")
    function = Function(node, low.frame.scope, low.block, name)
    function.path_conditions = tuple(low.path_conditions)
    low.closures.append(function)
    return function


@expression(ast.NamedExpr)
def _walrus(low: Lowering, node: ast.NamedExpr) -> Value:
    value = low.frame.scope.names[node.target.id] = low.expression(node.value)
    return value


@expression(ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp)
def _comprehension(low: Lowering, node: ast.GeneratorExp | ast.ListComp | ast.SetComp | ast.DictComp) -> Value:
    outer = low.frame.scope
    low.frame.scope = Scope(outer.module, outer)
    try:
        items: list[tuple[Value, Value]] = []
        _iterate(low, node, node.generators, items)
    finally:
        low.frame.scope = outer
    if isinstance(node, ast.DictComp):
        return {k if isinstance(k, (str, int)) else f"<{i}>": v for i, (k, v) in enumerate(items)}
    return [v for _, v in items]


def _iterate(low: Lowering, node: Any, clauses: list[ast.comprehension], items: list[tuple[Value, Value]]) -> None:
    clause, *inner = clauses
    for element in elements(low, low.expression(clause.iter), clause.iter):
        assign(low, clause.target, element)
        tests = [low.condition(low.expression(test), test) for test in clause.ifs]
        if any(t is False for t in tests):
            continue
        with low.assuming(*tests):
            if inner:
                _iterate(low, node, inner, items)
            elif isinstance(node, ast.DictComp):
                items.append((low.expression(node.key), low.expression(node.value)))
            else:
                items.append((None, low.expression(node.elt)))


def elements(low: Lowering, value: Value, at: ast.AST) -> list[Value]:
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


@expression(ast.JoinedStr)
def _formatted(low: Lowering, node: ast.JoinedStr) -> Value:
    return low.opaque(low.text(node), differentiable=False, fixed=True)  # some string


@expression(ast.Await, ast.Starred)
def _inner(low: Lowering, node: ast.Await | ast.Starred) -> Value:
    return low.expression(node.value)


@expression(ast.Yield, ast.YieldFrom)
def _yield(low: Lowering, node: ast.Yield | ast.YieldFrom) -> Value:
    if node.value is not None:
        low.leaves_function(low.expression(node.value))
    return low.opaque("(yield)")
