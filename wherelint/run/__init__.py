"""A file to its report, many files to a result: processes, the cache."""

import gc


def collect_rarely() -> None:
    """Let the collector, which goes through every syntax tree that is kept, come less often.

    Without it checking jax-md and numpyro took a sixth longer. Still rarer, it saves no time, and the packages of the
    benchmark take a third more memory.
    """
    gc.set_threshold(20_000, 5, 2)
