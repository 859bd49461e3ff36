"""The main command: files or standard input, fixed or not, confirmed or not."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from wherelint.cli.output import (
    CLEAN,
    FAILED,
    FINDINGS,
    Progress,
    asked_styles,
    destination,
    given,
    put,
    refuse_clashes,
    tell_problems,
    use_color,
    write_report,
)
from wherelint.report.common import printable
from wherelint.report.formats import FORMATS, shows_fixes

if TYPE_CHECKING:
    from wherelint.finding import FileReport, Finding, FixKey
    from wherelint.io.config import Configuration, Overrides
    from wherelint.io.files import FixMode
    from wherelint.run.result import Result


#: How much of a path becomes a part of the name of a script.
_LONGEST = 120
#: Options that change files, or would.
_REWRITING = ("show_diff", "fix_only", "fix", "add_noqa")


def given_overrides(options: dict[str, Any]) -> tuple[Overrides, Path | None]:
    """What the options set instead of the configuration, and the file that is one. Raises ConfigError.

    What ``--config`` is given is a setting if it has a ``=`` and is no file.
    """
    from wherelint.io.config import Overrides, inline_settings, parse_codes

    settings = [given for given in options["config"] if "=" in given and not os.path.exists(given)]
    files = [Path(given) for given in options["config"] if given not in settings]
    if len(files) > 1:
        raise click.UsageError("--config names more than one file")
    inline = {key: value for setting in settings for key, value in inline_settings(setting).items()}

    given = {name: options[name] for name in ("fix_comment", "confidence", "respect_gitignore")}
    for name in ("select", "extend_select", "ignore", "fixable", "unfixable"):
        if options[name]:
            given[name] = parse_codes(_commas(options[name]), f"--{name.replace('_', '-')}")
    given |= {name: _commas(options[name]) for name in ("exclude", "extend_exclude") if options[name]}
    given["ignore_noqa"] = options["ignore_noqa"] or None
    given["baseline"] = options["baseline"] and options["baseline"].absolute()
    return Overrides(inline, **given), next(iter(files), None)


def run_check(options: dict[str, Any], configuration: Configuration) -> int:
    """Check what the options say, and report it; the exit status. Raises UsageError for options that clash."""
    from wherelint.io import files

    paths = options["paths"] or (".",)
    options["confirm"] |= options["only_confirmed"]
    options["fix"] |= options["fix_only"] or options["show_diff"]
    if options["device"] != "auto" and not options["confirm"]:
        raise click.UsageError("--device says where to confirm: it needs --confirm")
    if options["show_diff"] and (options["only_confirmed"] or options["repro_dir"] is not None):
        raise click.UsageError("--diff reports no findings: it cannot be combined with --only-confirmed or --repro-dir")
    rewrites = options["fix"] or options["add_noqa"]
    if options["write_baseline"] and (other := given(options, *_REWRITING)):
        raise click.UsageError(f"--write-baseline cannot be combined with {other}")
    if options["since"] is not None and (other := given(options, *_REWRITING, "write_baseline")):
        raise click.UsageError(f"--since cannot be combined with {other}")
    if rewrites and options["gradient_coverage"]:
        raise click.UsageError("--gradient-coverage cannot be combined with --fix or --add-noqa")
    if options["statistics"] and options["output_format"] in {*FORMATS} - {"json"}:
        raise click.UsageError("--statistics has no such --output-format: text or json")
    refuse_clashes(options)
    stdin, name = "-" in paths, options["stdin_filename"] or "-"
    if stdin and len(paths) > 1:
        raise click.UsageError("standard input (-) cannot be combined with other paths")
    if options["show_settings"] and not stdin:
        path = Path(os.path.abspath(paths[0]))
        settings = configuration.settings(path if path.is_dir() else path.parent)
        put("".join(f"{printable(line)}\n" for line in settings.described(path)), options["output_file"])
        return CLEAN
    changes = None
    if options["since"] is not None:
        from wherelint.suppress.since import Changes

        changes = Changes(options["since"])
        paths, options["force_exclude"] = changes.below(paths), True
    if options["show_files"]:
        asked = () if stdin else paths
        targets, problems = files.discover(asked, configuration, force_exclude=options["force_exclude"])
        names = [name] if stdin else [target.name for target in targets]
        put("".join(f"{printable(name)}\n" for name in names), options["output_file"])
        return FAILED if problems else CLEAN
    from wherelint import api
    from wherelint.finding import FileReport
    from wherelint.run import engine
    from wherelint.run.check import check_source
    from wherelint.run.result import Result, unwritten, without_known

    fix_mode, snippets, plots = _fix_mode(options), _snippets(options), _plots(options)
    content = sys.stdin.buffer.read() if stdin else b""

    def again(report: FileReport, refuted: Mapping[FixKey, str], **changes: Any) -> FileReport:
        settings = replace(configuration.settings(Path(os.path.abspath(report.filename)).parent), **changes)
        if stdin:
            return check_source(content, name, settings, fix_mode, snippets=snippets, plots=plots, refuted=refuted)
        target = files.Target(report.filename, settings, fix_mode, snippets, plots, refuted)
        return engine.check_file(target)[0]

    if stdin:
        result = Result((again(FileReport(name), {}),), 1, 0.0)
    else:
        with Progress(options["quiet"]) as progress:
            result = api.check_paths(
                paths, configuration, fix_mode=fix_mode, snippets=snippets, plots=plots,
                force_exclude=options["force_exclude"], jobs=options["jobs"], progress=progress, cache=_cache(options),
            )  # fmt: skip
    if not result.total and changes is None and not options["quiet"]:
        click.echo("warning: no Python file or notebook to check there", err=True)
    result = _run_fixes(result, options, again)
    if options["fix"] and snippets and not stdin:  # without, they are made already
        result = _fixed_elsewhere(result, options, configuration)
    if not rewrites:
        result = _weighed(result, options, configuration, lambda report: again(report, {}, confidence="low"))
    if options["write_baseline"] is not None:
        return _write_baseline(result, options, configuration)
    result, stale = without_known(result, configuration.settings)
    for path, count in stale.items():
        if count and not (rewrites or options["quiet"]):
            entries = "1 entry matches" if count == 1 else f"{count} entries match"
            name = printable(files.display_name(path))
            click.echo(f"warning: {name}: {entries} nothing any more; write it again", err=True)
    if changes is not None:
        result = replace(result, reports=tuple(map(changes.only, result.reports)))
    if options["show_diff"]:
        return _diff(result, options)
    if stdin and rewrites:
        report = result.reports[0]
        sys.stdout.buffer.write(report.after if report.fixed else content)
        sys.stdout.buffer.flush()
        return _confirm_and_report(result, options, sys.stderr)
    written = [problem for r in result.reports if r.fixed and (problem := files.rewrite(r.filename, r.before, r.after))]
    return _confirm_and_report(unwritten(result, written), options, sys.stdout)


def _weighed(
    result: Result, options: dict[str, Any], configuration: Configuration, again: Callable[[FileReport], FileReport]
) -> Result:
    """The result, its findings weighed by the calls that ran."""
    from wherelint.run.coverage import MeasuredGradients

    measured = MeasuredGradients(configuration.settings, options["gradient_coverage"], again)
    result = measured.weigh(result)
    if options["verbose"]:
        click.echo("".join(f"{printable(line)}\n" for line in measured.changed), nl=False, err=True)
        if measured.differentiated:
            click.echo(f"a gradient passed through {measured.differentiated} of the calls in findings", err=True)
    return result


def _run_fixes(
    result: Result, options: dict[str, Any], again: Callable[[FileReport, Mapping[FixKey, str]], FileReport]
) -> Result:
    """With --confirm every fix is run before it is written; without those that the run did not bear out."""
    if not result.fixed or not options["confirm"]:
        return result
    from wherelint.run.result import without_refuted

    return without_refuted(result, again, lambda part: _confirmed(part, options)[0])


def _fixed_elsewhere(result: Result, options: dict[str, Any], configuration: Configuration) -> Result:
    """The result with the fixes that lie in another file than their finding; with --confirm each is run before."""
    from wherelint import api
    from wherelint.finding import FileReport
    from wherelint.run.result import Result

    def against(finding: Finding) -> str:
        if not options["confirm"]:
            return ""
        (ran,) = _confirmed(Result((FileReport(finding.filename, (finding,)),), 1, 0.0), options)[0].findings
        return ran.confirmation.against_fix if ran.confirmation is not None else ""

    unsafe, plots = options["unsafe_fixes"], _plots(options)
    return api.fixed_elsewhere(result, configuration, unsafe=unsafe, snippets=True, plots=plots, against=against)


def _confirmed(result: Result, options: dict[str, Any], *, only: bool = False) -> tuple[Result, list[str]]:
    """The result of running what was found, and why a framework could not be run."""
    from wherelint.run.result import confirm_result

    total = len(result.findings)
    with Progress(options["quiet"], "confirming") as progress:
        return confirm_result(
            result, options["device"], _cache(options), only=only, progress=lambda done: progress(done, total)
        )


def _write_baseline(result: Result, options: dict[str, Any], configuration: Configuration) -> int:
    from wherelint.report import text
    from wherelint.suppress import baseline

    if result.failed:
        tell_problems(result, options)
        what = "not written: mend what could not be checked, or leave it out with --extend-exclude"
        click.echo(f"error: {options['write_baseline']}: {what}", err=True)
        return FAILED
    count = baseline.write(options["write_baseline"], result.reports)
    if not options["quiet"]:
        name, written = options["write_baseline"], text.count(count, "finding")
        if configuration.settings(Path.cwd()).baseline == name.absolute():
            click.echo(f"{name}: {written} written.")
        else:
            click.echo(f"{name}: {written} written. Leave them out with --baseline {name},")
            click.echo(f'or always with baseline = "{name}" below [tool.wherelint] in pyproject.toml.')
    return tell_problems(result, options)


def _confirm_and_report(result: Result, options: dict[str, Any], stream: TextIO) -> int:
    """Run and write what was asked for of the findings, and report them."""
    failed = CLEAN
    if options["confirm"]:
        result, problems = _confirmed(result, options, only=options["only_confirmed"])
        serious = options["only_confirmed"] or options["device"] != "auto"
        for problem in problems:
            click.echo(f"{'error' if serious else 'warning'}: {problem}", err=True)
        failed = FAILED if problems and serious else CLEAN
    if options["repro_dir"] is not None:
        failed = max(failed, _write_scripts(result, options["repro_dir"]))
    return max(failed, write_report(result, options, stream))


def _write_scripts(result: Result, directory: Path) -> int:
    """One script a finding; what has no program has no script. The exit status for it."""
    from wherelint.confirm.routine import Snippet
    from wherelint.confirm.script import script
    from wherelint.io import disk
    from wherelint.io.notebook import spelled

    try:
        directory.mkdir(parents=True, exist_ok=True)
        taken: set[str] = set()
        for finding in result.findings:
            if isinstance(finding.snippet, Snippet):
                path = re.sub(r"\W+", "_", finding.filename.removesuffix(".py"), flags=re.ASCII).strip("_")[-_LONGEST:]
                place = re.sub(r"\W+", "_", spelled(finding.location, finding.cells))
                stem = unnumbered = f"{path}_{place}_{finding.code}"
                while stem in taken:
                    stem = f"{unnumbered}_{len(taken)}"
                taken.add(stem)
                # The next run is not to find them.
                text = f"# wherelint: noqa\n{script(finding.snippet, finding)}"
                disk.write(directory / f"{stem}.py", text.encode(errors="replace"))
    except OSError as error:
        what = printable(str(error.filename or directory))
        click.echo(f"error: {what}: cannot write the scripts: {error.strerror}", err=True)
        return FAILED
    return CLEAN


def _snippets(options: dict[str, Any]) -> bool:
    return bool(options["confirm"] or options["repro_dir"] is not None)


def _plots(options: dict[str, Any]) -> bool:
    return "html" in asked_styles(options)


def _cache(options: dict[str, Any]) -> Path | None:
    """The directory of what is kept from run to run; None where nothing is to be."""
    from wherelint.io import cachedir

    return None if options["no_cache"] else options["cache_dir"] or cachedir.DEFAULT


def _fix_mode(options: dict[str, Any]) -> FixMode:
    if options["add_noqa"]:
        if options["fix"] or _snippets(options):
            raise click.UsageError("--add-noqa silences findings: it cannot be combined with what fixes or runs them")
        return "silence"
    if options["fix"]:
        return "unsafe" if options["unsafe_fixes"] else "safe"
    if _snippets(options):
        return "offer"
    shown = any(style == "full" or shows_fixes(style) for style in asked_styles(options))
    return "offer" if shown and not options["statistics"] else "no"


def _diff(result: Result, options: dict[str, Any]) -> int:
    """What the fixes would change, on standard output; how much that is, on standard error."""
    from wherelint.report import text

    with destination(options["output_file"]) as stream:
        color = use_color(options["color"], stream)
        for report in result.reports:
            if report.fixed:
                whys = map(text.fix_line, report.fixed)
                text.write([*whys, *text.patch(report)], stream, color=color, exact=True)
            text.write(text.proposals(report), stream, color=color, exact=True)
        stream.flush()
    if result.fixed and not options["quiet"]:
        click.echo(text.fixes(result.fixed, "Would fix", ran=options["confirm"]), err=True)
    return tell_problems(result, options) or (FINDINGS if result.fixed else CLEAN)


@contextmanager
def told_to_end() -> Iterator[None]:
    """A CI service that cancels the run, or a terminal that is closed, is Ctrl-C: nothing is left behind."""
    numbers = [number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None))]
    mine = threading.current_thread() is threading.main_thread()
    taken = [number for number in numbers if mine and signal.getsignal(number) is signal.SIG_DFL]  # not under nohup

    def end(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)  # who insists is obeyed at once
        raise KeyboardInterrupt

    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _commas(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(part.strip() for item in items for part in item.split(",") if part.strip())
