"""No module that lies in the working directory is imported, whatever it is called, by any process of a run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from conftest import UNSAFE, environment, write
from test_side_effects import session

ROOT = Path(__file__).parents[2]
#: What a planted module does: it says that it was imported.
MARKER = "open({!r} + __name__, 'w').close()\n"
HOOK = re.search(r"entry: (.*)", (ROOT / ".pre-commit-hooks.yaml").read_text())
RUNS = [
    "check -j2 a.py b.py",
    "check -j2 --fix a.py b.py",
    "check --output-format json .",
    "check --confirm a.py",
    "repro a.py:5",
    "server",
    "clean",
    f"{HOOK[1] if HOOK else ''} a.py b.py".removeprefix("wherelint "),
]
#: What pip writes as the command.
COMMAND = "import sys\nfrom {} import {}\nsys.exit({}())\n"


def by_the_interpreter() -> set[str]:
    """The modules that Python imports before any line of a program, for ``-m`` too: nobody can keep it from that."""
    listing = "import runpy, sys; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-I", "-c", listing], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in ran.stdout.split()} | {"sitecustomize", "usercustomize"}


@pytest.fixture
def planted(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project, with a module for every name of the standard library and of what is installed; and the markers."""
    markers = tmp_path_factory.mktemp("markers")
    names = {*sys.stdlib_module_names, *packages_distributions(), "sitecustomize", "usercustomize"} - {"wherelint"}
    marker = MARKER.format(f"{markers}{os.sep}")
    write(project, {f"{name}.py": marker for name in names if name.isidentifier()})
    write(project, {"a.py": UNSAFE, "b.py": UNSAFE, "pyproject.toml": "[tool.wherelint]\nexclude = ['a*']\n"})
    return markers


def run(project: Path, command: list[str], path: str, arguments: str) -> subprocess.CompletedProcess[str]:
    known = {**environment(measured=False), "PYTHONPATH": path}
    return subprocess.run(
        [*command, *arguments.split()], env=known, input=session(project, UNSAFE), capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.rotated(4)
@pytest.mark.parametrize("way", ["command", "module", "open path"])
@pytest.mark.parametrize("arguments", RUNS)
def test_nothing_of_the_working_directory_is_imported(
    project: Path, planted: Path, tmp_path_factory: pytest.TempPathFactory, arguments: str, way: str
) -> None:
    if "--confirm" in arguments:
        pytest.importorskip("jax")
    if arguments == "server":
        pytest.importorskip("pygls")
    entry = re.search(r'^wherelint = "(.*):(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert entry
    script = tmp_path_factory.mktemp("bin") / "wherelint"
    script.write_text(COMMAND.format(entry[1], entry[2], entry[2]))
    if way != "command":
        for name in by_the_interpreter():
            (project / f"{name}.py").unlink(missing_ok=True)
    if way == "open path":  # an empty entry is the working directory, and "sub" is below it
        (project / "sub").mkdir()
        for file in [*project.glob("*.py")]:
            (project / "sub" / file.name).write_bytes(file.read_bytes())
    path = f"{'sub' + os.pathsep + os.pathsep if way == 'open path' else ''}{ROOT}"
    ran = run(project, [sys.executable, *(["-m", "wherelint"] if way == "module" else [str(script)])], path, arguments)
    assert os.listdir(planted) == [], ran.stderr
    assert ran.returncode in (0, 1), ran.stderr
    if arguments == "server":
        assert '"result"' in ran.stdout
    if "--confirm" in arguments:
        assert "confirmed: jax" in ran.stdout, ran.stdout + ran.stderr


def test_what_is_planted_is_seen(project: Path, planted: Path) -> None:
    """The test above can fail: a process that looks in the working directory leaves marks."""
    run(project, [sys.executable, "-c", "import multiprocessing, numpy"], "", "")
    assert os.listdir(planted)


def test_what_is_trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from wherelint.isolated import HOME, trusted

    (tmp_path / "here").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", "sub", "..", "/elsewhere"]))
    here = [str(tmp_path / "here"), str(tmp_path / "here/sub"), str(tmp_path), str(tmp_path / "link"), "", "sub"]
    assert trusted([*here, "/elsewhere", HOME, "/usr/lib"]) == ["/elsewhere", HOME, "/usr/lib"]
    monkeypatch.chdir(HOME)
    assert trusted([HOME, "/usr/lib"]) == [HOME, "/usr/lib"]
