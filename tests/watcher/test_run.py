"""``wherelint run``: a program runs as Python runs it, and what is reported of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import environment
from real_gradients import require

from wherelint import docs
from wherelint.watcher import blocks, watching
from wherelint.watcher.report import Reporter
from wherelint.watcher.session import Stop

#: What it prints at the end of a program that takes no gradient.
NOTHING = "wherelint: JAX, torch and TensorFlow took no gradient in this process\n"
PROGRAM = """\
import atexit, gc, os, sys

print(__name__, __file__, sys.argv, sys.path[0], sys.modules["__main__"].__doc__)
print(gc.get_threshold(), sys.stdout.errors, sys.stderr.errors, __spec__ is None, "numpy" in sys.modules)
atexit.register(print, "at exit")


def fail():
    return 1 / 0


if "--fail" in sys.argv:
    fail()
if "--exit" in sys.argv:
    sys.exit(int(sys.argv[-1]))
if "--message" in sys.argv:
    sys.exit("for some reason")
"""
POISONED = """\
import torch


def loss(x):
    return torch.where(x > 0, x.sqrt(), 0.0).sum()


x = torch.ones(3, requires_grad=True)
for step in range(5):
    with torch.no_grad():
        x[1] = 3.0 - step
    try:
        loss(x).backward()
    except Exception:
        pass
    print(step, x.grad[0].item())
    x.grad = None
"""


def ran(root: Path, *command: str) -> tuple[int, str, str]:
    ended = subprocess.run(
        [sys.executable, *command], cwd=root, capture_output=True, text=True, env=environment(measured=False)
    )
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.rotated(2)
@pytest.mark.parametrize(
    "arguments",
    [("a", "--b"), ("--fail",), ("--exit", "7"), ("--exit", "0"), ("--message",)],
    ids=lambda arguments: "".join(arguments),
)
def test_a_program_is_what_it_is_without(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "program.py").write_text(PROGRAM)
    name = str(Path("inner") / "program.py")
    status, output, errors = ran(tmp_path, name, *arguments)
    assert ran(tmp_path, "-m", "wherelint", "run", name, *arguments) == (status, output, errors + NOTHING)


def test_a_module_is_run_as_python_does(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "__init__.py").write_text("")
    (tmp_path / "inner" / "program.py").write_text(PROGRAM)
    status, output, _ = ran(tmp_path, "-m", "inner.program", "--fail")
    found = ran(tmp_path, "-m", "wherelint", "run", "-m", "inner.program", "--fail")
    assert found[:2] == (status, output)
    assert found[2].endswith("ZeroDivisionError: division by zero\n" + NOTHING)


def test_a_directory_with_a_main_is_a_program(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "__main__.py").write_text("import helper\nprint(helper.NAME)\n")
    (tmp_path / "inner" / "helper.py").write_text("NAME = __name__\n")
    assert ran(tmp_path, "-m", "wherelint", "run", "inner")[:2] == (0, "helper\n")


@pytest.mark.parametrize(
    ("name", "status", "message"),
    [
        ("missing.py", 2, "error: missing.py: no such file\n"),
        (".", 1, "can't find '__main__' module in '.'\n" + NOTHING),
    ],
)
def test_what_cannot_be_run_is_an_error(tmp_path: Path, name: str, status: int, message: str) -> None:
    found, output, errors = ran(tmp_path, "-m", "wherelint", "run", name)
    assert (found, output) == (status, "")
    assert errors.endswith(message)


def test_a_syntax_error_is_shown_as_python_does(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("x = (\n")
    status, _, errors = ran(tmp_path, "program.py")
    assert ran(tmp_path, "-m", "wherelint", "run", "program.py")[0] == status
    assert errors in ran(tmp_path, "-m", "wherelint", "run", "program.py")[2]


def test_no_framework_is_imported_for_a_program_that_has_none(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import sys\nprint({'jax', 'torch', 'tensorflow', 'numpy'} & {*sys.modules})\n"
    )
    assert ran(tmp_path, "-m", "wherelint", "run", "program.py")[1] == "set()\n"


def reported(root: Path, *options: str, program: str = POISONED) -> tuple[int, str, str]:
    require("torch")
    (root / "program.py").write_text(program)
    return ran(root, "-m", "wherelint", "run", *options, "program.py")


def test_the_program_is_stopped_at_the_first_report(tmp_path: Path) -> None:
    status, output, errors = reported(tmp_path)
    assert status == 1
    assert output.splitlines() == ["0 0.5", "1 0.5", "2 0.5"]
    assert "wherelint: gradient 4 (torch) is not finite, but the value is\n" in errors
    assert "program.py:5:31: sqrt has no finite derivative at element (1,)\n" in errors
    assert "program.py:5:12: `where` discards the result" in errors
    assert "next: wherelint explain WL101\nfix (safe): " in errors
    assert "      +    return torch.where(x > 0, torch.where(x > 0, x, 1.0).sqrt(), 0.0).sum()\n" in errors
    assert errors.endswith("4 gradients watched (torch); gradient 4 was the first that was not finite; 1 report\n")
    saved = tmp_path / "wherelint-run" / "1"
    assert {path.name for path in saved.iterdir()} == {"operands.pt", "report.json", "report.txt", "repro.py"}
    (finding,) = json.loads((saved / "report.json").read_text())
    assert (finding["code"], finding["location"]["row"]) == ("WL101", 5)


def test_what_an_earlier_run_reported_goes(tmp_path: Path) -> None:
    assert reported(tmp_path, "-q")[0] == 1
    kept = tmp_path / "wherelint-run"
    for path in kept.rglob("*"):
        os.utime(path, (0, 0))
    shutil.copytree(kept / "1", kept / "rank-0" / "1")
    (kept / "mine").mkdir()
    (kept / "mine" / "report.json").touch()
    (tmp_path / "fine.py").write_text("print('fine')\n")
    assert ran(tmp_path, "-m", "wherelint", "run", "fine.py")[0] == 0
    assert sorted(path.name for path in kept.iterdir()) == [".gitignore", "mine", "rank-0"]
    assert reported(tmp_path, "-q")[0] == 1  # and that of this run stays
    assert (kept / "1" / "report.txt").exists()
    (kept / ".gitignore").write_text("ours")
    os.utime(kept / "1" / "report.json", (0, 0))
    ran(tmp_path, "-m", "wherelint", "run", "fine.py")
    assert (kept / "1" / "report.txt").exists()


TWO_CAUSES = POISONED.replace(".sum()", ".sum() + torch.where(x > 0, x.log(), 0.0).sum()")


def test_going_on_reports_each_cause_once(tmp_path: Path) -> None:
    status, output, errors = reported(tmp_path, "--keep-going", "--output-dir", "kept", program=TWO_CAUSES)
    assert status == 1
    assert len(output.splitlines()) == 5
    assert errors.count("sqrt has no finite derivative") == 2  # with the logarithm at 0, and alone below
    assert errors.count("log has no finite derivative") == 1
    assert errors.endswith("; 2 reports\n")
    assert sorted(path.name for path in (tmp_path / "kept").iterdir() if path.is_dir()) == ["1", "2"]


def test_no_more_causes_are_reported_than_wanted_in_a_format(tmp_path: Path) -> None:
    options = ["--keep-going", "--max-reports", "1", "--quiet", "--output-format", "json"]
    _, output, errors = reported(tmp_path, *options, program=TWO_CAUSES)
    findings = json.loads(errors[errors.index("[") : errors.rindex("]") + 1])
    assert {(each["framework"], each["op"]) for each in findings} == {("torch", "sqrt"), ("torch", "log")}
    assert len(output.splitlines()) == 5


def test_a_report_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    require("torch")
    import torch

    reporter = Reporter(output_format="concise", quiet=True)
    x = torch.zeros(1, requires_grad=True)
    with suppress(Stop), watching(reporter.session):
        torch.where(x > 0, x.sqrt(), 0.0).sum().backward()
    reporter.explain(reporter.session.end())
    errors = capsys.readouterr().err
    assert "WL101" in errors
    assert "has no finite derivative" not in errors


def test_the_page_shows_what_is_printed(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    require("torch")
    page = docs.page("gradient-is-nan")
    block = r"```python\n(.+?)```.*?```console\n\$ wherelint run train.py\n(.*?)```"
    program, shown = re.findall(block, page, re.DOTALL)[0]
    (tmp_path / "train.py").write_text(program)
    status, output, errors = ran(tmp_path, "-m", "wherelint", "run", "train.py")
    assert (status, output) == (1, "")
    if request.config.getoption("--regenerate"):
        text = page.replace(f"train.py\n{shown}```", f"train.py\n{errors}```", 1)
        docs.path("gradient-is-nan").write_text(text, encoding="utf-8")
    else:
        assert errors == shown


@pytest.mark.slow
@pytest.mark.rotated(2)
@pytest.mark.parametrize("start", ["spawn", "fork"])
def test_processes_of_multiprocessing_are_watched(tmp_path: Path, start: str) -> None:
    require("torch")
    program = f"""\
import multiprocessing

import torch


def train(number):
    x = torch.full((2,), float(number), requires_grad=True)
    torch.where(x > 0, x.sqrt(), 0.0).sum().backward()


if __name__ == "__main__":
    context = multiprocessing.get_context({start!r})
    children = [context.Process(target=train, args=(number,)) for number in range(2)]
    for child in children:
        child.start()
        child.join()
    print([child.exitcode for child in children])
"""
    status, output, errors = reported(tmp_path, program=program)
    assert status == 1
    assert output == "[1, 0]\n"
    assert errors.count("has no finite derivative") == 1
    assert re.search(r"wherelint \(\w*Process-1\): gradient 1 \(torch\) is not finite", errors)


class Shell:
    """What a cell magic needs of IPython."""

    execution_count = 1

    def __init__(self) -> None:
        self.user_ns: dict[str, Any] = {}
        self.compile = self
        self.magics: dict[str, Any] = {}

    def transform_cell(self, cell: str) -> str:
        return cell

    def cache(self, source: str, number: int, raw_code: str) -> str:
        return f"<cell {number}>"

    def register_magic_function(self, function: Any, magic_kind: str, magic_name: str) -> None:
        assert magic_kind == "cell"
        self.magics[magic_name] = function


def test_a_cell_of_a_notebook_is_watched(capsys: pytest.CaptureFixture[str]) -> None:
    require("torch")
    shell = Shell()
    blocks.load_ipython_extension(shell)
    watch = shell.magics["watch"]
    assert watch("", "import torch\nx = torch.zeros(1, requires_grad=True)\n(x + 1).item()") == 1.0
    assert watch("", "torch.where(x > 0, x.sqrt(), 0.0).sum().backward()\nprint('not reached')") is None
    output = capsys.readouterr().out
    assert "<cell 1>:1:20: sqrt has no finite derivative" in output
    assert "not reached" not in output


def test_a_block_ends_with_an_exception_that_one_catches() -> None:
    require("torch")
    import torch

    from wherelint import watch
    from wherelint.companion import PoisonedGradient

    x = torch.zeros(1, requires_grad=True)
    with pytest.raises(PoisonedGradient) as error, watch():
        torch.where(x > 0, x.sqrt(), 0.0).sum().backward()
    assert error.value.report.findings[0].op == "sqrt"
    with pytest.raises(ZeroDivisionError), watch():
        raise ZeroDivisionError
