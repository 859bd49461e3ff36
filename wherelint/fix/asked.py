"""What a condition asks of the result of an operation, asked before it, and its operand masked with the answer."""

import re
from collections.abc import Callable, Iterator

import libcst as cst
import numpy as np

from wherelint.finding import Edit
from wherelint.fix import spelling
from wherelint.fix.masks import Candidate, Mask, Writer, within
from wherelint.fix.syntax import SourceNode, Spot, calls_within, has_effects, operands
from wherelint.graph.node import Node
from wherelint.ops import OPERATIONS

_NUMBER = re.compile(r"-?[\d.]+(?:[eE]-?\d+)?")
#: What is asked of an operand instead, where the operation is kept and where it is dropped.
_OWN = (("> 0", "<= 0"), ("!= 0", "== 0"))


def of_operand(
    place: SourceNode, op: Node, mask: Mask, written: SourceNode, spot: Spot, writer: Writer, *, twins: bool
) -> Iterator[Candidate]:
    """Masks of a root's reciprocal by its operand, where a condition asks whether the result is finite.

    It is at every number but 0, in every precision: the reciprocal of a small number itself need not be.
    """
    exponent = getattr(op.inputs[1], "value", 0.0) if op.op == "power_static" else -0.5 * (op.op == "rsqrt")
    operand = next(iter(operands(place, len(op.inputs))), None)
    if operand is None or not isinstance(operand.node, (cst.Name, cst.Attribute)) or not -1 < np.min(exponent) < 0:
        return
    for kept, dropped in _OWN:
        text = f"{operand.one_line} {kept if mask.keeps else dropped}"
        name = spelling.free_name(place, *spelling.condition_names(text, twins=twins), "mask")
        masked = operand.replaced(writer.masked(Mask(name, mask.keeps), operand.one_line, 1.0))
        edits = (spot.line(name, text), masked, written.replaced(name))
        yield Candidate(edits, "ask of the operand what the condition asks of the result", True)


def asked_before(
    place: SourceNode,
    mask: Mask,
    written: SourceNode,
    read: SourceNode,
    value: SourceNode,
    spot: Spot,
    writer: Writer,
    op: str,
    alike: Callable[[int, list[float]], tuple[float, ...]],
) -> Iterator[Candidate]:
    """Masks of an operation by a name for a condition, as it is written, which reads its ``value`` at one place."""
    entry = OPERATIONS[op]
    found = operands(place, len(entry.safe))
    within_call = isinstance(read.path()[-2], cst.Arg)
    role = next((spelling.OTHER[each.name] for each in entry.domains if each.name in spelling.OTHER), "argument")
    for i, (operand, safe) in enumerate(zip(found, entry.safe, strict=False)):
        if safe is None or isinstance(operand.node, cst.BaseNumber) or has_effects(operand.node):
            continue
        # What is written twice then has a name, if it is more than one.
        long = [p for p in found if p is not operand and not (p.is_atom and not list(calls_within(p)))]
        long = [p for p in long if not _NUMBER.fullmatch(p.one_line)]
        named = [(p, spelling.free_name(p, role)) for p in long[:1]]
        text = value.edited([p.replaced(called) for p, called in named]) if named else value.one_line
        asked = within(written, read, text if within_call or value.is_atom else f"({text})")
        lines = "".join(spot.line(called, p.moved).content for p, called in named)
        lines += spot.line(mask.text, asked).content
        for number in alike(i, [safe]):
            masked = writer.masked(mask, operand.one_line, number)
            changed = (operand.replaced(masked), *(p.replaced(called) for p, called in named))
            edits = (Edit(lines, spot.location, spot.location), *changed, written.replaced(mask.text))
            yield Candidate(edits, "mask the operand with what the condition asks", True)
