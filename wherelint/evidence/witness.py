"""Can the input occur? How far a witness had to go for what it shows."""

from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np

from wherelint.evidence.names import is_setting
from wherelint.evidence.pieces import Evidence
from wherelint.graph.evaluate import evaluate
from wherelint.graph.node import Node, leaves, topological
from wherelint.ops import OPERATIONS, Array
from wherelint.ops.traits import QUOTIENTS
from wherelint.search.batch import Hazard, Run, at
from wherelint.search.probes import LOG_PROBABILITY

#: What is no larger is added to keep away from zero.
_EPSILON = 1e-3
#: Functions that are 0 nowhere.
_POSITIVE = frozenset({"exp", "sigmoid", "softplus"})


def witness(run: Run, culprit: Node, p: int, requires_grad: Collection[Node]) -> Iterator[Evidence]:
    """What speaks against the inputs of a witness.

    ``requires_grad``: the nodes from which something that is differentiated can be reached.
    """
    moved = [n for n in leaves(culprit) if n in run.inputs and run.moved(n, p)]
    decisive = [n for n in leaves(culprit.inputs[1] if culprit.op in QUOTIENTS else culprit) if n in run.inputs]
    is_chosen = bool(decisive) and all(map(is_setting, decisive))  # moved, or drawn at random for all departures alike
    if is_chosen or any(n.usual is not None or is_setting(n) for n in moved):
        yield Evidence.SETTING
    if any(_cancels_epsilon(run, n, p) or _underflows(run, n, p) for n in topological(culprit.inputs)):
        yield Evidence.UNLIKELY_INPUT
    if OPERATIONS[culprit.op].code == "WL106" and overflows(run, culprit, p):
        yield Evidence.UNLIKELY_INPUT
    signed = [n for n in moved if n.kind == "float" and not LOG_PROBABILITY.search(n.name)]
    if any(_is_below_zero(at(run.inputs[n], p)) for n in signed):
        yield Evidence.BELOW_ZERO
    if culprit not in requires_grad:
        yield Evidence.SETTING


def as_shown(hazard: Hazard) -> Hazard:
    """A hazard whose witness was simplified, without what no longer holds of it."""
    moved = (n for n in leaves(hazard.op) if n in hazard.inputs and n.kind == "float")
    is_below = any(_is_below_zero(hazard.inputs[n]) for n in moved)
    return hazard if is_below else replace(hazard, evidence=hazard.evidence - {Evidence.BELOW_ZERO})


def _is_below_zero(values: Array) -> bool:
    """Whether a number is; what is -inf is ruled out."""
    return bool(((values < 0) & np.isfinite(values)).any())


def is_regular_in_double(hazard: Hazard) -> bool:
    """Whether the operation of a hazard has a finite gradient where the same inputs are computed with in float64."""
    order = topological([hazard.op])
    double = {n: v.astype(np.float64) if v.dtype.kind == "f" else v for n, v in hazard.inputs.items()}
    if not all(n in double for n in order if n.op == "leaf"):
        return False
    values = evaluate(order, double, np.float64)
    operands = [values[i] for i in hazard.op.inputs]
    with np.errstate(all="ignore"):
        parts = OPERATIONS[hazard.op.op].vjp(np.ones_like(values[hazard.op]), values[hazard.op], *operands)
    return all(bool(np.isfinite(p).all()) for p in parts if p is not None)


def overflows(run: Run, node: Node, p: int) -> bool:
    """Whether a node makes something infinite of finite numbers other than 0."""
    operands = [at(run.values[i], p) for i in node.inputs]
    regular = all(np.isfinite(o).all() and (o != 0).all() for o in operands)
    return regular and bool(np.isinf(at(run.values[node], p)).any())


def _underflows(run: Run, node: Node, p: int) -> bool:
    """Whether a positive value is exactly 0 since float32 has nothing smaller: a scale, a rate, a gate."""
    return node.op in _POSITIVE and bool(
        ((at(run.values[node], p) == 0) & np.isfinite(at(run.values[node.inputs[0]], p))).any()
    )


def _cancels_epsilon(run: Run, node: Node, p: int) -> bool:
    """Whether a node adds an epsilon to what is just its opposite: such a sum is written for what is not negative."""
    if node.op not in ("add", "subtract"):
        return False
    parts = [at(run.values[i], p) for i in node.inputs]
    tiny = any(i.op == "const" and (np.abs(part) > 0).all() and (np.abs(part) <= _EPSILON).all()
               for i, part in zip(node.inputs, parts, strict=True))  # fmt: skip
    return tiny and bool((at(run.values[node], p) == 0).any())
