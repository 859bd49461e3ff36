"""The catalogue: what every operation computes, how its gradient breaks, and what each framework calls it.

The names and the facts are read without NumPy, which comes with ``OPERATIONS`` and ``Array``.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

from wherelint.ops import jax_names, tensorflow_names, torch_names
from wherelint.ops.names import Signature

if TYPE_CHECKING:
    from wherelint.ops.catalogue import Array, Operation
    from wherelint.ops.operations import OPERATIONS

__all__ = ["OPERATIONS", "SIGNATURES", "Array", "Operation", "Signature", "lookup", "words"]

#: Every canonical dotted name.
SIGNATURES: dict[str, Signature] = {**jax_names.NAMES, **torch_names.NAMES, **tensorflow_names.NAMES}


def lookup(canonical_name: str) -> Signature | None:
    """How to read a call of that dotted name (``jax.numpy.sqrt``); None for a name the tables do not know."""
    return SIGNATURES.get(canonical_name)


def words(operations: Container[str]) -> frozenset[str]:
    """What any framework calls some operations: the last parts of their names, and the classes of layers."""
    spelled = {name.rpartition(".")[2] for name, signature in SIGNATURES.items() if signature.op in operations}
    layers = {layer for layer, function in torch_names.LAYERS.items() if function in spelled}
    return frozenset(spelled | layers)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(name)
    from wherelint.ops import catalogue, operations

    return getattr(operations if name == "OPERATIONS" else catalogue, name)
