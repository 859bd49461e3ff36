"""Which inputs to try: a generic point, and departures from it.

A *base* is benign: every leaf moderate, every predicate of the control flow satisfied. A *departure* moves some leaves
of a base to telling values: zero, one, huge, tiny, the constants of the program and their float32 neighbours.
Everything is deterministic: the same program is asked the same questions in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from wherelint.graph.node import FINITE_TESTS, LANES, Node, topological
from wherelint.ops import OPERATIONS, Array

Inputs = dict[Node, Array]

#: Simplest first: the first witness found is the one that is printed.
_SIMPLE = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 1.5, 100.0, -100.0, 1e-4, -1e-4, 1e4, -1e4, 1e-9, -1e-9)
_INTEGERS = (0.0, 1.0, 2.0, 3.0, 5.0)
_MOST_CONSTANTS = 10
_RANDOM_DEPARTURES = 96
_EXTREME = 10.0
_MOST_PAIRED = 4
#: How many operations away a test for nan still speaks of its data.
_NEAR = 3
_PAIRED = (0.0, 1.0, -1.0, 100.0)


class Pool:
    """The values worth trying for each leaf of a program."""

    def __init__(self, order: Iterable[Node]) -> None:
        constants: dict[float, None] = {}
        self._missing: set[Node] = set()
        for node in order:
            if node.op == "const" and node.kind != "bool":
                for value in node.params["value"].reshape(-1)[:LANES].tolist():
                    if 1e-12 < abs(value) < 1e6:
                        constants[float(value)] = None
            elif node.op in FINITE_TESTS:
                self._missing.update(_data_leaves(node))
        values = dict.fromkeys(_SIMPLE)
        for c in list(constants)[:_MOST_CONSTANTS]:
            near = np.float32(c)
            for v in (
                c,
                float(np.nextafter(near, np.float32(np.inf))),
                float(np.nextafter(near, np.float32(-np.inf))),
                -c,
            ):
                values[v] = None
        self._floats = tuple(values)
        self._integers = tuple(dict.fromkeys([*_INTEGERS, *(c for c in constants if c == int(c))]))

    def values(self, leaf: Node) -> tuple[float, ...]:
        """Telling values of a leaf, the simplest first."""
        if leaf.kind == "bool":
            return (0.0, 1.0)
        if leaf.kind == "int":
            least, most = leaf.params.get("least", -np.inf), leaf.params.get("most", np.inf)
            return tuple(v for v in self._integers if least <= v <= most) or (least,)
        return (*self._floats, float("nan"), float("inf"), float("-inf")) if leaf in self._missing else self._floats


def _data_leaves(test: Node) -> set[Node]:
    """Leaves whose own nan or inf a test such as ``isnan`` is about: it reads them through a few regular operations."""
    found: set[Node] = set()
    layer = list(test.inputs)
    for _ in range(_NEAR):
        following: list[Node] = []
        for node in layer:
            entry = OPERATIONS.get(node.op)
            if node.op == "leaf" and node.kind == "float":
                found.add(node)
            elif entry is None or entry.code is None:
                following += node.inputs
        layer = following
    return found


def bases(
    leaves: Sequence[Node], facts: Sequence[Node], pool: Pool, acceptable: Callable[[Inputs], Array], most: int
) -> list[Inputs]:
    """Up to ``most`` benign points, the ones that ``acceptable`` scores highest (0: never).

    ``acceptable`` maps a batch of inputs to a score for each probe.
    """
    rng = np.random.default_rng(1052)
    positive, count = 12, 16  # positive and moderate first; signs vary only in the last ones, which rank lower
    ranges = [((0.2, 0.9), (1.1, 3.0), (0.2, 3.0))[i % 3] if i < positive else (-2.0, 2.0) for i in range(count)]
    batch: Inputs = {}
    forced: dict[Node, float] = {}
    for fact in facts:
        _force(fact, True, forced)
    column: Array
    for leaf in leaves:
        if leaf.kind == "bool":
            column = rng.random((count, LANES)) < 0.5
            column[: count if _is_flag(leaf) else count // 2] = column[: count if _is_flag(leaf) else count // 2, :1]
            preferred = leaf.params.get("value")
            if preferred is not None:
                column[:] = preferred
        elif leaf.kind == "int":
            low, high = leaf.params.get("least", 1), leaf.params.get("most", 4)
            column = rng.integers(low, high + 1, (count, 1)).astype(np.float32).repeat(LANES, axis=1)
        else:
            spread = np.array(ranges, np.float32)
            column = (spread[:, :1] + (spread[:, 1:] - spread[:, :1]) * rng.random((count, LANES))).astype(np.float32)
        if leaf in forced:
            column = np.full_like(column, forced[leaf])
        batch[leaf] = column
    score = acceptable(batch) * 2.0
    score[positive:] *= 0.75
    if facts and not score.any():
        batch = _wander(batch, facts, pool, rng)
        score = acceptable(batch)
    best = [int(i) for i in np.argsort(-score, kind="stable") if score[i] > 0][:most]
    return [{leaf: column[i : i + 1] for leaf, column in batch.items()} for i in best]


def _force(fact: Node, truth: bool, forced: dict[Node, float]) -> None:
    """Leaf values that a predicate dictates: ``flag``, ``not flag``, ``n == 3``, and conjunctions of these."""
    if fact.op == "leaf" and fact.kind == "bool":
        forced[fact] = float(truth)
    elif fact.op == "logical_not":
        _force(fact.inputs[0], not truth, forced)
    elif fact.op == ("logical_and" if truth else "logical_or"):
        for part in fact.inputs:
            _force(part, truth, forced)
    elif fact.op == ("equal" if truth else "not_equal"):
        a, b = fact.inputs
        if a.op == "leaf" and b.op == "const":
            forced[a] = float(b.params["value"].flat[0])


def _wander(batch: Inputs, facts: Sequence[Node], pool: Pool, rng: np.random.Generator) -> Inputs:
    """Random values for the leaves that the predicates read, in the hope of satisfying them."""
    count = 256
    rows = rng.integers(0, len(next(iter(batch.values()))), count) if batch else np.zeros(0, int)
    wide = {leaf: column[rows].copy() for leaf, column in batch.items()}
    for leaf in (n for n in topological(facts) if n.op == "leaf" and n in wide):
        values = np.array([v for v in pool.values(leaf) if np.isfinite(v)])
        column = wide[leaf]
        moved = rng.random(count) < 0.7
        picks = values[rng.integers(0, len(values), count)][:, None]
        wide[leaf] = np.where(moved[:, None], picks, column).astype(column.dtype)
    return wide


def departures(base: Inputs, movable: Sequence[Node], pool: Pool, *, thorough: bool, joint: int) -> Inputs:
    """A batch of probes that move some of ``movable`` away from ``base``; the base itself is the first probe.

    Random departures move at most ``joint`` leaves at once.
    """
    rows: list[dict[Node, Array]] = [{}]
    if not thorough:
        rows += _single_moves(base, movable, pool)
        return _assemble(base, rows)
    rows += _single_moves(base, movable, pool)
    floats = [leaf for leaf in movable if leaf.kind == "float"]
    rows += [{leaf: np.repeat(base[leaf][:, :1], LANES, axis=1)} for leaf in floats]  # one constant array
    rows += [{leaf: np.eye(1, LANES, k, np.float32)} for leaf in floats for k in (0, LANES - 1)]  # a unit quaternion
    if len(movable) > 1:
        rows.append({leaf: np.repeat(base[leaf][:, :1], LANES, axis=1) for leaf in floats})
        for value in _SIMPLE[:6]:
            rows.append(
                {leaf: _full(leaf, value) for leaf in movable if leaf.kind != "int" or value in pool.values(leaf)}
            )
        rows += _pair_moves(base, movable[:_MOST_PAIRED], pool)
        for a in floats[:4]:  # two equal arrays, two opposite arrays
            for b in floats[:4]:
                if a is not b:
                    rows.append({a: base[b]})
            rows.append({b: base[a] for b in floats if b is not a})
    if len(movable) > 1:
        rng = np.random.default_rng(len(movable))
        for _ in range(_RANDOM_DEPARTURES):
            row: dict[Node, Array] = {}
            extreme = False
            for i in rng.permutation(len(movable))[:joint].tolist():
                leaf = movable[i]
                if rng.random() < 0.7:
                    values = pool.values(leaf)
                    value = values[int(rng.integers(0, len(values)))]
                    if abs(value) > _EXTREME:  # two extreme values at once are nobody's input
                        if extreme:
                            continue
                        extreme = True
                    row[leaf] = _full(leaf, value) if rng.random() < 0.7 else _first_lane(base[leaf], leaf, value)
            rows.append(row)
    return _assemble(base, rows)


def _single_moves(base: Inputs, movable: Sequence[Node], pool: Pool) -> list[dict[Node, Array]]:
    rows: list[dict[Node, Array]] = []
    for leaf in movable:
        for value in pool.values(leaf):
            rows.append({leaf: _full(leaf, value)})
            rows.append({leaf: _first_lane(base[leaf], leaf, value)})
    return rows


def _pair_moves(base: Inputs, movable: Sequence[Node], pool: Pool) -> list[dict[Node, Array]]:
    rows: list[dict[Node, Array]] = []
    values = {n: _PAIRED if n.kind != "int" else [v for v in _PAIRED if v in pool.values(n)] for n in movable}
    for i, a in enumerate(movable):
        for b in movable[i + 1 :]:
            for x in values[a]:
                for y in values[b]:
                    rows.append({a: _full(a, x), b: _full(b, y)})
                    rows.append({a: _first_lane(base[a], a, x), b: _first_lane(base[b], b, y)})
    return rows


def _full(leaf: Node, value: float) -> Array:
    return np.full((1, LANES), bool(value) if leaf.kind == "bool" else np.float32(value))


def _is_flag(leaf: Node) -> bool:
    """A truth of the Python program, one for all elements, as opposed to a mask."""
    return leaf.kind == "bool" and not leaf.params.get("array", False)


def _first_lane(column: Array, leaf: Node, value: float) -> Array:
    if _is_flag(leaf):
        return _full(leaf, value)
    out = column.copy()
    out[:, 0] = bool(value) if leaf.kind == "bool" else np.float32(value)
    return out


def _assemble(base: Inputs, rows: list[dict[Node, Array]]) -> Inputs:
    batch = {leaf: np.repeat(column, len(rows), axis=0) for leaf, column in base.items()}
    for i, moves in enumerate(rows):
        for leaf, value in moves.items():
            batch[leaf][i] = value[0]
    return batch
