"""What lies outside of the project is neither followed nor written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conftest import UNSAFE, write

from wherelint.cli import main

#: A finding only if the helper is read.
CALLER = "import jax.numpy as jnp\n{}\ndef f(x):\n    return jnp.where(x > 0, root(x), 0.0)\n"
HELPER = "import jax.numpy as jnp\ndef root(x):\n    return jnp.sqrt(x)\n"


def findings(path: str, capsys: pytest.CaptureFixture[str]) -> int:
    status = main(["check", "--no-cache", path])
    assert capsys.readouterr().err == ""
    return status


@pytest.mark.parametrize("mark", [".git/HEAD", "pyproject.toml", ""])
def test_a_project_ends_at_its_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], mark: str
) -> None:
    monkeypatch.chdir(tmp_path)
    caller = CALLER.format("from ....outside import root")
    write(tmp_path, {"above/__init__.py": "", "above/outside.py": HELPER, "above/repo/__init__.py": ""})
    write(tmp_path, {"above/repo/pack/__init__.py": "", "above/repo/pack/sub/__init__.py": ""})
    write(tmp_path, {"above/repo/pack/sub/a.py": caller, "above/repo/inside.py": HELPER})
    write(tmp_path, {"above/repo/pack/sub/b.py": CALLER.format("from ...inside import root")})
    if mark:
        write(tmp_path, {f"above/repo/{mark}": ""})
    assert findings("above/repo/pack/sub/a.py", capsys) == (0 if mark else 1)
    assert findings("above/repo/pack/sub/b.py", capsys) == 1


@pytest.mark.parametrize(("target", "status"), [("outside.py", 0), ("project/lib/real.py", 1)])
def test_links_are_followed_inside_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], target: str, status: int
) -> None:
    write(tmp_path, {"project/.git/HEAD": "", "project/a.py": CALLER.format("from helper import root")})
    write(tmp_path, {"outside.py": HELPER, "project/lib/real.py": HELPER})
    os.symlink(tmp_path / target, tmp_path / "project/helper.py")
    monkeypatch.chdir(tmp_path / "project")
    assert findings("a.py", capsys) == status


@pytest.mark.parametrize("paths", [["."], ["link.py"], ["sub/../link.py"]], ids=str)
@pytest.mark.parametrize("option", ["--fix", "--add-noqa"])
def test_a_link_that_leads_out_is_not_written_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str, paths: list[str]
) -> None:
    write(tmp_path, {"project/.git/HEAD": "", "project/sub/a.py": "", "outside.py": UNSAFE, "project/real.py": UNSAFE})
    os.symlink(tmp_path / "outside.py", tmp_path / "project/sub/other.py")
    os.symlink("sub/other.py", tmp_path / "project/link.py")
    os.symlink("../real.py", tmp_path / "project/sub/inside.py")
    os.symlink(tmp_path / "project", tmp_path / "way")
    monkeypatch.chdir(tmp_path / "way")
    assert main(["check", "--no-cache", option, *paths]) == 2
    error = "error: link.py: not written: it is a link to a file outside the project\n"
    assert error in capsys.readouterr().err
    assert (tmp_path / "outside.py").read_text() == UNSAFE
    assert ((tmp_path / "project/real.py").read_text() == UNSAFE) == (paths != ["."])
    main(["check", "--no-cache", option, str(tmp_path / "way/sub/inside.py")])
    assert (tmp_path / "project/real.py").read_text() != UNSAFE
