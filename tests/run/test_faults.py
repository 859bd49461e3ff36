"""Whatever goes wrong at whatever step of a run: every file is as it was before or as it is after, whole."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
from conftest import NOTEBOOK, SAFE, UNSAFE, environment, write

from wherelint.cli import main

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="faults are injected into forks")

COMMANDS = {
    "fix and cache": ("check", "--fix"),
    "add-noqa": ("check", "--add-noqa", "--no-cache"),
    "first cache": ("check", "real", "c.py"),
    "cache": ("check",),
    "baseline": ("check", "--no-cache", "--write-baseline", "known.json"),
    "reports": ("check", "--no-cache", "-o", "out.txt", "--report", "sarif=new.sarif"),
    "scripts": ("check", "--no-cache", "--repro-dir", "scripts", "real"),
}
#: What a run changes that it may be repeated for and give the same output.
REPEATABLE = {"first cache", "cache", "baseline", "reports", "scripts"}
CASES = [(name, fault) for name in COMMANDS for fault in ("KILL", "ENOSPC")]
CASES += [("fix and cache", "INT"), ("fix and cache", "EACCES"), ("cache", "EIO"), ("reports", "INT")]

SOURCES = (".py", ".ipynb")
#: The reports that a cache holds: more of them after a run that went wrong.
PACK = ".wherelint_cache/check/wherelint.jsonl"

Tree = dict[str, tuple[int, bytes]]


def seen(tree: Path) -> Tree:
    """Every file and link of a tree: its mode, and what it holds or leads to; not what a killed run may leave."""
    found = {}
    for path in sorted(tree.rglob("*")):
        status = path.lstat()
        if path.is_symlink():
            found[str(path.relative_to(tree))] = (stat.S_IFMT(status.st_mode), os.fsencode(os.readlink(path)))
        elif not path.is_dir() and not fnmatch(path.name, ".wherelint-*.tmp"):
            found[str(path.relative_to(tree))] = (status.st_mode, path.read_bytes())
    return found


def said(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The exit status of a command, and all that it prints."""
    status = main(arguments)
    captured = capfd.readouterr()
    return status, captured.out + captured.err


def _compared(tree: Tree) -> Tree:
    """A tree without what a cache holds: it is marked only by the run that makes its directory."""
    return {path: content for path, content in tree.items() if not path.startswith(".wherelint_cache/")}


def left_over(tree: Path) -> list[Path]:
    return [path for path in tree.rglob("*") if fnmatch(path.name, ".wherelint-*.tmp")]


def prepare(root: Path, name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """The tree that the runs begin with, at ``origin``; what is kept in its cache speaks of ``tree``."""
    tree = root / "tree"
    write(tree, {"real/b.py": UNSAFE, "c.py": SAFE, "n.ipynb": NOTEBOOK, ".git/HEAD": ""})
    write(tree, {"known.json": "old\n", "out.txt": "old\n"})
    (tree / "real" / "b.py").chmod(0o750)
    (tree / "link.py").symlink_to("real/b.py")
    monkeypatch.chdir(tree)
    if name in ("cache", "fix and cache"):
        said(capfd, "check")
        write(tree, {"new.py": SAFE})
    monkeypatch.chdir(root)
    tree.rename(root / "origin")


@pytest.mark.slow
@pytest.mark.rotated(6)
@pytest.mark.parametrize(("name", "fault"), CASES)
def test_every_file_is_before_or_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], name: str, fault: str
) -> None:
    prepare(tmp_path, name, monkeypatch, capfd)
    command = [sys.executable, str(Path(__file__).with_name("faulty.py")), fault, *COMMANDS[name]]
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # it forks
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment() | one_thread, capture_output=True, text=True, check=True, timeout=120
    )
    *failed, (last,) = [line.split() for line in ran.stdout.splitlines()]
    before, after = seen(tmp_path / "origin"), seen(tmp_path / str(len(failed) + 1))
    whole = (tmp_path / f"{len(failed) + 1}.out").read_text()
    assert before != after
    assert len(failed) > 4
    known: list[Tree] = []
    for number, (status, step) in enumerate(failed, 1):
        tree, output = tmp_path / str(number), (tmp_path / f"{number}.out").read_text()
        found = seen(tree)
        # Never between. A report is of what could be read.
        partial = "cannot read" in output
        for path in {*before, *after, *found}:
            if (partial and not path.endswith(SOURCES)) or (fault == "EIO" and path == PACK):
                continue
            assert found.get(path) in (before.get(path), after.get(path)), (number, path, output)
        # It is said, in a line of its own.
        assert int(status) in {"KILL": (-9,), "INT": (130,)}.get(fault, (0, 1, 2)), (number, step, output)
        assert "Traceback" not in output, (number, output)
        if status == "2":
            assert os.strerror(getattr(errno, fault)) in output, (number, output)
        elif status in "01":
            missed = {path for path in {*after, *found} if after.get(path) != found.get(path)}
            assert not {path for path in missed if ".wherelint_cache" not in path}, (number, output)
        # No more is left behind than by a run without a fault, but for a file that nothing takes for anything.
        assert len(left_over(tree)) <= (fault == "KILL" or step == "os.remove"), number
        # And the next run makes good for it.
        if found in known:
            continue
        known.append(found)
        tree.rename(tmp_path / "tree")
        monkeypatch.chdir(tmp_path / "tree")
        repeated = said(capfd, *COMMANDS[name])
        assert _compared(seen(tmp_path / "tree")) == _compared(after), number
        if name in REPEATABLE and not partial:
            assert repeated == (int(last), whole), number
        if "cache" in name:
            assert said(capfd, "check", "-q") == said(capfd, "check", "-q", "--no-cache"), number
        (tmp_path / "tree").rename(tree)
        monkeypatch.chdir(tmp_path)
