"""Draw safe fixes of real packages, and execute each function before and after.

    python tests/executed_fixes.py FOLDER --seed 1 --count 60 [--path DIR] [--findings FILE] [--rows ROWS]

This EXECUTES what lies in FOLDER, the code of strangers: run it where that may do no harm. It is a tool of the tests;
nothing of the package does such a thing. Every fix has a child process of its own (`executed_child.py`), which runs the
statements of the module that can be run, and calls the function with inputs made up from its parameters; where that
is impossible, the statements of the function around the fix ("rows ... to ...").
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from wherelint.finding import Edit, Location
from wherelint.io.edits import Source

_SECONDS = 150
_CHILD = Path(__file__).with_name("executed_child.py")


class Row(NamedTuple):
    """What became of one fix: ``result`` is same, changed or not run; ``why`` says more."""

    place: str
    code: str
    function: str
    result: str
    why: str

    def __str__(self) -> str:
        return "| " + " | ".join(field.replace("|", "\\|").replace("\n", " ") for field in self) + " |"


def safe_fixes(folder: Path, kept: Path | None = None) -> list[dict[str, Any]]:
    """The findings of any level that have a safe fix; ``kept`` is where they are looked up, or written."""
    if kept is None or not kept.exists():
        command = [sys.executable, "-m", "wherelint", "check", "--isolated", "--exit-zero", "--no-cache"]
        options = ["--level", "note", "--output-format", "json", "."]
        path = os.pathsep.join([str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
        ran = subprocess.run(
            [*command, *options], cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        found = ran.stdout or "[]"
        if kept is not None:
            kept.write_text(found, encoding="utf-8")
    else:
        found = kept.read_text(encoding="utf-8")
    return [f for f in json.loads(found) if f["fix"] is not None and f["fix"]["applicability"] == "safe"]


def fixed(text: str, fix: dict[str, Any]) -> str:
    """A file after a fix."""

    def at(place: dict[str, int]) -> Location:
        return Location(place["row"], place["column"])

    edits = tuple(Edit(e["content"], at(e["location"]), at(e["end_location"])) for e in fix["edits"])
    return Source(text).edited(edits)


def execute(folder: Path, finding: dict[str, Any], paths: Sequence[Path] = (), seconds: float = _SECONDS) -> Row:
    """Run the function of a finding before and after its fix, in a child process."""
    file = folder / finding["filename"]
    before = file.read_text(encoding="utf-8")
    request = {
        "file": str(file.resolve()),
        "paths": [str(p.resolve()) for p in (*roots(folder, file), *paths)],
        "before": before,
        "after": fixed(before, finding["fix"]),
        "function": finding["function"],
        "framework": finding["framework"],
        "witness": finding["witness"]["inputs"],
        **({"selection": finding["select"]["location"]["row"]} if finding.get("select") else {}),
    }
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "OMP_NUM_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "PYTORCH_JIT": "0",
    }
    with tempfile.TemporaryDirectory() as empty:
        (Path(empty) / "request.json").write_text(json.dumps(request), encoding="utf-8")
        try:
            ran = subprocess.run(
                [sys.executable, "-W", "ignore", str(_CHILD), "request.json", "answer.json"],
                cwd=empty, env={**environment, "HOME": empty}, capture_output=True, text=True, timeout=seconds,
                check=False,
            )  # fmt: skip
            result, why = json.loads((Path(empty) / "answer.json").read_text(encoding="utf-8"))
        except subprocess.TimeoutExpired:
            result, why = "not run", f"more than {seconds} s"
        except OSError:
            result, why = "not run", f"the child died: {ran.stderr[-200:]}"
    place = f"{finding['filename']}:{finding['location']['row']}"
    return Row(place, finding["code"], finding["function"], result, why)


def roots(folder: Path, file: Path) -> list[Path]:
    """What a module is imported from: the first folder above its packages."""
    at = file.parent
    while at != folder and (at / "__init__.py").exists():
        at = at.parent
    return [at]


def main() -> int:
    parser = argparse.ArgumentParser(prog="executed_fixes.py")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--path", type=Path, action="append", default=[], help="where what the packages import lies")
    parser.add_argument("--findings", type=Path, help="the findings as JSON; written if it is not there")
    parser.add_argument("--rows", type=int, nargs="*", help="only these rows of the table")
    given = parser.parse_args()
    every = safe_fixes(given.folder, given.findings)
    drawn = random.Random(given.seed).sample(every, min(given.count, len(every)))
    counts: Counter[str] = Counter()
    print(f"{len(every)} safe fixes, {len(drawn)} drawn\n\n| # | place | rule | function | result | |")
    print("|---|---|---|---|---|---|")
    for number, finding in enumerate(drawn):
        if not given.rows or number in given.rows:
            row = execute(given.folder, finding, given.path)
            counts[row.result] += 1
            print(f"| {number} {row}", flush=True)
    print("\n" + ", ".join(f"{n} {result}" for result, n in counts.most_common()))
    return 1 if counts["changed"] else 0


if __name__ == "__main__":
    sys.exit(main())
