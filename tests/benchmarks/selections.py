"""What the witness search costs a selection, in processor time.

    python tests/benchmarks/selections.py FOLDER...

Every Python file below the folders is checked in this process; each selection that is searched counts once.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from unittest import mock

import numpy as np

from wherelint.findings import DetectOptions, detect
from wherelint.search.witness import Hazard, Search


def main() -> None:
    spent: list[float] = []
    searching = Search.hazards

    def timed(self: Search, *, low: bool = True) -> list[Hazard]:
        started = time.process_time()
        found = searching(self, low=low)
        spent.append(time.process_time() - started)
        return found

    started = time.process_time()
    with mock.patch.object(Search, "hazards", timed):
        for path in sorted(p for folder in sys.argv[1:] for p in Path(folder).rglob("*.py")):
            detect(path.read_text("utf-8", "ignore"), str(path), DetectOptions())
    whole = time.process_time() - started
    if not spent:
        raise SystemExit("no selection was searched; name folders that hold some")
    median, most, worst = np.percentile(spent, [50, 90, 100]) * 1e3
    print(f"{len(spent)} selections: median {median:.1f} ms, 9 of 10 below {most:.0f} ms, the longest {worst:.0f} ms")
    print(f"search {sum(spent):.1f} s of {whole:.1f} s")


if __name__ == "__main__":
    main()
