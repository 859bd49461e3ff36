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


def hook(directory: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> subprocess.CompletedProcess[str]:
    """Run one of the repository's hooks on a scratch repository."""
    monkeypatch.setenv("PRE_COMMIT_HOME", str(directory.parent / "pre-commit"))
    for variable in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(variable, raising=False)
    git(directory, "init", "-q")
    git(directory, "add", "-A")
    command = [sys.executable, "-m", "pre_commit", "try-repo", "--all-files", "--verbose", str(ROOT), name]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(("text", "status"), [(UNSAFE, 1), (SAFE, 0)], ids=["finding", "clean"])
def test_hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, status: int) -> None:
    write(tmp_path, {"a.py": text, "build/b.py": UNSAFE, "c.txt": "def f(:"})
    ran = hook(tmp_path, monkeypatch, "wherelint")
    assert ran.returncode == status, ran.stdout + ran.stderr
    assert ("a.py:5:29: WL101 unmasked-sqrt" in ran.stdout) == bool(status)
    assert "build/b.py" not in ran.stdout


@pytest.mark.slow
def test_the_hook_that_fixes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"a.py": UNSAFE})
    ran = hook(tmp_path, monkeypatch, "wherelint-fix")
    assert ran.returncode == 1, ran.stdout + ran.stderr  # pre-commit fails where a hook changed a file
    assert "Fixed 1 finding in 1 file." in ran.stdout
    assert "jnp.sqrt(jnp.where(x > 0, x, 1.0))" in (tmp_path / "a.py").read_text()
