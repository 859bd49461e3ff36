"""What a rewrite is made of: its edits, and the condition that it masks with."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import libcst as cst

from wherelint.finding import Edit
from wherelint.fix import spelling
from wherelint.fix.assignments import already_named
from wherelint.fix.syntax import SourceNode, Spot, may_move
from wherelint.frontend.syntax import last_name

#: What a selection is called.
WHERES = frozenset({"where", "where_v2"})
_NAME = re.compile(r"[^\W\d][\w.]*")
_NAMED, _CALLED = re.compile(r"~?[^\W\d]\w*"), re.compile(r"~?[^\W\d][\w.]*\([^()]*\)")


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
    #: Whether it may be a bool of Python, whose ``~`` is another number.
    python: bool = False
    #: The assignment that gives it a name later on.
    later: SourceNode | None = None
    #: The parameter in it that may be None at the operation.
    optional: str = ""
    #: Whether it asks for less than what is written: the singular point is to be dropped with the rest.
    stricter: bool = False

    def fits(self, place: SourceNode, spot: Spot | None) -> bool:
        """Whether its variables have the same values at a place, or where a line of its own can stand before that."""
        return all(may_move(part, place, spot.location if spot else place.region[0]) for part in self.parts)

    def bounds(self, operand: SourceNode) -> Iterator[str]:
        """Where it keeps an operand that it compares with a variable: ``limit + 1.0`` for ``x > limit``, ``limit``."""
        sides = re.fullmatch(r"([\w.]+) ([<>])=? ([\w.]+)", self.text)
        if sides is None or operand.one_line not in (sides[1], sides[3]) or sides[1] == sides[3]:
            return
        first = operand.one_line == sides[1]
        other = sides[3] if first else sides[1]
        above = (sides[2] == ">") == (first == self.keeps)
        yield from () if other[0].isdigit() else (f"{other} {'+' if above else '-'} 1.0", other)

    def leaves(self, operand: SourceNode, value: float | str) -> bool:
        """Whether it would put a number only where the operand is that number: ``where(x != 0, x, 0.0)``."""
        sign = "!=" if self.keeps else "=="
        found = re.fullmatch(rf"{re.escape(operand.one_line)} {sign} ([\d.]+)", self.text)
        return found is not None and float(found[1]) == value

    @property
    def opposite(self) -> str:
        """Its opposite: not the opposite comparison, for nan is in no order."""
        return spelling.negated(self.text)

    def within(self, place: SourceNode, content: str) -> str:
        """What is masked, as it can stand at a place: in parentheses where it is a choice of Python beside others."""
        choice = self.optional and not content.isidentifier()
        return content if not choice or isinstance(place.path()[-2], (cst.Arg, cst.Assign)) else f"({content})"

    def named(self, name: str) -> Mask:
        """The mask by the name that it was given."""
        return Mask(name, self.keeps, python=self.python)


@dataclass(frozen=True)
class Writer:
    """How a selection is written in a file."""

    #: ``where``, as the author calls it.
    where: str
    framework: str
    #: Whether the author gives it a tensor for a number, as PyTorch 1.11 wants it.
    fills: bool = False
    #: What has to be imported for it.
    needs: tuple[Edit, ...] = ()

    @property
    def namespace(self) -> str:
        """What it is a function of; empty for a name of its own."""
        return self.where.rpartition(".")[0]

    def masked(self, mask: Mask, operand: str, value: str | float, like: str | None = None) -> str:
        """An operand, and a number where the mask drops it; ``like``: a name of the shape and dtype of both."""
        if mask.optional:
            masked = self.masked(replace(mask, optional=""), operand, value, like)
            return f"{operand} if {mask.optional} is None else {masked}"
        if self.fills and (tensor := self._filled(like or operand, value)):
            value = tensor
        if mask.keeps:
            return f"{self.where}({mask.text}, {operand}, {value})"
        if self.framework != "tensorflow":
            return f"{self.where}({mask.text}, {value}, {operand})"
        if tensor := self._filled(like or operand, value):
            return f"{self.where}({mask.text}, {tensor}, {operand})"
        # The number takes the dtype of the tensor before it.
        inverted = f"{self.namespace}.logical_not({mask.text})" if mask.python else mask.opposite
        return f"{self.where}({inverted}, {operand}, {value})"

    def _filled(self, like: str, value: str | float) -> str:
        """A number as a tensor of the shape and dtype of a variable; empty where it is no such number, or variable."""
        filled = {"1.0": "ones_like", "0.0": "zeros_like"}.get(str(value))
        return f"{self.namespace}.{filled}({like})" if filled and self.namespace and _NAME.fullmatch(like) else ""


def named_before(mask: Mask, place: SourceNode) -> Mask | None:
    """The mask by the name that the author gave its condition, or the opposite of that, before a place."""
    for text, keeps in ((mask.text, mask.keeps), (mask.opposite, not mask.keeps)):
        if (name := already_named(text, place)) is not None:
            return Mask(name, keeps)
    return None


def masked_twice(text: str) -> int:
    """How many selections of a program have another for a value, with nothing between them."""
    named = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    calls = {node for node in named if last_name(node.func) in WHERES}
    return sum(value in calls for call in calls for value in call.args[1:])


def within(whole: SourceNode, part: SourceNode, content: str) -> str:
    """The text of an expression with something else for one part of it."""
    start, _ = whole.block.place(whole.node)
    a, b = (whole.source.offset(p) - whole.source.offset(start) for p in part.region)
    left, right = whole.text[:a], whole.text[b:]
    if "\n" not in content and "#" not in left + right:  # what was broken to fit may fit now
        left, right = re.sub(r"\(\s*\n\s*$", "(", left), re.sub(r"^,?\s*\n\s*\)", ")", right)
    return f"{left}{content}{right}"


def atom(text: str) -> str:
    """A condition as it can stand beside an operator: in parentheses, unless it is a name or a plain call."""
    return text if _NAMED.fullmatch(text) or _CALLED.fullmatch(text) else f"({text})"
