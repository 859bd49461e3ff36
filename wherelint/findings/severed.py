"""Gradients that are cut rather than poisoned: the opt-in rules about piecewise constant operations and host NumPy."""

from collections.abc import Iterator

import numpy as np

from wherelint.finding import Witness
from wherelint.graph.evaluate import evaluate
from wherelint.graph.node import Node, differentiated, flowing_back, leaves, topological
from wherelint.interpret.programs import Program
from wherelint.ops.traits import PIECEWISE
from wherelint.search.probes import Inputs


def severed(program: Program) -> Iterator[tuple[str, Node, str]]:
    """(code, node, operation) for every cut between a differentiable input and what leaves the function."""
    outputs = [s for s in program.outputs if s.kind == "float"]
    order = topological(outputs)
    requires_grad = differentiated(order)
    live = flowing_back(outputs)
    for node in order:
        if node.op in PIECEWISE and node in live and node.inputs[0] in requires_grad:
            yield "WL401", node, node.op
        elif node.op == "stop" and _computed_with(node, order, live):
            source = node.inputs[0]
            host = node.static.host
            if host is not None and any(i in requires_grad for i in source.inputs):
                yield "WL402", node, host
            elif host is None and node.kind == "int" and source in requires_grad:
                yield "WL401", node, "integer cast"


def _computed_with(node: Node, order: list[Node], live: set[Node]) -> bool:
    """Whether a value is an operand of something differentiated, not just an index or a condition."""
    if node in live:
        return True
    for user in order:
        if user in live and node in user.inputs:
            slots = {i for i, operand in enumerate(user.inputs) if operand is node}
            if slots - ({0} if user.op in ("where", "cond", "compress") else set()):
                return True
    return False


def witness(node: Node) -> Witness:
    """A generic input, at which the gradient is 0 where the operation's slope is not."""
    read = leaves(node)
    inputs: Inputs = {n: np.full((1, 1), True if n.kind == "bool" else np.float32(1.25)) for n in read}
    value = evaluate(topological([node]), inputs)[node]
    named = {n.name: 1.25 for n in read if n.kind == "float"}
    return Witness(named, float(np.asarray(value, np.float32).flat[0]), dict.fromkeys(named, 0.0))
