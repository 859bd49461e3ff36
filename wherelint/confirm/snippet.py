"""From the graph of a finding to the plain program that shows it, before and after the fix."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import numpy as np

from wherelint.confirm.after_fix import after_fix, poisoned
from wherelint.confirm.routine import MOST_STEPS, PROBES, NotRunnableError, Routine, Snippet, Step
from wherelint.finding import Finding
from wherelint.findings.analysis import Analysis
from wherelint.findings.hazards import Detection
from wherelint.findings.witness import variable
from wherelint.graph.evaluate import Values, evaluate, truth
from wherelint.graph.node import LANES, Const, Leaf, Node, Static, leaves, topological
from wherelint.interpret.values import Origin
from wherelint.ops import OPERATIONS, Array
from wherelint.search.batch import joined, rows
from wherelint.search.probes import Inputs, perturbations

_MOST_MOVED = 10


def with_snippets(analysis: Analysis, finding: Finding) -> Finding:
    """A finding of an analysis with the programs that show it, and what its fix does, at each of its places."""
    first, *others = (replace(p, snippet=_program(analysis, replace(p, fix=finding.fix))) for p in finding.places)
    return replace(first, also=tuple(others))


def _program(analysis: Analysis, finding: Finding) -> Snippet | str:
    """The program that shows a finding; why there is none."""
    (_, detection), *_ = analysis.places(finding) or [(finding, None)]
    if detection is None:
        return "this rule is not about nan gradients"
    try:
        return _snippet(analysis, finding, detection)
    except NotRunnableError as error:
        return str(error)
    except RecursionError:
        return "it is nested too deeply"


def _snippet(analysis: Analysis, finding: Finding, detection: Detection) -> Snippet:
    root = detection.search.root
    order = topological([root, *detection.search.path_conditions])
    witness = detection.hazard.inputs
    resolved, choices = resolve_choices(root, evaluate(order, witness))
    inputs = _probes(detection, witness, order, choices)
    values = evaluate(order, inputs)
    bad = still = poisoned(root, values, detection.framework)
    before, after = routine(resolved, inputs), None
    if (fixed := after_fix(analysis, finding, detection, inputs, values[root])) is not None:
        with suppress(NotRunnableError):
            at_witness = evaluate(topological([fixed.root]), {n: v[:1] for n, v in fixed.inputs.items()})
            after = routine(resolve_choices(fixed.root, at_witness)[0], fixed.inputs)
            still = poisoned(fixed.root, fixed.values, detection.framework)
    repaired = tuple((bad & ~still).tolist())
    infinite = bool(np.isinf(detection.hazard.value).any())
    return Snippet(finding.framework, finding.function, before, after, tuple(bad.tolist()), repaired, infinite)


def _probes(detection: Detection, witness: Inputs, order: list[Node], choices: Mapping[Node, bool]) -> Inputs:
    """The witness, and perturbations of a benign point that take the same arms of every lazy choice."""
    search = detection.search
    start = {**witness, **(search.starts[0] if search.starts else {})}
    start = {n: v for n, v in start.items() if n in witness}
    movable = [n for n in search.guard.movable() if n in start][:_MOST_MOVED]
    batch, _ = joined([witness, perturbations(start, movable, search.pool, thorough=True, joint=2)])
    values = evaluate(order, batch)
    count = max((v.shape[0] for v in batch.values()), default=1)
    fit = np.ones(count, np.bool_)
    for condition in search.path_conditions:
        fit &= rows(truth(values[condition]))
    for predicate, holds in choices.items():
        fit &= rows(truth(values[predicate]) == holds)
    chosen = np.flatnonzero(fit[1:]) + 1
    chosen = chosen[np.unique(np.linspace(0, len(chosen) - 1, PROBES - 1).astype(int))] if len(chosen) else chosen
    chosen = np.resize(np.concatenate([[0], chosen]), PROBES)  # always as many: compiled code is used again
    found = {n: np.broadcast_to(v, (count, v.shape[1]))[chosen] for n, v in batch.items()}
    # An array of the program whose elements the search arranged in another way stays as the witness has it.
    held = {n: np.repeat(v, PROBES, axis=0) for n, v in witness.items() if n.op == "const"}
    return {n: v for n, v in found.items() if n.op != "const"} | held


def resolve_choices(root: Node, witness: Values) -> tuple[Node, dict[Node, bool]]:
    """The graph without lazy choices, each replaced by the arm that a witness takes; the predicates and their truth.

    Raises NotRunnableError where a choice differs between the elements.
    """
    choices: dict[Node, bool] = {}
    found: dict[Node, Node] = {}
    for node in topological([root]):
        inputs = tuple(found[i] for i in node.inputs)
        if node.op != "cond":
            found[node] = node if inputs == node.inputs else replace(node, inputs=inputs)
            continue
        holds = truth(witness[node.inputs[0]])
        if holds.any() == holds.all():
            choices[node.inputs[0]] = bool(holds.all())
            arm = inputs[1 if holds.all() else 2]
            # What an arm reads receives a zero, as an element does that is not picked.
            read = node.inputs[3:]
            found[node] = replace(node, op="pick", inputs=(arm, *inputs[3:]), static=Static()) if read else arm
        elif node.inputs[0].op == "const":  # elements that are written by their place: `x.at[0].add(1.0)`
            found[node] = replace(node, op="where", inputs=inputs)
        else:
            found[node] = replace(node, op="undecided")
    if any(node.op == "undecided" for node in topological([found[root]])):
        raise NotRunnableError("the program takes different branches for different elements")
    return found[root], choices


def routine(root: Node, inputs: Inputs) -> Routine:
    """The steps of a graph without lazy choices, and the probes of its parameters.

    What has a derivative of its own is a parameter, and what is computed from numbers is a number.
    """
    if any(leaf.imaginary for leaf in leaves(root)):
        raise NotRunnableError("it computes with complex numbers, but the model has real numbers only")
    return _Steps(root, inputs).routine()


class _Steps:
    def __init__(self, root: Node, inputs: Inputs) -> None:
        order = topological([root])
        self._root = root
        self._inputs = inputs
        self._known = set(order)
        self._values = evaluate(order, inputs)
        self._fixed = {n for n in _constants(order) if n.op == "stack" or not self._wide(n)}
        self._steps: list[Step] = []
        self._probes: list[tuple[tuple[float, ...], ...]] = []
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
        if node.op == "const" or node in self._fixed:
            exact = node.value if isinstance(node, Const) and node not in self._inputs else self._values[node]
            return self._push(_number(node, exact))
        if node.op == "custom" or (node.op == "leaf" and not operands):
            probes = np.broadcast_to(self._values[node], (PROBES, LANES))
            self._probes.append(tuple(map(tuple, probes.tolist())))
            text = variable(node) if isinstance(node, Leaf) else _text(node)
            flows = node.kind == "float" and not (isinstance(node, Leaf) and not node.differentiable)
            return self._push(Step("leaf", (), node.kind, flows, text))
        if node.op == "stack":
            parts = [self._standing_for(node.inputs[part]) for part in node.static.lanes]
            lanes = [
                self._push(Step("lane", (o,), part.kind, i)) if self._wide(part) else o
                for i, (o, part) in enumerate(zip(operands, parts, strict=True))
            ]
            return self._push(Step("join", tuple(lanes), "float"))
        return self._push(_operation(node, operands))

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


def _operation(node: Node, operands: tuple[int, ...]) -> Step:
    if isinstance(node, Leaf) and node.of is not None:
        return Step("lane", operands, node.kind, node.of[1] % LANES)
    data = {"lane": node.static.index % LANES, "pick": node.static.index, "gather": node.static.lanes}.get(node.op)
    op = {"pick": "nth", "compress": "keep"}.get(node.op, node.op)
    return Step(op, operands, "float" if node.op == "pick" else node.kind, data)


def _text(node: Node) -> str:
    """How the author wrote a value."""
    return node.origin.block.text(node.origin.node) if isinstance(node.origin, Origin) else node.op
