"""``--confirm`` and its relatives, and ``repro``: what is printed and written, and the exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import UNSAFE, environment, write
from real_gradients import require

from wherelint.cli import main

CLEAN, FINDINGS, FAILED = 0, 1, 2
#: XLA makes a select of the product, eager mode does not.
PRODUCT = "import jax.numpy as jnp\n\n\ndef f(x):\n    return (x > 0) * jnp.sqrt(x)\n"
#: A finding that no run can confirm: nothing becomes nan.
SEVERED = "import jax.numpy as jnp\n\n\ndef f(x):\n    return jnp.round(x) ** 2\n"


@pytest.fixture(autouse=True)
def _jax(asked_once: None) -> None:
    require("jax")


def wherelint(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_a_confirmed_finding(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(project, {"a.py": UNSAFE})
    status, output, errors = wherelint(capsys, "check", "--confirm", "--no-cache")
    assert (status, errors) == (FINDINGS, "")
    words = " ".join(output.split())
    assert "confirmed: jax 0." in words
    assert ", under jit and in eager mode; after the fix the gradient is finite, the value unchanged" in words
    assert output.endswith("Found 1 error (1 fixable with --fix), 1 file checked.\n1 confirmed.\n")
    assert not (project / ".wherelint_cache").exists()


def test_inputs_are_written_as_the_witness_has_them(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = UNSAFE.replace("(x):", "(x, flag: bool):").replace("x > 0", "jnp.logical_and(flag, x > 0)")
    write(project, {"a.py": source})
    _, output, _ = wherelint(capsys, "check", "--confirm", "--no-cache", "--device", "cpu")
    words = " ".join(output.split())
    assert "witness: at x = 0.0 and flag = True the value" in words
    assert "confirmed: jax" in words
    assert words.count("flag = ") == 1  # what is printed already is not repeated


def test_the_modes_disagree(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(project, {"a.py": PRODUCT})
    _, output, _ = wherelint(capsys, "check", "--confirm", "--no-cache", "--device", "cpu")
    assert "on cpu, in eager mode; under jit the gradient is finite" in " ".join(output.split())


def test_json_has_the_confirmation(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(project, {"a.py": UNSAFE})
    status, output, _ = wherelint(
        capsys, "check", "--confirm", "--no-cache", "--output-format", "json", "--device", "cpu"
    )
    assert status == FINDINGS
    (finding,) = json.loads(output)
    confirmation = finding["confirmation"]
    assert confirmation.pop("framework_version").startswith("0.")
    outcome = {"value": 0.0, "gradient": {"x": "nan"}}
    assert confirmation == {
        "verdict": "confirmed",
        "reason": None,
        "device": "cpu",
        "at": {"x": 0.0},
        "modes": {"jit": outcome, "eager": outcome},
        "after_fix": {"value_unchanged": True, "gradient_finite": True},
    }
    _, output, _ = wherelint(capsys, "check", "--output-format", "json")
    assert json.loads(output)[0]["confirmation"] is None


def test_only_what_is_confirmed_counts(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(project, {"a.py": SEVERED, "b.py": UNSAFE})
    arguments = ("check", "--no-cache", "--extend-select", "WL401", "--output-format", "concise")
    status, output, _ = wherelint(capsys, *arguments, "--confirm")
    assert status == FINDINGS
    assert [line.rpartition("(")[2] for line in output.splitlines()[:2]] == ["not run)", "confirmed)"]
    assert output.endswith("1 confirmed, 1 not run.\n")
    status, output, _ = wherelint(capsys, *arguments, "--only-confirmed")
    assert status == FINDINGS
    assert output.startswith("b.py:5:29: error: WL101")
    assert output.endswith("1 confirmed.\n1 unconfirmed finding is hidden.\n")
    status, output, _ = wherelint(capsys, *arguments, "--only-confirmed", "a.py")
    assert (status, output) == (
        CLEAN,
        "No findings, 1 file checked.\n1 unconfirmed finding is hidden.\n",
    )


def test_the_result_does_not_depend_on_processes_or_the_way_in(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(project, {"a.py": UNSAFE, "b.py": PRODUCT})
    one = wherelint(capsys, "check", "--confirm", "--no-cache", "-j1")
    assert wherelint(capsys, "check", "--confirm", "--no-cache", "-j2") == one
    piped = subprocess.run(
        [sys.executable, "-m", "wherelint", "check", "--confirm", "--no-cache", "-", "--stdin-filename", "a.py"],
        cwd=project, env=environment(), input=UNSAFE, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert piped.returncode == FINDINGS
    assert piped.stdout.split("\n\n")[0] == one[1].split("\n\n")[0]


def test_scripts_are_written_and_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(project, {"a.py": UNSAFE, "sub/a.py": PRODUCT})
    status, _, _ = wherelint(capsys, "check", "--repro-dir", "scripts")
    assert status == FINDINGS
    scripts = sorted((project / "scripts").iterdir())
    assert [path.name for path in scripts] == ["a_5_29_WL101.py", "sub_a_5_22_WL202.py"]
    assert wherelint(capsys, "check", "scripts")[0] == CLEAN
    ran = subprocess.run([sys.executable, "-I", str(scripts[0])], capture_output=True, text=True, check=True)
    before, _, after = ran.stdout.partition("after the fix")
    assert before.splitlines() == [
        "before the fix: value 0.0",
        "  jit: gradient with respect to x: nan",
        "  eager: gradient with respect to x: nan",
    ]
    assert "nan" not in after


def test_repro_prints_the_script(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(project, {"a.py": UNSAFE})
    status, output, errors = wherelint(capsys, "repro", "a.py:5")
    assert (status, errors) == (CLEAN, "")
    lines = output.splitlines()
    assert lines[2] == "# WL101 unmasked-sqrt in f, a.py:5"
    start = lines.index("def f(x):")
    before = ["    greater = x > 0.0", "    sqrt = jnp.sqrt(x)", "    where = jnp.where(greater, sqrt, 0.0)"]
    assert lines[start + 1 : start + 5] == [*before, "    return where"]
    assert "    where = jnp.where(greater_2, x, 1.0)" in lines
    assert wherelint(capsys, "repro", "a.py:5:29")[1] == output
    # By the row of the selection, too.
    write(project, {"a.py": UNSAFE.replace("(x > 0, jnp", "(\n        x > 0,\n        jnp")})
    assert wherelint(capsys, "repro", "a.py:5")[1] == output.replace("a.py:5", "a.py:7")


def test_repro_of_one_of_several(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(project, {"a.py": UNSAFE.replace("jnp.sqrt(x)", "jnp.sqrt(x) * jnp.arccosh(x)").replace("> 0", "> 1")})
    status, output, errors = wherelint(capsys, "repro", "a.py:5")
    assert status == CLEAN
    assert output.splitlines()[2] == "# WL104 unmasked-arccos in f, a.py:5"
    assert errors == "other findings there: a.py:5:29\n"
    assert wherelint(capsys, "repro", "a.py:5:29")[1].splitlines()[2] == "# WL101 unmasked-sqrt in f, a.py:5"


def test_repro_of_what_cannot_be_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(project, {"a.py": SEVERED, "pyproject.toml": '[tool.wherelint]\nextend-select = ["WL401"]\n'})
    status, output, errors = wherelint(capsys, "repro", "a.py:5")
    assert (status, output) == (FAILED, "")
    assert errors.startswith("error: no script for WL401 at a.py:5: ")
    assert len(errors.splitlines()) == 1


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("a.py:1", "error: no finding at a.py:1: there is one at 5"),
        ("a.py:5:3", "error: no finding at a.py:5:3: there is one at 5"),
        ("clean.py:1", "error: no finding at clean.py:1: this file has none"),
        ("missing.py:1", "error: missing.py: no such file or directory"),
        ("broken.py:1", "error: broken.py:1:7: does not parse as Python"),
        ("a.py", "error: 'a.py' is not of the form PATH:ROW, for example model.py:12"),
    ],
)
def test_repro_says_what_is_wrong(project: Path, capsys: pytest.CaptureFixture[str], place: str, message: str) -> None:
    write(project, {"a.py": UNSAFE, "clean.py": "x = 1\n", "broken.py": "def f(:\n"})
    status, output, errors = wherelint(capsys, "repro", place)
    assert (status, output) == (FAILED, "")
    assert errors.splitlines()[-1].startswith(message)


@pytest.mark.parametrize("option", ["--only-confirmed", "--repro-dir=scripts"])
def test_a_diff_shows_no_findings(project: Path, capsys: pytest.CaptureFixture[str], option: str) -> None:
    write(project, {"a.py": UNSAFE})
    status, _, errors = wherelint(capsys, "check", "--diff", option)
    assert status == FAILED
    assert errors.endswith(f"error: --diff cannot be combined with {option.partition('=')[0]}\n")
