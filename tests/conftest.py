"""Fixtures for the parts around the detection: a stand-in for it, and a project to run in."""

from __future__ import annotations

import ast
import gc
import importlib.util
import io
import json
import os
import re
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import partialmethod
from pathlib import Path
from types import ModuleType
from typing import Any

import answers
import pytest
import versions
from hypothesis import HealthCheck, settings

from wherelint import rules
from wherelint.cli import main
from wherelint.confirm.harness import Harness, request
from wherelint.confirm.routine import Snippet
from wherelint.evidence.pieces import LEVELS
from wherelint.finding import Finding, Location, Problem, Selection, Witness
from wherelint.findings.analysis import Analysis
from wherelint.frontend.options import DetectOptions
from wherelint.run import collect_rarely

Run = Callable[..., tuple[int, str, str]]

#: A file with one finding, for the stand-in and for the real detection.
UNSAFE = """\
import jax.numpy as jnp


def f(x):
    return jnp.where(x > 0, jnp.sqrt(x), 0.0)
"""
#: JAX keeps what it has compiled, for all processes and the next session: many programs are compiled several times.
_KEPT_PROGRAMS = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}
SAFE = "import jax.numpy as jnp\n\n\ndef f(x):\n    return jnp.sin(x)\n"
#: Cells: one with a magic, one that does not parse, one with a finding, one with an idle comment.
NOTEBOOK = json.dumps(
    {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {},
        "cells": [
            {"cell_type": "code", "source": "%matplotlib inline\nimport jax.numpy as jnp"},
            {"cell_type": "code", "source": "def f(:"},
            {"cell_type": "code", "source": "!ls\n" + UNSAFE.partition("\n\n\n")[2]},
            {"cell_type": "code", "source": "x = 1  # noqa: WL101"},
        ],
    }
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="all of what is otherwise tried a tenth a day")
    parser.addoption("--live", action="store_true", help="ask the frameworks everything again (answers.py)")
    parser.addoption("--record", action="store_true", help="keep what the frameworks answer")
    parser.addoption("--device", default="cpu", choices=["cpu", "gpu"], help="where JAX and torch are asked")
    parser.addoption("--turn", type=int, help="which tenth is tried, and asked again (default: by the date)")
    parser.addoption("--regenerate", action="store_true", help="rewrite the outputs that are kept in files")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at its options
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Share the tests among a few processes, unless the command names files or says how many.

    Neighbours stay in one process, with what they compute once, until another one is idle. Each imports three
    frameworks: on a machine of many cores their memory would be the limit.
    """
    here = hasattr(config, "workerinput") or config.option.usepdb or any(".py" in each for each in config.args)
    if getattr(config.option, "numprocesses", 0) is None and not here:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        config.option.numprocesses = min(cores, 4) if cores > 1 else 0
        config.option.dist = "worksteal"


def pytest_configure(config: pytest.Config) -> None:
    # On a busy machine everything is slow.
    settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("patient")
    if config.option.turn is None:  # the same in every process
        config.option.turn = datetime.now(timezone.utc).date().toordinal()
    if not hasattr(config, "workerinput") and config.pluginmanager.has_plugin("cacheprovider"):
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(config.cache.mkdir("jax")))
        os.environ.update(_KEPT_PROGRAMS)
    if config.option.device == "gpu":
        _ask_the_gpu()
    answers.session = answers.Answers(turn=config.option.turn, live=config.option.live, device=config.option.device)


def _ask_the_gpu() -> None:
    """JAX may take nothing else, and what torch makes lies there; it is copied wherever a test reads it."""
    import torch

    os.environ |= {"JAX_PLATFORMS": "cuda", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    torch.set_default_device("cuda")
    torch.Tensor.numpy = partialmethod(torch.Tensor.numpy, force=True)  # type: ignore[method-assign]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the parameters whose turn it is not, where the whole suite runs."""
    versions.skip_by_version(items)
    if config.option.all or config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    met: Counter[str] = Counter()
    left_out = []
    for item in items:
        marker = item.get_closest_marker("rotated")
        if marker is not None:
            name = item.nodeid.partition("[")[0]
            if (met[name] + config.option.turn) % marker.args[0]:
                left_out.append(item)
            met[name] += 1
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def pytest_collection_finish() -> None:
    """The frameworks and the tests stay: the collector need not look at them again."""
    collect_rarely()
    gc.collect()
    gc.freeze()


def pytest_report_header(config: pytest.Config) -> str:
    return f"frameworks: {'--live' if config.option.live else f'--turn {config.option.turn % answers.TURNS}'}"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Every process keeps what it asked; the first one puts that together when they are done."""
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["answers"] = dict(answers.session.counts)
    if config.option.record:
        answers.session.write(f".{getattr(config, 'workerinput', {}).get('workerid', 'main')}.part")
        if not hasattr(config, "workerinput"):
            whole = config.option.all and config.args_source is pytest.Config.ArgsSource.TESTPATHS
            answers.session.collect(".part", whole=whole and not (config.option.keyword or config.option.markexpr))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """What a process asked counts here as well."""
    answers.session.counts.update(getattr(node, "workeroutput", {}).get("answers", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if counts := answers.session.counts:
        told = ", ".join(f"{count:,} {what}" for what, count in sorted(counts.items()))
        terminalreporter.write_line(f"answers of the frameworks: {told}; --record keeps what is new")


def detect(text: str, filename: str, options: DetectOptions) -> tuple[list[Finding], list[Problem]]:
    """A finding for every ``sqrt`` inside of a ``where``: an error, unless the function's name says another level."""
    findings: list[Finding] = []
    for function in [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]:
        calls = [n for n in ast.walk(function) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
        for where in [call for call in calls if call.func.attr == "where"]:
            for sqrt in [
                n for n in ast.walk(where) if isinstance(n, ast.Call) and n in calls and n.func.attr == "sqrt"
            ]:
                findings.append(_finding(filename, function.name, where, sqrt))
    findings += [_opt_in(finding, code) for finding in findings[:1] for code in sorted(options.opt_in)]
    problems = [Problem(filename, "gave up on g", Location(1, 1), error=False)] if "def gave_up" in text else []
    return findings[::-1], problems


def _finding(filename: str, function: str, where: ast.Call, sqrt: ast.Call) -> Finding:
    def place(node: ast.expr) -> tuple[Location, Location]:
        return Location(node.lineno, node.col_offset + 1), Location(node.end_lineno, node.end_col_offset + 1)

    return Finding(
        "WL101",
        "unmasked-sqrt",
        rules.message("WL101", "sqrt", "where", "jax"),
        filename,
        *place(sqrt),
        Selection("where", *place(where)),
        function,
        "jax",
        "sqrt",
        next((level for level in LEVELS if level in function), "error"),
        Witness({"x": 0.0}, 0.0, {"x": float("nan")}),
        sqrt.lineno,
    )


def _opt_in(finding: Finding, code: str) -> Finding:
    return replace(finding, code=code, name=rules.get(code).name)


@pytest.fixture(scope="session", autouse=True)
def _signals_are_heard() -> None:
    """As on a terminal: what was started in the background ignores some, and so would all that it starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("SIGHUP", "SIGQUIT"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_kept_here() -> Iterator[None]:
    kept = Path(__file__).parent.parent / ".wherelint_cache" / "check" / "wherelint.jsonl"
    before = kept.exists() and kept.read_bytes()
    yield
    assert before == (kept.exists() and kept.read_bytes()), "a test kept reports in the repository: use --no-cache"


@pytest.fixture(scope="session")
def a_tenth(pytestconfig: pytest.Config) -> Callable[..., Sequence[Any]]:
    """``a_tenth(items)``: another one each day, and another one for another ``offset``; all of them with ``--all``."""

    def chosen(items: Sequence[Any], offset: int = 0, parts: int = answers.TURNS) -> Sequence[Any]:
        return items if pytestconfig.option.all else items[(pytestconfig.option.turn + offset) % parts :: parts]

    return chosen


@pytest.fixture(scope="module")
def quick_compiling(pytestconfig: pytest.Config) -> Iterator[None]:
    """XLA rewrites programs as ever, and LLVM does not optimize what comes of them; with ``--all`` it does.

    Most of the time goes into compiling programs that run a few times.
    """
    import jax

    jax.config.update("jax_disable_most_optimizations", not pytestconfig.option.all)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def fake_detect(monkeypatch: pytest.MonkeyPatch) -> None:
    def analysis(text: str, filename: str, options: DetectOptions, around: object = None) -> Analysis:
        findings, problems = detect(text, filename, options)
        return Analysis(None, (), [(finding, None) for finding in findings], problems)  # type: ignore[arg-type]

    monkeypatch.setattr("wherelint.findings.analyse", analysis)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, reported as the root of a repository so that nothing above it counts."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(project: Path, fake_detect: None, capsys: pytest.CaptureFixture[str]) -> Run:
    """``status, output, errors = run("check", "a.py")`` in the project, with the stand-in."""

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


@pytest.fixture
def wherelint(project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """``status, output, errors = wherelint("check", "-", text="...")`` in the project; ``text`` is standard input."""

    def wherelint(*arguments: str, text: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        status = main(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return wherelint


_SAID: dict[object, tuple[dict[str, Any], str, str]] = {}


@pytest.fixture
def asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """``--confirm`` asks a framework about one program once a session; what is known starts no process.

    For tests of what is made of an answer, not of the process that gives it.
    """
    ask = Harness.run

    def run(harness: Harness, snippet: Snippet) -> dict[str, Any]:
        key = harness._framework, harness._device, request(snippet)
        if key not in _SAID:
            _SAID[key] = ask(harness, snippet), harness.version, harness.device
        said, harness.version, harness.device = _SAID[key]
        return said

    monkeypatch.setattr(Harness, "run", run)


def code_block(rule: rules.Rule, section: str) -> str:
    """The Python in a section of a rule's documentation."""
    match = re.search(r"```python\n(.*?)```", rule.sections()[section], re.DOTALL)
    assert match is not None, f"{rule.code}: the section {section!r} has no code block"
    return match[1]


def environment(*, measured: bool = True) -> dict[str, str]:
    """For a child process: it imports the checkout under test, wherever it runs.

    ``measured=False`` keeps away what measures the coverage, for a process whose imports and files are looked at.
    """
    paths = [str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    known = {name: value for name, value in os.environ.items() if measured or not name.startswith("COVERAGE")}
    return {**known, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def write(root: Path, files: dict[str, str]) -> None:
    """Write files below a directory."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """A text as a module, whose file ``model.py`` lies in the working directory."""
    monkeypatch.chdir(tmp_path)

    def made(text: str) -> ModuleType:
        path = tmp_path / "model.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(f"model_{tmp_path.name}", path)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return made


@pytest.fixture(scope="session")
def chromium() -> str:
    """A browser; on the CI there has to be one."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("Chromium is not installed, and CI=true")
        pytest.skip("Chromium is not installed")
    return found
