"""Score WL304 on selections of published packages whose slope was measured.

    python tests/labels/slopes.py [--cache DIR] [--misses]

Each line of `slopes.jsonl` is one selection: the statement (`lines`) as in `score.py`, and `slope`:

wrong    its value is continuous at the point `at` (of the input that the condition is about), its gradient there is
         finite (`gradient`) and another than the limit from above and from below (`limit`; null: no limit)
right    anything else: the slope is right, has no limit, is nan, or the value jumps (`why`)
either   arguable; not counted

What the label says was found by executing the statement under its framework in float64, never by this tool.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

from score import Label, flags, unpacked

LABELS = Path(__file__).parent / "slopes.jsonl"


def outcome(label: Label, shown: bool) -> str:
    """What a finding, or none, is for a label."""
    if label["slope"] == "either":
        return "not counted"
    if label["slope"] == "wrong":
        return "found" if shown else "missed"
    return "false alarm" if shown else "silent"


def main() -> None:
    """Print the counts, and with --misses every label that the tool gets wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "wherelint-labels")
    parser.add_argument("--misses", action="store_true")
    options = parser.parse_args()
    labels: list[Label] = [json.loads(line) for line in LABELS.read_text(encoding="utf-8").splitlines()]
    counts: Counter[str] = Counter()
    for package in dict.fromkeys((label["package"], label["version"]) for label in labels):
        mine = [label for label in labels if (label["package"], label["version"]) == package]
        root = unpacked(*package, options.cache)
        found = flags(mine, root, "--select", "WL304") if root is not None else {}
        for label in mine if root is not None else ():
            result = outcome(label, (label["path"], label["lines"][0]) in found)
            counts[result] += 1
            if options.misses and result in ("missed", "false alarm"):
                print(f"{result}: {label['package']} {label['path']}:{label['lines'][0]}: {label['why']}")
    counted = sum(counts.values()) - counts["not counted"]
    print(dict(counts), f"right: {counts['found'] + counts['silent']} of {counted}")


if __name__ == "__main__":
    main()
