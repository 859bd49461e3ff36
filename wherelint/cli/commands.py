"""The commands and their options."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import click

from wherelint.cli.options import (
    STYLES,
    CheckOptions,
    cache_dir_option,
    declare,
    file_option,
    output_file_option,
    require,
)
from wherelint.cli.output import CLEAN, put, reader_left
from wherelint.report.common import printable
from wherelint.version import __version__


class _Commands(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # before click sees it, which would print an empty line
            raise click.Abort from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="%(prog)s %(version)s")
def cli() -> None:
    """Find selections (`where`) whose value is right and whose gradient is nan.

    wherelint never imports or executes the files that it checks.
    """


@cli.command(short_help="Check files and directories (default: the working directory).")
@declare
def check(**options: Any) -> int:
    """Check files and directories (default: the working directory; - is standard input).

    Exits with 0 if no error is shown, 1 if there is one (see --fail-on), 2 if something could not be checked.
    """
    from wherelint.cli.checking import run

    try:
        return run(CheckOptions(**options))
    except BrokenPipeError:  # before click sees it
        return reader_left()


@cli.command(
    short_help="Run a program, and explain its first gradient that is not finite.",
    context_settings={"allow_interspersed_args": False},
)
@click.option("-m", "is_module", is_flag=True, help="Run a module, as `python -m` does.")
@click.option("--keep-going", is_flag=True, help="Do not stop the program, and report each cause once.")
@click.option(
    "--max-reports", type=click.IntRange(min=1), default=10, show_default=True, metavar="N",
    help="Report at most N causes.",
)  # fmt: skip
@click.option(
    "--output-dir", type=click.Path(path_type=Path, file_okay=False), default="wherelint-run", show_default=True,
    metavar="DIR", help="Save reports and scripts in this directory.",
)  # fmt: skip
@click.option(
    "--output-format", type=click.Choice(STYLES), default="full", show_default=True, metavar="FORMAT",
    help="Print reports in this format of check, on standard error.",
)  # fmt: skip
@file_option("--record", help="Record through which calls a gradient passes, for check --gradient-coverage.")
@click.option(
    "--memory", type=click.Choice(["low", "full"]), default="low", show_default=True,
    help="low: torch frees large activations early. full: it keeps them until the gradients are known.",
)  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="Print reports only.")
@click.argument("name", metavar="(SCRIPT | -m MODULE)", type=click.Path())
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def run(max_reports: int, **options: Any) -> int:
    """Run a program as it is, and explain its first gradient that is not finite.

    Works with JAX, PyTorch and TensorFlow. Runs the program unchanged, and stops it at the first report.
    Exits with 1 if there is a report, else with the status of the program.
    """
    from wherelint.cli.running import run as run_watched

    return run_watched(most=max_reports, **options)


@cli.command()
@click.argument("names", nargs=-1, metavar="[CODE | TOPIC]...")
@click.option("--all", "every", is_flag=True, help="All rules.")
@output_file_option
def explain(names: Sequence[str], every: bool, output_file: Path | None) -> None:
    """Print the documentation of a rule or a topic.

    Without a name, list all rules and topics.
    """
    from wherelint import docs, rules
    from wherelint.cli import reference
    from wherelint.evidence.pieces import Evidence
    from wherelint.io.config import did_you_mean

    known = {name: rule for rule in rules.RULES for name in (rule.code.lower(), rule.name)}
    names = [*names, *(rules.codes() if every else ())]
    labels = {each.label: each.described for each in Evidence}
    listed = f"Topics: {', '.join(docs.topics())}", f"Rules:  {', '.join(rules.codes())}"
    texts = [] if names else [fill(each, 80, subsequent_indent=" " * 8, break_on_hyphens=False) for each in listed]
    for name in map(str.lower, names):
        if (rule := known.get(name)) is not None:
            texts.append(reference.rule_page(rule))
            continue
        try:
            texts.append(labels.get(name) or reference.page(name, cli))
        except KeyError:
            hint = did_you_mean(name, [*known, *docs.topics(), *labels])
            raise click.ClickException(f"no rule or topic {name!r}{hint}") from None
    if names and output_file is None and sys.stdout.isatty() and "NO_COLOR" not in os.environ:
        from wherelint.report.text import page

        for text in texts:
            page(text, sys.stdout)
    else:
        put("".join(f"{text}\n" for text in texts), output_file)


def _of_a_place(command: Callable[..., int]) -> Callable[..., int]:
    """What every command about the finding at a place takes."""
    command = click.option("--isolated", is_flag=True, help="Ignore every configuration file.")(command)
    read = click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Read this TOML file.")
    return click.argument("place", metavar="PATH:[cell N:]ROW[:COLUMN]")(read(command))


cli.add_command(explain, "rule")


@cli.command()
@_of_a_place
@cache_dir_option(help="Default: .wherelint_cache.")
@output_file_option
def repro(place: str, config: Path | None, isolated: bool, cache_dir: Path | None, output_file: Path | None) -> int:
    """Print a script that reproduces the finding at a place.

    The script needs only the framework. It shows the finite value, the nan in the gradient, and both after the fix.
    """
    from wherelint.cli.place import findings_at, tell_others
    from wherelint.confirm.routine import snippet_of
    from wherelint.confirm.script import script

    finding, *others = findings_at(place, config, isolated, cache_dir)
    snippet = snippet_of(finding)
    if isinstance(snippet, str):
        raise click.ClickException(f"no script for {finding.code} at {place}: {snippet}")
    put(script(snippet, finding).encode(), output_file)
    tell_others(others)
    return CLEAN


@cli.command()
@_of_a_place
@cache_dir_option(help="Default: .wherelint_cache.")
@file_option("-o", "--output-file", help="An SVG or a PNG, by its name (default: an SVG on standard output).")
def plot(place: str, config: Path | None, isolated: bool, cache_dir: Path | None, output_file: Path | None) -> int:
    """Draw the value and the gradient around a finding, before and after the fix."""
    from wherelint.cli.place import findings_at, tell_others

    kind = ".svg" if output_file is None else output_file.suffix.lower()
    if kind not in (".svg", ".png"):
        raise click.UsageError(f"{output_file}: write an .svg or a .png")
    require(("matplotlib",), "a plot")
    finding, *others = findings_at(place, config, isolated, cache_dir)
    if finding.plot is None:
        raise click.ClickException(f"no plot for {finding.code} at {place}: this rule is not about nan gradients")
    from wherelint.report.plot import png, svg

    put(svg(finding.plot).encode() if kind == ".svg" else png(finding.plot), output_file)
    tell_others(others)
    return CLEAN


@cli.command()
@_of_a_place
@output_file_option
def debug(place: str, config: Path | None, isolated: bool, output_file: Path | None) -> int:
    """Explain why a row is reported, or why it is not.

    Prints what each stage of a check finds there: the graph, the searches, the evidence with its weights, and the fix.
    """
    from wherelint.cli.place import program_at
    from wherelint.run.debug import debug as stages

    text, name, row, settings = program_at(place, config, isolated)
    try:
        lines = [printable(line) for line in stages(text, name, row, settings)]
    except SyntaxError as error:
        raise click.ClickException(f"{name}: does not parse: {error.msg}") from None
    put("".join(f"{line}\n" for line in lines), output_file)
    return CLEAN


@cli.command()
def server() -> int:
    """Run a language server for an editor."""
    from wherelint.server import main

    return main()


@cli.command()
def init() -> int:
    """Write a first configuration and a pre-commit hook."""
    from wherelint.cli.init import start

    start()
    return CLEAN


@cli.command()
@cache_dir_option(help="Default: .wherelint_cache.")
def clean(cache_dir: Path | None) -> None:
    """Remove the cache."""
    from wherelint.io import disk

    directory = cache_dir or disk.CACHE
    size = disk.clean(directory)
    click.echo(f"{directory}: {f'{size / 1e6:.1f} MB removed' if size else 'there is no cache of wherelint'}.")


@cli.command()
@click.argument("of", type=click.Choice(["configuration", "report"]))
@output_file_option
def schema(of: str, output_file: Path | None) -> None:
    """Print the JSON schema of [tool.wherelint], or of the JSON report."""
    import json

    from wherelint.io import schema

    made = schema.configuration() if of == "configuration" else schema.report()
    put(json.dumps(made, indent=2) + "\n", output_file)


@cli.command("rules")
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@output_file_option
def list_rules(output_format: str, output_file: Path | None) -> None:
    """List the rules."""
    import json

    from wherelint import rules

    most = max(len(rule.name) for rule in rules.RULES)
    keys = ("code", "name", "summary", "default", "url", "doc")
    if output_format == "json":
        lines = [json.dumps([{key: getattr(rule, key) for key in keys} for rule in rules.RULES], indent=2)]
    else:
        lines = [
            f"{r.code}  {r.name:<{most}}  {'preview' if r.preview else 'on     '}  {r.summary}" for r in rules.RULES
        ]
    put("".join(f"{line}\n" for line in lines), output_file)
