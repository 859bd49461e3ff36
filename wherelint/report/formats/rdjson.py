"""The report for reviewdog: its Diagnostic Format, with fixes as suggestions."""

import json
from collections.abc import Sequence
from typing import Any

from wherelint import rules as known
from wherelint.finding import Finding, Location, Problem
from wherelint.report.common import level, message_of, posix
from wherelint.report.text import witness_sentence
from wherelint.rules import Rule

_SEVERITIES = {"error": "ERROR", "warning": "WARNING", "note": "INFO"}


def render(findings: Sequence[Finding], problems: Sequence[Problem], rules: Sequence[Rule], version: str) -> str:
    """One object, whose ``diagnostics`` are the findings and the problems."""
    diagnostics = [*map(_finding, findings), *map(_problem, problems)]
    return json.dumps({"source": {"name": "wherelint", "url": known.SITE}, "diagnostics": diagnostics}, indent=2)


def _finding(finding: Finding) -> dict[str, Any]:
    message = f"{finding.name}: {message_of(finding)}"
    if finding.witness is not None:
        message += f"\n{witness_sentence(finding.witness)}"
    edits = finding.fix.edits if finding.fix is not None else ()
    made = {
        "message": message,
        "location": {"path": posix(finding.filename), "range": _range(finding.location, finding.end_location)},
        "severity": _SEVERITIES[finding.level],
        "code": {"value": finding.code, "url": known.url(finding.code)},
    }
    suggestions = [{"range": _range(edit.location, edit.end_location), "text": edit.content} for edit in edits]
    return {**made, "suggestions": suggestions} if suggestions else made


def _problem(problem: Problem) -> dict[str, Any]:
    place = {"range": _range(problem.location, problem.location)} if problem.location is not None else {}
    location = {"path": posix(problem.filename), **place}
    return {"message": problem.message, "location": location, "severity": _SEVERITIES[level(problem)]}


def _range(start: Location, end: Location) -> dict[str, Any]:
    return {name: {"line": at.row, "column": at.column} for name, at in (("start", start), ("end", end))}
