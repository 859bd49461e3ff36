"""Forward evaluation on a batch of probes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from wherelint.graph.node import LANES, Const, Leaf, Node
from wherelint.graph.work import Work
from wherelint.ops import OPERATIONS, Array, Operation
from wherelint.ops.numeric import direct
from wherelint.ops.traits import LOGICAL

Values = dict[Node, Array]


def evaluate(
    order: Iterable[Node], inputs: Mapping[Node, Array], dtype: Any = np.float32, known: Values | None = None
) -> Values:
    """The values of ``order`` at ``inputs``, (probes, 1 or lanes) each; ``known``: those of other nodes it reads."""
    values: Values = dict(known) if known else {}
    with np.errstate(all="ignore"):
        for node in order:
            op = node.op
            plain = _PLAIN.get(op)
            if plain is not None:
                operands = [values[i] for i in node.inputs]
                values[node] = plain(*[o.astype(dtype) if o.dtype is BOOL else o for o in operands])
            elif node in inputs:  # a leaf, or a constant array of which every element is tried at every place
                values[node] = inputs[node]
            elif isinstance(node, Leaf):
                values[node] = _element(node, inputs)
            elif isinstance(node, Const):
                values[node] = node.value if node.value.dtype is BOOL else node.value.astype(dtype)
            else:
                values[node] = _FORWARD[op](node, [values[i] for i in node.inputs], dtype)
    Work.count(len(values) - len(known or ()), max((len(v) for v in inputs.values()), default=0))
    return values


def _element(leaf: Leaf, inputs: Mapping[Node, Array]) -> Array:
    """``x[0]``, where x itself is an input too, or an element of one."""
    assert leaf.of is not None, leaf
    whole, index = leaf.of
    return lane(inputs[whole] if whole in inputs else _element(whole, inputs), index)


def _select(node: Node, operands: list[Array], dtype: Any) -> Array:
    condition, a, b = operands[:3]
    return np.where(truth(condition), a, b)


def _multiply(node: Node, operands: list[Array], dtype: Any) -> Array:
    i = node.static.operand
    # XLA makes no select of the product of an array with one boolean.
    if node.static.select and operands[1 - i].shape[1] >= operands[i].shape[1]:
        return np.asarray(np.where(truth(operands[1 - i]), operands[i], operands[i].dtype.type(0)))
    return _product(node, operands, dtype)


def _stack(node: Node, operands: list[Array], dtype: Any) -> Array:
    picked = [lane(operands[part], i) for i, part in enumerate(node.static.lanes)]
    made = np.empty((max(map(len, picked)), len(picked)), np.result_type(*picked))
    for i, column in enumerate(picked):
        made[:, i : i + 1] = column
    return made


def _gather(node: Node, operands: list[Array], dtype: Any) -> Array:
    whole = operands[0]
    return whole if whole.shape[1] == 1 else np.asarray(whole[:, node.static.lanes])


def _operation(entry: Operation) -> _Forward:
    def run(node: Node, operands: list[Array], dtype: Any) -> Array:
        forward = entry.computes(node.static.kernel or node.framework) if entry.forwards else entry.forward
        return forward(*[o.astype(dtype) if o.dtype is BOOL else o for o in operands])

    return run


def _logical(forward: Callable[..., Any]) -> _Forward:
    return lambda node, operands, dtype: forward(*operands)


BOOL = np.dtype(np.bool_)
_product = _operation(OPERATIONS["multiply"])
_Forward = Callable[[Node, list[Array], Any], Array]
_FORWARD: dict[str, _Forward] = {
    **{op: _logical(entry.forward) if op in LOGICAL else _operation(entry) for op, entry in OPERATIONS.items()},
    "multiply": _multiply,
    "stop": lambda node, operands, dtype: np.trunc(*operands) if _truncates(node, *operands) else operands[0],
    "cond": _select,
    "where": _select,
    "lane": lambda node, operands, dtype: lane(operands[0], node.static.index),
    "stack": _stack,
    "custom": lambda node, operands, dtype: operands[0],
    "pick": lambda node, operands, dtype: operands[node.static.index],
    "gather": _gather,
    "compress": lambda node, operands, dtype: compress(truth(operands[0]), operands[1]),
}

#: What computes the same under every framework.
_PLAIN: dict[str, Callable[..., Array]] = {
    op: direct(entry.forward)
    for op, entry in OPERATIONS.items()
    if op not in LOGICAL and op != "multiply" and not entry.forwards
}


def truth(value: Array) -> Array:
    """A condition as booleans."""
    return value if value.dtype is BOOL else value != 0


def lane(value: Array, index: int) -> Array:
    """Element ``index`` as a column; a value that is the same along the lanes is its own element."""
    return value if value.shape[1] == 1 else value[:, index % LANES, None]


def kept(mask: Array, lanes: int) -> Array:
    """Which element each lane of ``x[mask]`` reads: its own, or the first one kept where its own is dropped."""
    mask = np.broadcast_to(mask, (mask.shape[0], lanes))
    own = np.broadcast_to(np.arange(lanes), mask.shape)
    return np.where(mask, own, mask.argmax(axis=1)[:, None])


def compress(mask: Array, value: Array) -> Array:
    """``value[mask]``; where nothing is kept any element stands for those that there are none of."""
    lanes = max(value.shape[1], mask.shape[1])
    rows = max(value.shape[0], mask.shape[0])
    value = np.broadcast_to(value, (rows, lanes))
    return np.take_along_axis(value, np.broadcast_to(kept(mask, lanes), (rows, lanes)), axis=1)


def _truncates(node: Node, value: Array) -> bool:
    return node.kind == "int" and value.dtype != np.bool_
