"""Whether a rewrite may meet a Python number where it needs a tensor.

A number takes the dtype of the tensor that it meets. ``where(mask, 0.5, 1.0)`` is a tensor of its own, of the default
dtype: TensorFlow refuses it beside any other, torch makes float32 of a float16 beside it. JAX keeps such a type weak.
"""

from collections.abc import Mapping, Sequence

from wherelint.frameworks import framework_of
from wherelint.graph.node import Const, Leaf, Node, topological

_TYPED = frozenset({"torch", "tensorflow"})


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
    # An operation of one operand makes the same of a number and of a tensor of the default dtype.
    reading = [n for n in readers.get(selection, [selection]) if n.framework is None or len(n.inputs) != 1]
    return numbers.issuperset(values) and bool(reading)


def may_be_number(node: Node) -> bool:
    """Whether a value may be a Python number, which has no gradient to stop."""
    numbers: set[Node] = set()
    numbers.update(each for each in topological([node]) if _is_number(each, numbers))
    return node in numbers


def is_python(node: Node) -> bool:
    """Whether a value is a Python number for certain: a condition on it is no tensor."""
    return node.static.python


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


def is_number(mask: Node) -> bool:
    """Whether a mask is an array of numbers; where it is one of two, whether both are. Two booleans have a boolean for
    their product.
    """
    while mask.op == "identity" and not mask.static.number:
        mask = mask.inputs[0]
    if mask.op == "multiply":
        return any(map(is_number, mask.inputs))
    if mask.op == "cond":
        return all(map(is_number, mask.inputs[1:3]))
    return mask.kind != "bool" or mask.op == "identity"
