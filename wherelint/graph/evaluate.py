"""Forward evaluation on a batch of probes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wherelint.graph.node import LANES, Node
from wherelint.ops import OPERATIONS, Array

Values = dict[Node, Array]


def evaluate(order: list[Node], inputs: Mapping[Node, Array], dtype: Any = np.float32) -> Values:
    """The value of every node of ``order``; ``inputs`` gives each leaf an array (probes, 1 or lanes)."""
    values: Values = {}
    with np.errstate(all="ignore"):
        for node in order:
            if node.op == "leaf" and node not in inputs:
                values[node] = _element(node, inputs)
            elif node in inputs:  # a leaf, or a constant array of which every element is tried at every place
                values[node] = inputs[node]
            else:
                values[node] = _forward(node, [values[i] for i in node.inputs], dtype)
    return values


def _element(node: Node, inputs: Mapping[Node, Array]) -> Array:
    """``x[0]``, where x itself is an input too, or an element of one."""
    whole, index = node.params["of"]
    return lane(inputs[whole] if whole in inputs else _element(whole, inputs), index)


def _forward(node: Node, operands: list[Array], dtype: Any) -> Array:
    op = node.op
    if op == "const":
        data: Array = node.params["value"]
        return data if data.dtype == np.bool_ else data.astype(dtype)
    if op == "stop":
        return _rounded(operands[0], node)
    if op == "cond":
        return np.where(truth(operands[0]), operands[1], operands[2])
    if op == "lane":
        return lane(operands[0], node.params["index"])
    if op == "stack":
        picked = [lane(operands[part], i) for i, part in enumerate(node.params["parts"])]
        return np.concatenate(np.broadcast_arrays(*picked), axis=1)
    if op == "custom":
        return operands[0]
    if op == "pick":
        index: int = node.params["index"]
        return operands[index]
    if op == "gather":
        whole = operands[0]
        return whole if whole.shape[1] == 1 else np.asarray(whole[:, node.params["index"]])
    if op == "compress":
        return compress(truth(operands[0]), operands[1])
    if op == "where":
        return np.where(truth(operands[0]), operands[1], operands[2])
    numbers = [o.astype(dtype) if o.dtype == np.bool_ and op not in _LOGICAL else o for o in operands]
    return OPERATIONS[op].forward(*numbers)


_LOGICAL = frozenset({"logical_and", "logical_or", "logical_xor", "logical_not", "any", "all"})


def truth(value: Array) -> Array:
    """A condition as booleans."""
    return value if value.dtype == np.bool_ else value != 0


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


def _rounded(value: Array, node: Node) -> Array:
    return np.trunc(value) if node.kind == "int" and value.dtype != np.bool_ else value
