"""A process that runs functions for another one: requests on standard input, replies on what was standard output.

A message is its length in bytes, on a line, and a pickle. A process that ends without a reply has died.
"""

import os
import pickle
import signal
import sys
import threading
import time
from queue import SimpleQueue
from typing import IO, Any

from wherelint.run import collect_rarely

#: Seconds for a worker that is not busy to end by itself once its parent is gone.
_GRACE = 1.0


def send(stream: IO[bytes], message: Any) -> None:
    """Write a message. Raises OSError where nobody reads."""
    content = pickle.dumps(message)
    stream.write(b"%d\n" % len(content))
    stream.write(content)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes:
    """The next message, pickled. Raises EOFError where there is none, or a part of one."""
    length = stream.readline()
    content = stream.read(int(length)) if length.endswith(b"\n") else b""
    if not content or len(content) < int(length):
        raise EOFError
    return content


def main() -> None:
    """Answer requests, a function and its items each, until the parent closes the pipe or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C, and ends its workers
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed is no reply
    collect_rarely()
    requests: SimpleQueue[bytes | None] = SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    while (request := requests.get()) is not None:
        function, items = pickle.loads(request)
        try:
            reply: Any = [function(item) for item in items]
        except Exception as error:
            reply = error
        send(replies, reply)


def _listen(requests: SimpleQueue[bytes | None]) -> None:
    try:
        while True:
            requests.put(receive(sys.stdin.buffer))
    except EOFError:
        requests.put(None)
    time.sleep(_GRACE)
    os._exit(1)  # a busy worker does not outlive its parent
