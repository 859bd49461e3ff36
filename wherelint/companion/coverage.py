"""What a running program was seen to do: the calls that gradients passed, on their way into a file."""

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

    def __post_init__(self) -> None:
        #: By file name, whether it is one of the program's; None if nothing beyond its frame is of interest.
        self.ours = _Ours(os.path.realpath(self.root) + os.sep)

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


class _Ours(dict[str, bool | None]):
    def __init__(self, root: str) -> None:
        super().__init__()
        self._root = root

    def __missing__(self, filename: str) -> bool | None:
        whole = os.path.realpath(filename)
        runner = any(f"{os.sep}{name}{os.sep}" in whole for name in ("_pytest", "pluggy"))
        self[filename] = None if runner else whole.startswith(self._root) and not is_library(whole)
        return self[filename]
