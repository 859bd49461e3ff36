"""The garbage collector of the processes that are ours alone."""

import gc


def collect_rarely() -> None:
    """Let the collector, which goes through every syntax tree that is kept, come less often.

    Without it checking jax-md and numpyro took a sixth longer; the peak of memory was the same.
    """
    gc.set_threshold(100_000, 20, 100)
