"""The proof of a rewrite: the new text is read again, and computes the same with the gradient that was meant.

At every probe each value that leaves the function is the same where it was not nan, and its gradient is the one that
symbolic-zero arithmetic gave the old text, where that is finite. Operations hardly fail more often than before: another
may fail elsewhere now, which a finding of its own speaks of. The finding is gone and no other has come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from wherelint.finding import Finding
from wherelint.graph.aim import aimed
from wherelint.graph.differentiate import Tape, backward
from wherelint.graph.evaluate import evaluate
from wherelint.graph.node import LANES, Node, topological, whole
from wherelint.graph.probe import Inputs, Pool, departures
from wherelint.ops import Array
from wherelint.source.callers import place
from wherelint.source.hunt import Catch, arithmetic
from wherelint.source.roots import Program

_MOST_MOVED = 8
_MOST_SINKS = 6
#: What the rounding of a rewritten expression may change, relative to the value.
_TOLERANCE = 2e-5
#: How many times as often operations may fail at the probes after a rewrite.
_MORE = 1.25

Key = tuple[str, str, str, str]
#: A leaf as both texts call it: its name, its kind, and which of several of that name it is.
Name = tuple[str, str, int]


def key(finding: Finding) -> Key:
    """What a finding is about, wherever in the file it stands."""
    return (finding.code, finding.op, finding.select.kind, finding.function)


def gone(before: Sequence[Finding], after: Sequence[Finding], fixed: Sequence[Finding]) -> bool:
    """Whether some findings have gone and no other has come."""
    rest = Counter(map(key, before))
    rest.subtract(map(key, fixed))
    return all(rest[k] >= count for k, count in Counter(map(key, after)).items())


def come(before: Sequence[Finding], after: Sequence[Finding]) -> list[Finding]:
    """The findings that have come."""
    old = Counter(map(key, before))
    fresh = []
    for finding in after:
        old[key(finding)] -= 1
        if old[key(finding)] < 0:
            fresh.append(finding)
    return fresh


@dataclass
class Record:
    """What a program computes at the probes, leaf by leaf and outlet by outlet."""

    inputs: dict[Name, Array]
    values: list[Array]
    #: How many values on the way are not finite at the first probe, the witness.
    broken: int
    #: For each outlet the gradient of every leaf.
    gradients: list[dict[Name, Array]] = field(default_factory=list)
    #: Whether nothing on the way, forward or back, is not finite at the witness.
    clean: bool = True
    #: At how many probes an outlet is finite and IEEE arithmetic loses its gradient.
    lost: int = 0
    #: Whether that is so at the witness.
    poisoned: bool = False
    #: How often, where an outlet is finite, an operation breaks a cotangent that symbolic zeros leave whole.
    failures: int = 0
    #: How many selections have numbers for a condition, which only JAX takes.
    numeric: int = 0


def record(program: Program, catch: Catch) -> Record:
    """Probe a program around the witness of a hazard."""
    order = program.order
    names = names_of(order)
    hazard = catch.hazard
    base: Inputs = {n: benign(n, i) for i, n in enumerate(names)}
    base.update({n: v for n, v in hazard.inputs.items() if n in names})
    starts = catch.search.starts
    start = {**base, **{n: v for n, v in (starts[0] if starts else {}).items() if n in names}}
    read = [n for n in (*topological([hazard.select]), *names) if n in names and not n.fixed]
    moved = list(dict.fromkeys(read))[:_MOST_MOVED]
    batch = departures(start, moved, Pool(order), thorough=True, joint=2)
    singular = [n for n in order if n.op == hazard.op.op and place(n) == place(hazard.op)]
    aims = aimed(singular, batch, evaluate(order, batch)) if singular else []
    batch = {n: np.concatenate([v, *(point[n] for point in aims)]) for n, v in batch.items()}
    inputs = {
        n: np.concatenate([base[n], np.broadcast_to(v, (v.shape[0], base[n].shape[1]))]) for n, v in batch.items()
    }
    return _run(program, {names[n]: v for n, v in inputs.items()}, arithmetic(catch.framework), {})


def renamed(before: Record, program: Program) -> dict[Name, Name] | None:
    """Opaque inputs of a rewritten program that stand for ones of the recorded program: calls whose arguments changed.

    What is not known of a call is taken to be the same after its argument was masked. None where the program reads
    something that the recorded one did not have: a name that is not bound there.
    """
    names = list(names_of(program.order).values())
    new = [name for name in names if name not in before.inputs]
    old = [name for name in before.inputs if name not in names]
    if any(a[0].isidentifier() or a[1] != b[1] for a, b in zip(new, old, strict=False)) or len(new) > len(old):
        return None
    return dict(zip(new, old, strict=False))


def same(before: Record, program: Program, framework: str, renames: Mapping[Name, Name]) -> Record | None:
    """The record of another program if it computes what was recorded, wherever that was a number; None otherwise.

    Its operations may hardly fail more often, and no selection may have got a number for its condition.
    """
    now = _run(program, before.inputs, arithmetic(framework), renames)
    if len(now.values) != len(before.values) or now.broken > before.broken or now.numeric > before.numeric:
        return None
    if now.failures > _MORE * before.failures:
        return None
    differ = 0
    for i, (old, new) in enumerate(zip(before.values, now.values, strict=True)):
        agree = _agree(old, new, ~np.isnan(old)) and _same_gradient(before.gradients[i], now.gradients[i])
        differ += not agree
    # A call whose argument was masked receives something else, and that is all.
    return now if differ <= len(renames) else None


def _same_gradient(before: Mapping[Name, Array], now: Mapping[Name, Array]) -> bool:
    for name, old in before.items():
        new = now.get(name, np.zeros((1, 1), np.float32))
        if not _agree(old, new, np.isfinite(old)):
            return False
    return True


def _agree(old: Array, new: Array, known: Array) -> bool:
    """Whether two arrays agree in every element that is known."""
    lanes = max(old.shape[1], new.shape[1])
    rows = max(old.shape[0], new.shape[0])
    old, new, known = (np.broadcast_to(a, (rows, lanes)) for a in (old, new, known))
    with np.errstate(all="ignore"):
        return bool(np.allclose(new[known], old[known], rtol=_TOLERANCE, atol=1e-6))


def _run(program: Program, inputs: dict[Name, Array], framework: str, renames: Mapping[Name, Name]) -> Record:
    order = program.order
    probes = next((len(v) for v in inputs.values()), 1)
    found: Inputs = {}
    names = {node: renames.get(name, name) for node, name in names_of(order).items()}
    for i, (node, name) in enumerate(names.items()):
        known = inputs.get(name)
        found[node] = np.repeat(benign(node, i), probes, axis=0) if known is None else known
    values = evaluate(order, found)
    outlets = [s for s in program.sinks if s.kind == "float"][:_MOST_SINKS]
    broken = sum(not np.isfinite(v[0]).all() for n, v in values.items() if n.kind == "float" and n.op != "const")
    result = Record(inputs, [values[s] for s in outlets], broken, clean=broken == 0)
    result.numeric = sum(n.op in ("where", "compress") and is_number(n.inputs[0]) for n in order)
    for outlet in outlets:
        part = topological([outlet])
        tape = Tape(part)
        if outlet not in tape.wanted:
            result.gradients.append({})
            continue
        symbolic = backward(tape, values, outlet, framework, symbolic=True)
        real = backward(tape, values, outlet, framework, symbolic=False)
        exact, ieee = symbolic.cotangents, real.cotangents
        result.gradients.append({name: exact[n] for n, name in names.items() if n in exact})
        result.clean = result.clean and all(np.isfinite(ct[0]).all() for ct in ieee.values())
        nan = [(~np.isfinite(ieee[n])).any(axis=1) for n in names if n in ieee]
        finite = np.asarray(np.isfinite(values[outlet]).all(axis=1))
        result.poisoned |= bool(finite[0]) and any(
            bool((~np.isfinite(ieee[n][:1]) & np.isfinite(exact[n][:1])).any()) for n in names if n in ieee
        )
        result.lost += int((np.logical_or.reduce(np.broadcast_arrays(*nan)) & finite).sum()) if nan else 0
        fresh = [b & ~symbolic.broke[n] if n in symbolic.broke else b for n, b in real.broke.items()]
        result.failures += sum(int((each.any(axis=1) & finite).sum()) for each in fresh)
    return result


def is_number(mask: Node) -> bool:
    """Whether a mask is an array of numbers."""
    while mask.op == "identity" and not mask.params.get("number"):
        mask = mask.inputs[0]
    return mask.kind != "bool" or mask.op == "identity"


def names_of(order: Sequence[Node]) -> dict[Node, Name]:
    """The leaves by what they are called; of several with one name each has a number."""
    seen: Counter[tuple[str, str]] = Counter()
    names: dict[Node, Name] = {}
    known = set(order)
    for node in order:
        if node.op == "leaf" and whole(node, known) is node:
            called = (str(node.params["name"]), node.kind)
            names[node] = (*called, seen[called])
            seen[called] += 1
    return names


def benign(leaf: Node, number: int) -> Array:
    """An ordinary value for an input; ``number`` tells inputs apart."""
    if leaf.kind == "bool":
        return np.full((1, LANES), leaf.params.get("value", True), np.bool_)
    if leaf.kind == "int":
        return np.full((1, LANES), leaf.params.get("least", 1), np.float32)
    return (0.55 + 0.07 * (number % 5) + 0.05 * np.arange(LANES, dtype=np.float32))[None, :]
