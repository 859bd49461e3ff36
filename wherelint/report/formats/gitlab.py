"""The report for GitLab: a code quality artifact."""

import json
from collections.abc import Sequence
from typing import Any

from wherelint.finding import Finding, Location, Problem
from wherelint.report.common import fingerprints, message_of, posix
from wherelint.rules import Rule

_SEVERITIES = {"error": "major", "warning": "minor", "note": "info"}


def render(findings: Sequence[Finding], problems: Sequence[Problem], rules: Sequence[Rule], version: str) -> str:
    """The findings and the problems as a JSON array."""
    items: list[Finding | Problem] = [*findings, *problems]
    issues = [_issue(item) | {"fingerprint": name} for item, name in zip(items, fingerprints(items), strict=True)]
    return json.dumps(issues, indent=2)


def _issue(item: Finding | Problem) -> dict[str, Any]:
    if isinstance(item, Finding):
        return {
            "description": f"{item.code} {message_of(item)}",
            "check_name": item.code,
            "severity": _SEVERITIES[item.level],
            "location": _location(item.filename, item.location, item.end_location),
        }
    # Without a place it is the file that has the problem: GitLab wants a line.
    place = item.location or Location(1, 1)
    return {
        "description": item.message,
        "check_name": "wherelint",
        "severity": "critical" if item.error else "info",
        "location": _location(item.filename, place, place),
    }


def _location(filename: str, start: Location, end: Location) -> dict[str, Any]:
    positions = {name: {"line": at.row, "column": at.column} for name, at in (("begin", start), ("end", end))}
    return {"path": posix(filename), "positions": positions}
