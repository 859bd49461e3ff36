"""No text of a stranger's reaches a terminal, or the runner of a CI service, as a command to it."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import environment, write

from wherelint.cli import STYLES, main

#: What a terminal obeys: a title, a colour, a deletion, the C1 form of one, a line that turns round.
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\x7f"
COMMAND = "\n::error title=owned::owned"
NAME = f"a{EVIL}{COMMAND}.py"
SOURCE = f"""\
import jax.numpy as jnp
def f(x):
    return jnp.where(x > 0, jnp.sqrt(x), 0.0)  # {EVIL}
def g(d):
    return jnp.where(d["{EVIL} ::error::owned {" ::error::owned" * 20}"] > 0, jnp.sqrt(d["{EVIL} ::error::owned {" ::error::owned" * 20}"]), 0.0)
def f{"x" * 200}(x): # noqa
    return x
"""  # noqa: E501
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


#: The link of a rule on a terminal.
LINK = re.compile(r"\x1b\]8;(id=\d+;https://wherelint\.readthedocs\.io/[\w./]+|;)\x1b\\")


def harmless(text: str) -> bool:
    text = LINK.sub("", text)
    return not OBEYED.search(text) and not re.search(r"^\s*::(?!(error|warning) file=)", text, re.MULTILINE)


OPTIONS = [
    *(["--output-format", style] for style in STYLES),
    ["--fix", "--show-fixes"],
    ["--add-noqa", "--show-fixes"],
    ["--statistics"],
    ["--show-files"],
    ["--show-settings"],
    ["--color", "always"],
    ["--level", "note"],
]


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_what_is_printed_is_harmless(
    project: Path, capfd: pytest.CaptureFixture[str], options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / NAME[:3]).mkdir()
    monkeypatch.chdir(project / NAME[:3])
    broken = f"import jax\ndef f(:  # {EVIL}\n"
    write(Path.cwd(), {NAME: SOURCE, f"b{NAME}": broken, "ok.py": SOURCE, f"{NAME[:-3]}.ipynb": "{}"})
    main(["check", "--no-cache", *options])
    output, errors = capfd.readouterr()
    if "always" in options:  # these escapes are ours
        output = re.sub("\x1b\\[[0-9;]*m", "", output)
    assert output
    assert harmless(output), OBEYED.findall(output)
    assert harmless(errors), errors
    assert len(errors.splitlines()) <= 6
    if options[-1] == "github":
        assert all(line.startswith(("::error file=", "::warning file=")) for line in output.splitlines())
    if options[-1] in ("json", "sarif", "gitlab"):
        json.loads(output)


def test_a_terminal_shows_a_harmless_patch_and_a_file_gets_an_exact_one(project: Path) -> None:
    write(project, {"a.py": SOURCE})
    command = [sys.executable, "-m", "wherelint", "check", "--no-cache", "--diff", "a.py"]
    ran = subprocess.run(command, env=environment(), capture_output=True, check=False)
    assert EVIL.encode() in ran.stdout
    master, slave = pty.openpty()
    subprocess.run(command, env={**environment(), "NO_COLOR": "1"}, stdout=slave, stderr=subprocess.PIPE, check=False)
    os.close(slave)
    shown = os.read(master, 1 << 16).decode().replace("\r\n", "\n")
    os.close(master)
    assert r"\x1b]0;owned\x07" in shown
    assert not OBEYED.search(shown)


@pytest.mark.parametrize("what", ["key", "value", "file"])
def test_errors_of_a_configuration_are_harmless(project: Path, capfd: pytest.CaptureFixture[str], what: str) -> None:
    name = f"c{EVIL}{COMMAND}.toml" if what == "file" else "c.toml"
    evil = json.dumps(EVIL + COMMAND)
    write(project, {name: f"{evil} = 1\n" if what == "key" else f"select = [{evil}]\n", "a.py": ""})
    assert main(["check", "--config", name]) == 2
    output, errors = capfd.readouterr()
    assert output == ""
    assert errors.startswith("error: c")
    assert harmless(errors), errors
    assert errors.count("\n") == 1


def test_a_script_is_one_whatever_the_file_is_called(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(project, {NAME: SOURCE})
    assert main(["repro", f"{NAME}:3"]) == 0
    output, _ = capfd.readouterr()
    assert "::error" not in re.sub("(?m)^#.*", "", output)
    assert not OBEYED.search(output)
