"""The catalogue: what every operation computes, how its gradient breaks, and what each framework calls it.

Nothing here imports NumPy before something is computed: the screen, which dismisses most files, reads the words, too.
"""

from collections.abc import Container

from wherelint.frameworks import FRAMEWORKS
from wherelint.frameworks.base import Signature
from wherelint.ops import arithmetic, elementwise, linalg, losses, reductions, special
from wherelint.ops.catalogue import Array, Operation

__all__ = ["OPERATIONS", "SIGNATURES", "Array", "Operation", "Signature", "lookup", "words"]

#: Every operation by its name.
OPERATIONS: dict[str, Operation] = {}
for file in (arithmetic, elementwise, special, reductions, losses, linalg):
    OPERATIONS |= file.OPERATIONS
#: Every canonical dotted name.
SIGNATURES: dict[str, Signature] = {k: v for f in FRAMEWORKS.values() for k, v in f.names.items()}


def lookup(canonical_name: str) -> Signature | None:
    """How to read a call of that dotted name (``jax.numpy.sqrt``); None for a name the tables do not know."""
    return SIGNATURES.get(canonical_name)


def words(operations: Container[str]) -> frozenset[str]:
    """What any framework calls some operations: the last parts of their names, and the classes of layers."""
    spelled = {name.rpartition(".")[2] for name, signature in SIGNATURES.items() if signature.op in operations}
    layers = {layer for f in FRAMEWORKS.values() for layer, function in f.layers.items() if function in spelled}
    return frozenset(spelled | layers)
