"""One guard for all operations of a function that are singular in the same operand."""

from collections.abc import Iterator

import libcst as cst

from wherelint.finding import Edit
from wherelint.fix import spelling
from wherelint.fix.alike import alike
from wherelint.fix.domains import plainer
from wherelint.fix.guards import Guards
from wherelint.fix.masks import Candidate, Mask, named_before
from wherelint.fix.syntax import SourceNode, has_effects, may_move, operands, spot_before, suite_around
from wherelint.ops import OPERATIONS


def shared_guards(guards: Guards, place: SourceNode) -> Iterator[Candidate]:
    """The operand of an operation guarded once, wherever else the function has the operation of the same operand."""
    count = len(guards.hazard.op.inputs)
    found, entry = operands(place, count), OPERATIONS.get(guards.hazard.op.op)
    for guard in entry.domains if entry is not None else ():
        if (
            guard.finite
            or guard.reduces
            or guard.edge
            or guard.caps
            or "{y}" in guard.condition
            or guard.operand >= len(found)
        ):
            continue
        operand = found[guard.operand]
        safe = next(iter(guards.alike(guard.operand, [float(guard.safe)])), None)
        same = [] if has_effects(operand.node, guards.module) else list(alike(place, operand, guard.operand, count))
        first = min([operand, *same], key=lambda each: each.region[0])
        spot = spot_before(first)
        if not same or safe is None or spot is None or not all(_reads(p, first) for p in [operand, *same]):
            continue
        name, lines = operand.one_line, ""
        if not isinstance(operand.node, cst.Name):
            name = spelling.free_name(first, *spelling.value_names(place, operand, guard.name))
            lines = spot.line(name, operand.one_line).content
        terms = {"x": name, "y": "", "namespace": guards.writer.namespace, "abs": "abs", "inf": ""}
        mask = Mask(plainer(guard.condition.format(**terms)), guard.keeps)
        called = spelling.free_safe_name(first, name)
        for test in filter(None, (named_before(mask, first), mask)):
            more = lines + spot.line(called, guards.writer.masked(test, name, safe)).content
            edits = (Edit(more, spot.location, spot.location), *(p.replaced(called) for p in [operand, *same]))
            what = f"guard `{name}` in all operations that it is singular in"
            yield Candidate(edits, what, guard.exact, kind="guard", alone=True)


def _reads(place: SourceNode, first: SourceNode) -> bool:
    """Whether an expression reads what it would read before the statement of the first one, which comes before it."""
    spot, own = spot_before(first), spot_before(place)
    return (
        spot is not None
        and own is not None
        and suite_around(first) in place.path()
        and may_move(place, place, spot.location)
    )
