"""The inputs of a program at the probes, those that stand for calls that could not be followed among them.

What such a call gives is not known, but that it gives the same for the same: in a rewritten program it has its old
value wherever its arguments have theirs, and another one elsewhere. An impure call is only itself.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from wherelint.findings.hazards import Detection
from wherelint.graph.differentiate import fails
from wherelint.graph.evaluate import Values, evaluate
from wherelint.graph.node import LANES, Call, Const, Leaf, Node, leaves, matrix, topological, whole
from wherelint.interpret.programs import Program
from wherelint.ops import Array
from wherelint.search.batch import any_lane, row
from wherelint.search.bisect import aimed
from wherelint.search.probes import Inputs, Pool, perturbations

#: Of how many inputs nearest to the selection each is moved, and of how many each is missing in turn.
_MOST_MOVED, _MOST_MISSING = 8, 24
#: Probes that move every input, whether anybody would or not.
_EVERYTHING = 64
_MISSING = (np.nan, np.inf, -np.inf)
#: At how many points where operations are singular, of how many operations, with how many values of the rest at each.
_MOST_POINTS, _MOST_OPERATIONS, _OTHERS = 12, 3, 32

#: An input as both texts call it: its name, whether it is a number or a bool, and which of several of that name it is.
Name = tuple[str, str, int]


class Called(NamedTuple):
    """An input that depends on other values: what is called, and with what."""

    name: Name
    called: Call | None
    given: list[Array]
    value: Array


@dataclass
class Settled:
    """Every value of a program at the probes."""

    values: Values
    names: dict[Leaf, Name]
    calls: list[Called] = field(default_factory=list)


def settle(program: Program, inputs: Mapping[Name, Array], before: Sequence[Called] | None = None) -> Settled | None:
    """The values of a program whose inputs are known by name; ``before``: the calls of the one it was rewritten from.

    None where it reads an input, or makes an impure call, that the other one did not have.
    """
    probes = max((len(v) for v in inputs.values()), default=1)
    order = _order(program)
    names = _named(order)
    result = Settled({}, names)
    found: Inputs = {}
    waiting: list[Node] = []
    for node in order:
        given = node.given if isinstance(node, Leaf) and node in names else ()
        if given:
            result.values = evaluate(waiting, found, known=result.values)
            waiting = []
        if isinstance(node, Leaf) and node in names:
            args = [result.values[g] for g in given]
            value = _value(node, names[node], args, inputs, before, probes)
            if value is None:
                return None
            found[node], names[node] = value
            if given or node.call is not None:
                result.calls.append(Called(names[node], node.call, args, found[node]))
        waiting.append(node)
    result.values = evaluate(waiting, found, known=result.values)
    return result


def _value(
    node: Leaf, name: Name, args: list[Array], inputs: Mapping[Name, Array], before: Sequence[Called] | None, count: int
) -> tuple[Array, Name] | None:
    """The value of an input, and the name that it had."""
    if before is None or not (args or node.call is not None):
        known = inputs.get(name)
        if known is None and before is not None:
            return None
        return (np.repeat(benign(node, 0), count, axis=0) if known is None else known), name
    called = node.call
    alike = [c for c in before if (c.name == name if called is None else c.called == called and c.name[1] == name[1])]
    if called is not None and called.number is not None:
        # Of several ways through a function each has a call of that number.
        alike = [c for c in alike if c.name == name] or alike
        if len(alike) != 1:
            return None
    # What a call gives for arguments that it never had.
    value = np.repeat(np.zeros_like(benign(node, 0)), count, axis=0)  # a bool stays one
    if node.kind == "float":
        value = np.repeat(np.float32(-0.377) - benign(node, 3), count, axis=0)
    old_name = name
    for call in sorted(alike, key=lambda c: c.name == name):
        if len(call.given) == len(args):
            same = np.ones((1, 1), np.bool_)
            for old, new in zip(call.given, args, strict=True):
                same = same & ((old == new) | ((old != old) & (new != new)))
            value = np.where(same, call.value, value)
            old_name = call.name if same.any() else old_name
    return value, old_name


@lru_cache(maxsize=16)
def _order(program: Program) -> list[Node]:
    return list(settling(roots_of(program)))


def settling(roots: Sequence[Node], *, shapes: bool = False) -> Iterator[Node]:
    """Every node that some nodes read, and every one that a call which they read was given; operands first.

    With ``shapes`` also those that a constant has its shape of, and masks that elements were kept by.
    """
    done: set[Node] = set()
    for root in roots:
        stack = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if ready:
                yield node
            elif node not in done:
                done.add(node)
                stack.append((node, True))
                facts: tuple[Node, ...] = (*(node.of or ())[:1], *node.given) if isinstance(node, Leaf) else ()
                shape = node.like if isinstance(node, Const) else node.kept if isinstance(node, Leaf) else None
                if shapes and shape is not None:
                    facts = (*facts, shape)
                stack += [(n, False) for n in (*facts, *node.inputs)[::-1]]


def names_of(roots: Sequence[Node]) -> dict[Leaf, Name]:
    """The inputs of a program by what they are called; of several with one name each has a number.

    The entries of a matrix are inputs of their own where nothing else is computed from it.
    """
    return _named(list(settling(roots)))


def _named(order: Sequence[Node]) -> dict[Leaf, Name]:
    seen: Counter[tuple[str, str]] = Counter()
    names: dict[Leaf, Name] = {}
    known = set(order)
    read = {operand for node in order for operand in node.inputs}
    for node in order:
        if isinstance(node, Leaf) and (whole(node, known) is node or (node.entry and matrix(node) not in read)):
            # That a number is an integer may be seen in one function, and hold in another of the same object.
            called = (node.name, "bool" if node.kind == "bool" else "number")
            names[node] = (*called, seen[called])
            seen[called] += 1
    return names


def benign(leaf: Leaf, number: int) -> Array:
    """An ordinary value for an input; ``number`` tells inputs apart."""
    if leaf.kind == "bool":
        return np.full((1, LANES), leaf.preferred is not False, np.bool_)
    if leaf.default is not None:
        return np.full((1, LANES), leaf.default, np.float32)
    if leaf.kind == "int":
        return np.full((1, LANES), 1 if leaf.least is None else leaf.least, np.float32)
    return (0.55 + 0.07 * (number % 5) + 0.05 * np.arange(LANES, dtype=np.float32))[None, :]


@lru_cache(maxsize=16)
def inputs_of(program: Program) -> dict[Leaf, Name]:
    """The inputs of a program by what they are called."""
    return names_of(roots_of(program))


def roots_of(program: Program) -> list[Node]:
    """What a program computes that the proof speaks of, and what has to hold where it does."""
    conditions = [condition for n in program.outputs for condition in n.path_conditions]
    return list(dict.fromkeys([*program.order, *program.outputs, *conditions]))


def witness_of(program: Program, detection: Detection) -> tuple[dict[Name, Array], dict[Name, Array]]:
    """The inputs of a program at the witness of a hazard, and where its search began; benign where neither says."""
    # A witness is one of the function that was searched: an input of that name elsewhere is another.
    called = inputs_of(detection.program) if program.name == detection.program.name else {}
    starts = detection.search.starts
    witness, start = (_by_whole(point, called) for point in (detection.hazard.inputs, starts[0] if starts else {}))
    base = {name: witness.get(name, benign(n, i)) for i, (n, name) in enumerate(inputs_of(program).items())}
    return base, {name: {**witness, **start}.get(name, value) for name, value in base.items()}


def _by_whole(point: Mapping[Node, Array], called: Mapping[Leaf, Name]) -> dict[Name, Array]:
    """A point in terms of some inputs, each with the elements that the point has as inputs of their own."""
    found = {name: point[n] for n, name in called.items() if n in point}
    for node, value in point.items():
        if isinstance(node, Leaf) and node.of is not None and node not in called and node.of[0] in called:
            array, index = node.of
            known = found.setdefault(called[array], benign(array, 0))
            found[called[array]] = np.where(np.arange(LANES) == index % LANES, value[:, :1], known)
    return found


def probes(
    program: Program, detection: Detection, singular: Sequence[Node], selections: Sequence[Node]
) -> tuple[dict[Name, Array], int]:
    """The witness of a hazard and other inputs of a program, and how many of these, the last, nobody would give."""
    names = inputs_of(program)
    witness, begun = witness_of(program, detection)
    start: Inputs = {n: begun[name] for n, name in names.items()}
    pool = Pool(program.order)
    near = dict.fromkeys(n for n in (*leaves(*selections), *names) if n in names and not n.fixed)
    batch = perturbations(start, list(near)[:_MOST_MOVED], pool, thorough=True, joint=2)
    points = aimed(singular, batch, evaluate(program.order, batch)) if singular else []
    batch = {n: np.concatenate([v, *(point[n] for point in points)]) for n, v in batch.items()}
    rng = np.random.default_rng(len(start))
    moved = {n: _drawn(n, column, _EVERYTHING, pool.values(n), rng) for n, column in start.items()}
    odd = [_missing(start), _around(singular, batch, pool)]
    beyond = sum(max((len(v) for v in each.values()), default=0) for each in odd)
    found = {}
    for n, name in names.items():
        tried = np.concatenate([batch[n], moved[n], *(each[n] for each in odd)])
        found[name] = np.concatenate([witness[name], np.broadcast_to(tried, (len(tried), witness[name].shape[1]))])
    return found, beyond


def _missing(start: Inputs) -> Inputs:
    """Probes at which one input, or an element of it, is no number, or a zero with a sign."""
    floats = [n for n in start if n.kind == "float"][:_MOST_MISSING]
    cases = [(n, v, e) for n in floats for v in (*_MISSING, -0.0) for e in (slice(None), slice(1))]
    cases = [(n, v, e) for n, v, e in cases if np.isnan(v) or not isinstance(n, Leaf) or n.default is None]
    found: Inputs = {}
    for node, column in start.items():
        found[node] = np.repeat(column, len(cases), axis=0)
        for i, (leaf, value, elements) in enumerate(cases):
            if leaf is node:
                found[node][i, elements] = value
    return found


def _around(operations: Sequence[Node], batch: Inputs, pool: Pool) -> Inputs:
    """Probes at which an operation is singular by one operand, with a zero of either sign, whatever the rest is."""
    rng = np.random.default_rng(len(batch))
    found: dict[Node, list[Array]] = {n: [v[:0]] for n, v in batch.items()}
    values = evaluate(topological(operations), batch)
    number = np.arange(_OTHERS)
    for operation in operations[:_MOST_OPERATIONS]:
        fail = any_lane(fails(operation, values, ""))
        *operands, _ = np.broadcast_arrays(*(values[i] for i in operation.inputs), fail[:, None])
        points = np.flatnonzero(fail)
        points = points[_spread(np.concatenate(operands, axis=1)[points])]
        for reads in dict.fromkeys(frozenset(n for n in topological([i]) if n in batch) for i in operation.inputs):
            for p in points.tolist() if reads else ():
                rest = 0
                for node, column in batch.items():
                    here = column[row(column, p)]
                    if node in reads:
                        drawn = np.repeat(here, _OTHERS, axis=0)
                        if node.kind == "float":
                            drawn[number % 2 == 1] = np.where(here == 0, -here, here)
                    else:
                        values_of = (*pool.values(node), *(_MISSING if node.kind == "float" else ()))
                        drawn = _drawn(node, here, _OTHERS, values_of, rng)
                        if node.kind == "float":  # every subset of three inputs is 0, and at last all are no number
                            drawn[(number < 16) & (number >> 1 + rest % 3 & 1 == 1)] = 0.0
                            drawn[-len(_MISSING) :] = np.array(_MISSING)[:, None]
                            rest += 1
                    found[node].append(drawn)
    return {n: np.concatenate(parts) for n, parts in found.items()}


def _spread(operands: Array) -> Array:
    """The places of some of these rows, from one end of what they are to the other."""
    _, first = np.unique(operands, axis=0, return_index=True)
    return first[np.unique(np.linspace(0, len(first) - 1, _MOST_POINTS).astype(int))] if len(first) else first


def _drawn(node: Node, column: Array, count: int, telling: Sequence[float], rng: np.random.Generator) -> Array:
    """Random values for an input, some of them telling ones."""
    shape = (count, column.shape[1])
    if node.kind == "bool":
        return np.broadcast_to(rng.random((count, 1)) < 0.5, shape).astype(column.dtype)
    if node.kind != "float":
        return np.broadcast_to(rng.choice(telling, (count, 1)), shape).astype(column.dtype)
    near = rng.uniform(-2.0, 3.0, shape)
    picked = np.array(telling)[rng.integers(0, len(telling), shape)]
    drawn = np.where(rng.random((count, 1)) < 0.5, near, column)
    return np.where(rng.random(shape) < 0.25, picked, drawn).astype(column.dtype)
