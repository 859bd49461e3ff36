"""What a running program was seen to do: the calls that gradients passed, on their way into a file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from wherelint.companion.frames import Frame, is_library, place
from wherelint.io.gradient_coverage import KINDS, Coverage, digest_of


@dataclass
class Marks:
    """What a running program was seen to do, below a directory."""

    root: str = field(default_factory=os.getcwd)
    gradient: set[Frame] = field(default_factory=set)
    ran: set[Frame] = field(default_factory=set)
    blocked: set[Frame] = field(default_factory=set)
    _known: dict[str, bool | None] = field(default_factory=dict)

    def ours(self, filename: str) -> bool | None:
        """Whether a file is one of the program's; None if nothing beyond that frame is of interest."""
        try:
            return self._known[filename]
        except KeyError:
            whole = os.path.realpath(filename)
            inside = whole.startswith(os.path.realpath(self.root) + os.sep) and not is_library(whole)
            runner = any(f"{os.sep}{name}{os.sep}" in whole for name in ("_pytest", "pluggy"))
            self._known[filename] = None if runner else inside
            return self._known[filename]

    def coverage(self) -> Coverage:
        """The same by file and span."""
        found = Coverage()
        for kind in KINDS:
            frames: Iterable[Frame] = getattr(self, kind)
            for frame in frames:
                at = place(frame)
                path = Path(os.path.relpath(os.path.realpath(at.filename), os.path.realpath(self.root))).as_posix()
                span = (at.row, at.column, at.end_row, at.end_column) if at.end_row else (at.row, 0, 0, 0)
                found.add(path, kind, span)
                if path not in found.digests:
                    found.digests[path] = digest_of(at.filename)
        return found
