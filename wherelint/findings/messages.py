"""The finding made of a hazard: its code, its message, its witness, and the places that the file shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from wherelint import rules
from wherelint.evidence.witness import is_regular_in_double
from wherelint.finding import Elsewhere, Finding, Selection
from wherelint.findings.hazards import Detection
from wherelint.findings.witness import witness
from wherelint.graph.differentiate import is_root_of_squares
from wherelint.graph.node import Node, rounded_away, topological
from wherelint.interpret.values import Origin
from wherelint.ops import OPERATIONS
from wherelint.ops.traits import CLIPS, SELECTIONS
from wherelint.search.witness import Hazard, Search


def finding_of(detection: Detection, related: Sequence[Node], filename: str) -> Finding:
    hazard, code = detection.hazard, _code(detection.hazard)
    modes: tuple[str, ...] = ()
    if detection.framework == "tensorflow":
        modes = ("eager", "xla") if Search(hazard.select, "tensorflow").shows(hazard) else ("xla",)
    shown, elsewhere = _places(hazard, filename)
    made = build(
        code, shown[0], hazard.op.op, shown[1], detection.framework, kind=hazard.select.selection or "",
        filename=filename, witness=witness(hazard), level=hazard.level, modes=modes, elsewhere=elsewhere,
        evidence=tuple(sorted(each.label for each in hazard.evidence)),
        related=tuple(
            _selection(n.origin, n.selection or "") for n in related if n.origin.block.module.filename == filename
        ),
    )  # fmt: skip
    if not _is_read_by_both_arms(hazard):
        return made
    why = f"{SELECTIONS[made.select.kind].phrase}, {rules.STILL}"
    return replace(made, message=made.message.replace(why, f"both branches of the `{made.select.kind}` use the result"))


def _is_read_by_both_arms(hazard: Hazard) -> bool:
    """Whether a root of squares is read by either arm of a choice, so that it is not the choice that drops it."""
    arms = hazard.select.inputs[1:3] if hazard.select.op in ("where", "cond") else ()
    return bool(arms) and is_root_of_squares(hazard.op) and all(hazard.op in topological([arm]) for arm in arms)


def _places(hazard: Hazard, filename: str) -> tuple[list[Origin], tuple[Elsewhere, ...]]:
    """Where a file shows the operation and the selection: there, or at the call that leads to it; and the others."""
    origins = [hazard.op.origin, hazard.select.origin]
    away = [origin for origin in dict.fromkeys(origins) if origin.block.module.filename != filename]
    words = {hazard.select.origin: hazard.select.selection, hazard.op.origin: rules.spoken(hazard.op.op)}
    shown = [origin.call if origin in away else origin for origin in origins]
    known = [origin for origin in shown if origin is not None]
    return [origin or known[0] for origin in shown], tuple(_elsewhere(o, f"the {words[o]}", filename) for o in away)


def _elsewhere(origin: Origin, what: str, filename: str) -> Elsewhere:
    start, end = origin.block.region(origin.node)
    module = origin.block.module
    rows = "\n".join(module.text.split("\n")[start.row - 1 : end.row])
    return Elsewhere(module.named_beside(filename), start, end, what, rows)


def build(code: str, at: Origin, op: str, select: Origin, framework: Any, kind: str = "", **more: Any) -> Finding:
    start, end = at.block.region(at.node)
    selection = _selection(select, kind)
    places = (f"; {e.message} is at {e.filename}:{e.location.row}" for e in more.get("elsewhere", ()))
    return Finding(
        code=code,
        name=rules.get(code).name,
        message=rules.message(code, op, selection.kind, framework, more.get("modes", ())) + "".join(places),
        location=start,
        end_location=end,
        select=selection,
        function=select.function,
        framework=framework,
        op=op,
        noqa_row=start.row,
        **{"level": "error", **more},
    )


def _selection(origin: Origin, kind: str) -> Selection:
    return Selection(kind, *origin.block.region(origin.node))


def _code(hazard: Hazard) -> str:
    if feeds_operation(hazard):
        return "WL303" if _loses_epsilon(hazard) else "WL301"
    kind = hazard.select.selection
    if kind is None:
        return "WL305"
    if (code := SELECTIONS[kind].code) is not None:
        return code
    if hazard.missing_data:
        return "WL111"
    if _loses_epsilon(hazard):
        return "WL303"
    entry = OPERATIONS.get(hazard.op.op)
    return (entry.code if entry is not None else None) or "WL111"


def _loses_epsilon(hazard: Hazard) -> bool:
    """Whether float32 rounded a guarding constant away: it is 0 or 1 only there, and float64 is regular."""
    return any(map(rounded_away, topological([hazard.op]))) and is_regular_in_double(hazard)


def feeds_operation(hazard: Hazard) -> bool:
    """Whether the selection is a clip below the operation rather than a selection above it."""
    return hazard.select.selection in CLIPS and hazard.select in set(topological([hazard.op]))
