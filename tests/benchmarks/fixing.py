"""What ``--fix`` costs for files of 20, 50, 100 and 200 findings: seconds, and the ratio to the file before.

    python tests/benchmarks/fixing.py

Twice the findings should take about twice as long; ten findings in each function cost more than one.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from fixes import chain, functions

from wherelint.io.config import Settings
from wherelint.run.check import check_source

KINDS = {
    "one a function": lambda count: functions(count, 1),
    "ten a function": lambda count: functions(count // 10, 10),
    "a chain of calls": chain,
}


def main() -> None:
    for title, text in KINDS.items():
        before = 0.0
        for count in (20, 50, 100, 200):
            start = time.perf_counter()
            report = check_source(text(count).encode(), "a.py", Settings(), "safe")
            took = time.perf_counter() - start
            ratio = f"{took / before:5.2f}" if before else "    -"
            print(f"{title:18} {count:4} findings {len(report.fixed):4} fixed {took:7.2f} s {ratio}", flush=True)
            before = took


if __name__ == "__main__":
    main()
