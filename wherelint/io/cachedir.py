"""The directory of what is kept between runs: how files get into it, and how they are removed again.

It may have come with another author's tree: what is read from it is only data, and checked by its reader.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from wherelint.io.disk import TEMPORARY, replace

DEFAULT = Path(".wherelint_cache")
_MARKS = {
    ".gitignore": b"*\n",
    "CACHEDIR.TAG": b"Signature: 8a477f597d28d172789f06886806bc55\n# wherelint keeps here what it would find again.\n",
}
#: The files of ours, by the directory that they are in.
_OURS = {
    "check": re.compile(rf"wherelint\.jsonl|{TEMPORARY.pattern}"),
    "confirm": re.compile(rf"[0-9a-f]{{64}}\.json|{TEMPORARY.pattern}"),
}


class Removed(NamedTuple):
    """What was removed: so many files of so many bytes; and whether something else is left."""

    files: int
    size: int
    others: bool


def keep(path: Path, content: bytes) -> None:
    """Write a file in a directory of the cache, if that can be done; a reader sees all of it or nothing.

    A link is not followed, unless it is the path of a cache that was asked for: another author's tree may have it.
    """
    if path.parent.is_symlink() or (path.parent.parent == DEFAULT and DEFAULT.is_symlink()):
        return
    with suppress(OSError):
        _mark(path.parent.parent)
        path.parent.mkdir(exist_ok=True)
        replace(path, content, durable=False)


def clean(directory: Path) -> Removed:
    """Remove what wherelint wrote into a directory, and the directory if nothing else is in it. Raises OSError."""
    files = size = 0
    for path in list(_ours(directory)):
        length = path.lstat().st_size
        path.unlink()
        files, size = files + 1, size + length
    for emptied in (*(directory / name for name in _OURS), directory):
        with suppress(OSError):  # it is not there, or not empty
            emptied.rmdir()
    others = directory.is_dir() and any(directory.iterdir())
    return Removed(files, size, others)


def _ours(directory: Path) -> Iterator[Path]:
    for name, pattern in _OURS.items():
        folder = directory / name
        if folder.is_dir() and not folder.is_symlink():
            yield from (path for path in folder.iterdir() if pattern.fullmatch(path.name) and not path.is_dir())
    if directory.is_dir():
        yield from (path for path in directory.iterdir() if TEMPORARY.fullmatch(path.name))
    if _is_mark(directory / "CACHEDIR.TAG"):  # else another put it there; the last to go
        yield from (path for name in _MARKS if _is_mark(path := directory / name))


def _is_mark(path: Path) -> bool:
    return path.name in _MARKS and path.is_file() and path.read_bytes() == _MARKS[path.name]


def _mark(directory: Path) -> None:
    """Make the directory, which git and backups leave alone, or finish it, unless something else is in it already."""
    directory.mkdir(parents=True, exist_ok=True)
    there = [path for path in directory.iterdir() if not TEMPORARY.fullmatch(path.name)]
    if len(there) < len(_MARKS) and all(_is_mark(path) for path in there):
        for name, content in _MARKS.items():
            replace(directory / name, content, durable=False)
