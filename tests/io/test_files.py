"""Discovery: what is walked, excluded, ignored and reported."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conftest import write

from wherelint.io.config import Configuration, Overrides
from wherelint.io.files import discover


def found(*paths: str, overrides: Overrides | None = None, force_exclude: bool = False) -> list[str]:
    targets, problems = discover(paths, Configuration(overrides), force_exclude=force_exclude)
    assert problems == []
    return [target.name for target in targets]


def make(root: Path, *names: str) -> None:
    write(root, dict.fromkeys(names, ""))


def test_python_files_in_a_stable_order(project: Path) -> None:
    make(project, "b.py", "a/z.py", "a/b/c.py", "a.txt", "a.pyi", "c.py", "no_suffix")
    assert found(".") == ["a/b/c.py", "a/z.py", "b.py", "c.py"]
    assert found("c.py", "a", "a/z.py", "./a") == ["a/b/c.py", "a/z.py", "c.py"]


def test_named_files_are_checked_whatever_they_are_called(project: Path) -> None:
    make(project, "script", "build/a.py")
    assert found("script", "build/a.py") == ["build/a.py", "script"]
    assert found("script", "build/a.py", force_exclude=True) == ["script"]


def test_default_excludes(project: Path) -> None:
    make(
        project, ".venv/a.py", "venv/a.py", "x/build/a.py", "node_modules/p/a.py", "x/__pycache__/a.py", "builder/a.py"
    )
    assert found(".") == ["builder/a.py"]


def test_a_named_directory_is_walked_even_if_it_is_excluded(project: Path) -> None:
    make(project, "build/lib/a.py", "build/.venv/b.py")
    write(project, {".gitignore": "build/\n"})
    assert found("build") == ["build/lib/a.py"]


def test_exclude_replaces_and_extend_exclude_adds(project: Path) -> None:
    make(project, "a.py", "gen_a.py", "old/b.py", "build/c.py")
    assert found(".", overrides=Overrides(exclude=("old/",))) == ["a.py", "build/c.py", "gen_a.py"]
    assert found(".", overrides=Overrides(extend_exclude=("old/", "gen_*.py"))) == ["a.py"]


def test_patterns_are_relative_to_the_configuration(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project, {"pyproject.toml": "[tool.wherelint]\nextend-exclude = ['/sub/old']\n"})
    make(project, "sub/old/a.py", "sub/sub/old/b.py", "old/c.py")
    assert found(".") == ["old/c.py", "sub/sub/old/b.py"]
    monkeypatch.chdir(project / "sub")
    assert found(".") == ["sub/old/b.py"]


def test_gitignore(project: Path) -> None:
    write(
        project,
        {".gitignore": "*_gen.py\n/out/\n", "a/.gitignore": "!keep_gen.py\nlocal.py\n"},
    )
    make(
        project,
        "x_gen.py",
        "out/a.py",
        "a/keep_gen.py",
        "a/drop_gen.py",
        "a/local.py",
        "local.py",
        "a/out/a.py",
    )
    assert found(".") == ["a/keep_gen.py", "a/out/a.py", "local.py"]
    assert found("a") == ["a/keep_gen.py", "a/out/a.py"]
    assert len(found(".", overrides=Overrides(respect_gitignore=False))) == 7


def test_gitignore_above_the_repository_does_not_count(project: Path) -> None:
    write(project, {".gitignore": "*.py\n", "inner/.git/HEAD": "", "inner/a.py": ""})
    assert found("inner") == ["inner/a.py"]


def test_gitignore_without_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"a/.gitignore": "b.py\n"})
    make(tmp_path, "a/b.py", "a/c.py")
    assert found(".") == ["a/c.py"]


def test_symbolic_links(project: Path) -> None:
    make(project, "a/b.py")
    os.symlink(project / "a", project / "a" / "loop")
    os.symlink(project / "a" / "b.py", project / "link.py")
    os.symlink(project / "nowhere.py", project / "dangling.py")
    assert found(".") == found("link.py", "a/b.py") == ["a/b.py"]
    assert found("link.py") == ["link.py"]
    os.symlink(project / "a", project / "other")
    assert found("other", "link.py") == ["other/b.py"]


def test_a_directory_that_looks_like_a_file(project: Path) -> None:
    make(project, "odd.py/a.py")
    assert found(".") == ["odd.py/a.py"]


def test_what_is_missing_is_a_problem(project: Path) -> None:
    make(project, "a.py")
    targets, problems = discover(["nowhere", "a.py", "b.ipynb"], Configuration())
    assert [target.name for target in targets] == ["a.py"]
    assert [(p.filename, p.message, p.error) for p in problems] == [
        ("nowhere", "no such file or directory", True),
        ("b.ipynb", "no such file or directory", True),
    ]


def test_notebooks(project: Path) -> None:
    make(project, "a.ipynb", "b.IPYNB", "c.py", "a/.ipynb_checkpoints/a-checkpoint.ipynb", "a/b.ipynb")
    assert found(".") == ["a/b.ipynb", "a.ipynb", "c.py"]
    assert found("a.ipynb", "a") == ["a/b.ipynb", "a.ipynb"]


def test_an_unreadable_directory_is_a_problem(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(project, "a.py", "locked/b.py")
    scandir = os.scandir

    def refuse(path: Path) -> object:
        if path == project / "locked":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    targets, problems = discover(["."], Configuration())
    assert [target.name for target in targets] == ["a.py"]
    assert [(p.filename, p.message) for p in problems] == [("locked", "cannot read the directory: Permission denied")]


def test_files_outside_the_working_directory_keep_their_whole_path(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(project, "a.py", "sub/b.py")
    monkeypatch.chdir(project / "sub")
    assert found("..") == [(project / "a.py").as_posix(), "b.py"]
