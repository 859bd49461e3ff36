"""``wherelint debug FILE:ROW``: what each stage of a check made of a row."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import Run, write

from wherelint import docs
from wherelint.cli import main

ROOT = Path(__file__).parents[2]
PROGRAM = """\
import jax.numpy as jnp


def norm(x):
    return jnp.sqrt(jnp.sum(x * x))


def f(x, y, n):
    '''Each kind of row.'''
    safe = jnp.where(x > 0, jnp.log(jnp.where(x > 0, x, 1.0)), 0.0)
    r = jnp.sum(jnp.abs(x - y))
    bad = jnp.where(r > 0, 1 / r, 0.0)
    kink = jnp.where(x > 0, x, -x)
    far = jnp.where(n > 3, y / (x - 1), 0.0)
    quiet = jnp.where(y > 0, jnp.sqrt(y), 0.0)  # noqa: WL101
    return safe + bad + kink + far + quiet


def g(x):
    return jnp.where(x > 0, 1 / x, 0.0) + 1 / x


def h(ok, m):
    return jnp.where(ok, jnp.linalg.inv(m), 0.0)
"""


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (5, ["program   `norm`: ", "search    this row has no selection, and no selection reads its results"]),
        (9, ["program   no searched function computes anything in this row", "finding   none"]),
        (
            10,
            [
                "%3 = where(%2, x, 1.0)",
                "no hazard: at 116 the gradient is finite",
                "in this row; this function has some at 12:11",
            ],
        ),
        (
            12,
            [
                "source    a.py, row 12: bad = jnp.where(r > 0, 1 / r, 0.0)",
                "module    jax",
                "          %3 = sum(%2)                                11:9",
                "        > %5 = divide(1.0, %3)                        12:28   singular with a zero divisor",
                "        > %6 = where(%4, %5, 0.0)                     12:11   selects (where)",
                "search    the where at 12:11, with the derivatives of jax",
                "inputs that the condition reads: x, y",
                "hazard    divide at 12:28: at x = 0.0, y = 0.0 the value is 0.0, the gradient x: nan, y: nan",
                "finding   WL103 unmasked-division at 12:28: ",
                ": warning; shown",
                "fix       safe: mask the operand",
                "          +    bad = jnp.where(r > 0, 1 / jnp.where(r > 0, r, 1.0), 0.0)",
            ],
        ),
        (13, ["this row reads x (float)\n", "no hazard: it reads no singular operation", "finding   none"]),
        (14, ["finding   WL103", ": note; not shown: the level is warning"]),
        (15, ["finding   WL101", ": error; not shown: a comment silences it"]),
        (20, ["no hazard: at 106 the gradient is finite; at 10 the whole function is not finite"]),
        (24, ["finding   WL110", "fix       no fix is offered: a number cannot replace a matrix"]),
    ],
)
def test_a_row(wherelint: Run, project: Path, row: int, said: list[str]) -> None:
    write(project, {"a.py": PROGRAM})
    status, output, errors = wherelint("debug", f"a.py:{row}", "--isolated")
    assert (status, errors) == (0, "")
    places = [output.find(each) for each in said]
    assert -1 not in places, output
    assert places == sorted(places)


def test_evidence_has_weights_that_make_the_score(wherelint: Run, project: Path) -> None:
    write(project, {"a.py": PROGRAM})
    output = wherelint("debug", "a.py:14", "--isolated")[1]
    weights = [float(weight) for weight in re.findall(r"^evidence +([+-]\d+\.\d+)  \w", output, re.MULTILINE)]
    assert weights
    assert sum(weights) < 0
    assert re.search(r"^score     0\.\d\d: note;", output, re.MULTILINE)


def test_the_settings_count(wherelint: Run, project: Path) -> None:
    write(project, {"a.py": PROGRAM, "pyproject.toml": "[tool.wherelint]\nignore = ['WL103']\nlevel = 'note'\n"})
    assert "not shown: the rule is off" in wherelint("debug", "a.py:12")[1]
    assert ": note; shown" in wherelint("debug", "a.py:14", "--config", str(_low(project)))[1]


def _low(project: Path) -> Path:
    path = project / "low.toml"
    path.write_text("level = 'note'\n")
    return path


def test_a_long_graph_is_cut(wherelint: Run, project: Path) -> None:
    program = "import jax.numpy as jnp\ndef f(x):\n" + "    x = -x\n" * 50
    write(project, {"a.py": f"{program}    return jnp.where(x > 0, jnp.sqrt(x), 0.0)\n"})
    output = wherelint("debug", "a.py:53", "--isolated")[1]
    assert "... 13 operations before these" in output
    assert len(output.splitlines()) < 70
    assert "finding   WL101" in output


def test_a_file_that_is_not_searched(wherelint: Run, project: Path) -> None:
    write(project, {"a.py": "import os\n\nprint(os.sep)\n"})
    assert wherelint("debug", "a.py:3")[1].splitlines()[1:] == ["module    not searched: no framework (explain limits)"]


def test_a_cell_of_a_notebook(wherelint: Run, project: Path) -> None:
    cells = ["import jax.numpy as jnp\n", "def f(x):\n    return jnp.where(x > 0, jnp.sqrt(x), 0.0)\n"]
    made = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": each} for each in cells
    ]
    write(project, {"a.ipynb": json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": made})})
    assert "hazard    sqrt at " in wherelint("debug", "a.ipynb:cell 2:2", "--isolated")[1]
    assert wherelint("debug", "a.ipynb:cell 3:2", "--isolated")[0] == 2


@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("a.py", "error: 'a.py' is not of the form PATH:ROW, for example model.py:12\n"),
        ("a.py:999", "error: a.py:999: the file has no such row\n"),
        ("gone.py:1", "error: gone.py: No such file or directory\n"),
        ("broken.py:1", "error: broken.py: does not parse: "),
    ],
)
def test_what_is_no_place(wherelint: Run, project: Path, place: str, error: str) -> None:
    write(project, {"a.py": PROGRAM, "broken.py": "import jax\ndef f(:\n"})
    status, output, errors = wherelint("debug", place)
    assert (status, output) == (2, "")
    assert error in errors


def test_nothing_is_executed(wherelint: Run, project: Path) -> None:
    write(project, {"a.py": PROGRAM + "\nopen('executed', 'w')\n"})
    wherelint("debug", "a.py:12")
    assert not (project / "executed").exists()


def test_the_page_shows_the_output(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    page = docs.page("debug")
    shown = re.search(r"\$ wherelint (debug \S+)\n(.*?)(?=```)", page, re.DOTALL)
    assert shown is not None
    assert main([*shown[1].split(), "--isolated"]) == 0
    output = capsys.readouterr().out
    if request.config.getoption("--regenerate"):
        page = page.replace(shown[0], f"$ wherelint {shown[1]}\n{output}")
        docs.path("debug").write_text(page, encoding="utf-8")
    else:
        assert output == shown[2]
