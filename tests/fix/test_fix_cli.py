"""``--fix`` and its relatives: what is written, what is printed, and the exit status."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Run, environment, write

from wherelint.io.files import rewrite

UNSAFE = "import jax.numpy as jnp\n\n\ndef f(x):\n    return jnp.where(x > 0, jnp.sqrt(x), 0.0)\n"
FIXED = UNSAFE.replace("jnp.sqrt(x)", "jnp.sqrt(jnp.where(x > 0, x, 1.0))")
#: Fixed by masking below a reduction: unsafe.
SUM = "import jax.numpy as jnp\n\n\ndef g(x):\n    y = jnp.log(x).sum()\n    return jnp.where(x.sum() > 0, y, 1.0)\n"
CLEAN, FINDINGS, FAILED = 0, 1, 2


def test_a_fix_is_written_and_counted(project: Path, wherelint: Run) -> None:
    write(project, {"a.py": UNSAFE, "b.py": UNSAFE})
    status, output, errors = wherelint("check", "--fix")
    table = "file  rule   fixed  left  why\na.py  WL101      1     0\nb.py  WL101      1     0\n"
    assert (status, output, errors) == (
        CLEAN, f"{table}Fixed 2 findings in 2 files.\nNo findings, 2 files checked.\n", ""
    )  # fmt: skip
    assert (project / "a.py").read_text() == FIXED
    assert sorted(os.listdir(project)) == [".git", "a.py", "b.py"]  # no temporary file is left
    assert wherelint("check", "--fix")[:2] == (CLEAN, "No findings, 2 files checked.\n")


def test_one_finding_is_counted_once_though_it_takes_two_fixes(project: Path, wherelint: Run) -> None:
    program = "def f(x):\n    return jnp.where(x > 0, jnp.arccos(jnp.linalg.norm(x)), 0.0)\n"
    write(project, {"a.py": f"import jax.numpy as jnp\n\n\n{program}"})
    assert "Found 1 error (1 fixable with --fix), 1 file checked.\n" in wherelint("check")[1]
    _, patch, told = wherelint("check", "--diff")
    assert [line.split()[2] for line in patch.splitlines() if line.startswith("# ")] == ["WL108", "WL104"]
    assert told == "Would fix 1 finding in 1 file.\n"
    assert "Fixed 1 finding in 1 file.\nNo findings, 1 file checked.\n" in wherelint("check", "--fix")[1]


def test_what_is_left_is_reported(project: Path, wherelint: Run) -> None:
    write(project, {"a.py": UNSAFE, "b.py": SUM})
    status, output, _ = wherelint("check", "--fix")
    assert status == FINDINGS
    assert "b.py:5:9: error: WL102" in output
    assert output.endswith(
        "file  rule   fixed  left  why\na.py  WL101      1     0\n"
        "b.py  WL102      0     1  unsafe: see --unsafe-fixes\n"
        "Fixed 1 finding in 1 file.\nFound 1 error (1 fixable with --fix --unsafe-fixes), 2 files checked.\n"
    )
    assert (project / "b.py").read_text() == SUM
    assert wherelint("check", "--fix", "--unsafe-fixes")[0] == CLEAN
    assert (project / "b.py").read_text() != SUM


def test_fix_only_neither_reports_nor_fails_for_what_is_left(project: Path, wherelint: Run) -> None:
    write(project, {"a.py": UNSAFE, "b.py": SUM})
    status, output, _ = wherelint("check", "--fix-only")
    assert status == CLEAN
    assert output == (
        "file  rule   fixed  left  why\na.py  WL101      1     0\n"
        "Fixed 1 finding in 1 file.\n1 error left (1 fixable with --fix --unsafe-fixes), 2 files checked.\n"
    )
    assert (project / "a.py").read_text() == FIXED


def test_fix_only_counts_what_is_left_of_a_rule_that_was_fixed(project: Path, wherelint: Run) -> None:
    division = "\n\ndef g(x):\n    return jnp.where(x != 0, 1 / x, 0.0)\n"
    hidden = (
        "    r = jnp.linalg.norm(jnp.stack([x, y]), *[2])\n"
        "    return jnp.maximum(jnp.exp(-r) * jnp.where(r > 0, 1 / r, 0), 2 * r)\n"
    )
    write(project, {"a.py": f"import jax.numpy as jnp\n\n\ndef f(x, y):\n{hidden}{division}"})
    output = wherelint("check", "--fix-only")[1]
    assert "\na.py  WL103      1     1  no change keeps the values" in output
    assert "\n1 error left, 1 file checked.\n" in output


def test_a_diff_writes_nothing(project: Path, wherelint: Run) -> None:
    write(project, {"a.py": UNSAFE, "b.py": SUM})
    status, output, errors = wherelint("check", "--diff")
    assert (status, errors) == (FINDINGS, "Would fix 1 finding in 1 file.\n")
    why, patch = output.split("\n", 1)
    assert why == (
        "# a.py:5:29: WL101 mask the operand with the condition of the `where`: at x = 0.0 the value is 0.0 "
        "and the gradient with respect to x is nan; with the fix it is finite"
    )
    assert patch.startswith("--- a/a.py\n+++ b/a.py\n@@ -2,4 +2,4 @@\n")
    assert (project / "a.py").read_text() == UNSAFE
    subprocess.run(["git", "apply", "-"], cwd=project, input=output, text=True, check=True)
    assert (project / "a.py").read_text() == FIXED
    assert wherelint("check", "--diff")[:2] == (CLEAN, "")


@pytest.mark.parametrize(
    "text", [UNSAFE.replace("\n\n\n", "\n  \n\n"), UNSAFE.rstrip("\n"), UNSAFE.replace("\n", "\r\n")]
)
def test_a_diff_is_a_patch_to_the_byte(project: Path, text: str) -> None:
    (project / "a.py").write_bytes(text.encode())
    ran = subprocess.run(
        [sys.executable, "-m", "wherelint", "check", "--diff"], cwd=project, env=environment(), capture_output=True
    )
    subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], cwd=project, input=ran.stdout, check=True)
    assert (project / "a.py").read_bytes() == text.replace("jnp.sqrt(x)", "jnp.sqrt(jnp.where(x > 0, x, 1.0))").encode()


def test_the_fixed_findings_are_listed(project: Path, wherelint: Run) -> None:
    write(project, {"a.py": UNSAFE})
    output = wherelint("check", "--fix", "--show-fixes")[1]
    assert output.startswith("fixed a.py:5:29: WL101 unmasked-sqrt\n")


@pytest.mark.parametrize("text", [UNSAFE, FIXED, "x = 1"])
def test_standard_input_is_fixed_to_standard_output(project: Path, wherelint: Run, text: str) -> None:
    status, output, errors = wherelint("check", "--fix", "-", text=text)
    assert (status, output) == (CLEAN, text.replace("jnp.sqrt(x)", "jnp.sqrt(jnp.where(x > 0, x, 1.0))"))
    assert errors.endswith("No findings, 1 file checked.\n")


def test_a_diff_of_standard_input(project: Path, wherelint: Run) -> None:
    status, output, errors = wherelint("check", "--diff", "-", "--stdin-filename", "a.py", text=UNSAFE)
    assert status == FINDINGS
    assert output.partition("\n")[2].startswith("--- a/a.py\n+++ b/a.py\n")
    assert "+    return jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0)" in output
    assert errors == "Would fix 1 finding in 1 file.\n"


@pytest.mark.parametrize(
    ("options", "fixed"),
    [
        (["--fixable", "WL101"], {"a.py"}),
        (["--unfixable", "WL101"], {"c.py"}),
        (["--fixable", "WL1", "--unfixable", "WL101"], {"c.py"}),
        (["--fixable", "WL101", "--unfixable", "WL1"], {"a.py"}),
        (["--config", "unfixable = ['WL102']"], {"a.py"}),
        (["--config", "unfixable = ['WL102']", "--unfixable", "WL101"], set()),
    ],
)
def test_which_rules_are_fixed(project: Path, wherelint: Run, options: list[str], fixed: set[str]) -> None:
    texts = {"a.py": UNSAFE, "c.py": UNSAFE.replace("sqrt", "log")}
    write(project, texts)
    status, output, _ = wherelint("check", "--fix", *options)
    assert {name for name, text in texts.items() if (project / name).read_text() != text} == fixed
    assert status == FINDINGS
    assert output.count(" are switched off\n") == 2 * (2 - len(fixed))  # below the finding, and in the table


def test_what_is_not_to_be_fixed_is_not_offered(project: Path, wherelint: Run) -> None:
    import json

    write(project, {"a.py": UNSAFE})
    (finding,) = json.loads(wherelint("check", "--output-format", "json", "--unfixable", "WL101")[1])
    assert finding["fix"]["message"] == "no fix is offered: fixes of WL101 are switched off"


#: Two findings of one statement, one of another, a guard that takes a line of its own, and a branch.
_COMMENTED = """import jax.numpy as jnp


def f(x, y):
    if y.ndim: return jnp.where(y > 0, jnp.log(y), 0.0)
    if x.ndim:
        z = jnp.where(x > 0, jnp.sqrt(x), 0.0) + jnp.where(y > 0, jnp.sqrt(y), 0.0)
    else:
        z = jnp.sqrt(jnp.maximum(x, 0.0))
    return z
"""
_WHY = "# Keep nan out of the gradient of `sqrt` where it is not selected."


def test_a_comment_says_why(project: Path, wherelint: Run) -> None:
    import json

    write(project, {"a.py": _COMMENTED, "p/b.py": UNSAFE, "p/pyproject.toml": "[tool.wherelint]\nfix-comment = true\n"})
    assert wherelint("check", "--fix", "--unsafe-fixes", "--fix-comment", "a.py", "p/b.py")[0] == CLEAN
    lines = (project / "a.py").read_text().splitlines()
    above = [(line.strip(), lines[i + 1].strip()[:8]) for i, line in enumerate(lines) if "#" in line]
    assert above == [(_WHY.replace("sqrt", "log"), "if y.ndi"), (_WHY, "z = jnp."), (_WHY, "radicand")]
    assert wherelint("check", "--fix", "--unsafe-fixes", "--fix-comment", "a.py")[1] == "No findings, 1 file checked.\n"
    assert (project / "p/b.py").read_text() == FIXED.replace("    return", f"    {_WHY}\n    return")
    write(project, {"p/b.py": UNSAFE})
    (finding,) = json.loads(wherelint("check", "--output-format", "json", "p/b.py")[1])
    assert finding["fix"]["edits"][0]["content"] == f"    {_WHY}\n"
    assert wherelint("check", "--fix", "--no-fix-comment", "p/b.py")[0] == CLEAN
    assert (project / "p/b.py").read_text() == FIXED


def test_a_run_that_fixed_something_fails_if_asked_to(project: Path, wherelint: Run) -> None:
    write(project, {"a.py": UNSAFE})
    assert wherelint("check", "--fix", "--exit-non-zero-on-fix")[0] == FINDINGS
    assert wherelint("check", "--fix", "--exit-non-zero-on-fix")[0] == CLEAN


def test_a_fix_is_offered_in_json(project: Path, wherelint: Run) -> None:
    import json

    write(project, {"a.py": UNSAFE})
    (finding,) = json.loads(wherelint("check", "--output-format", "json")[1])
    edit = {"location": {"row": 5, "column": 38}, "end_location": {"row": 5, "column": 39}}
    assert finding["fix"] == {
        "applicability": "safe",
        "message": "mask the operand with the condition of the `where`",
        "edits": [{"content": "jnp.where(x > 0, x, 1.0)", **edit}],
    }


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="everything may be written")
def test_a_read_only_file_is_an_error(project: Path, wherelint: Run) -> None:
    write(project, {"a.py": UNSAFE})
    (project / "a.py").chmod(0o444)
    status, output, errors = wherelint("check", "--fix")
    assert status == FAILED
    assert errors == "error: a.py: not written: the file is read-only\n"
    assert "Fixed" not in output
    assert (project / "a.py").read_text() == UNSAFE


def test_a_named_file_that_may_not_be_read_stops_no_other(
    project: Path, wherelint: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, {"a.py": UNSAFE, "b.py": UNSAFE})
    read = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path.name == "b.py":
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "b.py")
    monkeypatch.setattr(Path, "read_bytes", refuse)
    status, output, errors = wherelint("check", "a.py", "b.py")
    assert status == FAILED
    assert errors == "error: b.py: cannot read the file: Permission denied\n"
    assert output.startswith("a.py:5:")


def test_permissions_and_links_stay(project: Path, wherelint: Run) -> None:
    write(project, {"real/a.py": UNSAFE})
    (project / "real/a.py").chmod(0o750)
    (project / "a.py").symlink_to("real/a.py")
    assert wherelint("check", "--fix", "a.py")[0] == CLEAN
    assert (project / "a.py").is_symlink()
    assert (project / "real/a.py").read_text() == FIXED
    assert stat.S_IMODE((project / "real/a.py").stat().st_mode) == 0o750


def test_a_file_that_was_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"newer")
    problem = rewrite(str(path), b"old", b"fixed")
    assert problem is not None
    assert "changed during the run" in problem.message
    assert path.read_bytes() == b"newer"
    assert os.listdir(tmp_path) == ["a.py"]


def test_a_write_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    problem = rewrite(str(path), b"old", b"fixed")
    assert problem is not None
    assert problem.message == "not written: No space left on device"
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.py"]
