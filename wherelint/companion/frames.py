"""Frames of a running program, and where they are in the source."""

import linecache
import os
import site
import sys
import sysconfig
from collections.abc import Sequence
from functools import cache
from itertools import islice
from types import CodeType, FrameType

from wherelint.companion.report import Place, Places

#: A frame of the stack: its code, and the offset of the instruction that it executes.
Frame = tuple[CodeType, int]
_PATHS = ("stdlib", "purelib", "platlib")
_HOMES = [*map(sysconfig.get_path, _PATHS), *site.getsitepackages(), site.getusersitepackages()]
_LIBRARIES = tuple(os.path.abspath(home) + os.sep for home in _HOMES)


def directories(*files: str) -> tuple[str, ...]:
    """What the names of all files begin with that lie below the directories of some files."""
    return tuple(os.path.dirname(os.path.abspath(each)) + os.sep for each in files)


def calling(own: tuple[str, ...], *, to_program: bool = False) -> tuple[Frame, ...]:
    """The calling frames, the innermost first, without those of files that begin like one of ``own``.

    ``to_program``: up to the first that belongs to no library.
    """
    found: list[Frame] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(own):
            found.append((frame.f_code, frame.f_lasti))
            if to_program and not is_library(frame.f_code.co_filename):
                break
        frame = frame.f_back
    return tuple(found)


@cache
def is_library(filename: str) -> bool:
    """Whether a file belongs to an installed package or to Python."""
    return filename.startswith(("<frozen", *_LIBRARIES)) or f"{os.sep}site-packages{os.sep}" in filename


@cache
def place(frame: Frame) -> Place:
    """Where a frame is: the span of the call where Python says it (3.11), else its line."""
    code, offset = frame
    name = getattr(code, "co_qualname", code.co_name).replace(".<locals>", "")
    if sys.version_info < (3, 11):
        row = next((row for begin, end, row in code.co_lines() if begin <= offset < end and row), code.co_firstlineno)
        return Place(code.co_filename, row, function=name)
    row, end_row, column, end_column = next(islice(code.co_positions(), offset // 2, None))
    if row is None or end_row is None or column is None or end_column is None:
        return Place(code.co_filename, row or code.co_firstlineno, function=name)
    begin, end = _points(code.co_filename, row, column), _points(code.co_filename, end_row, end_column)
    return Place(code.co_filename, row, begin + 1, end_row, end + 1, name)


def places(frames: Sequence[Frame]) -> Places:
    """Where the user's program stands, of frames from the innermost on; where a library, if that is further in."""
    return user_and_library([place(each) for each in frames])


def user_and_library(found: Sequence[Place]) -> Places:
    """The same of places."""
    user = next((each for each in found if not is_library(each.filename)), None)
    return user, found[0] if found and user is not found[0] else None


def _points(filename: str, row: int, column: int) -> int:
    """The column in code points; Python counts bytes."""
    return len(linecache.getline(filename, row).encode()[:column].decode(errors="ignore")) or column
