"""Whose fault a non-finite gradient is: which operation broke the cotangent, and whether a selection made its zero."""

from typing import NamedTuple

import numpy as np

from wherelint.graph.evaluate import truth
from wherelint.graph.node import Node
from wherelint.ops import OPERATIONS
from wherelint.ops.traits import CLIPS, ROWS, SINGULAR
from wherelint.search.batch import Run, at
from wherelint.search.dependence import Dependence


class Blamed(NamedTuple):
    """The operation to name for what a probe shows, and the selection that makes its zero."""

    culprit: Node
    select: Node
    #: Whether it is nan or inf data that it computes with.
    data: bool


def reaches_leaf(run: Run, start: Node, p: int) -> Node | None:
    """Follow the non-finite cotangent from ``start`` to a leaf that it poisons.

    Returns the clip that symbolic-zero arithmetic would have stopped it at, ``start`` where there is none, and
    None where it reaches no leaf (an inner mask holds it back).
    """
    todo: list[tuple[Node, Node]] = [(start, start)]
    seen = {start}
    while todo:
        node, clip = todo.pop()
        if node.op == "leaf":
            if node in run.symbolic.cotangents and at(run.poisoned(node), p).any():
                return clip
            continue
        if node is not start and node.selection in CLIPS and clip is start and run.is_broken("symbolic", node, p):
            clip = node
        for operand in node.inputs:
            if operand not in seen and run.is_broken("ieee", operand, p):
                seen.add(operand)
                todo.append((operand, clip))
    return None


def flat_root(run: Run, start: Node, p: int) -> Node | None:
    """The root of squares that a non-finite cotangent from ``start`` meets, and that the arm that is taken hands a 0.

    To mask the dropped arm is not enough there: the root itself makes a nan of any zero.
    """
    todo, seen = [start], {start}
    while todo:
        node = todo.pop()
        if node in run.symbolic.flat and at(run.symbolic.flat[node], p).any():
            return node
        fresh = [i for i in node.inputs if i not in seen and run.is_broken("ieee", i, p)]
        seen.update(fresh)
        todo += fresh
    return None


def root_drops(run: Run, root: Node, start: Node, p: int, dependence: Dependence) -> bool:
    """Whether the root drops an operand that reads ``start``, or the operation drops one itself (``x ** 0``)."""
    reading = [i for i in root.inputs if i in run.ieee.cotangents and dependence.reads(i, start)]
    own = OPERATIONS[start.op].unselected is not None if start.op in OPERATIONS else False
    return own or any(_drops(run, root, i, p) for i in reading)


def _drops(run: Run, select: Node, operand: Node, p: int) -> bool:
    values = [at(run.values[i], p) for i in select.inputs]
    for i, candidate in enumerate(select.inputs):
        if candidate is not operand:
            continue
        if select.op == "where" or (select.op == "cond" and i <= 2):
            taken = truth(values[0])
            return bool((~taken if i == 1 else taken).any()) if i else False
        if select.op == "cond":
            taken = truth(values[0])
            return bool((~taken if i < 3 + select.static.index else taken).any())
        if select.op == "compress":
            return i == 1 and bool((~truth(values[0])).any())
        if select.op in ("pick", "lane"):
            return select.op == "lane" or i != select.static.index
        if select.selection == "multiply":
            return i == select.static.operand and bool((values[1 - i] == 0).any())
        entry = OPERATIONS.get(select.op)
        if entry is not None and entry.unselected is not None:
            mask = entry.unselected(*[v.reshape(1, -1) for v in values])[i]
            return mask is not None and bool(mask.any())
    return False


def culprit_of(run: Run, node: Node, p: int) -> tuple[Node | None, bool]:
    """The operation to name: where the cotangent broke, or the one upstream that made its operand non-finite."""
    current = node
    singular = node if node.op in SINGULAR else None
    while True:
        broken = [i for i in current.inputs if i.kind == "float" and run.is_broken("values", i, p)]
        if not broken or (current.op in ROWS and (at(run.values[broken[0]], p) < np.inf).all()):
            return (current if current.op in SINGULAR else singular), False
        current = broken[0]
        if current.op == "leaf":
            return node, True
        if current.op == "const":
            return singular, False
        if current.op in SINGULAR:
            singular = current
