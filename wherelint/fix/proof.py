"""The proof of a rewrite: the new text is read again, and computes the same with the gradient that was meant.

At every probe each value that leaves the function is the same where it was finite, and its gradient is the one that
symbolic-zero arithmetic gave the old text, where that is finite. The finding is gone and no other has come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wherelint.finding import Finding
from wherelint.graph.differentiate import backward
from wherelint.graph.evaluate import Values, evaluate
from wherelint.graph.node import LANES, Node, differentiated, topological
from wherelint.graph.probe import Inputs, Pool, departures
from wherelint.ops import Array
from wherelint.source.hunt import Catch, arithmetic
from wherelint.source.roots import Program

_MOST_MOVED = 8
_MOST_SINKS = 6
#: What the rounding of a rewritten expression may change, relative to the value.
_TOLERANCE = 2e-5

Key = tuple[str, str, str, str]


def key(finding: Finding) -> Key:
    """What a finding is about, wherever in the file it stands."""
    return (finding.code, finding.op, finding.select.kind, finding.function)


def gone(before: Iterable[Finding], after: Iterable[Finding], fixed: Finding) -> bool:
    """Whether a finding has gone and no other has come."""
    old, new = Counter(map(key, before)), Counter(map(key, after))
    return new[key(fixed)] < old[key(fixed)] and all(old[k] >= count for k, count in new.items())


@dataclass
class Record:
    """What a program computes at the probes, leaf by leaf and outlet by outlet."""

    inputs: dict[Any, Array]
    values: list[Array]
    #: For each outlet the gradient of every leaf.
    gradients: list[dict[Any, Array]] = field(default_factory=list)


def record(program: Program, catch: Catch) -> Record:
    """Probe a program around the witness of a hazard."""
    order = program.order
    names = _names(order)
    hazard = catch.hazard
    base: Inputs = {n: _benign(n, i) for i, n in enumerate(names)}
    base.update({n: v for n, v in hazard.inputs.items() if n in names})
    starts = catch.search.starts
    start = {**base, **{n: v for n, v in (starts[0] if starts else {}).items() if n in names}}
    read = [n for n in (*topological([hazard.select]), *names) if n in names and not n.fixed]
    moved = list(dict.fromkeys(read))[:_MOST_MOVED]
    batch = departures(start, moved, Pool(order), thorough=True, joint=2)
    inputs = {
        n: np.concatenate([base[n], np.broadcast_to(v, (v.shape[0], base[n].shape[1]))]) for n, v in batch.items()
    }
    return _run(program, {names[n]: v for n, v in inputs.items()}, arithmetic(catch.framework))


def same(before: Record, program: Program, framework: str) -> bool:
    """Whether another program computes what was recorded, wherever that was finite."""
    now = _run(program, before.inputs, arithmetic(framework))
    if len(now.values) != len(before.values):
        return False
    pairs = zip(before.values, now.values, strict=True)
    if not all(_agree(old, new) for old, new in pairs):
        return False
    for old_gradient, new_gradient in zip(before.gradients, now.gradients, strict=True):
        for name, old in old_gradient.items():
            new = new_gradient.get(name)
            if new is None and np.any(np.isfinite(old) & (old != 0)):
                return False
            if new is not None and not _agree(old, new):
                return False
    return True


def _agree(old: Array, new: Array) -> bool:
    """Whether two arrays agree in every element where the first is finite."""
    lanes = max(old.shape[1], new.shape[1])
    rows = max(old.shape[0], new.shape[0])
    old, new = np.broadcast_to(old, (rows, lanes)), np.broadcast_to(new, (rows, lanes))
    known = np.isfinite(old)
    with np.errstate(all="ignore"):
        return bool(np.allclose(new[known], old[known], rtol=_TOLERANCE, atol=1e-6))


def _run(program: Program, inputs: dict[Any, Array], framework: str) -> Record:
    order = program.order
    probes = next((len(v) for v in inputs.values()), 1)
    found: Inputs = {}
    for i, (node, name) in enumerate(_names(order).items()):
        known = inputs.get(name)
        found[node] = np.repeat(_benign(node, i), probes, axis=0) if known is None else known
    values = evaluate(order, found)
    outlets = [s for s in program.sinks if s.kind == "float"][:_MOST_SINKS]
    result = Record(inputs, [values[s] for s in outlets])
    for outlet in outlets:
        result.gradients.append(_gradients(outlet, values, found, framework))
    return result


def _gradients(outlet: Node, values: Values, leaves: Inputs, framework: str) -> dict[Any, Array]:
    order = topological([outlet])
    wanted = differentiated(order)
    if outlet not in wanted:
        return {}
    cotangents = backward(order, values, outlet, wanted, framework, symbolic=True).cotangents
    names = _names(order)
    return {names[n]: cotangents[n] for n in names if n in cotangents and n in leaves}


def _names(order: Sequence[Node]) -> dict[Node, tuple[str, str, int]]:
    """The leaves by what they are called; of several with one name each has a number."""
    seen: Counter[tuple[str, str]] = Counter()
    names = {}
    known = set(order)
    for node in order:
        if node.op == "leaf" and node.params.get("of", (None,))[0] not in known:
            called = (str(node.params["name"]), node.kind)
            names[node] = (*called, seen[called])
            seen[called] += 1
    return names


def _benign(leaf: Node, number: int) -> Array:
    if leaf.kind == "bool":
        return np.full((1, LANES), leaf.params.get("value", True), np.bool_)
    if leaf.kind == "int":
        return np.full((1, LANES), leaf.params.get("least", 1), np.float32)
    return (0.55 + 0.07 * (number % 5) + 0.05 * np.arange(LANES, dtype=np.float32))[None, :]
