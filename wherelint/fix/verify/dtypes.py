"""Whether a rewrite may meet a Python number where it needs a tensor.

A number takes the dtype of the tensor that it meets. ``where(mask, 0.5, 1.0)`` is a tensor of its own, of the default
dtype: TensorFlow refuses it beside any other, torch makes float32 of a float16 beside it. JAX keeps such a type weak.
"""

import ast
from collections.abc import Mapping, Sequence

from wherelint.fix.verify.shapes import is_single
from wherelint.frameworks import framework_of
from wherelint.frontend.syntax import last_name
from wherelint.graph.node import Const, Leaf, Node, leaves, topological
from wherelint.interpret.values import Origin

_TYPED = frozenset({"torch", "tensorflow"})
#: What gives a Python number, whatever it is given.
_NUMBERS = frozenset({"item", "float", "int"})


def untyped(order: Sequence[Node]) -> int:
    """How many selections may have nothing but Python numbers for their condition, or for both of their values."""
    numbers: set[Node] = set()
    readers: dict[Node, list[Node]] = {}
    for node in order:
        for operand in node.inputs:
            readers.setdefault(operand, []).append(node)
        if _is_number(node, numbers):
            numbers.add(node)
    return sum(_is_untyped(n, numbers, readers) for n in order if n.op == "where" and n.framework in _TYPED)


def _is_untyped(selection: Node, numbers: set[Node], readers: Mapping[Node, list[Node]]) -> bool:
    condition, *values = selection.inputs
    if condition in numbers:
        return True
    reading = [reader for reader in readers.get(selection, [selection]) if not _converts(reader)]
    typed = [value for value in values if value not in numbers]
    if not typed or not reading:
        return bool(reading)
    # To torch the dtype of a tensor without axes counts as little, beside a tensor that need not have the same.
    beside = [n for reader in reading for n in reader.inputs if n is not selection and n not in numbers]
    apart = [n for n in beside if set(leaves(n)).isdisjoint(leaves(*typed))]
    return bool(apart) and selection.framework == "torch" and all(map(is_single, typed))


def may_be_number(node: Node) -> bool:
    """Whether a value may be a Python number, which has no gradient to stop."""
    numbers: set[Node] = set()
    numbers.update(each for each in topological([node]) if _is_number(each, numbers))
    return node in numbers


def is_python(node: Node) -> bool:
    """Whether a value is a Python number for certain: a condition on it is no tensor."""
    at = node.origin.node if isinstance(node.origin, Origin) else None
    return node.op == "stop" and isinstance(at, ast.Call) and last_name(at.func) in _NUMBERS


def _is_number(node: Node, numbers: set[Node]) -> bool:
    if isinstance(node, Const):
        like = node.like
        return node.value.size == 1 and (like is None or like in numbers or _is_number(like, numbers))
    if is_python(node):
        return True
    if not isinstance(node, Leaf):
        values = node.inputs[1:3] if node.op == "cond" else node.inputs
        return node.framework is None and numbers.issuperset(values)
    if node.of is not None:
        return node.of[0] in numbers
    if node.call is not None and framework_of(node.call.callee) in _TYPED:
        return False
    if not node.differentiable or node.default is not None or node.setting:
        return True
    if node.given:  # what is made of tensors is one; so is a parameter, an attribute need not be
        return numbers.issuperset(node.given)
    return node.call is None and not (node.array or node.name.isidentifier())


def _converts(reader: Node) -> bool:
    """Whether an operation makes the same of a number and of a tensor of the default dtype: nothing else has a say."""
    return reader.framework is not None and len(reader.inputs) == 1
