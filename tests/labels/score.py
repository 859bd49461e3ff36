"""Score wherelint on selections that people labelled in published packages.

    python tests/labels/score.py tests/labels/*.jsonl [--misses] [--cache DIR]

Each line of a label file is one statement that holds a selection: `package`, `version`, `path` inside the wheel,
first and last row (`lines`), and `score`:

unsafe-guard       the selection excludes exactly the inputs at which the dropped operation is singular: nan there
unsafe-incidental  the same bug, though the condition is about something else
safe               no plausible input makes it happen
either             arguable; not counted

A label is flagged if a finding's selection begins inside the statement, or another selection over its operation or an
operation of the same cause, which the finding names beside its own. The packages are downloaded with pip, without
what they depend on, and only read. A repository (`repository`, and as `version` the commit) is read where somebody has
put a checkout of it in the cache, as PACKAGE-COMMIT; else it is left out, and said to be.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Label = dict[str, Any]
_COMMIT = re.compile("[0-9a-f]{12}")
#: What is shown by default.
SHOWN = ("error", "warning")
#: The level of the finding in each statement, by (path, first row).
Flags = Mapping[tuple[str, int], str]


def unpacked(package: str, version: str, cache: Path) -> Path | None:
    """The folder with a package's files, downloaded when first asked for; None if they cannot be had."""
    root = cache / f"{package}-{version}"
    if not root.is_dir() and _COMMIT.fullmatch(version):
        print(f"left out: {package}; put a checkout of commit {version} at {root}", file=sys.stderr)
        return None
    if not root.is_dir():
        wheels = cache / "wheels" / package
        command = ["-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", str(wheels)]
        if subprocess.run([sys.executable, *command, f"{package}=={version}"]).returncode:
            print(f"left out: {package}; there is no wheel of it", file=sys.stderr)
            return None
        for wheel in wheels.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(root, [n for n in archive.namelist() if n.endswith(".py")])
    return root


def flags(labels: Iterable[Label], root: Path, *arguments: str) -> dict[tuple[str, int], str]:
    """What wherelint says of the labelled statements of one package, with further arguments."""
    labels = list(labels)
    command = [sys.executable, "-m", "wherelint", "check", "--isolated", "--exit-zero", "--output-format", "json"]
    paths = sorted({label["path"] for label in labels})
    run = subprocess.run(
        [*command, "--level", "note", *arguments, *paths], cwd=root, capture_output=True, text=True, check=True
    )
    found: dict[tuple[str, int], str] = {}
    for finding in json.loads(run.stdout):
        places = [{"filename": finding["filename"], **finding["select"]}]
        places += [place for place in finding["related"] if place["code"] or place["kind"]]
        for label in labels:
            first, last = label["lines"]
            here = (label["path"], first)
            for place in places:
                same = Path(place["filename"]).as_posix().endswith(label["path"])
                if same and first <= place["location"]["row"] <= last and found.get(here) not in SHOWN:
                    found[here] = finding["severity"]
    return found


def figures(labels: Iterable[Label], found: Flags) -> dict[str, float]:
    """Precision and guard recall of what is shown by default, recall of everything, and the worth of notes."""
    said = [(label["score"], found.get((label["path"], label["lines"][0]))) for label in labels]

    def count(scores: str, *levels: str | None) -> int:
        return sum(score.startswith(scores) and level in levels for score, level in said)

    def share(part: int, *rest: int) -> float:
        return round(part / sum(rest), 3) if sum(rest) else float("nan")

    shown, notes, silent = count("unsafe", *SHOWN), count("unsafe", "note"), count("unsafe", None)
    guards = count("unsafe-guard", *SHOWN)
    return {
        "labels": len(said),
        "precision": share(shown, shown, count("safe", *SHOWN)),
        "guard recall": share(guards, guards, count("unsafe-guard", "note", None)),
        "wide recall": share(shown + notes, shown + notes, silent),
        "precision of notes": share(notes, notes, count("safe", "note")),
    }


def main() -> None:
    """Print a line for each file of labels."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "wherelint-labels")
    parser.add_argument("--misses", action="store_true", help="list every wrong verdict")
    options = parser.parse_args()
    for file in options.files:
        labels = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        found: dict[tuple[str, int], str] = {}
        started = time.perf_counter()
        for package, version in sorted({(label["package"], label["version"]) for label in labels}):
            group = [label for label in labels if label["package"] == package]
            root = unpacked(package, version, options.cache)
            if root is None:
                labels = [label for label in labels if label not in group]
                continue
            said = flags(group, root)
            found.update({(f"{package}/{path}", row): level for (path, row), level in said.items()})
        for label in labels:
            label["path"] = f"{label['package']}/{label['path']}"
        print(file.name, figures(labels, found), f"{time.perf_counter() - started:.0f} s")
        for label in labels if options.misses else []:
            level = found.get((label["path"], label["lines"][0]))
            if (level in SHOWN) == (label["score"] == "safe") and label["score"] != "either":
                place = f"{label['path']}:{label['lines'][0]}"
                print(f"  {label['id']} {label['score']}, said {level}: {place} {label['why']}")


if __name__ == "__main__":
    main()
