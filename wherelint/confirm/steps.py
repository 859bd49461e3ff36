"""From a graph to the steps of a routine."""

import ast
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from wherelint.confirm.routine import MOST_STEPS, PROBES, NotRunnableError, Routine, Step
from wherelint.frontend.module import Block
from wherelint.graph.evaluate import Values, evaluate, truth
from wherelint.graph.node import LANES, Const, Leaf, Node, Static, leaves, topological
from wherelint.interpret.values import Origin
from wherelint.ops import OPERATIONS, Array
from wherelint.search.probes import Inputs


def taken(root: Node, witness: Values) -> tuple[Node, dict[Node, bool]]:
    """The graph without lazy choices, each replaced by the arm that a witness takes; the predicates and their truth.

    Raises NotRunnableError where a choice differs between the elements.
    """
    choices: dict[Node, bool] = {}
    done: dict[Node, Node] = {}
    todo = [root]
    while todo:
        node = todo[-1]
        operands: tuple[Node, ...] = node.inputs
        lazy = node.op == "cond"
        read = operands[3:] if lazy else ()
        if lazy:
            holds = truth(witness[node.inputs[0]])
            if holds.any() == holds.all():
                choices[node.inputs[0]] = bool(holds.all())
                operands = (node.inputs[1 if holds.all() else 2], *read)
            elif node.inputs[0].op == "const":  # elements that are written by their place: `x.at[0].add(1.0)`
                lazy = False
            else:
                raise NotRunnableError("a choice of the program differs between the elements")
        waiting = [i for i in operands if i not in done]
        if node not in done and waiting:
            todo += waiting
            continue
        todo.pop()
        inputs = tuple(done[i] for i in operands)
        if lazy:
            # What an arm reads receives a zero, as an element does that is not picked.
            done[node] = replace(node, op="pick", inputs=inputs, static=Static()) if read else inputs[0]
        elif node.op == "cond":
            done[node] = replace(node, op="where", inputs=inputs)
        elif node not in done:
            done[node] = node if inputs == node.inputs else replace(node, inputs=inputs)
    return done[root], choices


def routine(root: Node, inputs: Inputs) -> Routine:
    """The steps of a graph without lazy choices, and the probes of its parameters.

    What has a derivative of its own is a parameter, and what is computed from numbers is a number.
    """
    if any(leaf.imaginary for leaf in leaves(root)):
        raise NotRunnableError("it computes with complex numbers, which the model takes for real ones")
    return _Steps(root, inputs).routine()


class _Steps:
    def __init__(self, root: Node, inputs: Inputs) -> None:
        order = topological([root])
        self._root = root
        self._inputs = inputs
        self._known = set(order)
        self._values = evaluate(order, inputs)
        self._fixed = {n for n in _constants(order) if n.op == "stack" or not self._wide(n)}
        self._names = _Names()
        self._steps: list[Step] = []
        self._probes: list[Array] = []
        self._place: dict[Node, int] = {}

    def routine(self) -> Routine:
        todo = [self._standing_for(self._root)]
        while todo:
            node = todo[-1]
            operands = self._operands(node)
            waiting = [i for i in dict.fromkeys(operands) if i not in self._place]
            if node not in self._place and waiting:
                todo += reversed(waiting)
                continue
            todo.pop()
            if node not in self._place:
                self._place[node] = self._add(node, tuple(self._place[i] for i in operands))
        return Routine(tuple(self._steps), tuple(self._probes))

    def _standing_for(self, node: Node) -> Node:
        """What stands for a node: the array behind a reshape, the value that is its own element."""
        while True:
            array = self._array(node)
            if array is not None and not self._wide(array):
                node = array
            elif self._idle(node):
                node = node.inputs[0]
            else:
                return node

    def _array(self, node: Node) -> Node | None:
        """The value that an input is an element of."""
        inner = node.of[0] if isinstance(node, Leaf) and node.of is not None else None
        return inner if inner in self._known else None

    def _idle(self, node: Node) -> bool:
        if node.op in ("lane", "gather"):
            return not self._wide(node.inputs[0])
        if node.op == "stop":
            return node.inputs[0].kind == "bool"
        return node.op == "identity" and (node.kind == "bool" or node.inputs[0].kind != "bool")

    def _wide(self, node: Node) -> bool:
        return bool(self._values[node].shape[1] > 1)

    def _operands(self, node: Node) -> list[Node]:
        if node.op in ("const", "custom") or node in self._fixed:
            return []
        if node.op == "leaf":
            array = self._array(node)
            return [] if array is None else [self._standing_for(array)]
        if node.op == "stack":  # each element of the array is one of one of the parts
            return [self._standing_for(node.inputs[part]) for part in node.static.lanes]
        return [self._standing_for(i) for i in node.inputs]

    def _add(self, node: Node, operands: tuple[int, ...]) -> int:
        name = self._names.of(node)
        if node.op == "const" or node in self._fixed:
            exact = node.value if isinstance(node, Const) and node not in self._inputs else self._values[node]
            return self._push(_number(node, exact))
        if node.op == "custom" or (node.op == "leaf" and not operands):
            self._probes.append(np.broadcast_to(self._values[node], (PROBES, LANES)))
            text = node.name if isinstance(node, Leaf) else self._names.text(node)
            flows = node.kind == "float" and not (isinstance(node, Leaf) and not node.differentiable)
            return self._push(Step("leaf", (), node.kind, flows, text))
        if node.op == "stack":
            parts = [self._standing_for(node.inputs[part]) for part in node.static.lanes]
            lanes = [
                self._push(Step("lane", (o,), part.kind, i)) if self._wide(part) else o
                for i, (o, part) in enumerate(zip(operands, parts, strict=True))
            ]
            return self._push(Step("join", tuple(lanes), "float", None, name))
        return self._push(_operation(node, operands, name))

    def _push(self, step: Step) -> int:
        self._steps.append(step)
        if len(self._steps) > MOST_STEPS:
            raise NotRunnableError(f"it computes more than {MOST_STEPS} values")
        return len(self._steps) - 1


def _constants(order: list[Node]) -> set[Node]:
    """The values that are computed from numbers alone."""
    found: set[Node] = set()
    for node in order:
        known = node.op in OPERATIONS or node.op == "stack"
        if known and node.inputs and all(i.op == "const" or i in found for i in node.inputs):
            found.add(node)
    return found


def _number(node: Node, values: Array) -> Step:
    """A number, or one an element."""
    numbers = [int(n) if node.kind == "int" else n for n in values[0].tolist()]
    return Step("const", (), node.kind, numbers[0] if len(numbers) == 1 else tuple(numbers))


def _operation(node: Node, operands: tuple[int, ...], name: str) -> Step:
    if isinstance(node, Leaf) and node.of is not None:
        return Step("lane", operands, node.kind, node.of[1] % LANES, name)
    data = {"lane": node.static.index % LANES, "pick": node.static.index, "gather": node.static.lanes}.get(node.op)
    op = {"pick": "nth", "compress": "keep"}.get(node.op, node.op)
    return Step(op, operands, "float" if node.op == "pick" else node.kind, data, name)


class _Names:
    """The variables of the author that values were assigned to."""

    def __init__(self) -> None:
        self._assigned: dict[Block, dict[int, str]] = {}

    def of(self, node: Node) -> str:
        """The variable that was assigned a value; empty where it went without one."""
        origin = node.origin
        if not isinstance(origin, Origin):
            return ""
        if origin.block not in self._assigned:
            self._assigned[origin.block] = dict(_assignments(origin.block.chunk.statement))
        return self._assigned[origin.block].get(id(origin.node), "")

    @staticmethod
    def text(node: Node) -> str:
        """How the author wrote a value."""
        return node.origin.block.text(node.origin.node) if isinstance(node.origin, Origin) else node.op


def _assignments(statement: ast.stmt) -> Iterator[tuple[int, str]]:
    """The identity of every expression that a plain variable is assigned, with the variable's name."""
    for node in ast.walk(statement):
        target: ast.AST | None = None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
            target = node.target
        if isinstance(target, ast.Name):
            yield id(getattr(node, "value", None)), target.id
