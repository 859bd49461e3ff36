"""The commands and their options."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wherelint.cli.checking import given_overrides, run_check, told_to_end
from wherelint.cli.output import CLEAN, FAILED, STYLES, needed, put, reader_left
from wherelint.report.common import printable
from wherelint.version import __version__

if TYPE_CHECKING:
    from wherelint.finding import Least


def _least(context: click.Context, option: click.Parameter, given: str | None) -> Least | None:
    """The least to show: a confidence or a score."""
    from wherelint.io.config import ConfigError, parse_confidence

    number = given is not None and re.fullmatch(r"[0-9]*\.?[0-9]+", given)
    try:
        return None if given is None else parse_confidence(float(given) if number else given, "it")
    except ConfigError as error:
        raise click.BadParameter(str(error)) from None


_file = partial(click.option, type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
_cache_dir = partial(click.option, "--cache-dir", type=click.Path(path_type=Path), metavar="DIR")
_output_file = _file("-o", "--output-file", help="Write to a file.")


class _Commands(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and (name.endswith(".py") or os.path.exists(name)):
            ctx.fail(f"No such command {name!r}. Did you mean `wherelint check {printable(name)}`?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # before click sees it, which would print an empty line
            raise click.Abort from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="%(prog)s %(version)s")
def cli() -> None:
    """Find the `where` that protects the value and poisons the gradient.

    wherelint never imports or executes the files that it checks.
    """


@cli.command(short_help="Check files and directories (default: the working directory).")
@click.argument("paths", nargs=-1, type=click.Path(allow_dash=True, readable=False))
@click.option("--select", multiple=True, metavar="CODES", help="Use only these codes or prefixes (WL1,WL203).")
@click.option("--extend-select", multiple=True, metavar="CODES", help="Use these as well.")
@click.option("--ignore", "--extend-ignore", multiple=True, metavar="CODES", help="Leave these out.")
@click.option(
    "--confidence", callback=_least, metavar="[high|low|SCORE]",
    help="Show only findings at or above this (default: high); a score is a number from 0 to 1.",
)  # fmt: skip
@click.option(
    "--output-format", type=click.Choice(STYLES), default="full", show_default=True, metavar="FORMAT",
    help=f"{', '.join(STYLES[:-1])} or {STYLES[-1]}.",
)  # fmt: skip
@_output_file
@click.option(
    "--report", "reports", multiple=True, metavar="FORMAT=FILE", help="Write another format as well (repeatable)."
)
@click.option("--ignore-noqa", is_flag=True, help="Ignore comments that silence findings.")
@click.option("--fix/--no-fix", help="Apply the safe fixes.")
@click.option("--unsafe-fixes", is_flag=True, help="Include the fixes that need a look.")
@click.option("--diff", "show_diff", is_flag=True, help="Print what --fix would change.")
@click.option("--fix-only", is_flag=True, help="Fix, and only count the findings that are left.")
@click.option("--show-fixes", is_flag=True, help="List the findings that were fixed.")
@click.option("--fixable", multiple=True, metavar="CODES", help="Fix only these.")
@click.option("--unfixable", multiple=True, metavar="CODES", help="Do not fix these.")
@click.option("--fix-comment/--no-fix-comment", default=None, help="Say why in a comment above each fix.")
@click.option("--add-noqa", is_flag=True, help="Silence every finding with a comment.")
@click.option("--confirm", is_flag=True, help="Run each finding under its framework.")
@click.option("--only-confirmed", is_flag=True, help="Show only confirmed findings.")
@click.option(
    "--device", type=click.Choice(["auto", "cpu", "gpu", "tpu"]), default="auto", show_default=True,
    help="Where to confirm.",
)  # fmt: skip
@click.option(
    "--repro-dir", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="Write a script for each finding.",
)  # fmt: skip
@_file("--baseline", help="Leave out the findings in this file.")
@_file("--write-baseline", help="Write the findings to such a file, and stop.")
@click.option("--since", metavar="REV", help="Show only what changed since the branch left this revision of git.")
@click.option("--watch", is_flag=True, help="Check again whenever a file changes, until Ctrl-C.")
@_file("--gradient-coverage", multiple=True, help="Use what run --record or pytest --gradient-coverage saw.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True)
@click.option("-q", "--quiet", is_flag=True, help="Print findings and errors only.")
@click.option("-v", "--verbose", is_flag=True, help="Print the evidence, the time, and what was skipped.")
@click.option("--statistics", is_flag=True, help="Print counts by code instead of findings.")
@click.option("--show-files", is_flag=True, help="List the files to check, and stop.")
@click.option("--show-settings", is_flag=True, help="Print the settings of the first path, and stop.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if there are findings.")
@click.option("--exit-non-zero-on-fix", is_flag=True, help="Exit with 1 if a fix was applied.")
@click.option("--config", multiple=True, metavar="FILE|SETTING", help="Read this TOML file, or set 'key = value'.")
@click.option("--isolated", is_flag=True, help="Ignore every configuration file.")
@click.option("--exclude", multiple=True, metavar="PATTERNS", help="Leave these out instead of the default ones.")
@click.option("--extend-exclude", multiple=True, metavar="PATTERNS", help="Leave these out as well.")
@click.option("--force-exclude", is_flag=True, help="Apply the excludes to named files, too.")
@click.option(
    "--respect-gitignore/--no-respect-gitignore", default=None, help="Respect .gitignore files (default: yes)."
)
@click.option("--stdin-filename", metavar="NAME", help="The file name of standard input (when PATHS is -).")
@click.option("-j", "--jobs", type=click.IntRange(min=1), metavar="N", help="Processes to use (default: one a core).")
@click.option("--no-cache", is_flag=True, help="Neither read nor write the cache.")
@_cache_dir(help="Where the cache is (default: .wherelint_cache).")
def check(**options: Any) -> int:
    """Check files and directories (default: the working directory; - is standard input).

    Exits with 0 if there is nothing to show, 1 if there are findings, 2 if something could not be checked.
    """
    from wherelint.io.config import ConfigError, Configuration

    try:
        overrides, config = given_overrides(options)

        def configuration() -> Configuration:
            return Configuration(overrides, config, options["isolated"])

        with told_to_end():
            if options.pop("watch"):
                from wherelint.cli.watching import watch

                return watch(options, configuration)
            return run_check(options, configuration())
    except ConfigError as error:
        raise click.ClickException(printable(str(error))) from None
    except BrokenPipeError:
        return reader_left()


@cli.command(
    short_help="Run a program, and explain its first gradient that is not finite.",
    context_settings={"allow_interspersed_args": False},
)
@click.option("-m", "is_module", is_flag=True, help="Run a module, as `python -m` does.")
@click.option("--keep-going", is_flag=True, help="Report each cause once, and do not stop the program.")
@click.option(
    "--max-reports", type=click.IntRange(min=1), default=10, show_default=True, metavar="N",
    help="Report at most so many causes.",
)  # fmt: skip
@click.option(
    "--output-dir", type=click.Path(path_type=Path, file_okay=False), default="wherelint-run", show_default=True,
    metavar="DIR", help="Save reports, and what reproduces them, here.",
)  # fmt: skip
@click.option(
    "--output-format", type=click.Choice(STYLES), default="full", show_default=True, metavar="FORMAT",
    help="As that of check; on standard error.",
)  # fmt: skip
@_file("--record", help="Record which calls gradients pass, for check --gradient-coverage.")
@click.option(
    "--memory", type=click.Choice(["low", "full"]), default="low", show_default=True,
    help="low: torch frees a graph as soon as its gradients are known to be finite.",
)  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="Print reports only.")
@click.argument("name", metavar="(SCRIPT | -m MODULE)", type=click.Path())
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def run(max_reports: int, **options: Any) -> int:
    """Run a program as it is, and explain its first gradient that is not finite.

    JAX, PyTorch and TensorFlow. The program is executed, and not changed; it is stopped at the first report.
    Exits with 1 if there is a report, else as the program does.
    """
    from wherelint.cli.running import run as run_watched

    return run_watched(most=max_reports, **options)


@cli.command()
@click.argument("names", nargs=-1, metavar="[CODE | TOPIC]...")
@click.option("--all", "every", is_flag=True, help="All rules.")
@_output_file
def explain(names: Sequence[str], every: bool, output_file: Path | None) -> None:
    """Print the documentation of a rule or a topic.

    Without a name, list all rules and topics.
    """
    from wherelint import docs, rules
    from wherelint.io.config import did_you_mean

    known = {name: rule for rule in rules.RULES for name in (rule.code, rule.name)}
    names = [*names, *(rules.codes() if every else ())]
    texts = [] if names else [f"Topics: {', '.join(docs.topics())}\nRules:  {', '.join(rules.codes())}"]
    for name in names:
        rule = known.get(name.upper()) or known.get(name.lower())
        if rule is not None:
            state = "preview: off by default" if rule.preview else "on by default"
            texts.append(f"# {rule.code} {rule.name} ({state})\n\n{rule.doc.strip()}\n")
        elif name.lower() in docs.topics():
            texts.append(docs.page(name.lower()))
        else:
            near = did_you_mean(name.upper(), rules.codes(), 0.7)
            near = near or did_you_mean(name.lower(), [*known, *docs.topics()], 0.5)
            raise click.ClickException(f"there is no rule or topic {name!r}{near}")
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
@_output_file
def repro(place: str, config: Path | None, isolated: bool, output_file: Path | None) -> int:
    """Print a script that reproduces the finding at a place.

    The script needs only the framework. It shows the finite value, the nan in the gradient, and both after the fix.
    """
    from wherelint.cli.place import findings_at, tell_others
    from wherelint.confirm.routine import Snippet
    from wherelint.confirm.script import script

    finding, *others = findings_at(place, config, isolated, snippets=True)
    if not isinstance(finding.snippet, Snippet):
        raise click.ClickException(f"no script for {finding.code} at {place}: {finding.snippet}")
    put(script(finding.snippet, finding).encode(), output_file)
    tell_others(others)
    return CLEAN


@cli.command()
@_of_a_place
@_file("-o", "--output-file", help="An SVG or a PNG, by its name (default: an SVG on standard output).")
def plot(place: str, config: Path | None, isolated: bool, output_file: Path | None) -> int:
    """Draw the value and the gradient around a finding, before and after the fix."""
    from wherelint.cli.place import findings_at, tell_others

    kind = ".svg" if output_file is None else output_file.suffix.lower()
    if kind not in (".svg", ".png"):
        raise click.UsageError(f"{output_file}: write an .svg or a .png")
    needed(("matplotlib",), "a plot")
    finding, *others = findings_at(place, config, isolated, plots=True)
    if finding.plot is None:
        raise click.ClickException(f"no plot for {finding.code} at {place}: this rule reports no gradient that is nan")
    from wherelint.report.plot import png, svg

    put(svg(finding.plot).encode() if kind == ".svg" else png(finding.plot), output_file)
    tell_others(others)
    return CLEAN


@cli.command()
def server() -> int:
    """Run a language server for an editor."""
    from wherelint.server import main

    return main()


@cli.command()
def init() -> int:
    """Write a first configuration and a pre-commit hook."""
    from wherelint.cli.starting import start

    return CLEAN if start() else FAILED


@cli.command()
@_cache_dir(help="Default: .wherelint_cache.")
def clean(cache_dir: Path | None) -> None:
    """Remove the cache."""
    from wherelint.io import cachedir
    from wherelint.report.text import count

    directory = cache_dir or cachedir.DEFAULT
    removed = cachedir.clean(directory)
    left = "; other files in it stay" if removed.others else ""
    size = f"({removed.size / 1e6:.1f} MB)"
    what = f"{count(removed.files, 'file')} {size} removed" if removed.files else "nothing to remove"
    click.echo(f"{directory}: {what}{left}.")


def _listed(command: Callable[[], tuple[list[dict[str, Any]], Iterable[str]]]) -> Callable[..., None]:
    """A command that prints lines, or the same as JSON."""

    @click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True)
    @_output_file
    @wraps(command)
    def listed(output_format: str, output_file: Path | None) -> None:
        entries, lines = command()
        if output_format == "json":
            import json

            lines = [json.dumps(entries, indent=2)]
        put("".join(f"{line}\n" for line in lines), output_file)

    return listed


@cli.command("rules")
@_listed
def list_rules() -> tuple[list[dict[str, Any]], Iterable[str]]:
    """List the rules."""
    from wherelint import rules

    keys = ("code", "name", "summary", "default")
    names = max(len(rule.name) for rule in rules.RULES)
    return (
        [{key: getattr(rule, key) for key in keys} for rule in rules.RULES],
        (f"{r.code}  {r.name:<{names}}  {'preview' if r.preview else 'on     '}  {r.summary}" for r in rules.RULES),
    )


@cli.command()
@_listed
def frameworks() -> tuple[list[dict[str, Any]], Iterable[str]]:
    """List the functions of each framework, by rule."""
    from wherelint.frameworks import FRAMEWORKS
    from wherelint.ops import OPERATIONS

    known: list[dict[str, Any]] = []
    lines = []
    for framework in FRAMEWORKS.values():
        names: dict[str, list[str]] = {}
        for name, signature in sorted(framework.names.items()):
            if code := OPERATIONS[signature.op].code:
                names.setdefault(code, []).append(name)
        executed = framework.backend is not None
        about = {"name": framework.name, "packages": framework.packages, "functions": len(framework.names)}
        known.append({**about, "confirm": executed, "rules": dict(sorted(names.items()))})
        lines.append(
            f"{framework.name}: {len(framework.names)} functions, {'with' if executed else 'without'} --confirm"
        )
        lines += [f"  {code}  {' '.join(each)}" for code, each in sorted(names.items())]
    return known, lines
