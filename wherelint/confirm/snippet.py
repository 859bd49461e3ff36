"""From the graph of a finding to the plain program that shows it, before and after the fix."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
import numpy as np

from wherelint.confirm.routine import MOST_STEPS, PROBES, NotRunnableError, Routine, Snippet, Step
from wherelint.edits import Source
from wherelint.finding import Finding
from wherelint.fix import propose
from wherelint.fix.proof import benign, names_of
from wherelint.graph.differentiate import backward
from wherelint.graph.evaluate import Values, evaluate, truth
from wherelint.graph.node import LANES, Node, differentiated, topological
from wherelint.graph.probe import Inputs, departures
from wherelint.graph.run import any_lane, joined, rows
from wherelint.ops import OPERATIONS, Array
from wherelint.source.findings import Analysis, analyse
from wherelint.source.hunt import Catch, arithmetic
from wherelint.source.module import Block, GiveUp, Module
from wherelint.source.roots import Program, programs
from wherelint.source.values import Origin

_MOST_MOVED = 10
_MOST_ROUNDS = 4


def snippet(analysis: Analysis, finding: Finding) -> Snippet | str:
    """The program that shows a finding of an analysis; why there is none."""
    catch = next((c for f, c in analysis.found if f.code == finding.code and f.location == finding.location
                  and f.select == finding.select), None)  # fmt: skip
    if catch is None:
        return "this rule reports no gradient that is nan"
    try:
        return _snippet(analysis, finding, catch)
    except NotRunnableError as error:
        return str(error)
    except RecursionError:
        return "it is nested too deeply"


def _snippet(analysis: Analysis, finding: Finding, catch: Catch) -> Snippet:
    root, hazard = catch.search.root, catch.hazard
    order = topological([root, *catch.search.facts])
    resolved = _Resolved(root, evaluate(order, hazard.inputs))
    inputs = _probes(catch, order, resolved)
    values = evaluate(order, inputs)
    poisoned, before = _poisoned(root, values, catch.framework), resolved.routine(inputs)
    after = _after(analysis, finding, catch, inputs, values[root])
    if after is None:
        return Snippet(finding.framework, finding.function, before, None, tuple(poisoned.tolist()), ())
    routine, still = after
    return Snippet(finding.framework, finding.function, before, routine, tuple(poisoned.tolist()),
                   tuple((poisoned & ~still).tolist()))  # fmt: skip


def _probes(catch: Catch, order: list[Node], resolved: _Resolved) -> Inputs:
    """The witness, and departures from a benign point that take the same arms of every lazy choice."""
    search, witness = catch.search, catch.hazard.inputs
    start = {**witness, **(search.starts[0] if search.starts else {})}
    start = {n: v for n, v in start.items() if n in witness}
    movable = [n for n in search.guard.movable() if n in start][:_MOST_MOVED]
    batch, _ = joined([witness, departures(start, movable, search.pool, thorough=True, joint=2)])
    values = evaluate(order, batch)
    count = max((v.shape[0] for v in batch.values()), default=1)
    fit = np.ones(count, np.bool_)
    for fact in search.facts:
        fit &= rows(truth(values[fact]))
    for choice, taken in resolved.choices.items():
        fit &= rows(truth(values[choice]) == taken)
    chosen = np.flatnonzero(fit[1:]) + 1
    chosen = chosen[np.unique(np.linspace(0, len(chosen) - 1, PROBES - 1).astype(int))] if len(chosen) else chosen
    chosen = np.resize(np.concatenate([[0], chosen]), PROBES)  # always as many: compiled code is used again
    found = {n: np.broadcast_to(v, (count, v.shape[1]))[chosen] for n, v in batch.items()}
    # An array of the program whose elements the search arranged in another way stays as the witness has it.
    held = {n: np.repeat(v, PROBES, axis=0) for n, v in witness.items() if n.op == "const"}
    return {n: v for n, v in found.items() if n.op != "const"} | held


def _poisoned(root: Node, values: Values, framework: str) -> Array:
    """The probes at which the value is finite, the gradient is not, and a selection alone is why."""
    order = topological([root])
    wanted = differentiated(order)
    ieee, exact = (
        backward(order, values, root, wanted, arithmetic(framework), symbolic=symbolic).cotangents
        for symbolic in (False, True)
    )
    found = np.zeros(PROBES, np.bool_)
    for node in ieee:
        if node.op == "leaf" and node in exact:
            found |= any_lane(~np.isfinite(ieee[node]) & np.isfinite(exact[node]))
    return found & rows(np.isfinite(values[root]))


# -- the fixed program ------------------------------------------------------------------------------------------------


def _after(
    analysis: Analysis, finding: Finding, catch: Catch, inputs: Inputs, value: Array
) -> tuple[Routine, Array] | None:
    """The same selection in the text with the fix, and the probes at which something still poisons its gradient.

    Where something does at the witness, other operations of the function are fixed, too.
    """
    project = analysis.module.project
    if finding.fix is None or not finding.fix.edits or project is None:
        return None
    fix, found = finding.fix, None
    try:
        for _ in range(_MOST_ROUNDS):
            module = project.revised(Source(analysis.module.text).edited(fix.edits))
            found = _at_root(module, analysis, catch, inputs, value) or found
            if found is None or not found[1][0]:
                break
            analysis = analyse(module, analysis.used, [catch.name], frozenset())
            offered = (propose(analysis, f) for f in analysis.findings if f.function == finding.function)
            following = next((f for f in offered if f is not None and f.edits), None)
            if following is None:
                break
            fix = following
    except (GiveUp, SyntaxError, NotRunnableError):
        pass
    return found


def _at_root(
    module: Module, analysis: Analysis, catch: Catch, inputs: Inputs, value: Array
) -> tuple[Routine, Array] | None:
    """The selection of a rewritten text, and the probes at which its gradient is poisoned."""
    programs_now = [p for p in programs(module, catch.name, analysis.used) if p.name == catch.program.name]
    if len(programs_now) != 1:
        return None
    program = programs_now[0]
    order = _everything(program)
    known = {name: inputs[node] for node, name in names_of(_everything(catch.program)).items() if node in inputs}
    given = {node: known.get(name, benign(node, i)) for i, (node, name) in enumerate(names_of(order).items())}
    held = [(node.params["value"], v) for node, v in inputs.items() if node.op == "const"]
    for node in (n for n in order if n.op == "const"):
        for old, now in held:
            if np.array_equal(old, node.params["value"]):
                given[node] = now
    values = evaluate(order, given)
    root = next(_same(program, catch.search.root, values, value), None)
    if root is None:
        return None
    resolved = _Resolved(root, evaluate(order, {n: v[:1] for n, v in given.items()}))
    return resolved.routine(given), _poisoned(root, values, catch.framework)


def _everything(program: Program) -> list[Node]:
    return topological([*(s for s in program.sinks if s.kind == "float"), *program.made])


def _same(program: Program, root: Node, values: Values, value: Array) -> Iterator[Node]:
    """Nodes of a fixed program that compute what a node of the program before did, the likeliest first."""
    likely = sorted(program.made, key=lambda n: (n.op != root.op, n.selection != root.selection))
    known = ~np.isnan(value)
    for node in [*likely, *program.sinks]:
        if node.kind == "float" and node in values:
            now = values[node]
            shape = np.broadcast_shapes(now.shape, value.shape)
            if shape == np.broadcast_shapes(value.shape, (PROBES, 1)):
                now, old, wanted = (np.broadcast_to(a, shape) for a in (now, value, known))
                if np.allclose(now[wanted], old[wanted], rtol=2e-5, atol=1e-6):
                    yield node


# -- the steps --------------------------------------------------------------------------------------------------------


class _Resolved:
    """A graph without lazy choices: only the arm that the witness takes is a part of the program."""

    def __init__(self, root: Node, witness: Values) -> None:
        self._witness = witness
        self._known = set(topological([root]))
        #: The predicates of the choices that were resolved, and what they are.
        self.choices: dict[Node, bool] = {}
        self._root = self._plain(root)

    def _plain(self, node: Node) -> Node:
        """What stands for a node: the arm taken, the array behind a reshape, the value that is its own element."""
        while True:
            if node.op == "cond":
                taken = truth(self._witness[node.inputs[0]])
                if taken.any() != taken.all():
                    raise NotRunnableError("a choice of the program differs between the elements")
                self.choices[node.inputs[0]] = bool(taken.all())
                node = node.inputs[1 if taken.all() else 2]
            elif self._idle(node):
                node = node.inputs[0]
            else:
                return node

    def _idle(self, node: Node) -> bool:
        if node.op in ("lane", "gather"):
            return not self._wide(node.inputs[0])
        if node.op == "stop":
            return node.inputs[0].kind == "bool"
        return node.op == "identity" and (node.kind == node.inputs[0].kind or node.inputs[0].kind != "bool")

    def _operands(self, node: Node) -> list[Node]:
        if node.op == "leaf":
            inner = node.params.get("of", (None,))[0]
            return [inner] if inner in self._known else []
        if node.op in ("const", "custom"):
            return []
        if node.op == "stack":  # each element of the array is one of one of the parts
            return [self._plain(node.inputs[part]) for part in node.params["parts"]]
        return [self._plain(i) for i in node.inputs]

    def routine(self, inputs: Inputs) -> Routine:
        """The steps, and the probes of the parameters. What has a derivative of its own is a parameter, too."""
        steps: list[Step] = []
        probes: list[Array] = []
        place: dict[Node, int] = {}
        names = _Names()
        values = evaluate(topological([self._root]), inputs)

        def add(step: Step) -> int:
            steps.append(step)
            if len(steps) > MOST_STEPS:
                raise NotRunnableError(f"it computes more than {MOST_STEPS} values")
            return len(steps) - 1

        todo = [self._root]
        while todo:
            node = todo[-1]
            waiting = [i for i in dict.fromkeys(self._operands(node)) if i not in place]
            if node in place or waiting:
                todo.pop() if node in place else todo.extend(reversed(waiting))
                continue
            operands = tuple(place[i] for i in self._operands(node))
            if (node.op == "leaf" and not operands) or node.op == "custom":
                probes.append(np.broadcast_to(values[node], (PROBES, LANES)))
                text = str(node.params["name"]) if node.op == "leaf" else names.text(node)
                flows = node.differentiable if node.op == "leaf" else True
                place[node] = add(Step("leaf", (), node.kind, flows and node.kind == "float", text))
            elif node.op == "stack":
                lanes = [
                    add(Step("lane", (o,), node.kind, i)) if self._wide(node.inputs[part]) else o
                    for i, (o, part) in enumerate(zip(operands, node.params["parts"], strict=True))
                ]
                place[node] = add(Step("join", tuple(lanes), node.kind, None, names.of(node)))
            else:
                value = values[node][0] if node in inputs else node.params.get("value")
                place[node] = add(_step(node, operands, names.of(node), value))
            todo.pop()
        return Routine(tuple(steps), tuple(probes))

    def _wide(self, node: Node) -> bool:
        return bool(self._witness[node].shape[1] > 1)


def _step(node: Node, operands: tuple[int, ...], name: str, value: Array | None) -> Step:
    if node.op == "leaf":
        return Step("lane", operands, node.kind, node.params["of"][1] % LANES, name)
    if node.op == "const":
        numbers = np.asarray(value).reshape(-1).tolist()
        numbers = [int(n) for n in numbers] if node.kind == "int" else numbers
        return Step("const", (), node.kind, numbers[0] if len(numbers) == 1 else tuple(numbers))
    if node.op in ("lane", "pick"):
        index = node.params["index"] % LANES if node.op == "lane" else node.params["index"]
        return Step({"pick": "nth"}.get(node.op, node.op), operands, node.kind, index, name)
    if node.op == "gather":
        return Step("gather", operands, node.kind, tuple(node.params["index"]), name)
    if node.op == "compress":
        return Step("keep", operands, node.kind, None, name)
    if node.op not in OPERATIONS and node.op not in ("where", "stop"):
        raise NotRunnableError(f"{node.op} has no spelling")
    return Step(node.op, operands, node.kind, None, name)


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
            self._assigned[origin.block] = dict(_assignments(origin.block.tree))
        return self._assigned[origin.block].get(id(origin.node), "")

    @staticmethod
    def text(node: Node) -> str:
        """How the author wrote a value."""
        return node.origin.block.text(node.origin.node) if isinstance(node.origin, Origin) else node.op


def _assignments(tree: cst.CSTNode) -> Iterator[tuple[int, str]]:
    """The identity of every expression that a plain variable is assigned, with the variable's name."""
    todo: list[cst.CSTNode] = [tree]
    while todo:
        node = todo.pop()
        todo += node.children
        target: cst.CSTNode | None = None
        if isinstance(node, cst.Assign) and len(node.targets) == 1:
            target = node.targets[0].target
        elif isinstance(node, (cst.AnnAssign, cst.NamedExpr)):
            target = node.target
        value = getattr(node, "value", None)
        if isinstance(target, cst.Name) and value is not None:
            yield id(value), target.value
