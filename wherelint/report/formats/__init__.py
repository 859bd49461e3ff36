"""The reports for other programs: one file a format, named as ``--output-format`` names it (``-`` is written ``_``).

``render`` gives the whole text without its last newline, empty where a report of nothing is. A file is imported when it
is used. One with ``CELLS = True`` knows the cells of notebooks; the others are given rows of files. One with ``TEXTS =
True`` is given the texts of the files as well, by their names; one with ``FIXES = True`` shows fixes, which are looked
for then; ``NEEDS`` are the packages of an extra.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wherelint.finding import Finding, Problem
    from wherelint.rules import Rule

    #: Findings, problems, every rule there is, the version of wherelint, and perhaps texts.
    Render = Callable[..., str]


def _render(
    module: str,
    findings: Sequence[Finding],
    problems: Sequence[Problem],
    rules: Sequence[Rule],
    version: str,
    texts: Mapping[str, str] | None = None,
) -> str:
    found = import_module(f"{__name__}.{module}")
    render: Render = found.render
    if not getattr(found, "CELLS", False):
        findings, problems = _of_the_file(findings, problems)
    more = (texts or {},) if getattr(found, "TEXTS", False) else ()
    return render(findings, problems, rules, version, *more)


def needs(style: str) -> tuple[str, ...]:
    """The packages without which a format cannot be written."""
    found: tuple[str, ...] = getattr(import_module(f"{__name__}.{style.replace('-', '_')}"), "NEEDS", ())
    return found


def shows_fixes(style: str) -> bool:
    """Whether a format has a place for fixes."""
    return style in FORMATS and bool(getattr(import_module(f"{__name__}.{style.replace('-', '_')}"), "FIXES", False))


def _of_the_file(
    findings: Sequence[Finding], problems: Sequence[Problem]
) -> tuple[Sequence[Finding], Sequence[Problem]]:
    """For rows of files: in a notebook's JSON a cell has none, so that the message names it."""
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
    return findings, problems


_FILES = sorted(name[:-3] for name in os.listdir(os.path.dirname(__file__)) if name.endswith(".py") and name[0] != "_")
FORMATS: dict[str, Render] = {name.replace("_", "-"): partial(_render, name) for name in _FILES}
