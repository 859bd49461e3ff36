"""Every operation by its name."""

from __future__ import annotations

from wherelint.ops import arithmetic, elementwise, linalg, losses, reductions, special
from wherelint.ops.catalogue import Operation

OPERATIONS: dict[str, Operation] = {
    **arithmetic.OPERATIONS,
    **elementwise.OPERATIONS,
    **special.OPERATIONS,
    **reductions.OPERATIONS,
    **losses.OPERATIONS,
    **linalg.OPERATIONS,
}
