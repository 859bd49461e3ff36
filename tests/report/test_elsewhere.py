"""Every format says where an operation stands that is written in another file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import write
from jsonschema import Draft4Validator

from wherelint.cli import main

OTHER = "import jax.numpy as jnp\n\n\ndef root(x):\n    return jnp.sqrt(x)\n"
MAIN = "import jax.numpy as jnp\nfrom .other import root\n\n\ndef f(x):\n    return jnp.where(x > 0, root(x), 0.0)\n"


@pytest.fixture
def package(project: Path) -> Path:
    write(project, {"pack/__init__.py": "", "pack/other.py": OTHER, "pack/main.py": MAIN})
    return project


def output(capsys: pytest.CaptureFixture[str], style: str, *options: str) -> str:
    assert main(["check", "pack/main.py", "--output-format", style, *options]) == 1
    return capsys.readouterr().out


@pytest.mark.parametrize("style", ["concise", "github", "gitlab", "junit", "json", "json-lines", "sarif", "full"])
def test_the_message_names_the_place(package: Path, capsys: pytest.CaptureFixture[str], style: str) -> None:
    assert "the sqrt is at pack/other.py:5" in " ".join(output(capsys, style).split())


def test_the_frame_of_the_other_file(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):  # the second from the cache
        assert output(capsys, "full").splitlines()[:8] == [
            "pack/main.py:6:29: error: WL101 unmasked-sqrt",
            "  |",
            "6 |     return jnp.where(x > 0, root(x), 0.0)",
            "  |            -----------------^^^^^^^------",
            "pack/other.py:5:12: the sqrt",
            "  |",
            "5 |     return jnp.sqrt(x)",
            "  |            ^^^^^^^^^^^",
        ]


def test_json_has_the_place_with_the_keys_of_a_finding(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (finding,) = json.loads(output(capsys, "json"))
    location, end = {"row": 5, "column": 12}, {"row": 5, "column": 23}
    place: dict[str, Any] = {"location": location, "end_location": end, "message": "the sqrt"}
    assert finding["related"] == [{"kind": None, "code": None, "filename": "pack/other.py", **place}]


def test_sarif_relates_the_place(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = json.loads(output(capsys, "sarif"))
    Draft4Validator(json.loads((Path(__file__).parent / "sarif-2.1.0.json").read_text("utf-8"))).validate(log)
    selection, operation = log["runs"][0]["results"][0]["relatedLocations"]
    assert (selection["id"], operation["id"], operation["message"]["text"]) == (1, 2, "the sqrt")
    assert operation["physicalLocation"]["artifactLocation"]["uri"] == "pack/other.py"
    assert operation["physicalLocation"]["region"]["startLine"] == 5


def test_a_comment_and_a_baseline_silence_it(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "pack/main.py", "--write-baseline", "known.json"]) == 0
    assert main(["check", "pack/main.py", "--baseline", "known.json"]) == 0
    write(package, {"pack/main.py": MAIN.replace("0.0)", "0.0)  # noqa: WL101")})
    assert main(["check", "pack/main.py"]) == 0
