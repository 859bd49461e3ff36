"""Functions for worker processes, which import them by name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from wherelint.finding import FileReport
from wherelint.io.files import Target
from wherelint.run.check import check_source


def square(item: int) -> int:
    return item * item


def square_slowly(item: int) -> int:
    time.sleep(0.01 * (item % 3))
    return item * item


def die_at_seven(item: int) -> int:
    if item == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return item * item


def die_always(item: int) -> int:
    os._exit(3)


def sleep(item: int) -> int:
    time.sleep(60)
    return item


def raise_error(item: int) -> int:
    raise ValueError(str(item))


def say(item: int) -> int:
    print(item, flush=True)
    os.write(1, b"%d\n" % item)
    return item


def wait(target: Target) -> tuple[FileReport, None]:
    """Check an empty file in the place of one, once there is a file called go."""
    while not Path("go").exists():
        time.sleep(0.01)
    return check_source(b"", target.name, target.settings), None


def spin(folder: str) -> None:
    """Be busy for ever, and say so in a folder."""
    Path(folder, str(os.getpid())).touch()
    while True:
        pass
