"""However a run ends, no process of it stays, and nothing is printed but one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import environment, write

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are found in /proc")
#: The command where a check of a file waits for a file called "go".
WAITING = """\
import sys
sys.path.insert(0, sys.argv.pop(1))
import crashing
from wherelint import cli
from wherelint.run import engine
engine.check_file = crashing.wait
sys.exit(cli.main())
"""
CHECK = [sys.executable, "waiting.py", str(Path(__file__).parents[1]), "check", "--no-cache", "--fix", "-j2"]
BUSY = """\
import sys
sys.path.insert(0, sys.argv[1])
import crashing
from wherelint.run import pool
pool.run(crashing.spin, [sys.argv[2]] * 2, 2, print)
"""


def gone(process: int, seconds: float = 5.0) -> bool:
    """Whether a process ends in so many seconds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def children(process: subprocess.Popen[str], count: int) -> list[int]:
    """The processes that one has started, once there are so many."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
        found = [child for task in tasks for child in task.read_text().split()]
        if len(found) >= count:
            return [int(child) for child in found]
        time.sleep(0.01)
    raise AssertionError("it starts no processes")


@pytest.fixture
def checking(project: Path) -> Iterator[subprocess.Popen[str]]:
    """A run in two processes, which wait for what does not come."""
    write(project, {"waiting.py": WAITING, "a": "", "b": ""})
    process = subprocess.Popen(
        [*CHECK, "a", "b"], env=environment(), text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda number: number.name)
def test_a_run_that_is_told_to_end(checking: subprocess.Popen[str], number: signal.Signals) -> None:
    workers = children(checking, 2)
    time.sleep(0.5)
    checking.send_signal(number)
    output, errors = checking.communicate(timeout=120)
    assert (checking.returncode, output, errors) == (130, "", "wherelint: interrupted\n")
    assert all(map(gone, workers))


def test_hangups_do_not_count_under_nohup(project: Path) -> None:
    write(project, {"waiting.py": WAITING, "a": ""})
    process = subprocess.Popen(["nohup", *CHECK, "a"], env=environment(), stdout=-1, stderr=-1, text=True)
    time.sleep(1.5)
    process.send_signal(signal.SIGHUP)
    (project / "go").touch()
    assert "1 file checked" in process.communicate(timeout=120)[0]
    assert process.returncode == 0


@pytest.mark.parametrize("wait", [0, 0.05, 0.15])
def test_workers_that_are_starting_do_not_hear_ctrl_c(checking: subprocess.Popen[str], wait: float) -> None:
    workers = children(checking, 2)
    time.sleep(wait)
    os.killpg(checking.pid, signal.SIGINT)  # as a terminal does
    assert checking.communicate(timeout=120) == ("", "wherelint: interrupted\n")
    assert all(map(gone, workers))


def test_workers_do_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    (tmp_path / "busy").mkdir()
    (tmp_path / "parent.py").write_text(BUSY)
    command = [sys.executable, "parent.py", str(Path(__file__).parents[1]), str(tmp_path / "busy")]
    parent = subprocess.Popen(command, cwd=tmp_path, env=environment(), text=True, stderr=subprocess.DEVNULL)
    started = children(parent, 2)
    until = time.monotonic() + 20
    while len(os.listdir(tmp_path / "busy")) < 2:
        assert time.monotonic() < until
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    assert [gone(child) for child in started] == [True] * 2
