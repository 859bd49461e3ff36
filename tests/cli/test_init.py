"""``wherelint init``: it adds to what is there, and takes nothing away."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Run, write

from wherelint.io.config import tomllib

HOOKS = ".pre-commit-config.yaml"
NEXT = (
    "Next: run wherelint check. To accept old findings, run wherelint check --write-baseline known.json.\n"
    "Then: run pre-commit install, so that git runs the hook.\n"
)


def test_of_a_project_with_nothing(run: Run, project: Path) -> None:
    assert run("init") == (0, f"pyproject.toml: written\n{HOOKS}: written\n{NEXT}", "")
    assert tomllib.loads((project / "pyproject.toml").read_text()) == {"tool": {"wherelint": {}}}
    assert (project / HOOKS).read_text().startswith("repos:\n- repo: local\n  hooks:\n    - id: wherelint\n")
    left = "pyproject.toml: left unchanged, it already has [tool.wherelint]\n"
    assert run("init") == (
        0,
        f"{left}{HOOKS}: left unchanged, it already runs wherelint\nThere is nothing to do.\n",
        "",
    )
    (project / HOOKS).write_text("repos: []\n")
    assert run("init")[1].startswith(
        f"{left}{HOOKS}: left unchanged; to run wherelint before each commit, add this hook:\n"
    )


def test_every_key_that_is_shown_is_one(run: Run, project: Path) -> None:
    run("init")
    text = (project / "pyproject.toml").read_text()
    shown = [line.removeprefix("# ") for line in text.splitlines() if " = " in line]
    assert len(shown) == 6
    (project / "pyproject.toml").write_text("\n".join(["[tool.wherelint]", *shown]))
    write(project, {"a.py": ""})
    assert run("check", "--write-baseline", "known.json")[0] == 0
    assert run("check")[0] == 0


def test_of_a_project_with_both(run: Run, project: Path) -> None:
    write(project, {"pyproject.toml": '[project]\nname = "a"', HOOKS: "repos: []\n"})
    status, output, _ = run("init")
    assert status == 0
    assert output.startswith(
        f"pyproject.toml: extended\n{HOOKS}: left unchanged; to run wherelint before each commit, add "
        "this hook:\n\n- repo: local"
    )
    assert (project / HOOKS).read_text() == "repos: []\n"
    assert tomllib.loads((project / "pyproject.toml").read_text()) == {
        "project": {"name": "a"},
        "tool": {"wherelint": {}},
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"[tool", "not valid TOML"), (b"\xff", "not valid TOML"), (b"[tool]\nwherelint = 3\n", "must be a table")],
)
def test_a_configuration_that_cannot_be_read(run: Run, project: Path, content: bytes, message: str) -> None:
    (project / "pyproject.toml").write_bytes(content)
    status, output, errors = run("init")
    assert (status, output) == (2, "")
    assert not (project / HOOKS).exists()
    assert message in errors
    assert len(errors.splitlines()) == 1
    assert (project / "pyproject.toml").read_bytes() == content


@pytest.mark.parametrize(
    ("ruff", "added"),
    [
        ("[tool.ruff]\nline-length = 100\n", True),
        ('[tool.ruff]\nline-length = 100\n\n[tool.ruff.lint]  # ours\nselect = ["E"]\n', True),
        ('[tool.ruff.lint]\nexternal = ["V1"]\n', False),
        ('[tool.ruff]\nlint.select = ["E"]\n', False),
        ('[tool.ruff.lint]\nexternal = ["WL"]\n', None),
        ("[tool.other]\n", None),
    ],
)
def test_ruff_keeps_the_comments(run: Run, project: Path, ruff: str, added: bool | None) -> None:
    write(project, {"pyproject.toml": ruff})
    before = tomllib.loads(ruff)
    status, output, _ = run("init")
    after = tomllib.loads((project / "pyproject.toml").read_text())
    assert status == 0
    assert ('added external = ["WL"]' in output, 'add "WL" to lint.external' in output) == (
        added is True,
        added is False,
    )
    if added:
        assert after["tool"]["ruff"]["lint"].pop("external") == ["WL"]
        assert after["tool"]["ruff"].pop("lint") == before["tool"]["ruff"].pop("lint", {})
    assert after["tool"].pop("wherelint") == {}
    assert after == before


def test_a_file_of_ruffs_own_is_left_alone(run: Run, project: Path) -> None:
    write(project, {"ruff.toml": "line-length = 100\n"})
    assert 'ruff.toml: write external = ["WL"] below [lint]' in run("init")[1]
    assert (project / "ruff.toml").read_text() == "line-length = 100\n"
