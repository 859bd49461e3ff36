"""Whether an input can occur: how far a witness had to go for what it shows."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from wherelint.graph.node import Node, topological
from wherelint.graph.run import Run, at, code

#: Numbers beyond are nobody's data.
_HUGE = 1e6


def occurrence(run: Run, culprit: Node, p: int, requires_grad: Collection[Node]) -> Iterator[str]:
    """What speaks against the inputs of a witness, by the names of the score's table.

    ``requires_grad``: the nodes from which something that is differentiated can be reached.
    """
    read = [n for n in topological([culprit]) if n.op == "leaf"]
    moved = [n for n in read if n in run.inputs and run.moved(n, p)]
    if any("usual" in n.params for n in moved):
        yield "leaves a default"
    if any("optional" in n.params for n in moved):
        yield "moves an optional input"
    if any(n.kind == "int" for n in moved):
        yield "moves an integer"
    if any((at(run.inputs[n], p) < 0).any() for n in moved if n.kind == "float"):
        yield "moves below zero"
    operands = [at(run.values[i], p) for i in culprit.inputs]
    result = at(run.values[culprit], p)
    far = all(np.isfinite(o).all() and (o != 0).all() for o in operands) and np.isinf(result).any()
    if far or code(culprit) == "WL107" or any((np.abs(o) > _HUGE).any() for o in operands):
        yield "overflows"
    yield from read_gradient(culprit, requires_grad)


def read_gradient(culprit: Node, requires_grad: Collection[Node]) -> Iterator[str]:
    """What an operation reads that is not differentiated, whatever the witness."""
    if culprit not in requires_grad:
        yield "the operation reads no gradient"
    elif not any(i in requires_grad for i in (culprit.inputs[1:2] if culprit.op == "divide" else culprit.inputs)):
        yield "the operand reads no gradient"
