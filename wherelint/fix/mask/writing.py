"""What a rewrite is made of: its edits, and the condition that it masks with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from wherelint.finding import Edit
from wherelint.fix import spelling
from wherelint.fix.syntax import SourceNode, Spot, may_move


@dataclass(frozen=True)
class Candidate:
    """Edits to one file, and what they do in one sentence."""

    edits: tuple[Edit, ...]
    message: str
    #: Whether everything between the masked operand and the selection is elementwise.
    elementwise: bool
    #: A mask of one operand, one of a variable that is meant to remove every finding of the "arm", or a local "guard".
    kind: Literal["mask", "arm", "guard"] = "mask"
    #: Whether the operation has another value where the guard does not hold, for whoever reads it.
    alone: bool = False
    #: Whether the value is what it was wherever the guard does not hold, infinite or not, and has no gradient there.
    constant: bool = False
    #: What is masked with which condition, whatever the number; empty for a guard.
    slot: tuple[object, ...] = ()


@dataclass(frozen=True)
class Mask:
    """A condition of the file, and whether the operation is selected where it holds or where it does not."""

    text: str
    keeps: bool
    #: Where it is written, if it can be replaced by a name.
    written: SourceNode | None = None
    #: Whether it may be evaluated no more than once: it has to be given a name.
    once: bool = False
    #: The expressions that it is made of.
    parts: tuple[SourceNode, ...] = ()
    #: The same as it was computed, for where its name is not bound yet.
    computed: Mask | None = None
    #: Whether it may be a bool of Python, whose ``~`` is another number.
    python: bool = False

    def fits(self, place: SourceNode, spot: Spot | None) -> bool:
        """Whether its variables have the same values at a place, or where a line of its own can stand before that."""
        return all(may_move(part, place, spot.location if spot else place.region[0]) for part in self.parts)

    def named(self, name: str) -> Mask:
        """The mask by the name that it was given."""
        return replace(self, text=name, written=None, once=False, parts=())


@dataclass(frozen=True)
class Writer:
    """How a selection is written in a file."""

    #: ``where``, as the author calls it.
    where: str
    framework: str
    #: What has to be imported for it.
    needs: tuple[Edit, ...] = ()

    @property
    def namespace(self) -> str:
        """What it is a function of; empty for a name of its own."""
        return self.where.rpartition(".")[0]

    def masked(self, mask: Mask, operand: str, value: str | float) -> str:
        """An operand, and a number where the mask drops it."""
        if mask.keeps:
            return f"{self.where}({mask.text}, {operand}, {value})"
        if self.framework != "tensorflow":
            return f"{self.where}({mask.text}, {value}, {operand})"
        # The number takes the dtype of the tensor before it.
        inverted = f"{self.namespace}.logical_not({mask.text})" if mask.python else spelling.negated(mask.text)
        return f"{self.where}({inverted}, {operand}, {value})"
