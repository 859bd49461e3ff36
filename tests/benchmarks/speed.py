"""How long wherelint takes, beside other tools, on seven published packages (1,258 files, 13.5 MB).

    python tests/benchmarks/speed.py [--rounds N] [--only NAME,...] [--slow] [--tree DIR] [--json FILE]
    python tests/benchmarks/speed.py --growth
    python tests/benchmarks/speed.py [PATH ...] --profile [N]

Without --growth and --profile every contender runs once per round, one after the other, in the folder of the packages,
as a process of its own whose output is dropped; the table gives wall times in seconds, the seconds that all its
processes computed (CPU), of which a busy machine changes less, and the memory of the largest of them (MB). Nothing is
said about times that would be too long: that is for the reader to judge.

cold       wherelint check --no-cache: with the fixes that can be proven
single     the same in one process
warm       wherelint check with a cache that has seen the packages once
plain      wherelint check of one file that holds no selection
found      wherelint check of one file with findings
diff       wherelint check --diff of all packages: every safe fix, proven together, and what is found after it
lines      wherelint check of a file of 500 lines with 8 findings
keystroke  the same without fixes in a process that runs already, after a change of one row, as an editor has it
fixall     wherelint check --diff of a file with 100 findings
version    wherelint --version
click      python -c "import click", which every command line of this kind has to pay for
ruff       without a cache, E and F; one line a finding, because to draw its 22,000 long lines takes as long as to find
           them
ruff-warm  the same with a cache that has seen the packages once
mypy       without a cache, following no import out of the tree
flake8     --slow: E and F (and whatever plugins lie beside it: they run, selected or not)
patterns   --slow: opengrep or semgrep with one taint rule, from sqrt, log and division to a branch of a `where`; it
           leaves out folders called `test`, 9 of the files
torchfix   --slow: the LibCST linter of PyTorch, all rules; it reads only files in which "torch" stands

Tools are looked for beside the interpreter and on the PATH. The packages are downloaded once, without what they depend
on, and only read.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import pstats
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from processes import RunError, Spent, has_proc, run, watched

ROOT = Path(__file__).resolve().parent.parent.parent
CACHE = Path.home() / ".cache" / "wherelint-benchmarks"
PACKAGES = (
    "optax==0.2.8", "distrax==0.1.9", "numpyro==0.22.0", "jax-md==0.2.29", "brax==0.14.2", "kornia==0.9.0",
    "gpytorch==1.15.2",
)  # fmt: skip
#: One file of the packages that holds no selection and one with findings; another tree may have other ones.
PLAIN, FOUND = "optax/_src/utils.py", "optax/_src/linesearch.py"
#: The checkout is measured, whatever is installed; the pattern engine is not to wait for the network.
ENV = {
    "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
    "SEMGREP_ENABLE_VERSION_CHECK": "0",
    "SEMGREP_SEND_METRICS": "off",
}
#: A finding is no failure.
ALLOWED = frozenset({0, 1})
RATIOS = (
    ("cold", "ruff"),
    ("warm", "ruff-warm"),
    ("plain", "click"),
    ("patterns", "cold"),
    ("flake8", "cold"),
    ("torchfix", "cold"),
    ("single", "cold"),
    ("diff", "cold"),
)
#: Ratios of CPU seconds.
COMPUTED = (("cold", "mypy"), ("single", "mypy"), ("diff", "cold"))
#: A contender that is no command.
TYPING = "(in process)"
COPIES = (1, 2, 4, 8)
RULE = """\
rules:
  - id: singular-in-where
    languages: [python]
    severity: WARNING
    message: a singular operation reaches a branch of a where
    mode: taint
    pattern-sources:
      - pattern-either:
          - pattern: $M.sqrt(...)
          - pattern: $M.log(...)
          - pattern: $A / $B
    pattern-sinks:
      - patterns:
          - pattern: $M.where($C, $BRANCH, ...)
          - focus-metavariable: $BRANCH
      - patterns:
          - pattern: $M.where($C, $X, $BRANCH)
          - focus-metavariable: $BRANCH
"""
_WHERELINT = (sys.executable, "-m", "wherelint")
_CHECK = (*_WHERELINT, "check", "--isolated")
_SELECTION = re.compile(r"where|select|masked|nan_to_num|clip|clamp|maximum|minimum|relu|piecewise")


@dataclass(frozen=True)
class Contender:
    """A command to time, or why there is none."""

    name: str
    command: tuple[str, ...] = ()
    #: Run once before, and not timed: it fills caches, or at least has the modules compiled.
    before: tuple[str, ...] = ()
    slow: bool = False
    absent: str = ""

    @property
    def shown(self) -> str:
        """The command, as far as it says something: no folders of programs, no scratch folders."""
        words = (Path(word).name if os.path.isabs(word) else word for word in self.command)
        return " ".join(f'"{word}"' if " " in word else word for word in words)


def contenders(scratch: Path, plain: str | None, found: str) -> list[Contender]:
    """Everything that can be compared; ``scratch`` holds the caches and the rule of the pattern engine."""
    warm = (*_CHECK, "--cache-dir", str(scratch / "cache"), ".")
    version, click = (*_WHERELINT, "--version"), (sys.executable, "-c", "import click")
    one, other = (*_CHECK, "--no-cache", plain or ""), (*_CHECK, "--no-cache", found)
    rule = scratch / "rule.yaml"
    rule.write_text(RULE, encoding="utf-8")
    ruff = ("check", "--isolated", "--select", "E,F", "--output-format", "concise")
    cached = ("--cache-dir", str(scratch / "ruff"), ".")
    flake8 = ("--isolated", "--select", "E,F", ".")
    mypy = ("--cache-dir", os.devnull, "--ignore-missing-imports", "--no-site-packages", ".")
    lines, many = (scratch / "lines.py", scratch / "many.py")
    lines.write_text(sample(8, 500), encoding="utf-8")
    many.write_text(sample(100, 700), encoding="utf-8")
    diff = (*_CHECK, "--no-cache", "--diff")
    return [
        Contender("cold", (*_CHECK, "--no-cache", "."), other),
        Contender("single", (*_CHECK, "--no-cache", ".", "-j1"), other),
        Contender("warm", warm, warm),
        Contender("plain", one, one)
        if plain
        else Contender("plain", absent="no file of the tree is without a selection"),
        Contender("found", other, other),
        Contender("diff", (*diff, "."), other),
        Contender("lines", (*_CHECK, "--no-cache", str(lines)), other),
        Contender("keystroke", (TYPING, str(lines)), (TYPING, str(lines))),
        Contender("fixall", (*diff, str(many)), other),
        Contender("version", version, version),
        Contender("click", click, click),
        tool("ruff", ["ruff"], (*ruff, "--no-cache", "."), fill=True),
        tool("ruff-warm", ["ruff"], (*ruff, *cached), fill=True),
        tool("mypy", ["mypy"], mypy),
        tool("flake8", ["flake8"], flake8, slow=True),
        tool(
            "patterns",
            ["opengrep", "semgrep"],
            ("scan", "--config", str(rule), "--no-git-ignore", "--quiet", "."),
            slow=True,
        ),
        tool("torchfix", ["torchfix"], ("--select", "ALL", "."), slow=True),
    ]


def sample(findings: int, lines: int) -> str:
    """A file of so many lines and findings, one a function."""
    rows = ["import jax.numpy as jnp"]
    for number in range(findings):
        test = f"jnp.where(x > {number}, jnp.sqrt(x - {number}), 0.0)"
        rows += ["", "", f"def found_{number}(x):", f"    return {test}"]
    number = 0
    while len(rows) < lines:
        number += 1
        body = f"    return jnp.where(x > {number}, jnp.tanh(x) * y, jnp.sin(y))"
        rows += ["", "", f"def sound_{number}(x, y):", '    """Nothing is found here."""', body]
    return "\n".join(rows[:lines]) + "\n"


def keystroke(path: Path) -> Spent:
    """The check of a file of which a row has changed since the last one, without fixes, in this process."""
    from wherelint.io.config import Settings
    from wherelint.run.check import check_source

    text = path.read_text("utf-8")
    for number in range(2):
        begun, before = time.perf_counter(), time.process_time()
        changed = text.replace("jnp.tanh(x)", f"jnp.tanh(x + {time.perf_counter_ns() + number})", 1)
        report = check_source(changed.encode(), str(path), Settings())
        spent = Spent(time.perf_counter() - begun, time.process_time() - before)
    assert report.findings
    return spent


def tool(
    name: str, programs: Sequence[str], options: tuple[str, ...], *, slow: bool = False, fill: bool = False
) -> Contender:
    """The first of some programs that is installed."""
    for program in programs:
        if path := installed(program):
            command = (path, *options)
            return Contender(name, command, command if fill else (), slow)
    return Contender(name, slow=slow, absent=f"{' or '.join(programs)} is not installed")


def installed(program: str) -> str | None:
    """Where a program lies: beside the interpreter, or on the PATH."""
    return shutil.which(program, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))


def chosen(every: Iterable[Contender], only: Sequence[str], slow: bool) -> list[Contender]:
    """Those that are asked for; a slow one is only by its name or with --slow, and what is left out says so."""
    every = list(every)
    if unknown := set(only) - {contender.name for contender in every}:
        raise SystemExit(f"--only {','.join(sorted(unknown))}: the names are {', '.join(c.name for c in every)}")
    if only:
        return [contender for contender in every if contender.name in only]
    why = "not run without --slow"
    return [Contender(c.name, absent=c.absent or why) if c.slow and not slow else c for c in every]


def measure(
    every: Sequence[Contender], rounds: int, timed: Callable[[tuple[str, ...]], Spent], progress: Callable[[str], None]
) -> tuple[dict[str, list[Spent]], dict[str, str]]:
    """The times of each contender, a run of each in every round, and what went wrong with some."""
    times: dict[str, list[Spent]] = {}
    failed: dict[str, str] = {}
    running = [contender for contender in every if not contender.absent]
    for step in range(rounds + 1):
        for contender in running:
            if contender.name in failed or (step == 0 and not contender.before):
                continue
            progress(f"round {step} of {rounds}: {contender.name}" if step else f"before: {contender.name}")
            try:
                spent = timed(contender.command if step else contender.before)
            except RunError as error:
                failed[contender.name] = str(error)
                times.pop(contender.name, None)
                continue
            if step:
                times.setdefault(contender.name, []).append(spent)
    return times, failed


def ratios(
    times: Mapping[str, Sequence[float]], pairs: Iterable[tuple[str, str]] = RATIOS
) -> dict[str, tuple[float, float, float]]:
    """Median over median, and the least and the greatest ratio of one round."""
    found = {}
    for above, below in pairs:
        if above in times and below in times:
            rounds = [a / b for a, b in zip(times[above], times[below], strict=True)]
            median = statistics.median(times[above]) / statistics.median(times[below])
            found[f"{above} / {below}"] = (median, min(rounds), max(rounds))
    return found


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width: the first and the last to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    last = len(widths) - 1
    lines = (
        "  ".join(
            cell.ljust(width) if index in (0, last) else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
    return "\n".join(lines)


def plainest(texts: Mapping[str, str]) -> str | None:
    """Of the files without a word that selects, if there are any, the one of median length."""
    names = sorted((name for name in texts if not _SELECTION.search(texts[name])), key=lambda n: (len(texts[n]), n))
    return names[len(names) // 2] if names else None


def busiest(texts: Mapping[str, str]) -> str:
    """The file with the most calls of `where`."""
    return max(sorted(texts), key=lambda name: texts[name].count("where("))


def read(tree: Path) -> dict[str, str]:
    """Every Python file of a tree, by its name below it; from now on they are in the memory of the system."""
    texts = {
        path.relative_to(tree).as_posix(): path.read_text("utf-8", "replace") for path in sorted(tree.rglob("*.py"))
    }
    if not texts:
        raise SystemExit(f"{tree}: no Python file")
    return texts


def packages(cache: Path = CACHE) -> Path:
    """The folder with the Python files of all packages, downloaded when it is first asked for."""
    root = cache / f"tree-{hashlib.sha256(' '.join(PACKAGES).encode()).hexdigest()[:8]}"
    if not root.is_dir():
        command = ["-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d"]
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            subprocess.run([sys.executable, *command, str(Path(scratch) / "wheels"), *PACKAGES], check=True)
            for wheel in sorted(Path(scratch).glob("wheels/*.whl")):
                with zipfile.ZipFile(wheel) as archive:
                    archive.extractall(
                        Path(scratch) / "tree", [name for name in archive.namelist() if name.endswith(".py")]
                    )
            (Path(scratch) / "tree").rename(root)
    return root


def growth(tree: Path, rounds: int, files: int, progress: Callable[[str], None]) -> list[dict[str, Any]]:
    """A cold run over one, two, four and eight copies of the tree, in rounds; the copies are removed."""
    with tempfile.TemporaryDirectory(prefix="wherelint-growth-") as name:
        folder = Path(name)
        copies = [f"copy{index}" for index in range(max(COPIES))]
        for copy in copies:
            shutil.copytree(tree, folder / copy, ignore=_not_python)
        runs: dict[int, list[tuple[Spent, Any]]] = {count: [] for count in COPIES}
        run((*_CHECK, "--no-cache", f"{copies[0]}/{next(iter(read(tree)))}"), folder, ALLOWED, ENV)
        for step in range(rounds):
            for count in COPIES:
                progress(f"round {step + 1} of {rounds}: {count} times the tree")
                runs[count].append(watched((*_CHECK, "--no-cache", *copies[:count]), folder, ALLOWED, ENV))
    found = []
    for count, measured in runs.items():
        peaks = [asdict(memory) for _, memory in measured if memory is not None]
        found.append({
            "copies": count,
            "files": count * files,
            "seconds": [spent.wall for spent, _ in measured],
            "memory": {key: max(peak[key] for peak in peaks) for key in peaks[0]} if peaks else None,
        })  # fmt: skip
    return found


def _not_python(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if not name.endswith(".py") and not os.path.isdir(os.path.join(folder, name))]


def growth_table(found: Sequence[Mapping[str, Any]]) -> str:
    """The rows of :func:`growth`."""
    single = statistics.median(found[0]["seconds"])
    rows = [["copies", "files", "seconds", "to one", "parent MB", "largest child MB", "children MB", ""]]
    for row in found:
        seconds = statistics.median(row["seconds"])
        memory = row["memory"] or {}
        peaks = [f"{memory[key] / 1e6:.0f}" if memory else "-" for key in ("parent", "largest", "children")]
        rows.append([str(row["copies"]), f"{row['files']:,}", f"{seconds:.2f}", f"{seconds / single:.2f}", *peaks, ""])
    return table(rows)


def profile(tree: Path, paths: Sequence[str], top: int) -> None:
    """Print where the time of one cold run in this process goes, and which files took the longest."""
    from wherelint.cli import main
    from wherelint.run import pool

    spent: list[tuple[float, str]] = []
    everything = pool.run

    def watching(function: Callable[[Any], Any], *rest: Any, **options: Any) -> Any:
        def timed(item: Any) -> Any:
            begun = time.perf_counter()
            done = function(item)
            spent.append((time.perf_counter() - begun, str(getattr(item, "name", item))))
            return done

        return everything(timed, *rest, **options)

    profiler = cProfile.Profile()
    with (
        mock.patch.object(pool, "run", watching),
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        contextlib.redirect_stdout(nowhere),
    ):
        here = os.getcwd()
        os.chdir(tree)
        try:
            status = profiler.runcall(main, ["check", "--isolated", "--no-cache", "-j1", *paths])
        finally:
            os.chdir(here)
    if status not in ALLOWED:
        raise SystemExit(f"wherelint: exit status {status}")
    # The stub of pstats does not know what Stats is made of.
    stats: dict[tuple[str, int, str], tuple[Any, ...]] = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    for title, column in (("cumulative", 3), ("own", 2)):
        print(f"\nby {title} time, in seconds, under the profiler")
        print(table([["seconds", "calls", ""], *hottest(stats, column, top)]))
    print(f"\nthe slowest of {len(spent)} files, in seconds, under the profiler")
    print(table([["seconds", ""], *([f"{seconds:.2f}", name] for seconds, name in sorted(spent, reverse=True)[:top])]))


def hottest(stats: Mapping[tuple[str, int, str], Sequence[Any]], column: int, top: int) -> list[list[str]]:
    """The functions with the most time in a column of cProfile's figures."""
    rows = sorted(stats.items(), key=lambda item: -item[1][column])[:top]
    found = []
    for (file, row, name), figures in rows:
        place = file.removeprefix(f"{ROOT}{os.sep}") if file != "~" else ""
        found.append([f"{figures[column]:.2f}", f"{figures[1]:,}", f"{place}:{row} {name}" if place else name])
    return found


def versions() -> dict[str, str]:
    """What is measured, and in what."""
    found = {
        "python": platform.python_version(),
        "wherelint": _said(*_WHERELINT, "--version").removeprefix("wherelint "),
    }
    if commit := _said("git", "-C", str(ROOT), "describe", "--always", "--dirty"):
        found["commit"] = commit
    for package in ("click", "libcst", "numpy"):
        found[package] = importlib.metadata.version(package)
    for program in ("ruff", "mypy", "flake8", "opengrep", "semgrep", "torchfix"):
        if path := installed(program):
            found[program] = _said(path, "--version").removeprefix(f"{program} ")
    return found


def fingerprint(package: Path = ROOT / "wherelint") -> str:
    """A digest of the sources that are measured."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _said(*command: str) -> str:
    """The first line that a command prints, if it works."""
    with contextlib.suppress(OSError):
        ran = subprocess.run(command, cwd=ROOT, env={**os.environ, **ENV}, capture_output=True, text=True, check=False)
        if ran.returncode == 0 and ran.stdout.strip():
            return ran.stdout.strip().splitlines()[0]
    return ""


def machine() -> dict[str, Any]:
    """Where it is measured; a load that is not near 0 spoils the figures."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="minutes"),
        "system": platform.platform(),
        "cores": cores,
        "load": load,
    }


def _progress(what: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{what}", end="", file=sys.stderr, flush=True)


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError
    return number


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, help="what to profile, instead of the tree")
    parser.add_argument("--rounds", type=_positive, metavar="N", help="default: 3, of --growth 1")
    parser.add_argument("--only", default="", metavar="NAME,...", help="these contenders")
    parser.add_argument("--slow", action="store_true", help="those that take minutes as well")
    parser.add_argument("--tree", type=Path, metavar="DIR", help="measure on this folder, download nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--growth", action="store_true", help="time and memory over 1, 2, 4 and 8 copies of the tree")
    mode.add_argument("--profile", nargs="?", const=25, type=_positive, metavar="N", help="the N hottest functions")
    options = parser.parse_args()
    if options.paths and options.profile is None:
        parser.error("paths are for --profile")
    if (options.growth or options.profile) and (options.only or options.slow):
        parser.error("--growth and --profile have no contenders to choose from")
    if options.profile and (options.json or options.rounds):
        parser.error("--profile has neither rounds nor figures to keep")
    return options


def main() -> int:
    """Print the figures; the exit status is 1 if a contender could not be run."""
    options = _options()
    sys.path.insert(0, str(ROOT))
    only = [name.strip() for name in options.only.split(",") if name.strip()]
    figures: dict[str, Any] = {**machine(), "versions": versions()}
    measured = fingerprint()
    print(", ".join(f"{key} {value}" for key, value in figures.items() if key != "versions"))
    print(", ".join(f"{key} {value}" for key, value in figures["versions"].items()))
    if options.paths:
        profile(Path.cwd(), [str(path) for path in options.paths], options.profile)
        return 0
    tree = (options.tree or packages()).resolve()
    texts = read(tree)
    size = sum((tree / name).stat().st_size for name in texts)
    figures["tree"] = {"folder": str(tree), "files": len(texts), "bytes": size}
    print(f"{tree}: {len(texts):,} files, {size / 1e6:.1f} MB", flush=True)
    if options.profile:
        profile(tree, ["."], options.profile)
        return 0
    failed: dict[str, str] = {}
    print()
    if options.growth:
        figures["growth"] = growth(tree, options.rounds or 1, len(texts), _progress)
        _progress("")
        print(growth_table(figures["growth"]))
        if not has_proc():
            print("no memory: this system does not list the children of a process in /proc")
    else:
        failed = _compare(tree, texts, only, options, figures)
    if fingerprint() != measured:
        failed["wherelint"] = "the sources changed meanwhile"
        print("\nthe sources of wherelint changed meanwhile: these figures are of no one version")
    figures["failed"] = failed
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 1 if failed else 0


def _compare(
    tree: Path, texts: Mapping[str, str], only: Sequence[str], options: argparse.Namespace, figures: dict[str, Any]
) -> dict[str, str]:
    """Time the contenders and print the two tables; what went wrong."""
    plain = PLAIN if PLAIN in texts else plainest(texts)
    found = FOUND if FOUND in texts else busiest(texts)
    peaks: dict[tuple[str, ...], int] = {}

    def timed(command: tuple[str, ...]) -> Spent:
        if command[0] == TYPING:
            return keystroke(Path(command[1]))
        spent, memory = watched(command, tree, ALLOWED, ENV)
        if memory is not None:
            peaks[command] = max(memory.parent, memory.largest, peaks.get(command, 0))
        return spent

    with tempfile.TemporaryDirectory(prefix="wherelint-speed-") as scratch:
        every = chosen(contenders(Path(scratch), plain, found), only, options.slow)
        times, failed = measure(every, options.rounds or 3, timed, _progress)
    _progress("")
    walls = {name: [each.wall for each in spent] for name, spent in times.items()}
    computed = {name: [each.cpu for each in spent] for name, spent in times.items()}
    rows = [["", "median", "min", "max", "CPU", "MB", ""]]
    for contender in every:
        if wall := walls.get(contender.name):
            cpu = statistics.median(computed[contender.name])
            cells = [f"{seconds:.3f}" for seconds in (statistics.median(wall), min(wall), max(wall), cpu)]
            peak = peaks.get(contender.command)
            rows.append([contender.name, *cells, f"{peak / 1e6:.0f}" if peak else "-", contender.shown])
        else:
            why = contender.absent or f"failed: {failed[contender.name]}"
            rows.append([contender.name, "-", "-", "-", "-", "-", why])
    by_cpu = {f"{name}, CPU": values for name, values in ratios(computed, COMPUTED).items()}
    compared = ratios(walls) | by_cpu
    print(table(rows))
    if compared:
        print()
        print(table([["", "ratio", "min", "max", ""]] + [
            [name, *(f"{value:.2f}" for value in values), ""] for name, values in compared.items()
        ]))  # fmt: skip
    figures["times"], figures["cpu"] = walls, computed
    figures["memory"] = {c.name: peaks[c.command] for c in every if c.command in peaks}
    figures["absent"] = {c.name: c.absent for c in every if c.absent}
    figures["ratios"] = {name: values[0] for name, values in compared.items()}
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
