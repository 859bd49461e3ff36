"""The graph: what a piece of a program computes, free of framework and of syntax.

A node is an operation of the catalogue or one of the structural operations below. Values are arrays of shape
(probes, lanes): a probe is one input to try, the lanes stand for the elements of an array. A value that is the same
along the lanes may have the shape (probes, 1).

========== ===================================================================================================
leaf       an input: a parameter, an attribute, the result of a call that could not be followed
const      a number or a small array known from the source
stop       the value without its derivative: ``stop_gradient``, ``detach``, an integer cast, host NumPy
cond       a lazy choice (Python ``if``, ``lax.cond``): the arm not taken contributes nothing, not even a zero;
           further operands, values that only the one or only the other arm reads, receive a zero instead
lane       one element, ``x[..., k]``
stack      each lane is taken from one of the operands, in order: ``array([a, b])``, ``concatenate([a, b])``
pick       one operand of several: ``array([a, b])[k]``
gather     some of the elements, in another order: ``x[indices]``, ``x[1:]``; the others receive no cotangent
custom     the value of a function with a derivative of its own; that derivative is taken to be finite
compress   the elements where a mask holds, ``x[mask]``; a dropped lane repeats one that was kept
where      a selection: both arms are computed and differentiated
========== ===================================================================================================
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from wherelint.ops import Array

#: How many elements an array has in the model: enough for a quaternion, and for constant masks to differ.
LANES = 4

#: The lanes one place on: what an index that is not known reads.
ROLLED = (*range(1, LANES), 0)

#: Which lanes stand for the diagonal of a matrix.
DIAGONAL = (True, *[False] * (LANES - 2), True)

Kind = Literal["float", "int", "bool"]


@dataclass(frozen=True, slots=True)
class Static:
    """What an operation is told besides its operands."""

    #: lane, pick: which element, or which operand. cond: how many of its further operands the first arm reads.
    index: int = 0
    #: gather, stack: which element, or which operand, each lane is taken from.
    lanes: tuple[int, ...] = ()
    #: stack: along a new axis.
    new_axis: bool = False
    #: gather: by an index that was computed from values.
    searched: bool = False
    #: identity: with an axis more.
    spread: bool = False
    #: identity: converted to numbers.
    number: bool = False
    #: stop: the operation of NumPy that the value comes from.
    host: str | None = None
    #: stop: it is a number of Python.
    python: bool = False
    #: A product with a mask: which operand it may drop, and whether the compiler makes a select of it.
    operand: int = 0
    select: bool = False
    #: where: one of the conditions of a list.
    listed: bool = False
    #: The framework whose kernel computes it, where that is not the framework that differentiates it.
    kernel: str | None = None


PLAIN = Static()


@dataclass(eq=False, slots=True)
class Node:
    """One value of the program. Identity is equality: sharing is what makes it a graph."""

    op: str
    inputs: tuple[Node, ...] = ()
    static: Static = PLAIN
    kind: Kind = "float"
    #: Whatever the front end needs to find the expression again; the graph never looks inside.
    origin: Any = None
    #: "where", "multiply", "clip" ...: set where this node may drop an operand, see ``Finding.select``.
    selection: str | None = None
    framework: str | None = None
    #: Predicates that hold whenever this node is computed (early returns, asserts, the arms around it).
    path_conditions: tuple[Node, ...] = ()

    def __repr__(self) -> str:
        detail = getattr(self, "name", getattr(self, "value", f"/{len(self.inputs)}"))
        return f"<{self.op} {detail}>"


class Call(NamedTuple):
    """A call that was not followed: what is called, which of several that may differ, static arguments."""

    callee: str
    number: int | None
    args: tuple[object, ...]


@dataclass(eq=False, slots=True, repr=False)
class Leaf(Node):
    """An input: a parameter, an attribute, the result of a call that could not be followed."""

    op: str = "leaf"
    #: In the author's spelling, and the first variable that is bound to it, if it is none itself.
    name: str = ""
    called: str = ""
    #: Whether a NaN in its gradient matters.
    differentiable: bool = True
    #: A constant of the program whose value is not known here; it is benign, and no witness moves it.
    fixed: bool = False
    #: The values by which it is told from others, and the call that it is the result of.
    given: tuple[Node, ...] = ()
    call: Call | None = None
    #: The input that it is an element of, and which.
    of: tuple[Leaf, int] | None = None
    #: It is an entry of a matrix, ``m[i, j]``: what is said of one is said of the others.
    entry: bool = False
    #: What a flag is unless something else is tried.
    preferred: bool | None = None
    #: The range of an integer.
    least: int | None = None
    most: int | None = None
    #: What a parameter is unless it is passed: moved by a search, and moved by proofs alone.
    usual: float | None = None
    default: float | None = None
    #: A choice of the program, each side of which is tried.
    arm: bool = False
    #: A number that is chosen once for the whole run.
    setting: bool = False
    random: bool = False
    #: A complex number, of which the model knows as little as of the complex results: it computes with real ones.
    imaginary: bool = False
    #: NumPy computes with it, which no framework differentiates: JAX and PyTorch raise an error.
    host: bool = False
    #: Booleans: an array, as opposed to a flag. Numbers: bits, and an array that is used as a mask.
    array: bool = False
    bits: bool = False
    mask: bool = False
    #: Integers: computed from values; the indices of the elements that a mask keeps, or of its rows and columns.
    searched: bool = False
    kept: Node | None = None
    pairs: bool = False


@dataclass(eq=False, slots=True, repr=False)
class Const(Node):
    """A number or a small array: (1, 1) or (1, LANES)."""

    op: str = "const"
    value: Array = field(default_factory=lambda: np.zeros((1, 1)))
    #: Whether the array has one element.
    single: bool = False
    #: The array that it has the shape and the dtype of.
    like: Node | None = None


def leaf(name: str, *, kind: Kind = "float", differentiable: bool = True) -> Leaf:
    """An input by the author's name for it. Integers and booleans are never differentiated."""
    return Leaf(kind=kind, name=name, differentiable=differentiable and kind == "float")


def const(value: object, *, origin: Any = None) -> Const:
    """A number, or a nested list of numbers; a long array is represented by elements that span it."""
    array = np.asarray(value)
    kind: Kind = "bool" if array.dtype == np.bool_ else "int" if array.dtype.kind in "iu" else "float"
    flat = array.reshape(-1)
    if flat.size > LANES:
        flat = _spanning(flat)
    elif 1 < flat.size < LANES:
        flat = np.resize(flat, LANES)
    data = flat.reshape(1, -1) if kind == "bool" else flat.astype(np.float64).reshape(1, -1)
    return Const(kind=kind, origin=origin, value=data)


def _spanning(flat: Array) -> Array:
    """LANES elements of a long constant: its first, its extremes, a zero if it has one, and others between."""
    chosen = [0, int(np.argmin(flat)), int(np.argmax(flat)), *np.flatnonzero(flat == 0)[:1].tolist()]
    chosen += np.linspace(0, flat.size - 1, LANES).astype(int).tolist()
    return flat[np.resize(sorted(list(dict.fromkeys(chosen))[:LANES]), LANES)]


def spread(parts: int, single: Collection[int] = ()) -> tuple[int, ...]:
    """Which of several parts each lane of their concatenation shows, in order; a single element takes one lane."""
    if parts >= LANES:
        return tuple(range(LANES))
    if not single or len(single) == parts:
        return tuple(round(i * (parts - 1) / (LANES - 1)) for i in range(LANES))
    long = [i for i in range(parts) if i not in single]
    room = LANES - len(single)
    return tuple(sorted([*single, *(long[i * len(long) // room] for i in range(room))]))


def above(starts: Iterable[Node], through: Collection[str]) -> Iterator[Node]:
    """Some nodes and what they read as numbers, each once, going on through operations of some names alone."""
    todo, seen = list(starts), set[Node]()
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node
        if node.op in through:
            todo += [i for i in node.inputs if i.kind == "float"]


def unreshaped(node: Node) -> Node:
    """The array that a chain of reshapes and transposes looks at."""
    while node.op == "identity":
        node = node.inputs[0]
    return node


def topological(roots: Iterable[Node]) -> list[Node]:
    """Every node the roots read, operands first."""
    done: set[Node] = set()
    order: list[Node] = []
    stack: list[tuple[Node, Iterator[Node]]] = []
    for root in roots:
        if root in done:
            continue
        done.add(root)
        stack.append((root, iter(root.inputs)))
        while stack:
            node, children = stack[-1]
            for child in children:
                if child not in done:
                    done.add(child)
                    if child.inputs:
                        stack.append((child, iter(child.inputs)))
                        break
                    order.append(child)
            else:
                order.append(node)
                stack.pop()
    return order


def rounded_away(node: Node) -> bool:
    """Whether float32 makes an exact 0 or 1 of a constant that is none."""
    return isinstance(node, Const) and any(map(_rounded_away, node.value.flat))


@lru_cache(maxsize=1024)
def _rounded_away(exact: float) -> bool:
    with np.errstate(over="ignore"):
        rounded = float(np.float32(exact))
    return rounded != exact and rounded in (0.0, 1.0, -1.0)


def reading(order: Iterable[Node], nodes: Iterable[Node]) -> set[Node]:
    """Some nodes, and those of ``order`` that read one of them, directly or not."""
    found = set(nodes)
    for node in order:
        if not found.isdisjoint(node.inputs):
            found.add(node)
    return found


def leaves(*roots: Node) -> list[Leaf]:
    """The inputs that the roots read, in a stable order."""
    return inputs_in(topological(roots))


def matrix(leaf: Leaf) -> Leaf:
    """The matrix that an input is an entry of, else the input itself."""
    return leaf.of[0] if leaf.entry and leaf.of is not None else leaf


def inputs_in(order: Iterable[Node]) -> list[Leaf]:
    """The inputs among some nodes."""
    return [n for n in order if isinstance(n, Leaf)]


def whole(leaf: Leaf, known: Collection[Node]) -> Leaf:
    """The outermost known input that a leaf is an element of (of an element of ...); the leaf itself if none is."""
    found = each = leaf
    while each.of is not None:
        each = each.of[0]
        found = each if each in known else found
    return found


#: Operands through which no derivative flows, by operation.
_SEVERED: dict[str, tuple[int, ...]] = {"stop": (0,), "where": (0,), "cond": (0,), "compress": (0,), "custom": (0,)}


def differentiable_inputs(node: Node) -> tuple[int, ...]:
    """Which operands of a node receive a cotangent: none below a comparison, an integer or a ``stop_gradient``."""
    if node.kind != "float" or not node.inputs:
        return ()
    severed = _SEVERED.get(node.op, ())
    return tuple([i for i, operand in enumerate(node.inputs) if operand.kind == "float" and i not in severed])


def differentiated(order: Iterable[Node]) -> set[Node]:
    """The nodes of ``order`` from which a differentiable leaf can be reached."""
    chosen: set[Node] = set()
    for node in order:
        if isinstance(node, Leaf):
            if node.differentiable:
                chosen.add(node)
        elif any(node.inputs[i] in chosen for i in differentiable_inputs(node)):
            chosen.add(node)
    return chosen


def flowing_back(outputs: Iterable[Node]) -> set[Node]:
    """The nodes that receive a cotangent when the outputs do."""
    live = set(outputs)
    todo = list(live)
    while todo:
        node = todo.pop()
        for i in differentiable_inputs(node):
            operand = node.inputs[i]
            if operand not in live:
                live.add(operand)
                todo.append(operand)
    return live


def nearest_framework(root: Node) -> str | None:
    """The framework of the nearest call that names one."""
    layer, seen = [root], {root}
    while layer:
        following = []
        for node in layer:
            if node.framework is not None:
                return node.framework
            fresh = [i for i in node.inputs if i not in seen]
            seen.update(fresh)
            following += fresh
        layer = following
    return None
