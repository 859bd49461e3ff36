"""A record of the calls that gradients passed, written when a watched program has ended."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wherelint.companion.coverage import Marks
from wherelint.io.gradient_coverage import MalformedError, load
from wherelint.watcher.program import CannotRunError


@contextmanager
def recorded(record: Path | None) -> Iterator[Marks | None]:
    """Give what is to be marked, and write it to a file at the end of the block; None without a file.

    Raises CannotRunError where the file is there and is something else, OSError where it cannot be written.
    """
    if record is None:
        yield None
        return
    path = record.absolute()  # the program may change the directory
    try:
        if path.exists():
            load(path)
    except (OSError, MalformedError) as error:
        raise CannotRunError(f"{record}: {error}") from None
    marks = Marks()
    yield marks
    marks.coverage().save(path)
