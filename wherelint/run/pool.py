"""Run one function over many items in processes, and outlive the workers that die.

A worker reads requests on standard input and replies on what was standard output, one pickle after the other. A worker
that ends without a whole reply has died.
"""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from wherelint.isolated import command
from wherelint.run import collect_rarely

Item = TypeVar("Item")
Output = TypeVar("Output")
#: A process is handed a share of what is left, one of so many for each process; of so many items at most.
_SHARES, _MOST_ITEMS = 4, 32
#: Seconds after which Ctrl-C is heard that another thread was told of, or this one as it fell asleep.
_PATIENCE = 0.2
_WORKER = "from wherelint.run.pool import work; work()"
#: Seconds for a worker that is not busy to end by itself once its parent is gone.
_GRACE = 1.0


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

    ``function`` and the items are pickled, and not of ``__main__``, which no worker imports. ``progress`` is told how
    many items are done. ``sizes`` say how much work the items are: neighbours are then handed to a process together.
    """
    results: dict[int, Output] = {}
    if jobs <= 1:
        for index, item in enumerate(items):
            results[index] = function(item)
            progress(len(results))
        return list(results.values())
    waiting = shares(sizes, jobs) if sizes is not None else [[index] for index in range(len(items))]
    work = _Work(function, items, crashed, waiting)
    try:
        for _ in range(min(jobs, len(waiting))):
            # Nobody joins them, nor waits for a lock of theirs: Ctrl-C may come while this thread has it, and keep it.
            threading.Thread(target=work.go, daemon=True).start()
        while len(results) < len(items):
            try:
                reply = work.done.get(timeout=_PATIENCE)
            except Empty:
                continue
            if isinstance(reply, Exception):
                raise reply
            for index, output in reply:
                results[index] = output
                progress(len(results))
    except BaseException:
        work.stop()
        raise
    finally:
        work.end()
    return [results[index] for index in range(len(items))]


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


class _DiedError(Exception):
    """A worker has died."""


class _Worker:
    """A process that runs functions, for one thread. It hears no Ctrl-C."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            command(_WORKER), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # Windows has no sessions
        )  # fmt: skip

    def ask(self, request: Any) -> Any:
        """The reply to a request, which is raised if it is an exception. Raises _DiedError where none comes."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            pickle.dump(request, self._process.stdin)
            self._process.stdin.flush()
            reply = pickle.load(self._process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            raise _DiedError from None
        if isinstance(reply, Exception):
            raise reply
        return reply

    def kill(self) -> None:
        """End the process now."""
        self._process.kill()

    def end(self) -> None:
        """Let the process end."""
        with suppress(OSError), self._process:  # a part of a request may be left, which nobody reads
            pass


class _Work(Generic[Item, Output]):
    """The items, and a worker for each thread that works on them."""

    def __init__(
        self,
        function: Callable[[Item], Output],
        items: Sequence[Item],
        crashed: Callable[[Item], Output],
        waiting: list[list[int]],
    ) -> None:
        #: The outputs with their indices, a share at a time, or what was raised.
        self.done: SimpleQueue[list[tuple[int, Output]] | Exception] = SimpleQueue()
        self._function = function
        self._items = items
        self._crashed = crashed
        self._waiting = iter(waiting)  # shared by the threads
        self._workers: dict[int, _Worker] = {}
        self._lock = threading.Lock()
        self._stopped = False

    def go(self) -> None:
        """Work on a share after the other, until none is left."""
        for share in self._waiting:
            if self._stopped:
                return
            try:
                self.done.put(self._on(share))
            except Exception as error:  # raised by the thread that waits
                self.done.put(error)

    def _on(self, share: list[int]) -> list[tuple[int, Output]]:
        try:
            return list(zip(share, self._ask(share), strict=True))
        except _DiedError:
            return [(index, self._alone(index)) for index in share]

    def stop(self) -> None:
        """End what is under way."""
        with self._lock:
            self._stopped = True
            for worker in self._workers.values():
                worker.kill()

    def end(self) -> None:
        """Let the workers end, which have nothing to do."""
        with self._lock:  # Ctrl-C while a thread starts leaves one that nobody joins, and whose worker dies meanwhile
            workers = list(self._workers.values())
        for worker in workers:
            worker.end()

    def _alone(self, index: int) -> Output:
        for _ in range(2):  # the second time in a process that has done nothing else
            with suppress(_DiedError):
                output: Output = self._ask([index])[0]
                return output
        return self._crashed(self._items[index])

    def _ask(self, share: list[int]) -> Any:
        me = threading.get_ident()
        with self._lock:
            if self._stopped:
                raise _DiedError
            worker = self._workers.get(me) or self._workers.setdefault(me, _Worker())
        try:
            return worker.ask((self._function, [self._items[index] for index in share]))
        except _DiedError:
            with self._lock:
                del self._workers[me]
            worker.end()
            raise


def work() -> None:
    """Answer requests, a function and its items each, until the parent closes the pipe or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C, and ends its workers
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed is no reply
    collect_rarely()
    requests: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    while (request := requests.get()) is not None:
        function, items = request
        try:
            reply: Any = [function(item) for item in items]
        except Exception as error:
            reply = error
        pickle.dump(reply, replies)
        replies.flush()


def _listen(requests: SimpleQueue[Any]) -> None:
    with suppress(Exception):  # the end, a part of a request, or one that cannot be read here
        while True:
            requests.put(pickle.load(sys.stdin.buffer))
    requests.put(None)
    time.sleep(_GRACE)
    os._exit(1)  # a busy worker does not outlive its parent
