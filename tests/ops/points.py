"""The inputs of the conformance test: ordinary points, singular points, both zeros, the ends of the range, inf, nan."""

# No point is a denormal number: on the CPU, jax 0.10.2 and tensorflow 2.21 flush them to zero, compiled or not (the
# logarithm of float32 1e-40 is -inf), while torch 2.13 and NumPy compute with them (-92.1).

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from wherelint.ops import Operation

Array = npt.NDArray[Any]
INF, NAN = float("inf"), float("nan")
ONE = (0.25, 0.5, 0.75, 1.5, 2.0, 2.5, 3.0, 7.0, -0.5, -0.75, -1.5, -2.0, -2.5, -7.0, 0.0, -0.0, 1.0, -1.0, 6.0, -3.0,
       1e-10, -1e-10, 1e10, -1e10, 1000.0, -1000.0, 1e30, -1e30, INF, -INF, NAN)  # fmt: skip
TWO = (0.5, 2.0, -1.5, 3.0, 0.0, -0.0, 1.0, -1.0, 1e10, -1e10, 1e-10, 1000.0, INF, -INF, NAN)
THREE = (0.5, -1.5, 2.0, 0.0, 1.0, INF, -INF, NAN)
FOUR = (0.5, -1.5, 0.0, 2.0)
#: Points of one operation: the square of 1e-30 is 0 in float32.
MORE = {"arctan2": ((0.0, 1e-30), (1e-30, 0.0), (1e-30, -1e-30)), "divide": ((0.0, 1e-30), (0.5, 1e-30))}
ROWS = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0), (0.5, -1.5, 2.0), (0.0, 0.0, 1.0), (0.0, 1.0, 2.0), (-1.0, -1.0, -1.0),
        (3.0, 3.0, 1.0), (-2.0, 0.5, 0.0), (1e10, 1.0, 1.0), (1e-10, 0.0, 0.0), (1000.0, -1000.0, 0.0),
        (INF, 1.0, 0.0), (-INF, 1.0, 2.0), (-INF, -INF, -INF), (NAN, 1.0, 2.0), (INF, INF, 1.0), (INF, -INF, 1.0),
        (0.25, 0.5, 0.75))  # fmt: skip
FEW_ROWS = (*ROWS[:5], *ROWS[8:13], ROWS[14])


def points(operation: Operation, count: int) -> list[Array]:
    """One array an operand: every combination of the values, and the operation's own singular points."""
    values = {1: ONE, 2: TWO, 3: THREE}.get(count, FOUR)
    chosen = list(itertools.product(values, repeat=count))
    chosen += [point for point in operation.singular if len(point) == count]
    chosen += MORE.get(operation.name, ())
    return [np.array(column) for column in zip(*chosen, strict=True)]


def rows(count: int) -> list[Array]:
    """One array of shape (rows, 3) an operand."""
    chosen = itertools.product(ROWS if count == 1 else FEW_ROWS if count == 2 else FEW_ROWS[:5], repeat=count)
    return [np.array(column) for column in zip(*chosen, strict=True)]
