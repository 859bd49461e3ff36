"""A script or a module, run as ``python SCRIPT`` and ``python -m MODULE`` run it, in this process.

The processes that it starts with `multiprocessing` are watched as it is.
"""

import io
import os
import runpy
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.machinery import SourceFileLoader
from multiprocessing import process, spawn
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from wherelint import isolated
from wherelint.companion.coverage import Marks
from wherelint.companion.patching import override
from wherelint.io.gradient_coverage import MalformedError, load
from wherelint.watcher import watching
from wherelint.watcher.report import Reporter
from wherelint.watcher.session import Stop

#: What a shell says of a process that Ctrl-C has ended.
_INTERRUPTED = 130
_OWN = os.path.dirname(os.path.abspath(__file__))


class CannotRunError(Exception):
    """There is no such program; the message says why."""


@contextmanager
def coverage_record(record: Path | None) -> Iterator[Marks | None]:
    """Give what is to be marked, and write it to a file at the end of the block; None without a file.

    Raises CannotRunError where the file is there and is something else, OSError where it cannot be written.
    """
    if record is None:
        yield None
        return
    path = record.absolute()  # the program may change the directory
    try:
        if path.exists():
            load(path)
    except (OSError, MalformedError) as error:
        raise CannotRunError(f"{record}: {error}") from None
    marks = Marks()
    yield marks
    marks.coverage().save(path)


def run_program(name: str, arguments: Sequence[str], *, is_module: bool) -> int:
    """Run a program to its end, and return its exit status; what it raises is printed as Python prints it.

    ``sys.argv``, ``sys.path``, ``__main__`` and the streams are the program's own, and stay so: threads and ``atexit``
    still use them. CannotRunError if there is nothing to run.
    """
    sys.path[:] = _paths(None if is_module else name)
    sys.argv[:] = [name, *arguments]
    main = sys.modules["__main__"] = ModuleType("__main__")
    if is_module or not os.path.isfile(name):
        run = partial(runpy._run_module_as_main, name) if is_module else _directory(name)  # type: ignore[attr-defined]
    else:
        path = os.path.abspath(name)
        main.__file__, main.__loader__ = path, SourceFileLoader("__main__", path)
        main.__dict__["__cached__"] = main.__spec__ = None

        def run() -> None:
            with io.open_code(path) as file:
                code = compile(file.read(), path, "exec", dont_inherit=True)
            exec(code, main.__dict__)

    return _ended(run)


def _ended(run: Callable[[], object]) -> int:
    try:
        run()
        _join()
    except Stop:
        return 1
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    except BaseException as error:
        _show(error)
        return _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _join() -> None:
    """Wait for the program's threads, as Python does at its end: they may take gradients as well."""
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join()


def _directory(name: str) -> Callable[[], object]:
    """A directory or an archive that holds a ``__main__.py``."""
    if not os.path.exists(name):
        raise CannotRunError(f"{name}: no such file")
    sys.path.insert(0, name)
    return partial(runpy._run_module_as_main, "__main__", False)  # type: ignore[attr-defined]


def _paths(script: str | None) -> list[str]:
    """The search path that Python itself would have given the program."""
    first, *rest = isolated.ORIGINAL
    if sys.flags.safe_path if sys.version_info >= (3, 11) else sys.flags.isolated:
        return [first, *rest]
    if script is None:
        return [os.getcwd(), *rest]
    return [os.path.dirname(os.path.realpath(script)), *rest] if os.path.isfile(script) else rest


def _show(error: BaseException) -> None:
    """Print a traceback by the program's own hook, without the frames that ran it."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith((_OWN, "<frozen runpy")):
        trace = trace.tb_next
    try:
        sys.excepthook(type(error), error.with_traceback(trace), trace)
    except Exception:  # of the program's
        traceback.print_exception(type(error), error, trace)


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
        _watches.close()
        return status

    def prepared(name: str) -> dict[str, Any]:
        return {**prepare(name), "wherelint": _BeginsTheWatch(reporter.options())}

    with override(process.BaseProcess, _bootstrap=run), override(spawn, get_preparation_data=prepared):
        yield


class _BeginsTheWatch:
    """Begins the watch in a new interpreter, which unpickles it before it imports the program."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options

    def __reduce__(self) -> tuple[Callable[..., object], tuple[dict[str, Any]]]:
        return _begin, (self._options,)


_watches = ExitStack()


def _begin(options: dict[str, Any]) -> None:
    reporter = Reporter(**options)
    _watches.enter_context(watching(reporter.session))
    _watches.enter_context(watch_children(reporter))
