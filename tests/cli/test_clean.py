"""``wherelint clean`` removes what wherelint wrote, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import SAFE, UNSAFE, Run, write


def test_what_is_kept_is_removed(run: Run, project: Path) -> None:
    write(project, {"a.py": SAFE})
    run("check")
    assert run("clean") == (0, ".wherelint_cache: 0.0 MB removed.\n", "")
    assert not (project / ".wherelint_cache").exists()
    assert (project / "a.py").exists()


def test_another_directory_stays(run: Run, project: Path) -> None:
    assert run("clean") == (0, ".wherelint_cache: there is no cache of wherelint.\n", "")
    write(project, {"mine/.gitignore": "*\n", "mine/a.py": SAFE})
    run("check", "--cache-dir", "mine", "mine/a.py")
    assert run("clean", "--cache-dir", "mine") == (0, "mine: there is no cache of wherelint.\n", "")
    assert (project / "mine" / "a.py").exists()


def test_a_link_is_not_followed(run: Run, project: Path) -> None:
    write(project, {"a.py": SAFE})
    run("check")
    (project / "link").symlink_to(".wherelint_cache")
    assert run("clean", "--cache-dir", "link")[0] == 0
    assert (project / ".wherelint_cache" / "CACHEDIR.TAG").exists()


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
