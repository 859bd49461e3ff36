"""Run one function over many items in processes, and outlive the workers that die."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

from wherelint.collector import collect_rarely

if TYPE_CHECKING:
    from concurrent.futures import Future

Item = TypeVar("Item")
Output = TypeVar("Output")
#: A process is handed a share of what is left, one of so many for each process; of so many items at most.
_SHARES, _MOST_ITEMS = 4, 32


def run(
    function: Callable[[Item], Output],
    items: Sequence[Item],
    jobs: int,
    crashed: Callable[[Item], Output],
    progress: Callable[[int], None] = lambda done: None,
    *,
    sizes: Sequence[int] | None = None,
) -> list[Output]:
    """``[function(item) for item in items]``; ``crashed(item)`` for an item whose worker died.

    ``function`` and the items are pickled. ``progress`` is told how many items are done. ``sizes`` say how much work
    the items are: neighbours are then handed to a process together.
    """
    if jobs <= 1:
        outputs = []
        for item in items:
            outputs.append(function(item))
            progress(len(outputs))
        return outputs
    work = _Work(function, items, progress)
    waiting = (shares(sizes, jobs) if sizes is not None else [[index] for index in range(len(items))])[::-1]
    while waiting:
        # The pool does not say whose worker died: what was under way is tried again, an item at a time.
        suspects = [[index] for share in work.drain(waiting, jobs) for index in share][::-1]
        while suspects:
            for (index,) in work.drain(suspects, 1, ahead=0):
                if work.drain([[index]], 1):  # not even in a process of its own
                    work.finish(index, crashed(items[index]))
    return [work.results[index] for index in range(len(items))]


def shares(sizes: Sequence[int], jobs: int) -> list[list[int]]:
    """Which items to hand out together: neighbours, much of the work first and little last, so that all end at once."""
    left = sum(sizes)
    most = left / (jobs * _SHARES)
    large = [index for index in range(len(sizes)) if sizes[index] > most]
    found = [[index] for index in sorted(large, key=lambda index: -sizes[index])]
    left -= sum(sizes[index] for index in large)
    share: list[int] = []
    for index in (index for index in range(len(sizes)) if sizes[index] <= most):
        if share and (sum(sizes[i] for i in share) >= left / (jobs * _SHARES) or len(share) == _MOST_ITEMS):
            left -= sum(sizes[i] for i in share)
            found.append(share)
            share = []
        share.append(index)
    return [*found, share] if share else found


class _Work(Generic[Item, Output]):
    """The items, and the results that there are."""

    def __init__(
        self, function: Callable[[Item], Output], items: Sequence[Item], progress: Callable[[int], None]
    ) -> None:
        self._function = function
        self._items = items
        self._progress = progress
        self.results: dict[int, Output] = {}

    def finish(self, index: int, output: Output) -> None:
        """Note what became of an item."""
        self.results[index] = output
        self._progress(len(self.results))

    def drain(self, waiting: list[list[int]], jobs: int, ahead: int = 1) -> list[list[int]]:
        """Work through ``waiting`` until it is empty or a worker dies; return the shares that were under way then.

        ``ahead``: how many are handed over before a process is free.
        """
        # Together a quarter of the start-up of a run that needs no second process.
        import multiprocessing
        from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
        from concurrent.futures.process import BrokenProcessPool

        # "spawn": the parent may have threads (NumPy starts some), and forking those can deadlock.
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin)
        running: dict[Future[list[Output]], list[int]] = {}
        try:
            while waiting or running:
                while waiting and len(running) < jobs + ahead:
                    # A pool that broke meanwhile refuses the share: it leaves the list only once it is under way.
                    share = [self._items[index] for index in waiting[-1]]
                    with _deaf():
                        running[pool.submit(_each, self._function, share)] = waiting[-1]
                    waiting.pop()
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    for index, output in zip(running[future], future.result(), strict=True):
                        self.finish(index, output)
                    del running[future]
        except BrokenProcessPool:
            return sorted(running.values())
        except BaseException:
            for child in multiprocessing.active_children():
                child.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
        return []


def _each(function: Callable[[Item], Output], items: Sequence[Item]) -> list[Output]:
    return [function(item) for item in items]


@contextmanager
def _deaf() -> Iterator[None]:
    """Ctrl-C waits; a process that is started meanwhile never hears it, not even before it has begun."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    heard = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, heard)


def _begin() -> None:
    """Leave Ctrl-C to the parent, which stops the workers, and end with it if it cannot."""
    import threading
    from multiprocessing import parent_process

    def watch() -> None:
        parent = parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=watch, daemon=True).start()
    collect_rarely()
