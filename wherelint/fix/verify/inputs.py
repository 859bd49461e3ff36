"""The inputs of a program at the probes, those that stand for calls that could not be followed among them.

What such a call gives is not known, but that it gives the same for the same: in a rewritten program it has its old
value wherever its arguments have theirs, and another one elsewhere. An impure call is only itself.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from wherelint.graph.evaluate import Values, evaluate
from wherelint.graph.node import LANES, Call, Const, Leaf, Node, matrix, whole
from wherelint.ops import Array
from wherelint.search.probes import Inputs

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
    #: What was given to calls whose result may have changed.
    crossed: set[Node] = field(default_factory=set)


def settle(
    roots: Sequence[Node], inputs: Mapping[Name, Array], before: Sequence[Called] | None = None
) -> Settled | None:
    """The values of a program whose inputs are known by name; ``before``: the calls of the one it was rewritten from.

    None where it reads an input, or makes an impure call, that the other one did not have.
    """
    probes = max((len(v) for v in inputs.values()), default=1)
    order = list(settling(roots))
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
            found[node], same, names[node] = value
            if not same:
                result.crossed.update(given)
            if given or node.call is not None:
                result.calls.append(Called(names[node], node.call, args, found[node]))
        waiting.append(node)
    result.values = evaluate(waiting, found, known=result.values)
    return result


def _value(
    node: Leaf, name: Name, args: list[Array], inputs: Mapping[Name, Array], before: Sequence[Called] | None, count: int
) -> tuple[Array, bool, Name] | None:
    """The value of an input, whether it is all that it was, and the name that it had."""
    known = inputs.get(name)
    depends = bool(args) or node.call is not None
    if before is None or not depends:
        if known is None and before is not None:
            return None
        return (np.repeat(benign(node, 0), count, axis=0) if known is None else known), True, name
    called = node.call
    if called is not None and called.number is not None:
        numbered = [c for c in before if c.called is not None and c.called.number == called.number]
        # Of several ways through a function each has a call of that number.
        alike = [c for c in numbered if c.called == called and c.name == name] or numbered
        if [c.called for c in alike] != [called]:
            return None
    elif called is not None:
        alike = [c for c in before if c.called == called and c.name[1] == name[1]]
    else:
        alike = [c for c in before if c.name == name]
    value, settled = _other(node, count), np.zeros((1, 1), np.bool_)
    old_name = name
    for call in sorted(alike, key=lambda c: c.name == name):
        if len(call.given) == len(args):
            same = np.ones((1, 1), np.bool_)
            for old, new in zip(call.given, args, strict=True):
                same = same & ((old == new) | ((old != old) & (new != new)))
            value, settled = np.where(same, call.value, value), settled | same
            old_name = call.name if same.any() else old_name
    return value, bool(settled.all()), old_name


def _other(node: Leaf, probes: int) -> Array:
    """What a call gives for arguments that it never had."""
    if node.kind != "float":
        return np.repeat(np.zeros_like(benign(node, 0)), probes, axis=0)  # a bool stays one
    return np.repeat(np.float32(-0.377) - benign(node, 3), probes, axis=0)


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
                told: tuple[Node, ...] = (*(node.of or ())[:1], *node.given) if isinstance(node, Leaf) else ()
                shape = node.like if isinstance(node, Const) else node.kept if isinstance(node, Leaf) else None
                if shapes and shape is not None:
                    told = (*told, shape)
                stack += [(n, False) for n in (*told, *node.inputs)[::-1]]


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
