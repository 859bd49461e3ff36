"""The benchmark computes what it prints, says what it leaves out, and runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import RunError, Spent, has_proc, run, watched
from speed import (
    Contender,
    busiest,
    chosen,
    contenders,
    growth_table,
    hottest,
    measure,
    plainest,
    ratios,
    sample,
    table,
    tool,
)

from wherelint.io.config import Settings
from wherelint.run.check import check_source

SCRIPT = Path(__file__).parent / "speed.py"
ALL = [Contender("cold", ("cold",), ("found",)), Contender("ruff", ("ruff",)), Contender("flake8", ("f",), slow=True)]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    (folder / "pkg").mkdir(parents=True)
    where = "import jax.numpy as jnp\n\n\ndef f(x):\n    return jnp.where(x > 0, jnp.sqrt(x), 0.0)\n"
    (folder / "pkg" / "found.py").write_text(where)
    (folder / "pkg" / "plain.py").write_text("import jax.numpy as jnp\n\n\ndef f(x):\n    return jnp.sin(x)\n")
    return folder


def speed(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *options], capture_output=True, text=True, check=False)


def test_the_contenders_run_in_turn() -> None:
    order: list[str] = []

    def timed(command: tuple[str, ...]) -> Spent:
        order.append(command[0])
        return Spent(float(len(order)), 0.5)

    times, failed = measure(ALL, 2, timed, lambda what: None)
    assert order == ["found", "cold", "ruff", "f", "cold", "ruff", "f"]
    walls = {name: [each.wall for each in spent] for name, spent in times.items()}
    assert walls == {"cold": [2.0, 5.0], "ruff": [3.0, 6.0], "flake8": [4.0, 7.0]}
    assert failed == {}


def test_one_that_fails_leaves_the_others() -> None:
    def timed(command: tuple[str, ...]) -> Spent:
        if command == ("ruff",):
            raise RunError("exit status 2: no such option")
        return Spent(1.0, 2.0)

    times, failed = measure([*ALL, Contender("torchfix", absent="not installed")], 2, timed, lambda what: None)
    assert times == {"cold": [(1.0, 2.0)] * 2, "flake8": [(1.0, 2.0)] * 2}
    assert failed == {"ruff": "exit status 2: no such option"}


def test_the_ratio_is_that_of_the_medians_and_of_each_round() -> None:
    found = ratios({"cold": [4.0, 9.0, 6.0], "ruff": [2.0, 3.0, 1.0], "warm": [1.0]})
    assert found == {"cold / ruff": (3.0, 2.0, 6.0)}
    assert ratios({"cold": [3.0], "mypy": [2.0], "warm": [9.0]}, [("cold", "mypy")]) == {"cold / mypy": (1.5, 1.5, 1.5)}


def test_slow_ones_only_when_asked_for() -> None:
    assert [(c.name, c.absent) for c in chosen(ALL, [], slow=False)][1:] == [
        ("ruff", ""),
        ("flake8", "not run without --slow"),
    ]
    assert chosen(ALL, [], slow=True) == ALL
    assert chosen(ALL, ["flake8"], slow=False) == ALL[2:]
    with pytest.raises(SystemExit, match="--only nonsense: the names are cold, ruff, flake8"):
        chosen(ALL, ["nonsense"], slow=False)


def test_what_is_not_installed_says_so(tmp_path: Path) -> None:
    assert tool("x", ["no-such-one", "no-such-two"], ()).absent == "no-such-one or no-such-two is not installed"
    names = [contender.name for contender in contenders(tmp_path, "a.py", "b.py")]
    own = "cold single warm plain found diff lines keystroke fixall version click"
    assert names == [*own.split(), *"ruff ruff-warm mypy flake8 patterns torchfix".split()]


def test_the_files_of_another_tree() -> None:
    texts = {"a": "x", "b": "xyz", "c": "xy", "d": "where(where(", "e": "where("}
    assert plainest(texts) == "c"
    assert plainest({"d": "where("}) is None
    assert busiest(texts) == "d"


def test_a_sample_has_what_it_says() -> None:
    text = sample(3, 40)
    assert len(text.splitlines()) == 40
    report = check_source(text.encode(), "a.py", Settings())
    assert [finding.code for finding in report.findings] == ["WL101"] * 3
    assert not report.problems


def test_tables() -> None:
    assert table([["", "n", ""], ["long", "1", "x y"], ["s", "100", ""]]) == "        n\nlong    1  x y\ns     100"
    memory = {"parent": 30_000_000, "largest": 110_000_000, "children": 210_000_000}
    found = [
        {"copies": 1, "files": 1000, "seconds": [2.0, 4.0, 3.0], "memory": memory},
        {"copies": 2, "files": 2000, "seconds": [6.0], "memory": None},
    ]
    assert [line.split() for line in growth_table(found).splitlines()[1:]] == [
        ["1", "1,000", "3.00", "1.00", "30", "110", "210"],
        ["2", "2,000", "6.00", "2.00", "-", "-", "-"],
    ]
    stats = {("a.py", 3, "f"): (1, 1, 0.5, 2.0, {}), ("~", 0, "<len>"): (7000, 7000, 1.0, 1.0, {})}
    assert hottest(stats, 3, 1) == [["2.00", "1", "a.py:3 f"]]
    assert hottest(stats, 2, 1) == [["1.00", "7,000", "<len>"]]


def test_a_command_is_timed_and_its_status_checked(tmp_path: Path) -> None:
    code = "import sys, time; time.sleep(0.2); print('at once', file=sys.stderr); sys.exit(3)"
    assert run([sys.executable, "-c", code], tmp_path, {3}, {}).wall > 0.2
    busy = "import subprocess, sys, time; [None for _ in iter(lambda: time.process_time() < 0.3, False)]"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"
    assert 0.3 < run([sys.executable, "-c", child], tmp_path, {0}, {}).cpu < 3.0
    with pytest.raises(RunError, match="exit status 3: at once"):
        run([sys.executable, "-c", code], tmp_path, {0, 1}, {})
    with pytest.raises(RunError, match="no-such"):
        run(["./no-such"], tmp_path, {0}, {})


@pytest.mark.skipif(not has_proc(), reason="no /proc")
def test_the_memory_of_parent_and_children_is_told_apart(tmp_path: Path) -> None:
    child = "x = bytearray(150_000_000); import time; time.sleep(0.5)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    _, memory = watched([sys.executable, "-c", parent], tmp_path, {0}, {})
    assert memory is not None
    assert 1e6 < memory.parent < 100e6
    assert 140e6 < memory.largest < 300e6
    assert memory.children == pytest.approx(memory.largest, abs=20e6)  # the system counts in batches


@pytest.mark.rotated(3)
def test_it_runs(tree: Path, tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    names = ["cold", "single", "warm", "plain", "found", "keystroke", "fixall", "version", "click"]
    ran = speed("--rounds", "1", "--tree", str(tree), "--only", ",".join(names), "--json", str(figures))
    assert "sources of wherelint changed" in ran.stdout or ran.returncode == 0, ran.stdout + ran.stderr
    assert "--no-cache pkg/plain.py" in ran.stdout
    kept = json.loads(figures.read_text())
    assert list(kept["times"]) == names
    assert kept["tree"]["files"] == 2
    assert kept["ratios"].keys() == {"plain / click", "single / cold"}
    assert kept["cpu"].keys() == kept["times"].keys()
    assert kept["memory"].keys() == kept["times"].keys() - {"keystroke"} or not has_proc()
    assert all(seconds > 0 for times in kept["times"].values() for seconds in times)
    assert sorted(path.name for path in tree.rglob("*")) == ["found.py", "pkg", "plain.py"]


@pytest.mark.rotated(4)
@pytest.mark.slow
def test_growth_and_profile_run(tree: Path) -> None:
    ran = speed("--growth", "--tree", str(tree))
    rows = [line.split() for line in ran.stdout.splitlines() if line[:1].isdigit()]
    assert [row[:2] for row in rows] == [["1", "2"], ["2", "4"], ["4", "8"], ["8", "16"]], ran.stdout + ran.stderr
    ran = speed("--profile", "3", "--tree", str(tree))
    assert "slowest of 2 files" in ran.stdout, ran.stdout + ran.stderr
    assert f"pkg{os.sep}found.py" in ran.stdout
