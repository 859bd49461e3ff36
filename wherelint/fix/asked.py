"""What a condition asks of the result of an operation, asked before it, and its operand masked with the answer."""

from collections.abc import Callable, Iterator

import libcst as cst

from wherelint.finding import Edit
from wherelint.fix import spelling
from wherelint.fix.masks import Candidate, Mask, Writer, within
from wherelint.fix.syntax import SourceNode, Spot, calls_within, has_effects, operands
from wherelint.ops import OPERATIONS


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
