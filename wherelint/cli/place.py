"""The findings at a place that a command names: ``model.py:12``."""

import re
from dataclasses import replace
from pathlib import Path

import click

from wherelint.finding import Finding
from wherelint.io import files
from wherelint.io.config import ConfigError, Configuration, Overrides
from wherelint.io.notebook import in_cell, spelled
from wherelint.report import text
from wherelint.report.common import printable
from wherelint.run import engine
from wherelint.run.result import add_problems

_PLACE = re.compile(r"(.+?)(?::cell (\d+))?:(\d+)(?::(\d+))?", re.DOTALL)


def findings_at(
    place: str, config: Path | None, isolated: bool, *, snippets: bool = False, plots: bool = False
) -> list[Finding]:
    """The findings of any confidence at a place, the surest first; there is one at least.

    What has the cause of another finding has its plot. Raises ClickException where there is none.
    """
    match = _PLACE.fullmatch(place)
    if match is None:
        raise click.UsageError(f"{place!r} is not a place: write PATH:ROW, as in model.py:12")
    name, cell, row, column = match[1], int(match[2] or 0), int(match[3]), int(match[4] or 0)
    try:
        configuration = Configuration(Overrides(confidence="low"), config, isolated)
        targets, problems = files.discover([name], configuration, "offer", snippets=snippets, plots=plots)
        result = add_problems(engine.check_targets(targets, 1), problems)
    except ConfigError as error:
        raise click.ClickException(printable(str(error))) from None
    if serious := [problem for problem in result.problems if problem.error]:
        raise click.ClickException(text.problem_line(serious[0]).removeprefix("error: "))
    found = [replace(each, plot=finding.plot) for finding in result.findings for each in finding.places]

    def at(finding: Finding) -> bool:
        places = [in_cell(each, finding.cells) for each in (finding.location, finding.select.location)]
        return any(row == p.row and cell in (0, c) for c, p in places) and column in (0, finding.location.column)

    there = [finding for finding in found if at(finding)]
    if not there:
        rows = list(dict.fromkeys(spelled(f.location, f.cells).rpartition(":")[0] for f in found))
        known = f"there {'is one' if len(rows) == 1 else 'are some'} at {', '.join(rows[:10])}"
        known = known if rows else "there is none in this file"
        raise click.ClickException(f"no finding at {place}: {known}")
    return sorted(there, key=lambda f: (f.confidence, in_cell(f.location, f.cells)[1].row != row))


def tell_others(findings: list[Finding]) -> None:
    """Say which other findings there are at a place."""
    if findings:
        places = ", ".join(f"{f.filename}:{spelled(f.location, f.cells)}" for f in findings)
        click.echo(f"other findings there: {places}", err=True)
