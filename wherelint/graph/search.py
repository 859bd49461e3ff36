"""The witness search: is there an input at which the value is finite, the gradient is not, and a dropped arm is why?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from wherelint.graph.differentiate import Backward, backward
from wherelint.graph.evaluate import Values, evaluate, truth
from wherelint.graph.node import LANES, Node, differentiated, leaves, topological
from wherelint.graph.probe import Inputs, Pool, bases, departures
from wherelint.ops import OPERATIONS, Array

#: Selections whose zero lies behind the singular operation as seen from the leaf: clips onto a singular point.
CLIPS = frozenset({"clip", "maximum", "minimum", "relu", "relu6", "fmax", "fmin"})
_MOST_MOVABLE = 10
_BASES = 3
_TRIES = 6
_MOST_REFUSALS = 12
#: How many operations may stand between a clip and the singular operation that it feeds.
_FAR = 4
_MOST_FLAGS = 8
#: Steps of one zoom towards the boundary of a guard, and how many zooms reach float64's resolution.
_ZOOM, _ZOOMS = 32, 10
_QUOTIENTS = frozenset({"divide", "mod", "fmod", "xdivy", "solve"})
_ORDERINGS = frozenset({"less", "less_equal", "greater", "greater_equal", "equal", "not_equal"})
#: Tests of a result that say outright that it may not be finite.
_EXPLICIT = frozenset({"isnan", "isfinite", "isinf", "isneginf", "isposinf"})


@dataclass(frozen=True)
class Hazard:
    """A singular operation, the selection that makes its zero, and the input that shows it."""

    op: Node
    select: Node
    confidence: Literal["high", "low"]
    inputs: Inputs
    value: Array
    gradient: dict[Node, Array]
    #: The operand is nan or inf data; no operation made it so.
    missing_data: bool = False


@dataclass
class _Run:
    """One batch of probes, evaluated forward and twice in reverse."""

    inputs: Inputs
    values: Values
    ieee: Backward
    symbolic: Backward
    #: Probes that are witnesses.
    witness: Array
    #: The point that the probes depart from.
    base: Inputs


@dataclass
class Effort:
    """How many node evaluations a function may cost; shared by its searches, counted rather than timed."""

    left: int = 800_000

    @property
    def spent(self) -> bool:
        return self.left <= 0


class Search:
    """All hazards of one root: a selection, or a singular operation that a clip may feed with its singular point."""

    def __init__(
        self,
        root: Node,
        framework: str,
        effort: Effort | None = None,
        accept: Callable[[Hazard], bool] = lambda hazard: True,
    ) -> None:
        #: What else a witness must satisfy, such as that the whole program is finite there.
        self.accept = accept
        self.effort = effort or Effort()
        self.root = root
        self.framework = framework
        self.facts = root.facts
        self.order = topological([root, *root.facts])
        self.wanted = differentiated(self.order)
        self.leaves = [n for n in self.order if n.op == "leaf"]
        self.pool = Pool(self.order)
        self._starts: list[Inputs] = []
        self._margins: dict[Node, bool] = {}
        self._reads: dict[Node, frozenset[Node]] = {}
        #: How often a node was asked about without being a hazard.
        self._refused: dict[Node, int] = {}
        self._base_condition: Array | None = None

    def hazards(self, *, low: bool = True) -> list[Hazard]:
        """Every hazard whose zero the root makes; ``simplest`` makes a witness fit to print."""
        if self.root not in self.wanted or not any(n.op == "leaf" and n in self.wanted for n in self.order):
            return []
        starts = self._begin()
        if starts and self._condition():
            values = evaluate(self.order, starts[0])
            self._base_condition = truth(_at(values[self._condition()[0]], 0))
        found: dict[Node, Hazard] = {}
        guard = self._guard()
        for confidence, movable in (("high", guard), ("low", [n for n in self.leaves if not n.fixed])):
            if confidence == "low" and (not low or set(guard) == set(self.leaves)):
                continue
            for i, start in enumerate(starts):
                if self.effort.spent:
                    break
                batch = departures(
                    start, movable[:_MOST_MOVABLE], self.pool, thorough=i == 0, joint=2 if confidence == "high" else 99
                )
                for held in [{}, *self._held_elements()] if i == 0 else [{}]:
                    run = self._run({**batch, **held})
                    for hazard in self._read(run, confidence, found):  # type: ignore[arg-type]
                        known = found.get(hazard.op)
                        if known is None or _better(hazard, known):
                            found[hazard.op] = hazard
        return list(found.values())

    def _begin(self) -> list[Inputs]:
        """Benign points from which the search departs."""
        starts = bases(self.leaves, self.facts, self.pool, self._benign, _BASES)
        if not starts and self.facts:
            # A predicate that nothing satisfies was not understood (a shape, a library's own check): do without it.
            alone = {f: bases(self.leaves, [f], self.pool, lambda i, f=f: self._holds(i, f), 1) for f in self.facts}  # type: ignore[misc]
            self.facts = tuple(f for f in self.facts if alone[f])
            starts = bases(self.leaves, self.facts, self.pool, self._benign, _BASES)
        starts += self._other_arms(starts[:1])
        self._starts = starts
        return starts

    def _other_arms(self, starts: list[Inputs]) -> list[Inputs]:
        """The first start with each flag of the control flow raised alone: every arm of a lazy choice is tried."""
        flags = [n for n in self.leaves if n.kind == "bool" and n.params.get("value") is None][:_MOST_FLAGS]
        if not starts or len(flags) < 2:
            return []
        batch = {n: np.repeat(v, len(flags), axis=0) for n, v in starts[0].items()}
        for i, flag in enumerate(flags):
            batch[flag] = np.repeat(np.arange(len(flags))[:, None] == i, LANES, axis=1)
        fit = np.flatnonzero(self._benign(batch)).tolist()
        return [{n: v[i : i + 1] for n, v in batch.items()} for i in fit]

    def _holds(self, inputs: Inputs, fact: Node) -> Array:
        return _rows(truth(evaluate(topological([fact]), inputs)[fact])).astype(np.float64)

    def shows(self, hazard: Hazard) -> bool:
        """Whether the hazard's witness is one under this search's framework too."""
        return bool(self._run(hazard.inputs).witness.any())

    def admitted(self) -> list[Hazard]:
        """Operations that the guard selects exactly at its own boundary, where their true derivative is not finite."""
        condition = self._condition()
        starts = self._begin()[:1]
        if not condition or not starts or self.root not in self.wanted:
            return []
        run = self._run(departures(starts[0], self._guard()[:_MOST_MOVABLE], self.pool, thorough=True, joint=2))
        ties = [n for n in topological(condition) if n.op in _ORDERINGS]
        allowed = self._allowed(run.values) & _rows(np.isfinite(run.values[self.root]))
        found: dict[Node, Hazard] = {}
        for node, broke in run.symbolic.broke.items():
            if not _code(node) or not any(node in topological([i]) for i in self.root.inputs if i not in condition):
                continue
            for p in np.flatnonzero(_any(broke) & allowed).tolist():
                met = any((_at(run.values[t.inputs[0]], p) == _at(run.values[t.inputs[1]], p)).any() for t in ties)
                finite = all(np.isfinite(_at(run.values[i], p)).all() for i in node.inputs)
                if met and finite and node not in found:
                    inputs = {n: v[_row(v, p)] for n, v in run.inputs.items()}
                    cts = run.symbolic.cotangents
                    gradient = {n: cts[n][_row(cts[n], p)] for n in self.leaves if n in cts and n in self.wanted}
                    value = run.values[self.root]
                    found[node] = Hazard(node, self.root, "high", inputs, value[_row(value, p)], gradient)
        return list(found.values())

    def _held_elements(self) -> list[Inputs]:
        """For each constant array that the condition reads, its zero and another element, standing at every place.

        Lanes model one axis; a constant mask over pairs can meet any element of what is reduced over another axis.
        """
        held: list[Inputs] = []
        for node in topological(self._condition()):
            if node.op == "const" and node.params["value"].size > 1:
                values = node.params["value"].reshape(-1)
                for value in dict.fromkeys([0.0 if (values == 0).any() else values[0], values.max()]):
                    full = np.full((1, 1), bool(value) if values.dtype == np.bool_ else np.float32(value))
                    held.append({node: full})
        return held[:4]

    def _condition(self) -> list[Node]:
        """The operands that decide what is dropped."""
        node = self.root
        if node.selection == "multiply":
            return [node.inputs[1 - node.params["operand"]]]
        return [node.inputs[0]] if node.op in ("where", "cond", "compress") else []

    def _guard(self) -> list[Node]:
        """The leaves that the selection's own condition reads; all of them where it reads none."""
        node = self.root
        condition = self._condition()
        if condition:
            read = leaves(*condition)
        elif node.op == "lane":
            return []  # an element was read, nothing says that the others are special
        else:
            read = leaves(node)
        return [n for n in read if not n.fixed] or [n for n in self.leaves if not n.fixed]

    def _benign(self, inputs: Inputs) -> Array:
        """2 where a probe satisfies the control flow and is regular, 1 where it only satisfies the control flow."""
        values = evaluate(self.order, inputs)
        allowed = self._allowed(values)
        regular = _rows(np.isfinite(values[self.root]))
        if not (allowed & regular).any():
            return allowed.astype(np.float64)
        cotangents = self._backward(values, symbolic=False).cotangents
        for node in self.leaves:
            if node in cotangents:
                regular = regular & _rows(np.isfinite(cotangents[node]))
        return allowed * (1.0 + np.broadcast_to(regular, allowed.shape))

    def _backward(self, values: Values, *, symbolic: bool) -> Backward:
        return backward(self.order, values, self.root, self.wanted, self.framework, symbolic=symbolic)

    def _allowed(self, values: Values) -> Array:
        allowed = np.ones(self._probes(values), np.bool_)
        for fact in self.facts:
            allowed = allowed & _rows(truth(values[fact]))
        return allowed

    def _probes(self, values: Values) -> int:
        return max((values[n].shape[0] for n in self.leaves), default=1)

    def _run(self, inputs: Inputs, dtype: Any = np.float32) -> _Run:
        """Evaluate a batch. Each step keeps only the probes that can still be witnesses, in their order."""
        base = {n: v[:1] for n, v in inputs.items()}
        self.effort.left -= 3 * len(self.order)
        values = evaluate(self.order, inputs, dtype)
        inputs, values = _keep(self._allowed(values) & _rows(np.isfinite(values[self.root])), inputs, values)
        ieee = self._backward(values, symbolic=False)
        broken = np.zeros(self._probes(values), np.bool_)
        for node in self.leaves:
            if node in ieee.cotangents:
                broken = broken | _any(~np.isfinite(ieee.cotangents[node]))
        inputs, values = _keep(broken, inputs, values)
        ieee = Backward(*({n: v if v.shape[0] == 1 < len(broken) else v[broken] for n, v in part.items()}
                          for part in (ieee.cotangents, ieee.broke)))  # fmt: skip
        symbolic = self._backward(values, symbolic=True) if broken.any() else ieee
        witness = np.zeros(self._probes(values), np.bool_)
        for node in self.leaves:
            if node in ieee.cotangents and node in symbolic.cotangents and broken.any():
                witness = witness | _any(self._poisoned(node, inputs, ieee, symbolic))
        return _Run(inputs, values, ieee, symbolic, witness, base)

    @staticmethod
    def _poisoned(leaf: Node, inputs: Inputs, ieee: Backward, symbolic: Backward) -> Array:
        """Elements of a leaf whose gradient only the dropped arm breaks. Missing data has no gradient to lose."""
        broken = ~np.isfinite(ieee.cotangents[leaf]) & np.isfinite(symbolic.cotangents[leaf])
        return broken & np.isfinite(inputs[leaf])

    def _read(self, run: _Run, confidence: Literal["high", "low"], found: dict[Node, Hazard]) -> Iterator[Hazard]:
        if not run.witness.any():
            return
        for node, broke in run.ieee.broke.items():
            known = found.get(node)
            if known is not None and not known.missing_data and (known.confidence == "high" or confidence == "low"):
                continue
            healed = run.symbolic.broke.get(node)
            fresh = broke if healed is None or self._feeds_clip(node) else broke & ~healed
            probes = np.flatnonzero(_any(fresh) & run.witness)
            tried: set[Node] = set()
            for p in probes[:_TRIES].tolist():
                if self._refused.get(node, 0) > _MOST_REFUSALS:
                    break
                hazard = self._attribute(run, node, p, confidence)
                if hazard is None:
                    self._refused[node] = self._refused.get(node, 0) + 1
                elif hazard.op not in tried:
                    tried.add(hazard.op)
                    yield hazard

    def _feeds_clip(self, node: Node) -> bool:
        return node is self.root and OPERATIONS[node.op].code is not None if node.op in OPERATIONS else False

    def _attribute(self, run: _Run, node: Node, p: int, confidence: Literal["high", "low"]) -> Hazard | None:
        """The hazard of one probe at the node that broke its cotangent, if the root is what made the zero."""
        clip = self._reaches_leaf(run, node, p)
        if clip is None:
            return None
        if node is self.root and self.root.op in OPERATIONS and OPERATIONS[self.root.op].code is not None:
            if clip is node:
                return None
            select = clip
        else:
            select = self.root
            if not self._root_drops(run, node, p):
                return None
        culprit, data = self._culprit(run, node, p)
        if culprit is None:
            return None
        if confidence == "high" and (
            self._incidental(run, culprit, p)
            or (not data and self._coincidence(run, culprit, p))
            or self._has_margin(run, culprit, p)
        ):
            confidence = "low"
        gradient = {
            n: run.ieee.cotangents[n][_row(run.ieee.cotangents[n], p)]
            for n in self.leaves
            if n in run.ieee.cotangents and n in self.wanted
        }
        inputs = {n: v[_row(v, p)] for n, v in run.inputs.items()}
        value = run.values[self.root]
        hazard = Hazard(culprit, select, confidence, inputs, value[_row(value, p)], gradient, data)
        return hazard if self.accept(hazard) else None

    def _reaches_leaf(self, run: _Run, start: Node, p: int) -> Node | None:
        """Follow the non-finite cotangent from ``start`` to a leaf that it poisons.

        Returns the clip that symbolic-zero arithmetic would have stopped it at, ``start`` where there is none, and
        None where it reaches no leaf (an inner mask holds it back).
        """
        todo: list[tuple[Node, Node]] = [(start, start)]
        seen = {start}
        while todo:
            node, clip = todo.pop()
            if node.op == "leaf":
                if (
                    node in run.symbolic.cotangents
                    and _at(self._poisoned(node, run.inputs, run.ieee, run.symbolic), p).any()
                ):
                    return clip
                continue
            if node is not start and node.selection in CLIPS and clip is start:
                sym = run.symbolic.cotangents.get(node)
                if sym is not None and not _at(np.isfinite(sym), p).all():
                    clip = node
            for operand in node.inputs:
                ct = run.ieee.cotangents.get(operand)
                if operand not in seen and ct is not None and not _at(np.isfinite(ct), p).all():
                    seen.add(operand)
                    todo.append((operand, clip))
        return None

    def _below(self, node: Node) -> frozenset[Node]:
        """Everything that a node reads, and itself."""
        if node not in self._reads:
            self._reads[node] = frozenset(topological([node]))
        return self._reads[node]

    def _leaves(self, node: Node) -> frozenset[Node]:
        return frozenset(n for n in self._below(node) if n.op == "leaf")

    def _root_drops(self, run: _Run, start: Node, p: int) -> bool:
        """Whether the root drops an operand that reads ``start``, or the operation drops one itself (``x ** 0``)."""
        reading = [i for i in self.root.inputs if i in run.ieee.cotangents and start in self._below(i)]
        own = OPERATIONS[start.op].unselected is not None if start.op in OPERATIONS else False
        return own or any(self._drops(run, self.root, i, p) for i in reading)

    def _drops(self, run: _Run, select: Node, operand: Node, p: int) -> bool:
        values = [_at(run.values[i], p) for i in select.inputs]
        for i, candidate in enumerate(select.inputs):
            if candidate is not operand:
                continue
            if select.op == "where":
                taken = truth(values[0])
                return bool((~taken if i == 1 else taken).any()) if i else False
            if select.op == "compress":
                return i == 1 and bool((~truth(values[0])).any())
            if select.op in ("pick", "lane"):
                return select.op == "lane" or i != select.params["index"]
            if select.selection == "multiply":
                return i == select.params["operand"] and bool((values[1 - i] == 0).any())
            entry = OPERATIONS.get(select.op)
            if entry is not None and entry.unselected is not None:
                mask = entry.unselected(*[v.reshape(1, -1) for v in values])[i]
                return mask is not None and bool(mask.any())
        return False

    def _culprit(self, run: _Run, node: Node, p: int) -> tuple[Node | None, bool]:
        """The operation to name: where the cotangent broke, or the one upstream that made its operand non-finite."""
        current = node
        coded = node if _code(node) else None
        while True:
            broken = [i for i in current.inputs if i.kind == "float" and not _at(np.isfinite(run.values[i]), p).all()]
            if not broken:
                return (current, False) if _code(current) else (coded, False)
            current = broken[0]
            if current.op == "leaf":
                return node, True
            if current.op == "const":
                return coded, False
            if _code(current):
                coded = current

    def _incidental(self, run: _Run, culprit: Node, p: int) -> bool:
        """Whether the condition tests a quotient whose divisor it was not written to guard.

        ``where((x - a) / (b - a) < 1, ...)`` compares a position; that ``b == a`` makes it nan is not its concern.
        """
        if culprit.op not in _QUOTIENTS or _at(np.isfinite(run.values[culprit]), p).all():
            return False
        below = frozenset[Node]().union(*map(self._below, self._condition() or self.root.inputs))
        if culprit not in below:
            return False
        if any(n.op in _EXPLICIT and culprit in self._below(n) for n in below):
            return False
        numerator, divisor = (self._leaves(i) for i in culprit.inputs[:2])
        return bool(divisor) and not numerator <= divisor

    def _coincidence(self, run: _Run, culprit: Node, p: int) -> bool:
        """Whether several inputs had to meet, and the condition is not about their meeting.

        ``where(x < a, 1 / (b - a), 0)`` is no guard against ``a == b``; ``where(x != y, 1 / (x - y), 0)`` is.
        """
        condition = self._condition()
        if not self._starts:
            return False
        read = self._leaves(culprit)
        moved = {n for n in read if not np.array_equal(run.inputs[n][_row(run.inputs[n], p)], run.base[n])}
        if len(moved) < 2:
            return False
        if not condition:  # a clip is about its operand, not about how two inputs of it stand to each other
            return self.root.selection in CLIPS and self.root is not culprit
        if self._leaves(condition[0]) <= read:
            return False
        shared = (self._below(culprit) - {culprit}) & self._below(condition[0])
        return not any(n.inputs and moved <= self._leaves(n) for n in shared)

    def _has_margin(self, run: _Run, culprit: Node, p: int) -> bool:
        if culprit not in self._margins:
            self._margins[culprit] = self._margin(run, culprit, p)
        return self._margins[culprit]

    def _margin(self, run: _Run, culprit: Node, p: int) -> bool:
        """Whether the witness lies outside the operation's domain while the guard's own boundary lies safely inside.

        ``where(t > 0, rsqrt(t + eps), 0)`` fails only at ``t < -eps``: the author saw the boundary and protected it.
        """
        if not self._starts or not np.isnan(_at(run.values[culprit], p)).any():
            return False
        operands = [_at(run.values[i], p) for i in culprit.inputs]
        if culprit.op in _QUOTIENTS or not all(np.isfinite(o).all() for o in operands):
            return False
        here = {n: v[_row(v, p)] for n, v in run.inputs.items()}
        base = self._starts[0]
        low, high = 0.0, 1.0  # the base is selected, the witness is not; close in on where that changes
        for _ in range(_ZOOMS):  # in float64, where the boundary can be told from the epsilon behind it
            steps = np.linspace(low, high, _ZOOM + 1)[:, None]
            path = {n: base[n] + (v.astype(np.float64) - base[n]) * steps if v.dtype.kind == "f" and n.op == "leaf"
                    else np.repeat(v, _ZOOM + 1, axis=0) for n, v in here.items()}  # fmt: skip
            values = evaluate(self.order, path, np.float64)
            dropped = np.array([self._drops_anything(values, i) for i in range(_ZOOM + 1)])
            first = int(dropped.argmax())
            if not dropped.any() or first == 0:
                return False
            low, high = float(steps[first - 1, 0]), float(steps[first, 0])
        edge = {n: v[first : first + 1] for n, v in path.items()}
        return not bool(self._run(edge, np.float64).witness.any())

    def _drops_anything(self, values: Values, p: int) -> bool:
        """Whether the root drops some element that it selects at the base."""
        condition = self._condition()
        if not condition or self._base_condition is None:
            return False
        now = truth(_at(values[condition[0]], p))
        return bool((now != self._base_condition).any())

    def simplest(self, hazard: Hazard) -> Hazard:
        """Replace the numbers of a witness by simpler ones as long as it shows the same hazard."""
        for node in self.leaves:
            if node.kind != "float":
                continue
            now = hazard.inputs[node]
            simple = [np.full((1, LANES), v, np.float32) for v in (1.0, 0.0, 2.0, 0.5)]
            options = [*list(simple), np.repeat(now[:, :1], LANES, axis=1), np.round(now, 1)]
            if (now == now[:, :1]).all() and float(now[0, 0]) in (0.0, 1.0):
                continue
            batch = {n: np.repeat(v, len(options), axis=0) for n, v in hazard.inputs.items()}
            batch[node] = np.concatenate(options)
            run = self._run(batch)
            for p in np.flatnonzero(run.witness).tolist():
                same = next((h for h in self._at_probe(run, p, hazard.confidence) if h.op is hazard.op), None)
                if same is not None and same.select is hazard.select:
                    hazard = replace(same, missing_data=hazard.missing_data)
                    break
        return hazard

    def _at_probe(self, run: _Run, p: int, confidence: Literal["high", "low"]) -> Iterator[Hazard]:
        for node, broke in run.ieee.broke.items():
            if _at(broke, p).any():
                hazard = self._attribute(run, node, p, confidence)
                if hazard is not None:
                    yield hazard


def _better(new: Hazard, known: Hazard) -> bool:
    if known.confidence != new.confidence:
        return new.confidence == "high"
    return known.missing_data and not new.missing_data


def _code(node: Node) -> str | None:
    entry = OPERATIONS.get(node.op)
    return None if entry is None else entry.code


def _keep(rows: Array, inputs: Inputs, values: Values) -> tuple[Inputs, Values]:
    """Some probes of a batch; what is the same for every probe stays as it is."""
    if rows.all():
        return inputs, values
    count = len(rows)
    return (
        {n: v[rows] if v.shape[0] == count else v for n, v in inputs.items()},
        {n: v[rows] if v.shape[0] == count else v for n, v in values.items()},
    )


def _rows(mask: Array) -> Array:
    return np.asarray(mask.all(axis=1))


def _any(mask: Array) -> Array:
    return np.asarray(mask.any(axis=1))


def _row(array: Array, p: int) -> slice:
    return slice(0, 1) if array.shape[0] == 1 else slice(p, p + 1)


def _at(array: Array, p: int) -> Array:
    return np.asarray(array[_row(array, p)][0])


def singular_operations(order: Sequence[Node]) -> list[Node]:
    """Operations that a clip feeds through little else: the roots of the clip-onto-the-boundary rule."""
    distance: dict[Node, int] = {}
    found = []
    for node in order:
        below = min((distance[i] for i in node.inputs if i in distance), default=_FAR) + 1
        if below <= _FAR and _code(node):
            found.append(node)
        elif node.selection in CLIPS:
            distance[node] = 0
        elif below <= _FAR and node.op not in ("where", "cond", "stop"):
            distance[node] = below
    return found
