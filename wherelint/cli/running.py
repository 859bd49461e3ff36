"""``wherelint run``: a program that runs as it is, and whose gradients are watched."""

import sys
from collections.abc import Sequence
from typing import Any

import click

from wherelint.cli.output import FAILED, FINDINGS, use_color
from wherelint.watcher import program, watching
from wherelint.watcher.children import followed
from wherelint.watcher.report import Reporter


def run(name: str, arguments: Sequence[str], *, is_module: bool, record: Any, **options: Any) -> int:
    """Run it, report what was not finite, and return the exit status: 1 with a report, else the program's own."""
    reporter = Reporter(color=use_color("auto", sys.stderr), **options)
    try:
        with watching(reporter.session), followed(reporter):
            status = program.run_program(name, arguments, is_module=is_module)
    except program.CannotRunError as error:
        click.echo(f"error: {error}", err=True)
        return FAILED
    reporter.explain(reporter.session.end())
    return FINDINGS if reporter.end() else status
