"""The reports for other programs: one file a format, named as ``--output-format`` names it (``-`` is written ``_``).

``render`` gives the text without its last newline, empty where a report of nothing is. A file is imported when it is
used. It may say ``CELLS = True`` (it knows the cells of notebooks; the others get rows of files) and ``TEXTS = True``
(it gets the texts of the files as well, by their names).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wherelint.finding import Finding, Problem
    from wherelint.rules import Rule

    #: Findings, problems, every rule there is, the version of wherelint, and perhaps texts.
    Render = Callable[..., str]


#: The packages of an extra that a format imports.
_NEEDS = {"html": ("jinja2", "matplotlib")}


def _module(style: str) -> Any:
    return import_module(f"{__name__}.{style.replace('-', '_')}")


def _render(
    style: str,
    findings: Sequence[Finding],
    problems: Sequence[Problem],
    rules: Sequence[Rule],
    version: str,
    texts: Mapping[str, str] | None = None,
) -> str:
    module = _module(style)
    render: Render = module.render
    if not getattr(module, "CELLS", False):
        findings, problems = _of_the_file(findings, problems)
    more = (texts or {},) if getattr(module, "TEXTS", False) else ()
    return render(findings, problems, rules, version, *more)


def needs(style: str) -> tuple[str, ...]:
    """The packages without which a format cannot be written."""
    return _NEEDS.get(style, ())


def _of_the_file(
    findings: Sequence[Finding], problems: Sequence[Problem]
) -> tuple[Sequence[Finding], Sequence[Problem]]:
    """For rows of files: in a notebook's JSON a cell has none, so that the message names it."""
    from dataclasses import replace

    from wherelint.finding import Location
    from wherelint.io.notebook import spelled

    top = Location(1, 1)

    def finding_at_top(f: Finding) -> Finding:
        return replace(
            f, message=f"{spelled(f.location, f.cells)}: {f.message}", location=top, end_location=top, noqa_row=1,
            select=replace(f.select, location=top, end_location=top), related=(), fix=None, cells=(),
        )  # fmt: skip

    def problem_at_top(p: Problem, place: Location) -> Problem:
        return replace(p, message=f"{spelled(place, p.cells)}: {p.message}", location=top, cells=())

    findings = [finding_at_top(f) if f.cells else f for f in findings]
    problems = [problem_at_top(p, p.location) if p.cells and p.location else p for p in problems]
    return findings, problems


_FILES = sorted(name[:-3] for name in os.listdir(os.path.dirname(__file__)) if name.endswith(".py") and name[0] != "_")
FORMATS: dict[str, Render] = {style: partial(_render, style) for style in (f.replace("_", "-") for f in _FILES)}
