"""Comparisons: of numbers, of arrays, of what is no number; and those that ask whether a value is finite."""

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from wherelint.graph.node import ROLLED, Const, Leaf, Node, Static, unreshaped
from wherelint.interpret.defaults import settled
from wherelint.interpret.lowering import Lowering
from wherelint.interpret.tables import expression
from wherelint.interpret.values import Dotted, Function, Method, Settled, Value

_OPERATIONS: dict[type, str] = {
    ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal", ast.Eq: "equal",
    ast.NotEq: "not_equal",
}  # fmt: skip
_PYTHON: dict[str, Callable[[Any, Any], bool]] = {
    "less": operator.lt, "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge,
    "equal": operator.eq, "not_equal": operator.ne,
}  # fmt: skip
#: Attributes that are no numbers: that two of them are equal constrains no input.
_DESCRIPTIONS = frozenset({"dtype", "device", "layout", "sharding", "shape", "name", "type", "__class__", "__name__"})


@expression(ast.Compare)
def comparison(low: Lowering, node: ast.Compare) -> Value:
    """``a < b <= c``."""
    left = low.expression(node.left)
    result: Node | bool = True
    for order, comparator in zip(node.ops, node.comparators, strict=True):
        right = low.expression(comparator)
        found = compare(low, type(order), left, right, node)
        if len(node.ops) == 1:
            return found
        one = low.condition(found, node)
        if isinstance(result, bool):
            result = one if result else False
        elif isinstance(one, bool):
            result = result if one else False
        else:
            result = low.node("logical_and", (result, one), node)
        left = right
    return result


def compare(low: Lowering, kind: type, a: Value, b: Value, at: ast.AST) -> Node | Settled | bool:
    """``a <operator> b`` for the class ``kind`` of operators."""
    op = _OPERATIONS.get(kind)
    number = (bool, int, float)
    if op is not None and isinstance(a, number) and isinstance(b, number):
        return settled(low, op, a, b, bool(_PYTHON[op](a, b)), at)
    if op in ("equal", "not_equal") and isinstance(a, str) and isinstance(b, str):
        return (a == b) == (op == "equal")
    if kind in (ast.Is, ast.IsNot):
        if b is None and isinstance(a, (*number, str, list, tuple, dict, Function, Dotted)):
            return kind is ast.IsNot
        if b is None and a is None:
            return kind is ast.Is
        text = f"{_label(low, a, at)} is None" if b is None else low.text(at)
        truth = low.opaque(text, low.identity(a), kind="bool", preferred=False)
        return low.negation(truth, at) if kind is ast.IsNot else truth
    describes = any(isinstance(v, Method) and v.name in _DESCRIPTIONS for v in (a, b))
    # What is ordered beside an array is a number, wherever it comes from; what is equal may be a member of anything.
    known = (Node, Method, *number) if op in ("equal", "not_equal") else (Node, Method, Dotted, *number)
    arrays = any(isinstance(v, (Node, Method)) for v in (a, b))
    if op is not None and arrays and not describes and all(isinstance(v, known) for v in (a, b)):
        x, y = low.tensor(a, at), low.tensor(b, at)
        if op == "equal" and x is not y and unreshaped(x) is unreshaped(y) and x.op != "const":
            y = low.node("gather", (y,), at, static=Static(lanes=ROLLED))
        return compared(low, op, x, y, at)
    return low.opaque(low.text(at), (low.identity(a), low.identity(b)), kind="bool")


def compared(low: Lowering, op: str, x: Node, y: Node, at: ast.AST, framework: str | None = None) -> Node:
    """A comparison of arrays, as the test for nan or inf that it may be: ``x != x``, ``abs(x) == inf``."""
    if _infinity(x) and not _infinity(y):
        x, y, op = y, x, _TURNED.get(op, op)

    def test(op: str, *inputs: Node) -> Node:
        return low.node(op, inputs, at, framework=framework)

    if x.kind == "float" and x.op != "const":
        differs = op == "not_equal"
        if x is y and op in ("equal", "not_equal"):
            return test("isnan", x) if differs else test("logical_not", test("isnan", x))
        infinity = _infinity(y)
        if infinity and op in ("equal", "not_equal"):
            sign = test("greater" if infinity > 0 else "less", x, low.tensor(0, at))
            found = test("isinf", x.inputs[0]) if x.op == "abs" else test("logical_and", test("isinf", x), sign)
            return test("logical_not", found) if differs else found
        if infinity > 0 and op == "less" and x.op == "abs":
            return test("isfinite", x.inputs[0])
        if op in ("equal", "not_equal") and _is(y, 0) and (cancelled := _cancelled(x)) is not None:
            finite = test("isfinite", cancelled)
            return test("logical_not", finite) if differs else finite
    return test(op, x, y)


_TURNED = {"less": "greater", "greater": "less", "less_equal": "greater_equal", "greater_equal": "less_equal"}


def _is(node: Node, number: float) -> bool:
    return isinstance(node, Const) and bool((node.value == number).all())


def _infinity(node: Node) -> float:
    """inf or -inf where a value is that number, else 0."""
    return next((number for number in (np.inf, -np.inf) if _is(node, number)), 0.0)


def _cancelled(node: Node) -> Node | None:
    """x of ``x - x`` and ``0 * x``, which are 0 unless x is nan or infinite."""
    if node.op == "subtract" and node.inputs[0] is node.inputs[1]:
        return node.inputs[0]
    if node.op == "multiply" and any(_is(i, 0) for i in node.inputs):
        return next((i for i in node.inputs if i.op != "const"), None)
    return None


def _label(low: Lowering, value: Value, at: ast.AST) -> str:
    return value.name if isinstance(value, Leaf) else low.text(at)
