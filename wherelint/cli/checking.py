"""``wherelint check``: files or standard input, fixed or not, confirmed or not, once or whenever something changes."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import click

from wherelint import api
from wherelint.cli.options import CheckOptions
from wherelint.cli.output import (
    CLEAN,
    FAILED,
    FINDINGS,
    Progress,
    destination,
    put,
    report_problems,
    use_color,
    write_file,
    write_report,
)
from wherelint.finding import FileReport, Finding, FixKey
from wherelint.io import disk, files
from wherelint.io.config import ConfigError, Configuration
from wherelint.io.notebook import spelled
from wherelint.report import text
from wherelint.report.common import printable
from wherelint.run import engine
from wherelint.run.check import check
from wherelint.run.coverage import MeasuredGradients
from wherelint.run.result import Result, confirm_result, unwritten, without_refuted
from wherelint.suppress import baseline
from wherelint.suppress.since import Changes

#: How much of a path becomes a part of the name of a script.
_LONGEST = 120
#: Seconds between two looks at files that are watched.
_PAUSE = 0.5


def run(options: CheckOptions) -> int:
    """Check what the options say, once or again and again; the exit status. Raises UsageError and ConfigError."""
    overrides, config = options.overrides()

    def configuration() -> Configuration:
        return Configuration(overrides, config, options.isolated)

    with handle_termination():
        return watch(options, configuration) if options.watch else run_check(options, configuration())


def run_check(options: CheckOptions, configuration: Configuration) -> int:
    """Check what the options say, and report it; the exit status. Raises UsageError and ConfigError."""
    if options.show_settings and not options.stdin:
        return _show_settings(options, configuration)
    if options.add_not_differentiated is not None:
        from wherelint.cli.place import say_not_differentiated

        return say_not_differentiated(options.add_not_differentiated)
    changes = Changes(options.since) if options.since is not None else None
    if changes is not None:
        options = replace(options, paths=tuple(changes.below(options.paths)), force_exclude=True)
    if options.show_files:
        return _show_files(options, configuration)
    stages = _Stages(options, configuration, changes)
    result = stages.search()
    if not result.total and changes is None and not options.quiet:
        click.echo("warning: found no Python file or notebook to check", err=True)
    if options.write_baseline is not None:
        return _write_baseline(result, options.write_baseline, options, configuration)
    if options.show_diff:
        return _show_diff(result, options)
    return stages.report(stages.write(result))


def watch(options: CheckOptions, configuration: Callable[[], Configuration]) -> int:
    """Check, and again after each change of a file or its settings; the last exit status. Raises UsageError."""
    status, seen = FAILED, None
    with suppress(KeyboardInterrupt):
        while True:
            now = _state(options, configuration)
            if now != seen:
                seen = now
                click.clear()
                try:
                    status = run_check(options, configuration())
                except ConfigError as error:
                    status = FAILED
                    click.echo(f"error: {printable(str(error))}", err=True)
                if not options.quiet:
                    click.echo("Watching for changes. Press Ctrl-C to stop.", err=True)
            time.sleep(_PAUSE)
    return status


def _state(options: CheckOptions, configuration: Callable[[], Configuration]) -> object:
    """What is checked, with its settings and when it was written; or why that cannot be said."""
    try:
        targets, problems = files.discover(options.paths, configuration(), force_exclude=options.force_exclude)
        return targets, problems, [os.path.getmtime(target.name) for target in targets]
    except (ConfigError, OSError) as error:
        return str(error)


def _show_settings(options: CheckOptions, configuration: Configuration) -> int:
    path = Path(os.path.abspath(options.paths[0]))
    settings = configuration.settings(path if path.is_dir() else path.parent)
    put("".join(f"{printable(line)}\n" for line in settings.described(path)), options.output_file)
    return CLEAN


def _show_files(options: CheckOptions, configuration: Configuration) -> int:
    paths = () if options.stdin else options.paths
    targets, problems = files.discover(paths, configuration, force_exclude=options.force_exclude)
    names = [options.stdin_filename or "-"] if options.stdin else [target.name for target in targets]
    put("".join(f"{printable(name)}\n" for name in names), options.output_file)
    return FAILED if problems else CLEAN


class _Stages:
    """The stages of a check, each from a result to the next; what is written and reported is the last of them."""

    def __init__(self, options: CheckOptions, configuration: Configuration, changes: Changes | None) -> None:
        self._options, self._configuration, self._changes = options, configuration, changes
        self._content = sys.stdin.buffer.read() if options.stdin else b""
        again = partial(self._again, level="note")
        self._measured = MeasuredGradients(configuration.settings, options.gradient_coverage, again)
        self._baselines = baseline.Baselines(configuration.settings) if options.write_baseline is None else None

    def search(self) -> Result:
        """The findings to show of all files, with the fixes that are applied; printed at once where they can be."""
        options, later = self._options, self._options.rewrites or self._options.stdin
        if options.stdin:
            result = Result((self._again(FileReport(options.stdin_filename or "-")),), 1, 0.0)
        else:
            with Progress(options.quiet) as update:

                def seen(report: FileReport) -> FileReport:
                    report = report if later else self._view(report)
                    if options.streams and (report.findings or report.problems):
                        update.hide()
                        write_file(options.output_format, report, options.color, sys.stdout)
                    return report

                result = api.check_paths(
                    options.paths, self._configuration, fix_mode=options.fix_mode, force_exclude=options.force_exclude,
                    only_shown=options.show_diff, jobs=options.jobs, progress=update, cache=options.cache, seen=seen,
                )  # fmt: skip
        if result.fixed and options.runs_findings:  # every fix is run before it is written
            result = without_refuted(result, self._again, lambda part: self._confirm(part)[0])
        if later:
            result = replace(result, reports=tuple(map(self._view, result.reports)))
        if options.verbose:
            click.echo("".join(f"{printable(line)}\n" for line in self._measured.changed), nl=False, err=True)
            if number := self._measured.differentiated:
                click.echo(f"a gradient passed through {number} of the calls in findings", err=True)
        if self._baselines is None:
            return result
        # Another level finds less, and a fix has just removed what is missing.
        outlived = options.level is None and not result.fixed and self._baselines.outlived
        return replace(result, known=self._baselines.known, outlived=outlived)

    def _view(self, report: FileReport) -> FileReport:
        """What is shown of a report: weighed by the calls that ran, new to the baseline, and changed."""
        if not self._options.rewrites:
            report = self._measured.weigh(report)
        if self._baselines is not None:
            report = self._baselines.without_known(report)
        return report if self._changes is None else self._changes.only(report)

    def write(self, result: Result) -> Result:
        """Fixed files are written; standard input is printed, fixed or not."""
        if not self._options.stdin:
            failed = (files.rewrite(r.filename, r.before, r.after) for r in result.reports if r.fixed)
            return unwritten(result, [problem for problem in failed if problem is not None])
        if self._options.rewrites:
            report = result.reports[0]
            sys.stdout.buffer.write(report.after if report.fixed else self._content)
            sys.stdout.buffer.flush()
        return result

    def report(self, result: Result) -> int:
        """Run and write what was asked for of the findings, and report them; the exit status."""
        options, failed = self._options, CLEAN
        if options.runs_findings:
            result, problems = self._confirm(result, only=options.only_confirmed)
            serious = options.only_confirmed or options.device != "auto"
            for problem in problems:
                click.echo(f"{'error' if serious else 'warning'}: {problem}", err=True)
            failed = FAILED if problems and serious else CLEAN
        if options.repro_dir is not None:
            failed = max(failed, _write_scripts(result, options.repro_dir))
        stream: TextIO = sys.stderr if options.stdin and options.rewrites else sys.stdout
        return max(failed, write_report(result, options, stream, self._fails))

    def _fails(self, finding: Finding) -> bool:
        """Whether a finding makes the exit status 1."""
        settings = self._configuration.settings(Path(os.path.abspath(finding.filename)).parent)
        return finding.reaches(settings.fail_on)

    def _again(self, report: FileReport, refuted: Mapping[FixKey, str] | None = None, **changes: Any) -> FileReport:
        """The report on the same file without some fixes, or under other settings."""
        options, name = self._options, report.filename
        settings = replace(self._configuration.settings(Path(os.path.abspath(name)).parent), **changes)
        target = files.Target(name, settings, options.fix_mode, refuted or {})
        return check(self._content, target) if options.stdin else engine.check_file(target)[0]

    def _confirm(self, result: Result, *, only: bool = False) -> tuple[Result, list[str]]:
        """The result of running what was found, and why a framework could not be run."""
        options, total = self._options, len(result.findings)
        with Progress(options.quiet, "confirming") as update:
            return confirm_result(result, options.device, only=only, progress=lambda done: update(done, total))


def _write_baseline(result: Result, path: Path, options: CheckOptions, configuration: Configuration) -> int:
    if result.failed:
        report_problems(result, options)
        what = "not written: some files could not be checked; fix them, or leave them out with --extend-exclude"
        click.echo(f"error: {path}: {what}", err=True)
        return FAILED
    count = baseline.write(path, result.reports)
    if not options.quiet:
        written = text.count(count, "finding")
        if configuration.settings(Path.cwd()).baseline == path.absolute():
            click.echo(f"{path}: {written} written.")
        else:
            click.echo(f"{path}: {written} written. Hide them with --baseline {path},")
            click.echo(f'or with baseline = "{path}" below [tool.wherelint] in pyproject.toml.')
    return report_problems(result, options)


def _write_scripts(result: Result, directory: Path) -> int:
    """One script a finding; what has no program has no script. The exit status for it."""
    from wherelint.confirm.routine import snippet_of
    from wherelint.confirm.script import script

    try:
        directory.mkdir(parents=True, exist_ok=True)
        taken: set[str] = set()
        for finding in result.findings:
            snippet = snippet_of(finding)
            if not isinstance(snippet, str):
                path = re.sub(r"\W+", "_", finding.filename.removesuffix(".py"), flags=re.ASCII).strip("_")[-_LONGEST:]
                place = re.sub(r"\W+", "_", spelled(finding.location, finding.cells))
                stem = unnumbered = f"{path}_{place}_{finding.code}"
                while stem in taken:
                    stem = f"{unnumbered}_{len(taken)}"
                taken.add(stem)
                # The next run is not to find them.
                program = f"# wherelint: noqa\n{script(snippet, finding)}"
                disk.write(directory / f"{stem}.py", program.encode(errors="replace"))
    except OSError as error:
        what = printable(str(error.filename or directory))
        click.echo(f"error: {what}: cannot write the scripts: {error.strerror}", err=True)
        return FAILED
    return CLEAN


def _show_diff(result: Result, options: CheckOptions) -> int:
    """What the fixes would change, on standard output; how much that is, on standard error."""
    with destination(options.output_file) as stream:
        color = use_color(options.color, stream)
        for report in result.reports:
            if report.fixed:
                whys = map(text.fix_line, report.fixed)
                text.write([*whys, *text.patch(report)], stream, color=color, exact=True)
        stream.flush()
    if result.fixed and not options.quiet:
        click.echo(text.fixes(result.fixed, "Would fix", ran=options.runs_findings), err=True)
    return report_problems(result, options) or (FINDINGS if result.fixed else CLEAN)


@contextmanager
def handle_termination() -> Iterator[None]:
    """A CI service that cancels the run, or a terminal that is closed, is Ctrl-C: nothing is left behind."""
    numbers = [number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None))]
    mine = threading.current_thread() is threading.main_thread()
    handled = [number for number in numbers if mine and signal.getsignal(number) is signal.SIG_DFL]  # not under nohup
    try:
        for number in handled:
            signal.signal(number, signal.default_int_handler)
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)
