"""The selection of a finding in the text with the fix: its graph, and the same inputs by their names."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from wherelint.finding import Edit, Finding, Fix
from wherelint.findings.analysis import Analysis, analyse_functions
from wherelint.findings.hazards import Detection, arithmetic
from wherelint.fix import propose
from wherelint.fix.verify.inputs import benign, names_of
from wherelint.frontend.module import Module
from wherelint.frontend.syntax import GiveUp
from wherelint.graph.differentiate import Tape, backward
from wherelint.graph.evaluate import Values, evaluate
from wherelint.graph.node import Const, Leaf, Node, differentiated, topological
from wherelint.interpret.programs import Program, programs
from wherelint.ops import Array
from wherelint.search.batch import any_lane, rows
from wherelint.search.budget import WorkBudget
from wherelint.search.probes import Inputs

#: How many fixes are applied one after the other, and what may be done to find each but the first.
_MOST_FIXES, _MOST_WORK = 4, 500_000


class FixedSelection(NamedTuple):
    """A selection after a fix, and what it computes at the inputs."""

    root: Node
    inputs: Inputs
    values: Values


def after_fix(
    analysis: Analysis, finding: Finding, detection: Detection, inputs: Inputs, value: Array
) -> FixedSelection | None:
    """The selection of a finding, whose value at some inputs is known, in the text with the fix; None without one.

    While the gradient at the first input is not finite, fixes of other operations of the function are applied, too.
    """
    fix, found, module = finding.fix, None, analysis.module
    with suppress(GiveUp, SyntaxError):
        for _ in range(_MOST_FIXES):
            if fix is None or not fix.offered:
                break
            module = module.once(_revised, fix.edits)
            found = _at_root(module, analysis, detection, inputs, value) or found
            if found is None or not poisoned(found.root, found.values, detection.framework)[0]:
                break
            fix = module.once(_another, tuple(analysis.used), detection.name, finding.function)
    return found


def _revised(module: Module, edits: Sequence[Edit]) -> Module:
    return module.project.revised(module.source.edited(edits))


def _another(module: Module, used: Sequence[str], name: tuple[str, ...], function: str) -> Fix | None:
    """A fix of what is still found in a function."""
    analysis, effort = analyse_functions(module, used, [name], frozenset()), WorkBudget(_MOST_WORK)
    fixes = (propose(analysis, f, effort) for f in analysis.findings if f.function == function)
    return next((each for each in fixes if each is not None and each.offered), None)


def _at_root(
    module: Module, analysis: Analysis, detection: Detection, inputs: Inputs, value: Array
) -> FixedSelection | None:
    """The selection in a rewritten text; None where it is not found there."""
    found = [p for p in programs(module, detection.name, analysis.used) if p.name == detection.program.name]
    if len(found) != 1:
        return None
    order = _nodes(found[0])
    known = {name: inputs[node] for node, name in names_of(_nodes(detection.program)).items() if node in inputs}
    moved: Inputs = {node: known.get(name, benign(node, i)) for i, (node, name) in enumerate(names_of(order).items())}
    parts = {node.name: v for node, v in inputs.items() if isinstance(node, Leaf) and node.of is not None}
    moved.update((n, parts[n.name]) for n in order if isinstance(n, Leaf) and n.of is not None and n.name in parts)
    arrays = [(node.value, v) for node, v in inputs.items() if isinstance(node, Const)]
    for node in (n for n in order if isinstance(n, Const)):
        for before, now in arrays:
            if np.array_equal(before, node.value):
                moved[node] = now
    values = evaluate(order, moved)
    root = next(_same(found[0], detection.search.root, values, value), None)
    return None if root is None else FixedSelection(root, moved, values)


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


def _nodes(program: Program) -> list[Node]:
    """The nodes of a program, operands first."""
    return topological([*(s for s in program.outputs if s.kind == "float"), *program.made])


def _same(program: Program, root: Node, values: Values, value: Array) -> Iterator[Node]:
    """Nodes of a fixed program that compute what a node of the program before did, the likeliest first."""
    likely = sorted(program.made, key=lambda n: (n.op != root.op, n.selection != root.selection))
    requires_grad = differentiated(list(values))
    for node in [*likely, *program.outputs]:
        if node in requires_grad and values[node].shape[1] == value.shape[1]:
            now, before = np.broadcast_arrays(values[node], value)
            if np.allclose(now[~np.isnan(before)], before[~np.isnan(before)], rtol=2e-5, atol=1e-6):
                yield node
