"""The pre-commit hooks, run by pre-commit in a scratch repository. Beside the suite (.ci/run): pip takes its time."""

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


def hooks(directory: Path, monkeypatch: pytest.MonkeyPatch) -> subprocess.CompletedProcess[str]:
    """Run the repository's hooks on a scratch repository."""
    monkeypatch.setenv("PRE_COMMIT_HOME", str(directory.parent / "pre-commit"))
    for variable in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(variable, raising=False)
    git(directory, "init", "-q")
    git(directory, "add", "-A")
    command = [sys.executable, "-m", "pre_commit", "try-repo", "--all-files", "--verbose", str(ROOT)]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


def test_the_hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other: the one reports, the other fixes; pre-commit fails for either."""
    write(tmp_path, {"a.py": UNSAFE, "build/b.py": UNSAFE, "c.txt": "def f(:"})
    ran = hooks(tmp_path, monkeypatch)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "a.py:5:29: error: WL101 unmasked-sqrt" in ran.stdout
    assert "build/b.py" not in ran.stdout
    assert "Fixed 1 finding in 1 file." in ran.stdout
    assert "jnp.sqrt(jnp.where(x > 0, x, 1.0))" in (tmp_path / "a.py").read_text()


def test_the_hooks_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"a.py": SAFE, "build/b.py": UNSAFE, "c.txt": "def f(:"})
    ran = hooks(tmp_path, monkeypatch)
    assert ran.returncode == 0, ran.stdout + ran.stderr
