"""Roots whose epsilon comes too late, an opt-in rule: ``x / (sqrt(s) + eps)`` is finite at 0, and its gradient is not.

No selection is needed: the author met the zero, and made the value finite there, not the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from wherelint.graph.differentiate import Tape, backward
from wherelint.graph.evaluate import evaluate
from wherelint.graph.node import Const, Leaf, Node, flowing_back, leaves, topological, unreshaped
from wherelint.interpret.programs import Program
from wherelint.ops.traits import NORMS, QUOTIENTS
from wherelint.search.probes import Inputs
from wherelint.search.witness import Hazard, Search

_ROOTS = NORMS | {"sqrt"}
_LOGARITHMS = frozenset({"log", "log2", "log10"})
#: What is no larger is added to keep away from zero.
_EPSILON = 1e-2


class Late(NamedTuple):
    """A root, the sum that adds the epsilon, and the operation that the epsilon is for."""

    root: Node
    sum: Node
    user: Node


def late_epsilons(program: Program, arithmetic: Callable[[Node], str]) -> Iterator[tuple[Hazard, Search]]:
    """The roots of a program that may be 0 where their user is finite and its gradient is not; once each.

    ``arithmetic``: whose derivatives count at a node; that of a norm is regular in PyTorch.
    """
    outputs = [each for each in program.outputs if each.kind == "float"]
    live = flowing_back(outputs)
    found = {late.root: late for late in _late(topological(outputs)) if late.user in live}
    for late in found.values():
        search = Search(late.user, arithmetic(late.root))
        hazard = _hazard(late, search)
        if hazard is not None:
            yield hazard, search


def _late(order: list[Node]) -> Iterator[Late]:
    for user in order:
        operands = user.inputs[1:2] if user.op in QUOTIENTS else user.inputs if user.op in _LOGARITHMS else ()
        for added in (each for each in map(unreshaped, operands) if each.op == "add"):
            for one, other in (added.inputs, added.inputs[::-1]):
                if unreshaped(one).op in _ROOTS and _is_epsilon(other):
                    yield Late(unreshaped(one), added, user)


def _is_epsilon(node: Node) -> bool:
    """Whether a value is a small positive constant, or a parameter whose default is one."""
    value = node.value if isinstance(node, Const) else node.usual if isinstance(node, Leaf) else None
    return value is not None and np.min(value) > 0 and np.max(value) <= _EPSILON


def _hazard(late: Late, search: Search) -> Hazard | None:
    """What happens where the root is 0, if all 0 or all 1 is such an input."""
    moved = [n for n in leaves(late.root) if n.kind == "float" and n.usual is None and not n.fixed]
    for start in search.begin():
        for number in (0.0, 1.0):
            inputs: Inputs = {**start, **{n: np.full_like(start[n], number) for n in moved}}
            values = evaluate(search.order, inputs)
            if not search.allowed(values).all() or (values[late.root] != 0).any():
                continue
            cotangents = backward(Tape(search.order), values, late.user, search.framework, symbolic=False).cotangents
            gradient = {n: cotangents[n] for n in moved if n in cotangents}
            if np.isfinite(values[late.user]).all() and not all(np.isfinite(g).all() for g in gradient.values()):
                return Hazard(late.root, late.sum, frozenset(), inputs, values[late.user], gradient)
    return None
