"""The machine-readable report: a list of findings and problems, strict JSON.

A problem has the keys of a finding, and none for its ``code``: a file that could not be checked, or what was given up.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wherelint.finding import Confirmation, Edit, Elsewhere, Finding, Fix, Location, Number, Problem, Selection, Witness
from wherelint.io.notebook import in_cell

#: The table of rules in the README; ``wherelint explain`` has the rest.
URL = "https://github.com/wherelint/wherelint#rules"
CELLS = True


def render(findings: Iterable[Finding], problems: Iterable[Problem] = (), *_: object) -> str:
    """The findings and problems as a JSON array, one key a line; an empty run is ``[]``."""
    return json.dumps(entries(findings, problems), indent=2, allow_nan=False)


def entries(findings: Iterable[Finding], problems: Iterable[Problem]) -> list[dict[str, Any]]:
    """The findings and problems in JSON's types."""
    return [*map(as_dict, findings), *map(_of_problem, problems)]


def as_dict(finding: Finding) -> dict[str, Any]:
    """One finding in JSON's types."""
    cells = finding.cells
    return {
        "code": finding.code,
        "name": finding.name,
        "message": finding.message,
        "filename": finding.filename,
        "cell": in_cell(finding.location, cells)[0],
        "location": _location(finding.location, cells),
        "end_location": _location(finding.end_location, cells),
        "select": _selection(finding.select, cells),
        "related": [*(_related(finding, each) for each in finding.related), *map(_elsewhere, finding.elsewhere)],
        "function": finding.function,
        "framework": finding.framework,
        "modes": list(finding.modes),
        "op": finding.op,
        "confidence": finding.confidence,
        "score": round(finding.score, 2),
        "evidence": list(finding.evidence),
        "witness": _witness(finding.witness) if finding.witness else None,
        "noqa_row": in_cell(Location(finding.noqa_row, 1), cells)[1].row,
        "url": URL,
        "fix": _fix(finding.fix, cells) if finding.fix else None,
        "confirmation": _confirmation(finding.confirmation) if finding.confirmation else None,
    }


def _of_problem(problem: Problem) -> dict[str, Any]:
    """A problem with the keys of a finding; without a place of its own, at the top of the file."""
    cells = problem.cells if problem.location else ()
    top = problem.location or Location(1, 1)
    place = _location(top, cells)
    return {
        "code": None,
        "name": "not-checked" if problem.error else "gave-up",
        "message": problem.message,
        "filename": problem.filename,
        "cell": in_cell(top, cells)[0],
        "location": place,
        "end_location": place,
        "select": {"kind": None, "location": place, "end_location": place},
        "related": [],
        "function": None,
        "framework": None,
        "modes": [],
        "op": None,
        "confidence": None,
        "score": None,
        "evidence": [],
        "witness": None,
        "noqa_row": None,
        "url": None,
        "fix": None,
        "confirmation": None,
    }


def _location(location: Location, cells: Sequence[int]) -> dict[str, int]:
    """A place; in a notebook, with the number of the cell that it lies in."""
    cell, place = in_cell(location, cells)
    return {**({} if cell is None else {"cell": cell}), "row": place.row, "column": place.column}


def _selection(selection: Selection, cells: Sequence[int]) -> dict[str, Any]:
    return {
        "kind": selection.kind or None,
        "location": _location(selection.location, cells),
        "end_location": _location(selection.end_location, cells),
    }


def _related(finding: Finding, selection: Selection) -> dict[str, Any]:
    place = {"filename": finding.filename, "message": f"the {selection.kind}"}
    return {**_selection(selection, finding.cells), **place}


def _elsewhere(place: Elsewhere) -> dict[str, Any]:
    """A place in another file, with the keys of a finding, and none for the ``kind`` of selection."""
    ends = {"location": _location(place.location, ()), "end_location": _location(place.end_location, ())}
    return {"kind": None, **ends, "filename": place.filename, "message": place.message}


def _witness(witness: Witness) -> dict[str, Any]:
    return {
        "inputs": _numbers(witness.inputs),
        "value": _number(witness.value),
        "gradient": _numbers(witness.gradient),
    }


def _numbers(numbers: Mapping[str, Number]) -> dict[str, Any]:
    return {name: _number(number) for name, number in numbers.items()}


def _number(number: Number) -> object:
    if isinstance(number, list):
        return [_number(item) for item in number]
    return float(number) if math.isfinite(number) else str(float(number))


def _fix(fix: Fix, cells: Sequence[int]) -> dict[str, Any]:
    return {
        "applicability": fix.applicability,
        "message": fix.message,
        "edits": [_edit(edit, cells) for edit in fix.edits],
    }


def _edit(edit: Edit, cells: Sequence[int]) -> dict[str, Any]:
    return {
        "content": edit.content,
        "location": _location(edit.location, cells),
        "end_location": _location(edit.end_location, cells),
    }


def _confirmation(confirmation: Confirmation) -> dict[str, Any]:
    after = confirmation.after_fix
    return {
        "verdict": confirmation.verdict,
        "reason": confirmation.reason,
        "device": confirmation.device,
        "framework_version": confirmation.framework_version,
        "at": _numbers(confirmation.at),
        "modes": {
            mode: {"value": _number(outcome.value), "gradient": _numbers(outcome.gradient)}
            for mode, outcome in confirmation.modes.items()
        },
        "after_fix": None
        if after is None
        else {"value_unchanged": after.value_unchanged, "gradient_finite": after.gradient_finite},
    }
