"""``check --watch``: again after each change, until Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import pytest
from conftest import SAFE, UNSAFE, Run, environment, write


@pytest.fixture
def watching(project: Path) -> Iterator[subprocess.Popen[str]]:
    write(project, {"a.py": UNSAFE, "b/c.py": SAFE})
    command = [sys.executable, "-m", "wherelint", "check", "--watch", "--output-format", "concise", "--no-cache"]
    process = subprocess.Popen(
        command, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )  # fmt: skip
    alarm = Timer(60, process.kill)
    alarm.start()
    yield process
    alarm.cancel()
    process.kill()
    process.wait()


def said(process: subprocess.Popen[str]) -> list[str]:
    """What it prints for one check."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        if line.startswith("Watching"):
            return lines
        lines.append(line.partition(": ")[0].strip())
    raise AssertionError(lines)


def test_each_change_is_checked(project: Path, watching: subprocess.Popen[str]) -> None:
    assert said(watching) == ["a.py:5:29", "Found 1 error (1 fixable with --fix), 2 files checked."]
    write(project, {"b/d.py": UNSAFE})
    assert said(watching) == [
        "a.py:5:29",
        "b/d.py:5:29",
        "Found 2 errors in 2 files (2 fixable with --fix), 3 files checked.",
    ]
    write(project, {"pyproject.toml": "[tool.wherelint]\nexclude = 3\n"})
    assert said(watching) == ["error"]
    write(project, {"pyproject.toml": "[tool.wherelint]\nexclude = ['b/']\n"})
    assert said(watching) == ["a.py:5:29", "Found 1 error (1 fixable with --fix), 1 file checked."]
    (project / "a.py").write_text(SAFE)
    assert said(watching) == ["No findings, 1 file checked."]
    watching.send_signal(signal.SIGINT)
    assert (watching.communicate()[0], watching.returncode) == ("", 0)


def test_its_status_is_that_of_the_last_check(watching: subprocess.Popen[str]) -> None:
    said(watching)
    watching.send_signal(signal.SIGINT)
    assert (watching.communicate()[0], watching.returncode) == ("", 1)


@pytest.mark.parametrize("other", ["-", "--fix", "--diff", "--add-noqa", "--show-files", "--show-settings"])
def test_it_shows_findings(run: Run, other: str) -> None:
    status, _, errors = run("check", "--watch", other)
    assert status == 2
    assert errors.endswith(f"error: --watch cannot be combined with {other}\n")
