"""Linear algebra, on the model that every lane is a matrix of one row and one column.

The model keeps what matters: cholesky has the singularity of a square root, inv and solve that of a quotient and
logdet that of a logarithm. It knows nothing of eigenvalues that meet, so there is no eigh and no svd, and of a number
in place of a matrix it does not know that all elements alike are singular: no fix fills one in.
"""

from typing import Any

from wherelint.ops.arithmetic import DENOMINATOR
from wherelint.ops.catalogue import Operation
from wherelint.ops.entries import entry, pullback, slopes, table, unary
from wherelint.ops.numeric import np

_SOLVE = slopes(lambda z, a, b: -z / a, lambda z, a, b: 1 / a)


def _solve(name: str, **others: Any) -> Operation:
    points = tuple((a, b) for b, a in DENOMINATOR)
    return entry(name, lambda a, b: b / a, _SOLVE, points, (1.0, None),
                 code="WL110", place="at a singular matrix", quotient=True, **others)  # fmt: skip


OPERATIONS: dict[str, Operation] = table(
    # The factorisation fails at 0 already: nan in JAX and TensorFlow.
    unary("cholesky", lambda x: np.sqrt(np.where(x > 0, x, np.nan)),
          lambda y, x: np.where(np.isinf(x), np.nan, 0.5 / y), (0.0, -1.0), 1.0,
          raises={"torch": lambda x: ~(x > 0)}, code="WL110", place="at a singular matrix"),
    entry("inv", lambda x: 1 / x, pullback(lambda ct, y, x: -y * ct * y), (0.0,), 1.0,
          raises={"torch": lambda x: x == 0}, code="WL110", place="at a singular matrix"),
    _solve("solve", raises={"torch": lambda a, b: a == 0}),
    _solve("solve_triangular"),  # nothing is factorised, so that nothing fails
    unary("det", lambda x: 1.0 * x, lambda y, x: np.ones_like(x)),
    unary("slogdet", lambda x: np.log(np.abs(x)), lambda y, x: 1 / x, (0.0,), 1.0,
          code="WL110", place="at a singular matrix"),
    entry("logdet", np.log, pullback(lambda ct, y, x: np.where(x < 0, 0, ct / x)), (0.0,), 1.0,
          # tf.linalg.logdet goes through a Cholesky factor.
          tensorflow=slopes(lambda y, x: np.where((x > 0) & np.isfinite(x), 1 / x, np.nan)),
          code="WL110", place="at a singular matrix"),
)  # fmt: skip
