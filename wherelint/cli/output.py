"""Reports to the terminal, to files and to pipes; progress; the exit status that they stand for."""

from __future__ import annotations

import io
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from wherelint.cli.options import BY_FILE
from wherelint.report.common import printable
from wherelint.report.formats import FORMATS

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from wherelint.cli.options import CheckOptions
    from wherelint.finding import FileReport, Finding
    from wherelint.report.frame import Line
    from wherelint.run.result import Result


CLEAN, FINDINGS, FAILED, INTERRUPTED = 0, 1, 2, 130
#: Warnings that are printed without -v.
_MOST_WARNINGS = 3
#: Seconds without a sign of life.
_PATIENCE = 1.0


def write_report(result: Result, options: CheckOptions, stream: TextIO, fails: Callable[[Finding], bool]) -> int:
    """Write every report that was asked for; the exit status, by the findings that ``fails`` is true of."""
    from wherelint.report import text
    from wherelint.report.pattern import repeated

    findings = () if options.fix_only else result.findings
    serious = not options.exit_zero and any(map(fails, findings))
    status = FINDINGS if serious or (options.exit_non_zero_on_fix and result.fixed) else CLEAN
    style = options.output_format
    for other, path in options.reports:
        with destination(path) as file:
            _write(other, result, options, file)
    if not options.streams:
        with destination(options.output_file, stream) as file:
            _write(style, result, options, file)
    if options.show_fixes and style not in FORMATS:
        text.write(map(text.fixed_line, result.fixed), stream, color=use_color(options.color, stream))
    if (style not in FORMATS or options.output_file is not None) and not options.quiet:
        if options.applies_fixes:
            told = {(finding.filename, finding.code) for finding in (*findings, *result.fixed)}
            left = [finding for finding in result.findings if (finding.filename, finding.code) in told]
            lines = text.fix_table(result.fixed, left)
            click.echo("".join(f"{line}\n" for line in lines), nl=False, file=stream)
        if result.fixed:
            verb = "Silenced" if options.add_noqa else "Fixed"
            click.echo(text.fixes(result.fixed, verb, ran=options.runs_findings), file=stream)
        if style == "full" and not options.fix_only and (pattern := repeated(result.reports)):
            click.echo(pattern, file=stream)
        took = f" in {result.seconds:.1f} s" if stream.isatty() else ""
        counts = result.hidden, result.files, result.failed
        click.echo(text.summary(result.findings, *counts, took, left=options.fix_only), file=stream)
        if result.known:
            click.echo(
                f"{text.count(result.known, 'finding')} in the baseline {'is' if result.known == 1 else 'are'} hidden.",
                file=stream,
            )
        if result.outlived:
            what = "some of it is gone, and could come back unseen; write it again with --write-baseline"
            click.echo(f"The baseline is old: {what}.", file=stream)
        if ran := text.confirmations(findings, result.unconfirmed):
            click.echo(ran, file=stream)
        if status == CLEAN and not options.exit_zero and (passing := text.passing(findings)):
            click.echo(passing, file=stream)
    stream.flush()
    failed = report_problems(result, options)
    if options.verbose:
        for finding in result.silenced:
            click.echo(text.silenced_line(finding), err=True)
        for finding in findings:
            click.echo(text.evidence_line(finding), err=True)
        click.echo(f"{text.count(result.files, 'file')} in {result.seconds:.2f} s", err=True)
        if skipped := text.skipped(result.skipped):
            click.echo(skipped, err=True)
    return failed or status


@contextmanager
def destination(path: Path | None, stream: TextIO | None = None) -> Iterator[TextIO]:
    """Where to write: a file, which is replaced in the end, or else a stream (standard output)."""
    text = io.StringIO()
    yield text if path is not None else stream or sys.stdout
    if path is not None:
        put(text.getvalue(), path)


def _write(style: str, result: Result, options: CheckOptions, stream: TextIO) -> None:
    """The findings in one format."""
    from wherelint.report import text

    if options.fix_only:
        result = replace(result, reports=tuple(replace(report, findings=()) for report in result.reports))
    if style == "sarif" and options.verbose:  # GitHub takes what is suppressed there for findings
        result = replace(result, reports=tuple(replace(r, findings=r.findings + r.silenced) for r in result.reports))
    if options.statistics and style == "json":
        click.echo(text.statistics_json(result.findings), file=stream)
    elif options.statistics and style not in FORMATS:
        click.echo("".join(f"{line}\n" for line in text.statistics(result.findings)), nl=False, file=stream)
    elif style in BY_FILE:
        for report in result.reports:
            write_file(style, report, options.color, stream)
    else:
        click.echo(result.render(style), file=stream)


def write_file(style: str, report: FileReport, color: str, stream: TextIO) -> None:
    """The findings of a file in one of the formats that print a file after the other."""
    from wherelint import rules
    from wherelint.report import text
    from wherelint.run.result import Result

    if style == "full":
        helps = {rule.code: rule.help for rule in rules.RULES}
        lines: Iterable[Line] = text.full(report, helps, text.columns() if stream.isatty() else 80)
    elif style == "concise":
        lines = text.concise_lines(report.findings)
    else:
        written = Result((report,), 1, 0.0).render(style)
        if written:
            click.echo(f"{written}\n" if style == "grouped" else written, file=stream)
        return
    text.write(lines, stream, color=use_color(color, stream))
    stream.flush()


def put(content: str | bytes, path: Path | None) -> None:
    """Print something as it is, or write it to a file. Text is UTF-8 there."""
    from wherelint.io import disk

    if path is None:
        click.echo(content, nl=False)
    else:
        disk.write(path, content.encode(errors="backslashreplace") if isinstance(content, str) else content)


def report_problems(result: Result, options: CheckOptions) -> int:
    """Say what could not be checked or written; the exit status for that. Many warnings are one without ``-v``."""
    from wherelint.report import text

    errors = [problem for problem in result.problems if problem.error]
    warnings = [] if options.quiet else [problem for problem in result.problems if not problem.error]
    few = options.verbose or len(warnings) <= _MOST_WARNINGS
    for problem in (*(warnings if few else ()), *errors):
        click.echo(text.problem_line(problem), err=True)
    if not few:
        where = text.count(len({problem.filename for problem in warnings}), "file")
        click.echo(
            f"warning: gave up on {len(warnings)} parts of {where} (-v lists them; see wherelint explain limits)",
            err=True,
        )
    return FAILED if errors else CLEAN


class Progress(ExitStack):
    """What is called with the number of files that are done, and of all: a bar on the terminal after a second."""

    def __init__(self, quiet: bool, verb: str = "checking") -> None:
        super().__init__()
        self._verb = verb
        self._begins = math.inf if quiet or not sys.stderr.isatty() else time.monotonic() + _PATIENCE
        self._bar: Bar | None = None

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() < self._begins:
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import Progress as Bar

            bar = Bar(console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False)
            self._bar = self.enter_context(bar)
            self._bar.add_task(self._verb)
        self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done, total=total)

    def hide(self) -> None:
        """Take the bar off the terminal until the next call."""
        if self._bar is not None:
            self._bar.stop()


def use_color(choice: str, stream: TextIO) -> bool:
    """Whether a stream gets colours: by the option, NO_COLOR, FORCE_COLOR and the terminal, in this order."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


def reader_left() -> int:
    """Whoever read the output has seen enough; what is still buffered has nowhere to go."""
    _discard(sys.stdout)
    return FINDINGS


def refused(error: click.ClickException) -> int:
    """What cannot be done, with the prefix that every error has."""
    shown = io.StringIO()
    error.show(shown)
    click.echo(shown.getvalue().replace("Error: ", "error: ", 1), nl=False, err=True)
    return FAILED


def stopped(error: OSError) -> int:
    """The disk is full, say: one line, and Python is kept from writing what is buffered when it exits."""
    what = error.strerror or str(error)
    if error.filename:
        what = f"{error.filename}: {what}"
    elif isinstance(error, FileNotFoundError):
        what = "the working directory does not exist"
    else:
        _discard(sys.stdout)
        what = f"cannot write the output: {what}"
    try:
        click.echo(f"error: {printable(what)}", err=True)
    except OSError:
        _discard(sys.stderr)
    return FAILED


def _discard(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def interrupted() -> int:
    """Print that Ctrl-C ended the run; the exit status for it."""
    click.echo("wherelint: interrupted", err=True)
    return INTERRUPTED
