"""`wherelint check` from the file to the findings, with the real detection."""

from __future__ import annotations

import json
import shutil
import warnings
from collections import defaultdict
from pathlib import Path

import pytest
from conftest import SAFE, UNSAFE, write

from wherelint.cli import main
from wherelint.io.config import Settings
from wherelint.io.files import FixMode
from wherelint.run.check import check_source

EXAMPLES = Path(__file__).parents[2] / "examples"
#: What is found in the examples, by file and function; every other function is silent.
FOUND = {
    ("angle.py", "angle"): {"WL105"},
    ("entropy.py", "entropy"): {"WL102"},
    ("gaps.py", "loss"): {"WL111"},
    ("phase_flag.py", "phases"): {"WL105"},
    ("safe_distance.py", "distance"): {"WL101"},
    ("safe_distance.py", "inverse"): {"WL103"},
    ("two_disks.py", "area"): {"WL103", "WL104"},
}


def test_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(EXAMPLES), "--isolated", "--no-cache", "--output-format", "json"]) == 1
    captured = capsys.readouterr()
    assert captured.err == ""
    found = defaultdict(set)
    for finding in json.loads(captured.out):
        also = {place["code"] for place in finding["related"]} - {None}
        found[Path(finding["filename"]).name, finding["function"]] |= {finding["code"], *also}
    assert found == FOUND


def test_modes_of_tensorflow(capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", str(EXAMPLES / "safe_distance.py"), "--isolated", "--no-cache", "--output-format", "json"])
    findings = {finding["function"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert findings["distance"]["modes"] == ["xla"]
    assert findings["distance"]["message"].startswith("under XLA, ")
    assert "xla" in findings["inverse"]["modes"] or findings["inverse"]["modes"] == []
    assert not findings["inverse"]["message"].startswith("under XLA, ")


@pytest.mark.rotated(3)
@pytest.mark.parametrize("output_format", ["full", "concise", "json"])
def test_processes_change_nothing(project: Path, capfd: pytest.CaptureFixture[str], output_format: str) -> None:
    shutil.copytree(EXAMPLES, project / "examples")
    write(project, {"broken.py": "def f(:\n", "a/b.py": UNSAFE, "c.py": SAFE, "low.py": SAFE})
    outputs = []
    for jobs in ("1", "3"):
        arguments = ["--output-format", output_format, "--level", "note", "--no-cache"]
        status = main(["check", ".", "-j", jobs, *arguments])
        outputs.append((status, *capfd.readouterr()))
    assert outputs[0] == outputs[1]
    assert outputs[0][0] == 2


@pytest.mark.parametrize(
    "content",
    [
        b"def f(:\n",
        b"x = (\n",
        b"import jax.numpy as jnp\nx = '\xff'\n",
        b"\0",
        b"  x = 1\n y = 2\n",
        b"print 'two'\n",
    ],
)
def test_what_does_not_parse_is_reported_whatever_the_file_is_about(project: Path, content: bytes) -> None:
    (project / "a.py").write_bytes(content)
    assert main(["check"]) == 2


@pytest.mark.parametrize("mode", ["no", "offer", "safe", "silence"])
def test_python_says_nothing_of_the_escapes_of_a_file(mode: FixMode) -> None:
    text = UNSAFE.replace("0.0)", r'len("\d"))') + 'PATTERN = "\\d"\n'
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        report = check_source(text.encode(), "f.py", Settings(root=Path("/")), mode)
    assert [f.code for f in report.findings or report.fixed] == ["WL101"]
    assert not told


@pytest.mark.parametrize(
    "expression",
    [
        "+".join(["x"] * 3000),
        "(" * 80 + "x" + ")" * 80,
        "x" + ".sum()" * 1500,
        "-" * 2000 + "x",
        "[" * 90 + "x" + "]" * 90,
    ],
    ids=["sum", "parentheses", "chain", "minus", "lists"],
)
def test_deep_nesting_is_no_crash(project: Path, capsys: pytest.CaptureFixture[str], expression: str) -> None:
    unsafe = UNSAFE + f"\n\ndef deep(x):\n    return jnp.where(x > 0, jnp.sqrt({expression}), 0.0)\n"
    write(project, {"a.py": unsafe, "b.py": UNSAFE})
    main(["check", "--output-format", "concise"])
    output, errors = capsys.readouterr()
    assert "b.py:5:29: error: WL101" in output
    assert "internal error" not in errors
    assert "Traceback" not in output + errors
