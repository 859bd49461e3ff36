"""What a running program was seen to do: the calls that gradients passed, on their way into a file."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Lock

from wherelint.companion.frames import Frame, is_library, place
from wherelint.io.gradient_coverage import KINDS, Coverage, Distance, Span, digest_of


@dataclass
class Marks:
    """What a running program was seen to do, below a directory."""

    root: str = field(default_factory=os.getcwd)
    gradient: set[Frame] = field(default_factory=set)
    ran: set[Frame] = field(default_factory=set)
    blocked: set[Frame] = field(default_factory=set)
    #: How near the operand of a call came to a point, by frame, code and point.
    distances: dict[tuple[Frame, str, float | None], Distance] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lock = Lock()
        #: Where a script is that has a relative name: it may change the directory.
        self._began = os.getcwd()
        self.ours = cache(self._is_ours)

    def _is_ours(self, filename: str) -> bool | None:
        """Whether a file is one of the program's; None if nothing beyond its frame is of interest."""
        whole = os.path.realpath(os.path.join(self._began, filename))
        if any(f"{os.sep}{name}{os.sep}" in whole for name in ("_pytest", "pluggy")):
            return None
        below = whole.startswith(os.path.realpath(self.root) + os.sep)
        return below and not is_library(whole) and not is_library(filename)

    def came(self, frame: Frame, distance: Distance) -> None:
        """The operand of a call came so near; in any thread."""
        key = frame, distance.code, distance.point
        with self._lock:
            self.distances[key] = distance.joined(self.distances.get(key))

    def coverage(self) -> Coverage:
        """The same by file and span."""
        found = Coverage()
        for kind in KINDS:
            frames: Iterable[Frame] = getattr(self, kind)
            for frame in frames:
                path, span = self._at(frame, found)
                found.add(path, kind, span)
        for (frame, *_), distance in self.distances.items():
            found.came(*self._at(frame, found), distance)
        return found

    def _at(self, frame: Frame, found: Coverage) -> tuple[str, Span]:
        """The path and the span of a call, whose file gets its digest."""
        at = place(frame)
        filename = os.path.realpath(os.path.join(self._began, at.filename))
        path = Path(os.path.relpath(filename, os.path.realpath(self.root))).as_posix()
        if path not in found.digests:
            found.digests[path] = digest_of(filename)
        return path, (at.row, at.column, at.end_row, at.end_column) if at.end_row else (at.row, 0, 0, 0)
