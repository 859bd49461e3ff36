"""The catalogue: what every operation computes, how its gradient breaks, and what each framework calls it."""

from __future__ import annotations

from wherelint.ops import (
    arithmetic,
    elementwise,
    jax_names,
    linalg,
    losses,
    reductions,
    special,
    tensorflow_names,
    torch_names,
)
from wherelint.ops.catalogue import Array, Operation, Signature

__all__ = ["OPERATIONS", "SIGNATURES", "Array", "Operation", "Signature", "lookup"]

#: Every operation by its name.
OPERATIONS: dict[str, Operation] = {
    **arithmetic.OPERATIONS,
    **elementwise.OPERATIONS,
    **special.OPERATIONS,
    **reductions.OPERATIONS,
    **losses.OPERATIONS,
    **linalg.OPERATIONS,
}

#: Every canonical dotted name.
SIGNATURES: dict[str, Signature] = {**jax_names.NAMES, **torch_names.NAMES, **tensorflow_names.NAMES}


def lookup(canonical_name: str) -> Signature | None:
    """How to read a call of that dotted name (``jax.numpy.sqrt``); None for a name the tables do not know."""
    return SIGNATURES.get(canonical_name)
