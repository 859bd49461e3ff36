"""The command: options, output, exit status."""

from __future__ import annotations

import io
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import SAFE, UNSAFE, Run, environment, write

from wherelint import __version__, rules
from wherelint.cli import main
from wherelint.io import files
from wherelint.io.files import Target
from wherelint.run import engine

WARNING, NOTE = (UNSAFE.replace("def f", f"def f_{level}") for level in ("warning", "note"))
BROKEN = "def f(:\n"


def test_clean(run: Run, project: Path) -> None:
    write(project, {"a.py": SAFE})
    assert run("check") == (0, "No findings, 1 file checked.\n", "")


def test_findings(run: Run, project: Path) -> None:
    write(project, {"a.py": UNSAFE, "b/c.py": UNSAFE})
    status, output, errors = run("check", "b", "a.py")
    assert (status, errors) == (1, "")
    assert output.startswith("a.py:5:29: error: WL101 unmasked-sqrt\n  |\n5 |     return jnp.where(")
    assert output.endswith("Found 2 errors in 2 files, 2 files checked.\n")


def test_concise(run: Run, project: Path) -> None:
    write(project, {"a.py": UNSAFE})
    status, output, _ = run("check", "--output-format", "concise", "-q")
    message = rules.message("WL101", "sqrt", "where", "jax")
    assert (status, output) == (1, f"a.py:5:29: error: WL101 {message}\n")


@pytest.mark.parametrize("style", ["full", "concise", "github", "grouped", "pylint"])
def test_a_finding_is_printed_as_soon_as_its_file_is_done(
    run: Run, project: Path, style: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(project, {"a.py": UNSAFE, "b.py": UNSAFE, "c.py": UNSAFE})
    printed: list[str] = []
    check_file = engine.check_file

    def slowly(target: Target) -> object:
        printed.append(capsys.readouterr().out)
        return check_file(target)

    monkeypatch.setattr(engine, "check_file", slowly)
    status, rest, _ = run("check", "-j1", "--output-format", style)
    assert status == 1
    assert [("a.py" in each, "b.py" in each) for each in printed] == [(False, False), (True, False), (False, True)]
    assert run("check", "-j1", "--output-format", style)[1] == "".join(printed) + rest  # from the cache
    assert run("check", "--output-format", style, "-o", "report.txt", "-q")[0] == 1
    assert ("".join(printed) + rest).startswith((project / "report.txt").read_text())


def test_json(run: Run, project: Path) -> None:
    write(project, {"a.py": UNSAFE, "b.py": BROKEN})
    status, output, errors = run("check", "--output-format", "json")
    assert status == 2
    assert [(f["code"], f["filename"]) for f in json.loads(output)] == [("WL101", "a.py"), (None, "b.py")]
    assert errors.startswith("error: b.py:1:7: does not parse as Python 3.")
    (project / "a.py").write_text(SAFE)
    (project / "b.py").unlink()
    assert run("check", "--output-format", "json")[:2] == (0, "[]\n")


def test_statistics(run: Run, project: Path) -> None:
    write(project, {"a.py": UNSAFE})
    assert run("check", "--statistics", "-q")[:2] == (1, "     1  error    WL101  [ ]  unmasked-sqrt\n")


def test_notes(run: Run, project: Path) -> None:
    write(project, {"a.py": NOTE})
    assert run("check") == (0, "No findings, 1 file checked.\n", "")
    assert run("check", "-q") == (0, "", "")
    status, output, _ = run("check", "--level", "note")
    assert status == 0
    assert ": note: WL1" in output
    assert output.endswith(
        "Found 1 note, 1 file checked.\nNo errors or warnings, so the exit status is 0; --fail-on note makes it 1.\n"
    )
    write(project, {"pyproject.toml": "[tool.wherelint]\nlevel = 'note'\n"})
    assert ": note: WL1" in run("check")[1]
    assert run("check", "--level", "warning")[1] == "No findings, 1 file checked.\n"


@pytest.mark.parametrize(
    ("found", "options", "status"),
    [
        ("error", (), 1),
        ("warning", (), 0),
        ("warning", ("--fail-on", "error"), 0),
        ("warning", ("--fail-on", "warning"), 1),
        ("warning", ("--fail-on", "note"), 1),
        ("warning", ("--fail-on", "note", "--level", "error"), 0),  # it is not shown
        ("warning", ("--fail-on", "warning", "--exit-zero"), 0),
        ("note", ("--level", "note"), 0),
        ("note", ("--fail-on", "note"), 0),  # it is not shown
        ("note", ("--level", "note", "--fail-on", "warning"), 0),
        ("note", ("--level", "note", "--fail-on", "note"), 1),
    ],
)
def test_the_exit_status_follows_from_the_level(
    run: Run, project: Path, found: str, options: tuple[str, ...], status: int
) -> None:
    write(project, {"a.py": UNSAFE.replace("def f", f"def f_{found}")})
    assert run("check", *options)[0] == status
    keys = [f"{name[2:]} = '{value}'\n" for name, value in zip(options[::2], options[1::2], strict=False)]
    if options and all(name in ("--fail-on", "--level") for name in options[::2]):
        write(project, {"pyproject.toml": f"[tool.wherelint]\n{''.join(keys)}"})
        assert run("check")[0] == status


def test_each_file_fails_by_its_own_settings(run: Run, project: Path) -> None:
    write(project, {"a/a.py": WARNING, "b/b.py": SAFE, "b/pyproject.toml": "[tool.wherelint]\nfail-on = 'warning'\n"})
    assert run("check")[0] == 0
    write(project, {"b/b.py": WARNING})
    status, output, _ = run("check")
    assert status == 1
    assert "exit status" not in output


def test_it_is_said_why_the_exit_status_is_0(run: Run, project: Path) -> None:
    write(project, {"a.py": WARNING})
    why = "No errors, so the exit status is 0; --fail-on warning makes it 1.\n"
    assert run("check")[1].endswith(f"\nFound 1 warning, 1 file checked.\n{why}")
    for option in ("--exit-zero", "--quiet", "--fail-on=warning"):
        assert why not in run("check", option)[1]


@pytest.mark.parametrize(
    ("options", "status"),
    [
        (("--select", "WL1"), 1),
        (("--select", "WL2,wl101"), 1),
        (("--select", "WL2", "--select", "WL101"), 1),
        (("--select", "WL2"), 0),
        (("--select", "WL2", "--extend-select", "WL101"), 1),
        (("--select", ""), 0),
        (("--select", "", "--extend-select", "WL101"), 1),
        (("--ignore", "WL101"), 0),
        (("--ignore", "WL1", "--extend-select", "WL101"), 1),
        (("--extend-ignore", "WL2", "--ignore", "WL101"), 0),
        (("--extend-ignore", "WL1", "--ignore", "WL2"), 0),
        (("--ignore", "WL2,WL3"), 1),
        (("--exit-zero",), 0),
    ],
    ids=str,
)
def test_selection(run: Run, project: Path, options: tuple[str, ...], status: int) -> None:
    write(project, {"a.py": UNSAFE})
    assert run("check", *options)[0] == status


def test_configuration_of_the_project(run: Run, project: Path) -> None:
    write(project, {"pyproject.toml": "[tool.wherelint]\nignore = ['WL101']\n", "a.py": UNSAFE, "etc/other.toml": ""})
    assert run("check")[0] == 0
    assert run("check", "--isolated")[0] == 1
    assert run("check", "--config", "etc/other.toml")[0] == 1
    assert run("check", "--select", "WL101")[0] == 1
    write(project, {"pyproject.toml": "[tool.wherelint]\nselect = []\n"})
    assert run("check")[0] == 0
    assert run("check", "--extend-select", "WL101")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("check", "--select", "WL9"), "error: --select: no rule starts with 'WL9'\n"),
        (("check", "--ignore", "WL1O5"), "error: --ignore: no rule starts with 'WL1O5'\n"),
        (("check", "--config", "nowhere.toml"), "error: nowhere.toml: no such file\n"),
        (("explain", "nothing"), "error: no rule or topic 'nothing'\n"),
        (("explain", "WL1O5"), "error: no rule or topic 'wl1o5'; did you mean 'wl105'?\n"),
    ],
)
def test_what_cannot_be_done_is_one_line(run: Run, arguments: tuple[str, ...], error: str) -> None:
    assert run(*arguments) == (2, "", error)


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "--no-such-option"),
        ("chekc",),
        ("check", "-", "a.py"),
        ("check", "-j", "0"),
        ("check", "--level", "high"),
        ("check", "--level", "0.5"),
        ("check", "--fail-on", "no"),
    ],
)
def test_usage_errors(run: Run, arguments: tuple[str, ...]) -> None:
    status, output, errors = run(*arguments)
    assert (status, output) == (2, "")
    assert errors.startswith("Usage: wherelint")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("a.py",), "No such command 'a.py'."),
        (
            ("check", "--level", "high"),
            "Invalid value for '--level': 'high' is not one of 'error', 'warning', 'note'.",
        ),
    ],
)
def test_a_usage_error_says_what_to_write(run: Run, project: Path, arguments: tuple[str, ...], error: str) -> None:
    assert run(*arguments)[2].endswith(f"\nerror: {error}\n")


def test_a_bad_configuration_file(run: Run, project: Path) -> None:
    write(project, {"pyproject.toml": "[tool.wherelint]\nselct = []\n", "a.py": SAFE})
    status, output, errors = run("check")
    assert (status, output) == (2, "")
    assert errors == (f"error: {project}/pyproject.toml: [tool.wherelint] has no key 'selct'; did you mean 'select'?\n")
    assert run("check", "--isolated")[0] == 0


def test_a_file_that_cannot_be_checked_does_not_keep_the_others(run: Run, project: Path) -> None:
    write(project, {"a.py": BROKEN, "c.py": UNSAFE})
    (project / "b.py").write_bytes(b"'\xff'")
    status, output, errors = run("check", ".", "nowhere")
    assert status == 2
    assert "c.py:5:29: error: WL101" in output
    assert output.endswith("Found 1 error, 1 file checked, 3 could not be checked.\n")
    assert [line.split(": ")[:2] for line in errors.splitlines()] == [
        ["error", "nowhere"],
        ["error", "a.py:1:7"],
        ["error", "b.py:1:2"],
    ]
    assert run("check", "--exit-zero")[0] == 2


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("encoding", ["hex", "rot13"])
def test_a_codec_that_is_no_text_encoding_does_not_keep_the_others(
    run: Run, project: Path, encoding: str, jobs: str
) -> None:
    write(project, {"a.py": f"# coding: {encoding}\nx = 1\n", "b.py": SAFE})
    assert run("check", "--jobs", jobs) == (
        2,
        "No findings, 1 file checked, 1 could not be checked.\n",
        f"error: a.py: cannot decode the file: '{encoding}' is not a text encoding\n",
    )


def test_a_broken_configuration_stops_the_run(run: Run, project: Path) -> None:
    write(project, {"a.py": UNSAFE, "sub/pyproject.toml": "[", "sub/b.py": UNSAFE})
    status, output, errors = run("check")
    assert (status, output) == (2, "")
    assert errors.startswith(f"error: {project}/sub/pyproject.toml: not valid TOML: ")


def test_a_block_that_was_given_up_is_a_warning(run: Run, project: Path) -> None:
    write(project, {"a.py": "def gave_up(): pass\n"})
    assert run("check") == (0, "No findings, 1 file checked.\n", "warning: a.py:1:1: gave up on g\n")
    assert run("check", "-q") == (0, "", "")


def test_many_warnings_are_counted(project: Path, run: Run) -> None:
    write(project, {f"{letter}.py": "def gave_up(): pass\n" for letter in "abcdefghij"})
    assert run("check")[2] == "warning: gave up on 10 parts of 10 files (-v lists them; see wherelint explain limits)\n"
    assert run("check", "-v")[2].count("gave up on g") == 10


def test_show_files(run: Run, project: Path) -> None:
    write(project, {"b.py": BROKEN, "a.py": UNSAFE, "build/c.py": ""})
    assert run("check", "--show-files") == (0, "a.py\nb.py\n", "")


def test_excludes(run: Run, project: Path) -> None:
    write(project, {"a.py": UNSAFE, "build/b.py": UNSAFE})
    assert run("check", "--show-files", "--exclude", "a.py")[1] == "build/b.py\n"
    assert run("check", "--show-files", "--extend-exclude", "a.*,b.*")[1] == ""
    assert run("check", "--show-files", "build/b.py")[1] == "build/b.py\n"
    assert run("check", "--show-files", "--force-exclude", "build/b.py")[1] == ""


def test_gitignore(run: Run, project: Path) -> None:
    write(project, {"a.py": UNSAFE, ".gitignore": "a.py\n"})
    shown = {
        option: run("check", "--show-files", "--config", "respect-gitignore = false", *option)[1]
        for option in ((), ("--respect-gitignore",), ("--no-respect-gitignore",))
    }
    assert shown == {(): "a.py\n", ("--respect-gitignore",): "", ("--no-respect-gitignore",): "a.py\n"}


def test_no_fix_goes_before_an_earlier_fix(run: Run, project: Path) -> None:
    write(project, {"a.py": UNSAFE})
    assert run("check", "--fix", "--no-fix", "--output-format", "concise") == run("check", "--output-format", "concise")
    assert (project / "a.py").read_text() == UNSAFE


def test_options_of_a_cache_are_accepted(run: Run, project: Path) -> None:
    write(project, {"a.py": UNSAFE})
    assert run("check", "--no-cache", "--cache-dir", "somewhere")[0] == 1
    assert not (project / "somewhere").exists()


def test_verbose(run: Run, project: Path) -> None:
    write(project, {"a.py": SAFE})
    assert re.fullmatch(r"1 file in \d+\.\d\d s\n", run("check", "-v")[2])
    write(project, {"b.py": SAFE})
    assert run("check", "--verbose")[2].startswith("2 files in ")


@pytest.mark.parametrize("columns", [60, 200])
def test_the_frame_is_as_wide_as_the_terminal(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    write(project, {"a.py": UNSAFE.replace("0.0)", f"0.0 {'+ 0.0 ' * 40})")})

    def width() -> int:
        return len(run("check", "--color", "never")[1].splitlines()[2])

    monkeypatch.setenv("COLUMNS", str(columns))
    assert width() in (79, 80)
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True)
    assert width() in (columns - 1, columns)


def test_color(run: Run, project: Path) -> None:
    write(project, {"a.py": UNSAFE})
    assert "\x1b[" in run("check", "--color", "always")[1]
    assert "\x1b[" not in run("check", "--color", "never")[1]


class TestStandardInput:
    def check(self, monkeypatch: pytest.MonkeyPatch, run: Run, text: str, *options: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        return run("check", "-", *options)

    def test_findings(self, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
        status, output, _ = self.check(monkeypatch, run, UNSAFE, "--output-format", "concise")
        assert status == 1
        assert output.startswith("-:5:29: error: WL101 ")
        assert output.endswith("Found 1 error, 1 file checked.\n")

    def test_clean(self, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
        assert self.check(monkeypatch, run, SAFE)[0] == 0

    def test_syntax_error(self, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
        status, _, errors = self.check(monkeypatch, run, BROKEN, "--stdin-filename", "x.py")
        assert status == 2
        assert errors.startswith("error: x.py:1:7: ")

    def test_the_filename_finds_the_configuration(
        self, monkeypatch: pytest.MonkeyPatch, run: Run, project: Path
    ) -> None:
        config = "[tool.wherelint]\nper-file-ignores = { 'gen_*.py' = ['WL101'] }\n"
        write(project, {"sub/pyproject.toml": config})
        assert self.check(monkeypatch, run, UNSAFE)[0] == 1
        assert self.check(monkeypatch, run, UNSAFE, "--stdin-filename", "sub/a.py")[0] == 1
        assert self.check(monkeypatch, run, UNSAFE, "--stdin-filename", "sub/gen_a.py")[0] == 0

    def test_show_files(self, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
        assert self.check(monkeypatch, run, UNSAFE, "--show-files", "--stdin-filename", "x.py")[1] == "x.py\n"


def test_explain(run: Run) -> None:
    status, output, _ = run("explain", "wl101", "unmasked-log")
    assert status == 0
    assert output.startswith("# WL101 unmasked-sqrt\n\n*On by default.* A `where` discards")
    assert "# WL102 unmasked-log\n" in output
    assert "## Use instead\n\n```python\n" in output
    assert "*Preview: off by default.*" in run("explain", "WL401")[1]


def test_list_of_rules(run: Run) -> None:
    lines = run("rules")[1].splitlines()
    assert [line.split()[0] for line in lines] == list(rules.codes())
    assert lines[1].startswith("WL101  unmasked-sqrt          on       A `where` discards")
    listed = json.loads(run("rules", "--output-format", "json")[1])
    assert [rule["code"] for rule in listed] == list(rules.codes())
    assert listed[0].keys() == {"code", "name", "summary", "default", "url", "doc"}


def test_version_and_help(run: Run) -> None:
    assert run("--version") == (0, f"wherelint {__version__}\n", "")
    assert "check" in run("--help")[1]
    assert "--fail-on" in run("check", "-h")[1]


def test_interrupted(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    write(project, {"a.py": SAFE})
    monkeypatch.setattr("wherelint.findings.analyse", interrupt)
    assert run("check") == (130, "", "wherelint: interrupted\n")


def test_a_reader_that_leaves_is_no_error(project: Path, fake_detect: None, monkeypatch: pytest.MonkeyPatch) -> None:
    read, written = os.pipe()
    os.close(read)
    write(project, {f"a{n}.py": "" for n in range(3)})
    with os.fdopen(written, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert main(["check", "--show-files"]) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "a.py"),
        ("check", "a.py", "--output-format", "json"),
        ("check", "a.py", "--color", "always"),
        ("check", "--show-files"),
        ("explain", "WL101"),
        ("rules",),
        ("--help",),
    ],
    ids=" ".join,
)
def test_a_full_disk_is_one_line(project: Path, arguments: tuple[str, ...]) -> None:
    write(project, {"a.py": UNSAFE})
    command = [sys.executable, "-m", "wherelint", *arguments]
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment(), check=False, timeout=60
        )
    assert (ran.returncode, ran.stderr) == (2, "error: cannot write the output: No space left on device\n")


def test_a_working_directory_that_is_gone_is_one_line(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "gone").mkdir()
    monkeypatch.chdir(project / "gone")
    (project / "gone").rmdir()
    assert run("check") == (2, "", "error: the working directory does not exist\n")


def test_an_interrupted_process_prints_one_line(project: Path) -> None:
    loops = "".join(f"{'  ' * (i + 1)}for a{i} in range(4):\n" for i in range(30))
    slow = "".join(
        f"def f{n}(x):\n{loops}{'  ' * 31}pass\n" + "  return jnp.where(x > 0, jnp.sqrt(x), 0)\n" for n in range(99)
    )
    write(project, {"slow.py": f"import jax.numpy as jnp\n{slow}"})
    command = [sys.executable, "-m", "wherelint", "check", "slow.py"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=120)
    # Python itself dies of the signal where that struck inside of `exec`, which `dataclasses` uses: 130 to a shell.
    assert process.returncode in (130, -signal.SIGINT)
    assert (output, errors) == ("", "wherelint: interrupted\n")


def test_discovery_is_what_the_command_uses(run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "discover", lambda *_, **__: ([], []))
    nothing = "warning: found no Python file or notebook to check\n"
    assert run("check") == (0, "No findings, 0 files checked.\n", nothing)
    assert run("check", "-q") == (0, "", "")


def test_several_reports_at_once(run: Run, project: Path) -> None:
    write(project, {"a.py": UNSAFE})
    alone = {style: run("check", "--output-format", style, "-q")[1] for style in ("concise", "json", "sarif", "junit")}
    status, output, _ = run(
        "check", "-q", "--output-format", "concise", "--report", "sarif=a.sarif", "--report", "json=a.json"
    )
    assert (status, output) == (1, alone["concise"])
    assert (project / "a.sarif").read_text() == alone["sarif"]
    assert (project / "a.json").read_text() == alone["json"]
    status, output, _ = run("check", "--output-format", "junit", "-o", "a.xml")
    assert (status, output) == (1, "Found 1 error, 1 file checked.\n")
    assert (project / "a.xml").read_text() == alone["junit"]


@pytest.mark.parametrize(
    ("report", "message"),
    [
        ("sarif", "--report sarif: write FORMAT=FILE, as in sarif=wherelint.sarif"),
        ("sarf=a", "--report sarf=a: write FORMAT=FILE, as in sarif=wherelint.sarif"),
        ("sarif=none/a", "none/a: No such file or directory"),
        ("sarif=a.py", "a.py: refusing to overwrite a Python file with a report"),
    ],
)
def test_a_report_that_cannot_be_written(run: Run, project: Path, report: str, message: str) -> None:
    write(project, {"a.py": UNSAFE})
    status, _, errors = run("check", "--report", report)
    assert status == 2
    assert errors.splitlines()[-1] == f"error: {message}"


def test_two_reports_do_not_fit_into_one_file(run: Run, project: Path) -> None:
    write(project, {"a.py": UNSAFE})
    status, _, errors = run("check", "--report", "json=x", "-o", "x")
    assert (status, errors.splitlines()[-1]) == (2, "error: x is named for two reports")


@pytest.mark.parametrize(
    ("variables", "colored"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": ""}, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_variables_for_colors(
    run: Run, project: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], colored: bool
) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    write(project, {"a.py": UNSAFE})
    assert ("\x1b[" in run("check")[1]) == colored


def test_a_closed_standard_output(project: Path) -> None:
    write(project, {"a.py": UNSAFE})
    command = f"{sys.executable} -m wherelint check a.py >&-"
    ran = subprocess.run(["sh", "-c", command], env=environment(), capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (1, "")


@pytest.mark.parametrize("asked", [["--diff"], ["--show-files"], ["--show-settings"], ["--statistics"], []], ids=str)
def test_whatever_is_printed_can_go_to_a_file(run: Run, project: Path, asked: list[str]) -> None:
    write(project, {"a.py": SAFE})
    status, printed, _ = run("check", "-q", *asked)
    assert run("check", "-q", *asked, "-o", "kept.txt") == (status, "", "")
    assert (project / "kept.txt").read_text() == printed


def test_the_documentation_in_a_file(run: Run, project: Path) -> None:
    for command in (
        ("rules",),
        ("rules", "--output-format", "json"),
        ("explain", "--all"),
        ("explain",),
    ):
        status, printed, _ = run(*command)
        assert (status, bool(printed)) == (0, True)
        assert run(*command, "--output-file", "kept.txt") == (0, "", "")
        assert (project / "kept.txt").read_text(encoding="utf-8") == printed


def test_all_rules(run: Run) -> None:
    assert re.findall(r"^# (WL\d+)", run("explain", "--all")[1], re.MULTILINE) == list(rules.codes())


def on_a_terminal(project: Path, *arguments: str) -> tuple[int, str]:
    """The exit status of a command whose output goes to a terminal, and all that it wrote there."""
    ours, theirs = os.openpty()
    names = {"NO_COLOR", "FORCE_COLOR", "COLUMNS"}
    variables = {name: value for name, value in environment().items() if name not in names} | {"TERM": "xterm"}
    command = [sys.executable, *arguments]
    child = subprocess.Popen(command, cwd=project, env=variables, stdout=theirs, stderr=theirs)
    said = b""
    while (ready := select.select([ours], [], [], 0.1)[0]) or child.poll() is None:
        said += os.read(ours, 1 << 16) if ready else b""
    os.close(theirs)  # not before: what a terminal that nobody holds was told may be lost
    os.close(ours)
    return child.wait(), said.decode()


WORK = """
import sys, time
from wherelint.cli.output import Progress
with Progress(False, "working") as update:
    update(1, 3)
    time.sleep({seconds})
    update(2, 3)
    time.sleep(0.3)
print("done")
"""


def test_progress_on_a_terminal(project: Path) -> None:
    status, said = on_a_terminal(project, "-c", WORK.format(seconds=3))
    before, _, after = said.rpartition("\x1b[2K")  # the line is erased
    assert (status, after) == (0, "done\r\n")
    assert "working" in before
    assert on_a_terminal(project, "-c", WORK.format(seconds=0)) == (0, "done\r\n")
    assert "working" not in on_a_terminal(project, "-c", WORK.format(seconds=1.5).replace("False", "True"))[1]


def test_the_bar_is_hidden_where_a_finding_is_printed(project: Path) -> None:
    work = WORK.format(seconds=1.5).replace("update(2, 3)", "update(2, 3); update.hide(); print('found'); update(3, 3)")
    said = on_a_terminal(project, "-c", work)[1]
    before, _, after = said.partition("found\r\n")
    assert before.endswith("\x1b[2K")
    assert "working" in before
    assert "working" in after
    assert after.endswith("\x1b[2Kdone\r\n")


def test_the_page_of_a_rule_on_a_terminal(project: Path) -> None:
    status, said = on_a_terminal(project, "-m", "wherelint", "explain", "WL101")
    assert status == 0
    assert "\x1b[" in said  # a page with colors, where a pipe gets the text
    assert "unmasked-sqrt" in said
    assert "```" not in said


def test_statistics_as_json(run: Run, project: Path) -> None:
    write(project, {"a.py": UNSAFE})
    status, output, _ = run("check", "--statistics", "--output-format", "json")
    assert (status, json.loads(output)) == (
        1,
        [{"severity": "error", "code": "WL101", "name": "unmasked-sqrt", "count": 1, "fixable": 0}],
    )


def test_comments_silence_nothing_if_told_so(run: Run, project: Path) -> None:
    write(project, {"a.py": UNSAFE.rstrip("\n") + "  # noqa: WL101\n"})
    assert run("check")[0] == 0
    assert "WL101" in run("check", "--ignore-noqa")[1]
    assert run("check")[0] == 0  # the cache tells the two apart


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("ignore = ['WL101']", None),
        ("level = 3", "--config 'level = 3': 'level' must be"),
        ("ignored = []", "--config 'ignored = []': has no key 'ignored'; did you mean 'ignore'?"),
        ("extend = 'a.toml'", "'extend' works only in a file"),
        ("ignore =", "not a file, and not valid TOML"),
    ],
)
def test_a_setting_on_the_command_line(run: Run, project: Path, given: str, says: str | None) -> None:
    write(project, {"a.py": UNSAFE, "pyproject.toml": "[tool.wherelint]\nselect = ['WL1']\n"})
    status, _, errors = run("check", "--config", given)
    assert status == (2 if says else 0) or (status == 1 and says)
    assert (says or "") in errors


def test_two_files_of_settings(run: Run, project: Path) -> None:
    write(project, {"a.toml": "", "b.toml": ""})
    assert run("check", "--config", "a.toml", "--config", "b.toml")[0] == 2


def test_statistics_have_no_other_format(run: Run, project: Path) -> None:
    write(project, {"a.py": UNSAFE})
    status, output, errors = run("check", "--statistics", "--output-format", "sarif")
    assert (status, output) == (2, "")
    assert errors.endswith("error: --statistics supports only text and json\n")
