"""Guards that admit the singular point itself: ``where(x >= 0, sqrt(x), 0)`` at 0."""

import numpy as np

from wherelint.graph.node import Node, topological
from wherelint.graph.probe import perturbations
from wherelint.graph.run import Hazard, any_lane, at, code, row, rows
from wherelint.graph.search import MOST_MOVABLE, Search
from wherelint.ops.traits import ORDERINGS


def admitted(search: Search) -> list[Hazard]:
    """Operations that the guard selects exactly at its own boundary, where their true derivative is not finite."""
    condition = search.guard.condition
    starts = search.begin()[:1]
    if not condition or not starts or search.root not in search.requires_grad:
        return []
    run = search.run(
        perturbations(starts[0], search.guard.movable()[:MOST_MOVABLE], search.pool, thorough=True, joint=2)
    )
    if not len(run.witness):
        return []
    ties = [n for n in topological(condition) if n.op in ORDERINGS]
    allowed = search.allowed(run.values) & rows(np.isfinite(run.values[search.root]))
    found: dict[Node, Hazard] = {}
    for node, broke in run.symbolic.broke.items():
        if not code(node) or not any(node in topological([i]) for i in search.root.inputs if i not in condition):
            continue
        for p in np.flatnonzero(any_lane(broke) & allowed).tolist():
            met = any((at(run.values[t.inputs[0]], p) == at(run.values[t.inputs[1]], p)).any() for t in ties)
            finite = all(np.isfinite(at(run.values[i], p)).all() for i in node.inputs)
            if met and finite and node not in found:
                inputs = {n: v[row(v, p)] for n, v in run.inputs.items()}
                cts = run.symbolic.cotangents
                gradient = {n: cts[n][row(cts[n], p)] for n in search.leaves if n in cts and n in search.requires_grad}
                value = run.values[search.root]
                found[node] = Hazard(node, search.root, frozenset(), inputs, value[row(value, p)], gradient)
    return list(found.values())
