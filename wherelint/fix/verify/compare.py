"""What a program computes at the probes, and whether a rewritten one computes the same.

At every probe each value that leaves the function is the same where it was no nan (and no overflow), and its gradient
is the one that symbolic-zero arithmetic gave the old text, where that is finite. A gradient that IEEE arithmetic left
finite stays so.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple

import numpy as np

from wherelint.findings.hazards import Detection, arithmetic
from wherelint.fix.verify.dtypes import is_number, untyped
from wherelint.fix.verify.inputs import Called, Name, Settled, probes, settle, witness_of
from wherelint.graph.differentiate import Tape, backward
from wherelint.graph.evaluate import truth
from wherelint.graph.node import Leaf, Node, differentiated, flowing_back, reading, topological
from wherelint.interpret.programs import Program, expression_id
from wherelint.ops import Array
from wherelint.ops.lanes import columns, every, some
from wherelint.search.batch import any_lane

#: Of how many values that read the operation gradients are compared, the last ones: what is returned is among them.
_MOST_OUTPUTS = 6
#: What the rounding of a rewritten expression may change, relative to the value.
_TOLERANCE = 2e-5
#: What rounding leaves of a sum of terms that cancel, relative to the largest: a few units in the last place.
_ROUNDING = 1e-6
#: What is larger is as good as infinite: a rewrite may exchange the two, but is in doubt then.
_HUGE = 1e20


class ComparisonScope(NamedTuple):
    """Of what more is compared than values."""

    #: The numbers of the outlets whose gradients are compared.
    outlets: Sequence[int] = ()
    #: The last probes, of which only values are compared.
    beyond: int = 0


class Gradients(NamedTuple):
    """The gradients of one outlet by each input, and the largest cotangent on the way: what cancels is that exact."""

    symbolic: dict[Name, Array]
    ieee: dict[Name, Array]
    size: Array


@dataclass
class Behavior:
    """What a program computes at the probes, the first of which is the witness."""

    inputs: dict[Name, Array]
    settled: Settled
    scope: ComparisonScope
    values: list[Array]
    #: For each outlet the probes that its control flow lets through.
    allowed: list[Array]
    gradients: dict[int, Gradients] = field(default_factory=dict)
    #: At how many probes an outlet is finite and IEEE arithmetic loses its gradient.
    lost: int = 0
    #: How many values and cotangents on the way are not finite at the witness.
    unclean: int = 0
    #: The operations that break a cotangent at the witness, each with the elements.
    breaks: dict[Node, Array] = field(default_factory=dict)
    #: The elements of the witness that the selection drops: what breaks at others is singular in earnest.
    dropped: Array = field(default_factory=lambda: np.ones(1, np.bool_))
    #: The operations of a rewrite that lose a gradient there.
    remains: list[Node] = field(default_factory=list)
    #: How many selections have numbers for a condition, which only JAX takes.
    numeric: int = 0
    #: How many selections may have a Python number where frameworks want a tensor.
    untyped: int = 0
    #: Whether the operation of the hazard makes what is not finite at some probe, and no selection drops that, although
    #: an outlet that reads it is finite.
    exposed: bool = False
    #: Whether a rewrite makes a number of a nan or of an overflow, or may change a dtype.
    doubtful: bool = False


def observe(program: Program, detection: Detection) -> Behavior:
    """What a program computes around the witness of a hazard."""
    order, hazard = program.order, detection.hazard
    singular, selections = (_at(order, node) for node in (hazard.op, hazard.select))
    inputs, beyond = probes(program, detection, singular, selections)
    settled = settle(program, inputs)
    assert settled is not None
    scope = ComparisonScope(_outlets(program, [*singular, *selections]), beyond)
    result = _measure(program, settled, inputs, detection.framework, scope, singular)
    result.dropped = _dropped(result, detection)
    return result


def _dropped(result: Behavior, detection: Detection) -> Array:
    """The elements of the witness that the selection drops; all, where it is what the operation is given."""
    hazard = detection.hazard
    return result.dropped if hazard.op in topological([hazard.select]) else np.ones(1, np.bool_)


def observe_rewrite(before: Behavior, program: Program, framework: str) -> Behavior | None:
    """What a rewritten program computes; None where a value is another, or a gradient that was finite is lost."""
    settled = settle(program, before.inputs, before.settled.calls)
    if settled is None or len(program.outputs) != len(before.values):
        return None
    doubtful, seen = False, False
    for old, allowed, outlet in zip(before.values, before.allowed, program.outputs, strict=True):
        nan, new = np.isnan(old), settled.values[outlet]
        huge = (np.abs(old) > _HUGE) & (np.abs(new) > _HUGE) & ((old > 0) == (new > 0)) & (old != new)
        if not _agree(old, new, ~nan & ~huge & allowed):
            return None
        doubtful |= bool(((huge | nan & ~np.isnan(new)) & allowed).any())
        seen |= not nan.all()
    if not seen:
        return None
    now = _measure(program, settled, before.inputs, framework, before.scope)
    if now.numeric > before.numeric:
        return None
    now.doubtful = doubtful or now.untyped > before.untyped
    counted = _counted(before.inputs, before.scope)
    for i, old_gradients in before.gradients.items():
        now_gradients = now.gradients.get(i, Gradients({}, {}, np.zeros((1, 1))))
        allowed = before.allowed[i] & counted
        for name, old in old_gradients.symbolic.items():
            gradient = now_gradients.symbolic.get(name, np.zeros((1, 1), np.float32))
            if not _agree(old, gradient, np.isfinite(old) & allowed, _ROUNDING * old_gradients.size):
                return None
            lost = np.isfinite(old_gradients.ieee[name]) & ~np.isfinite(now_gradients.ieee.get(name, gradient))
            if (lost & allowed).any():
                return None
    now.remains = _remaining(now, before.dropped)
    return now


class Witnessed(NamedTuple):
    """The inputs of a program at a witness, the calls that it makes there, and the outlets that the hazard reaches."""

    inputs: dict[Name, Array]
    calls: Sequence[Called]
    outlets: Sequence[int]
    #: The elements that the selection drops.
    dropped: Array


def at_witness(program: Program, detection: Detection) -> Witnessed | None:
    """What a program is given at the witness of a hazard; None where that cannot be computed."""
    inputs, _ = witness_of(program, detection)
    settled = settle(program, inputs)
    if settled is None:
        return None
    singular, selections = (_at(program.order, node) for node in (detection.hazard.op, detection.hazard.select))
    scope = ComparisonScope(_outlets(program, [*singular, *selections]))
    result = _measure(program, settled, inputs, detection.framework, scope, singular)
    return Witnessed(inputs, settled.calls, scope.outlets, _dropped(result, detection))


def observe_witness(before: Witnessed, new: Program, framework: str, dropped: Array) -> Behavior | None:
    """What a rewritten program computes at the witness alone; None where its inputs are others."""
    settled = settle(new, before.inputs, before.calls)
    if settled is None:
        return None
    now = _measure(new, settled, before.inputs, framework, ComparisonScope(before.outlets), exact=False)
    now.remains = _remaining(now, dropped)
    return now


def is_finite_at(program: Program, detection: Detection) -> bool:
    """Whether what leaves a program is finite at the witness of a hazard, back and forth."""
    inputs, _ = witness_of(program, detection)
    settled = settle(program, inputs)
    assert settled is not None
    outlets = [i for i, n in enumerate(program.outputs) if n.kind == "float"][-_MOST_OUTPUTS:]
    now = _measure(program, settled, inputs, detection.framework, ComparisonScope(outlets), exact=False)
    arrays = [now.values[i] for i in outlets] + [v for each in now.gradients.values() for v in each.ieee.values()]
    return all(bool(np.isfinite(array).all()) for array in arrays)


def _at(order: Sequence[Node], node: Node) -> list[Node]:
    """The nodes of a program that are written where another is."""
    return [n for n in order if n.op == node.op and expression_id(n) == expression_id(node)]


def _outlets(program: Program, nodes: Sequence[Node]) -> list[int]:
    concerned = reading(program.order, nodes)
    return [i for i, n in enumerate(program.outputs) if n in concerned and n.kind == "float"][-_MOST_OUTPUTS:]


def _counted(inputs: Mapping[Name, Array], scope: ComparisonScope) -> Array:
    """The probes at which gradients are compared."""
    count = max((len(v) for v in inputs.values()), default=1)
    return np.arange(count)[:, None] < count - scope.beyond


def _measure(
    program: Program,
    settled: Settled,
    inputs: dict[Name, Array],
    framework: str,
    scope: ComparisonScope,
    singular: Sequence[Node] = (),
    *,
    exact: bool = True,
) -> Behavior:
    """The values of a program and its gradients, ``exact``: by symbolic zeros as well."""
    order, values, names = program.order, settled.values, settled.names
    # Where a mask keeps nothing, any element stands for those that there are none of.
    filled = [some(truth(values[n.inputs[0]])) for n in order if n.op == "compress"]
    allowed = []
    for outlet in program.outputs:
        holds = [every(truth(values[condition])) for condition in outlet.path_conditions]
        allowed.append(_all(np.ones((1, 1), np.bool_), *filled, *holds))
    result = Behavior(inputs, settled, scope, [values[n] for n in program.outputs], allowed)
    result.untyped = untyped(order)
    numbers = [n.inputs[0] for n in order if n.op in ("where", "compress") and is_number(n.inputs[0])]
    # What PyTorch and TensorFlow select by once is no number, and may select again.
    result.numeric = len(numbers if framework == "jax" else set(numbers))
    passing = differentiated(order) & flowing_back(n for n in program.outputs if n.kind == "float")
    result.unclean = sum(not np.isfinite(values[n][0]).all() for n in passing)
    counted = _counted(inputs, scope)
    dead: list[Array] = []
    for i in scope.outlets:
        outlet = program.outputs[i]
        tape = Tape(topological([outlet]))
        if outlet not in tape.requires_grad:
            continue
        ieee = backward(tape, values, outlet, arithmetic(framework), symbolic=False)
        symbolic = backward(tape, values, outlet, arithmetic(framework), symbolic=True) if exact else ieee
        by_name = [_by_name(each.cotangents, names) for each in (symbolic, ieee)]
        result.gradients[i] = Gradients(by_name[0], by_name[1], _largest(symbolic.cotangents.values()))
        result.unclean += sum(not np.isfinite(ct[0]).all() for ct in ieee.cotangents.values())
        finite = every(np.isfinite(values[outlet]) & counted)[:, 0]
        finite[0] |= not np.isnan(values[outlet][0]).any()  # a selection may well give -inf at the witness
        bad = [any_lane(~np.isfinite(ieee.cotangents[n])) & finite for n in names if n in ieee.cotangents]
        lost = np.logical_or.reduce(np.broadcast_arrays(np.zeros(1, np.bool_), *bad))
        result.lost += int(lost.sum())
        for node in singular:
            gone = symbolic.dead.get(node)
            if node in symbolic.dead:
                fails = ~np.isfinite(values[node]) & _all(*(np.isfinite(values[n]) for n in node.inputs))
                reached = True if gone is None else ~gone
                result.exposed |= bool((fails & reached & every(np.isfinite(values[outlet])) & allowed[i]).any())
            if lost[0]:
                fresh = ieee.broke.get(node, np.zeros((1, 1), np.bool_)) & ~symbolic.broke.get(node, np.False_)
                dead += [fresh[0]] if fresh[0].any() else [gone[0]] if gone is not None else []
        if lost[0]:
            result.breaks |= {n: each[0] | result.breaks.get(n, False) for n, each in ieee.broke.items()}
    if dead:
        result.dropped = np.logical_or.reduce(np.broadcast_arrays(*dead))
    return result


def _all(*masks: Array) -> Array:
    found: Array = np.logical_and.reduce(np.broadcast_arrays(*masks))
    return found


def _agree(old: Array, new: Array, known: Array, rounded: Array | float = 0.0) -> bool:
    """Whether two arrays agree in every element that is known, but for what rounding leaves of it."""
    old, new, known, rounded = np.broadcast_arrays(old, new, known, rounded)
    with np.errstate(all="ignore"):
        return bool(np.allclose(new[known], old[known], rtol=_TOLERANCE, atol=1e-6 + rounded[known]))


def _largest(arrays: Iterable[Array]) -> Array:
    """The largest finite number at each probe."""
    found = np.zeros((1, 1))
    with np.errstate(all="ignore"):
        for size in (np.abs(array) for array in arrays if array.size):
            found = np.maximum(found, np.where(size < np.inf, size, 0.0))
    return reduce(np.maximum, columns(found))


def _remaining(behavior: Behavior, dropped: Array) -> list[Node]:
    """The operations that lose a gradient at the witness; for one that was given a nan, what made a nan of numbers."""
    values, found = behavior.settled.values, dict[Node, None]()
    for node in (n for n, elements in behavior.breaks.items() if (elements & dropped).any()):
        above = [n for n in topological(node.inputs) if n.inputs and not np.isfinite(values[n][0]).all()]
        made = [n for n in above if all(np.isfinite(values[i][0]).all() for i in n.inputs)]
        nans = {n for n in above if np.isnan(values[n][0]).any()}
        made += [n for n in nans.difference(made) if nans.isdisjoint(n.inputs)]  # 0 * inf
        found |= dict.fromkeys(made or [node])
    return list(found)


def _by_name(cotangents: Mapping[Node, Array], names: Mapping[Leaf, Name]) -> dict[Name, Array]:
    """The gradients of the inputs; what several nodes stand for gets their sum."""
    found: dict[Name, Array] = {}
    for node, name in names.items():
        if node in cotangents:
            with np.errstate(invalid="ignore"):
                found[name] = found[name] + cotangents[node] if name in found else cotangents[node]
    return found
