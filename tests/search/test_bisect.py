"""Closing in on singular points: every way is walked as if it were alone."""

from __future__ import annotations

import numpy as np
from programs import op

from wherelint.graph.evaluate import evaluate
from wherelint.graph.node import LANES, leaf, topological
from wherelint.search.bisect import _close_in, aimed

X, Y, FLAG = leaf("x"), leaf("y"), leaf("flag", kind="bool")
#: Nothing of it is 0 at a telling number.
DISTANCE = op("subtract", op("multiply", op("exp", X), op("where", FLAG, Y, 3.0)), 0.7)


def _probes() -> dict:
    rng = np.random.default_rng(3)
    x, y = (rng.uniform(-3, 3, (40, LANES)).astype(np.float32) for _ in range(2))
    x[::3], y[1::3] = x[0], y[0]  # some ways move one input alone
    y[5] = np.inf
    return {X: x, Y: y, FLAG: np.arange(40)[:, None].repeat(LANES, axis=1) % 4 > 0}


def test_ways_that_are_walked_together_lead_where_each_leads_alone() -> None:
    batch = _probes()
    ways = np.arange(1, 40)
    together = _close_in(DISTANCE, batch, ways, 0.0)
    for way, (point, meets) in zip(ways, together, strict=True):
        ((alone, met),) = _close_in(DISTANCE, batch, ways[way - 1 : way], 0.0)
        assert meets == met
        for node in batch:
            np.testing.assert_array_equal(point[node], alone[node])


def test_the_point_is_met() -> None:
    batch = _probes()
    root = op("sqrt", DISTANCE)
    points = aimed([root], batch, evaluate(topological([root]), batch))
    nearest = [np.abs(evaluate(topological([DISTANCE]), point)[DISTANCE]).min() for point in points]
    assert nearest
    assert min(nearest) < 1e-6
