"""``wherelint run``: a program that runs as it is, and whose gradients are watched."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from wherelint.cli.output import FAILED, FINDINGS, use_color
from wherelint.watcher import program, watching
from wherelint.watcher.report import Reporter


def run(name: str, arguments: Sequence[str], *, is_module: bool, record: Path | None, **options: Any) -> int:
    """Run it, report what was not finite, and return the exit status: 1 with a report, else the program's own."""
    reporter, status = Reporter(color=use_color("auto", sys.stderr), **options), FAILED
    try:
        with (
            program.coverage_record(record) as marks,
            watching(reporter.session, marks),
            program.watch_children(reporter),
        ):
            status = program.run_program(name, arguments, is_module=is_module)
    except program.CannotRunError as error:
        click.echo(f"error: {error}", err=True)
        return FAILED
    except OSError as error:  # its own are caught
        click.echo(f"error: {record}: cannot write it: {error.strerror}", err=True)
        status = FAILED
    reporter.explain(reporter.session.end())
    return FINDINGS if reporter.end() else status
