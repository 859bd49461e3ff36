"""Which inputs to try: a generic point, and perturbations of it.

A *base* is benign: every leaf moderate, every predicate of the control flow satisfied. A *perturbation* moves some
leaves of a base to telling values: zero, one, huge, tiny, the constants of the program and their float32 neighbours.
Everything is deterministic: the same program is asked the same questions in every run.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations, product
from typing import Any

import numpy as np

from wherelint.graph.evaluate import evaluate, truth
from wherelint.graph.node import LANES, Const, Leaf, Node, above, inputs_in, leaves, topological, whole
from wherelint.ops import OPERATIONS, Array
from wherelint.ops.lanes import every
from wherelint.ops.traits import FINITE_TESTS, ORDERINGS, ROWS, VIEWS

Inputs = dict[Node, Array]

#: Simplest first: the first witness found is the one that is printed.
_SIMPLE = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 1.5, 100.0, -100.0, 1e-4, -1e-4, 1e4, -1e4, 1e-9, -1e-9)
_INTEGERS = (0.0, 1.0, 2.0, 3.0, 5.0)
_MOST_CONSTANTS = 10
_RANDOM_PERTURBATIONS = 96
#: Ordinary numbers are no larger.
EXTREME = 10.0
#: What the logarithm of a probability, which is hardly above 0, is called.
LOG_PROBABILITY = re.compile(r"log_?(?:ps?|pis?|probs?|probabilit(?:y|ies)|likelihoods?)(?![a-z])", re.IGNORECASE)
#: What a mask is called that is added to scores.
_MASK = re.compile(r"mask|(?<![a-z])bias", re.IGNORECASE)
#: What keeps away from zero by its name, and what it is then: nothing beside 1, for float32.
_EPSILON, _TINY = re.compile(r"(?<![a-z])eps(?:ilon)?", re.IGNORECASE), 1e-8
#: Generic points at which every input is positive.
_POSITIVE = 12
_MOST_PAIRED = 4
#: How many operations away a test for nan still speaks of its data.
_NEAR = 3
_PAIRED = (0.0, 1.0, -1.0, 100.0)


class Pool:
    """The values worth trying for each leaf of a program."""

    def __init__(self, order: Iterable[Node]) -> None:
        constants: dict[float, None] = {}
        #: Inputs that may be nan or infinite data.
        self.missing: set[Node] = set()
        #: Inputs that are added to scores, and are -inf where these are masked.
        self.masks: set[Node] = set()
        for node in order:
            if isinstance(node, Const) and node.kind != "bool":
                for value in node.value.reshape(-1)[:LANES].tolist():
                    if 1e-12 < abs(value) < 1e6:
                        constants[float(value)] = None
            elif node.op in FINITE_TESTS:
                self.missing.update(_data_leaves(node))
            elif node.op in ROWS:
                self.masks.update(added_masks(node))
            elif node.op in ORDERINGS:
                self.masks.update(scores_of(node))
        values = dict.fromkeys(_SIMPLE)
        for c in list(constants)[:_MOST_CONSTANTS]:
            near = np.float32(c)
            beside = (float(np.nextafter(near, np.float32(end))) for end in (np.inf, -np.inf))
            values |= dict.fromkeys((c, *beside, -c))
        self._floats = tuple(values)
        self._integers = tuple(dict.fromkeys([*_INTEGERS, *(c for c in constants if c == int(c))]))
        self._values: dict[Node, tuple[float, ...]] = {}

    def values(self, leaf: Node) -> tuple[float, ...]:
        """Telling values of a leaf, the simplest first."""
        if leaf not in self._values:
            self._values[leaf] = self._values_of(leaf)
        return self._values[leaf]

    def _values_of(self, leaf: Node) -> tuple[float, ...]:
        if leaf.kind == "bool":
            return (0.0, 1.0)
        if isinstance(leaf, Leaf) and leaf.kind == "int":
            least = -np.inf if leaf.least is None else leaf.least
            most = np.inf if leaf.most is None else leaf.most
            passed = () if leaf.usual is None else (leaf.usual + 1.0, leaf.usual - 1.0)
            return tuple(v for v in dict.fromkeys((*self._integers, *passed)) if least <= v <= most) or (least,)
        floats = self._floats
        if isinstance(leaf, Leaf) and LOG_PROBABILITY.search(leaf.name):
            floats = tuple(v for v in floats if v <= EXTREME)
        if leaf in self.masks:
            floats = (*floats, float("-inf"))
        return (*floats, float("nan"), float("inf"), float("-inf")) if leaf in self.missing else floats


def added_masks(node: Node) -> set[Leaf]:
    """The inputs that are added to what a softmax is over, and are masks by name: 0 or -inf."""
    read = above(node.inputs[:1], VIEWS | {"add"})
    return {n for n in read if isinstance(n, Leaf) and n.kind == "float" and _MASK.search(n.name)}


def scores_of(test: Node) -> set[Leaf]:
    """The scores of the probabilities that a test compares with 0: these are -inf where something is ruled out."""
    zero = any(isinstance(i, Const) and (i.value == 0).all() for i in test.inputs) and test.op in ORDERINGS
    probabilities = [n for n in above(test.inputs, VIEWS | {"cond"}) if n.op == "softmax"] if zero else []
    read = above([i for each in probabilities for i in each.inputs[:1]], VIEWS | {"log_softmax"})
    return {n for n in read if isinstance(n, Leaf) and n.kind == "float"}


def _data_leaves(test: Node) -> set[Node]:
    """Leaves whose own nan or inf a test such as ``isnan`` is about: it reads them through a few regular operations.

    What is drawn at random is finite.
    """
    found: set[Node] = set()
    layer = list(test.inputs)
    for _ in range(_NEAR):
        following: list[Node] = []
        for node in layer:
            entry = OPERATIONS.get(node.op)
            if isinstance(node, Leaf):
                if node.kind == "float" and not node.random:
                    found.add(node)
            elif entry is None or entry.code is None:
                following += node.inputs
        layer = following
    return found


def bases(
    leaves: Sequence[Leaf], conditions: Sequence[Node], pool: Pool, acceptable: Callable[[Inputs], Array], most: int
) -> list[Inputs]:
    """Up to ``most`` benign points, those that ``acceptable`` scores highest (0: never) of all in a batch."""
    rng = np.random.default_rng(1052)
    positive, count = _POSITIVE, _POSITIVE + 4  # moderate; signs vary only in the last ones, which rank lower
    ranges = [((0.2, 0.9), (1.1, 3.0), (0.2, 3.0))[i % 3] if i < positive else (-2.0, 2.0) for i in range(count)]
    spread = np.array(ranges, np.float32)
    passed = _passed(conditions)
    batch: Inputs = {}
    forced: dict[Node, float] = {}
    equal: list[tuple[Node, Node]] = []
    for condition in conditions:
        _force(condition, forced, equal)
    column: Array
    for leaf in leaves:
        if leaf.kind == "bool":
            column = rng.random((count, LANES)) < 0.5
            column[: count if _is_flag(leaf) else count // 2] = column[: count if _is_flag(leaf) else count // 2, :1]
            if leaf.preferred is not None:
                column[:] = leaf.preferred
        elif leaf.kind == "int":
            low, high = 1 if leaf.least is None else leaf.least, 4 if leaf.most is None else leaf.most
            column = rng.integers(low, high + 1, (count, 1)).astype(np.float32).repeat(LANES, axis=1)
        else:
            column = (spread[:, :1] + (spread[:, 1:] - spread[:, :1]) * rng.random((count, LANES))).astype(np.float32)
        if leaf.usual is not None and leaf not in passed:
            column[:] = leaf.usual
        elif leaf.kind == "float" and _EPSILON.fullmatch(leaf.name.rpartition(".")[2]):
            column[:] = _TINY
        if leaf in forced:
            column = np.full_like(column, forced[leaf])
        batch[leaf] = column
    for a, b in equal:
        if a in batch and b in batch:
            batch[b] = batch[a].astype(batch[b].dtype)
    score = acceptable(batch) * 2.0
    score[positive:] *= 0.75
    if conditions and not score.any():
        batch = _wander(batch, conditions, pool, rng, forced)
        score = acceptable(batch)
    best = [int(i) for i in np.argsort(-score, kind="stable") if score[i] > 0][:most]
    return [{leaf: column[i : i + 1] for leaf, column in batch.items()} for i in best]


def holds_somewhere(predicates: Sequence[Node], order: Sequence[Node]) -> bool:
    """Whether some input is found at which predicates hold together; ``order`` is all that they read."""
    known = set(order)
    sources = [n for n in inputs_in(order) if whole(n, known) is n]

    def hold(inputs: Inputs) -> Array:
        values = evaluate(order, inputs)
        satisfied = np.ones(1, np.bool_)
        for predicate in predicates:
            satisfied = satisfied & every(truth(values[predicate]))[:, 0]
        return satisfied.astype(np.float64)

    return bool(bases(sources, predicates, Pool(order), hold, 1))


def _passed(conditions: Sequence[Node]) -> set[Node]:
    """Parameters that are not what they are by default, since predicates about nothing else say so."""
    found: set[Node] = set()
    for condition in conditions:
        order = topological([condition])
        usual = {n: n.usual for n in inputs_in(order)}
        read: Inputs = {n: np.full((1, 1), value, np.float32) for n, value in usual.items() if value is not None}
        if read and len(read) == len(usual) and not truth(evaluate(order, read)[condition]).all():
            found.update(read)
    return found


def _force(condition: Node, forced: dict[Node, float], equal: list[tuple[Node, Node]]) -> None:
    """Leaf values that predicates dictate: ``flag``, ``not flag``, ``n == 3``, ``n == m``, conjunctions of these."""
    todo, seen = [(condition, True)], set[tuple[Node, bool]]()
    while todo:
        condition, truth = todo.pop()
        if (condition, truth) in seen:
            continue
        seen.add((condition, truth))
        if condition.op == "leaf" and condition.kind == "bool":
            forced[condition] = float(truth)
        elif condition.op == "logical_not":
            todo.append((condition.inputs[0], not truth))
        elif condition.op == ("logical_and" if truth else "logical_or"):
            todo += [(part, truth) for part in reversed(condition.inputs)]
        elif condition.op == ("equal" if truth else "not_equal"):
            a, b = condition.inputs
            if a.op == "leaf" and isinstance(b, Const):
                forced[a] = float(b.value.flat[0])
            elif a.op == b.op == "leaf":
                equal.append((a, b))


def _wander(
    batch: Inputs, conditions: Sequence[Node], pool: Pool, rng: np.random.Generator, forced: Collection[Node]
) -> Inputs:
    """Random values for the leaves that the predicates read and do not dictate, in the hope of satisfying them."""
    count = 256
    rows = rng.integers(0, len(next(iter(batch.values()))), count) if batch else np.zeros(0, int)
    wide = {leaf: column[rows].copy() for leaf, column in batch.items()}
    for leaf in (n for n in leaves(*conditions) if n in wide and n not in forced):
        values = np.array([v for v in pool.values(leaf) if np.isfinite(v)])
        column = wide[leaf]
        moved = rng.random(count) < 0.7
        picks = values[rng.integers(0, len(values), count)][:, None]
        wide[leaf] = np.where(moved[:, None], picks, column).astype(column.dtype)
    return wide


#: One probe: which elements of which leaves are moved away from the base, and to what.
Moves = list[tuple[Node, slice, Any]]
_ALL = slice(None)
_HALF = np.arange(LANES) >= LANES // 2


def perturbations(base: Inputs, movable: Sequence[Node], pool: Pool, *, thorough: bool, joint: int) -> Inputs:
    """Probes that move some of ``movable``, at random at most ``joint`` at once; the first is ``base`` itself."""
    moves = [*_common_moves(base, movable, pool), *_random_moves(movable, pool, joint)] if thorough else []
    singles = {leaf: np.array(pool.values(leaf)) for leaf in movable}
    first = 1 + 2 * sum(len(values) for values in singles.values())
    batch = {leaf: np.repeat(column, first + len(moves), axis=0) for leaf, column in base.items()}
    place = 1
    for leaf, values in singles.items():  # every telling value, once at all elements and once at the first
        end = place + 2 * len(values)
        batch[leaf][place:end:2] = values[:, None]
        batch[leaf][place + 1 : end : 2, _first(leaf)] = values[:, None]
        place = end
    # One assignment for all the moves of a leaf; NumPy is slow at single elements.
    rows: dict[tuple[Node, bool], list[int]] = {}
    moved: dict[tuple[Node, bool], list[Any]] = {}
    for i, together in enumerate(moves, first):
        for leaf, elements, value in together:
            if isinstance(value, np.ndarray):
                batch[leaf][i, elements] = value
            else:
                rows.setdefault((leaf, elements is _ALL), []).append(i)
                moved.setdefault((leaf, elements is _ALL), []).append(value)
    for leaf, everywhere in rows:
        at = rows[leaf, everywhere]
        batch[leaf][at, _ALL if everywhere else slice(1)] = np.array(moved[leaf, everywhere])[:, None]
    return batch


def _common_moves(base: Inputs, movable: Sequence[Node], pool: Pool) -> Iterator[Moves]:
    """Constant arrays, unit vectors, halves that are 0, all leaves at once, pairs of them, equal or opposite ones."""
    floats = [leaf for leaf in movable if leaf.kind == "float"]
    flat: Moves = [(leaf, _ALL, base[leaf][0, 0]) for leaf in floats]
    yield from ([move] for move in flat)
    yield from ([(leaf, _ALL, np.eye(1, LANES, k)[0])] for leaf in floats for k in (0, LANES - 1))  # a unit quaternion
    for leaf in floats:  # one slice of an array may be 0 where another is not
        for half in (_HALF, ~_HALF):
            yield [(leaf, _ALL, np.where(half, 0.0, base[leaf][0]))]
    if len(movable) < 2:
        return
    yield flat
    entries: list[Node] = [leaf for leaf in movable if isinstance(leaf, Leaf) and leaf.entry]
    for one in entries:  # as in a turn by a right angle
        yield from ([(n, _ALL, size if n is one else 0.0) for n in entries] for size in (1.0, -1.0))
    if not pool.masks.isdisjoint(movable):  # everything is masked, and dropped
        switches = [n for n in movable if isinstance(n, Leaf) and (n.kind == "bool" or n.mask) and n not in pool.masks]
        yield [*((n, _ALL, -np.inf) for n in movable if n in pool.masks), *((n, _ALL, 0.0) for n in switches)]
    for value in _SIMPLE[:6]:
        yield [(leaf, _ALL, value) for leaf in movable if leaf.kind != "int" or value in pool.values(leaf)]
    paired = movable[:_MOST_PAIRED]
    telling = {n: [v for v in _PAIRED if n.kind == "bool" or v in pool.values(n)] for n in paired}
    for a, b in combinations(paired, 2):
        for x, y in product(telling[a], telling[b]):
            yield [(a, _ALL, x), (b, _ALL, y)]
            yield [(a, _first(a), x), (b, _first(b), y)]
    for alike in (floats, [leaf for leaf in movable if leaf.kind == "int"]):
        for a in alike[:4]:  # in the first element alone as well: what is summed may need the others
            for where in (_ALL, slice(1)):
                yield from ([(a, where, base[b][0, where])] for b in alike[:4] if a is not b)
                yield [(b, where, base[a][0, where]) for b in alike if b is not a]


def _random_moves(movable: Sequence[Node], pool: Pool, joint: int) -> Iterator[Moves]:
    if len(movable) < 2:
        return
    for chosen, chances in _drawn(len(movable), min(joint, len(movable))):
        together: Moves = []
        extreme = False
        for i, (moved, which, all_lanes) in zip(chosen, chances, strict=True):
            leaf = movable[i]
            values = pool.values(leaf)
            value = values[int(which * len(values))]
            if moved > 0.7 or (extreme and abs(value) > EXTREME):  # two extreme values at once are nobody's input
                continue
            extreme = extreme or abs(value) > EXTREME
            together.append((leaf, _ALL if all_lanes < 0.7 else _first(leaf), value))
        yield together


@lru_cache(maxsize=64)
def _drawn(number: int, joint: int) -> list[tuple[list[int], list[list[float]]]]:
    """For each random perturbation which of so many inputs it moves, and three random numbers for each of these."""
    rng = np.random.default_rng(number)
    drawn = rng.random((_RANDOM_PERTURBATIONS, number)).argsort(axis=1)[:, :joint].tolist()
    return list(zip(drawn, rng.random((_RANDOM_PERTURBATIONS, joint, 3)).tolist(), strict=True))


def _first(leaf: Node) -> slice:
    """The first element; a flag of the Python program has one for all."""
    return _ALL if isinstance(leaf, Leaf) and _is_flag(leaf) else slice(1)


def _is_flag(leaf: Leaf) -> bool:
    """A truth of the Python program, one for all elements, as opposed to a mask."""
    return leaf.kind == "bool" and not leaf.array
