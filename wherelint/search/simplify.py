"""Simpler numbers for a witness, which is printed."""

from collections.abc import Sequence

import numpy as np

from wherelint.graph.node import LANES, Node
from wherelint.ops import Array
from wherelint.search.batch import Hazard
from wherelint.search.budget import WorkBudget
from wherelint.search.witness import Search

#: Work for the numbers of one witness.
_SIMPLIFYING = 100_000


def simplest(search: Search, hazard: Hazard) -> Hazard:
    """A hazard that a search found, with simpler numbers in its witness as long as it shows the same."""
    search.effort = WorkBudget(_SIMPLIFYING)
    left: Sequence[Node] = [n for n in search.leaves if n.kind == "float" and not _is_simple(hazard.inputs[n])]
    while left and not search.effort.spent:
        hazard, left = _with_ones(search, hazard, left)
        if left and not search.effort.spent:
            hazard, left = _simpler(search, hazard, left[0]), left[1:]
    return hazard


def _with_ones(search: Search, hazard: Hazard, nodes: Sequence[Node]) -> tuple[Hazard, Sequence[Node]]:
    """The hazard with 1 for some inputs, as far as it shows, and those that are left, the one that cannot be 1 first.

    Most inputs may be 1, so that all are tried at once: the first alone, the first two, the first three ...
    """
    points = [hazard.inputs]
    for node in nodes:
        points.append({**points[-1], node: np.ones((1, LANES), np.float32)})
    run = search.run(*points[1:])
    done = 0
    for p in np.flatnonzero(run.witness).tolist():
        same = search.again(run, p, hazard) if run.batch[p] == done else None
        if same is None:
            break
        hazard, done = same, done + 1
    return hazard, nodes[done:]


def _simpler(search: Search, hazard: Hazard, node: Node) -> Hazard:
    """The hazard with the simplest number for an input that shows it."""
    now = hazard.inputs[node]
    simple = [np.full((1, LANES), v, np.float32) for v in (1.0, 0.0, 2.0, 0.5)]
    options = [*simple, np.repeat(now[:, :1], LANES, axis=1), np.round(now, 1)]
    batch = {n: np.repeat(v, len(options), axis=0) for n, v in hazard.inputs.items()}
    batch[node] = np.concatenate(options)
    run = search.run(batch)
    shown = (search.again(run, p, hazard) for p in np.flatnonzero(run.witness).tolist())
    return next((same for same in shown if same is not None), hazard)


def _is_simple(numbers: Array) -> bool:
    """Whether an input is 0 or 1, the same in every element."""
    return bool((numbers == numbers[:, :1]).all()) and float(numbers[0, 0]) in (0.0, 1.0)
