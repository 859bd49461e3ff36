"""Several runs, and an editor, in one tree."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import SAFE, UNSAFE, environment, write

from wherelint.io import disk, files

MINE = UNSAFE + "# mine\n"


@pytest.mark.slow
@pytest.mark.parametrize("cache", [(), ("--no-cache",)], ids=["cache", "no cache"])
def test_runs_that_fix_the_same_files(project: Path, cache: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "wherelint", "check", "--fix", "-j1", *cache]
    write(project, {f"{name}.py": UNSAFE for name in "abcd"})
    (project / "link.py").symlink_to("a.py")
    runs = [
        subprocess.Popen(command, env=environment(), stdout=-1, stderr=subprocess.STDOUT, text=True) for _ in range(3)
    ]
    time.sleep(0.5)
    files.rewrite("d.py", UNSAFE.encode(), MINE.encode())  # as an editor saves
    for run in runs:
        output = run.communicate(timeout=60)[0]
        assert run.returncode == (2 if "changed during the run" in output else 0), output
        assert "Traceback" not in output
    texts = {path.name: path.read_text() for path in project.glob("*.py")}
    assert "jnp.where(x > 0, x, 1.0)" in texts["a.py"]
    assert texts["a.py"] == texts["b.py"] == texts["c.py"] == texts["link.py"]
    assert texts["d.py"].startswith(texts["a.py"].partition("return")[0])
    assert (project / "link.py").is_symlink()
    assert not [*project.rglob(".wherelint-*.tmp")]
    again = subprocess.run([*command, "-q"], env=environment(), capture_output=True, text=True, check=False)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")


@pytest.mark.parametrize("at", [1, 2])
def test_what_an_editor_saves_meanwhile_stays(project: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Before and while the new contents are written."""
    write(project, {"a.py": UNSAFE})
    step, calls = os.fsync if at == 1 else disk._copy_owner, []

    def edit(*arguments: object) -> None:
        calls.append(step(*arguments))  # type: ignore[operator]
        write(project, {"a.py": MINE})

    monkeypatch.setattr(*((os, "fsync") if at == 1 else (disk, "_copy_owner")), edit)
    problem = files.rewrite("a.py", UNSAFE.encode(), SAFE.encode())
    assert calls
    assert problem is not None
    assert "changed during the run" in problem.message
    assert (project / "a.py").read_text() == MINE
    assert sorted(os.listdir(project)) == [".git", "a.py"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_a_file_keeps_its_owner(project: Path) -> None:
    write(project, {"a.py": UNSAFE})
    os.chown("a.py", 12345, 23456)
    assert files.rewrite("a.py", UNSAFE.encode(), SAFE.encode()) is None
    status = (project / "a.py").stat()
    assert (status.st_uid, status.st_gid) == (12345, 23456)


def test_a_long_name_can_be_fixed(project: Path) -> None:
    name = "a" * 252 + ".py"
    write(project, {name: UNSAFE})
    assert files.rewrite(name, UNSAFE.encode(), SAFE.encode()) is None
    assert (project / name).read_text() == SAFE


def test_a_new_file_has_the_permissions_that_are_usual(project: Path) -> None:
    before = os.umask(0o027)
    try:
        disk.write(Path("report.txt"), b"report")
    finally:
        os.umask(before)
    assert (project / "report.txt").stat().st_mode & 0o777 == 0o640


def test_a_report_is_written_through_a_link_and_into_a_pipe(project: Path) -> None:
    write(project, {"real.txt": "old"})
    (project / "link.txt").symlink_to("real.txt")
    disk.write(Path("link.txt"), b"new")
    assert (project / "link.txt").is_symlink()
    assert (project / "real.txt").read_text() == "new"
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    disk.write(Path("pipe"), b"report")
    assert os.read(reader, 100) == b"report"
    os.close(reader)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="everything may be written")
def test_what_is_read_only_is_refused_and_a_file_in_such_a_directory_is_written(project: Path) -> None:
    write(project, {"known.json": "old", "locked/known.json": "old"})
    (project / "known.json").chmod(0o444)
    with pytest.raises(PermissionError):
        disk.write(Path("known.json"), b"new")
    (project / "locked").chmod(0o555)
    disk.write(Path("locked/known.json"), b"new")
    (project / "locked").chmod(0o755)
    assert [path.read_text() for path in (project / "known.json", project / "locked/known.json")] == ["old", "new"]


def test_a_huge_cache_and_one_that_is_a_link_are_ignored(project: Path) -> None:
    write(project, {"a.py": SAFE, "precious.py": UNSAFE})
    pack = project / disk.CACHE / "check" / "wherelint.jsonl"
    pack.parent.mkdir(parents=True)
    pack.symlink_to(project / "precious.py")
    command = [sys.executable, "-m", "wherelint", "check", "a.py"]
    subprocess.run(command, env=environment(), check=True, capture_output=True)
    assert (project / "precious.py").read_text() == UNSAFE
    with pack.open("wb") as file:
        file.truncate(1 << 30)  # takes no room
    subprocess.run(command, env=environment(), check=True, capture_output=True)
    assert pack.stat().st_size < 10_000
