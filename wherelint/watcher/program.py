"""A script or a module, run as ``python SCRIPT`` and ``python -m MODULE`` run it, in this process."""

import io
import os
import runpy
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType

from wherelint import isolated
from wherelint.companion.coverage import Marks
from wherelint.io.gradient_coverage import MalformedError, load
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
        run = _module(name) if is_module else _directory(name)
    else:
        path = os.path.abspath(name)
        main.__file__, main.__loader__ = path, SourceFileLoader("__main__", path)
        main.__dict__["__cached__"] = main.__spec__ = None

        def run() -> None:
            exec(_compiled(path), main.__dict__)

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
        if isinstance(error, CannotRunError):
            raise
        _show(error)
        return _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _join() -> None:
    """Wait for the program's threads, as Python does at its end: they may take gradients as well."""
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join()


def _compiled(path: str) -> CodeType:
    with io.open_code(path) as file:
        return compile(file.read(), path, "exec", dont_inherit=True)


def _module(name: str) -> Callable[[], object]:
    return lambda: runpy._run_module_as_main(name)  # type: ignore[attr-defined]  # what `python -m` calls


def _directory(name: str) -> Callable[[], object]:
    """A directory or an archive that holds a ``__main__.py``."""
    if not os.path.exists(name):
        hint = "; give the script itself: wherelint run train.py" if name.startswith("python") else ""
        raise CannotRunError(f"{name}: no such file{hint}")
    sys.path.insert(0, name)
    return lambda: runpy._run_module_as_main("__main__", False)  # type: ignore[attr-defined]


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
