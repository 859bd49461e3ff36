"""Inputs that bring an operation exactly to its singular point, found by closing in on where its operand crosses it.

Telling values of the inputs meet ``x == 0`` or ``a == b``; they do not meet ``(trace - 1) / 2 == 1``.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from wherelint.graph.evaluate import Values, evaluate
from wherelint.graph.node import Const, Node, topological, unreshaped
from wherelint.graph.probe import Inputs
from wherelint.graph.run import row
from wherelint.ops import OPERATIONS
from wherelint.ops.traits import CLIPS

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
                crosses = (np.sign(offset) * np.sign(offset[:1]) < 0).any(axis=1) & np.isfinite(offset).all(axis=1)
            order, ways = topological([operand]), np.flatnonzero(crosses)
            first, other = ways[:_MOST_PATHS], ways[_MOST_PATHS :: len(ways) // _MOST_OTHER + 1]
            met = False
            for count, p in enumerate((*first.tolist(), *other.tolist())):
                if met and count >= _MOST_PATHS:  # float32 may step over the point on one way, and not on another
                    break
                point, meets = _close_in(order, batch, p, target)
                points.append(point)
                met |= meets
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
        singular = (values[operand] == np.float32(target)).any(axis=1)
        if not singular.any():
            continue
        layer = [operand]
        for _ in range(_FAR):
            layer = [unreshaped(i) for n in layer if n.op not in ("where", "cond") for i in n.inputs]
            for clip in (n for n in layer if n.selection in CLIPS and n.op in OPERATIONS):
                bounds = (i for i in clip.inputs[1:] if isinstance(i, Const))
                for bound in sorted({float(b) for i in bounds for b in i.value.flat}):
                    met = np.broadcast_to((values[clip] == np.float32(bound)).any(axis=1), singular.shape)
                    if clip.inputs[0].op not in ("leaf", "const") and (met & singular).any():
                        yield unreshaped(clip.inputs[0]), bound


def _close_in(order: list[Node], batch: Inputs, p: int, target: float) -> tuple[Inputs, bool]:
    """The input towards probe ``p`` that brings ``order[-1]`` nearest to ``target``, and whether it meets it."""
    start = {n: v[:1].astype(np.float64) for n, v in batch.items()}
    end = {n: v[row(v, p)] for n, v in batch.items()}
    moving = {n for n, v in end.items() if v.dtype.kind == "f" and not np.array_equal(v, batch[n][:1])}
    low, high = 0.0, 1.0
    for _ in range(_ZOOMS):
        steps = np.linspace(low, high, _STEPS + 1)[:, None]
        path = {n: (start[n] + (v - start[n]) * steps).astype(np.float32) if n in moving else v for n, v in end.items()}
        offset = evaluate(order, path)[order[-1]] - np.float32(target)
        crossed = (np.sign(offset) * np.sign(offset[:1]) <= 0).any(axis=1)
        first = max(int(crossed.argmax()), 1)
        low, high = float(steps[first - 1, 0]), float(steps[first, 0])
    nearest = int(np.abs(offset).min(axis=1).argmin())
    return {n: v[row(v, nearest)] for n, v in path.items()}, bool((offset[nearest] == 0).any())
