"""Processes that a watched program starts with `multiprocessing` are watched as it is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import process, spawn
from typing import Any

from wherelint.companion.patching import override
from wherelint.watcher import watching
from wherelint.watcher.report import Reporter


@contextmanager
def watch_children(reporter: Reporter) -> Iterator[None]:
    """Within the block the processes that are started report for themselves; one with a report exits with 1."""
    bootstrap, prepare = process.BaseProcess._bootstrap, spawn.get_preparation_data  # type: ignore[attr-defined]

    def run(self: Any, *args: Any, **options: Any) -> int:
        if reporter.session.began_in is not threading.current_thread():  # this is a fork
            reporter.again()
        status: int = bootstrap(self, *args, **options)
        reporter.explain(reporter.session.end())
        status = 1 if reporter.end(child=True) else status
        _to_the_end.close()
        return status

    def prepared(name: str) -> dict[str, Any]:
        return {**prepare(name), "wherelint": _Stowaway(reporter.options())}

    with override(process.BaseProcess, _bootstrap=run), override(spawn, get_preparation_data=prepared):
        yield


class _Stowaway:
    """Begins the watch in a new interpreter, which unpickles it before it imports the program."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options

    def __reduce__(self) -> tuple[Callable[..., object], tuple[dict[str, Any]]]:
        return _begin, (self._options,)


_to_the_end = ExitStack()


def _begin(options: dict[str, Any]) -> None:
    reporter = Reporter(**options)
    _to_the_end.enter_context(watching(reporter.session))
    _to_the_end.enter_context(watch_children(reporter))
