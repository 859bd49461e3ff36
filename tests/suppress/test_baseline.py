"""A baseline: what is known is left out until it changes, wherever its lines move."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from conftest import SAFE, UNSAFE, Run, write

from wherelint.cli import main
from wherelint.suppress.baseline import Entry

BROKEN = "def f(:\n"
NONE = "missing.json: not a baseline; write one with --write-baseline"
ENTRY = ", ".join(f'"{key}": ""' for key in Entry._fields)
WRITTEN = """\
known.json: 2 findings written. Hide them with --baseline known.json,
or with baseline = "known.json" below [tool.wherelint] in pyproject.toml.
"""


@pytest.fixture
def known(run: Run, project: Path) -> Path:
    write(project, {"a.py": UNSAFE, "sub/b.py": UNSAFE})
    assert run("check", "--write-baseline", "known.json") == (0, WRITTEN, "")
    return project / "known.json"


def test_what_is_known_is_left_out(run: Run, known: Path) -> None:
    assert run("check", "--baseline", "known.json") == (
        0, "No findings, 2 files checked.\n2 findings in the baseline are hidden.\n", ""
    )  # fmt: skip
    assert run("check", "--baseline", "known.json", "--output-format", "json")[:2] == (0, "[]\n")
    assert run("check")[0] == 1


def test_what_is_configured_is_not_explained(run: Run, known: Path) -> None:
    (known.parent / "pyproject.toml").write_text('[tool.wherelint]\nbaseline = "known.json"\n')
    assert run("check", "--write-baseline", "known.json") == (0, "known.json: 2 findings written.\n", "")


def test_lines_may_move(run: Run, known: Path) -> None:
    write(known.parent, {"a.py": "# new\n\n\n" + UNSAFE.replace("    return", "    y = 1\n    return")})
    assert run("check", "--baseline", "known.json")[0] == 0


def test_what_is_new_is_shown(run: Run, known: Path) -> None:
    twice = UNSAFE + UNSAFE.partition("\n\n\n")[2].replace("f(x)", "g(x)")
    write(known.parent, {"a.py": twice})
    status, output, errors = run("check", "--baseline", "known.json", "--output-format", "concise")
    assert (status, errors) == (1, "")
    assert [line.split(": ")[0] for line in output.splitlines()[:1]] == ["a.py:7:29"]
    assert "Found 1 error, 2 files checked.\n2 findings in the baseline are hidden.\n" in output
    # The same line once more is one finding more.
    write(known.parent, {"a.py": UNSAFE + UNSAFE.partition("\n\n\n")[2]})
    assert run("check", "--baseline", "known.json", "a.py")[0] == 1
    # Another operand is another line.
    write(known.parent, {"a.py": UNSAFE.replace("sqrt(x)", "sqrt(x * 1)")})
    assert run("check", "--baseline", "known.json", "a.py")[0] == 1


def test_what_is_gone_may_not_come_back_unseen(run: Run, known: Path) -> None:
    old = "The baseline is old: some of it is gone, and could come back unseen; write it again with --write-baseline.\n"
    write(known.parent, {"a.py": SAFE})
    asked = "check", "--baseline", "known.json"
    assert run(*asked) == (0, f"No findings, 2 files checked.\n1 finding in the baseline is hidden.\n{old}", "")
    for less in (("sub",), ("--level", "error"), ("--ignore", "WL101"), ("-q",)):
        assert "old" not in run(*asked, *less)[1]
    write(known.parent, {"a.py": BROKEN})
    assert "old" not in run(*asked)[1]
    write(known.parent, {"a.py": SAFE})
    assert run("check", "--write-baseline", "known.json")[0] == 0
    assert "old" not in run(*asked)[1]
    write(known.parent, {"a.py": UNSAFE})
    assert run(*asked)[0] == 1


@pytest.mark.parametrize("option", ["--fix", "--diff", "--fix-only", "--add-noqa", "-"])
def test_a_baseline_is_about_what_is_reported(run: Run, known: Path, option: str) -> None:
    status, output, errors = run("check", "--write-baseline", "known.json", option)
    assert (status, output) == (2, "")
    assert f"--write-baseline cannot be combined with {option}\n" in errors


def test_it_knows_what_a_fix_leaves(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(project, {"a.py": UNSAFE})
    main(["check", "--write-baseline", "known.json"])
    write(project, {"b.py": UNSAFE.replace("sqrt", "log")})
    asked = ["check", "--fix", "--unfixable", "ALL", "--output-format", "concise", "-q"]
    for known, shown in (([], ["a.py:5:29", "b.py:5:29"]), (["--baseline", "known.json"], ["b.py:5:29"])):
        capsys.readouterr()
        assert main([*asked, *known]) == 1
        assert [line.partition(": ")[0] for line in capsys.readouterr().out.splitlines()] == shown


def test_it_may_stand_in_the_configuration(run: Run, known: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a run starts anywhere."""
    write(known.parent, {"pyproject.toml": "[tool.wherelint]\nbaseline = 'known.json'\n"})
    assert run("check") == (0, "No findings, 2 files checked.\n2 findings in the baseline are hidden.\n", "")
    assert run("check", "--isolated")[0] == 1
    assert run("check", "--config", "baseline = ''")[0] == 1
    monkeypatch.chdir(known.parent / "sub")
    assert run("check") == (0, "No findings, 1 file checked.\n1 finding in the baseline is hidden.\n", "")
    assert run("check", "..")[0] == 0
    for asked in ((), ("--stdin-filename", "new.py")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(UNSAFE.encode())))
        assert run("check", "-", *asked)[0] == 1
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(UNSAFE.encode())))
    assert run("check", "-", "--stdin-filename", "b.py")[0] == 0


def test_each_configuration_has_its_own(run: Run, project: Path) -> None:
    write(project, {"one/a.py": UNSAFE, "two/a.py": UNSAFE, "three/a.py": UNSAFE})
    for name in ("one", "two"):
        write(
            project, {f"{name}/pyproject.toml": "[tool.wherelint]\nbaseline = 'etc/known.json'\n", f"{name}/etc/a": ""}
        )
        assert run("check", name, "--write-baseline", f"{name}/etc/known.json")[0] == 0
    status, output, errors = run("check")
    assert (status, errors) == (1, "")
    assert output.startswith("three/a.py:")
    assert output.endswith("Found 1 error, 3 files checked.\n2 findings in the baseline are hidden.\n")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "missing.json: cannot read the baseline: No such file or directory"),
        ("[]", NONE),
        ("{", NONE),
        ('{"version": 1, "findings": [{"code": 1}]}', NONE),
        (f'{{"version": 1, "findings": [{{{ENTRY}, "count": 1e999}}]}}', NONE),
        ('{"version": 2}', "missing.json: another version wrote it; write it again with --write-baseline"),
    ],
)  # fmt: skip
def test_what_is_no_baseline_is_an_error(run: Run, project: Path, content: str | None, message: str) -> None:
    write(project, {"a.py": UNSAFE, **({"missing.json": content} if content is not None else {})})
    assert run("check", "--baseline", "missing.json") == (2, "", f"error: {message}\n")


def test_a_baseline_is_stable(run: Run, known: Path) -> None:
    first = known.read_text()
    run("check", "--write-baseline", "known.json")
    assert known.read_text() == first
    assert [entry["filename"] for entry in json.loads(first)["findings"]] == ["a.py", "sub/b.py"]


def test_what_could_not_be_checked_is_in_no_baseline(run: Run, known: Path) -> None:
    """The old one stays: a new one would lack what is known of the file."""
    first = known.read_text()
    write(known.parent, {"a.py": "def f(:\n"})
    status, output, errors = run("check", "--write-baseline", "known.json")
    assert (status, output) == (2, "")
    what = "some files could not be checked; fix them, or leave them out with --extend-exclude"
    assert errors.endswith(f"error: known.json: not written: {what}\n")
    assert known.read_text() == first
    assert run("check", "--write-baseline", "new.json", "gone.py")[0] == 2
    assert not (known.parent / "new.json").exists()
