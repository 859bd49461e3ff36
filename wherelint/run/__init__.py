"""A file to its report, many files to a result: processes, the cache."""

import gc


def collect_rarely() -> None:
    """Let the collector, which goes through every syntax tree that is kept, come less often.

    At 20,000 objects it took a tenth of the time on kornia and numpyro; later than at 100,000 nothing is saved.
    """
    gc.set_threshold(100_000, 5, 2)
