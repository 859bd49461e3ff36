"""The report for GitLab: a code quality artifact."""

import json
from collections.abc import Sequence
from typing import Any

from wherelint.finding import Finding, Location, Problem
from wherelint.report.common import fingerprints, posix, told
from wherelint.rules import Rule


def render(findings: Sequence[Finding], problems: Sequence[Problem], rules: Sequence[Rule], version: str) -> str:
    """The findings and the problems as a JSON array."""
    said: list[Finding | Problem] = [*findings, *problems]
    issues = [_issue(one) | {"fingerprint": name} for one, name in zip(said, fingerprints(said), strict=True)]
    return json.dumps(issues, indent=2)


def _issue(said: Finding | Problem) -> dict[str, Any]:
    if isinstance(said, Finding):
        severity = "major" if said.confidence == "high" else "minor"
        return {
            "description": f"{said.code} {told(said)}",
            "check_name": said.code,
            "severity": severity,
            "location": _location(said.filename, said.location, said.end_location),
        }
    # Without a place it is the file that has the problem: GitLab wants a line.
    place = said.location or Location(1, 1)
    return {
        "description": said.message,
        "check_name": "wherelint",
        "severity": "critical" if said.error else "info",
        "location": _location(said.filename, place, place),
    }


def _location(filename: str, start: Location, end: Location) -> dict[str, Any]:
    positions = {name: {"line": at.row, "column": at.column} for name, at in (("begin", start), ("end", end))}
    return {"path": posix(filename), "positions": positions}
