"""The proof of a rewrite: the new text is read again, and computes the same with the gradient that was meant.

At every probe each value that leaves the function is the same where it was not nan, and its gradient is the one that
symbolic-zero arithmetic gave the old text, where that is finite. A gradient that IEEE arithmetic left finite stays so,
and operations hardly fail more often than before. The finding is gone and no other has come.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from typing import NamedTuple

import numpy as np

from wherelint.findings.hazards import Detection, arithmetic
from wherelint.fix.verify.dtypes import untyped
from wherelint.fix.verify.inputs import Called, Name, Settled, benign, names_of, settle
from wherelint.fix.verify.probes import around, far, infinite
from wherelint.fix.verify.shapes import covers
from wherelint.graph.differentiate import Tape, backward
from wherelint.graph.evaluate import evaluate, truth
from wherelint.graph.node import LANES, Leaf, Node, differentiated, flowing_back, leaves, reading, topological
from wherelint.interpret.programs import Program, expression_id
from wherelint.ops import Array
from wherelint.ops.lanes import columns, every, some
from wherelint.search.batch import any_lane
from wherelint.search.bisect import aimed
from wherelint.search.probes import Inputs, Pool, perturbations

_MOST_MOVED = 8
#: Of how many values that read the operation gradients are compared, the last ones: what is returned is among them.
_MOST_OUTPUTS = 6
#: What the rounding of a rewritten expression may change, relative to the value.
_TOLERANCE = 2e-5
#: What rounding leaves of a sum of terms that cancel, relative to the largest: a few units in the last place.
_ROUNDING = 1e-6
#: How much more often than before, as a share, operations may fail at the probes after a rewrite.
_MORE = 0.25


class Told(NamedTuple):
    """Of what more is recorded than values."""

    #: The numbers of the outlets whose gradients are compared.
    outlets: Sequence[int] = ()
    #: The last probes, of which only values are compared.
    beyond: int = 0
    #: Operations that have findings of their own, by name and function: how often they fail is not the rewrite's doing.
    known: frozenset[tuple[str, str]] = frozenset()


@dataclass
class Record:
    """What a program computes at the probes, leaf by leaf and outlet by outlet."""

    inputs: dict[Name, Array]
    values: list[Array]
    #: How many values that are differentiated are not finite at the first probe, the witness.
    broken: int
    #: For each outlet the gradient of every leaf.
    gradients: list[dict[Name, Array]] = field(default_factory=list)
    #: The same as IEEE arithmetic computes it.
    real: list[dict[Name, Array]] = field(default_factory=list)
    #: For each outlet how large a cotangent on the way is at each probe: what cancels is no more exact than that.
    sizes: list[Array] = field(default_factory=list)
    #: How many values and cotangents on the way are not finite at the witness.
    unclean: int = 0
    #: At how many probes an outlet is finite and IEEE arithmetic loses its gradient.
    lost: int = 0
    #: The operations that do so at the witness, each with the elements; and the elements that the hazard loses there,
    #: or that no cotangent would reach, with symbolic zeros.
    breaks: dict[Node, Array] = field(default_factory=dict)
    dead: list[Array] = field(default_factory=list)
    #: The operations that are to blame for it, after a rewrite.
    remains: list[Node] = field(default_factory=list)
    #: The elements of the witness that the selection drops: what breaks at others is singular in earnest.
    dropped: Array = field(default_factory=lambda: np.ones(1, np.bool_))
    #: For each outlet the probes at which it is finite and its gradient is not, and those of them at which an operation
    #: breaks a cotangent that symbolic zeros leave whole.
    bad: list[Array] = field(default_factory=list)
    failing: list[Array] = field(default_factory=list)
    #: Whether that happens where the gradient was finite before, more often than it has happened.
    worse: bool = False
    #: How many selections have numbers for a condition, which only JAX takes.
    numeric: int = 0
    #: The probes at which some input is nan, and those at which some is -0.0.
    missing: Array = field(default_factory=lambda: np.zeros(1, np.bool_))
    signed: Array = field(default_factory=lambda: np.zeros((1, 1), np.bool_))
    #: For each product that XLA may make no select, where it hides what is not finite all the same in the model.
    hidden: list[Array] = field(default_factory=list)
    #: How many selections may have a Python number where frameworks want a tensor.
    untyped: int = 0
    #: Whether a value is a number that was nan before, or another where an input is -0.0, or may have another dtype.
    doubtful: bool = False
    #: Whether the operation of the hazard makes what is not finite at some probe, and no selection drops that, although
    #: an outlet that reads it is finite.
    exposed: bool = False
    #: Whether all that reads the operation and leaves the program is nan at every probe: nothing can be compared.
    unseen: bool = False
    #: Whether the operation reads several parts of what is one number here, an element of an unknown result.
    one_number: bool = False
    outlets: list[Node] = field(default_factory=list)
    told: Told = field(default_factory=Told)
    #: The probes at which gradients are compared.
    counted: Array = field(default_factory=lambda: np.ones((1, 1), np.bool_))
    #: For each outlet the probes that its control flow lets through.
    allowed: list[Array] = field(default_factory=list)
    calls: list[Called] = field(default_factory=list)
    #: How many impure calls it makes, and what is given to calls whose arguments changed.
    opaque_calls: int = 0
    crossed: set[Node] = field(default_factory=set)


def record(
    program: Program, detection: Detection, known: Iterable[Detection] = (), *, at_witness: bool = False
) -> Record:
    """Probe a program around the witness of a hazard, or ``at_witness`` alone; ``known``: the hazards of its file."""
    order = program.order
    names = inputs_of(program)
    hazard = detection.hazard
    shown, begun = _witness(program, detection)
    select = [n for n in order if n.op == hazard.select.op and expression_id(n) == expression_id(hazard.select)]
    singular = [n for n in order if n.op == hazard.op.op and expression_id(n) == expression_id(hazard.op)]
    inputs, beyond = shown, 0
    if not at_witness:
        start: Inputs = {n: begun[name] for n, name in names.items()}
        read = [n for n in (*leaves(*select), *names) if n in names and not n.fixed]
        batch = perturbations(start, list(dict.fromkeys(read))[:_MOST_MOVED], Pool(order), thorough=True, joint=2)
        aims = aimed(singular, batch, evaluate(order, batch)) if singular else []
        batch = {n: np.concatenate([v, *(point[n] for point in aims)]) for n, v in batch.items()}
        more = [far(start, Pool(order)), around(singular, batch, Pool(order))]
        beyond = max((len(v) for v in more[-1].values()), default=0)
        batch = {n: np.concatenate([v, *(probes[n] for probes in more)]) for n, v in batch.items()}
        tried = {name: np.broadcast_to(batch[n], (len(batch[n]), shown[name].shape[1])) for n, name in names.items()}
        inputs = {name: np.concatenate([shown[name], probes]) for name, probes in tried.items()}
    settled = settle(roots_of(program), inputs)
    assert settled is not None
    concerned = reading(order, [*singular, *select])
    outlets = [i for i, n in enumerate(program.outputs) if n in concerned and n.kind == "float"][-_MOST_OUTPUTS:]
    others = frozenset(map(_called, (each.hazard.op for each in known))) - {_called(hazard.op)}
    result = _run(program, settled, inputs, arithmetic(detection.framework), Told(outlets, beyond, others), singular)
    result.one_number = _is_one_number(singular, names)
    result.unseen = bool(outlets) and all(bool(any_lane(np.isnan(result.values[i])).all()) for i in outlets)
    if result.dead and hazard.op in topological([hazard.select]):  # else the selection is what the operation is given
        result.dropped = np.logical_or.reduce(np.broadcast_arrays(*result.dead))
    return result


def same(before: Record, program: Program, framework: str) -> Record | None:
    """The record of another program if it computes what was recorded, wherever that was a number; None otherwise.

    It may lose no gradient that was finite, and no selection may have got a number for its condition. It is ``worse``
    where its operations fail more often: so may a step be, not the last one.
    """
    settled = settle(roots_of(program), before.inputs, before.calls)
    if settled is None or before.unseen or not _computes(before, program, settled):
        return None
    now = _run(program, settled, before.inputs, arithmetic(framework), before.told)
    if now.broken > before.broken or now.numeric > before.numeric:
        return None
    if now.opaque_calls != before.opaque_calls or _hides_more(before.hidden, now.hidden):
        return None
    own = ~before.missing
    fresh = sum(int((new & ~bad & own).sum()) for new, bad in zip(now.failing, before.bad, strict=True))
    now.worse = fresh > _MORE * sum(int(old.sum()) for old in before.failing)
    now.doubtful = before.one_number or now.untyped > before.untyped or not _hides(before.hidden, now.hidden)
    for i, (old, new) in enumerate(zip(before.values, now.values, strict=True)):
        if now.outlets[i] in settled.crossed:  # a call that is not known receives something else, and that is all
            continue
        swallowed = np.isnan(old) & ~np.isnan(new) & before.allowed[i]
        # Of -0.0 a reciprocal is -inf: a mask that drops what is +inf was meant for it, too.
        finite = np.isfinite(old) & before.allowed[i] & before.signed
        now.doubtful |= bool(swallowed.any()) or not _agree(old, new, finite)
        if (any_lane(swallowed & ~before.signed & now.counted) & before.missing).any():
            return None
        allowed = before.allowed[i] & ~before.signed & now.counted
        if not _same_gradient(before.gradients[i], now.gradients[i], allowed, before.sizes[i]):
            return None
        if _loses(before.real[i], now.real[i], allowed):
            return None
    lost = [n for n, elements in now.breaks.items() if (elements & before.dropped).any()]
    now.remains = _origins(lost, settled.values)
    return now


def _computes(before: Record, program: Program, settled: Settled) -> bool:
    """Whether another program has the values that were recorded, wherever those are numbers: asked first, it is cheap.

    A call that is not known may receive something else.
    """
    if len(program.outputs) != len(before.values):
        return False
    outlets = zip(before.values, before.allowed, program.outputs, strict=True)
    return all(
        outlet in settled.crossed or _agree(old, settled.values[outlet], ~np.isnan(old) & allowed & ~before.signed)
        for old, allowed, outlet in outlets
    )


def _called(node: Node) -> tuple[str, str]:
    return node.op, getattr(node.origin, "function", "")


def _is_one_number(operations: Sequence[Node], names: Mapping[Leaf, Name]) -> bool:
    read = topological(operations)
    parts = {(_moved_from(n.inputs[0]), n.static.lanes) for n in read if n.op == "gather"}
    elements = [n for n, _ in parts if isinstance(n, Leaf) and n.of is not None and n not in names]
    return len(elements) > len(set(elements))


def _moved_from(node: Node) -> Node:
    """What a node is with its axes, or its type, as they were."""
    while node.op == "identity":
        node = node.inputs[0]
    return node


def finite_at(old: Program, new: Program, detections: Sequence[Detection]) -> list[bool]:
    """For each hazard of a program, whether what leaves the rewritten one is finite at the witness, back and forth."""
    rows = [_witness(old, detection)[0] for detection in detections]
    if not rows:
        return []
    inputs = {name: np.concatenate([np.broadcast_to(row[name], (1, LANES)) for row in rows]) for name in rows[0]}
    before = settle(roots_of(old), inputs)
    settled = settle(roots_of(new), inputs, before.calls) if before is not None else None
    if settled is None:
        return [False] * len(rows)
    finite = np.ones(len(rows), np.bool_)
    for outlet in [n for n in new.outputs if n.kind == "float"][-_MOST_OUTPUTS:]:
        found = backward(Tape(topological([outlet])), settled.values, outlet, arithmetic(detections[0].framework),
                         symbolic=False).cotangents  # fmt: skip
        for values in (settled.values[outlet], *(found[n] for n in settled.names if n in found)):
            finite &= ~any_lane(~np.isfinite(values))
    return [bool(each) for each in finite]


def _witness(program: Program, detection: Detection) -> tuple[dict[Name, Array], dict[Name, Array]]:
    """The inputs of a program at the witness of a hazard, and where its search began; benign where neither says."""
    # A witness is one of the function that was searched: an input of that name elsewhere is another.
    called = inputs_of(detection.program) if program.name == detection.program.name else {}
    starts = detection.search.starts
    given = detection.hazard.inputs, starts[0] if starts else {}
    shown, begun = (_by_whole(point, called) for point in given)
    base = {name: shown.get(name, benign(n, i)) for i, (n, name) in enumerate(inputs_of(program).items())}
    return base, {name: {**shown, **begun}.get(name, value) for name, value in base.items()}


def _by_whole(point: Mapping[Node, Array], called: Mapping[Leaf, Name]) -> dict[Name, Array]:
    """A point in terms of some inputs, each with the elements that the point has as inputs of their own."""
    found = {name: point[n] for n, name in called.items() if n in point}
    for node, value in point.items():
        if isinstance(node, Leaf) and node.of is not None and node not in called and node.of[0] in called:
            whole, index = node.of
            array = found.setdefault(called[whole], benign(whole, 0))
            found[called[whole]] = np.where(np.arange(LANES) == index % LANES, value[:, :1], array)
    return found


@lru_cache(maxsize=16)
def inputs_of(program: Program) -> dict[Leaf, Name]:
    """The inputs of a program by what they are called."""
    return names_of(roots_of(program))


def roots_of(program: Program) -> list[Node]:
    """What a program computes that the proof speaks of, and what has to hold where it does."""
    conditions = [condition for n in program.outputs for condition in n.path_conditions]
    return list(dict.fromkeys([*program.order, *program.outputs, *conditions]))


def _same_gradient(before: Mapping[Name, Array], now: Mapping[Name, Array], allowed: Array, sizes: Array) -> bool:
    for name, old in before.items():
        new = now.get(name, np.zeros((1, 1), np.float32))
        if not _agree(old, new, np.isfinite(old) & allowed, _ROUNDING * sizes):
            return False
    return True


def _loses(before: Mapping[Name, Array], now: Mapping[Name, Array], allowed: Array) -> bool:
    """Whether some gradient was finite and is not any more."""
    shared = before.keys() & now.keys()
    return any((np.isfinite(before[name]) & ~np.isfinite(now[name]) & allowed).any() for name in shared)


def _hides(before: Sequence[Array], now: Sequence[Array]) -> bool:
    """Whether products hide all that they did: a nan, to a framework that makes no selects of them."""
    return len(before) == len(now) and not any((old & ~new).any() for old, new in zip(before, now, strict=True))


def _hides_more(before: Sequence[Array], now: Sequence[Array]) -> bool:
    """Whether a product hides what was finite before: to a framework that makes no select of it that is nan now."""
    return len(before) == len(now) and not _hides(now, before)


def _agree(old: Array, new: Array, known: Array, rounded: Array | float = 0.0) -> bool:
    """Whether two arrays agree in every element that is known, but for what rounding leaves of it."""
    old, new, known, rounded = np.broadcast_arrays(old, new, known, rounded)
    with np.errstate(all="ignore"):
        return bool(np.allclose(new[known], old[known], rtol=_TOLERANCE, atol=1e-6 + rounded[known]))


def _run(
    program: Program,
    settled: Settled,
    inputs: dict[Name, Array],
    framework: str,
    told: Told,
    singular: Sequence[Node] = (),
) -> Record:
    order = program.order
    values, names = settled.values, settled.names
    outlets = list(program.outputs)
    passing = differentiated(order) & flowing_back(n for n in outlets if n.kind == "float")
    infinite_at = {n for n in passing if not np.isfinite(values[n][0]).all()}
    # What is made of it is not finite either, and so is what a mask keeps of it.
    broken = sum(infinite_at.isdisjoint(n.inputs) for n in infinite_at)
    result = Record(inputs, [values[s] for s in outlets], broken, unclean=len(infinite_at))
    result.calls, result.outlets, result.opaque_calls = settled.calls, outlets, program.opaque_calls
    result.crossed, result.told = settled.crossed, told
    # Where a mask keeps nothing, any element stands for those that there are none of.
    kept = [some(truth(values[n.inputs[0]])) for n in order if n.op == "compress"]
    for outlet in outlets:
        holds = [every(truth(values[condition])) for condition in outlet.path_conditions]
        result.allowed.append(np.logical_and.reduce(np.broadcast_arrays(np.ones((1, 1), np.bool_), *kept, *holds)))
    result.missing = np.logical_or.reduce(
        np.broadcast_arrays(np.zeros(1, np.bool_), *(any_lane(np.isnan(v)) for v in inputs.values()))
    )
    result.signed = np.logical_or.reduce(
        np.broadcast_arrays(
            np.zeros((1, 1), np.bool_),
            *(some((v == 0) & np.signbit(v)) for v in inputs.values() if v.dtype.kind == "f"),
        )
    )
    result.untyped = untyped(order)
    for node in order:
        if node.static.select:
            factor, mask = (node.inputs[i] for i in (node.static.operand, 1 - node.static.operand))
            if not covers(mask, node):
                result.hidden.append(~np.isfinite(values[factor]) & ~truth(values[mask]))
    numbers = [n.inputs[0] for n in order if n.op in ("where", "compress") and is_number(n.inputs[0])]
    # What PyTorch and TensorFlow select by once is no number, and may select again.
    result.numeric = len(numbers if framework == "jax" else set(numbers))
    probes = max((len(v) for v in inputs.values()), default=1)
    result.counted = np.arange(probes)[:, None] < probes - told.beyond
    where = {n: infinite(n, values) for n in singular}
    for i, (outlet, allowed) in enumerate(zip(outlets, result.allowed, strict=True)):
        tape = Tape(topological([outlet]) if i in told.outlets else ())
        if outlet not in tape.requires_grad:
            result.gradients.append({})
            result.sizes.append(np.zeros((1, 1)))
            result.real.append({})
            result.bad.append(np.zeros(1, np.bool_))
            result.failing.append(np.zeros(1, np.bool_))
            continue
        symbolic = backward(tape, values, outlet, framework, symbolic=True)
        real = backward(tape, values, outlet, framework, symbolic=False)
        ieee = real.cotangents
        known = every(np.isfinite(values[outlet])) & allowed
        for node in where.keys() & symbolic.dead.keys():
            dead = symbolic.dead[node]
            result.exposed |= bool((where[node] & known & (True if dead is None else ~dead)).any())
        result.gradients.append(_by_name(symbolic.cotangents, names))
        result.sizes.append(_largest(symbolic.cotangents.values()))
        result.real.append(_by_name(ieee, names))
        result.unclean += sum(not np.isfinite(ct[0]).all() for ct in ieee.values())
        finite = every(np.isfinite(values[outlet]) & result.counted)[:, 0]
        finite[0] |= not np.isnan(values[outlet][0]).any()  # a selection may well give -inf at the witness
        bad = _any(any_lane(~np.isfinite(ieee[n])) & finite for n in names if n in ieee)
        result.lost += int(bad.sum())
        fresh = {n: b & ~symbolic.broke[n] if n in symbolic.broke else b for n, b in real.broke.items()}
        failing = bad & _any(any_lane(b) for n, b in fresh.items() if _called(n) not in told.known)
        result.bad.append(bad)
        result.failing.append(failing)
        if bad[0]:
            result.breaks |= {n: each[0] | result.breaks.get(n, False) for n, each in real.broke.items()}
            for node in singular:
                loses = fresh[node] if node in fresh and fresh[node][0].any() else symbolic.dead.get(node)
                result.dead += [] if loses is None else [loses[0]]
    return result


def _largest(arrays: Iterable[Array]) -> Array:
    """The largest finite number at each probe."""
    found = np.zeros((1, 1))
    with np.errstate(all="ignore"):
        for size in (np.abs(array) for array in arrays if array.size):
            finite = np.add.reduce(size, axis=None) < np.inf
            found = np.maximum(found, size if finite else np.where(size < np.inf, size, 0.0))
    return reduce(np.maximum, columns(found))


def _any(rows: Iterable[Array]) -> Array:
    found: Array = np.logical_or.reduce(np.broadcast_arrays(np.zeros(1, np.bool_), *rows))
    return found


def _origins(lost: list[Node], values: Mapping[Node, Array]) -> list[Node]:
    """The operations that lose a gradient at the witness; for one that was given a nan, what made a nan of numbers."""
    found: dict[Node, None] = {}
    for node in lost:
        above = [n for n in topological(node.inputs) if n.inputs and not np.isfinite(values[n][0]).all()]
        made = [n for n in above if all(np.isfinite(values[i][0]).all() for i in n.inputs)]
        nans = {n for n in above if np.isnan(values[n][0]).any()}
        made += [n for n in nans.difference(made) if nans.isdisjoint(n.inputs)]  # 0 * inf
        found |= dict.fromkeys(made or [node])
    return list(found)


def _by_name(cotangents: Mapping[Node, Array], names: Mapping[Leaf, Name]) -> dict[Name, Array]:
    """The gradients of the leaves; what several nodes stand for gets their sum."""
    found: dict[Name, Array] = {}
    for node, name in names.items():
        if node in cotangents:
            with np.errstate(invalid="ignore"):
                found[name] = found[name] + cotangents[node] if name in found else cotangents[node]
    return found


def is_number(mask: Node) -> bool:
    """Whether a mask is an array of numbers; where it is one of two, whether both are. Two booleans have a boolean for
    their product.
    """
    while mask.op == "identity" and not mask.static.number:
        mask = mask.inputs[0]
    if mask.op == "multiply":
        return any(map(is_number, mask.inputs))
    if mask.op == "cond":
        return all(map(is_number, mask.inputs[1:3]))
    return mask.kind != "bool" or mask.op == "identity"
