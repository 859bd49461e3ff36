"""What a selection guards: which inputs its condition is about, and whether a witness is one that it has in mind.

This is where confidence comes from. A condition is a statement by the author about some inputs; a witness that moves
only those, to a place the condition was written for, is almost certainly the bug. The rest is low confidence.
"""

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from wherelint.graph.dependence import Dependence
from wherelint.graph.differentiate import fails
from wherelint.graph.evaluate import Values, evaluate, truth
from wherelint.graph.node import DIAGONAL, Const, Leaf, Node, inputs_in, leaves, matrix, topological, unreshaped, whole
from wherelint.graph.probe import Inputs
from wherelint.graph.relation import Relation
from wherelint.graph.run import Run, any_lane, at, code, overflown, row
from wherelint.ops import OPERATIONS, Array
from wherelint.ops.traits import CLIPS, FINITE_TESTS, ORDERINGS, QUOTIENTS

#: Steps from the base to a witness, and how many may lie between a guard's boundary and where the operation fails.
_STEPS, _NEAR_BOUNDARY = 32, 2
#: How many zooms towards the boundary reach float64's resolution.
_ZOOMS = 10
#: A bound no larger keeps away from zero; one no larger than the second is the range of a probability or a cosine.
_TINY, _UNIT = 1e-2, 2.0
#: What ordinary values exceed, and what they do not.
_ORDINARY, _NOBODYS = 10.0, 1e6
#: How many operations away a selection that judges by the value alone still means an operation.
_NEARBY = 6
#: What also drops elements, and is mostly there for another reason: to choose, to weigh, to write, to be safe.
_NO_WHERE = frozenset({"index", "multiply", "nan_to_num", "assignment"})


class Guard:
    """The condition of a selection, and what it has to do with a hazard."""

    def __init__(self, root: Node, order: list[Node], framework: str, dependence: Dependence) -> None:
        self._framework = framework
        self.root = root
        self._order = order
        self._known = set(order)
        self._dependence = dependence
        #: The operands that decide what is dropped; empty for a clip, which decides by its operands' values.
        self.condition: list[Node] = []
        if root.selection == "multiply":
            self.condition = [root.inputs[1 - root.static.operand]]
        elif root.op in ("where", "cond", "compress"):
            self.condition = [root.inputs[0]]
        self._base: Inputs = {}
        self._selected: Array | None = None
        self._searched = [n for n in order if n.op == "gather" and n.static.searched]
        self._settled: dict[Node, frozenset[str]] = {}
        #: What an operation and the condition read, and the sources among that.
        self._decides: dict[Node, tuple[list[Node], list[Node]]] = {}

    def start_at(self, base: Inputs) -> None:
        """Fix the benign point against which dropping is judged."""
        self._base = base
        if self.condition:
            self._selected = truth(at(evaluate(topological(self.condition), base)[self.condition[0]], 0))

    def movable(self) -> list[Leaf]:
        """The leaves that the selection's own condition reads; all of them where it reads none.

        An index reads none either, but says little: that another element is special is believed only of a pair, of an
        array with a constant among its parts, and of one that has a constant written into it.
        """
        if self.root.op == "lane":
            return []
        if self.root.op == "pick" and len(self.root.inputs) > 2 and not any(i.op == "const" for i in self.root.inputs):
            return []
        read = {matrix(n) for n in self._inputs_of(*(self.condition or [self.root])) if not n.fixed}
        every = [n for n in self._inputs_of(*self._order) if not n.fixed]
        return [n for n in every if matrix(n) in read] or every

    def _inputs_of(self, *nodes: Node) -> list[Leaf]:
        """The inputs that nodes read; an element of an input that is there itself stands for the whole."""
        return list(dict.fromkeys(whole(n, self._known) for n in leaves(*nodes)))

    @cached_property
    def _tested(self) -> frozenset[Node]:
        """Everything that the condition reads, and itself."""
        return frozenset[Node]().union(*map(self._dependence.below, self.condition))

    def evidence(self, run: Run, culprit: Node, p: int, missing_data: bool, *, onto: bool) -> Iterator[str]:
        """What speaks for and against a condition being meant for a hazard; ``onto``: a clip lies below it."""
        yield "onto" if onto else self._relation(run, culprit, p)
        yield from self.settled(culprit)
        if self._incidental(run, culprit, p):
            yield "compares a nan"
        if self._limits(run, culprit, p):
            yield "limits a result"
        if not self.condition and not onto and self._saves(run, culprit, p):
            yield "saves an overflow"
        if self._out_of_order(run, culprit, p):
            yield "neighbours out of order"
        elif not missing_data and not self._is_floor(run, culprit, p) and self._coincidence(run, culprit, p):
            yield "coincidence"
        if missing_data:
            yield "missing data" if self._asks_for_data else "extreme data"

    def settled(self, culprit: Node) -> frozenset[str]:
        """What speaks against every hazard of an operation, whatever the witness."""
        if culprit not in self._settled:
            asked = {
                "in units of the limit": self._normalises(culprit),
                "far from the operation": self._remote(culprit),
                "not by a where": self.root.selection in _NO_WHERE and self._decided_by_data,
                "by place": self.root.selection == "assignment" and _is_place(self.condition[0]),
                "random": self._random and not self.tests(culprit),
                "looked up": self._looks_up(culprit),
            }
            self._settled[culprit] = frozenset(name for name, holds in asked.items() if holds)
        return self._settled[culprit]

    def _relation(self, run: Run, culprit: Node, p: int) -> str:
        """How closely the condition speaks of the operand that is singular."""
        if not self.condition:
            return "by the result"
        if Relation(run, p, self._tested).direct(culprit, self._dependence.below):
            return "direct"
        return "same variable" if self.tests(culprit) else "incidental"

    def tests(self, culprit: Node) -> bool:
        """Whether the condition itself compares what an operation computes with, for what it is."""
        read = self._dependence.inputs(culprit)
        return any(inputs <= read for inputs in self._tests)

    @cached_property
    def _tests(self) -> list[frozenset[Node]]:
        """What the tests in the condition read."""
        return [self._dependence.inputs(n) for n in self._tested if n.op in ORDERINGS | FINITE_TESTS]

    def held_elements(self) -> list[Inputs]:
        """For each constant array that the condition reads, its zero and another element, standing at every place.

        Lanes model one axis; a constant mask over pairs can meet any element of what is reduced over another axis.
        """
        held: list[Inputs] = []
        pairs = any(map(_is_diagonal, topological(self.condition)))
        others = [i for i in self.root.inputs if i not in self.condition]
        if any(_spread_out(i) and not (pairs and i.op == "norm") for i in others):
            return held  # one number meets every element of the mask; of pairs, each has a norm of its own
        constants = [n for n in self._order if isinstance(n, Const) and n.value.size > 1]
        for node in topological(self.condition):
            if isinstance(node, Const) and node in constants:
                values = node.value.reshape(-1)
                alike = [n for n in constants if np.array_equal(n.value, node.value)]
                for value in dict.fromkeys([0.0 if (values == 0).any() else values[0], values.max()]):
                    full = np.full((1, 1), bool(value) if values.dtype == np.bool_ else np.float32(value))
                    held.append(dict.fromkeys(alike, full))  # written twice, it is one array all the same
        return held[:4]

    def _incidental(self, run: Run, culprit: Node, p: int) -> bool:
        """Whether the condition compares what the operation made of an operand that it was not written to guard.

        ``where((x - a) / (b - a) < 1, ...)`` compares a position; that ``b == a`` makes it nan is not its concern.
        Nor is it the concern of any ordering that a nan, which compares false, takes the other way.
        """
        out = at(run.values[culprit], p)
        if np.isfinite(out).all() or (culprit.op not in QUOTIENTS and not np.isnan(out).any()):
            return False
        deciding = self.condition or self.root.inputs
        if not any(self._dependence.reads(n, culprit) for n in deciding):
            return False
        below = frozenset[Node]().union(*map(self._dependence.below, deciding))
        if any(_asks_whether_finite(n) and self._dependence.reads(n, culprit) for n in below):
            return False
        if self.root.selection in CLIPS and not np.isnan(out).any():
            return False  # an infinite number is beyond the bound, as it should be
        if culprit.op not in QUOTIENTS:
            return True
        numerator, divisor = map(self._dependence.inputs, culprit.inputs[:2])
        return bool(divisor) and not numerator <= divisor

    @cached_property
    def _asks_for_data(self) -> bool:
        """Whether the selection is about what is nan or infinite: ``where(isnan(x), 0, x)``, ``nan_to_num``."""
        return not self.condition or any(map(_about_data, self.condition))

    def _remote(self, culprit: Node) -> bool:
        """Whether a selection that judges by what the operation made of its operand (a clip, ``nan_to_num``,
        ``where(y > 0, y, 1)``) is far from the operation.

        Such a selection reads everything upstream, so that what it reads says nothing; only nearness does.
        """
        deciding = self.condition or [self.root]
        if not any(self._dependence.reads(n, culprit) for n in deciding):
            return False
        layer = set(deciding)
        seen = set(layer)
        for _ in range(_NEARBY + bool(self.condition)):
            layer = {i for n in layer for i in n.inputs} - seen
            if culprit in layer:
                return False
            seen |= layer
        return culprit is not self.root

    def _limits(self, run: Run, culprit: Node, p: int) -> bool:
        """Whether an extremum keeps a result within its range, as opposed to away from where the operation fails.

        ``maximum(norm(x), 1e-6)``, ``x / maximum(norm(x), 1)`` and ``maximum(log(x), -5)`` guard;
        ``minimum(exp(x), 1)``, ``clip(y, 0, 1)`` and ``maximum(norm(x), radius)`` limit.
        """
        if self.root.selection not in CLIPS or self.root is culprit:
            return False
        if len(self.root.inputs) < 2:
            return True  # relu and its like are there for their own sake
        sizes = self._bounds(run, culprit, p)
        if sizes is None:
            return True
        infinite = not at(np.isfinite(run.values[culprit]), p).all()
        if not infinite and len(sizes) == 1:
            return sizes[0] > _UNIT
        return all(_TINY < s <= (_UNIT if infinite else np.inf) or (s == 0 and len(sizes) > 1) for s in sizes)

    def _is_floor(self, run: Run, culprit: Node, p: int) -> bool:
        """Whether a clip keeps away from zero alone, whose author met it: ``maximum(sqrt(x**2 + y**2), 1e-6)``."""
        clips = self.root.selection in CLIPS and self.root is not culprit
        sizes = self._bounds(run, culprit, p) if clips else None
        return sizes is not None and 0 < min(sizes, default=0) <= _TINY

    def _bounds(self, run: Run, culprit: Node, p: int) -> list[float] | None:
        """The sizes of what an extremum compares with, None where they are neither constants nor defaults."""
        bounds = [i for i in self.root.inputs if not self._dependence.reads(i, culprit)]
        if any(n.usual is None for n in leaves(*bounds)):
            return None
        return [float(np.abs(at(run.values[b], p)).max()) for b in bounds]

    def _saves(self, run: Run, culprit: Node, p: int) -> bool:
        """Whether a selection by the result is there for an overflow, which hardly occurs.

        ``clip(exp(x), max=1e6)``, ``maximum(f(exp(x)), 0)``; that ``minimum(exp(x), 1)`` drops something is ordinary,
        that ``minimum(10**x, 1)`` drops an infinite number is not.
        """
        if code(culprit) not in ("WL106", "WL107") or not overflown(run, culprit, p):
            return False
        limited = code(culprit) == "WL107" and self.root.selection in CLIPS and self.root is not culprit
        sizes = self._bounds(run, culprit, p) if limited else None
        return not any(_TINY < size <= _ORDINARY for size in sizes or ())

    @cached_property
    def _decided_by_data(self) -> bool:
        """Whether what is dropped depends on an input: which elements a constant mask drops is plain to its author."""
        return any(map(self._dependence.inputs, self.condition))

    @cached_property
    def _random(self) -> bool:
        """Whether a random number decides: whatever such a condition drops, it does not mean it."""
        return any(n.random for n in self._tested if isinstance(n, Leaf))

    def _looks_up(self, culprit: Node) -> bool:
        """Whether the operation reads elements by an index that was searched for, such as the bins of a spline.

        Which elements meet there depends on their order and on the search, of which the model knows neither.
        """
        reads = self._dependence.reads
        return any(reads(culprit, n) or reads(n, culprit) for n in self._searched)

    def _normalises(self, culprit: Node) -> bool:
        """Whether a quotient measures a variable in units of the very limit that the condition compares it with.

        ``where(r < cutoff, f(r / cutoff), 0)`` is about r; a cutoff of 0 is no case that it has in mind.
        """
        if culprit.op not in QUOTIENTS or not self.condition:
            return False
        numerator, divisor = (unreshaped(i) for i in culprit.inputs[:2])
        if divisor.op != "leaf":
            return False
        for node in self._dependence.below(self.condition[0]):
            if node.op in ORDERINGS and divisor in (sides := [unreshaped(i) for i in node.inputs]):
                other = sides[1 - sides.index(divisor)]
                if self._dependence.inputs(other) & self._dependence.inputs(numerator):
                    return True
        return False

    def _coincidence(self, run: Run, culprit: Node, p: int) -> bool:
        """Whether several inputs had to meet, and the condition is not about their meeting.

        ``where(x < a, 1 / (b - a), 0)`` is no guard against ``a == b``; ``where(x != y, 1 / (x - y), 0)`` is.
        """
        condition = self.condition
        read = self._dependence.inputs(culprit)
        moved = {n for n in read if run.moved(n, p)}
        # An input that was moved onto the value of another meets it, though only one of them moved.
        meeting = moved | {n for n in read for m in moved if self._meets(run, m, n, p)}
        if len({matrix(n) for n in meeting if isinstance(n, Leaf)}) < 2:
            return False
        if not condition:  # a clip is about its operand, not about how two inputs of it stand to each other
            return self.root.selection in CLIPS and self.root is not culprit
        if not self._dependence.inputs(condition[0]):
            return False
        one_by_one = frozenset[Node]().union(*(t for t in self._tests if t <= meeting))
        return not (meeting <= one_by_one or any(meeting <= t for t in self._tests))

    def _out_of_order(self, run: Run, culprit: Node, p: int) -> bool:
        """Whether neighbours of an array, ``x[1:] - x[:-1]``, are equal or falling, and no test asks for that.

        Knots, bins and times ascend; that they do is rarely written down. Of a distance, the sign says nothing, and of
        a nan in the end it is not known what it asks for.
        """
        tested = frozenset[Node]() if self.root.selection == "nan_to_num" else self._tested
        return any(
            n.op == "subtract"
            and all(unreshaped(i).op in ("gather", "lane") for i in n.inputs)
            and len({unreshaped(unreshaped(i).inputs[0]) for i in n.inputs}) == 1
            and not (at(run.values[n], p) > 0).all()
            and not self._even(culprit, n)
            for n in self._dependence.below(culprit) - tested
        )

    def _even(self, culprit: Node, node: Node) -> bool:
        """Whether an operation, or its divisor, gives the same where only the sign of a node is another."""
        asked = culprit.inputs[1] if culprit.op in QUOTIENTS else culprit
        order = topological([asked])
        values = evaluate(order, self._base)
        if node not in values:
            return False
        negated = evaluate((n for n in order if n is not node), self._base, known={node: -values[node]})
        return np.array_equal(values[asked], negated[asked])

    @staticmethod
    def _meets(run: Run, moved: Node, other: Node, p: int) -> bool:
        if moved.kind != "float" or other.kind != "float":
            return False
        here, there, before = (at(run.inputs[moved], p), at(run.inputs[other], p), run.base(p)[moved][0])
        return bool(((here == there) & (here != before)).any())

    def boundary(self, run: Run, culprit: Node, p: int) -> str | None:
        """Where the condition changes on the way from the base to the witness, and where the operation fails.

        ``where(x > 1e-6, 1 / x, 0)`` excludes the singular point and little else; ``where(x < 5, 1 / x, 0)`` is about
        something else, and ``where(t > 0, rsqrt(t + eps), 0)`` has its boundary on the safe side.
        """
        if not self.condition:
            return None
        here = {n: v[row(v, p)] for n, v in run.inputs.items()}
        first, failing = self._along(here, culprit, 0.0, 1.0)
        if first == 0:
            return None  # dropped at the base already, or never by what moves
        fails = int(failing.argmax()) if failing.any() else _STEPS
        if fails - first > _NEAR_BOUNDARY:
            return "past the boundary"
        operands = [at(run.values[i], p) for i in culprit.inputs]
        if culprit.op in QUOTIENTS or not all(np.isfinite(o).all() for o in operands):
            return "at the boundary"
        low, high = 0.0, 1.0
        for _ in range(_ZOOMS):  # in float64, where the boundary can be told from the epsilon behind it
            low, high = low + (high - low) * (first - 1) / _STEPS, low + (high - low) * first / _STEPS
            first, failing = self._along(here, culprit, low, high)
            if first == 0:
                return "at the boundary"
        outside = np.isnan(at(run.values[culprit], p)).any()
        return "beyond the boundary" if outside and not failing[first] else "at the boundary"

    def _along(self, here: Inputs, culprit: Node, low: float, high: float) -> tuple[int, Array]:
        """The first of the steps at which something is dropped, and those at which the operation fails."""
        if culprit not in self._decides:
            order = topological([culprit, *self.condition])
            inputs = [each for n in inputs_in(order) for each in (n, whole(n, self._known))]
            sources: list[Node] = [*inputs, *(n for n in order if isinstance(n, Const))]
            self._decides[culprit] = order, list(dict.fromkeys(sources))
        order, sources = self._decides[culprit]
        steps = np.linspace(low, high, _STEPS + 1)[:, None]
        values = evaluate(order, {n: self._between(n, here[n], steps) for n in sources if n in here}, np.float64)
        failing = any_lane(fails(culprit, values, self._framework))
        return int(self._dropped(values).argmax()), np.broadcast_to(failing, (_STEPS + 1,))

    def _between(self, leaf: Node, end: Array, steps: Array) -> Array:
        """Values of an input on the way from the base to the witness."""
        if end.dtype.kind != "f" or not isinstance(leaf, Leaf):
            return np.repeat(end, len(steps), axis=0)
        with np.errstate(all="ignore"):
            return np.asarray(self._base[leaf] + (end.astype(np.float64) - self._base[leaf]) * steps)

    def _dropped(self, values: Values) -> Array:
        """The steps at which the root drops some element that it selects at the base."""
        if self._selected is None:
            return np.zeros(1, np.bool_)
        return np.asarray((truth(values[self.condition[0]]) != self._selected).any(axis=1))


def _is_place(mask: Node) -> bool:
    """Whether a mask is of elements that the source numbers, unless they are the diagonal: pairs with oneself."""
    return mask.op == "const" and not _is_diagonal(mask)


def _is_diagonal(mask: Node) -> bool:
    return isinstance(mask, Const) and np.array_equal(mask.value[0], DIAGONAL)


def _asks_whether_finite(node: Node) -> bool:
    """Whether a test is one of what is not finite: ``isnan(y)``, and ``abs(y) < 1e10``, which hardly ends elsewhere."""
    sizes = [np.abs(i.value).min() for i in node.inputs if isinstance(i, Const)]
    return node.op in FINITE_TESTS or (node.op in ORDERINGS and any(size > _NOBODYS for size in sizes))


def _about_data(node: Node) -> bool:
    """Whether a condition is one of nan and infinite data, or of how many there are: ``sum(isfinite(x)) > 0``.

    That a value which is compared has been replaced where it was nan says nothing.
    """
    todo, seen = [node], {node}
    while todo:
        each = todo.pop()
        operands = each.inputs
        if each.op in FINITE_TESTS:
            return True
        if each.op in ORDERINGS:
            infinite = any(isinstance(i, Const) and not np.isfinite(i.value).all() for i in operands)
            if infinite or operands[0] is operands[1]:
                return True
            operands = tuple(i for i in operands if _counts(i))
        todo += [i for i in operands if i not in seen]
        seen.update(operands)
    return False


def _counts(node: Node) -> bool:
    """Whether a value is computed from truths and constants alone."""
    todo, seen = [node], {node}
    while todo:
        each = todo.pop()
        if each.kind != "bool":
            if isinstance(each, Leaf):
                return False
            todo += [i for i in each.inputs if i not in seen]
            seen.update(each.inputs)
    return True


def _spread_out(node: Node) -> bool:
    """Whether a value has one element for many of what it is combined with: ``s[:, None]``, a reduction's result."""
    while node.op == "identity":
        if node.static.spread:
            return True
        node = node.inputs[0]
    return node.op in OPERATIONS and OPERATIONS[node.op].mixes
