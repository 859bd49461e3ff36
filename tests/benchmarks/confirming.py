"""What it costs to confirm a finding: 64 probes in one compiled gradient, against one bare ``jit(grad)``.

    python tests/benchmarks/confirming.py [FILE ...]

For each error and warning that the files have under JAX (default: the published bugs of ``tests/cases``) it
measures, in one process and in turn, the median over several runs of

* bare: ``jit(grad)`` of the snippet, compiled and run at the witness;
* confirm: what the harness does in its ``jit`` mode, compiled and run at 64 probes;
* naive: a fresh ``jit(grad)``, compiled and run, for each of the 64 probes (extrapolated from eight);

and prints the ratios. The harness runs the snippet without ``jit`` and the fixed one as well: "all" is the time for the
four together.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from wherelint.confirm.child import build
from wherelint.confirm.routine import PROBES, Routine, Snippet
from wherelint.frameworks import FRAMEWORKS
from wherelint.io.config import Settings
from wherelint.run.check import check_source

_RUNS = 5
_NAIVE = 8


def main(paths: list[str]) -> None:
    import jax
    import jax.numpy as jnp

    files = [Path(path) for path in paths] or sorted(Path("tests/cases").glob("*/unsafe.py"))
    found = [
        finding.snippet
        for path in files
        for finding in check_source(path.read_bytes(), str(path), Settings(), "offer").findings
        if finding.framework == "jax" and isinstance(finding.snippet, Snippet)
    ]
    backend = FRAMEWORKS["jax"].backend
    assert backend is not None
    version, device, modes = backend("auto")

    def timed(run: Callable[[], object]) -> float:
        times = []
        for _ in range(_RUNS):
            jax.clear_caches()
            begun = time.perf_counter()
            run()
            times.append(time.perf_counter() - begun)
        return statistics.median(times)

    def parts(routine: Routine) -> tuple[list[np.ndarray], list[int]]:
        probes = [np.asarray(p, np.bool_ if s.kind == "bool" else np.float32)
                  for p, s in zip(routine.probes, routine.parameters, strict=True)]  # fmt: skip
        return probes, [i for i, step in enumerate(routine.parameters) if step.data]

    def bare(routine: Routine, probe: int) -> None:
        probes, watched = parts(routine)
        function = build("jax", routine.steps)
        gradient = jax.jit(jax.grad(lambda *inputs: jnp.sum(function(*inputs)), argnums=tuple(watched)))
        jax.block_until_ready(gradient(*(p[probe : probe + 1] for p in probes)))

    def confirm(routine: Routine, mode: str) -> None:
        modes[mode](build("jax", routine.steps), *parts(routine))

    def everything(snippet: Snippet) -> None:
        for routine in (snippet.before, snippet.after):
            for mode in modes if routine is not None else ():
                confirm(routine, mode)

    bare(found[0].before, 0)  # whatever is done once
    rows = []
    for snippet in found:
        once = timed(lambda s=snippet: bare(s.before, 0))  # type: ignore[misc]
        confirmed = timed(lambda s=snippet: confirm(s.before, "jit"))  # type: ignore[misc]
        naive = timed(lambda s=snippet: [bare(s.before, p) for p in range(_NAIVE)]) * PROBES / _NAIVE  # type: ignore[misc]
        whole = timed(lambda s=snippet: everything(s))  # type: ignore[misc]
        rows.append((once, confirmed, naive, whole))
    print(f"jax {version} on {device}, {len(rows)} findings, medians of {_RUNS}")
    once, confirmed, naive, whole = (statistics.median(column) for column in zip(*rows, strict=True))
    print(
        f"bare {once * 1e3:.0f} ms, confirm {confirmed * 1e3:.0f} ms, "
        f"naive {naive * 1e3:.0f} ms, all {whole * 1e3:.0f} ms"
    )
    ratios = sorted(c / b for b, c, _, _ in rows)
    print(f"confirm / bare: median {statistics.median(ratios):.2f}, from {ratios[0]:.2f} to {ratios[-1]:.2f}")
    print(f"naive / confirm: median {statistics.median(n / c for _, c, n, _ in rows):.0f}")
    print(f"all / bare: median {statistics.median(a / b for b, _, _, a in rows):.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])
