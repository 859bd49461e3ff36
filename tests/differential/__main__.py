"""``python -m differential jax 10000 --seed 0``: ask many programs, and print every disagreement."""

from __future__ import annotations

import argparse
import time
from collections import Counter

from differential import compare, fixes
from differential.compare import Tally

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m differential")
    parser.add_argument("framework", choices=["jax", "torch", "tensorflow"])
    parser.add_argument("programs", type=int)
    parser.add_argument("--seed", type=int, default=0, help="number of the first program")
    parser.add_argument("--show", type=int, default=10, help="how many disagreements of a kind are printed")
    parser.add_argument(
        "--fixes", action="store_true", help="ask about fixes only, of wilder programs (TensorFlow: always)"
    )
    given = parser.parse_args()
    tally, start = Tally(), time.perf_counter()
    ask = fixes.ask if given.fixes or given.framework == "tensorflow" else compare.ask
    for seed in range(given.seed, given.seed + given.programs):
        ask(seed, given.framework, tally)
    kinds = Counter(each.kind for each in tally.disagreements)
    first = {(each.kind, each.text): each for each in reversed(tally.disagreements)}
    shown: Counter[str] = Counter()
    for (kind, _), each in sorted(first.items()):
        shown[kind] += 1
        if shown[kind] <= given.show:
            print(each)
    print(dict(tally.counts), dict(kinds), f"{time.perf_counter() - start:.0f} s")
