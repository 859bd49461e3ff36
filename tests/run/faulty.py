"""Runs the command again and again, with a fault at the first step that touches a tree, at the second, and so on.

``python faulty.py FAULT ARGUMENTS...`` beside a folder ``origin``: a step is whatever Python tells an audit hook that
has to do with a path below the folder, and every write to a file there, of which half is written before the fault;
those that only read are steps if the fault is EIO. Each run is a process of its own, on a copy of the folder that lies
at ``tree``, and under the number of the run afterwards; ``1.out`` is what the first one printed. The exit statuses are
printed, each with the step that failed; that of the run that met no fault last.
"""

from __future__ import annotations

import builtins
import errno
import io
import itertools
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wherelint import api, cli  # noqa: F401  (what is loaded is no step)
from wherelint.confirm import script, snippet  # noqa: F401
from wherelint.io import disk, files  # noqa: F401  (what is loaded is no step)
from wherelint.report import text  # noqa: F401
from wherelint.run import cache  # noqa: F401  (what is loaded is no step)
from wherelint.suppress import baseline  # noqa: F401  (what is loaded is no step)

_OPEN = io.open
_STEPS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.link", "os.symlink", "os.truncate",
          "os.scandir", "os.listdir", "os.chown", "os.utime", "shutil.rmtree")  # fmt: skip
_READS = ("os.scandir", "os.listdir")


class Steps:
    """Counts, and fails at one of them."""

    def __init__(self, tree: Path, at: int, fault: str) -> None:
        self._tree = str(tree) + os.sep
        self.left = at
        self._fault = fault
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _STEPS and isinstance(arguments[0], (str, bytes, os.PathLike)) and self.within(arguments[0]):
            reads = event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if self._fault == "EIO" or not (reads or event in _READS):
                self.take("read" if reads else event)

    def within(self, path: Any) -> bool:
        """Whether a path lies in the tree, which is the working directory."""
        return (os.path.join(self._tree, os.fsdecode(path)) + os.sep).startswith(self._tree)

    def take(self, event: str, before: Callable[[], object] = lambda: None) -> None:
        """Take a step; where it is the one, do ``before`` and fail."""
        self.left -= 1
        if self.left:
            return
        Path(self._tree, "..", "met").write_text(event)
        before()
        if self._fault == "KILL":
            os.kill(os.getpid(), signal.SIGKILL)
        if self._fault == "INT":
            raise KeyboardInterrupt
        number = getattr(errno, self._fault)
        raise OSError(number, os.strerror(number))


class File(io.FileIO):
    """A file whose every write is a step."""

    steps: Steps

    def write(self, data: Any) -> int:
        self.steps.take("write", lambda: super(File, self).write(memoryview(data)[: len(data) // 2]))
        return super().write(data)


def opened(steps: Steps) -> Callable[..., Any]:
    """``open`` for which every write to a file of the tree is a step."""

    def open_(file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, *rest: Any, **options: Any) -> Any:
        if isinstance(file, int) or not set(mode) & set("wxa+") or not steps.within(file):
            return _OPEN(file, mode, buffering, encoding, *rest, **options)
        raw = File(file, mode.replace("b", "").replace("t", ""))
        raw.steps = steps
        return io.BufferedWriter(raw) if "b" in mode else io.TextIOWrapper(io.BufferedWriter(raw), encoding)

    return open_


def run(at: int, fault: str, arguments: list[str]) -> tuple[int, str]:
    """One run, in another process: its exit status, or minus the signal that ended it; and the step that failed."""
    origin, tree = Path("origin"), Path("tree").absolute()
    shutil.copytree(origin, tree, symlinks=True)
    met = Path("met")
    met.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        status = 99
        try:
            output = os.open(f"{at}.out", os.O_CREAT | os.O_WRONLY)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.chdir(tree)
            steps = Steps(tree, at, fault)
            io.open = builtins.open = opened(steps)
            fsync = os.fsync
            os.fsync = lambda number: (steps.take("fsync"), fsync(number))[1]  # type: ignore[assignment,func-returns-value]
            status = cli.main(arguments)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    tree.rename(str(at))
    return status, met.read_text() if met.exists() else ""


def main() -> None:
    fault, *arguments = sys.argv[1:]
    for at in itertools.count(1):
        status, met = run(at, fault, arguments)
        print(status, met)
        if not met:
            return


if __name__ == "__main__":
    main()
