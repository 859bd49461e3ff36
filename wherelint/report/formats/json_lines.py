"""The machine-readable report with one finding or problem a line."""

import json
from collections.abc import Iterable

from wherelint.finding import Finding, Problem
from wherelint.report.formats.json import entries

CELLS = FIXES = True


def render(findings: Iterable[Finding], problems: Iterable[Problem], *_: object) -> str:
    """The findings and problems as JSON objects, one a line; an empty run is empty."""
    return "\n".join(json.dumps(entry, allow_nan=False) for entry in entries(findings, problems))
