"""The pre-commit hook, run by pre-commit in a scratch repository."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import SAFE, UNSAFE, write

ROOT = Path(__file__).parent.parent


def git(directory: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=directory, check=True, capture_output=True)


@pytest.mark.slow
@pytest.mark.parametrize(("text", "status"), [(UNSAFE, 1), (SAFE, 0)], ids=["finding", "clean"])
def test_hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, status: int) -> None:
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path.parent / "pre-commit"))
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    write(tmp_path, {"a.py": text, "build/b.py": UNSAFE, "c.txt": "def f(:"})
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    command = [sys.executable, "-m", "pre_commit", "try-repo", "--all-files", "--verbose", str(ROOT), "wherelint"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == status, ran.stdout + ran.stderr
    assert ("a.py:5:29: WL101 unmasked-sqrt" in ran.stdout) == bool(status)
    assert "build/b.py" not in ran.stdout
