"""The options of ``wherelint check``, each declared once: for the command line, and for what reads them."""

# ruff: noqa: RUF009  (the default of a field is how click declares it)

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wherelint.evidence.pieces import LEVELS, Level
from wherelint.report.common import join_and
from wherelint.report.formats import FORMATS, needs

if TYPE_CHECKING:
    from wherelint.io.config import Overrides
    from wherelint.io.files import FixMode

STYLES = ["full", "concise", *FORMATS]
#: Formats that print a file after the other.
BY_FILE = frozenset(("full", "concise", "github", "grouped", "pylint"))
#: Options that change files, or would.
_REWRITING = ("show_diff", "fix_only", "fix", "add_noqa")
_CONFIRMING = ("confirm", "only_confirmed", "repro_dir")
#: Options that cannot be combined with others.
_CLASHES = {
    "watch": (*_REWRITING, "write_baseline", "show_files", "show_settings", "stdin"),
    "show_diff": ("only_confirmed", "repro_dir"),
    "write_baseline": (*_REWRITING, "stdin"),
    "since": (*_REWRITING, "write_baseline", "stdin"),
    "gradient_coverage": _REWRITING,
    "add_noqa": ("fix", "fix_only", "show_diff", *_CONFIRMING),
}

file_option = partial(click.option, type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
cache_dir_option = partial(click.option, "--cache-dir", type=click.Path(path_type=Path), metavar="DIR")
output_file_option = file_option("-o", "--output-file", help="Write the output to this file.")


def _option(*names: str, kind: Callable[..., Any] = click.option, **more: Any) -> Any:
    """A field that is an option, with what declares it to click."""
    return field(metadata={"declare": lambda name: kind(*names, name, **more)})


_flag = partial(_option, is_flag=True)
_codes = partial(_option, multiple=True, metavar="CODES")
_patterns = partial(_option, multiple=True, metavar="PATTERNS")
_file = partial(_option, kind=file_option)
_choice = partial(_option, show_default=True)
_level = partial(_option, type=click.Choice(LEVELS), metavar="LEVEL")


@dataclass(frozen=True)
class CheckOptions:
    """What the options say; the properties say what follows from it. Raises UsageError for options that clash."""

    paths: tuple[str, ...] = _option(
        kind=click.argument, nargs=-1, type=click.Path(allow_dash=True, readable=False),
        callback=lambda context, argument, given: given or (".",),
    )  # fmt: skip
    select: tuple[str, ...] = _codes("--select", help="Check only these rules: codes or prefixes (WL1,WL203).")
    extend_select: tuple[str, ...] = _codes("--extend-select", help="Also check these rules.")
    ignore: tuple[str, ...] = _codes("--ignore", "--extend-ignore", help="Do not check these rules.")
    level: Level | None = _level(
        "--level", help="Show findings of this level or above: error, warning (default) or note."
    )
    fail_on: Level | None = _level(
        "--fail-on", help="Exit with 1 if a finding of this level or above is shown (default: error)."
    )
    output_format: str = _choice(
        "--output-format", type=click.Choice(STYLES), default="full", metavar="FORMAT",
        help=f"{', '.join(STYLES[:-1])} or {STYLES[-1]}.",
    )  # fmt: skip
    output_file: Path | None = _file("-o", "--output-file", help="Write the output to this file.")
    report: tuple[str, ...] = _option(
        "--report",
        multiple=True,
        metavar="FORMAT=FILE",
        help="Also write a report of this format to this file (repeatable).",
    )
    ignore_noqa: bool = _flag("--ignore-noqa", help="Ignore comments that silence findings.")
    fix: bool = _option("--fix/--no-fix", help="Apply the safe fixes.")
    unsafe_fixes: bool = _flag("--unsafe-fixes", help="Also apply fixes that may change behavior.")
    show_diff: bool = _flag("--diff", help="Print what --fix would change.")
    fix_only: bool = _flag("--fix-only", help="Apply fixes, and only count the findings that are left.")
    show_fixes: bool = _flag("--show-fixes", help="List the findings that were fixed.")
    fixable: tuple[str, ...] = _codes("--fixable", help="Fix only findings of these rules.")
    unfixable: tuple[str, ...] = _codes("--unfixable", help="Do not fix findings of these rules.")
    fix_comment: bool | None = _option(
        "--fix-comment/--no-fix-comment", default=None, help="Write a comment above each fix that says why."
    )
    add_noqa: bool = _flag("--add-noqa", help="Silence every finding with a comment.")
    add_not_differentiated: str | None = _option(
        "--add-not-differentiated", metavar="PATH:ROW",
        help="Mark the function at this row as not differentiated, and stop.",
    )  # fmt: skip
    confirm: bool = _flag("--confirm", help="Run the reported code as a small program in its framework.")
    only_confirmed: bool = _flag("--only-confirmed", help="Show only confirmed findings.")
    device: str = _choice(
        "--device", type=click.Choice(["auto", "cpu", "gpu", "tpu"]), default="auto", help="Device for --confirm."
    )
    repro_dir: Path | None = _option(
        "--repro-dir", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
        help="Write a script for each finding.",
    )  # fmt: skip
    baseline: Path | None = _file("--baseline", help="Hide the findings that this file lists.")
    write_baseline: Path | None = _file("--write-baseline", help="Write the findings to this file and stop.")
    since: str | None = _option(
        "--since",
        metavar="REV",
        help="Show only findings in code that changed since the branch left this git revision.",
    )
    watch: bool = _flag("--watch", help="Check again whenever a file changes, until Ctrl-C.")
    gradient_coverage: tuple[Path, ...] = _file(
        "--gradient-coverage", multiple=True, help="Use the record of `run --record` or pytest as evidence."
    )
    color: str = _choice("--color", type=click.Choice(["auto", "always", "never"]), default="auto")
    quiet: bool = _flag("-q", "--quiet", help="Print findings and errors only.")
    verbose: bool = _flag("-v", "--verbose", help="Print the evidence, the time, and what was skipped.")
    statistics: bool = _flag("--statistics", help="Print counts by code instead of findings.")
    show_files: bool = _flag("--show-files", help="List the files to check and stop.")
    show_settings: bool = _flag("--show-settings", help="Print the settings of the first path and stop.")
    exit_zero: bool = _flag("--exit-zero", help="Exit with 0 even if there are findings.")
    exit_non_zero_on_fix: bool = _flag("--exit-non-zero-on-fix", help="Exit with 1 if a fix was applied.")
    config: tuple[str, ...] = _option(
        "--config", multiple=True, metavar="FILE|SETTING", help="Read this TOML file, or set 'key = value'."
    )
    isolated: bool = _flag("--isolated", help="Ignore every configuration file.")
    exclude: tuple[str, ...] = _patterns(
        "--exclude", help="Exclude files of these patterns instead of the default ones."
    )
    extend_exclude: tuple[str, ...] = _patterns("--extend-exclude", help="Also exclude files of these patterns.")
    force_exclude: bool = _flag("--force-exclude", help="Also exclude files that the command line names.")
    respect_gitignore: bool | None = _option(
        "--respect-gitignore/--no-respect-gitignore", default=None, help="Respect .gitignore files (default: yes)."
    )
    stdin_filename: str | None = _option(
        "--stdin-filename", metavar="NAME", help="The file name of standard input (when PATHS is -)."
    )
    jobs: int | None = _option(
        "-j", "--jobs", type=click.IntRange(min=1), metavar="N", help="Processes to use (default: one a core)."
    )
    no_cache: bool = _flag("--no-cache", help="Neither read nor write the cache.")
    cache_dir: Path | None = _option(kind=cache_dir_option, help="Where the cache is (default: .wherelint_cache).")

    @property
    def stdin(self) -> bool:
        """Whether standard input is checked."""
        return "-" in self.paths

    @property
    def applies_fixes(self) -> bool:
        """Whether fixes are made, if only to show them."""
        return self.fix or self.fix_only or self.show_diff

    @property
    def rewrites(self) -> bool:
        """Whether files change, or would."""
        return self.applies_fixes or self.add_noqa

    @property
    def runs_findings(self) -> bool:
        """Whether findings are run under their frameworks."""
        return self.confirm or self.only_confirmed

    @property
    def streams(self) -> bool:
        """Whether findings are printed as files are done: whether nothing is done to all of them first."""
        waits = self.rewrites or self.runs_findings or self.write_baseline or self.statistics
        return self.output_format in BY_FILE and not (waits or self.stdin or self.output_file)

    @property
    def fix_mode(self) -> FixMode:
        """What is done about findings."""
        if self.add_noqa:
            return "silence"
        if not self.applies_fixes:
            return "offer"
        return "unsafe" if self.unsafe_fixes else "safe"

    @cached_property
    def reports(self) -> list[tuple[str, Path]]:
        """The formats and files of ``--report``."""
        found = []
        for report in self.report:
            style, _, path = report.partition("=")
            if not path or style not in STYLES:
                raise click.UsageError(f"--report {report}: write FORMAT=FILE, as in sarif=wherelint.sarif")
            found.append((style, Path(path)))
        return found

    @property
    def styles(self) -> set[str]:
        """The formats of all reports."""
        return {self.output_format, *(style for style, _ in self.reports)}

    @property
    def cache(self) -> Path | None:
        """The directory of what is kept from run to run; None where nothing is to be."""
        from wherelint.io import disk

        return None if self.no_cache else self.cache_dir or disk.CACHE

    def overrides(self) -> tuple[Overrides, Path | None]:
        """What is set instead of the configuration, and the file that is one. Raises ConfigError.

        What ``--config`` is given is a setting if it has a ``=`` and is no file.
        """
        from wherelint.io.config import Overrides, inline_settings, parse_codes

        settings = [each for each in self.config if "=" in each and not os.path.exists(each)]
        files = [Path(each) for each in self.config if each not in settings]
        if len(files) > 1:
            raise click.UsageError("--config names more than one file")
        inline = {key: value for setting in settings for key, value in inline_settings(setting).items()}
        found = {name: getattr(self, name) for name in ("fix_comment", "level", "fail_on", "respect_gitignore")}
        for name in ("select", "extend_select", "ignore", "fixable", "unfixable"):
            if codes := getattr(self, name):
                found[name] = parse_codes(_commas(codes), f"--{name.replace('_', '-')}")
        for name in ("exclude", "extend_exclude"):
            if patterns := getattr(self, name):
                found[name] = _commas(patterns)
        found["ignore_noqa"] = self.ignore_noqa or None
        found["baseline"] = self.baseline and self.baseline.absolute()
        return Overrides(inline, **found), next(iter(files), None)

    def __post_init__(self) -> None:
        def refuse(why: str) -> None:
            raise click.UsageError(why)

        for option, others in _CLASHES.items():
            if getattr(self, option) and (other := next(filter(partial(getattr, self), others), None)):
                refuse(f"{_spelled(option)} cannot be combined with {_spelled(other)}")
        if self.device != "auto" and not self.runs_findings:
            refuse("--device needs --confirm or --only-confirmed")
        if self.statistics and self.output_format in {*FORMATS} - {"json"}:
            refuse("--statistics supports only text and json")
        for style in sorted(self.styles & FORMATS.keys()):
            require(needs(style), f"the format {style}")
        files = [path for path in (self.output_file, *(path for _, path in self.reports)) if path]
        for path in files:
            if path.suffix in (".py", ".ipynb"):
                refuse(f"{path}: refusing to overwrite a Python file with a report")
            if files.count(path) > 1:
                refuse(f"{path} is named for two reports")
        if self.stdin and len(self.paths) > 1:
            refuse("standard input (-) cannot be combined with other paths")


def _spelled(name: str) -> str:
    """An option as it is written."""
    return {"stdin": "-", "show_diff": "--diff"}.get(name, f"--{name.replace('_', '-')}")


def declare(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command that takes the options of ``check``."""
    for each in reversed(fields(CheckOptions)):
        command = each.metadata["declare"](each.name)(command)
    return command


def require(packages: Iterable[str], what: str) -> None:
    """Refuse to begin what needs packages that are not installed."""
    if missing := [name for name in packages if find_spec(name) is None]:
        raise click.ClickException(f"{what} needs {join_and(missing)}: pip install {' '.join(missing)}")


def _commas(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(part.strip() for item in items for part in item.split(",") if part.strip())
