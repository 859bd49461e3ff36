"""Fit the weights of the evidence on labelled and judged findings, each package left out in turn.

    python tests/labels/fit.py tests/labels/*.jsonl [--cache DIR] [--threshold 0.5]

Label files are those of score.py. A file of judged findings has one finding a line: `package`, `version`, `path`,
`row`, `code`, `function`, and `verdict`: true, arguable or false. Right are textbook and true ones, wrong are safe and
false ones; incidental ones count half, arguable ones are not fitted.

Printed: what is shown by the weights in wherelint, by a fit to all packages, and by fits to all packages but the one at
hand; then the fitted weights, with how often such evidence stood with findings that are right, arguable, and wrong.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from score import unpacked

from wherelint.evidence.pieces import labelled, worth

RIGHT = {"unsafe-guard": 1.0, "true": 1.0, "unsafe-incidental": 0.5}
WRONG = {"safe": 1.0, "false": 1.0}
#: Pulls the weights of rare evidence to 0.
_RIDGE = 0.7
_NEAR = 3


class Row(NamedTuple):
    """A finding and what somebody said of it."""

    package: str
    said: str
    evidence: frozenset[str]


def matched(entry: dict[str, Any], findings: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """The finding that a label or a judgement is about: the one with the highest score."""
    found = []
    for finding in findings:
        same = Path(finding["filename"]).as_posix().endswith(entry["path"])
        if "lines" in entry:
            here = entry["lines"][0] <= finding["select"]["location"]["row"] <= entry["lines"][1]
        else:
            here = (finding["code"], finding["function"]) == (entry["code"], entry["function"])
            here = here and abs(finding["location"]["row"] - entry["row"]) <= _NEAR
        if same and here:
            found.append(finding)
    return max(found, key=lambda finding: float(finding["score"]), default=None)


def rows(entries: Sequence[dict[str, Any]], cache: Path) -> list[Row]:
    """Every label and judgement of which there is a finding."""
    by_package: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for entry in entries:
        by_package[entry["package"].replace("_", "-"), entry["version"]].append(entry)
    made = []
    for (package, version), group in sorted(by_package.items()):
        root = unpacked(package, version, cache)
        if root is None:
            continue
        names = {e["path"] for e in group}
        there = {p.relative_to(root).as_posix() for name in names for p in root.rglob(Path(name).name)}
        paths = sorted(path for path in there if any(f"/{path}".endswith(f"/{name}") for name in names))
        command = [sys.executable, "-m", "wherelint", "check", "--isolated", "--exit-zero", "--output-format", "json"]
        run = subprocess.run(
            [*command, "--level", "note", *paths], cwd=root, capture_output=True, text=True, check=True
        )
        findings = [finding for finding in json.loads(run.stdout) if finding["code"]]
        for entry in group:
            finding = matched(entry, findings)
            if finding is not None:
                said = entry.get("verdict") or entry["score"]
                made.append(Row(package, said, frozenset(finding["evidence"])))
    return made


def fit(rows: Sequence[Row], names: Sequence[str]) -> dict[str, float]:
    """The log-odds of every piece of evidence, and of none ("")."""
    known = [row for row in rows if row.said in RIGHT or row.said in WRONG]
    features = np.array([[True, *(name in row.evidence for name in names)] for row in known], float)
    right = np.array([row.said in RIGHT for row in known], float)
    share = np.array([RIGHT.get(row.said, 0) + WRONG.get(row.said, 0) for row in known])
    ridge = np.diag([0.0] + [_RIDGE] * len(names))
    weights = np.zeros(len(names) + 1)
    for _ in range(50):  # Newton's method
        odds = 1 / (1 + np.exp(-features @ weights))
        slope = features.T @ (share * (odds - right)) + ridge @ weights
        weights -= 0.7 * np.linalg.solve((features.T * (share * odds * (1 - odds))) @ features + ridge, slope)
    return dict(zip(["", *names], weights.tolist(), strict=True))


def probability(row: Row, weights: dict[str, float]) -> float:
    """The fitted share of findings like this one that are right."""
    return float(1 / (1 + np.exp(-weights[""] - sum(weights.get(name, 0.0) for name in row.evidence))))


def _tell(title: str, rows: Sequence[Row], shown: Sequence[bool]) -> None:
    counts = Counter(row.said for row, show in zip(rows, shown, strict=True) if show)
    whole = Counter(row.said for row in rows)
    print(title, ", ".join(f"{said} {counts[said]}/{whole[said]}" for said in sorted(whole)))
    judged = counts["true"] + counts["arguable"] + counts["false"]
    print(f"    of the judged ones that are shown, {counts['false'] / max(judged, 1):.0%} are false")


def main() -> None:
    """Print what is shown, and the weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "wherelint-labels")
    parser.add_argument("--threshold", type=float, default=0.5)
    options = parser.parse_args()
    lines = [line for file in options.files for line in file.read_text(encoding="utf-8").splitlines()]
    found = rows([entry for line in lines if "slope" not in (entry := json.loads(line))], options.cache)
    counts = Counter(name for row in found for name in row.evidence)
    names = sorted(name for name in counts if counts[name] > 1)
    least = options.threshold
    _tell("as it is:", found, [worth(labelled(row.evidence)) >= least for row in found])
    everything = fit(found, names)
    _tell("fitted to all:", found, [probability(row, everything) >= least for row in found])
    others = {p: fit([row for row in found if row.package != p], names) for p in {row.package for row in found}}
    _tell("fitted to the others:", found, [probability(row, others[row.package]) >= least for row in found])
    for name in sorted(names, key=lambda name: -abs(everything[name])):
        stood = Counter(
            "RIGHT" if r.said in RIGHT else "WRONG" if r.said in WRONG else "?" for r in found if name in r.evidence
        )
        print(f"{name:42} {everything[name]:+.2f}  {stood['RIGHT']}, {stood['?']}, {stood['WRONG']}")


if __name__ == "__main__":
    main()
