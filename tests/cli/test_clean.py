"""``wherelint clean`` removes what wherelint wrote, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import SAFE, UNSAFE, Run, write

KEY = "0" * 64
LEFT = ".wherelint-0123456789abcdef.tmp"


def test_what_is_kept_is_removed(run: Run, project: Path) -> None:
    write(project, {"a.py": SAFE})
    run("check")
    write(project, {f".wherelint_cache/{name}": "" for name in (f"confirm/{KEY}.json", f"check/{LEFT}")})
    status, output, errors = run("clean")
    assert (status, output, errors) == (0, ".wherelint_cache: 5 files (0.0 MB) removed.\n", "")
    assert not (project / ".wherelint_cache").exists()
    assert (project / "a.py").exists()


def test_there_may_be_nothing(run: Run, project: Path) -> None:
    assert run("clean") == (0, ".wherelint_cache: nothing to remove.\n", "")
    write(project, {".wherelint_cache": ""})
    assert run("clean") == (0, ".wherelint_cache: nothing to remove.\n", "")


def test_other_files_stay(run: Run, project: Path) -> None:
    others = {
        "kept/.gitignore": "*\n",
        "kept/a.py": SAFE,
        "kept/check/wherelint.json": "",
        "kept/check/mine.jsonl": "",
        "kept/confirm/0.json": "",
        "kept/confirm/sub/wherelint.jsonl": "",
    }
    write(project, others)
    assert run("clean", "--cache-dir", "kept") == (
        0,
        "kept: nothing to remove; other files in it stay.\n",
        "",
    )
    run("check", "--cache-dir", "kept", "kept/a.py")
    assert run("clean", "--cache-dir", "kept") == (
        0,
        "kept: 1 file (0.0 MB) removed; other files in it stay.\n",
        "",
    )
    assert sorted(str(path.relative_to(project)) for path in project.glob("kept/**/*") if path.is_file()) == sorted(
        others
    )


def test_links_are_not_followed(run: Run, project: Path) -> None:
    write(project, {"elsewhere/wherelint.jsonl": "", "kept/check/a": ""})
    (project / "kept" / "confirm").symlink_to(project / "elsewhere")
    (project / "kept" / "check" / "wherelint.jsonl").symlink_to(project / "elsewhere" / "wherelint.jsonl")
    assert run("clean", "--cache-dir", "kept")[1].startswith("kept: 1 file (0.0 MB) removed;")
    assert (project / "elsewhere" / "wherelint.jsonl").exists()
    assert not (project / "kept" / "check" / "wherelint.jsonl").is_symlink()


def test_what_cannot_be_removed_is_said(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unlink(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    write(project, {"a.py": SAFE})
    run("check")
    monkeypatch.setattr(Path, "unlink", unlink)
    status, output, errors = run("clean")
    assert (status, output) == (2, "")
    assert errors.startswith("error: .wherelint_cache/check/wherelint.jsonl: Permission denied")


@pytest.mark.parametrize("link", [".wherelint_cache", ".wherelint_cache/check"])
def test_no_link_of_the_tree_is_written_through(
    run: Run, project: Path, tmp_path_factory: pytest.TempPathFactory, link: str
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    write(project, {"a.py": UNSAFE})
    (project / link).parent.mkdir(exist_ok=True)
    (project / link).symlink_to(elsewhere)
    assert run("check")[0] == 1
    assert list(elsewhere.iterdir()) == []
    (project / "asked").symlink_to(elsewhere)
    run("check", "--cache-dir", "asked")
    assert (elsewhere / "check" / "wherelint.jsonl").exists()
