"""Arithmetic and comparisons of Python, on numbers and tensors, and the masks it is done with."""

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from wherelint.graph.node import ROLLED, Const, Leaf, Node, Static, unreshaped
from wherelint.interpret.defaults import settled
from wherelint.interpret.lowering import Lowering, expression
from wherelint.interpret.values import Dotted, Function, Method, Settled, Value

#: Operators as operations of the catalogue, and on numbers of Python.
_BINARY: dict[type, tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("add", operator.add), ast.Sub: ("subtract", operator.sub), ast.Mult: ("multiply", operator.mul),
    ast.Div: ("divide", operator.truediv), ast.FloorDiv: ("floor_divide", operator.floordiv),
    ast.Mod: ("mod", operator.mod), ast.MatMult: ("dot", operator.matmul), ast.BitAnd: ("logical_and", operator.and_),
    ast.BitOr: ("logical_or", operator.or_), ast.BitXor: ("logical_xor", operator.xor), ast.Lt: ("less", operator.lt),
    ast.LtE: ("less_equal", operator.le), ast.Gt: ("greater", operator.gt), ast.GtE: ("greater_equal", operator.ge),
    ast.Eq: ("equal", operator.eq), ast.NotEq: ("not_equal", operator.ne),
}  # fmt: skip
#: The same comparison with its sides exchanged.
_TURNED = {"less": "greater", "greater": "less", "less_equal": "greater_equal", "greater_equal": "less_equal"}
#: Attributes that are no numbers: that two of them are equal constrains no input.
_DESCRIPTIONS = frozenset({"dtype", "device", "layout", "sharding", "shape", "name", "type", "__class__", "__name__"})


def capped(value: int | float) -> int | float:
    """A number of Python as one that a float holds: an integer may be larger than any."""
    if isinstance(value, float) or abs(value) < 10**300:
        return value
    return float(value) if abs(value) < 10**308 else math.inf if value > 0 else -math.inf


def binary(low: Lowering, kind: type, a: Value, b: Value, at: ast.AST) -> Value:
    """``a <operator> b`` for the class ``kind`` of operators."""
    if isinstance(a, (bool, int, float)) and isinstance(b, (bool, int, float)):
        return _fold(low, kind, a, b, at)
    if kind is ast.Add and type(a) is type(b) and isinstance(a, (list, tuple, str)):
        return _joined(low, a, b)
    if kind is ast.Mult and isinstance(a, (list, tuple)) and isinstance(b, int) and 0 <= b * len(a) <= 64:
        return a * b
    if kind is ast.Pow:
        return power(low, a, b, at)
    if kind not in _BINARY:  # a shift of bits
        return low.opaque(low.text(at), (low.identity(a), low.identity(b)), kind="int")
    op, _ = _BINARY[kind]
    x, y = low.tensor(a, at), low.tensor(b, at)
    if op in ("logical_and", "logical_or", "logical_xor"):
        if "bool" in (x.kind, y.kind):  # otherwise they may be integers, or sets of Python
            masks = [mask for side in (x, y) if (mask := as_mask(low, side, at)) is not None]
            if len(masks) == 2:
                return low.node(op, masks, at)
        bits = low.opaque(low.text(at), (low.identity(x), low.identity(y)), kind="int")
        bits.bits = True
        return bits
    if op == "subtract" and x is not y and x.op != "const" and unreshaped(x) is unreshaped(y):
        # `x[:, None] - x[None, :]`, `x - x.T`: the difference of different elements.
        y = low.node("gather", (y,), at, static=Static(lanes=ROLLED))
    if op == "multiply":
        return multiply(low, x, y, at)
    return low.node(op, (x, y), at)


def _joined(low: Lowering, a: list[Value] | tuple[Value, ...] | str, b: Any) -> Value:
    low.step(len(a) + len(b))  # some double with every line
    result: Value = a + b
    return result


def _fold(low: Lowering, kind: type, a: Any, b: Any, at: ast.AST) -> Value:
    try:
        if kind is ast.Pow:
            result = a**b if abs(b) <= 1000 and abs(a) < 1e150 else math.inf
        else:
            result = _BINARY[kind][1](a, b) if kind in _BINARY else None
    except (ArithmeticError, ValueError, TypeError):  # floats have no bits
        result = None
    return capped(result) if isinstance(result, (bool, int, float)) else low.opaque(low.text(at), differentiable=False)


def power(low: Lowering, a: Value, b: Value, at: ast.AST, framework: str | None = None) -> Node:
    """``a ** b``; frameworks differentiate an exponent that is a Python number in another way than a traced one."""
    exact = b if isinstance(b, (int, float)) and not isinstance(b, bool) else None
    if exact is None and isinstance(b, Const) and b.value.size == 1:
        exact = float(b.value.flat[0])
    if exact == 2:
        return low.node("square", (a,), at, framework=framework)
    if exact is not None:
        integer = b.kind == "int" if isinstance(b, Node) else isinstance(b, int)
        whole = float(exact).is_integer() and integer
        kernel = Static(kernel=framework or next(iter(low.frameworks), None))
        return low.node("integer_power" if whole else "power_static", (a, b), at, framework=framework, static=kernel)
    if isinstance(b, Node) and b.kind == "int" and _is_jax(low, framework):  # differentiated as an integer exponent
        return low.node("integer_power", (a, b), at, framework=framework)
    return low.node("power", (a, b), at, framework=framework)


def multiply(low: Lowering, x: Node, y: Node, at: ast.AST, framework: str | None = None) -> Node:
    """A product; with a factor made of booleans it is a selection."""
    for i, (factor, other) in enumerate(((x, y), (y, x))):
        if is_mask(factor, low.masks) and other.kind == "float" and not is_mask(other, low.masks):
            # XLA compiles the product with a converted boolean to a select: 0 where the mask is, whatever the other is.
            static = Static(operand=1 - i, select=_is_jax(low, framework) and _is_cast(factor))
            return low.node("multiply", (x, y), at, selection="multiply", framework=framework, static=static)
    return low.node("multiply", (x, y), at, framework=framework)


def _is_jax(low: Lowering, framework: str | None) -> bool:
    return framework == "jax" or (framework is None and low.frameworks[:1] == ["jax"])


def _is_cast(node: Node) -> bool:
    while node.op in ("identity", "stop"):
        (node,) = node.inputs
    return node.kind == "bool"


def is_mask(node: Node, known: dict[Node, bool]) -> bool:
    """Whether a value is 0 in some places by construction: booleans as numbers, ``1 - mask``, a constant with zeros.

    ``known``: what was found of products and differences before; they may be long, and read one along many ways.
    """
    if node.kind == "bool" or (isinstance(node, Leaf) and node.mask):
        return True
    if isinstance(node, Const):
        return bool((node.value == 0).any() and len(np.unique(node.value)) == 2)
    if node.op in ("identity", "stop", "gather"):
        return is_mask(node.inputs[0], known)
    if node.op == "multiply" and node not in known:
        known[node] = all(is_mask(i, known) for i in node.inputs)
    if node.op == "subtract" and node not in known:
        one, mask = node.inputs
        known[node] = isinstance(one, Const) and bool((one.value == 1).all()) and is_mask(mask, known)
    return known.get(node, False)


def as_mask(low: Lowering, tensor: Node, at: ast.AST) -> Node | None:
    """Booleans as they are, an input as a mask, None for other values.

    A condition, ``~mask`` and ``mask & booleans`` say that the input is an array of booleans: nothing is
    differentiated with respect to it.
    """
    if tensor.kind == "bool":
        return tensor
    source = tensor
    while source.op in ("identity", "gather", "lane"):
        source = source.inputs[0]
    if not isinstance(source, Leaf) or not (source.kind == "float" or source.bits):
        return None
    low.not_differentiated(source)
    source.mask = True
    return low.node("not_equal", (tensor, 0), at)


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
    op, of_python = _BINARY.get(kind, (None, operator.eq))
    number = (bool, int, float)
    if op is not None and isinstance(a, number) and isinstance(b, number):
        return settled(low, op, a, b, bool(of_python(a, b)), at)
    if op in ("equal", "not_equal") and isinstance(a, str) and isinstance(b, str):
        return (a == b) == (op == "equal")
    if kind in (ast.Is, ast.IsNot):
        if b is None and isinstance(a, (*number, str, list, tuple, dict, Function, Dotted)):
            return kind is ast.IsNot
        if b is None and a is None:
            return kind is ast.Is
        text = f"{a.name if isinstance(a, Leaf) else low.text(at)} is None" if b is None else low.text(at)
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
    if op in ("equal", "not_equal") and (isinstance(a, str) or isinstance(b, str)):
        return _is_text(low, op, a, b, at)
    return low.opaque(low.text(at), (low.identity(a), low.identity(b)), kind="bool")


def _is_text(low: Lowering, op: str, a: Value, b: Value, at: ast.AST) -> Node | bool:
    """Whether a value is a text: it is one text only, and ``!=`` asks for the opposite of ``==``."""
    value, text = (b, a) if isinstance(a, str) else (a, b)
    key = low.identity(value)
    found = low.opaque(low.text(at).replace(" != ", " == ", 1), (key, text), kind="bool")
    others = low.texts.setdefault(key, {})
    others.setdefault(text, found)
    for other in others.values():
        if other is not found:
            low.path_conditions.append(low.node("logical_not", (low.node("logical_and", (found, other), at),), at))
    return found if op == "equal" else low.negation(found, at)


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
