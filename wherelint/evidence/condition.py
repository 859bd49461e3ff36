"""Did the author guard it? What the condition of a selection says of a hazard.

A condition is a statement by the author about some inputs; a witness that moves only those, to a place the condition
was written for, is almost certainly the bug.
"""

import re
from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np

from wherelint.evidence.names import is_setting
from wherelint.evidence.pieces import Evidence
from wherelint.evidence.witness import overflows
from wherelint.graph.differentiate import fails, is_root_of_squares
from wherelint.graph.evaluate import Values, evaluate, truth
from wherelint.graph.node import Const, Leaf, Node, above, inputs_in, leaves, matrix, topological, unreshaped, whole
from wherelint.ops import OPERATIONS, Array
from wherelint.ops.traits import CLIPS, FINITE_TESTS, ORDERINGS, QUOTIENTS, ROWS, VIEWS
from wherelint.search.batch import Run, any_lane, at, row
from wherelint.search.guard import Guard, is_diagonal
from wherelint.search.probes import LOG_PROBABILITY, Inputs, added_masks, scores_of

#: Steps from the base to a witness, and how many may lie between a guard's boundary and where the operation fails.
_STEPS, _NEAR_BOUNDARY = 32, 2
#: How many zooms towards the boundary reach float64's resolution.
_ZOOMS = 10
#: A bound no larger keeps away from zero; one no larger than the second is the range of a probability or a cosine.
_TINY, _UNIT = 1e-2, 2.0
#: What ordinary values exceed, and what they do not.
_ORDINARY, _EXTREME = 10.0, 1e6
#: How many operations away a selection that judges by the value alone still means an operation.
_NEARBY = 6
#: How many operations a tested value may be away from the operand.
_FAR = 24
#: What also drops elements, and is mostly there for another reason: to choose, to weigh, to write, to be safe.
_NO_WHERE = frozenset({"index", "multiply", "nan_to_num", "assignment"})
#: Comparisons of two values.
_TESTS = ORDERINGS | {"isclose"}
_PRODUCTS = frozenset({"multiply", "divide", "multiply_no_nan", "divide_no_nan"})
_SUMS = frozenset({"add", "stack"})
_CHOICES = frozenset({"where", "cond", "pick", "maximum", "minimum", "fmax", "fmin", "compress"})
_LINEAR = frozenset({"negative", "multiply", "divide", "add", "sum", "mean", "cond"})
_LOGARITHMS = frozenset({"log", "log_softmax", "log_sigmoid", "logsumexp"})
#: What says which elements are data: masks, identifiers and lengths, and what is one if it is a whole number.
_MASKS = frozenset(
    "mask masks valid validity present observed exists pad padding tokens token ids lengths lens".split()
)
_WHOLE_NUMBERS = frozenset("id length count counts species atom atoms z".split())
#: Selections that are there to guard.
_WHERES = frozenset({"where", "cond", "select", "masked_fill"})
#: The rules about roots, norms, arccos and arctan2.
_ROOTS = frozenset({"WL101", "WL104", "WL105"})
#: What the logarithm of a ratio of probabilities is called.
_LOG_RATIO = re.compile(r"log_?(?:ratio|rho|weight|importance_weight)s?\b|(?<![a-z])kl\b", re.IGNORECASE)

Key = object


class Condition:
    """The condition of a selection, and what it has to do with a hazard."""

    def __init__(self, guard: Guard, framework: str) -> None:
        self._framework = framework
        self._guard = guard
        self.root = guard.root
        self.condition = guard.condition
        self._known = set(guard.order)
        self._dependence = guard.dependence
        self._settled: dict[Node, frozenset[Evidence]] = {}
        self._base: Inputs = {}
        self._selected: Array | None = None
        #: What an operation and the condition read, and the sources among that.
        self._decides: dict[Node, tuple[list[Node], list[Node]]] = {}

    @cached_property
    def _tested(self) -> frozenset[Node]:
        """Everything that the condition reads, and itself."""
        return frozenset[Node]().union(*map(self._dependence.below, self.condition))

    def start_at(self, base: Inputs) -> None:
        """Fix the benign point against which dropping is judged."""
        self._base = base
        if self.condition:
            self._selected = truth(at(evaluate(topological(self.condition), base)[self.condition[0]], 0))

    def evidence(self, run: Run, culprit: Node, p: int, missing_data: bool, *, onto: bool) -> Iterator[Evidence]:
        """What speaks for and against a condition being meant for a hazard; ``onto``: a clip lies below it."""
        is_tested = bool(self.condition) and not onto
        is_direct = is_tested and Relation(run, p, self._tested).direct(culprit, self._dependence.below)
        if is_direct:
            yield Evidence.DIRECT
        settled = self.settled(culprit)
        is_expected = not settled.isdisjoint({Evidence.MASKED_ROW, Evidence.DISTANCE, Evidence.LOG_RATIO})
        if is_tested and not is_direct and not self.tests(culprit):
            if self.is_mask and self._pads(run, culprit, p):
                is_expected = True
                yield Evidence.PADDING
            elif self.tests_factor(culprit):
                yield Evidence.FACTOR
            elif Evidence.MASKED_ROW not in settled:
                yield Evidence.INCIDENTAL
        yield from settled
        if self._compares_nan(run, culprit, p):
            yield Evidence.OTHER_PURPOSE
        if self._limits(run, culprit, p) or (not self.condition and not onto and self._saves(run, culprit, p)):
            yield Evidence.NO_GUARD
        if missing_data:
            yield Evidence.MISSING_DATA if self._asks_for_data else Evidence.UNLIKELY_INPUT
        elif not is_expected and self._is_coincidence(run, culprit, p):
            yield Evidence.UNLIKELY_INPUT

    def settled(self, culprit: Node) -> frozenset[Evidence]:
        """What speaks for and against every hazard of an operation, whatever the witness."""
        if culprit not in self._settled:
            is_mask_of_places = self.root.selection == "assignment" and _is_place(self.condition[0])
            is_random = self._random and not self.tests(culprit)
            is_distance = self._is_hinge and self.root is not culprit and is_root_of_squares(culprit)
            is_remote = self._remote(culprit) and not is_distance
            pieces = {
                Evidence.OTHER_PURPOSE: is_mask_of_places or is_random or is_remote,
                Evidence.NO_GUARD: self.root.selection in _NO_WHERE and self._decided_by_data,
                Evidence.LOG_RATIO: is_log_ratio(culprit),
                Evidence.DISTANCE: is_distance,
                Evidence.MASKED_ROW: _may_be_masked(culprit),
                Evidence.ROOT: self.root.selection in _WHERES and OPERATIONS[culprit.op].code in _ROOTS,
                Evidence.QUOTIENT: culprit.op in QUOTIENTS,
            }
            found = [piece for piece, holds in pieces.items() if holds]
            self._settled[culprit] = frozenset(found)
        return self._settled[culprit]

    def tests(self, culprit: Node) -> bool:
        """Whether the condition itself compares what an operation computes with, for what it is."""
        read = self._dependence.inputs(culprit)
        return any(inputs <= read for inputs in self._tests)

    @cached_property
    def _tests(self) -> list[frozenset[Node]]:
        """What the tests in the condition read; what was set for the whole run is no part of that."""
        every = [self._dependence.inputs(n) for n in self._tested if n.op in ORDERINGS | FINITE_TESTS]
        return [frozenset(n for n in read if not _is_set(n)) or read for read in every]

    @cached_property
    def is_mask(self) -> bool:
        """Whether the condition reads nothing but masks, lengths and identifiers: it says which elements are data."""
        found = leaves(*self.condition)
        return bool(found) and all(map(_says_what_is_data, found))

    def _pads(self, run: Run, culprit: Node, p: int) -> bool:
        """Whether a witness only makes some elements 0 that the operation reads, as padding is; a number has none."""
        moved = [n for n in leaves(culprit) if n in run.inputs and n.kind != "bool" and run.moved(n, p)]
        return bool(moved) and not any(
            n.kind == "int"
            or is_setting(n)
            or (at(run.inputs[n], p)[at(run.inputs[n], p) != run.base(p)[n][0]] != 0).any()
            for n in moved
        )

    @cached_property
    def _is_hinge(self) -> bool:
        """Whether the selection drops what is below zero: ``relu(d - margin)``, ``maximum(d - margin, 0)``."""
        if self.root.selection not in CLIPS:
            return False
        rest = [i for i in self.root.inputs[1:] if not (isinstance(i, Const) and (i.value == 0).all())]
        return len(self.root.inputs) <= 2 and not rest

    def tests_factor(self, culprit: Node) -> bool:
        """Whether the condition tests a factor of what the operation gives: ``where(n == 0, 0, n * log(rate))``."""
        if OPERATIONS[culprit.op].code != "WL102":
            return False
        reads = self._dependence.reads
        products = [n for n in self._guard.order if n.op == "multiply" and reads(self.root, n)]
        factors = {viewed(n.inputs[1 - i]) for n in products for i in (0, 1) if reads(n.inputs[i], culprit)}
        return any(viewed(i) in factors for n in self._tested if n.op in ORDERINGS for i in n.inputs)

    def _compares_nan(self, run: Run, culprit: Node, p: int) -> bool:
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
        if OPERATIONS[culprit.op].code not in ("WL106", "WL107") or not overflows(run, culprit, p):
            return False
        limited = OPERATIONS[culprit.op].code == "WL107" and self.root.selection in CLIPS and self.root is not culprit
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

    def _is_coincidence(self, run: Run, culprit: Node, p: int) -> bool:
        """Whether several inputs had to meet, and the condition is not about their meeting.

        ``where(x < a, 1 / (b - a), 0)`` is no guard against ``a == b``; ``where(x != y, 1 / (x - y), 0)`` is.
        """
        if self._out_of_order(run, culprit, p) or self._is_floor(run, culprit, p):
            return False
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
        operand = culprit.inputs[1] if culprit.op in QUOTIENTS else culprit
        order = topological([operand])
        values = evaluate(order, self._base)
        if node not in values:
            return False
        negated = evaluate((n for n in order if n is not node), self._base, known={node: -values[node]})
        return np.array_equal(values[operand], negated[operand])

    @staticmethod
    def _meets(run: Run, moved: Node, other: Node, p: int) -> bool:
        if moved.kind != "float" or other.kind != "float":
            return False
        here, there, before = (at(run.inputs[moved], p), at(run.inputs[other], p), run.base(p)[moved][0])
        return bool(((here == there) & (here != before)).any())

    def boundary(self, run: Run, culprit: Node, p: int) -> Evidence | None:
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
            return None
        operands = [at(run.values[i], p) for i in culprit.inputs]
        if culprit.op in QUOTIENTS or not all(np.isfinite(o).all() for o in operands):
            return Evidence.AT_BOUNDARY
        low, high = 0.0, 1.0
        for _ in range(_ZOOMS):  # in float64, where the boundary can be told from the epsilon behind it
            low, high = low + (high - low) * (first - 1) / _STEPS, low + (high - low) * first / _STEPS
            first, failing = self._along(here, culprit, low, high)
            if first == 0:
                return Evidence.AT_BOUNDARY
        outside = np.isnan(at(run.values[culprit], p)).any()
        return Evidence.OTHER_PURPOSE if outside and not failing[first] else Evidence.AT_BOUNDARY

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


class Relation:
    """What the condition of a selection tests, compared with what an operation fails at; for one witness."""

    def __init__(self, run: Run, p: int, below: frozenset[Node]) -> None:
        self._run = run
        self._p = p
        self._keys: dict[Node, Key] = {}
        self._known: dict[object, int] = {}
        self._matching: dict[Node, bool] = {}
        self._stays: dict[Node, bool] = {}
        self._finite = [n for n in below if n.op in FINITE_TESTS]
        self._tested: set[Key] = set()
        for node in below:
            if node.op in _TESTS:
                self._note(*node.inputs[:2])

    def direct(self, culprit: Node, below: Callable[[Node], frozenset[Node]]) -> bool:
        """Whether the condition compares the operand itself, up to what keeps its zeros: a scale, a power, a norm."""
        key = self._key(culprit)
        if any(n.op == culprit.op and self._key(n) == key for test in self._finite for n in below(test)):
            return True
        operands = culprit.inputs[1:2] if culprit.op in QUOTIENTS else culprit.inputs
        return any(self._matches(n, 0) for n in operands if n.kind != "bool" and n.op != "const")

    def _fixed(self, node: Node) -> bool:
        """Whether a value is a number to this witness: it reads nothing that was moved."""
        if node not in self._stays:
            for each in topological([node]):
                still = all(self._stays[i] for i in each.inputs) if each.inputs else self._still(each)
                self._stays[each] = still
        return self._stays[node]

    def _still(self, node: Node) -> bool:
        """Whether a value is a bound: a constant, or an input that the witness leaves alone."""
        if node.op == "const":
            return True
        return node in self._run.inputs and not self._run.moved(node, self._p)

    def _note(self, a: Node, b: Node) -> None:
        if self._fixed(b):
            self._down(a, 0)
        elif self._fixed(a):
            self._down(b, 0)
        self._tested.add(self._pair(a, b))

    def _down(self, node: Node, depth: int) -> None:
        node = viewed(node)  # which has the same key
        key = self._key(node)
        if key in self._tested or depth > _FAR:
            return
        self._tested.add(key)
        moving = self._moving(node)
        if len(moving) == 1 or node.op in _PRODUCTS:
            for each in moving:
                self._down(each, depth + 1)

    def _moving(self, node: Node) -> list[Node]:
        """The operands that are no constants; what a view looks at."""
        operands = node.inputs[:1] if node.op in VIEWS else node.inputs
        return [i for i in operands if not self._fixed(i)]

    def _matches(self, node: Node, depth: int) -> bool:
        if node not in self._matching:
            self._matching[node] = False  # until it is known
            self._matching[node] = self._key(node) in self._tested or (depth < _FAR and self._deeper(node, depth + 1))
        return self._matching[node]

    def _deeper(self, node: Node, depth: int) -> bool:
        moving = self._moving(node)
        if node.op in _PRODUCTS and len(moving) > 1:
            return any(self._matches(i, depth) for i in moving if not self._regular(i))
        if node.op in _CHOICES:
            return any(self._matches(i, depth) for i in moving if i.kind == "float")
        if len(moving) == 1:
            return self._matches(moving[0], depth)
        return node.op in _SUMS and bool(moving) and all(self._matches(i, depth) for i in moving)

    def _regular(self, node: Node) -> bool:
        values = at(self._run.values[node], self._p)
        return bool((np.isfinite(values) & (values != 0)).all())

    def _pair(self, a: Node, b: Node) -> Key:
        return "difference", frozenset((self._key(a), self._key(b)))

    def _key(self, node: Node) -> Key:
        """What tells a computation from others: the same one, written twice, has the same key."""
        if node in self._keys:
            return self._keys[node]
        todo = [node]
        while todo:
            each = todo[-1]
            missing = [i for i in each.inputs if i not in self._keys]
            if missing:
                todo += missing
                continue
            todo.pop()
            self._keys[each] = self._made(each)
        return self._keys[node]

    def _made(self, node: Node) -> Key:
        if node.op in VIEWS:
            return self._keys[node.inputs[0]]
        if isinstance(node, Leaf):
            return self._key(node.of[0]) if node.of is not None else id(node)
        if isinstance(node, Const):
            return "const", node.value.tobytes()
        if node.op == "subtract":
            return self._pair(*node.inputs)
        key = node.op, *(self._keys[i] for i in node.inputs)
        return "node", self._known.setdefault(key, len(self._known))


def viewed(node: Node) -> Node:
    """What a chain of views looks at."""
    while node.op in VIEWS:
        node = node.inputs[0]
    return node


def _is_set(node: Node) -> bool:
    """Whether an input is a setting or a flag of the program."""
    return isinstance(node, Leaf) and (node.setting or (node.kind == "bool" and not node.array))


def _says_what_is_data(leaf: Leaf) -> bool:
    """Whether an input tells data from padding, by its name."""
    words = set(re.split(r"[^a-z]+", leaf.name.lower()))
    return not words.isdisjoint(_MASKS if leaf.kind == "float" else _MASKS | _WHOLE_NUMBERS)


def is_log_ratio(node: Node) -> bool:
    """Whether an exponential is that of a difference of logarithms: a ratio of probabilities."""
    if OPERATIONS[node.op].code != "WL107" or not node.inputs:
        return False
    return any(
        (each.op in ("subtract", "reverse_subtract") and all(map(_is_logarithm, each.inputs)))
        or (isinstance(each, Leaf) and _LOG_RATIO.search(each.name))
        for each in above(node.inputs[:1], VIEWS | CLIPS | _LINEAR)
    )


def _is_logarithm(node: Node) -> bool:
    """Whether a value is a logarithm: it was computed as one, or is called so."""
    return any(
        each.op in _LOGARITHMS or (isinstance(each, Leaf) and LOG_PROBABILITY.search(each.name))
        for each in above([node], VIEWS | _LINEAR)
    )


def _may_be_masked(node: Node) -> bool:
    """Whether the operation is over rows to which the program itself gives -inf, by a mask that is not known."""
    if node.op not in ROWS:
        return False
    return bool(added_masks(node)) or any(
        each.op == "where"
        and leaves(each.inputs[0])
        and any(isinstance(arm, Const) and (arm.value == -np.inf).any() for arm in map(unreshaped, each.inputs[1:]))
        for each in above(node.inputs, VIEWS | _LINEAR)
    )


def _is_place(mask: Node) -> bool:
    """Whether a mask is of elements that the source numbers, unless they are the diagonal: pairs with oneself."""
    return mask.op == "const" and not is_diagonal(mask)


def _asks_whether_finite(node: Node) -> bool:
    """Whether a test is one of what is not finite: ``isnan(y)``, and ``abs(y) < 1e10``, which hardly ends elsewhere."""
    sizes = [np.abs(i.value).min() for i in node.inputs if isinstance(i, Const)]
    return node.op in FINITE_TESTS or (node.op in ORDERINGS and any(size > _EXTREME for size in sizes))


def _about_data(node: Node) -> bool:
    """Whether a condition is one of nan and infinite data, or of how many there are: ``sum(isfinite(x)) > 0``.

    That a value which is compared has been replaced where it was nan says nothing. A probability is exactly 0 where
    its score is -inf.
    """
    todo, seen = [node], {node}
    while todo:
        each = todo.pop()
        operands = each.inputs
        if each.op in FINITE_TESTS or scores_of(each):
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
