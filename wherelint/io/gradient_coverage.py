"""Which calls a gradient passed while a program ran.

Other runs add to the file. It has relative paths and spans, no code: ``{"wherelint": "gradient coverage", "version": 1,
"files": {path: {"digest": ..., "gradient": [[row, column, end row, end column], ...], "ran": ..., "blocked": ...}}}``.
Rows and columns are 1-based, in code points; all but the row is 0 where Python (3.10) says no more.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wherelint.io import disk

_NAME, _VERSION = "gradient coverage", 1
#: What a call was, the strongest word first: a gradient passed it; it ran where one might have passed; it ran with
#: gradients switched off.
KINDS = ("gradient", "ran", "blocked")
_MOST_BYTES = 64 << 20
Span = tuple[int, int, int, int]


class MalformedError(ValueError):
    """A file that is no gradient coverage; the message says why."""


@dataclass
class Coverage:
    """For each file, the strongest word for every call. Merging is a union in which a stronger word wins."""

    calls: dict[str, dict[Span, str]] = field(default_factory=dict)
    #: What each file contained then, as a digest.
    digests: dict[str, str] = field(default_factory=dict)

    def add(self, path: str, kind: str, span: Span) -> None:
        """One call."""
        calls = self.calls.setdefault(path, {})
        calls[span] = min(kind, calls.get(span, kind), key=KINDS.index)

    def merge(self, other: Coverage) -> None:
        """What a later run saw, too; of a file that was changed meanwhile only that."""
        for path, calls in other.calls.items():
            if self.digests.get(path) != other.digests.get(path):
                self.calls.pop(path, None)
            for span, kind in calls.items():
                self.add(path, kind, span)
        self.digests |= other.digests

    def kind(self, path: str, inside: Span) -> str | None:
        """The strongest word for the calls that lie in a span; None where nothing is known of any."""
        begin, end = inside[:2], inside[2:]
        found = [
            kind
            for span, kind in self.calls.get(path, {}).items()
            if (begin <= span[:2] and span[2:] <= end if span[2] else begin[0] == span[0] == end[0])
        ]
        return min(found, key=KINDS.index, default=None)

    def dumps(self) -> str:
        """The text of the file: the same for the same coverage."""
        files: dict[str, dict[str, Any]] = {}
        for path, calls in sorted(self.calls.items()):
            spans = {kind: sorted(span for span, its in calls.items() if its == kind) for kind in KINDS}
            files[path] = {"digest": self.digests.get(path, ""), **spans}
        return json.dumps({"wherelint": _NAME, "version": _VERSION, "files": files}, separators=(",", ":")) + "\n"

    def save(self, path: Path) -> None:
        """Write the file, with what it already says if it is one. MalformedError if it is another."""
        known = load(path) if path.exists() else Coverage()
        known.merge(self)
        disk.write(path, known.dumps().encode())


def load(path: Path) -> Coverage:
    """Read a file. OSError if it cannot be read, MalformedError for one that is something else."""
    try:
        read = json.loads(disk.contents(path, _MOST_BYTES))
        if read["wherelint"] != _NAME:
            raise ValueError(path)
        if read["version"] != _VERSION:
            raise MalformedError(f"it is of version {read['version']!r}, and {_VERSION} can be read")
        found = Coverage()
        for file, kinds in read["files"].items():
            found.digests[file] = kinds["digest"]
            for kind in KINDS:
                for span in kinds[kind]:
                    found.add(file, kind, _span(span))
    except MalformedError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise MalformedError("this is no gradient coverage") from None
    return found


def _span(read: Any) -> Span:
    row, column, end_row, end_column = read
    if not all(type(each) is int and 0 <= each < 1 << 31 for each in read):
        raise MalformedError("a place in it is none")
    return row, column, end_row, end_column


def digest_of(filename: str) -> str:
    """What tells a file from a changed one; empty if it cannot be read."""
    try:
        return disk.digest(disk.contents(Path(filename)))
    except OSError:
        return ""
