"""One command: how long it takes, and how much memory its processes hold at most."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

#: Seconds between two looks at the memory.
_EVERY = 0.05


class RunError(Exception):
    """The command could not be run, or its exit status is not one that was expected."""


@dataclass(frozen=True)
class Memory:
    """Peaks of resident memory in bytes (VmHWM). What processes share counts for each of them."""

    parent: int
    #: The child, or child's child, that held the most.
    largest: int
    #: The peaks of those that lived at the same time, added up.
    children: int


class Spent(NamedTuple):
    """Seconds that a command took, and those that its processes computed (0 where the system does not tell)."""

    wall: float
    cpu: float


def run(command: Sequence[str], folder: Path, allowed: Collection[int], env: Mapping[str, str]) -> Spent:
    """Run a command that says nothing."""
    return _run(command, folder, allowed, env, None)[0]


def watched(
    command: Sequence[str], folder: Path, allowed: Collection[int], env: Mapping[str, str]
) -> tuple[Spent, Memory | None]:
    """The same, and the memory where the system tells it (Linux, in /proc)."""
    return _run(command, folder, allowed, env, _Watch() if has_proc() else None)


def has_proc() -> bool:
    """Whether the system lists the children and the peaks of a process."""
    return Path(f"/proc/self/task/{os.getpid()}/children").is_file() and bool(_peak(os.getpid()))


def _run(
    command: Sequence[str], folder: Path, allowed: Collection[int], env: Mapping[str, str], watch: _Watch | None
) -> tuple[Spent, Memory | None]:
    with tempfile.TemporaryFile() as errors:
        begun, before = time.perf_counter(), _computed()
        try:
            process = subprocess.Popen(
                command, cwd=folder, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=errors,
            )  # fmt: skip
        except OSError as error:
            raise RunError(str(error)) from None
        thread = threading.Thread(target=watch.look, args=(process.pid,)) if watch else None
        try:
            if thread:
                thread.start()
            status = process.wait()
            spent = Spent(time.perf_counter() - begun, _computed() - before)
        except BaseException:
            process.terminate()
            process.wait()
            raise
        finally:
            if watch and thread:
                watch.done.set()
                thread.join()
        if status not in allowed:
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip().splitlines()
            raise RunError(": ".join([f"exit status {status}", *said[-1:]]))
    return spent, watch.memory() if watch else None


def _computed() -> float:
    """Seconds that all processes computed that were waited for so far."""
    times = os.times()
    return times.children_user + times.children_system


class _Watch:
    """Looks at a process and all below it, again and again."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self._peaks: dict[int, int] = {}
        self._parent = 0
        self._together = 0

    def look(self, pid: int) -> None:
        while not self.done.wait(_EVERY):
            alive = {child: peak for child in _below(pid) if (peak := _peak(child))}
            # The last peak counts, not the highest: between fork and exec a child still shows its parent's.
            self._parent = _peak(pid) or self._parent
            self._peaks |= alive
            self._together = max(self._together, sum(alive.values()))

    def memory(self) -> Memory:
        return Memory(self._parent, max(self._peaks.values(), default=0), self._together)


def _below(pid: int) -> Iterator[int]:
    """The children of a process, and theirs."""
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:  # it ended meanwhile
            continue
        for child in map(int, children):
            yield child
            yield from _below(child)


def _peak(pid: int) -> int:
    """The most that a process has held so far, in bytes; 0 if it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:")), 0)
