"""The command line. Options in, exit status out; every decision is made elsewhere."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, get_args

import click

from wherelint.finding import Confidence
from wherelint.report.common import printable
from wherelint.report.formats import FORMATS
from wherelint.run.collector import collect_rarely
from wherelint.version import __version__

if TYPE_CHECKING:
    from wherelint.finding import FileReport, Finding, FixKey
    from wherelint.io.config import Configuration, Overrides
    from wherelint.io.files import Mend
    from wherelint.run.results import Result

CLEAN, FINDINGS, FAILED, INTERRUPTED = 0, 1, 2, 130
#: How much of a path becomes a part of the name of a script.
_LONGEST = 120
STYLES = ["full", "concise", *FORMATS]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed by whoever started this
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    collect_rarely()
    try:
        status = cli.main(arguments, prog_name="wherelint", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        status = FAILED
    except (click.Abort, KeyboardInterrupt):
        status = _interrupted()
    except BrokenPipeError:
        status = _reader_left()
    except OSError as error:
        status = _stopped(error)
    return status if isinstance(status, int) else CLEAN


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="%(prog)s %(version)s")
def cli() -> None:
    """Find the `where` that protects the value and poisons the gradient.

    Nothing of the checked files is imported or executed.
    """


@cli.command(short_help="Check files and directories (default: the working directory).")
@click.argument("paths", nargs=-1, type=click.Path(allow_dash=True))
@click.option(
    "--select",
    multiple=True,
    metavar="CODES",
    help="Only these codes or prefixes (WL1,WL203).",
)
@click.option("--extend-select", multiple=True, metavar="CODES", help="These as well.")
@click.option("--ignore", multiple=True, metavar="CODES", help="Not these.")
@click.option("--confidence", type=click.Choice(get_args(Confidence)), help="The least to show (default: high).")
@click.option(
    "--output-format", type=click.Choice(STYLES), default="full", show_default=True, metavar="FORMAT",
    help=f"{', '.join(STYLES[:-1])} or {STYLES[-1]}.",
)  # fmt: skip
@click.option(
    "-o", "--output-file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Write the findings to a file.",
)  # fmt: skip
@click.option(
    "--report",
    "reports",
    multiple=True,
    metavar="FORMAT=FILE",
    help="The same in another format (repeatable).",
)
@click.option("--fix", is_flag=True, help="Rewrite what has a safe fix.")
@click.option("--unsafe-fixes", is_flag=True, help="Fixes that need a look as well.")
@click.option("--diff", "show_diff", is_flag=True, help="Print what --fix would change.")
@click.option("--fix-only", is_flag=True, help="Fix, and say nothing of what is left.")
@click.option("--show-fixes", is_flag=True, help="List the findings that were fixed.")
@click.option("--add-noqa", is_flag=True, help="Silence every finding with a comment.")
@click.option("--confirm", is_flag=True, help="Run each finding under its framework.")
@click.option("--only-confirmed", is_flag=True, help="Show only what was confirmed.")
@click.option(
    "--device", type=click.Choice(["auto", "cpu", "gpu", "tpu"]), default="auto", show_default=True,
    help="Where to confirm.",
)  # fmt: skip
@click.option(
    "--repro-dir", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="Write a script for each finding.",
)  # fmt: skip
@click.option(
    "--baseline", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Leave out what this file knows.",
)  # fmt: skip
@click.option(
    "--write-baseline", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Write such a file, and stop.",
)  # fmt: skip
@click.option(
    "--gradient-coverage", multiple=True, type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Believe what ran (pytest --gradient-coverage).",
)  # fmt: skip
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True)
@click.option("-q", "--quiet", is_flag=True, help="Print findings and errors only.")
@click.option("-v", "--verbose", is_flag=True, help="Say how long it took, and what was skipped.")
@click.option("--statistics", is_flag=True, help="Counts by code instead of findings.")
@click.option("--show-files", is_flag=True, help="List what would be checked, and stop.")
@click.option("--show-settings", is_flag=True, help="Print what counts there, and stop.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 whatever is found.")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Read this TOML file.")
@click.option("--isolated", is_flag=True, help="Ignore every configuration file.")
@click.option("--exclude", multiple=True, metavar="PATTERNS", help="Leave these out, not the default ones.")
@click.option("--extend-exclude", multiple=True, metavar="PATTERNS", help="Leave these out as well.")
@click.option("--force-exclude", is_flag=True, help="Excludes count for named files, too.")
@click.option(
    "--respect-gitignore/--no-respect-gitignore", default=None, help="Whether .gitignore counts (default: yes)."
)
@click.option("--stdin-filename", metavar="NAME", help="The name of standard input (PATHS is -).")
@click.option("-j", "--jobs", type=click.IntRange(min=1), metavar="N", help="Processes (default: the cores).")
@click.option("--no-cache", is_flag=True, help="Keep nothing for the next run, use nothing.")
@click.option(
    "--cache-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where that is kept (default: .wherelint_cache).",
)
def check(**options: Any) -> int:
    """Check files and directories (default: the working directory; - is standard input).

    Exits with 0 if there is nothing to show, 1 if there are findings, 2 if something could not be checked.
    """
    from wherelint.io.config import ConfigError, Configuration

    try:
        overrides = _overrides(options)
        configuration = Configuration(overrides, options["config"], options["isolated"])
        with _told_to_end():
            return _check(options, configuration)
    except ConfigError as error:
        raise click.ClickException(printable(str(error))) from None
    except BrokenPipeError:
        return _reader_left()
    except KeyboardInterrupt:
        # Before click sees it, which would print an empty line.
        return _interrupted()


@cli.command()
@click.argument("names", nargs=-1, metavar="[CODE | TOPIC]...")
def explain(names: Sequence[str]) -> None:
    """Print the documentation of a rule or a topic; without a name, what there is."""
    from wherelint import docs, rules
    from wherelint.io.config import did_you_mean

    known = {name: rule for rule in rules.RULES for name in (rule.code, rule.name)}
    if not names:
        click.echo("Topics: " + ", ".join(docs.topics()))
        click.echo("Rules:  " + ", ".join(rules.codes()))
    for name in names:
        rule = known.get(name.upper()) or known.get(name.lower())
        if rule is not None:
            state = "on by default" if rule.default else "off by default"
            text = f"# {rule.code} {rule.name} ({state})\n\n{rule.doc.strip()}\n"
        elif name.lower() in docs.topics():
            text = docs.page(name.lower())
        else:
            near = did_you_mean(name.upper(), rules.codes(), 0.7)
            near = near or did_you_mean(name.lower(), [*known, *docs.topics()], 0.5)
            raise click.ClickException(f"there is no rule or topic {name!r}{near}")
        if sys.stdout.isatty() and "NO_COLOR" not in os.environ:
            from wherelint.report.text import page

            page(text, sys.stdout)
        else:
            click.echo(text)


@cli.command()
@click.argument("place", metavar="PATH:[cell N:]ROW[:COLUMN]")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Read this TOML file.")
@click.option("--isolated", is_flag=True, help="Ignore every configuration file.")
def repro(place: str, config: Path | None, isolated: bool) -> None:
    """Print a script that reproduces the finding at a place, and needs nothing but the framework.

    It shows the finite value, the gradient that is nan, and both after the fix.
    """
    from wherelint.confirm.routine import Snippet
    from wherelint.confirm.script import script
    from wherelint.io.config import ConfigError, Configuration, Overrides
    from wherelint.io.notebook import in_cell, spelled

    match = re.fullmatch(r"(.+?)(?::cell (\d+))?:(\d+)(?::(\d+))?", place, re.DOTALL)
    if match is None:
        raise click.UsageError(f"{place!r} is not a place: write PATH:ROW, as in model.py:12")
    name, cell, row, column = match[1], int(match[2] or 0), int(match[3]), int(match[4] or 0)
    try:
        configuration = Configuration(Overrides(confidence="low"), config, isolated)
        found = _findings_of(name, configuration)
    except ConfigError as error:
        raise click.ClickException(printable(str(error))) from None

    def at(finding: Finding) -> bool:
        places = [in_cell(each, finding.cells) for each in (finding.location, finding.select.location)]
        return any(row == p.row and cell in (0, c) for c, p in places) and column in (0, finding.location.column)

    there = [finding for finding in found if at(finding)]
    if not there:
        rows = list(dict.fromkeys(spelled(f.location, f.cells).rpartition(":")[0] for f in found))
        known = f"there {'is one' if len(rows) == 1 else 'are some'} at {', '.join(rows[:10])}"
        known = known if rows else "there is none in this file"
        raise click.ClickException(f"no finding at {place}: {known}")
    there.sort(key=lambda f: (f.confidence, in_cell(f.location, f.cells)[1].row != row))
    if isinstance(there[0].snippet, Snippet):
        click.echo(script(there[0].snippet, there[0]).encode(), nl=False)  # what Python reads is UTF-8
    else:
        raise click.ClickException(f"no script for {there[0].code} at {place}: {there[0].snippet}")
    if len(there) > 1:
        others = ", ".join(f"{name}:{spelled(f.location, f.cells)}" for f in there[1:])
        click.echo(f"other findings there: {others}", err=True)


def _findings_of(name: str, configuration: Configuration) -> tuple[Finding, ...]:
    """The findings of one file with their snippets. Raises ClickException where it cannot be checked."""
    from wherelint.io import files
    from wherelint.report import text
    from wherelint.run import engine
    from wherelint.run.results import add_problems

    targets, problems = files.discover([name], configuration, "offer", snippets=True)
    result = add_problems(engine.check_targets(targets, 1), problems)
    serious = [problem for problem in result.problems if problem.error]
    if serious:
        raise click.ClickException(text.problem_line(serious[0]).removeprefix("error: "))
    return result.findings


@cli.command()
def server() -> int:
    """Run a language server on standard input and output, for an editor."""
    from wherelint.server import main

    return main()


@cli.command()
@click.option("--cache-dir", type=click.Path(path_type=Path), metavar="DIR", help="Default: .wherelint_cache.")
def clean(cache_dir: Path | None) -> None:
    """Remove what is kept for the next run."""
    from wherelint.io import cachedir
    from wherelint.report.text import count

    directory = cache_dir or cachedir.DEFAULT
    removed = cachedir.clean(directory)
    left = "; something else is in it, and stays" if removed.others else ""
    what = (
        f"{count(removed.files, 'file')} ({removed.size / 1e6:.1f} MB) removed"
        if removed.files
        else "nothing to remove"
    )
    click.echo(f"{directory}: {what}{left}.")


@cli.command("rules")
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def list_rules(output_format: str) -> None:
    """List the rules."""
    from wherelint import rules

    if output_format == "json":
        import json

        keys = ("code", "name", "summary", "default")
        click.echo(json.dumps([{key: getattr(rule, key) for key in keys} for rule in rules.RULES], indent=2))
        return
    names = max(len(rule.name) for rule in rules.RULES)
    for rule in rules.RULES:
        click.echo(f"{rule.code}  {rule.name:<{names}}  {'on ' if rule.default else 'off'}  {rule.summary}")


def _overrides(options: dict[str, Any]) -> Overrides:
    from wherelint.io.config import Overrides, parse_codes

    def codes(option: str) -> tuple[str, ...]:
        return parse_codes(_commas(options[option]), f"--{option.replace('_', '-')}")

    return Overrides(
        select=codes("select") if options["select"] else None,
        extend_select=codes("extend_select"),
        ignore=codes("ignore"),
        confidence=options["confidence"],
        exclude=_commas(options["exclude"]) if options["exclude"] else None,
        extend_exclude=_commas(options["extend_exclude"]),
        respect_gitignore=options["respect_gitignore"],
    )


def _check(options: dict[str, Any], configuration: Configuration) -> int:
    from wherelint.io import files

    paths = options["paths"] or (".",)
    if options["device"] != "auto" and not (options["confirm"] or options["only_confirmed"]):
        raise click.UsageError("--device says where to confirm: it needs --confirm")
    if options["show_diff"] and _snippets(options):
        raise click.UsageError("--diff reports no findings, so that there is none to confirm")
    mends = options["fix"] or options["fix_only"] or options["show_diff"] or options["add_noqa"]
    if mends and (options["baseline"] or options["write_baseline"]):
        raise click.UsageError(
            "a baseline is about what is reported: it cannot be combined with what mends or silences"
        )
    if mends and options["gradient_coverage"]:
        raise click.UsageError("gradient coverage is about what is reported: it cannot be combined with what mends")
    if options["statistics"] and options["output_format"] in FORMATS:
        raise click.UsageError("--statistics is a text: it has no --output-format")
    _outputs(options)
    if "-" in paths:
        if len(paths) > 1:
            raise click.UsageError("standard input (-) cannot be combined with other paths")
        if options["show_files"]:
            click.echo(options["stdin_filename"] or "-")
            return CLEAN
        return _check_stdin(options, configuration)
    if options["show_settings"]:
        path = Path(os.path.abspath(paths[0]))
        settings = configuration.settings(path if path.is_dir() else path.parent)
        click.echo("".join(f"{printable(line)}\n" for line in settings.described(path)), nl=False)
        return CLEAN
    if options["show_files"]:
        targets, problems = files.discover(paths, configuration, force_exclude=options["force_exclude"])
        click.echo("".join(f"{printable(target.name)}\n" for target in targets), nl=False)
        return FAILED if problems else CLEAN
    from wherelint import api
    from wherelint.run import engine
    from wherelint.run.results import unwritten

    with _Progress(options["quiet"]) as progress:
        result = api.check_paths(
            paths, configuration, mend=_mend(options), snippets=_snippets(options),
            force_exclude=options["force_exclude"], jobs=options["jobs"], progress=progress,
            cache=_cache(options),
        )  # fmt: skip

    def again(report: FileReport, refuted: frozenset[FixKey]) -> FileReport:
        settings = configuration.settings(Path(os.path.abspath(report.filename)).parent)
        return engine.check_file(files.Target(report.filename, settings, _mend(options), True, refuted))[0]

    result = _run_fixes(result, options, again)
    if not mends:
        result = _judged(result, options, configuration)
    if options["write_baseline"] is not None:
        return _write_baseline(result, options)
    if options["baseline"] is not None:
        codes = configuration.settings(Path.cwd()).codes
        result, stale = engine.without_known(result, options["baseline"], codes)
        if stale and not options["quiet"]:
            entries = "1 entry matches" if stale == 1 else f"{stale} entries match"
            click.echo(f"warning: {options['baseline']}: {entries} nothing any more; write it again", err=True)
    if options["show_diff"]:
        return _diff(result, options)
    written = [problem for r in result.reports if r.fixed and (problem := files.rewrite(r.filename, r.before, r.after))]
    return _confirm_and_report(unwritten(result, written), options, sys.stdout)


def _judged(result: Result, options: dict[str, Any], configuration: Configuration) -> Result:
    """The result with what is known of the calls that ran."""
    from wherelint.run.covered import Evidence

    evidence = Evidence(configuration.settings, options["gradient_coverage"])
    result = evidence.judge(result)
    if options["verbose"]:
        click.echo("".join(f"{printable(line)}\n" for line in evidence.changed), nl=False, err=True)
        if evidence.differentiated:
            click.echo(f"a gradient passed {evidence.differentiated} of the calls that were found", err=True)
    return result


def _run_fixes(
    result: Result, options: dict[str, Any], again: Callable[[FileReport, frozenset[FixKey]], FileReport]
) -> Result:
    """With --confirm every fix is run before it is written; without those that were refuted."""
    if not result.fixed or not (options["confirm"] or options["only_confirmed"]):
        return result
    from wherelint.run import engine

    def run(part: Result) -> Result:
        with _Progress(options["quiet"], "confirming", least=2, every=1) as progress:
            return engine.confirm_result(
                part, options["device"], _cache(options), progress=lambda done: progress(done, len(part.findings))
            )[0]

    return engine.without_refuted(result, again, run)


def _write_baseline(result: Result, options: dict[str, Any]) -> int:
    from wherelint.report import text
    from wherelint.suppress import baseline

    if result.failed:
        _problems(result, options)
        click.echo(f"error: {options['write_baseline']}: not written: what could not be checked is unknown", err=True)
        return FAILED
    count = baseline.write(options["write_baseline"], result.reports)
    if not options["quiet"]:
        click.echo(f"{options['write_baseline']}: {text.count(count, 'finding')} written.")
    return _problems(result, options)


def _confirm_and_report(result: Result, options: dict[str, Any], stream: TextIO) -> int:
    """Run and write what was asked for of the findings, and report them."""
    failed = CLEAN
    if options["confirm"] or options["only_confirmed"]:
        from wherelint.run import engine

        total = len(result.findings)
        with _Progress(options["quiet"], "confirming", least=2, every=1) as progress:
            result, problems = engine.confirm_result(
                result, options["device"], _cache(options), only=options["only_confirmed"],
                progress=lambda done: progress(done, total),
            )  # fmt: skip
        serious = options["only_confirmed"] or options["device"] != "auto"
        for problem in problems:
            click.echo(f"{'error' if serious else 'warning'}: {problem}", err=True)
        failed = FAILED if problems and serious else CLEAN
    if options["repro_dir"] is not None:
        failed = max(failed, _write_scripts(result, options["repro_dir"]))
    return max(failed, _report(result, options, stream))


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
                stem = wanted = f"{path}_{place}_{finding.code}"
                while stem in taken:
                    stem = f"{wanted}_{len(taken)}"
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
    return bool(options["confirm"] or options["only_confirmed"] or options["repro_dir"] is not None)


def _cache(options: dict[str, Any]) -> Path | None:
    """The directory of what is kept from run to run; None where nothing is to be."""
    from wherelint.io import cachedir

    return None if options["no_cache"] else options["cache_dir"] or cachedir.DEFAULT


def _mend(options: dict[str, Any]) -> Mend:
    if options["add_noqa"]:
        if options["fix"] or options["fix_only"] or options["show_diff"] or _snippets(options):
            raise click.UsageError("--add-noqa silences findings: it cannot be combined with what mends or runs them")
        return "silence"
    if options["fix"] or options["fix_only"] or options["show_diff"]:
        return "unsafe" if options["unsafe_fixes"] else "safe"
    if _snippets(options):
        return "offer"
    styles = {options["output_format"], *(style for style, _ in _more_reports(options))}
    return "offer" if styles & {"full", "json", "json-lines", "sarif"} and not options["statistics"] else "no"


def _check_stdin(options: dict[str, Any], configuration: Configuration) -> int:
    """Check standard input; with ``--fix`` the fixed text goes to standard output and the report to standard error."""
    from wherelint.run.check import check_source
    from wherelint.run.results import Result

    name = options["stdin_filename"] or "-"
    settings = configuration.settings(Path(os.path.abspath(name)).parent)
    content = sys.stdin.buffer.read()
    mend = _mend(options)
    report = check_source(content, name, settings, mend, snippets=_snippets(options))

    def again(report: FileReport, refuted: frozenset[FixKey]) -> FileReport:
        return check_source(content, name, settings, mend, snippets=True, refuted=refuted)

    result = _run_fixes(Result((report,), 1, 0.0), options, again)
    report = result.reports[0]
    if options["show_diff"]:
        return _diff(result, options)
    if mend not in ("safe", "unsafe", "silence"):
        return _confirm_and_report(_judged(result, options, configuration), options, sys.stdout)
    sys.stdout.buffer.write(report.after if report.fixed else content)
    sys.stdout.buffer.flush()
    return _confirm_and_report(result, options, sys.stderr)


def _diff(result: Result, options: dict[str, Any]) -> int:
    """What the fixes would change, on standard output; how much that is, on standard error."""
    from wherelint.report import text

    color = _color(options["color"], sys.stdout)
    for report in result.reports:
        if report.fixed:
            text.write(text.patch(report), sys.stdout, color=color, exact=True)
    sys.stdout.flush()
    if result.fixed and not options["quiet"]:
        click.echo(text.fixes(result.fixed, "Would fix"), err=True)
    return _problems(result, options) or (FINDINGS if result.fixed else CLEAN)


def _report(result: Result, options: dict[str, Any], stream: TextIO) -> int:
    from wherelint.report import text

    findings = () if options["fix_only"] else result.findings
    style = options["output_format"]
    for other, path in _more_reports(options):
        _write_file(other, result, options, path)
    if options["output_file"] is None:
        _write(style, result, options, stream)
    else:
        _write_file(style, result, options, options["output_file"])
    if options["show_fixes"] and style not in FORMATS:
        text.write(map(text.fixed_line, result.fixed), stream, color=_color(options["color"], stream))
    if (style not in FORMATS or options["output_file"] is not None) and not options["quiet"]:
        if result.fixed:
            click.echo(text.fixes(result.fixed, "Silenced" if options["add_noqa"] else "Fixed"), file=stream)
        took = f" in {result.seconds:.1f} s" if stream.isatty() else ""
        click.echo(text.summary(findings, result.hidden, result.files, result.failed, took), file=stream)
        if result.known:
            click.echo(f"{text.count(result.known, 'finding')} known to the baseline.", file=stream)
        if ran := text.confirmations(findings, result.unconfirmed):
            click.echo(ran, file=stream)
    stream.flush()
    failed = _problems(result, options)
    if options["verbose"]:
        click.echo(f"{text.count(result.files, 'file')} in {result.seconds:.2f} s", err=True)
        if skipped := text.skipped(result.skipped):
            click.echo(skipped, err=True)
    return failed or (FINDINGS if findings and not options["exit_zero"] else CLEAN)


def _write_file(style: str, result: Result, options: dict[str, Any], path: Path) -> None:
    """The findings in one format, in a file."""
    from wherelint.io import disk

    text = io.StringIO()
    _write(style, result, options, text)
    disk.write(path, text.getvalue().encode(errors="backslashreplace"))


def _write(style: str, result: Result, options: dict[str, Any], stream: TextIO) -> None:
    """The findings in one format."""
    from wherelint import rules
    from wherelint.report import text

    findings = () if options["fix_only"] else result.findings
    color = _color(options["color"], stream)
    if style in FORMATS:
        if written := FORMATS[style](findings, result.problems, rules.RULES, __version__):
            click.echo(written, file=stream)
    elif options["statistics"]:
        click.echo("".join(f"{line}\n" for line in text.statistics(findings)), nl=False, file=stream)
    elif style == "concise":
        text.write(map(text.concise, findings), stream, color=color)
    else:
        width = text.columns() if stream.isatty() else 80
        helps = {rule.code: rule.help for rule in rules.RULES}
        for report in () if options["fix_only"] else result.reports:
            text.write(text.full(report, helps, width), stream, color=color)


def _outputs(options: dict[str, Any]) -> None:
    """Refuse to write two reports into one file, or one into what may be the source of a program."""
    files = [path for path in (options["output_file"], *(path for _, path in _more_reports(options))) if path]
    for path in files:
        if path.suffix in (".py", ".ipynb"):
            raise click.UsageError(f"{path} is a program by its name: the report would overwrite it")
        if files.count(path) > 1:
            raise click.UsageError(f"{path} cannot hold two reports")


def _more_reports(options: dict[str, Any]) -> list[tuple[str, Path]]:
    """The formats and files of ``--report``."""
    from wherelint.io.config import did_you_mean

    found = []
    for report in options["reports"]:
        style, equals, path = report.partition("=")
        if not equals or not path:
            raise click.UsageError(f"--report {report}: write FORMAT=FILE, as in sarif=wherelint.sarif")
        if style not in STYLES:
            raise click.UsageError(f"--report: there is no format {style!r}{did_you_mean(style, STYLES, 0.6)}")
        found.append((style, Path(path)))
    return found


def _problems(result: Result, options: dict[str, Any]) -> int:
    """Say what could not be checked or written; the exit status for that."""
    from wherelint.report import text

    for problem in result.problems:
        if problem.error or not options["quiet"]:
            click.echo(text.problem_line(problem), err=True)
    return FAILED if any(problem.error for problem in result.problems) else CLEAN


class _Progress:
    """A counter on the terminal while there is much to do: more than ``least`` of it, shown at ``every`` so many."""

    def __init__(self, quiet: bool, verb: str = "checking", *, least: int = 50, every: int = 10) -> None:
        self._verb = verb
        self._least = least
        self._every = every
        self._wanted = not quiet and sys.stderr.isatty()

    def __enter__(self) -> Callable[[int, int], None]:
        return self._update

    def __exit__(self, *_: object) -> None:
        if self._wanted:
            click.echo("\r\033[K", nl=False, err=True)

    def _update(self, done: int, total: int) -> None:
        if self._wanted and total > self._least and done % self._every == 0:
            click.echo(f"\r{self._verb} {done}/{total}", nl=False, err=True)


def _reader_left() -> int:
    """Whoever read the output has seen enough; what is still buffered has nowhere to go."""
    _discard(sys.stdout)
    return FINDINGS


def _stopped(error: OSError) -> int:
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
        click.echo(f"Error: {printable(what)}", err=True)
    except OSError:
        _discard(sys.stderr)
    return FAILED


def _discard(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def _told_to_end() -> Iterator[None]:
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


def _interrupted() -> int:
    click.echo("wherelint: interrupted", err=True)
    return INTERRUPTED


def _commas(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(part.strip() for item in items for part in item.split(",") if part.strip())


def _color(choice: str, stream: TextIO) -> bool:
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")
