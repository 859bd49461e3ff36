"""``check --watch``: the same check again whenever something changed, until Ctrl-C."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import click

from wherelint.cli.checking import run_check
from wherelint.cli.output import FAILED, given
from wherelint.io import files
from wherelint.io.config import ConfigError, Configuration
from wherelint.report.common import printable

#: Seconds between two looks, and how much longer than a look these are at least.
_PAUSE, _REST = 0.5, 9
_OTHERWISE = ("show_diff", "fix_only", "fix", "add_noqa", "write_baseline", "show_files", "show_settings")


def watch(options: dict[str, Any], configuration: Callable[[], Configuration]) -> int:
    """Check, and again after each change of a file or its settings; the last exit status. Raises UsageError."""
    paths = options["paths"] or (".",)
    if other := given(options, *_OTHERWISE):
        raise click.UsageError(f"--watch cannot be combined with {other}")
    status, seen = FAILED, None
    with suppress(KeyboardInterrupt):
        while True:
            start = time.perf_counter()
            now = _state(paths, configuration, options["force_exclude"])
            took = time.perf_counter() - start
            if now != seen:
                seen = now
                click.clear()
                try:
                    status = run_check(dict(options), configuration())
                except ConfigError as error:
                    status = FAILED
                    click.echo(f"error: {printable(str(error))}", err=True)
                if not options["quiet"]:
                    click.echo("Watching; Ctrl-C ends it.", err=True)
            time.sleep(max(_PAUSE, _REST * took))
    return status


def _state(paths: Sequence[str], configuration: Callable[[], Configuration], force_exclude: bool) -> object:
    """What is checked, with its settings and when it was written; or why that cannot be said."""
    try:
        targets, problems = files.discover(paths, configuration(), force_exclude=force_exclude)
    except ConfigError as error:
        return str(error)
    return targets, problems, [_written(target.name) for target in targets]


def _written(name: str) -> tuple[int, int] | None:
    try:
        status = os.stat(name)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
