"""Reverse mode over the graph, under two arithmetics.

*IEEE*: what the framework does. A selection hands an exact 0 to the arm it dropped, and ``0 * inf`` is nan.
*Symbolic zero*: a dropped arm receives nothing at all, whatever its derivative (the semantics that jax#1052 calls
symbolic zeros). Both are one pass: beside its cotangent every node carries a mask of the elements that are *dead*,
that is, to which no cotangent flows. Under IEEE arithmetic only a lazy choice (``lax.cond``) kills; under
symbolic-zero arithmetic every selection does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wherelint.graph.evaluate import Values, kept, lane, truth
from wherelint.graph.node import LANES, Node, differentiable_inputs
from wherelint.ops import OPERATIONS, Array

Dead = Any  # Array of bool, or None where nothing is dead


@dataclass
class Backward:
    """The cotangents of one reverse pass, and where each node first made one non-finite."""

    cotangents: dict[Node, Array]
    #: Elements at which a node turned a finite cotangent into a non-finite one.
    broke: dict[Node, Array]


def backward(
    order: list[Node], values: Values, root: Node, wanted: set[Node], framework: str, *, symbolic: bool
) -> Backward:
    """Cotangents of every wanted node for a cotangent of ones at ``root``."""
    shape = values[root].shape
    pending: dict[Node, tuple[Array, Dead]] = {root: (np.ones(shape, _float(values[root])), None)}
    result = Backward({}, {})
    with np.errstate(all="ignore"):
        for node in reversed(order):
            if node not in pending or node not in wanted:
                continue
            ct, dead = pending.pop(node)
            result.cotangents[node] = ct
            if node.op == "leaf":
                continue
            broke = None
            for i, part, gone in _pull_back(node, values, ct, dead, framework, symbolic):
                operand = node.inputs[i]
                if operand not in wanted:
                    continue
                if gone is not None:
                    part = np.where(gone, part.dtype.type(0), part)
                bad = ~np.isfinite(part)
                if bad.any():
                    fresh = bad & _sound(node, ct)
                    broke = fresh if broke is None else _merge_bad(broke, fresh)
                part, gone = _sum_to(part, gone, values[operand].shape)
                if operand in pending:
                    part, gone = _add(pending[operand], (part, gone))
                pending[operand] = (part, gone)
            if broke is not None and broke.any():
                result.broke[node] = broke
    return result


def _pull_back(
    node: Node, values: Values, ct: Array, dead: Dead, framework: str, symbolic: bool
) -> list[tuple[int, Array, Dead]]:
    """(operand index, its cotangent, its dead elements) for each differentiable operand of one node."""
    operands = [values[i] for i in node.inputs]
    op = node.op
    if op in ("where", "cond"):
        taken = truth(operands[0])
        zero = ct.dtype.type(0)
        arms = [(1, np.where(taken, ct, zero), ~taken), (2, np.where(taken, zero, ct), taken)]
        kills = symbolic or op == "cond"
        # `x[mask] = value` drops elements of the old x; every element of the value is used.
        written = op == "where" and node.selection == "assignment"
        return [
            (i, part, _either(dead, gone if kills or (written and i == 1) else None))
            for i, part, gone in arms
            if node.inputs[i].kind == "float"
        ]
    if op == "lane":
        return [_scatter_lane(0, ct, dead, node.params["index"], operands[0].shape, symbolic)]
    if op == "gather":
        return [_scatter_gathered(node.params["index"], ct, dead, operands[0].shape)]
    if op == "custom":
        return [(i, ct, dead) for i in range(1, len(operands)) if node.inputs[i].kind == "float"]
    if op == "compress":
        return [_scatter_kept(truth(operands[0]), ct, dead, symbolic)]
    if op == "stack":
        return [
            _scatter_lane(part, lane(ct, i), None if dead is None else lane(dead, i), i, operands[part].shape, True)
            for i, part in enumerate(node.params["parts"])
        ]
    if op == "pick":
        return [
            (i, ct if i == node.params["index"] else np.zeros_like(ct),
             dead if i == node.params["index"] or not symbolic else np.ones(ct.shape, np.bool_))
            for i in range(len(operands))
        ]  # fmt: skip
    return _pull_back_operation(node, operands, values[node], ct, dead, framework, symbolic)


def _pull_back_operation(
    node: Node, operands: list[Array], out: Array, ct: Array, dead: Dead, framework: str, symbolic: bool
) -> list[tuple[int, Array, Dead]]:
    entry = OPERATIONS[node.op]
    numbers = [o.astype(out.dtype) if o.dtype == np.bool_ else o for o in operands]
    vjp = entry.variants.get(framework)
    if vjp is None and framework == "xla":
        vjp = entry.variants.get("tensorflow")
    parts = (vjp or entry.vjp)(ct, out, *numbers)
    dropped: tuple[Array | None, ...] = (None,) * len(parts)
    if symbolic and entry.unselected is not None:
        ties = _ties(node.op, numbers)
        dropped = tuple(
            # At a tie the derivative is a matter of convention; only one that is infinite is the selection's doing.
            None if drop is None else drop if ties is None else drop | (ties & ~np.isfinite(ct))
            for drop in entry.unselected(*numbers)
        )
    if symbolic and node.selection == "multiply":
        mask = 1 - node.params["operand"]
        dropped = tuple(numbers[mask] == 0 if i == node.params["operand"] else None for i in range(2))
    if dead is not None and entry.mixes:
        dead = dead.all(axis=1, keepdims=True)
    return [
        (i, part, _either(dead, drop))
        for i, (part, drop) in enumerate(zip(parts, dropped, strict=False))
        if part is not None and i in differentiable_inputs(node)
    ]


def _ties(op: str, operands: list[Array]) -> Array | None:
    """Where a bound is met exactly."""
    if op == "clip":
        return np.asarray((operands[0] == operands[1]) | (operands[0] == operands[2]))
    if op in ("maximum", "minimum", "fmax", "fmin"):
        return np.asarray(operands[0] == operands[1])
    if op in ("relu", "relu6"):
        return np.asarray(operands[0] == 0)
    return None


def _scatter_lane(
    i: int, ct: Array, dead: Dead, index: int, shape: tuple[int, ...], kills: bool
) -> tuple[int, Array, Dead]:
    if shape[1] == 1:
        return (i, ct.sum(axis=1, keepdims=True), dead)
    index %= LANES
    column = ct.sum(axis=1, keepdims=True)
    full = np.zeros((column.shape[0], LANES), ct.dtype)
    full[:, index, None] = column
    gone = None
    if kills or dead is not None:
        gone = np.full(full.shape, kills)
        gone[:, index] = False if dead is None else dead.all(axis=1)
    return (i, full, gone)


def _scatter_gathered(index: tuple[int, ...], ct: Array, dead: Dead, shape: tuple[int, ...]) -> tuple[int, Array, Dead]:
    if shape[1] == 1:
        return (0, ct, dead)
    if dead is not None:
        ct = np.where(dead, ct.dtype.type(0), ct)
    full = np.zeros((ct.shape[0], LANES), ct.dtype)
    gone = np.ones(full.shape, np.bool_)
    for lane_out, lane_in in enumerate(index):
        full[:, lane_in] += ct[:, lane_out % ct.shape[1]]
        gone[:, lane_in] &= False if dead is None else dead[:, lane_out % dead.shape[1]]
    return (0, full, gone)


def _scatter_kept(mask: Array, ct: Array, dead: Dead, symbolic: bool) -> tuple[int, Array, Dead]:
    """The cotangent of ``x[mask]``: every lane hands its own to the element it read; dropped elements get a zero."""
    rows, lanes = ct.shape
    index = np.broadcast_to(kept(mask, lanes), ct.shape)
    none = ~np.broadcast_to(mask, ct.shape).any(axis=1, keepdims=True)  # no element, no cotangent
    ct = np.where(none if dead is None else none | dead, ct.dtype.type(0), ct)
    full = np.zeros_like(ct)
    np.add.at(full, (np.arange(rows)[:, None], index), ct)
    return (1, full, np.broadcast_to(~mask, full.shape) if symbolic else None)


def _sound(node: Node, ct: Array) -> Array:
    """The elements whose own cotangent is finite; where a node mixes elements, what one of them breaks all receive."""
    finite = np.asarray(np.isfinite(ct))
    mixes = node.op in OPERATIONS and OPERATIONS[node.op].mixes
    return np.asarray(finite.all(axis=1, keepdims=True)) if mixes else finite


def _either(a: Dead, b: Dead) -> Dead:
    return b if a is None else a if b is None else a | b


def _merge_bad(a: Array, b: Array) -> Array:
    return np.asarray(a | b)


def _sum_to(ct: Array, dead: Dead, shape: tuple[int, ...]) -> tuple[Array, Dead]:
    """Undo broadcasting along the lanes (and along the probes for a constant-shaped operand)."""
    if dead is not None and dead.shape != ct.shape:
        dead = np.broadcast_to(dead, ct.shape)
    if shape[1] == 1 and ct.shape[1] > 1:
        ct = ct.sum(axis=1, keepdims=True)
        dead = None if dead is None else dead.all(axis=1, keepdims=True)
    return ct, dead


def _add(a: tuple[Array, Dead], b: tuple[Array, Dead]) -> tuple[Array, Dead]:
    dead = None if a[1] is None or b[1] is None else a[1] & b[1]
    return a[0] + b[0], dead


def _float(value: Array) -> Any:
    return value.dtype if value.dtype.kind == "f" else np.float32
