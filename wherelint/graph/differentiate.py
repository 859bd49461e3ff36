"""Reverse mode over the graph, under two arithmetics.

*IEEE*: what the framework does. A selection hands an exact 0 to the arm it dropped, and ``0 * inf`` is nan.
*Symbolic zero*: a dropped arm receives nothing at all, whatever its derivative (the semantics that jax#1052 calls
symbolic zeros). Both are one pass: beside its cotangent every node carries a mask of the elements that are *dead*,
that is, to which no cotangent flows. Under IEEE arithmetic only a lazy choice (``lax.cond``) kills; under
symbolic-zero arithmetic every selection does.

Symbolic-zero arithmetic also knows that a smooth function of a norm is smooth at 0: ``cos(norm(x))`` hands the norm an
exact 0 there, and that zero annihilates as well.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import isfinite
from typing import Any

import numpy as np

from wherelint.graph.evaluate import BOOL, Values, kept, lane, truth
from wherelint.graph.node import LANES, Const, Node, differentiable_inputs, differentiated, unreshaped
from wherelint.graph.work import Work
from wherelint.ops import OPERATIONS, Array
from wherelint.ops.entries import Pullback
from wherelint.ops.lanes import every, some, total
from wherelint.ops.traits import NORMS, SQUARES, SUMS

Dead = Any  # Array of bool, or None where nothing is dead


@dataclass
class Backward:
    """The cotangents of one reverse pass, and where each node first made one non-finite."""

    cotangents: dict[Node, Array]
    #: Elements at which a node turned a finite cotangent into a non-finite one.
    broke: dict[Node, Array]
    #: Elements to which no cotangent flows.
    dead: dict[Node, Dead] = field(default_factory=dict)
    #: Roots of squares, and the elements at which one is 0 and received a 0 that no selection made.
    flat: dict[Node, Array] = field(default_factory=dict)


class Tape:
    """What reverse mode runs through: the nodes that require a gradient, last first, each with the operands that do."""

    def __init__(self, order: Sequence[Node], requires_grad: Collection[Node] | None = None) -> None:
        self.requires_grad = differentiated(order) if requires_grad is None else requires_grad
        self.steps: list[tuple[Node, tuple[int, ...]]] = [
            (node, tuple(i for i in differentiable_inputs(node) if node.inputs[i] in self.requires_grad))
            for node in reversed(order)
            if node in self.requires_grad
        ]

    @cached_property
    def roots(self) -> frozenset[Node]:
        """The roots of squares among them."""
        return frozenset(node for node, _ in self.steps if is_root_of_squares(node))


def backward(tape: Tape, values: Values, root: Node, framework: str, *, symbolic: bool, size: float = 1.0) -> Backward:
    """Cotangents of every node of a tape for a cotangent at ``root`` that is everywhere of one size."""
    value = values[root]
    seed = np.full(value.shape, size, value.dtype if value.dtype.kind == "f" else np.float32)
    pending: dict[Node, tuple[Array, Dead]] = {root: (seed, None)}
    result = Backward({}, {})
    operation = partial(_pull_back_operation, framework)
    with np.errstate(all="ignore"):
        for node, flows in tape.steps:
            if node not in pending:
                continue
            ct, dead = pending.pop(node)
            flat = (ct == 0) & (values[node] == 0) if symbolic and node in tape.roots else None
            result.cotangents[node], result.dead[node] = ct, dead
            if not flows:
                continue
            broke = None
            pull = _PULL.get(node.op, operation)
            for i, part, gone in pull(node, flows, values, ct, dead, symbolic):
                operand = node.inputs[i]
                if gone is not None:
                    part = np.where(gone, part.dtype.type(0), part)
                if flat is not None and (lost := flat & ~np.isfinite(part)).any():
                    result.flat[node], gone = lost, _either(gone, lost)
                    part = np.where(lost, part.dtype.type(0), part)
                broke = _broken(node, part, ct, broke)
                shape = values[operand].shape
                if shape[1] != part.shape[1] or (gone is not None and gone.shape != part.shape):
                    part, gone = _sum_to(part, gone, shape)
                if operand in pending:
                    part, gone = _add(pending[operand], (part, gone))
                pending[operand] = (part, gone)
            if broke is not None and broke.any():
                result.broke[node] = broke
    Work.count(2 * len(result.cotangents), len(values[root]))
    return result


def fails(
    node: Node, values: Values, framework: str, requires_grad: Collection[Node] | None = None, size: float = 1.0
) -> Array:
    """Elements at which an operation is not finite, or at which its derivative breaks a cotangent of some size."""
    value = values[node]
    infinite = ~np.isfinite(value)
    flows = differentiable_inputs(node)
    if requires_grad is not None:
        flows = tuple([i for i in flows if node.inputs[i] in requires_grad]) if node in requires_grad else ()
    ct = np.full(value.shape, size, value.dtype if value.dtype.kind == "f" else np.float32)
    broke = None
    with np.errstate(all="ignore"):
        pull = _PULL.get(node.op) or partial(_pull_back_operation, framework)
        for _, part, gone in pull(node, flows, values, ct, None, False) if flows else ():
            broke = _broken(node, part if gone is None else np.where(gone, part.dtype.type(0), part), ct, broke)
    Work.count(2 * bool(flows), len(value))
    return infinite if broke is None else infinite | broke


def _broken(node: Node, part: Array, ct: Array, known: Array | None) -> Array | None:
    """Elements at which a node turns a finite cotangent into a part that is not finite, beside those known."""
    if isfinite(np.add.reduce(part, axis=None)):  # the cheapest question first: sums may overflow
        return known
    bad = ~np.isfinite(part)
    if not bad.any():
        return known
    fresh = bad & _sound(node, ct)
    return fresh if known is None else np.asarray(known | fresh)


def is_root_of_squares(node: Node) -> bool:
    """Whether an operation is a norm, or a root of what is 0 only together with its own derivative."""
    return node.op in NORMS or (node.op == "sqrt" and _adds_squares(node.inputs[0]))


def _adds_squares(node: Node) -> bool:
    """Whether a value is 0 only together with its derivative: a sum of squares, times anything."""
    todo = [node]
    while todo:
        each = todo.pop()
        numbers = [i for i in each.inputs if i.op != "const"]
        if each.op in SQUARES or (
            each.op in ("multiply", "dot") and unreshaped(each.inputs[0]) is unreshaped(each.inputs[1])
        ):
            continue
        if each.op in ("power", "power_static", "integer_power") and _is_even(each.inputs[1]):
            continue
        if each.op in SUMS or (each.op in ("multiply", "divide") and len(numbers) == 1):
            todo += numbers
        else:
            return False
    return True


def _is_even(exponent: Node) -> bool:
    return isinstance(exponent, Const) and bool((exponent.value % 2 == 0).all() and (exponent.value > 0).all())


def raising(order: Iterable[Node], values: Values, framework: str) -> Array:
    """Probes, as a column, at which a framework raises: there is no value."""
    found = np.zeros((1, 1), np.bool_)
    for node in order:
        entry = OPERATIONS.get(node.op)
        if entry is not None and framework in entry.raises:
            refused = entry.raises[framework](*(values[i] for i in node.inputs))
            found = found | some(refused)
    return found


#: (operand index, its cotangent, its dead elements) for each operand that a node hands a cotangent to.
_Parts = Iterable[tuple[int, Array, Dead]]


def _pull_choice(node: Node, flows: Sequence[int], values: Values, ct: Array, dead: Dead, symbolic: bool) -> _Parts:
    taken = truth(values[node.inputs[0]])
    zero = ct.dtype.type(0)
    kills = symbolic or node.op == "cond"
    # `x[mask] = value` drops elements of the old x; every element of the value is used.
    written = node.op == "where" and node.selection == "assignment"
    for i in flows:
        if i > 2:  # what an arm reads
            shape = values[node.inputs[i]].shape
            gone = symbolic or (dead is not None and every(dead))
            yield i, np.zeros(shape, ct.dtype), np.broadcast_to(gone, shape)
            continue
        part = np.where(taken, ct, zero) if i == 1 else np.where(taken, zero, ct)
        yield i, part, _either(dead, (~taken if i == 1 else taken) if kills or (written and i == 1) else None)


def _pull_lane(node: Node, flows: Sequence[int], values: Values, ct: Array, dead: Dead, symbolic: bool) -> _Parts:
    return [_scatter_lane(0, ct, dead, node.static.index, values[node.inputs[0]].shape, symbolic)]


def _pull_gather(node: Node, flows: Sequence[int], values: Values, ct: Array, dead: Dead, symbolic: bool) -> _Parts:
    return [_scatter_gathered(node.static.lanes, ct, dead, values[node.inputs[0]].shape)]


def _pull_custom(node: Node, flows: Sequence[int], values: Values, ct: Array, dead: Dead, symbolic: bool) -> _Parts:
    return [(i, ct, dead) for i in flows]


def _pull_compress(node: Node, flows: Sequence[int], values: Values, ct: Array, dead: Dead, symbolic: bool) -> _Parts:
    return [_scatter_kept(truth(values[node.inputs[0]]), ct, dead, symbolic)]


def _pull_stack(node: Node, flows: Sequence[int], values: Values, ct: Array, dead: Dead, symbolic: bool) -> _Parts:
    for i, part in enumerate(node.static.lanes):
        if part in flows:
            gone = None if dead is None else lane(dead, i)
            yield _scatter_lane(part, lane(ct, i), gone, i, values[node.inputs[part]].shape, True)


def _pull_pick(node: Node, flows: Sequence[int], values: Values, ct: Array, dead: Dead, symbolic: bool) -> _Parts:
    for i in flows:
        if i == node.static.index:
            yield i, ct, dead
        else:
            yield i, np.zeros_like(ct), np.ones(ct.shape, np.bool_) if symbolic else dead


_PULL: dict[str, Callable[..., _Parts]] = {
    "where": _pull_choice,
    "cond": _pull_choice,
    "lane": _pull_lane,
    "gather": _pull_gather,
    "custom": _pull_custom,
    "compress": _pull_compress,
    "stack": _pull_stack,
    "pick": _pull_pick,
}


def _pull_back_operation(
    framework: str, node: Node, flows: Sequence[int], values: Values, ct: Array, dead: Dead, symbolic: bool
) -> _Parts:
    entry = OPERATIONS[node.op]
    out = values[node]
    numbers = [values[i] for i in node.inputs]
    numbers = [o.astype(out.dtype) if o.dtype is BOOL else o for o in numbers]
    vjp = entry.variants.get(framework)
    if vjp is None:
        vjp = (entry.variants.get("tensorflow") if framework == "xla" else None) or entry.vjp
    pulls = vjp.pulls if isinstance(vjp, Pullback) else None
    parts = vjp(ct, out, *numbers) if pulls is None else ()
    dropped: Sequence[Array | None] = ()
    if symbolic and entry.unselected is not None:
        ties = _ties(node.op, numbers)
        dropped = [
            # At a tie the derivative is a matter of convention; only one that is infinite is the selection's doing.
            None if drop is None else drop if ties is None else drop | (ties & ~np.isfinite(ct))
            for drop in entry.unselected(*numbers)
        ]
    if symbolic and node.selection == "multiply":
        dropped = [numbers[1 - i] == 0 if i == node.static.operand else None for i in range(2)]
    if dead is not None and entry.mixes:
        dead = every(dead)
    for i in flows:
        if pulls is None:
            part = parts[i] if i < len(parts) else None
        else:
            pull = pulls[i] if i < len(pulls) else None
            part = None if pull is None else pull(ct, out, *numbers)
        if part is not None:
            yield i, part, _either(dead, dropped[i] if i < len(dropped) else None)


def _ties(op: str, operands: list[Array]) -> Array | None:
    """Where a bound is met exactly."""
    if op in ("clip", "hard_tanh"):
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
        return (i, total(ct), dead)
    index %= LANES
    column = total(ct)
    full = np.zeros((column.shape[0], LANES), ct.dtype)
    full[:, index, None] = column
    gone = None
    if kills or dead is not None:  # in an arm that is not taken, the others receive no zero either
        arm = False if dead is None else every(dead)
        gone = np.full(full.shape, kills) | arm
        gone[:, index, None] = arm
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
    none = ~some(np.broadcast_to(mask, ct.shape))  # no element, no cotangent
    ct = np.where(none if dead is None else none | dead, ct.dtype.type(0), ct)
    full = np.zeros_like(ct)
    np.add.at(full, (np.arange(rows)[:, None], index), ct)
    gone = _either(~mask if symbolic else None, None if dead is None else every(dead))
    return (1, full, None if gone is None else np.broadcast_to(gone, full.shape))


def _sound(node: Node, ct: Array) -> Array:
    """The elements whose own cotangent is finite; where a node mixes elements, what one of them breaks all receive."""
    finite = np.asarray(np.isfinite(ct))
    if node.op == "gather":  # it moves what is broken elsewhere; adding up may break what is not
        _, lost, _ = _scatter_gathered(node.static.lanes, (~finite).astype(np.float32), None, (len(ct), LANES))
        return np.asarray(lost == 0)
    mixes = node.op in OPERATIONS and OPERATIONS[node.op].mixes
    return every(finite) if mixes else finite


def _either(a: Dead, b: Dead) -> Dead:
    return b if a is None else a if b is None else a | b


def _sum_to(ct: Array, dead: Dead, shape: tuple[int, ...]) -> tuple[Array, Dead]:
    """Undo broadcasting along the lanes (and along the probes for a constant-shaped operand)."""
    if dead is not None and dead.shape != ct.shape:
        dead = np.broadcast_to(dead, ct.shape)
    if shape[1] == 1 and ct.shape[1] > 1:
        ct = total(ct)
        dead = None if dead is None else every(dead)
    return ct, dead


def _add(a: tuple[Array, Dead], b: tuple[Array, Dead]) -> tuple[Array, Dead]:
    dead = None if a[1] is None or b[1] is None else a[1] & b[1]
    return a[0] + b[0], dead
