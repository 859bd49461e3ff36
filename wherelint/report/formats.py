"""The reports for other programs, by the name that ``--output-format`` gives them.

Each is the whole text without its last newline, and empty where a report of nothing is. It is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wherelint.finding import Finding, Problem
    from wherelint.rules.rule import Rule

    #: Findings, problems, every rule there is, and the version of wherelint.
    Render = Callable[[Sequence[Finding], Sequence[Problem], Sequence[Rule], str], str]


def _render(
    module: str,
    function: str,
    findings: Sequence[Finding],
    problems: Sequence[Problem],
    rules: Sequence[Rule],
    version: str,
) -> str:
    render: Render = getattr(import_module(f"wherelint.report.{module}"), function)
    return render(findings, problems, rules, version)


FORMATS: dict[str, Render] = {
    "json": partial(_render, "json", "render"),
    "json-lines": partial(_render, "json", "lines"),
    "sarif": partial(_render, "sarif", "render"),
    "github": partial(_render, "github", "render"),
    "gitlab": partial(_render, "gitlab", "render"),
    "junit": partial(_render, "junit", "render"),
}
