"""Run one function over many items in processes, and outlive the workers that die.

A worker reads requests on standard input and replies on what was standard output, one pickle after the other. A worker
that ends without a full reply has died.
"""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

from wherelint.isolated import command
from wherelint.run import collect_rarely

Item = TypeVar("Item")
Output = TypeVar("Output")
#: Seconds after which Ctrl-C is heard that the system reported to another thread.
_PATIENCE = 0.2
_WORKER = "from wherelint.run.pool import work; work()"
#: Seconds for a worker that is not busy to end by itself once its parent is gone.
_GRACE = 1.0


def run(
    function: Callable[[Item], Output],
    items: Sequence[Item],
    jobs: int,
    crashed: Callable[[Item], Output],
    done: Callable[[int, Output], None] = lambda index, output: None,
    *,
    share: int = 1,
) -> list[Output]:
    """``[function(item) for item in items]``; ``crashed(item)`` for an item whose worker died.

    ``function`` and the items are pickled, and not of ``__main__``, which no worker imports. ``done`` gets the index of
    an item that is done, and its output. ``share``: so many neighbours go to a process together.
    """
    results: dict[int, Output] = {}
    if jobs <= 1:
        for index, item in enumerate(items):
            results[index] = function(item)
            done(index, results[index])
        return list(results.values())
    workers = [_Worker() for _ in range(jobs)]
    free: SimpleQueue[_Worker] = SimpleQueue()
    for worker in workers:
        free.put(worker)

    def ask(indices: Sequence[int]) -> list[Output]:
        worker = free.get()
        try:
            outputs: list[Output] = worker.ask((function, [items[index] for index in indices]))
            return outputs
        finally:
            free.put(worker)

    def alone(index: int) -> Output:
        for _ in range(2):  # the second time in a process that has done nothing else
            with suppress(_DiedError):
                return ask([index])[0]
        return crashed(items[index])

    def together(indices: Sequence[int]) -> list[Output]:
        try:
            return ask(indices)
        except _DiedError:
            return [alone(index) for index in indices]

    threads = ThreadPoolExecutor(jobs)
    try:
        shares = [range(len(items))[start : start + share] for start in range(0, len(items), share)]
        pending = {threads.submit(together, indices): indices for indices in shares}
        while pending:
            for future in wait(pending, _PATIENCE, FIRST_COMPLETED).done:
                for index, output in zip(pending.pop(future), future.result(), strict=True):
                    results[index] = output
                    done(index, output)
    except BaseException:
        for worker in workers:
            worker.kill()
        raise
    finally:
        threads.shutdown(cancel_futures=True)
        for worker in workers:
            worker.end()
    return [results[index] for index in range(len(items))]


class _DiedError(Exception):
    """A worker has died."""


class _Worker:
    """A process that runs functions, and after its death another one. It hears no Ctrl-C."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False
        self._lock = threading.Lock()

    def ask(self, request: Any) -> Any:
        """The reply to a request, which is raised if it is an exception. Raises _DiedError where none comes."""
        with self._lock:
            if self._killed:
                raise _DiedError
            if self._process is None:
                self._process = subprocess.Popen(
                    command(_WORKER), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
                    creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # Windows has no sessions
                )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            pickle.dump(request, self._process.stdin)
            self._process.stdin.flush()
            reply = pickle.load(self._process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            self.end()
            raise _DiedError from None
        if isinstance(reply, Exception):
            raise reply
        return reply

    def kill(self) -> None:
        """End the process now, and start no other."""
        with self._lock:
            self._killed = True
            if self._process is not None:
                self._process.kill()

    def end(self) -> None:
        """Let the process end."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            with suppress(OSError), process:  # a part of a request may be left, which nobody reads
                pass


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
