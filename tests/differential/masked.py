"""``python -m differential.masked 5000 --seed 0``: what ``wherelint.jax.mask_gradients`` makes of random programs.

The value is that of the program, and the gradient is JAX's wherever that is finite; elsewhere it is that of the program
which never computes the arm that it drops.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from executing import Outcome

from differential.compare import POINTS, Disagreement, heals, told
from differential.programs import generate, write
from differential.truth import Framework

_BATCH = tuple(np.stack(column) for column in zip(*POINTS, strict=True))
_MOST_LAZY = 2


@dataclass
class MaskTally:
    """Counts over many programs, and every disagreement."""

    counts: Counter[str] = field(default_factory=Counter)
    disagreements: list[Disagreement] = field(default_factory=list)


def ask(seed: int, tally: MaskTally) -> None:
    """One program, at every point."""
    from wherelint.jax import mask_gradients

    rng = random.Random(f"jax {seed}")
    program = generate(rng, "jax")
    text = write(program, rng)
    real = Framework(program, text)
    f = real.function
    plain, masked = _at_all(f), _at_all(mask_gradients(f))
    count = tally.counts
    count["programs"] += 1
    lazily = 0
    for i, (ours, theirs) in enumerate(zip(masked, plain, strict=True)):
        count["points"] += 1

        def disagree(kind: str, other: Outcome, i: int = i, ours: Outcome = ours) -> None:
            tally.disagreements.append(Disagreement(kind, text, POINTS[i], f"{told(ours)}; JAX: {told(other)}"))

        if not _same(ours.value, theirs.value):
            disagree("value", theirs)
        pairs = list(zip(ours.gradients, theirs.gradients, strict=True))
        if not all(_same(mine[np.isfinite(g)], g[np.isfinite(g)]) for mine, g in pairs):
            disagree("gradient", theirs)
        if not np.isfinite(theirs.value).all() or theirs.regular:
            continue
        count["not finite"] += 1
        count["finite when masked"] += ours.regular
        if lazily < _MOST_LAZY:
            lazily += 1
            count["asked lazily"] += 1
            truth = real.lazily(POINTS[i])
            pairs = list(zip(ours.gradients, truth.gradients, strict=True))
            if not all(
                _same(mine[both], g[both]) for mine, g in pairs for both in [np.isfinite(mine) & np.isfinite(g)]
            ):
                disagree("repaired", truth)
            if heals(truth, ours):
                disagree("not healed", truth)


def _at_all(f: Callable[..., Any]) -> list[Outcome]:
    import jax
    import jax.numpy as jnp

    def summed(ct: Any, *args: Any) -> tuple[Any, Any]:
        value = f(*args)
        return jnp.sum(value * ct), value

    run = jax.jit(jax.vmap(jax.value_and_grad(summed, (1, 2), has_aux=True), (None, 0, 0)))
    (_, values), gradients = run(np.float32(1), *_BATCH)
    return [Outcome("jit", np.asarray(value), [np.asarray(g[i]) for g in gradients]) for i, value in enumerate(values)]


def _same(one: Any, other: Any) -> bool:
    return bool(np.allclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m differential.masked")
    parser.add_argument("programs", type=int)
    parser.add_argument("--seed", type=int, default=0, help="number of the first program")
    parser.add_argument("--show", type=int, default=6, help="how many disagreements of a kind are printed")
    given = parser.parse_args()
    tally, start = MaskTally(), time.perf_counter()
    for seed in range(given.seed, given.seed + given.programs):
        ask(seed, tally)
    kinds = Counter(each.kind for each in tally.disagreements)
    first = {(each.kind, each.text): each for each in reversed(tally.disagreements)}
    shown: Counter[str] = Counter()
    for (kind, _), each in sorted(first.items()):
        shown[kind] += 1
        if shown[kind] <= given.show:
            print(each)
    print(dict(tally.counts), dict(kinds), dict(shown), f"{time.perf_counter() - start:.0f} s")
