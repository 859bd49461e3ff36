"""Probes that a proof adds to those of the search: what nobody would give, and what a singular point may meet."""

import itertools
from collections.abc import Sequence

import numpy as np

from wherelint.graph.differentiate import Tape, backward
from wherelint.graph.evaluate import Values, evaluate
from wherelint.graph.node import LANES, Leaf, Node, topological
from wherelint.ops import Array
from wherelint.search.batch import any_lane, row
from wherelint.search.probes import Inputs, Pool

#: Probes that move every input, and of how many inputs each is missing, or infinite, in turn.
_EVERYTHING, _MOST_MISSING = 64, 24
_MISSING = (np.nan, np.inf, -np.inf)
#: What may change a value that zeros and numbers do not.
_TELLING = (*_MISSING, -0.0)
#: At how many points where an operation is singular, and where its derivative is alone, or twice as many where all
#: elements are the same; of how many operations.
_MOST_POINTS, _MOST_OPERATIONS = (8, 4), 3
#: The probes of the rest at each: at the first ones every subset of three inputs is the same number, first at a zero,
#: then at one of the other sign; then each element alone makes the operation singular, for two operands may be parts of
#: one array; at the last ones all inputs are what is no number.
_ALONE = slice(20, 20 + LANES)
_OTHERS = np.arange(_ALONE.stop + len(_MISSING))
_SUBSETS, _SIGNED = _OTHERS < 16, _OTHERS // 8 % 2 == 1
_LEVELS = (0.0, 0.0, 1.0)


def far(start: Inputs, pool: Pool) -> Inputs:
    """Probes that move everything, whether anybody would or not, and probes at which one is no number, or -0.0."""
    rng = np.random.default_rng(len(start))
    floats = [n for n in start if n.kind == "float"][:_MOST_MISSING]
    missing = [(n, v, e) for n in floats for v in _TELLING for e in (slice(None), slice(1))]
    missing = [(n, v, e) for n, v, e in missing if np.isnan(v) or not isinstance(n, Leaf) or n.default is None]
    found: Inputs = {}
    for node, column in start.items():
        rest = np.repeat(column, len(missing), axis=0)
        for i, (leaf, value, elements) in enumerate(missing):
            if leaf is node:
                rest[i, elements] = value
        found[node] = np.concatenate([_drawn(node, column, _EVERYTHING, pool.values(node), rng), rest])
    return found


def around(operations: Sequence[Node], batch: Inputs, pool: Pool) -> Inputs:
    """Probes at which one operand makes an operation singular, with a zero of either sign, whatever the rest is."""
    rng = np.random.default_rng(len(batch))
    found: dict[Node, list[Array]] = {n: [v[:0]] for n, v in batch.items()}
    values = evaluate(topological(operations), batch)
    for operation in operations[:_MOST_OPERATIONS]:
        points = _singular(operation, values)
        for reads in dict.fromkeys(frozenset(n for n in topological([i]) if n in batch) for i in operation.inputs):
            for p, level in zip(points if reads else (), itertools.cycle(_LEVELS)):
                others = itertools.cycle(range(3))
                for node, column in batch.items():
                    here = column[row(column, p)]
                    if node in reads:
                        drawn = np.repeat(here, len(_OTHERS), axis=0)
                        if node.kind == "float":
                            drawn[_SIGNED] = np.where(here == 0, -here, here)
                            drawn[_ALONE] = np.where(np.eye(LANES, dtype=np.bool_), here, column[:1])
                    else:
                        telling = (*pool.values(node), *(_MISSING if node.kind == "float" else ()))
                        drawn = _drawn(node, here, len(_OTHERS), telling, rng)
                        if node.kind == "float":
                            drawn[_SUBSETS & (_OTHERS >> next(others) & 1 == 1)] = level
                            drawn[-len(_MISSING) :] = np.array(_MISSING)[:, None]
                    found[node].append(drawn)
    return {n: np.concatenate(parts) for n, parts in found.items()}


def _drawn(node: Node, column: Array, count: int, telling: Sequence[float], rng: np.random.Generator) -> Array:
    """Random values for an input, some of them telling ones."""
    shape = (count, column.shape[1])
    if node.kind == "bool":
        return np.broadcast_to(rng.random((count, 1)) < 0.5, shape).astype(column.dtype)
    if node.kind != "float":
        return np.broadcast_to(rng.choice(telling, (count, 1)), shape).astype(column.dtype)
    near = rng.uniform(-2.0, 3.0, shape)
    picked = np.array(telling)[rng.integers(0, len(telling), shape)]
    drawn = np.where(rng.random((count, 1)) < 0.5, near, column)
    return np.where(rng.random(shape) < 0.25, picked, drawn).astype(column.dtype)


def infinite(operation: Node, values: Values) -> Array:
    """Where an operation makes of finite operands what is not."""
    finite = np.logical_and.reduce(np.broadcast_arrays(*(np.isfinite(values[i]) for i in operation.inputs)))
    return np.asarray(~np.isfinite(values[operation]) & finite)


def _singular(operation: Node, values: Values) -> list[int]:
    """Some probes at which an operation does so, and some at which its derivative does where the value is finite.

    Those where all elements are the same come first: at every number that the program speaks of.
    """
    tape = Tape([*dict.fromkeys(operation.inputs), operation], {operation, *operation.inputs})
    broke = backward(tape, values, operation, "", symbolic=False).broke.get(operation, np.zeros((1, 1), np.bool_))
    made = any_lane(infinite(operation, values))
    *parts, _ = np.broadcast_arrays(*(values[i] for i in operation.inputs), made[:, None])
    operands = np.concatenate(parts, axis=1)
    even = np.logical_and.reduce([(part == part[:, :1]).all(axis=1) for part in parts])
    found: list[int] = []
    for kind, most in zip((made, any_lane(broke) & ~made), _MOST_POINTS, strict=True):
        first = _spread(operands, np.flatnonzero(kind & even), 2 * most)
        found += first + _spread(operands, np.flatnonzero(kind & ~even), most - len(first))
    return found


def _spread(operands: Array, points: Array, most: int) -> list[int]:
    """So many of some probes, from one end of what the operands are there to the other."""
    _, told = np.unique(operands[points], axis=0, return_index=True)
    if len(told) == 0 or most <= 0:
        return []
    return [int(points[told[i]]) for i in np.unique(np.linspace(0, len(told) - 1, most).astype(int))]
