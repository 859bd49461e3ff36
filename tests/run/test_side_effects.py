"""What a run touches: no network, no other program, no code of the files, no files but those named."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from conftest import SAFE, UNSAFE, environment, write

ROOT = Path(__file__).parents[2]
#: Loaded by every process of a run before anything else; workers included.
AUDIT = """
import json, os, sys

log = os.open(os.environ["AUDIT"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
OTHERS = ("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "socket.gethostby", "urllib.",
          "http.", "ftplib.", "smtplib.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork",
          "webbrowser.", "import")
WRITES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod",
          "os.chown", "os.utime", "shutil.", "tempfile.")

def hear(event, arguments):
    said = None
    if event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and not isinstance(arguments[0], int):
        said = ["write", os.path.abspath(os.fsdecode(arguments[0]))]
    elif event.startswith(WRITES):
        paths = [each for each in arguments if isinstance(each, (str, bytes, os.PathLike))]
        said = ["write", *(os.path.abspath(os.fsdecode(path)) for path in paths)]
    elif event == "exec":
        said = ["exec", arguments[0].co_filename]
    elif event.startswith(OTHERS):
        said = [event, str(arguments[0])]
    if said:
        os.write(log, json.dumps(said).encode() + b"\\n")

sys.addaudithook(hear)
"""
CANARY = "import pathlib, helper\npathlib.Path('executed').touch()\n"
FILES = {
    "a.py": CANARY + "import torch, tensorflow\n" + UNSAFE,
    "pack/__init__.py": CANARY,
    "pack/b.py": CANARY + "from pack import c\n" + UNSAFE,
    "pack/c.py": CANARY + SAFE,
    "helper.py": CANARY,
    "broken.py": "import jax\ndef f(:\n",
    "pyproject.toml": "[tool.wherelint]\nselect = ['ALL']\n",
}
FIXED = {"a.py", "pack/b.py"}


class Audit:
    """Runs commands in a project, and tells what they did."""

    def __init__(self, project: Path, outside: Path) -> None:
        self.project = project
        self._log = outside / "log"
        # Children are isolated: only the packages of an environment are found by all of them.
        venv.create(outside / "venv", symlinks=True)
        self.python = str(outside / "venv" / "bin" / "python")
        (packages,) = (outside / "venv" / "lib").glob("*/site-packages")
        paths = "".join(f"{path}\n" for path in sys.path if path.endswith("-packages"))
        write(
            packages, {"audit.py": AUDIT, "real.pth": f"{paths}import audit\n"}
        )  # Debian has a sitecustomize of its own
        self._environment = {
            **environment(measured=False), "AUDIT": str(self._log), "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(outside)
        }  # fmt: skip

    def run(self, *arguments: str, said: str | None = None) -> list[list[str]]:
        """What happened: each an event and what it is about."""
        self._log.write_text("")
        command = [self.python, "-m", "wherelint", *arguments]
        ran = subprocess.run(
            command, cwd=self.project, env=self._environment, input=said or "", capture_output=True, text=True,
            check=False, timeout=100,
        )  # fmt: skip
        assert "Traceback" not in ran.stderr, ran.stderr
        events = [json.loads(line) for line in self._log.read_text().splitlines()]
        assert ["import", "wherelint.cli"] in events, ran.stderr  # it was heard
        return events

    def written(self, events: list[list[str]]) -> set[str]:
        """The paths that were made, changed or removed: those below the project as seen from there."""
        found = {path for event, *paths in events if event == "write" for path in paths} - {os.devnull}
        return {
            os.path.relpath(path, self.project) if Path(path).is_relative_to(self.project) else path
            for path in found
            if ".wherelint-" not in path  # takes the place of another of them
        }


@pytest.fixture
def audit(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Audit:
    write(project, FILES)
    return Audit(project, tmp_path_factory.mktemp("outside"))


CACHE = {f".wherelint_cache{name}" for name in ("", "/.gitignore", "/CACHEDIR.TAG", "/check", "/check/wherelint.jsonl")}
RUNS: list[tuple[tuple[str, ...], set[str]]] = [
    (("check", "--no-cache"), set()),
    (("check", "--no-cache", "-j2"), set()),
    (("check",), CACHE),
    (("check", "--cache-dir", "kept"), {path.replace(".wherelint_cache", "kept") for path in CACHE}),
    (("check", "--no-cache", "--diff"), set()),
    (("check", "--no-cache", "--fix"), FIXED),
    (("check", "--no-cache", "--fix", "-j2", "a.py", "pack/b.py"), FIXED),
    (("check", "--no-cache", "--add-noqa", "a.py"), {"a.py"}),
    (("check", "--no-cache", "-o", "out.txt", "--report", "sarif=a.sarif"), {"out.txt", "a.sarif"}),
    (("check", "--no-cache", "--write-baseline", "known.json"), set()),
    (("check", "-", "--fix"), set()),
    (("check", "--show-settings"), set()),
    (("check", "--show-files"), set()),
    (("repro", "pack/b.py:9"), set()),
    (("explain", "WL101"), set()),
    (("rules",), set()),
    (("clean",), set()),  # nothing is there
    (("server",), set()),
]


def session(project: Path, text: str = FILES["a.py"]) -> str:
    """What an editor says that opens a file."""
    uri = (project / "a.py").as_uri()
    opened = {"textDocument": {"uri": uri, "languageId": "python", "version": 1, "text": text}}
    asked = {"textDocument": {"uri": uri}, "position": {"line": 7, "character": 32}}
    messages = [
        {"id": 1, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}},
        {"method": "initialized", "params": {}},
        {"method": "textDocument/didOpen", "params": opened},
        {"id": 2, "method": "textDocument/hover", "params": asked},
        {"id": 3, "method": "shutdown"},
        {"method": "exit"},
    ]
    texts = [json.dumps({"jsonrpc": "2.0", **message}) for message in messages]
    return "".join(f"Content-Length: {len(text)}\r\n\r\n{text}" for text in texts)


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "written"), RUNS, ids=[" ".join(arguments) for arguments, _ in RUNS])
def test_what_a_run_touches(audit: Audit, arguments: tuple[str, ...], written: set[str]) -> None:
    said = {"-": FILES["a.py"], "server": session(audit.project)}
    events = audit.run(*arguments, said=said.get(next((each for each in arguments if each in said), "")))
    assert audit.written(events) == written
    assert arguments != ("server",) or ["import", "wherelint.frontend.module"] in events  # it had a look
    kinds = {event for event, *_ in events}
    assert kinds - {"subprocess.Popen"} <= {"write", "exec", "import"}, kinds
    started = [about for event, about in (each[:2] for each in events) if event == "subprocess.Popen"]
    assert started == [audit.python] * 2 * ("-j2" in arguments)
    assert (events.count(["import", "wherelint.run.pool"]) > 1) == ("-j2" in arguments)  # the workers were heard, too
    imported = {about.partition(".")[0] for event, about in (each[:2] for each in events) if event == "import"}
    assert not imported & {"jax", "torch", "tensorflow", "keras", "a", "pack", "helper", "executed"}
    executed = {about for event, about in (each[:2] for each in events) if event == "exec"}
    assert not [name for name in executed if name[0] != "<" and Path(name).absolute().is_relative_to(audit.project)]
    assert not (audit.project / "executed").exists()


def test_the_audit_hears(audit: Audit) -> None:
    write(audit.project, {"wherelint/__init__.py": "", "wherelint/cli.py": "import socket\n"})
    write(audit.project, {"wherelint/__main__.py": CANARY.replace(", helper", "") + "import wherelint.cli, subprocess\n"
                          "subprocess.run(['true'])\nwherelint.cli.socket.getaddrinfo('127.0.0.1', 1)\n"})  # fmt: skip
    del audit._environment["PYTHONPATH"]
    events = audit.run()
    assert {"subprocess.Popen", "socket.getaddrinfo"} <= {event for event, *_ in events}
    assert "executed" in audit.written(events)
    assert ["exec", str(audit.project / "wherelint" / "cli.py")] in events


def test_a_pipe_of_an_odd_name_is_not_read(project: Path) -> None:
    """Python opens the file that a text is said to come from to quote what does not parse."""
    for name in ("<unknown>", "<string>"):
        os.mkfifo(project / name)
    write(project, {"a.py": FILES["broken.py"], "n.ipynb": json.dumps(
        {"nbformat": 4, "nbformat_minor": 5, "metadata": {},
         "cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None,
                    "source": "import jax\ndef f(:\n"}]})})  # fmt: skip
    command = [sys.executable, "-m", "wherelint", "check", "--no-cache", "-j1"]
    ran = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=120)
    assert "a.py:2:7: does not parse" in ran.stderr or "a.py:2:1: does not parse" in ran.stderr


def test_the_wheel_holds_the_package_and_nothing_else(tmp_path: Path) -> None:
    hatchling = pytest.importorskip("hatchling.builders.wheel")
    (built,) = hatchling.WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    content = zipfile.ZipFile(io.BytesIO(Path(built).read_bytes()))
    names = content.namelist()
    package = [path for path in (ROOT / "wherelint").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    ours = {path.relative_to(ROOT).as_posix() for path in package}
    (about,) = {name.partition("/")[0] for name in names} - {"wherelint"}
    assert {name for name in names if name.startswith("wherelint/")} == ours
    assert {name.removeprefix(f"{about}/") for name in names} - ours == {
        "METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE",
    }  # fmt: skip
    metadata = content.read(f"{about}/METADATA").decode()
    assert "Requires-Python: >=3.10\n" in metadata
    assert "Requires-Dist: jax>=0.6.0; extra == 'jax'\n" in metadata
    needed = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:") and "extra ==" not in line]
    assert all(">=" in line for line in needed)
    assert len(needed) == 6
