"""Whatever goes wrong at whatever step of a run: every file is as it was before or as it is after, whole."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import SAFE, UNSAFE, environment, write
from test_cache import NOTEBOOK

from wherelint.cli import main
from wherelint.replacing import TEMPORARY

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="faults are injected into forks")

COMMANDS = {
    "fix": ("check", "--fix", "--no-cache"),
    "fix and cache": ("check", "--fix"),
    "add-noqa": ("check", "--add-noqa", "--no-cache"),
    "first cache": ("check", "a.py", "c.py"),
    "cache": ("check",),
    "baseline": ("check", "--no-cache", "--write-baseline", "known.json"),
    "reports": ("check", "--no-cache", "-o", "out.txt", "--report", "sarif=new.sarif"),
    "scripts": ("check", "--no-cache", "--repro-dir", "scripts"),
    "clean": ("clean",),
}
#: What a run changes that it may be repeated for and give the same output.
REPEATABLE = {"first cache", "cache", "baseline", "reports", "scripts"}
CASES = [(name, fault) for name in COMMANDS for fault in ("KILL", "ENOSPC", "INT")]
CASES += [("fix", fault) for fault in ("EIO", "EACCES", "EDQUOT")]

Tree = dict[str, tuple[int, bytes]]


class Runs(NamedTuple):
    """What became of the runs: their exit statuses, and the one that met no fault."""

    root: Path
    statuses: list[int]
    status: int

    def output(self, number: int) -> str:
        return (self.root / f"{number}.out").read_text()


def seen(tree: Path) -> Tree:
    """Every file and link of a tree: its mode, and what it holds or leads to; not what a killed run may leave."""
    found = {}
    for path in sorted(tree.rglob("*")):
        status = path.lstat()
        if path.is_symlink():
            found[str(path.relative_to(tree))] = (stat.S_IFMT(status.st_mode), os.fsencode(os.readlink(path)))
        elif not path.is_dir() and not TEMPORARY.fullmatch(path.name):
            found[str(path.relative_to(tree))] = (status.st_mode, path.read_bytes())
    return found


def left_over(tree: Path) -> list[Path]:
    return [path for path in tree.rglob("*") if TEMPORARY.fullmatch(path.name)]


def prepare(root: Path, name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """The tree that the runs begin with, at ``origin``; what is kept in its cache speaks of ``tree``."""
    tree = root / "tree"
    write(tree, {"a.py": UNSAFE, "real/b.py": UNSAFE, "c.py": SAFE, "n.ipynb": NOTEBOOK, ".git/HEAD": ""})
    write(tree, {"known.json": "old\n", "out.txt": "old\n"})
    (tree / "a.py").chmod(0o640)
    (tree / "real" / "b.py").chmod(0o755)
    (tree / "link.py").symlink_to("real/b.py")
    monkeypatch.chdir(tree)
    if name in ("cache", "fix and cache", "clean"):
        main(["check"])
        capfd.readouterr()
        write(tree, {"new.py": SAFE})
    monkeypatch.chdir(root)
    tree.rename(root / "origin")


@pytest.mark.slow
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
    *statuses, status = map(int, ran.stdout.split())
    before, after = seen(tmp_path / "origin"), seen(tmp_path / str(len(statuses) + 1))
    last = (tmp_path / f"{len(statuses) + 1}.out").read_text()
    assert before != after
    assert len(statuses) > 10
    for number, met in enumerate(statuses, 1):
        tree, output = tmp_path / str(number), (tmp_path / f"{number}.out").read_text()
        found = seen(tree)
        # Never between.
        for path in {*before, *after, *found}:
            assert found.get(path) in (before.get(path), after.get(path)), (number, path, output)
        # It is said, in a line of its own.
        assert met in {"KILL": (-9,), "INT": (130,)}.get(fault, (0, 1, 2)), (number, output)
        assert "Traceback" not in output, (number, output)
        if met == 2:
            assert os.strerror(getattr(errno, fault)) in output, (number, output)
        elif met >= 0 and fault != "INT":
            missed = {path for path in {*after, *found} if after.get(path) != found.get(path)}
            assert not {path for path in missed if ".wherelint_cache" not in path}, (number, output)
        # No more is left behind than by a run without a fault, but for a file that nothing takes for anything.
        assert len(left_over(tree)) <= (fault == "KILL"), number
        # And the next run makes good for it.
        tree.rename(tmp_path / "tree")
        monkeypatch.chdir(tmp_path / "tree")
        repeated = main(COMMANDS[name])
        captured = capfd.readouterr()
        assert seen(tmp_path / "tree") == after, number
        if name in REPEATABLE:
            assert (repeated, captured.out + captured.err) == (status, last), number
        (tmp_path / "tree").rename(tree)
        monkeypatch.chdir(tmp_path)
