"""Whether an input can occur: how far a witness had to go for what it shows."""

from collections.abc import Collection, Iterator

import numpy as np

from wherelint.graph.node import Leaf, Node, leaves, topological
from wherelint.graph.run import Run, at, code, overflown

#: Numbers beyond are nobody's data.
_HUGE = 1e6
#: What is no larger is added to keep away from zero.
_EPSILON = 1e-3
#: What objects that hold settings are called.
_CONFIGURATIONS = frozenset(
    """args cfg conf config configs configuration flags hparams hps information opt options opts schedule scheduler
    settings setup""".split()
)


def occurrence(run: Run, culprit: Node, p: int, requires_grad: Collection[Node]) -> Iterator[str]:
    """What speaks against the inputs of a witness, by the names of the score's table.

    ``requires_grad``: the nodes from which something that is differentiated can be reached.
    """
    read = [n for n in leaves(culprit) if n in run.inputs]
    moved = [n for n in read if run.moved(n, p)]
    if any(n.usual is not None for n in moved):
        yield "leaves a default"
    if any(n.optional for n in moved):
        yield "moves an optional input"
    if any(map(is_setting, moved)) or (read and not moved and all(map(is_setting, read))):  # drawn at random
        yield "moves a setting"
    if any(_cancels_epsilon(run, n, p) for n in topological(culprit.inputs)):
        yield "cancels an epsilon"
    if any(n.kind == "int" for n in moved):
        yield "moves an integer"
    if any((at(run.inputs[n], p) < 0).any() for n in moved if n.kind == "float"):
        yield "moves below zero"
    huge = any((np.abs(at(run.values[i], p)) > _HUGE).any() for i in culprit.inputs)
    if huge or code(culprit) == "WL107" or overflown(run, culprit, p):
        yield "overflows"
    yield from read_gradient(culprit, requires_grad)


def read_gradient(culprit: Node, requires_grad: Collection[Node]) -> Iterator[str]:
    """What an operation reads that is not differentiated, whatever the witness."""
    if culprit not in requires_grad:
        yield "the operation reads no gradient"
    elif not any(i in requires_grad for i in (culprit.inputs[1:2] if culprit.op == "divide" else culprit.inputs)):
        yield "the operand reads no gradient"


def is_setting(leaf: Leaf) -> bool:
    """Whether an input is a number that somebody chose for the whole run."""
    return leaf.setting or is_configured(leaf.name)


def is_configured(name: str) -> bool:
    """Whether an input is a part of an object that holds settings."""
    parents = name.lower().split(".")[:-1]
    return not _CONFIGURATIONS.isdisjoint(part.strip("_").rpartition("_")[2] for part in parents)


def _cancels_epsilon(run: Run, node: Node, p: int) -> bool:
    """Whether a node adds an epsilon to what is just its opposite: such a sum is written for what is not negative."""
    if node.op not in ("add", "subtract"):
        return False
    parts = [at(run.values[i], p) for i in node.inputs]
    tiny = any(i.op == "const" and (np.abs(part) > 0).all() and (np.abs(part) <= _EPSILON).all()
               for i, part in zip(node.inputs, parts, strict=True))  # fmt: skip
    return tiny and bool((at(run.values[node], p) == 0).any())
