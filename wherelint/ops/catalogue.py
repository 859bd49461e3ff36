"""What an operation of the catalogue is.

Arrays have the shape (probes, lanes): every probe is one input to try, the lanes stand for the elements of an array.
An operation that is constant along the lanes may return (probes, 1); NumPy broadcasting joins the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]
#: ``vjp(ct, out, *operands)`` -> one cotangent an operand (None: the operand is not differentiated). Cotangents have
#: the broadcast shape of operands and output; the caller sums them back to the operand's own shape.
Vjp = Callable[..., "tuple[Array | None, ...]"]


@dataclass(frozen=True)
class Operation:
    """One entry of the catalogue: forward, VJP as each framework computes it, and where it is singular."""

    name: str
    forward: Callable[..., Array]
    vjp: Vjp
    #: VJPs that differ: by "jax", "torch", "tensorflow" (eager) or "xla" (TensorFlow compiled; falls back on
    #: "tensorflow").
    variants: Mapping[str, Vjp] = field(default_factory=dict)
    #: The WL1xx rule that reports this operation when it turns a zero cotangent into nan; None for a smooth one.
    code: str | None = None
    #: Operand tuples at which it is singular, overflows, or leaves its domain; the search aims at the first operands.
    singular: tuple[tuple[float, ...], ...] = ()
    #: For each operand a value that is regular (what the fix substitutes); None where any value is.
    safe: tuple[float | None, ...] = ()
    #: Selections: ``unselected(*operands)`` gives, for each operand, the mask of the elements whose value is dropped
    #: (None: never dropped). Under symbolic-zero arithmetic no cotangent flows there.
    unselected: Callable[..., tuple[Array | None, ...]] | None = None
    #: True where the operation combines the lanes; its output then has the shape (probes, 1) or mixes lanes.
    mixes: bool = False
