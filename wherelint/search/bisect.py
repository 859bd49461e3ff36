"""Inputs that bring an operation exactly to its singular point, found by closing in on where its operand crosses it.

Telling values of the inputs meet ``x == 0`` or ``a == b``; they do not meet ``(trace - 1) / 2 == 1``.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from wherelint.graph.evaluate import Values, evaluate
from wherelint.graph.node import Const, Leaf, Node, reading, topological, unreshaped
from wherelint.ops import OPERATIONS, Array
from wherelint.ops.lanes import every, some
from wherelint.ops.traits import CLIPS
from wherelint.search.batch import row
from wherelint.search.probes import Inputs

#: Steps of one zoom, and how many zooms reach float32's resolution.
_STEPS, _ZOOMS = 128, 5
_MOST_OPERATIONS = 6
_MOST_PATHS, _MOST_OTHER = 2, 4
#: How many operations may stand between a clip and the operation that is singular at its bound.
_FAR = 4


def aimed(nodes: Sequence[Node], batch: Inputs, values: Values) -> list[Inputs]:
    """Points between the first probe of a batch and others at which an operation of ``nodes`` is singular.

    The last operations are the nearest to the selection, whose author met them first.
    """
    found: list[list[Inputs]] = []
    for node in reversed(nodes):
        points: list[Inputs] = []
        for operand, target in [*_targets(node), *_bounds(node, values)]:
            with np.errstate(all="ignore"):
                offset = values[operand] - target
                crosses = some(np.sign(offset) * np.sign(offset[:1]) < 0) & every(np.isfinite(offset))
            ways = np.flatnonzero(crosses)
            other = ways[_MOST_PATHS :: len(ways) // _MOST_OTHER + 1]
            closed = _close_in(operand, batch, np.concatenate([ways[:_MOST_PATHS], other]), target)
            # Float32 may step over the point on one way, and not on another: the others are for where none met it.
            met = next((i for i, (_, meets) in enumerate(closed, 1) if meets), len(closed))
            points += [point for point, _ in closed[: max(met, _MOST_PATHS)]]
        found += [points] if points else []
        if len(found) == _MOST_OPERATIONS:
            break
    return [point for points in reversed(found) for point in points]


def _targets(node: Node) -> Iterator[tuple[Node, float]]:
    """Operands of an operation and values at which it is singular; of a clipped operand, what the clip is given."""
    points = OPERATIONS[node.op].singular
    for i, operand in enumerate(node.inputs):
        targets = {point[i] for point in points if i < len(point) and np.isfinite(point[i])}
        if len(node.inputs) > 1 and len(targets) > 1:
            continue  # a numerator, of which no value matters
        operand = unreshaped(operand)
        operand = unreshaped(operand.inputs[0]) if operand.selection in CLIPS else operand
        if operand.kind == "float" and operand.op not in ("leaf", "const"):
            yield from ((operand, value) for value in sorted(targets))


def _bounds(node: Node, values: Values) -> Iterator[tuple[Node, float]]:
    """What clips further below are given, and bounds of theirs at which the operation is singular.

    Past the bound the clip may hold the gradient back; at the bound it lets it through.
    """
    for operand, target in _targets(node):
        singular = some(values[operand] == np.float32(target))
        if not singular.any():
            continue
        layer = [operand]
        for _ in range(_FAR):
            below = (unreshaped(i) for n in layer if n.op not in ("where", "cond") for i in n.inputs)
            layer = list(dict.fromkeys(below))
            for clip in (n for n in layer if n.selection in CLIPS and n.op in OPERATIONS):
                bounds = (i for i in clip.inputs[1:] if isinstance(i, Const))
                for bound in sorted({float(b) for i in bounds for b in i.value.flat}):
                    met = some(values[clip] == np.float32(bound)) & singular
                    if clip.inputs[0].op not in ("leaf", "const") and met.any():
                        yield unreshaped(clip.inputs[0]), bound


def _close_in(node: Node, batch: Inputs, ways: Array, target: float) -> list[tuple[Inputs, bool]]:
    """For each of some probes the input towards it that brings ``node`` nearest to ``target``, and whether it meets it.

    All ways are walked at once.
    """
    if not len(ways):
        return []
    ends = {n: v[ways] if len(v) > 1 else v for n, v in batch.items()}
    moving = {n: (v != batch[n][:1]).any(axis=1) for n, v in ends.items() if v.dtype.kind == "f"}
    fixed = {n: v[:1] for n, v in ends.items() if not (moving[n].any() if n in moving else (v != v[:1]).any())}
    order = topological([node])
    moved = reading(order, (n for n in order if isinstance(n, Leaf) and (n not in fixed or n.of is not None)))
    still = evaluate((n for n in order if n not in moved), fixed)
    order = [n for n in order if n in moved]
    low, high = np.zeros(len(ways)), np.ones(len(ways))
    each = np.arange(len(ways))
    for _ in range(_ZOOMS):
        steps = np.linspace(low, high, _STEPS + 1, axis=1)
        path = {n: _between(batch[n][:1], v, moving.get(n), steps) for n, v in ends.items() if n not in fixed}
        path |= fixed
        offset = evaluate(order, path, known=still)[node] - np.float32(target)
        offset = np.broadcast_to(offset, (steps.size, offset.shape[1])).reshape(*steps.shape, -1)
        crossed = some(np.sign(offset) * np.sign(offset[:, :1]) <= 0)[..., 0]
        first = np.maximum(crossed.argmax(axis=1), 1)
        low, high = steps[each, first - 1], steps[each, first]
    nearest = np.abs(offset).min(axis=2).argmin(axis=1)
    places = (each * (_STEPS + 1) + nearest).tolist()
    meets = (offset[each, nearest] == 0).any(axis=1).tolist()
    return [({n: v[row(v, p)] for n, v in path.items()}, met) for p, met in zip(places, meets, strict=True)]


def _between(start: Array, ends: Array, moving: Array | None, steps: Array) -> Array:
    """The values of an input at the steps of all ways, one way after the other."""
    ends = np.broadcast_to(ends, (len(steps), ends.shape[1]))[:, None]
    if moving is None:
        return np.repeat(ends[:, 0], steps.shape[1], axis=0)
    start = start.astype(np.float64)
    with np.errstate(all="ignore"):
        path = (start + (ends - start) * steps[:, :, None]).astype(np.float32)
    return np.where(moving[:, None, None], path, ends).reshape(steps.size, -1)
