"""Run one function over many items in processes, and outlive the workers that die."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

Item = TypeVar("Item")
Output = TypeVar("Output")


def run(
    function: Callable[[Item], Output],
    items: Sequence[Item],
    jobs: int,
    crashed: Callable[[Item], Output],
    progress: Callable[[int], None] = lambda done: None,
) -> list[Output]:
    """``[function(item) for item in items]``; ``crashed(item)`` for an item whose worker died.

    ``function`` and the items are pickled. ``progress`` is told how many items are done.
    """
    results: dict[int, Output] = {}
    if jobs <= 1:
        for index, item in enumerate(items):
            results[index] = function(item)
            progress(len(results))
        return [results[index] for index in range(len(items))]
    waiting = list(range(len(items)))[::-1]
    while waiting:
        suspects = _drain(function, items, waiting, jobs, results, progress)
        # The pool does not say whose worker died: those that were under way are tried again, one alone at a time.
        for index in suspects:
            if _drain(function, items, [index], 1, results, progress):
                results[index] = crashed(items[index])
                progress(len(results))
    return [results[index] for index in range(len(items))]


def _drain(
    function: Callable[[Item], Output],
    items: Sequence[Item],
    waiting: list[int],
    jobs: int,
    results: dict[int, Output],
    progress: Callable[[int], None],
) -> list[int]:
    """Work through ``waiting`` until it is empty or a worker dies; return the items that were under way then."""
    # "spawn": the parent may have threads (NumPy starts some), and forking those can deadlock.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_ignore_interrupt)
    running: dict[Future[Output], int] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs + 1:
                # A pool that broke meanwhile refuses the item: it leaves the list only once it is under way.
                running[pool.submit(function, items[waiting[-1]])] = waiting[-1]
                waiting.pop()
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                results[running[future]] = future.result()
                del running[future]
                progress(len(results))
    except BrokenProcessPool:
        return sorted({index for index in running.values() if index not in results})
    except BaseException:
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
    return []


def _ignore_interrupt() -> None:
    """Leave Ctrl-C to the parent, which stops the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
