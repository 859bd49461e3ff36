"""Selections that replace a removable singularity by its limit, and lose the slope there.

``where(x > 1e-6, expm1(x) / x, 1.0)`` is right in value; its gradient at 0 is that of the arm 1.0, and the limit's is
0.5. Decided in float64: the other arm is followed towards the point along a line, on polynomials of two degrees, which
agree where value and slope have a limit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from wherelint.graph.differentiate import Tape, backward
from wherelint.graph.evaluate import evaluate, truth
from wherelint.graph.node import LANES, Const, Leaf, Node, differentiable_inputs, topological
from wherelint.graph.probe import Inputs
from wherelint.graph.run import code
from wherelint.graph.search import Search
from wherelint.ops import Array
from wherelint.ops.traits import CLIPS

#: How far from the point the arm is followed, nearest and farthest; the first distance that tells is taken.
_REACHES = (0.1, 0.3, 0.03, 1.0, 3.0)
_NEAREST = 0.15
_SAMPLES = 20
#: Constants no larger stand for 0: they keep away from it.
_EPSILON = 1e-2
_MOST_NUMBERS, _MOST_LEAVES = 8, 4
#: The error of a limit, and the least difference of two slopes, by their size.
_TELLING = 1e-3
_MEETS = 1e-6
#: Lanes that are moved together: all; what is not the real part of a quaternion, which comes first or last.
_PARTS = (slice(None), slice(1, None), slice(LANES - 1))


def _extrapolation(degree: int) -> Array:
    """What value and slope at 0 a polynomial has that fits values at the samples."""
    return np.asarray(np.linalg.pinv(np.vander(_DISTANCES, degree + 1, increasing=True))[:2])


_ANGLES = np.cos(np.pi * (np.arange(_SAMPLES) + 0.5) / _SAMPLES)
_DISTANCES = (1 + _NEAREST) / 2 - (1 - _NEAREST) / 2 * _ANGLES
_FINE, _COARSE = _extrapolation(9), _extrapolation(7)


@dataclass(frozen=True)
class WrongSlope:
    """Where the arms of a selection meet in value and not in slope, along a line on which one input moves."""

    select: Node
    #: The operation that is singular there.
    op: Node
    leaf: Leaf
    inputs: Inputs
    value: Array
    #: How much each element moves.
    direction: Array
    #: What reverse mode gives, and the limit, for the same change of each element that moves; how far that may be off.
    slope: float
    limit: float
    error: float

    @property
    def told(self) -> str:
        """Both slopes in words."""
        return f"by {self.leaf.name} it is {self.slope:.4g}, the limit's is {self.limit:.4g}"


def slope_along(direction: Array, gradient: Array | None) -> float:
    """The derivative along a direction, by the gradient; None stands for no gradient at all."""
    return 0.0 if gradient is None else float((gradient * direction).sum())


#: Node evaluations for one selection.
MEASURING = 20_000


@np.errstate(all="ignore")
def wrong_slope(search: Search, *, symbolic: bool = False) -> WrongSlope | None:
    """What is wrong with the slope of a search's selection, if anything is; ``symbolic``: after a double where."""
    root = search.root
    if root.op != "where" or root.kind != "float" or root not in search.requires_grad:
        return None
    arms = topological(root.inputs[1:])
    if not any(map(code, arms)):
        return None
    # What a stop hands on has another slope than its value, on purpose.
    stops = [n for n in arms if n.op in ("stop", "custom") and n.kind == "float"]
    stopped = {*topological(stops)}
    about = _about(root.inputs[0])
    read = [n for n in search.guard.movable() if n.kind == "float" and n in about]
    followed = [n for n in read if n.usual is None and not n.setting and n not in stopped]
    moved = [n for n in followed if n in search.requires_grad][:_MOST_LEAVES]
    numbers: list[Array] = [np.full((1, 1), v) for v in _numbers(root.inputs[0])]
    for start in _starts(search) if moved else ():
        for leaf in moved:
            others = [start[n].astype(np.float64) for n in read[:_MOST_LEAVES] if n is not leaf]
            for point in [*numbers, *others]:
                for part in _PARTS if not point.any() else _PARTS[:1]:
                    if search.effort.spent:
                        return None
                    if found := _Line(search, start, leaf, point, part).wrong(symbolic=symbolic):
                        return found
    return None


def _about(condition: Node) -> set[Node]:
    """What a condition compares by value: not by an index, or by a number that was rounded."""
    found: set[Node] = set()
    todo = [condition]
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += node.inputs if node.kind == "bool" else [node.inputs[i] for i in differentiable_inputs(node)]
            todo += [node.of[0]] if isinstance(node, Leaf) and node.of else []
    return found


def _starts(search: Search) -> list[Inputs]:
    """Two benign points, and the first with equal elements: those of a random one may not all be in a domain."""
    starts = search.begin()[:2]
    return starts + [
        {n: np.repeat(v[:, i : i + 1], v.shape[1], axis=1) for n, v in starts[0].items()} for i in (0, 1) if starts
    ]


def _numbers(condition: Node) -> list[float]:
    """Numbers that the condition may single out: its constants, what lies between two of them, and 0, 1, -1."""
    constants = {float(v) for n in topological([condition]) if isinstance(n, Const) for v in n.value.flat}
    told = sorted(c for c in constants if _EPSILON < abs(c) < 1e3)
    between = [(a + b) / 2 for a, b in pairwise(told)]
    return list(dict.fromkeys([0.0, *told, *between, 1.0, -1.0]))[:_MOST_NUMBERS]


class _Line:
    """The first probe is the point; the others lie around it, by side and by reach."""

    def __init__(self, search: Search, start: Inputs, leaf: Leaf, point: Array, part: slice) -> None:
        self._search = search
        self._leaf = leaf
        direction = np.zeros((1, LANES))
        direction[:, part] = start[leaf][:, part] / np.abs(start[leaf][:, part]).max()
        self._direction = direction
        steps = np.concatenate([[0.0], *(sign * r * _DISTANCES for sign in (1, -1) for r in _REACHES)])
        moved = np.where(direction != 0, point, start[leaf]) + steps[:, None] * direction
        self._inputs = {n: v.astype(np.float64) if v.dtype.kind == "f" else v for n, v in start.items()} | {leaf: moved}
        search.effort.spend(len(search.order) * 2)
        self._values = evaluate(search.order, self._inputs, np.float64)
        self._sums = self._rows(search.root).sum(axis=1)

    def _rows(self, node: Node) -> Array:
        """The values of a node at every probe."""
        value = self._values[node]
        return np.broadcast_to(value, (1 + 2 * len(_REACHES) * _SAMPLES, value.shape[1]))

    def wrong(self, *, symbolic: bool) -> WrongSlope | None:
        """The finding at the point, if the slope there is finite and another one than the limit."""
        search, root = self._search, self._search.root
        allowed = np.ones(len(self._sums), np.bool_)
        for condition in search.path_conditions:
            allowed &= truth(self._rows(condition)).all(axis=1)
        taken = truth(self._rows(root.inputs[0]))
        changes = (taken != taken[:1]).any(axis=1) & allowed
        value = self._sums[0]
        if not (changes.any() and np.isfinite(value) and allowed[0]):
            return None
        limits = [found for side in range(2) if (found := self._limit(side, taken, changes))]
        if len(limits) == 1 and self._bends(limits[0][-1], allowed & ~changes):
            return None
        if not limits or any(abs(v - value) > e + _MEETS * max(1.0, abs(value)) for v, _, e, _, _ in limits):
            return None
        tape = Tape(search.order, search.requires_grad)
        at_point = {n: v[:1] for n, v in self._values.items()}
        cotangents = backward(tape, at_point, root, search.framework, symbolic=symbolic).cotangents
        slope = slope_along(self._direction, cotangents.get(self._leaf))
        _, limit, _, error, sample = limits[0]
        apart = min(abs(s - slope) for _, s, _, _, _ in limits)
        if not np.isfinite(slope) or any(abs(s - limit) > error + e + _TELLING * abs(s) for _, s, _, e, _ in limits):
            return None
        if apart <= 10 * error + _TELLING * max(abs(limit), abs(slope)):
            return None
        op = self._singular(sample)
        if op is None:
            return None
        inputs = {n: v[:1] for n, v in self._inputs.items()}
        each = self._direction.sum()
        return WrongSlope(root, op, self._leaf, inputs, self._rows(root)[0], self._direction, slope / each,
                          limit / each, 10 * error / abs(each))  # fmt: skip

    def _bends(self, sample: int, own: Array) -> bool:
        """Whether the arm that is selected at the point has a slope of its own on the side across from a sample."""
        middle = 1 + len(_REACHES) * _SAMPLES
        across = slice(middle, None) if sample < middle else slice(1, middle)
        return bool((self._sums[across][own[across]] != self._sums[0]).any())

    def _limit(self, side: int, taken: Array, changes: Array) -> tuple[float, float, float, float, int] | None:
        """Value and slope towards the point from one side, the error of each, and a probe there."""
        for i, reach in enumerate(_REACHES):
            first = 1 + (side * len(_REACHES) + i) * _SAMPLES
            probes = slice(first, first + _SAMPLES)
            values = self._sums[probes]
            if not (changes[probes].all() and (taken[probes] == taken[first]).all() and np.isfinite(values).all()):
                continue
            value, slope = _FINE @ values
            errors = np.abs(_FINE @ values - _COARSE @ values) + 1e-13 * np.abs(values).max()
            if errors[1] <= _TELLING * max(abs(slope), reach * _TELLING):
                sign = reach if side == 0 else -reach
                return float(value), float(slope / sign), float(10 * errors[0]), float(errors[1] / reach), first
        return None

    def _singular(self, sample: int) -> Node | None:
        """The operation that fails at the point in the arm that the sample takes; None where it is regular there."""
        root = self._search.root
        arm = root.inputs[1 if truth(self._rows(root.inputs[0])[sample]).any() else 2]
        bare: dict[Node, Node] = {}
        for node in topological([arm]):
            chosen = self._chosen(node, sample)
            bare[node] = bare[chosen] if chosen else _with(node, [bare[i] for i in node.inputs])
        order = topological([bare[arm]])
        inputs = {n: self._inputs[n][:1] for n in order if n in self._inputs}
        values = evaluate(order, inputs, np.float64)
        broke = backward(Tape(order), values, bare[arm], self._search.framework, symbolic=True).broke
        authors = {new: node for node, new in bare.items() if node.op == new.op}
        for node in order:
            sound = all(np.isfinite(values[i]).all() for i in node.inputs)
            if node.inputs and sound and (node in broke or not np.isfinite(values[node]).all()):
                return authors.get(node)
        return None

    def _chosen(self, node: Node, sample: int) -> Node | None:
        """The operand that a mask or a clip passes on at the sample, and replaces at the point."""
        if node.op == "where":
            taken = truth(self._rows(node.inputs[0])[sample])
            return node.inputs[1] if taken.all() else node.inputs[2] if not taken.any() else None
        if node.selection in CLIPS:
            here = self._rows(node)[sample]
            return next((i for i in node.inputs if (self._rows(i)[sample] == here).all() and i.op != "const"), None)
        return None


def _with(node: Node, inputs: Sequence[Node]) -> Node:
    """The node with other operands, itself if they are the same."""
    same = all(a is b for a, b in zip(node.inputs, inputs, strict=True))
    return node if same else replace(node, inputs=tuple(inputs))
