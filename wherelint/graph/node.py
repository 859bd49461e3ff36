"""The graph: what a piece of a program computes, free of framework and of syntax.

A node is an operation of the catalogue or one of the structural operations below. Values are arrays of shape
(probes, lanes): a probe is one input to try, the lanes stand for the elements of an array. A value that is the same
along the lanes may have the shape (probes, 1).

========== ===================================================================================================
leaf       an input: a parameter, an attribute, the result of a call that could not be followed
const      a number or a small array known from the source
stop       the value without its derivative: ``stop_gradient``, ``detach``, an integer cast, host NumPy
cond       a lazy choice (Python ``if``, ``lax.cond``): the arm not taken contributes nothing, not even a zero
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
from typing import Any, Literal

import numpy as np

from wherelint.ops import Array

#: How many elements an array has in the model: enough for a quaternion, and for constant masks to differ.
LANES = 4

#: The lanes one place on: what an index that is not known reads.
ROLLED = (*range(1, LANES), 0)

#: Which lanes stand for the diagonal of a matrix.
DIAGONAL = (True, *[False] * (LANES - 2), True)

Kind = Literal["float", "int", "bool"]


@dataclass(eq=False, slots=True)
class Node:
    """One value of the program. Identity is equality: sharing is what makes it a graph."""

    op: str
    inputs: tuple[Node, ...] = ()
    params: dict[str, Any] = field(default_factory=dict)
    kind: Kind = "float"
    #: Whatever the front end needs to find the expression again; the graph never looks inside.
    origin: Any = None
    #: "where", "multiply", "clip" ...: set where this node may drop an operand, see ``Finding.select``.
    selection: str | None = None
    framework: str | None = None
    #: Predicates that hold whenever this node is computed (early returns, asserts, the arms around it).
    path_conditions: tuple[Node, ...] = ()
    #: Leaves: whether a NaN in its gradient matters to anybody.
    differentiable: bool = True
    #: Leaves: a constant of the program whose value is not known here; it is benign, and no witness moves it.
    fixed: bool = False

    def __repr__(self) -> str:
        detail = self.params.get("name", self.params.get("value", ""))
        return f"<{self.op} {detail}>" if detail != "" else f"<{self.op}/{len(self.inputs)}>"


def leaf(name: str, *, kind: Kind = "float", differentiable: bool = True, origin: Any = None) -> Node:
    """An input by the author's name for it. Integers and booleans are never differentiated."""
    return Node(
        "leaf", params={"name": name}, kind=kind, origin=origin, differentiable=differentiable and kind == "float"
    )


def const(value: object, *, origin: Any = None) -> Node:
    """A number, or a nested list of numbers; a long array is represented by elements that span it."""
    array = np.asarray(value)
    kind: Kind = "bool" if array.dtype == np.bool_ else "int" if array.dtype.kind in "iu" else "float"
    flat = array.reshape(-1)
    if flat.size > LANES:
        flat = _spanning(flat)
    elif 1 < flat.size < LANES:
        flat = np.resize(flat, LANES)
    data = flat.reshape(1, -1) if kind == "bool" else flat.astype(np.float64).reshape(1, -1)
    return Node("const", params={"value": data}, kind=kind, origin=origin)


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
    shown = [*single, *(long[i * len(long) // room] for i in range(room))]
    return tuple(sorted(shown))


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
                    stack.append((child, iter(child.inputs)))
                    break
            else:
                order.append(node)
                stack.pop()
    return order


def rounded_away(node: Node) -> bool:
    """Whether float32 makes an exact 0 or 1 of a constant that is none."""
    if node.op != "const":
        return False
    exact = node.params["value"].astype(np.float64)
    with np.errstate(over="ignore"):
        rounded = exact.astype(np.float32).astype(np.float64)
    return bool(((rounded != exact) & np.isin(rounded, (0.0, 1.0, -1.0))).any())


def reading(order: Iterable[Node], nodes: Iterable[Node]) -> set[Node]:
    """Some nodes, and those of ``order`` that read one of them, directly or not."""
    found = set(nodes)
    for node in order:
        if not found.isdisjoint(node.inputs):
            found.add(node)
    return found


def leaves(*roots: Node) -> list[Node]:
    """The inputs that the roots read, in a stable order."""
    return [n for n in topological(roots) if n.op == "leaf"]


def whole(leaf: Node, known: Collection[Node]) -> Node:
    """The input that a leaf is an element of (of an element of ...), as far as that is known; else the leaf itself."""
    while leaf.params.get("of", (None,))[0] in known:
        leaf = leaf.params["of"][0]
    return leaf


#: Operands through which no derivative flows, by operation.
_SEVERED: dict[str, tuple[int, ...]] = {"stop": (0,), "where": (0,), "cond": (0,), "compress": (0,), "custom": (0,)}


def differentiable_inputs(node: Node) -> tuple[int, ...]:
    """Which operands of a node receive a cotangent: none below a comparison, an integer or a ``stop_gradient``."""
    if node.kind != "float":
        return ()
    severed = _SEVERED.get(node.op, ())
    return tuple(i for i, operand in enumerate(node.inputs) if i not in severed and operand.kind == "float")


def differentiated(order: Iterable[Node]) -> set[Node]:
    """The nodes of ``order`` from which a differentiable leaf can be reached."""
    chosen: set[Node] = set()
    for node in order:
        if node.op == "leaf":
            if node.differentiable:
                chosen.add(node)
        elif any(node.inputs[i] in chosen for i in differentiable_inputs(node)):
            chosen.add(node)
    return chosen
