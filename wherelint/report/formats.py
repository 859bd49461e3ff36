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


def _of_the_file(
    module: str, findings: Sequence[Finding], problems: Sequence[Problem], rules: Sequence[Rule], version: str
) -> str:
    """A format that knows rows of files only: in a notebook's JSON a cell has none, so that the message names it."""
    from dataclasses import replace

    from wherelint.finding import Location
    from wherelint.io.notebook import spelled

    top = Location(1, 1)
    findings = [
        replace(
            f, message=f"{spelled(f.location, f.cells)}: {f.message}", location=top, end_location=top, noqa_row=1,
            select=replace(f.select, location=top, end_location=top), related=(), fix=None, cells=(),
        ) if f.cells else f
        for f in findings
    ]  # fmt: skip
    problems = [
        replace(p, message=f"{spelled(p.location, p.cells)}: {p.message}", location=top, cells=())
        if p.cells and p.location
        else p
        for p in problems
    ]
    return _render(module, "render", findings, problems, rules, version)


FORMATS: dict[str, Render] = {
    "json": partial(_render, "json", "render"),
    "json-lines": partial(_render, "json", "lines"),
    "sarif": partial(_of_the_file, "sarif"),
    "github": partial(_of_the_file, "github"),
    "gitlab": partial(_of_the_file, "gitlab"),
    "junit": partial(_of_the_file, "junit"),
}
