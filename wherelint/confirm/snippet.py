"""From the graph of a finding to the plain program that shows it, before and after the fix."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import numpy as np

from wherelint.confirm.fixed import after_fix, poisoned
from wherelint.confirm.routine import PROBES, NotRunnableError, Snippet
from wherelint.confirm.steps import routine, taken
from wherelint.finding import Finding
from wherelint.findings.analysis import Analysis
from wherelint.findings.hazards import Detection
from wherelint.graph.evaluate import evaluate, truth
from wherelint.graph.node import LANES, Node, topological
from wherelint.search.batch import joined, rows
from wherelint.search.probes import Inputs, perturbations

_MOST_MOVED = 10
_MOST_ROUNDS = 4


def with_snippets(analysis: Analysis, finding: Finding) -> Finding:
    """A finding of an analysis with the programs that show it, and what its fix does, at each of its places."""
    first, *others = (replace(p, snippet=_program(analysis, replace(p, fix=finding.fix))) for p in finding.places)
    return replace(first, also=tuple(others))


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
    bad = still = poisoned(root, values, detection.framework)
    before, after = routine(resolved, inputs), None
    if (fixed := after_fix(analysis, finding, detection, inputs, values[root], _MOST_ROUNDS)) is not None:
        with suppress(NotRunnableError):
            now, _ = taken(fixed.root, evaluate(topological([fixed.root]), {n: v[:1] for n, v in fixed.inputs.items()}))
            after, still = routine(now, fixed.inputs), fixed.poisoned
    repaired = tuple((bad & ~still).tolist())
    infinite = bool(np.isinf(detection.hazard.value).any())
    return Snippet(finding.framework, finding.function, before, after, tuple(bad.tolist()), repaired, infinite)


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
        if lane is None or poisoned(root, values, detection.framework).all():
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
