"""The selection of a finding in the text with the fix: its graph, and the same inputs by their names."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from wherelint.finding import Finding
from wherelint.findings.analysis import Analysis, analyse_functions
from wherelint.findings.hazards import Detection, arithmetic
from wherelint.fix import propose
from wherelint.fix.verify.inputs import Name, benign, names_of
from wherelint.frontend.module import Module
from wherelint.frontend.syntax import GiveUp
from wherelint.graph.differentiate import Tape, backward
from wherelint.graph.evaluate import Values, evaluate
from wherelint.graph.node import Const, Leaf, Node, differentiated, topological
from wherelint.interpret.programs import Program, programs
from wherelint.ops import Array
from wherelint.search.batch import any_lane, rows
from wherelint.search.probes import Inputs


@dataclass(frozen=True)
class Fixed:
    """A selection after a fix, and what it computes at the inputs."""

    root: Node
    inputs: Inputs
    values: Values
    #: The probes at which something poisons its gradient still.
    poisoned: Array
    #: The inputs of the program by what they are called.
    names: dict[Leaf, Name]


def after_fix(
    analysis: Analysis, finding: Finding, detection: Detection, inputs: Inputs, value: Array, rounds: int = 1
) -> Fixed | None:
    """The selection of a finding, whose value at some inputs is known, in the text with the fix; None without one.

    Where something poisons its gradient at the first input still, other operations of the function are fixed in more
    ``rounds``.
    """
    if finding.fix is None or not finding.fix.offered:
        return None
    fix, found = finding.fix, None
    with suppress(GiveUp, SyntaxError):
        for left in reversed(range(rounds)):
            module = analysis.module.project.revised(analysis.module.source.edited(fix.edits))
            found = _at_root(module, analysis, detection, inputs, value) or found
            if found is None or not found.poisoned[0] or not left:
                break
            analysis = analyse_functions(module, analysis.used, [detection.name], frozenset())
            offered = (propose(analysis, f) for f in analysis.findings if f.function == finding.function)
            following = next((f for f in offered if f is not None and f.offered), None)
            if following is None:
                break
            fix = following
    return found


def poisoned(root: Node, values: Values, framework: str) -> Array:
    """The probes at which the value is finite, the gradient is not, and a selection alone is why."""
    tape = Tape(topological([root]))
    ieee, exact = (
        backward(tape, values, root, arithmetic(framework), symbolic=symbolic).cotangents for symbolic in (False, True)
    )
    found = np.zeros(max(value.shape[0] for value in values.values()), np.bool_)
    for node in ieee:
        if node.op == "leaf" and node in exact:
            found = found | any_lane(~np.isfinite(ieee[node]) & np.isfinite(exact[node]))
    return found & rows(np.isfinite(values[root]))


def everything(program: Program) -> list[Node]:
    """The nodes of a program, operands first."""
    return topological([*(s for s in program.outputs if s.kind == "float"), *program.made])


def _at_root(module: Module, analysis: Analysis, detection: Detection, inputs: Inputs, value: Array) -> Fixed | None:
    """The selection of a rewritten text."""
    programs_now = [p for p in programs(module, detection.name, analysis.used) if p.name == detection.program.name]
    if len(programs_now) != 1:
        return None
    program = programs_now[0]
    order = everything(program)
    names = names_of(order)
    known = {name: inputs[node] for node, name in names_of(everything(detection.program)).items() if node in inputs}
    given: Inputs = {node: known.get(name, benign(node, i)) for i, (node, name) in enumerate(names.items())}
    held = [(node.value, v) for node, v in inputs.items() if isinstance(node, Const)]
    for node in (n for n in order if isinstance(n, Const)):
        for old, now in held:
            if np.array_equal(old, node.value):
                given[node] = now
    values = evaluate(order, given)
    root = next(_same(program, detection.search.root, values, value), None)
    return None if root is None else Fixed(root, given, values, poisoned(root, values, detection.framework), names)


def _same(program: Program, root: Node, values: Values, value: Array) -> Iterator[Node]:
    """Nodes of a fixed program that compute what a node of the program before did, the likeliest first."""
    likely = sorted(program.made, key=lambda n: (n.op != root.op, n.selection != root.selection))
    known = ~np.isnan(value)
    requires_grad = differentiated(list(values))
    probes = max(map(len, values.values()))
    for node in [*likely, *program.outputs]:
        if node in requires_grad:
            now = values[node]
            shape = np.broadcast_shapes(now.shape, value.shape)
            if shape == np.broadcast_shapes(value.shape, (probes, 1)):
                now, old, comparable = (np.broadcast_to(a, shape) for a in (now, value, known))
                if np.allclose(now[comparable], old[comparable], rtol=2e-5, atol=1e-6):
                    yield node
