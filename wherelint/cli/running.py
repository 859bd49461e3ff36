"""``wherelint run``: a program that runs as it is, and whose gradients are watched."""

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from wherelint.cli.output import FAILED, FINDINGS, use_color
from wherelint.watcher import program, watching
from wherelint.watcher.report import Reporter

#: What a report consists of.
_WRITTEN = ("report.txt", "report.json", "arguments.npz", "function.bin", "operands.pt", "repro.py")
#: File systems round times.
_ROUNDED = 2.0


def run(name: str, arguments: Sequence[str], *, is_module: bool, record: Path | None, **options: Any) -> int:
    """Run it, report what was not finite, and return the exit status: 1 with a report, else the program's own."""
    reporter, status, begun = Reporter(color=use_color("auto", sys.stderr), **options), FAILED, time.time()
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
    if reporter.output_dir is not None:
        _forget(reporter.output_dir, begun - _ROUNDED)
    return FINDINGS if reporter.end() else status


def _forget(directory: Path, before: float) -> None:
    """Remove the reports of earlier runs, whoever of a program's processes made them, from a directory of reports."""
    with suppress(OSError):
        if (directory / ".gitignore").read_bytes() != b"*\n":
            return  # it is not ours
        for report in [*directory.glob("[0-9]*/report.json"), *directory.glob("*/[0-9]*/report.json")]:
            if report.stat().st_mtime < before:
                for name in _WRITTEN:
                    (report.parent / name).unlink(missing_ok=True)
                report.parent.rmdir()
