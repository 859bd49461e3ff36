"""Processes: the order of the results, dead workers, interruption."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import crashing
import pytest
from conftest import environment

from wherelint.run import pool


def crashed(item: int) -> int:
    return -item


def children() -> list[str]:
    """The processes that this one has started, where the system tells."""
    found = []
    for task in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
        with suppress(FileNotFoundError):  # the thread has ended
            found += task.read_text().split()
    return found


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    before = children()  # another test may have left one: multiprocessing's tracker of resources
    yield
    deadline = time.monotonic() + 5  # one that was killed goes when a busy machine comes to it
    while (left := set(children()) - set(before)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not left


@pytest.mark.parametrize("jobs", [1, 3])
def test_results_are_in_the_order_of_the_items(jobs: int) -> None:
    seen: dict[int, int] = {}
    items = list(range(20))
    assert pool.run(crashing.square_slowly, items, jobs, crashed, seen.__setitem__) == [item * item for item in items]
    assert seen == {item: item * item for item in items}


def test_no_items() -> None:
    assert pool.run(crashing.square, [], 4, crashed) == []


def test_a_dead_worker_costs_its_own_item_only() -> None:
    items = list(range(20))
    assert pool.run(crashing.die_at_seven, items, 2, crashed) == [-7 if item == 7 else item * item for item in items]


@pytest.mark.parametrize("share", [3, 8, 50])
def test_a_dead_worker_costs_nothing_of_its_share(share: int) -> None:
    items = list(range(20))
    seen: dict[int, int] = {}
    assert pool.run(crashing.die_at_seven, items, 2, crashed, seen.__setitem__, share=share) == [
        -7 if item == 7 else item * item for item in items
    ]
    assert seen == {item: -7 if item == 7 else item * item for item in items}


def test_every_worker_may_die() -> None:
    assert pool.run(crashing.die_always, [1, 2], 2, crashed) == [-1, -2]
    assert pool.run(crashing.die_always, [1, 2, 3], 2, crashed, share=2) == [-1, -2, -3]


def test_an_exception_comes_through() -> None:
    with pytest.raises(ValueError, match="1"):
        pool.run(crashing.raise_error, [1, 1], 2, crashed)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals are for a process")
def test_an_interruption_does_not_wait_for_the_workers() -> None:
    """It is heard too where the system tells another thread of it."""
    other = threading.Timer(0.5, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGINT))
    other.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        pool.run(crashing.sleep, [1, 2, 3], 2, crashed)
    assert time.monotonic() - start < 20


def test_what_a_worker_prints_is_no_reply(capfd: pytest.CaptureFixture[str]) -> None:
    assert pool.run(crashing.say, [1, 2, 3], 2, crashed) == [1, 2, 3]
    assert sorted(capfd.readouterr().err.split()) == ["1", "1", "2", "2", "3", "3"]


def test_a_worker_imports_no_main_module(tmp_path: Path) -> None:
    """A script that asks for processes needs no ``if __name__ == "__main__"``."""
    script = "print('begun')\nfrom wherelint.run import pool\nprint(pool.run(abs, [-1, -2, -3], 2, abs))\n"
    (tmp_path / "script.py").write_text(script)
    ran = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip
    assert (ran.stdout, ran.stderr) == ("begun\n[1, 2, 3]\n", "")
