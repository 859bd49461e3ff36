"""The findings at a place that a command names: ``model.py:12``."""

import os
import re
from dataclasses import replace
from pathlib import Path

import click

from wherelint.cli.output import CLEAN
from wherelint.evidence.pieces import LEVELS, Level
from wherelint.finding import Finding
from wherelint.io import disk, files
from wherelint.io.config import Configuration, Overrides, Settings
from wherelint.io.edits import Source
from wherelint.io.encoding import UndecodableError, decode, encode
from wherelint.io.notebook import Notebook, in_cell, spelled
from wherelint.report import text
from wherelint.report.common import printable
from wherelint.run import engine
from wherelint.run.result import add_problems
from wherelint.suppress.noqa import not_differentiated

_PLACE = re.compile(r"(.+?)(?::cell (\d+))?:(\d+)(?::(\d+))?", re.DOTALL)


def findings_at(
    place: str, config: Path | None, isolated: bool, cache: Path | None = None, level: Level | None = None
) -> list[Finding]:
    """The findings of any level at a place, the surest first; there is one at least.

    What has the cause of another finding has its plot. Raises ClickException where there is none.
    """
    name, cell, row, column = _parts(place)
    configuration = Configuration(Overrides(level=level), config, isolated)
    targets, problems = files.discover([name], configuration, "offer")
    kept = cache or disk.CACHE
    result = add_problems(engine.check_targets(targets, 1, cache=kept if kept.is_dir() else None), problems)
    if serious := [problem for problem in result.problems if problem.error]:
        raise click.ClickException(text.problem_line(serious[0]).removeprefix("error: "))
    found = [replace(each, plot=finding.plot) for finding in result.findings for each in finding.places]

    def at(finding: Finding) -> bool:
        places = [in_cell(each, finding.cells) for each in (finding.location, finding.select.location)]
        return any(row == p.row and cell in (0, c) for c, p in places) and column in (0, finding.location.column)

    there = [finding for finding in found if at(finding)]
    if not there and level is None:  # what `check` shows is known already; this is not
        return findings_at(place, config, isolated, cache, "note")
    if not there:
        rows = list(dict.fromkeys(spelled(f.location, f.cells).rpartition(":")[0] for f in found))
        known = f"there {'is one' if len(rows) == 1 else 'are some'} at {', '.join(rows[:10])}"
        raise click.ClickException(f"no finding at {place}: {known if rows else 'this file has none'}")
    return sorted(there, key=lambda f: (LEVELS.index(f.level), in_cell(f.location, f.cells)[1].row != row))


def program_at(place: str, config: Path | None, isolated: bool) -> tuple[str, str, int, Settings]:
    """The text that a place is in, its name, the row there, and its settings. Raises ClickException."""
    name, cell, row, _ = _parts(place)
    settings = Configuration(Overrides(), config, isolated).settings(Path(os.path.abspath(name)).parent)
    try:
        program, _ = decode(disk.contents(Path(name)))
        if name.endswith(".ipynb"):
            notebook = Notebook(program, name)
            program, starts = notebook.program, notebook.cells(notebook.program)
            row += starts[max(0, cell - 1)] - 1 if cell <= len(starts) else len(program)
    except (UndecodableError, ValueError) as error:
        raise click.ClickException(f"{printable(name)}: {error}") from None
    if not 0 < row <= len(program.splitlines()):
        raise click.ClickException(f"{printable(place)}: the file has no such row")
    return program, name, row, settings


def say_not_differentiated(place: str) -> int:
    """Write a comment that nobody differentiates the function around a place; the exit status."""
    name, _, row, _ = _parts(place)
    if name.endswith(".ipynb"):
        raise click.UsageError(
            f"{name}: this option edits no notebook; add the comment `# wherelint: not-differentiated` by hand"
        )
    content = disk.contents(Path(name))
    try:
        text, encoding = decode(content)
        edit = not_differentiated(text, row)
    except (UndecodableError, SyntaxError, ValueError) as error:
        raise click.ClickException(f"{printable(name)}: {error}") from None
    if edit is None:
        raise click.ClickException(f"{printable(place)}: this row is in no function")
    if edit.content.strip() in text.split("\n")[edit.location.row - 1]:
        click.echo(f"{printable(name)}:{edit.location.row}: already marked as not-differentiated.")
        return CLEAN
    after = encode(Source(text).edited([edit]), encoding, content)
    problem = None if after is None else files.rewrite(name, content, after)
    if after is None or problem is not None:
        raise click.ClickException(problem.message if problem else f"{name}: cannot be written in its encoding")
    click.echo(f"{printable(name)}:{edit.location.row}: marked as not-differentiated.")
    return CLEAN


def _parts(place: str) -> tuple[str, int, int, int]:
    """File, cell, row and column of a place; 0 for what it leaves out."""
    match = _PLACE.fullmatch(place)
    if match is None:
        raise click.UsageError(f"{place!r} is not of the form PATH:ROW, for example model.py:12")
    return match[1], int(match[2] or 0), int(match[3]), int(match[4] or 0)


def tell_others(findings: list[Finding]) -> None:
    """Say which other findings there are at a place."""
    if findings:
        places = ", ".join(f"{f.filename}:{spelled(f.location, f.cells)}" for f in findings)
        click.echo(f"other findings there: {places}", err=True)
