"""The machine-readable report: a list of findings and problems, strict JSON.

A problem has the keys of a finding, and none for its ``code``: a file that could not be checked, or what was given up.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from wherelint import rules
from wherelint.finding import Finding, Fix, Location, Problem
from wherelint.io.notebook import in_cell
from wherelint.report.common import Related, level, related

CELLS = True
_KEYS = (
    "code", "name", "severity", "why", "message", "filename", "cell", "location", "end_location", "select", "related",
    "function", "framework", "modes", "op", "score", "evidence", "witness", "noqa_row", "url", "fix", "confirmation",
)  # fmt: skip


def render(findings: Iterable[Finding], problems: Iterable[Problem] = (), *_: object) -> str:
    """The findings and problems as a JSON array, one key a line; an empty run is ``[]``."""
    return json.dumps(entries(findings, problems), indent=2, allow_nan=False)


def entries(findings: Iterable[Finding], problems: Iterable[Problem]) -> list[dict[str, Any]]:
    """The findings and problems in JSON's types."""
    return [*map(as_dict, findings), *map(_of_problem, problems)]


def as_dict(finding: Finding) -> dict[str, Any]:
    """One finding in JSON's types."""
    cells = finding.cells
    other = {
        "cell": in_cell(finding.location, cells)[0],
        "select": {**_plain(finding.select, cells), "kind": finding.select.kind or None},
        "related": [_related(each, cells) for each in related(finding)],
        "severity": finding.level,
        "score": round(finding.score, 2),
        "noqa_row": in_cell(Location(finding.noqa_row, 1), cells)[1].row,
        "url": rules.url(finding.code),
        "fix": _fix(finding.fix, cells) if finding.fix is not None else None,
    }
    return {key: other[key] if key in other else _plain(getattr(finding, key), cells) for key in _KEYS}


def _fix(fix: Fix, cells: Sequence[int]) -> dict[str, Any]:
    """A fix; what remains to be fixed, where there is anything."""
    keys: dict[str, Any] = _plain(fix, cells)
    return {key: each for key, each in keys.items() if key != "remaining" or each}


def _of_problem(problem: Problem) -> dict[str, Any]:
    """A problem with the keys of a finding; without a place of its own, at the top of the file."""
    cells = problem.cells if problem.location else ()
    top = problem.location or Location(1, 1)
    place = {"location": _plain(top, cells), "end_location": _plain(top, cells)}
    return {
        **dict.fromkeys(_KEYS), "name": "not-checked" if problem.error else "gave-up", "severity": level(problem),
        "message": problem.message, "filename": problem.filename, "cell": in_cell(top, cells)[0], **place,
        "select": {"kind": None, **place}, "related": [], "modes": [], "evidence": [],
    }  # fmt: skip


def _plain(value: object, cells: Sequence[int] = ()) -> Any:
    """A value in JSON's types: a dataclass by its fields; a place in a notebook has the number of its cell."""
    if isinstance(value, Location):
        cell, place = in_cell(value, cells)
        return {**({} if cell is None else {"cell": cell}), "row": place.row, "column": place.column}
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name), cells) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, cells) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _related(place: Related, cells: Sequence[int]) -> dict[str, Any]:
    """A place with the keys of a finding; the ``kind`` of a selection, or the ``code`` of what has the same cause."""
    keys = {**place._asdict()}
    cells = cells if keys.pop("rows") is None else ()
    return {name: _plain(value, cells) for name, value in keys.items()}
