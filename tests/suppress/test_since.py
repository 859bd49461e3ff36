"""--since: what changed since a revision of git, and nothing else."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from conftest import UNSAFE, Run, write

OTHER = UNSAFE.replace("def f", "def g").replace("import jax.numpy as jnp\n\n\n", "\n\n")


def git(*arguments: str) -> None:
    settings = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *settings, *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(project: Path) -> Path:
    write(project, {"a.py": UNSAFE + OTHER, "sub/é b.py": UNSAFE, "same.py": UNSAFE})
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    return project


def found(run: Run, *arguments: str) -> list[tuple[str, int]]:
    status, output, errors = run("check", *arguments, "--output-format", "json", "--no-cache")
    listed = [(f["filename"], f["location"]["row"]) for f in json.loads(output)]
    assert (status, errors) == (int(bool(listed)), "")
    return listed


def test_nothing_changed(run: Run, repository: Path) -> None:
    assert len(found(run)) == 4
    assert found(run, "--since", "main") == []


def test_before_the_first_commit_everything_is_new(run: Run, project: Path) -> None:
    write(project, {"a.py": UNSAFE, "b.py": UNSAFE})
    git("init", "-q", "-b", "main")
    git("add", "a.py")
    assert found(run, "--since", "HEAD") == [("a.py", 5), ("b.py", 5)]


def test_functions_around_changed_rows(run: Run, repository: Path) -> None:
    text = UNSAFE + OTHER
    (repository / "a.py").write_text(text.replace("def g(x):\n", 'def g(x):\n    """Changed."""\n'))
    assert found(run, "--since", "main") == [("a.py", 10)]
    (repository / "a.py").write_text("# A row that is in no function\n" + text)
    assert found(run, "--since", "main") == []
    with_more = text.replace("def f(x):\n", "def f(x):\n    x = x + 1\n")
    (repository / "a.py").write_text(with_more)
    git("commit", "-qam", "more")
    (repository / "a.py").write_text(text)  # the row was removed
    assert found(run, "--since", "main") == [("a.py", 5)]
    assert len(found(run, "--since", "main~1")) == 0


def test_what_others_did_meanwhile_is_theirs(run: Run, repository: Path) -> None:
    git("checkout", "-qb", "mine")
    (repository / "sub" / "é b.py").write_text(UNSAFE.replace("0.0", "1.0"))
    git("commit", "-qam", "mine")
    git("checkout", "-q", "main")
    (repository / "a.py").write_text("")
    git("commit", "-qam", "theirs")
    git("checkout", "-q", "mine")
    assert found(run, "--since", "main") == [("sub/é b.py", 5)]
    assert found(run, "--since", "main", "same.py", "a.py") == []
    assert found(run, "--since", "main", "sub") == [("sub/é b.py", 5)]


def test_files_that_git_does_not_know_are_new(run: Run, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(repository, {"sub/new.py": UNSAFE, "ignored.py": UNSAFE, ".gitignore": "ignored.py\n"})
    assert found(run, "--since", "main") == [("sub/new.py", 5)]
    monkeypatch.chdir(repository / "sub")
    assert found(run, "--since", "main") == [("new.py", 5)]
    assert found(run, "--since", "main", "--exclude", "new*") == []


def test_nothing_of_the_repository_is_run(run: Run, repository: Path) -> None:
    ran = repository / "ran"
    for key in ("diff.external", "core.fsmonitor", "diff.odd.textconv"):
        git("config", key, f"touch '{ran}'; true")
    write(repository, {".gitattributes": "*.py diff=odd\n", "a.py": "# A comment\n" + UNSAFE + OTHER})
    assert found(run, "--since", "main") == []
    assert not ran.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--since", "nowhere"], "error: --since nowhere: git knows no such revision\n"),
        (["--since=--help"], "error: --since --help: git knows no such revision\n"),
        (["--since", "main", "--diff"], "--since cannot be combined with --diff"),
        (["--since", "main", "--write-baseline", "a"], "cannot be combined with --write-baseline"),
        (["--since", "main", "-"], "--since cannot be combined with -"),
    ],
)
def test_what_cannot_be_asked(run: Run, repository: Path, arguments: list[str], message: str) -> None:
    status, output, errors = run("check", *arguments)
    assert (status, output) == (2, "")
    assert message in errors


def test_outside_of_a_repository(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.parent))
    status, output, errors = run("check", "--since", "main")
    assert (status, output) == (2, "")
    assert errors.startswith("error: --since main: ")
    assert len(errors.splitlines()) == 1


def test_without_git(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(project))
    assert run("check", "--since", "main") == (
        2, "", "error: --since main: git cannot be run: No such file or directory\n"
    )  # fmt: skip
