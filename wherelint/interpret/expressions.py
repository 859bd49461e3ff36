"""Expressions: names, operators, subscripts, comprehensions."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import libcst as cst
import numpy as np

from wherelint.graph.node import LANES, ROLLED, Node, plain
from wherelint.interpret import attributes, comparisons, indexing
from wherelint.interpret.calls import call
from wherelint.interpret.defaults import DEFAULTS
from wherelint.interpret.lowering import EXPRESSIONS, Lowering
from wherelint.interpret.resolve import lookup_name
from wherelint.interpret.values import Function, Scope, Value

MAX_UNROLL = 8


_LITERALS = {"True": True, "False": False, "None": None}


def _name(low: Lowering, node: cst.Name) -> Value:
    return _LITERALS[node.value] if node.value in _LITERALS else lookup_name(low, node.value)


_literal = lru_cache(4096)(ast.literal_eval)


def _number(low: Lowering, node: cst.BaseNumber) -> Value:
    value = _literal(node.value)  # type: ignore[attr-defined]
    if isinstance(value, complex):
        return low.opaque(node.value, differentiable=False)  # type: ignore[attr-defined]
    return capped(value)


def capped(value: int | float) -> int | float:
    """A number of Python as one that a float holds: an integer may be larger than any."""
    if isinstance(value, float) or abs(value) < 10**300:
        return value
    return float(value) if abs(value) < 10**308 else math.inf if value > 0 else -math.inf


def _string(low: Lowering, node: cst.SimpleString) -> Value:
    try:
        return _literal(node.value)
    except (ValueError, SyntaxError):
        return ""


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


_STATIC: dict[type, Callable[[Any, Any], Any]] = {
    cst.Add: operator.add, cst.Subtract: operator.sub, cst.Multiply: operator.mul, cst.Divide: operator.truediv,
    cst.FloorDivide: operator.floordiv, cst.Modulo: operator.mod,
}  # fmt: skip
_BINARY: dict[type, str] = {
    cst.Add: "add", cst.Subtract: "subtract", cst.Multiply: "multiply", cst.Divide: "divide",
    cst.FloorDivide: "floor_divide", cst.Modulo: "mod", cst.MatrixMultiply: "dot", cst.BitAnd: "logical_and",
    cst.BitOr: "logical_or", cst.BitXor: "logical_xor",
    cst.AddAssign: "add", cst.SubtractAssign: "subtract", cst.MultiplyAssign: "multiply", cst.DivideAssign: "divide",
    cst.FloorDivideAssign: "floor_divide", cst.ModuloAssign: "mod", cst.MatrixMultiplyAssign: "dot",
    cst.BitAndAssign: "logical_and", cst.BitOrAssign: "logical_or", cst.BitXorAssign: "logical_xor",
}  # fmt: skip
_BITWISE: dict[type, Callable[[Any, Any], Any]] = {
    cst.BitAnd: operator.and_, cst.BitOr: operator.or_, cst.BitXor: operator.xor,
}  # fmt: skip
_ASSIGNED: dict[type, type] = {
    cst.AddAssign: cst.Add, cst.SubtractAssign: cst.Subtract, cst.MultiplyAssign: cst.Multiply,
    cst.DivideAssign: cst.Divide, cst.FloorDivideAssign: cst.FloorDivide, cst.ModuloAssign: cst.Modulo,
    cst.PowerAssign: cst.Power,
}  # fmt: skip


def _binary_operation(low: Lowering, node: cst.BinaryOperation) -> Value:
    # A sum of hundreds of terms nests as deep as it is long: walk the left spine instead of recursing down it.
    spine = [node]
    while isinstance(spine[-1].left, cst.BinaryOperation):
        spine.append(spine[-1].left)
    value = low.expression(spine[-1].left)
    for item in reversed(spine):
        value = binary(low, type(item.operator), value, low.expression(item.right), item)
    return value


def binary(low: Lowering, kind: type, a: Value, b: Value, at: cst.CSTNode) -> Value:
    """``a <operator> b`` for the LibCST operator class ``kind``."""
    sign = _ASSIGNED.get(kind, kind)
    if isinstance(a, (bool, int, float)) and isinstance(b, (bool, int, float)):
        return _fold(low, sign, a, b, at)
    if sign is cst.Add and type(a) is type(b) and isinstance(a, (list, tuple, str)):
        return low.joined(a, b)
    if sign is cst.Multiply and isinstance(a, (list, tuple)) and isinstance(b, int) and 0 <= b * len(a) <= 64:
        return a * b
    if sign is cst.Power:
        return power(low, a, b, at)
    op = _BINARY.get(kind)
    if op is None:
        return low.opaque(low.text(at), (low.identity(a), low.identity(b)), kind="int")
    x, y = low.tensor(a, at), low.tensor(b, at)
    if op in ("logical_and", "logical_or", "logical_xor"):
        if "bool" in (x.kind, y.kind):  # otherwise they may be integers, or sets of Python
            masks = [mask for side in (x, y) if (mask := as_mask(low, side, at)) is not None]
            if len(masks) == 2:
                return low.node(op, masks, at)
        bits = low.opaque(low.text(at), (low.identity(x), low.identity(y)), kind="int")
        bits.params["bits"] = True
        return bits
    if op == "subtract" and x is not y and x.op != "const" and plain(x) is plain(y):
        # `x[:, None] - x[None, :]`, `x - x.T`: the difference of different elements.
        y = low.node("gather", (y,), at, index=ROLLED)
    if op == "multiply":
        return multiply(low, x, y, at)
    return low.node(op, (x, y), at)


def _fold(low: Lowering, kind: type, a: Any, b: Any, at: cst.CSTNode) -> Value:
    try:
        if kind is cst.Power:
            result = a**b if abs(b) <= 1000 and abs(a) < 1e150 else math.inf
        elif kind in _STATIC:
            result = _STATIC[kind](a, b)
        else:
            bitwise = _BITWISE.get(kind)
            result = bitwise(a, b) if bitwise is not None and isinstance(a, int) and isinstance(b, int) else None
    except (ArithmeticError, ValueError):
        result = None
    return capped(result) if isinstance(result, (bool, int, float)) else low.opaque(low.text(at), differentiable=False)


def power(low: Lowering, a: Value, b: Value, at: cst.CSTNode, framework: str | None = None) -> Node:
    """``a ** b``; frameworks differentiate an exponent that is a Python number in another way than a traced one."""
    exact = b if isinstance(b, (int, float)) and not isinstance(b, bool) else None
    if exact is None and isinstance(b, Node) and b.op == "const" and b.params["value"].size == 1:
        exact = float(b.params["value"].flat[0])
    if exact == 2:
        return low.node("square", (a,), at, framework=framework)
    if exact is not None:
        integer = b.kind == "int" if isinstance(b, Node) else isinstance(b, int)
        whole = float(exact).is_integer() and integer
        return low.node("integer_power" if whole else "power_static", (a, b), at, framework=framework)
    if isinstance(b, Node) and b.kind == "int" and _is_jax(low, framework):  # differentiated as an integer exponent
        return low.node("integer_power", (a, b), at, framework=framework)
    return low.node("power", (a, b), at, framework=framework)


def multiply(low: Lowering, x: Node, y: Node, at: cst.CSTNode, framework: str | None = None) -> Node:
    """A product; with a factor made of booleans it is a selection."""
    for i, (factor, other) in enumerate(((x, y), (y, x))):
        if is_mask(factor, low.masks) and other.kind == "float" and not is_mask(other, low.masks):
            # XLA compiles the product with a converted boolean to a select: 0 where the mask is, whatever the other is.
            select = _is_jax(low, framework) and _is_cast(factor)
            return low.node(
                "multiply", (x, y), at, selection="multiply", framework=framework, operand=1 - i, select=select
            )
    return low.node("multiply", (x, y), at, framework=framework)


def _is_jax(low: Lowering, framework: str | None) -> bool:
    return framework == "jax" or (framework is None and low.frameworks[:1] == ["jax"])


def _is_cast(node: Node) -> bool:
    """Whether a mask is booleans, converted or not."""
    while node.op in ("identity", "stop"):
        (node,) = node.inputs
    return node.kind == "bool"


def is_mask(node: Node, known: dict[Node, bool]) -> bool:
    """Whether a value is 0 in some places by construction: booleans as numbers, ``1 - mask``, a constant with zeros.

    ``known``: what was found of products and differences before; they may be long, and read one along many ways.
    """
    if node.op not in ("multiply", "subtract"):
        return _is_mask(node, known)
    if node not in known:
        known[node] = _is_mask(node, known)
    return known[node]


def _is_mask(node: Node, known: dict[Node, bool]) -> bool:
    if node.kind == "bool" or node.params.get("mask"):
        return True
    if node.op == "const":
        values = node.params["value"]
        return bool((values == 0).any() and len(np.unique(values)) == 2)
    if node.op in ("identity", "stop", "gather"):
        return is_mask(node.inputs[0], known)
    if node.op == "multiply":
        return all(is_mask(i, known) for i in node.inputs)
    if node.op == "subtract":
        one, mask = node.inputs
        return one.op == "const" and bool((one.params["value"] == 1).all()) and is_mask(mask, known)
    return False


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


def as_mask(low: Lowering, tensor: Node, at: cst.CSTNode) -> Node | None:
    """Booleans as they are, an input as a mask, None for other values.

    A condition, ``~mask`` and ``mask & booleans`` say that the input is an array of booleans: nothing is
    differentiated with respect to it.
    """
    if tensor.kind == "bool":
        return tensor
    source = tensor
    while source.op in ("identity", "gather", "lane"):
        source = source.inputs[0]
    if source.op != "leaf" or not (source.kind == "float" or source.params.get("bits")):
        return None
    source.differentiable = False
    source.params["mask"] = True
    return low.node("not_equal", (tensor, 0), at)


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


def _if_expression(low: Lowering, node: cst.IfExp) -> Value:
    test = low.condition(low.expression(node.test), node.test)
    if isinstance(test, bool):
        return low.expression(node.body if test else node.orelse)
    with low.assuming(test):
        a = low.expression(node.body)
    with low.assuming(low.negation(test, node.test)):
        b = low.expression(node.orelse)
    return low.choose(test, a, b, node)


def _lambda(low: Lowering, node: cst.Lambda) -> Value:
    function = Function(
        node, low.frame.scope, low.block, f"{low.frame.function}.<lambda>" if low.frame.function else "<lambda>"
    )
    function.facts = tuple(low.facts)
    low.closures.append(function)
    return function


def _walrus(low: Lowering, node: cst.NamedExpr) -> Value:
    value = low.expression(node.value)
    if isinstance(node.target, cst.Name):
        low.frame.scope.names[node.target.value] = value
    return value


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
    from wherelint.interpret.statements import assign  # the two modules need each other: a target is a small program

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
        return [low.node("gather", (list(value[:LANES]),), at, index=tuple(range(LANES)))]
    tensor = low.tensor(value, at)
    if tensor.op == "leaf":
        return [
            low.opaque(
                f"{tensor.params['name']}[...]",
                low.identity(tensor),
                kind=tensor.kind,
                differentiable=tensor.differentiable,
            )
        ]
    return [low.node("identity", (tensor,), at)]


def _formatted(low: Lowering, node: cst.BaseExpression) -> Value:
    return low.opaque(low.text(node), differentiable=False, fixed=True)  # some string


def _await(low: Lowering, node: cst.Await) -> Value:
    return low.expression(node.expression)


def _yield(low: Lowering, node: cst.Yield) -> Value:
    value = node.value
    inner = value.item if isinstance(value, cst.From) else value
    if inner is not None:
        low.leaves_function(low.expression(inner))
    return low.opaque("(yield)")


def _concatenated(low: Lowering, node: cst.ConcatenatedString) -> Value:
    return ""


def _ellipsis(low: Lowering, node: cst.Ellipsis) -> Value:
    return ...


EXPRESSIONS.update({
    cst.Name: _name, cst.Integer: _number, cst.Float: _number, cst.Imaginary: _number, cst.SimpleString: _string,
    cst.ConcatenatedString: _concatenated, cst.FormattedString: _formatted, cst.Tuple: _sequence, cst.List: _sequence,
    cst.Dict: _dict, cst.BinaryOperation: _binary_operation, cst.UnaryOperation: _unary_operation,
    cst.Comparison: comparisons.comparison, cst.BooleanOperation: _boolean_operation, cst.IfExp: _if_expression,
    cst.Lambda: _lambda, cst.NamedExpr: _walrus, cst.GeneratorExp: _comprehension, cst.ListComp: _comprehension,
    cst.SetComp: _comprehension, cst.DictComp: _comprehension, cst.Await: _await, cst.Yield: _yield,
    cst.Ellipsis: _ellipsis, cst.Call: call, cst.Attribute: attributes.attribute, cst.Subscript: indexing.subscript,
})  # fmt: skip
