"""``wherelint run``: a program that runs as it is, and whose gradients are watched."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from wherelint.cli.output import FAILED, FINDINGS, use_color
from wherelint.watcher import program, watching
from wherelint.watcher.report import Reporter
from wherelint.watcher.session import Session


def run(
    name: str, arguments: Sequence[str], *, is_module: bool, session: Session, output_dir: Path, output_format: str,
    quiet: bool, record: Path | None,
) -> int:  # fmt: skip
    """Run it, report what was not finite, and return the exit status: 1 with a report, else the program's own."""
    reporter = Reporter(session, output_dir, output_format, quiet, use_color("auto", sys.stderr))
    with watching(session):
        try:
            status = program.run_program(name, arguments, is_module=is_module)
        except program.CannotRunError as error:
            click.echo(f"error: {error}", err=True)
            return FAILED
    reporter.explain(session.end())
    return FINDINGS if reporter.end() else status
