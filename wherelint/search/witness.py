"""The witness search: is there an input at which the value is finite, the gradient is not, and a dropped arm is why?"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from wherelint.evidence.pieces import Evidence
from wherelint.frontend.options import Budget
from wherelint.graph.differentiate import Backward, Tape, backward, fails, raising
from wherelint.graph.evaluate import Values, evaluate, truth
from wherelint.graph.node import LANES, Leaf, Node, inputs_in, topological, unreshaped, whole
from wherelint.graph.work import Work
from wherelint.ops import Array
from wherelint.ops.traits import SINGULAR
from wherelint.search.attribution import Blamed, culprit_of, flat_root, reaches_leaf, root_drops
from wherelint.search.batch import Hazard, Run, any_lane, joined, keep, parts, row, rows, singular_operations, sound
from wherelint.search.bisect import aimed
from wherelint.search.budget import WorkBudget
from wherelint.search.dependence import Dependence
from wherelint.search.guard import Guard
from wherelint.search.probes import EXTREME, Inputs, Pool, bases, holds_somewhere, perturbations
from wherelint.search.prune import Extent, Judge, Targets

__all__ = ["Hazard", "Search", "singular_operations"]

#: How many inputs a search moves.
MOST_MOVABLE = 10
#: Evidence of a search that moves every input.
_WIDE: Extent = frozenset({Evidence.UNRELATED_INPUT})
#: Evidence of a search without some predicates, and of what only a late try shows.
_DOUBTFUL: Extent = frozenset({Evidence.DOUBTFUL})
_BASES = 3
_TRIES = 6
_MOST_REFUSALS = 12
#: Larger than the cotangents of probes, so that no derivative that breaks one of them is overlooked.
_LARGE = 1e30
_MOST_FLAGS = 8


class Search:
    """All hazards of one root: a selection, or a singular operation that a clip may feed with its singular point."""

    def __init__(
        self,
        root: Node,
        framework: str,
        effort: WorkBudget | None = None,
        accept: Callable[[Hazard, Run, int], bool] = lambda hazard, run, p: True,
        judge: Callable[[Guard], Judge] = lambda guard: Judge(),
        satisfiable: dict[tuple[Node, ...], bool] | None = None,
    ) -> None:
        #: Whether predicates hold together somewhere; searches of one program ask the same.
        self._satisfiable = {} if satisfiable is None else satisfiable
        #: What else a witness must satisfy, such as that the whole program is finite there.
        self.accept = accept
        self.effort = effort or WorkBudget(Budget.function_work)
        self.root = root
        self.framework = framework
        self.path_conditions = root.path_conditions
        self.order = topological([root, *root.path_conditions])
        self._dependence = Dependence(self.order)
        self.requires_grad = self._dependence.requires_grad
        known = set(self.order)
        sources = inputs_in(self.order)
        #: The inputs; an element of another input moves with it.
        self.leaves = [n for n in sources if whole(n, known) is n]
        self._sources = sources
        self.pool = Pool(self.order)
        self.guard = Guard(root, self.order, self._dependence)
        self._judge = judge(self.guard)
        self._targets = Targets(self._judge, self.order, self.pool.missing)
        #: Benign points from which the search departed.
        self.starts: list[Inputs] = []
        #: Predicates were left out that could not be satisfied together: what is found may never occur.
        self._doubtful = False
        #: How often a node was asked about, early or late, without being a hazard.
        self._refused: dict[tuple[Node, bool], int] = {}

    def hazards(self, *, low: bool = True) -> list[Hazard]:
        """Every hazard whose zero the root makes; ``simplify.simplest`` makes a witness fit to print."""
        if self.root not in self.requires_grad or self.requires_grad.isdisjoint(self._sources):
            return []
        found: dict[Node, Hazard] = {}
        guard = self.guard.movable()
        extents = [(Extent(), guard[:MOST_MOVABLE])]
        if low and set(guard) != set(self.leaves):
            extents.append((_WIDE, [n for n in self.leaves if not n.fixed][:MOST_MOVABLE]))
        extents = [each for each in extents if self._targets.any(*each, found)]
        if extents:
            self.begin()
        if self._doubtful and not any(self._targets.any(extent | _DOUBTFUL, moved, found) for extent, moved in extents):
            return []
        for extent, movable in extents if self.starts else ():
            if not self.effort.spent and self._targets.any(extent, movable, found):
                for run in self._runs(extent, movable, found):
                    self._note(run, extent, found)
        if self._doubtful:
            return [h.with_evidence(*_DOUBTFUL) for h in found.values()] if low else []
        return list(found.values())

    def _runs(self, extent: Extent, movable: list[Leaf], found: dict[Node, Hazard]) -> Iterator[Run]:
        """What moving some inputs gives, first to telling values, then to where an operation is singular."""
        targets = operations, data = self._targets.open(extent), self._targets.may_miss_data(extent, movable)
        held = self.guard.held_elements()
        if not data and not held and all(self._dependence.inputs(n).isdisjoint(movable) for n in operations):
            points, _ = joined(self.starts)
            if not self._failing(points, evaluate(self._dependence.order(operations), points), operations).any():
                return
        batches = [
            perturbations(start, movable, self.pool, thorough=i == 0, joint=99 if extent else 2)
            for i, start in enumerate(self.starts)
        ]
        first: Values = {}
        for part in parts([batches[0], *({**batches[0], **h} for h in held), *batches[1:]], len(self.order)):
            run = self.run(*part, targets=targets)
            first = first or run.first
            yield run
        if points := self._aimed(operations, batches[0], first, found):
            yield self.run(points, targets=targets)

    def _note(self, run: Run, extent: Extent, found: dict[Node, Hazard]) -> None:
        for batch in range(len(run.bases)):
            for hazard in self._read(run, batch, extent, found):
                known = found.get(hazard.op)
                if known is None or hazard.rank > known.rank:
                    found[hazard.op] = hazard

    def _aimed(self, operations: Sequence[Node], batch: Inputs, values: Values, found: Collection[Node]) -> Inputs:
        """Probes that bring the operations that no hazard was found of exactly to their singular points."""
        nodes = [n for n in operations if n in self.requires_grad and n not in found]
        if not nodes:
            return {}
        points = aimed(nodes, batch, values)
        return {n: np.concatenate([v[:1], *(point[n] for point in points)]) for n, v in batch.items()} if points else {}

    def begin(self) -> list[Inputs]:
        """Benign points from which the search departs."""
        return self._depart(self._benign)

    def _depart(self, acceptable: Callable[[Inputs], Array]) -> list[Inputs]:
        starts = bases(self.leaves, self.path_conditions, self.pool, acceptable, _BASES)
        if not starts and self.path_conditions:
            # A predicate that nothing satisfies was not understood (a shape, a library's own check): do without it.
            alone = [f for f in self.path_conditions if self._satisfied(f)]
            self.path_conditions = tuple(alone)
            starts = bases(self.leaves, self.path_conditions, self.pool, acceptable, _BASES)
            if not starts and alone:
                self.path_conditions = ()
                for condition in alone:
                    if self._satisfied(*self.path_conditions, condition):
                        self.path_conditions += (condition,)
                self._doubtful = len(self.path_conditions) < len(alone)
                starts = bases(self.leaves, self.path_conditions, self.pool, acceptable, _BASES)
        starts += self._other_arms(starts[:1])
        if starts:
            self._judge.start_at(starts[0])
        self.starts = starts
        return starts

    def _other_arms(self, starts: list[Inputs]) -> list[Inputs]:
        """The first start with each flag of the control flow raised alone, and with none: every arm is tried.

        Only flags that make a difference to the operations that are asked for, or to the condition.
        """
        deciding = [*self._targets.open(Extent()), *self.guard.condition]
        free = [n for n in self.leaves if n.kind == "bool" and n.preferred is None]
        named = [n for n in self.leaves if n.arm and self._dependence.decides(n, deciding)] if starts else []
        values = [(n, True if n.kind == "bool" else self._flip(n, starts[0])) for n in named]
        arms = [(n, value) for n, value in values if value is not None]
        flags = [n for n in free if len(free) > 1 or not n.array]  # elements of one mask differ already
        raised = [n for n in flags if self._dependence.decides(n, deciding)]
        arms = [*arms, *((n, True) for n in raised)][:_MOST_FLAGS]
        if not starts or not arms:
            return []
        batch = {n: np.repeat(v, len(arms) + 1, axis=0) for n, v in starts[0].items()}  # the last has none raised
        for i, (leaf, value) in enumerate(arms):
            if leaf.kind == "bool":
                batch[leaf][:] = False
            batch[leaf][i] = value
        fit = np.flatnonzero(self._allows(batch)).tolist()
        return [{n: v[i : i + 1] for n, v in batch.items()} for i in fit]

    def _flip(self, leaf: Node, start: Inputs) -> float | None:
        """A value of a parameter with a default at which a lazy choice takes its other arm."""
        tests = [n.inputs[0] for n in self.order if n.op == "cond" and self._dependence.reads(n.inputs[0], leaf)]
        values = np.array([v for v in self.pool.values(leaf) if np.isfinite(v)], np.float32)
        batch = {n: np.repeat(v, len(values), axis=0) for n, v in start.items()}
        batch[leaf] = np.repeat(values[:, None], LANES, axis=1)
        order = topological(tests)
        now, then = evaluate(order, start), evaluate(order, batch)
        other = np.zeros(len(values), np.bool_)
        for test in tests:
            other |= any_lane(truth(now[test]) != truth(then[test]))
        return float(values[other.argmax()]) if other.any() else None

    def _satisfied(self, *path_conditions: Node) -> bool:
        """Whether some input is found at which predicates hold together."""
        if path_conditions not in self._satisfiable:
            order = topological(path_conditions)
            self._satisfiable[path_conditions] = holds_somewhere(path_conditions, order)
        return self._satisfiable[path_conditions]

    def shows(self, hazard: Hazard) -> bool:
        """Whether the hazard's witness is one under this search's framework too."""
        return bool(self.run(hazard.inputs).witness.any())

    def meets(self, nodes: Sequence[Node], fixed: Collection[Node] = (), *, wide: bool = False) -> bool:
        """Whether moving what the guard reads brings one of ``nodes`` to its singular point, the value being finite.

        Not ``fixed`` inputs, which nobody moves, and which others may equal; ``wide``: all others.
        """
        starts = self._depart(self._allows)
        inputs = [n for n in self.leaves if not n.fixed] if wide else self.guard.movable()
        movable = [n for n in inputs if n not in fixed][:MOST_MOVABLE]
        batches = [perturbations(each, movable, self.pool, thorough=i == 0, joint=2) for i, each in enumerate(starts)]
        held = [n for n in fixed if n in self.leaves and n.kind == "float"]
        equal = ({**each, n: each[m]} for each in starts for m in held for n in movable if n.kind == "float")
        for batch in (*batches, *equal):
            values = evaluate(self.order, batch)
            fit = self.allowed(values) & self._finite(values)
            for node in self.requires_grad.intersection(nodes):
                if (any_lane(fails(node, values, self.framework)) & fit).any():
                    return True
        return not starts

    def _allows(self, inputs: Inputs) -> Array:
        """1 where a probe satisfies the control flow."""
        values = evaluate(self._dependence.order(self.path_conditions), inputs, known=inputs)
        return self.allowed(values).astype(np.float64)

    def _benign(self, inputs: Inputs) -> Array:
        """2 where a probe satisfies the control flow and is regular, 1 where it only satisfies the control flow."""
        allowed = self._allows(inputs)
        if not allowed.any():
            return allowed
        values = evaluate(self.order, inputs)
        regular = self._finite(values)
        if not (allowed * regular).any():
            return allowed
        cotangents = self._backward(values, symbolic=False).cotangents
        for node in self._sources:
            if node in cotangents:
                regular = regular & rows(np.isfinite(cotangents[node]))
        return allowed * (1.0 + np.broadcast_to(regular, allowed.shape))

    @cached_property
    def _tape(self) -> Tape:
        return Tape(self.order, self.requires_grad)

    def _backward(self, values: Values, *, symbolic: bool) -> Backward:
        return backward(self._tape, values, self.root, self.framework, symbolic=symbolic)

    def _finite(self, values: Values) -> Array:
        """Probes at which nothing raises, and the root is finite, or the infinity that the author wrote."""
        value = values[self.root]
        sound = np.isfinite(value)
        if self.root.op == "where":
            for arm in map(unreshaped, self.root.inputs[1:]):
                if arm.op == "const":
                    sound = sound | (value == values[arm]) & np.isinf(value)
        return rows(sound & ~raising(self.order, values, self.framework))

    def allowed(self, values: Values) -> Array:
        """Probes that satisfy the control flow."""
        allowed = np.ones(max((values[n].shape[0] for n in self.leaves), default=1), np.bool_)
        for condition in self.path_conditions:
            allowed = allowed & rows(truth(values[condition]))
        return allowed

    def run(self, *batches: Inputs, targets: tuple[Collection[Node], bool] | None = None) -> Run:
        """Evaluate batches as one, and keep only the probes whose value is finite and whose gradient is not.

        ``targets``: if passed, only those at which one of these operations fails, or else at which data are missing.
        """
        bases = [{n: v[:1] for n, v in inputs.items()} for inputs in batches]
        inputs, batch = joined(batches)
        values = evaluate(self.order if targets is None else self._dependence.order(targets[0]), inputs)
        count = int((batch == 0).sum())
        first = {n: v[:count] if v.shape[0] == len(batch) else v for n, v in values.items()}
        failing = np.ones(len(batch), np.bool_)
        if targets is not None:
            failing = self._failing(inputs, values, targets[0])
            for data in inputs.values() if targets[1] else ():
                failing = failing | any_lane(~np.isfinite(data))
            failing[failing] = failing.any() and self._allows(keep(failing, inputs)) > 0
        if not failing.any():
            return Run({}, {}, Backward({}, {}), Backward({}, {}), failing[:0], bases, batch[:0], first)
        if targets is not None:
            inputs, values, batch = keep(failing, inputs), keep(failing, values), batch[failing]
            values = evaluate((n for n in self.order if n not in values), inputs, known=values)
        fit = self.allowed(values) & self._finite(values)
        inputs, values, batch = keep(fit, inputs), keep(fit, values), batch[fit]
        ieee = self._backward(values, symbolic=False) if fit.any() else Backward({}, {})
        broken = np.zeros(len(batch), np.bool_)
        for node in self._sources:
            if node in ieee.cotangents:
                broken = broken | any_lane(~np.isfinite(ieee.cotangents[node]))
        inputs, values = keep(broken, inputs), keep(broken, values)
        ieee = Backward(keep(broken, ieee.cotangents), keep(broken, ieee.broke))
        symbolic = self._backward(values, symbolic=True) if broken.any() else ieee
        run = Run(inputs, values, ieee, symbolic, np.zeros(int(broken.sum()), np.bool_), bases, batch[broken], first)
        for node in self._sources if broken.any() else []:
            if node in ieee.cotangents and node in symbolic.cotangents:
                run.witness |= any_lane(run.poisoned(node))
        return run

    def _failing(self, inputs: Inputs, values: Values, operations: Iterable[Node]) -> Array:
        """The probes at which an operation fails."""
        failing = np.zeros(max(map(len, inputs.values()), default=1), np.bool_)
        for node in operations:
            failing |= any_lane(fails(node, values, self.framework, self.requires_grad, _LARGE))
        return failing

    def _read(self, run: Run, batch: int, extent: Extent, found: dict[Node, Hazard]) -> Iterator[Hazard]:
        witness = run.witness & (run.batch == batch)
        if not witness.any():
            return
        for node, broke in run.ieee.broke.items():
            if self.effort.spent:
                return
            known = found.get(node)
            if known is not None and not known.missing_data and (known.is_shown or extent):
                continue
            healed = run.symbolic.broke.get(node)
            fresh = broke if healed is None or self._feeds_clip(node) else broke & ~healed
            candidates = any_lane(fresh) & witness
            every = np.flatnonzero(candidates)
            probes = [*every[:_TRIES].tolist(), *_sparsest(fresh, run.inputs, every[_TRIES:])]
            # What something before the node had broken must not use up all the tries; what is found late is less sure.
            late = [p for p in np.flatnonzero(candidates & sound(run, node))[:_TRIES].tolist() if p not in probes]
            tried: set[Node] = set()
            for p in [*probes, *late]:
                attempt = node, p in late
                if self._refused.get(attempt, 0) > _MOST_REFUSALS:
                    continue
                reach = extent | _DOUBTFUL if p in late else extent
                blamed = self._blame(run, node, p)
                if blamed is not None and (
                    blamed.culprit in tried or self._targets.is_settled(blamed.culprit, reach, found, blamed.data)
                ):
                    continue
                hazard = blamed and self._hazard(run, blamed, p)
                if blamed is None or hazard is None:
                    self._refused[attempt] = self._refused.get(attempt, 0) + 1
                else:
                    tried.add(hazard.op)
                    yield hazard.with_evidence(*self._judge.weigh(run, blamed, p, reach))

    def _feeds_clip(self, node: Node) -> bool:
        return node is self.root and node.op in SINGULAR

    def _blame(self, run: Run, node: Node, p: int) -> Blamed | None:
        """What made one probe's cotangent break at a node, if the root is what made the zero."""
        Work.count(len(self.order))
        onto = self._feeds_clip(node)
        dropped = onto or (self.root.selection and root_drops(run, self.root, node, p, self._dependence))
        clip = reaches_leaf(run, node, p) if dropped else None
        if clip is None or (onto and clip is node):
            return None
        culprit, data = culprit_of(run, node, p)
        if culprit is not None and not data and not onto:
            culprit = flat_root(run, node, p) or culprit
        return None if culprit is None else Blamed(culprit, clip if onto else self.root, data)

    def _hazard(self, run: Run, blamed: Blamed, p: int) -> Hazard | None:
        """The hazard of one probe, yet to be weighed; None where something else must hold that does not."""
        gradient = {
            n: run.ieee.cotangents[n][row(run.ieee.cotangents[n], p)]
            for n in self._sources
            if n in run.ieee.cotangents and n in self.requires_grad
        }
        inputs = {n: v[row(v, p)] for n, v in run.inputs.items()}
        value = run.values[self.root]
        hazard = Hazard(blamed.culprit, blamed.select, frozenset(), inputs, value[row(value, p)], gradient, blamed.data)
        return hazard if self.accept(hazard, run, p) else None

    def again(self, run: Run, p: int, known: Hazard) -> Hazard | None:
        """A hazard as another probe shows it, if it does."""
        for node, broke in run.ieee.broke.items():
            blamed = self._blame(run, node, p) if broke[row(broke, p)].any() else None
            if blamed is not None and blamed.culprit is known.op and (hazard := self._hazard(run, blamed, p)):
                same = hazard.select is known.select
                return replace(hazard, evidence=known.evidence, missing_data=known.missing_data) if same else None
        return None


def _sparsest(broke: Array, inputs: Inputs, probes: Array) -> list[int]:
    """The probes that break some elements alone, the fewest first: the rest of the program may need the others.

    Those of ordinary numbers, of which nothing overflows.
    """
    if len(broke) == 1 or not len(probes):
        return []
    counts = np.count_nonzero(broke[probes], axis=1)
    counts[np.logical_or.reduce([any_lane(np.abs(v) > EXTREME)[probes % len(v)] for v in inputs.values()])] = LANES
    fewest = [i for i in np.argsort(counts, kind="stable").tolist() if counts[i] < broke.shape[1]]
    return [int(probes[i]) for i in fewest[:_TRIES]]
