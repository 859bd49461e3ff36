"""The words of a message: where an operation is singular, and what a selection does to it."""

from wherelint.ops import OPERATIONS
from wherelint.ops.traits import SELECTIONS


def spoken(op: str) -> str:
    """The operation's name in a sentence."""
    return (op in OPERATIONS and OPERATIONS[op].spoken) or op


def place(op: str) -> str:
    """Where the operation is singular."""
    return (op in OPERATIONS and OPERATIONS[op].place) or "at a singular point"


def selection_phrase(kind: str) -> str:
    """How a selection makes the zero cotangent."""
    return SELECTIONS[kind].phrase if kind in SELECTIONS else f"where the `{kind}` does not select it"
