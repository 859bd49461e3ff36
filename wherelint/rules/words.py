"""The words of a message: where an operation is singular, and what a selection does to it."""

from __future__ import annotations

from wherelint.ops.facts import SELECTIONS, SINGULAR

#: Operations that have another name in the catalogue than in a program.
_SPOKEN = {
    "clipped_sqrt": "sqrt",
    "power_static": "power",
    "integer_power": "power",
    "std_unbiased": "std",
    "euclidean_norm": "norm",
}


def spoken(op: str) -> str:
    """The operation's name in a sentence."""
    return _SPOKEN.get(op, op)


def place(op: str) -> str:
    """Where the operation is singular."""
    return SINGULAR[op].place if op in SINGULAR else "at a singular point"


def selection_phrase(kind: str) -> str:
    """How a selection makes the zero cotangent."""
    return SELECTIONS[kind].phrase if kind in SELECTIONS else f"where the `{kind}` does not select it"
