"""From the graph of a finding to the plain program that shows it, before and after the fix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from wherelint.analysis.findings import Analysis, analyse
from wherelint.analysis.programs import Program, programs
from wherelint.analysis.search import Detection, arithmetic
from wherelint.confirm.routine import PROBES, NotRunnableError, Routine, Snippet
from wherelint.confirm.steps import routine, taken
from wherelint.finding import Finding
from wherelint.fix import propose
from wherelint.fix.opaque import benign, names_of
from wherelint.frontend.module import Module
from wherelint.frontend.syntax import GiveUp
from wherelint.graph.differentiate import Tape, backward
from wherelint.graph.evaluate import Values, evaluate, truth
from wherelint.graph.node import LANES, Const, Node, differentiated, topological
from wherelint.graph.probe import Inputs, perturbations
from wherelint.graph.run import any_lane, joined, rows
from wherelint.io.edits import Source
from wherelint.ops import Array

_MOST_MOVED = 10
_MOST_ROUNDS = 4


def with_snippets(analysis: Analysis, finding: Finding) -> Finding:
    """A finding of an analysis with the programs that show it, and what its fix does, at each of its places."""
    made = [replace(p, snippet=_program(analysis, replace(p, fix=finding.fix))) for p in finding.places]
    return replace(made[0], also=tuple(made[1:]))


def _program(analysis: Analysis, finding: Finding) -> Snippet | str:
    """The program that shows a finding; why there is none."""
    (_, detection), *_ = analysis.places(finding) or [(finding, None)]
    if detection is None:
        return "this rule reports no gradient that is nan"
    try:
        return _snippet(analysis, finding, detection)
    except NotRunnableError as error:
        return str(error)
    except RecursionError:
        return "it is nested too deeply"


def _snippet(analysis: Analysis, finding: Finding, detection: Detection) -> Snippet:
    root = detection.search.root
    order = topological([root, *detection.search.path_conditions])
    witness, resolved, choices = _resolved(root, order, detection)
    inputs = _probes(detection, witness, order, choices)
    values = evaluate(order, inputs)
    poisoned = _poisoned(root, values, detection.framework)
    before = routine(resolved, inputs)
    after, still = _after(analysis, finding, detection, inputs, values[root]) or (None, poisoned)
    repaired = tuple((poisoned & ~still).tolist())
    return Snippet(finding.framework, finding.function, before, after, tuple(poisoned.tolist()), repaired)


def _resolved(root: Node, order: list[Node], detection: Detection) -> tuple[Inputs, Node, dict[Node, bool]]:
    """A witness, and the graph without the arms that it does not take.

    A number of the Python program is one for all elements; where the search moved it at one of them only, what it is
    at some element is what it is.
    """
    witness = detection.hazard.inputs
    uneven = [n for n, v in witness.items() if n.op == "leaf" and n.kind == "int" and (v != v[:, :1]).any()]
    for lane in (None, *range(LANES if uneven else 0)):
        even = {} if lane is None else {n: np.repeat(witness[n][:, lane : lane + 1], LANES, axis=1) for n in uneven}
        values = evaluate(order, {**witness, **even})
        try:
            found = taken(root, values)
        except NotRunnableError:
            continue
        if lane is None or _poisoned(root, values, detection.framework).all():
            return {**witness, **even}, *found
    raise NotRunnableError("a choice of the program differs between the elements")


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


def _poisoned(root: Node, values: Values, framework: str) -> Array:
    """The probes at which the value is finite, the gradient is not, and a selection alone is why."""
    order = topological([root])
    tape = Tape(order)
    ieee, exact = (
        backward(tape, values, root, arithmetic(framework), symbolic=symbolic).cotangents for symbolic in (False, True)
    )
    found = np.zeros(max(value.shape[0] for value in values.values()), np.bool_)
    for node in ieee:
        if node.op == "leaf" and node in exact:
            found = found | any_lane(~np.isfinite(ieee[node]) & np.isfinite(exact[node]))
    return found & rows(np.isfinite(values[root]))


# -- the fixed program ------------------------------------------------------------------------------------------------


def _after(
    analysis: Analysis, finding: Finding, detection: Detection, inputs: Inputs, value: Array
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
            found = _at_root(module, analysis, detection, inputs, value) or found
            if found is None or not found[1][0]:
                break
            analysis = analyse(module, analysis.used, [detection.name], frozenset())
            offered = (propose(analysis, f) for f in analysis.findings if f.function == finding.function)
            following = next((f for f in offered if f is not None and f.edits), None)
            if following is None:
                break
            fix = following
    except (GiveUp, SyntaxError, NotRunnableError):
        pass
    return found


def _at_root(
    module: Module, analysis: Analysis, detection: Detection, inputs: Inputs, value: Array
) -> tuple[Routine, Array] | None:
    """The selection of a rewritten text, and the probes at which its gradient is poisoned."""
    programs_now = [p for p in programs(module, detection.name, analysis.used) if p.name == detection.program.name]
    if len(programs_now) != 1:
        return None
    program = programs_now[0]
    order = _everything(program)
    known = {name: inputs[node] for node, name in names_of(_everything(detection.program)).items() if node in inputs}
    given: Inputs = {node: known.get(name, benign(node, i)) for i, (node, name) in enumerate(names_of(order).items())}
    held = [(node.value, v) for node, v in inputs.items() if isinstance(node, Const)]
    for node in (n for n in order if isinstance(n, Const)):
        for old, now in held:
            if np.array_equal(old, node.value):
                given[node] = now
    values = evaluate(order, given)
    root = next(_same(program, detection.search.root, values, value), None)
    if root is None:
        return None
    resolved, _ = taken(root, evaluate(order, {n: v[:1] for n, v in given.items()}))
    return routine(resolved, given), _poisoned(root, values, detection.framework)


def _everything(program: Program) -> list[Node]:
    return topological([*(s for s in program.outputs if s.kind == "float"), *program.made])


def _same(program: Program, root: Node, values: Values, value: Array) -> Iterator[Node]:
    """Nodes of a fixed program that compute what a node of the program before did, the likeliest first."""
    likely = sorted(program.made, key=lambda n: (n.op != root.op, n.selection != root.selection))
    known = ~np.isnan(value)
    requires_grad = differentiated(list(values))
    for node in [*likely, *program.outputs]:
        if node in requires_grad:
            now = values[node]
            shape = np.broadcast_shapes(now.shape, value.shape)
            if shape == np.broadcast_shapes(value.shape, (PROBES, 1)):
                now, old, comparable = (np.broadcast_to(a, shape) for a in (now, value, known))
                if np.allclose(now[comparable], old[comparable], rtol=2e-5, atol=1e-6):
                    yield node
