"""What is printed of a notebook: cells and the rows in them, never the rows of the program that they make."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import write

from wherelint.cli import main

CELLS = [
    ["import jax.numpy as jnp\n", "%matplotlib inline"],
    ["def f(x):\n", "    y = jnp.sqrt(x)\n", "    return jnp.where(x > 0, y, 0.0)"],
]
BROKEN = [*CELLS, ["def g(:\n"]]


def notebook(cells: list[list[str]]) -> str:
    made = [{"cell_type": "markdown", "metadata": {}, "source": ["# A title"]}]
    made += [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": lines}
        for lines in cells
    ]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


@pytest.fixture
def wherelint(project: Path, capsys: pytest.CaptureFixture[str]):
    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    write(project, {"a.ipynb": notebook(BROKEN)})
    return run


def test_text(wherelint) -> None:
    status, output, errors = wherelint("check")
    assert status == 1
    assert output.startswith(
        "a.ipynb:cell 3:2:9: error: WL101 unmasked-sqrt\n"
        "  |\n2 |     y = jnp.sqrt(x)\n  |         ^^^^^^^^^^^\n"
        "3 |     return jnp.where(x > 0, y, 0.0)\n  |            ------------------------ the where\n"
    )
    assert "+    y = jnp.sqrt(jnp.where(x > 0, x, 1.0))\n" in output
    assert errors.startswith("warning: a.ipynb:cell 4:1:7: does not parse as Python")
    assert wherelint("check", "-q", "--output-format", "concise")[1].startswith("a.ipynb:cell 3:2:9: error: WL101 ")


def test_json(wherelint) -> None:
    finding, problem = json.loads(wherelint("check", "--output-format", "json")[1])
    assert (problem["code"], problem["filename"]) == (None, "a.ipynb")
    assert problem["location"] == {"cell": 4, "row": 1, "column": 7}
    assert finding["cell"] == 3
    assert finding["location"] == {"cell": 3, "row": 2, "column": 9}
    assert finding["select"]["location"] == {"cell": 3, "row": 3, "column": 12}
    assert finding["noqa_row"] == 2
    assert {edit["location"]["cell"] for edit in finding["fix"]["edits"]} == {3}


def test_formats_that_know_no_cells(wherelint) -> None:
    (issue, problem) = json.loads(wherelint("check", "--output-format", "gitlab")[1])
    assert issue["location"]["positions"]["begin"] == {"line": 1, "column": 1}
    assert issue["description"].startswith("WL101 cell 3:2:9: gradient is nan for sqrt")
    assert problem["description"].startswith("cell 4:1:7: does not parse")
    assert ",line=1,col=1," in wherelint("check", "--output-format", "github")[1]
    (result,) = json.loads(wherelint("check", "--output-format", "sarif")[1])["runs"][0]["results"]
    assert "fixes" not in result


def test_repro(wherelint) -> None:
    status, output, _ = wherelint("repro", "a.ipynb:cell 3:2")
    assert status == 0
    assert "# WL101 unmasked-sqrt in f, a.ipynb:cell 3:2\n" in output
    assert wherelint("repro", "a.ipynb:2")[1] == output
    assert wherelint("repro", "a.ipynb:cell 2:2")[2].endswith(
        "no finding at a.ipynb:cell 2:2: there is one at cell 3:2\n"
    )


def test_a_module_beside_a_notebook_of_its_name(wherelint, project: Path) -> None:
    """The notebook imports the module, not itself."""
    helper = "import jax.numpy as jnp\n\n\ndef root(x):\n    return jnp.sqrt(x)\n"
    cells = [
        ["import jax.numpy as jnp\n", "from model import root"],
        ["def f(x):\n", "    return jnp.where(x > 0, root(x), 0.0)"],
    ]
    write(project, {"model.py": helper, "model.ipynb": notebook(cells)})
    assert wherelint("check", "-q", "--output-format", "concise", "model.ipynb")[1].startswith("model.ipynb:cell 3:2:")
