"""Which calls a gradient passed while a program ran, and how near they came to a singular point.

Other runs add to the file. It has relative paths and spans, no code: ``{"wherelint": "gradient coverage", "version": 1,
"files": {path: {"digest": ..., "gradient": [[row, column, end row, end column], ...], "ran": ..., "blocked": ...,
"distances": [[row, ..., end column, code, point, least, mean], ...]}}}``. Rows and columns are 1-based, in code points;
all but the row is 0 where Python (3.10) says no more. A point is null for an overflow; older files have no distances.
"""

from __future__ import annotations

import json
import math
from collections.abc import Container
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

from wherelint.io import disk

_NAME, _VERSION = "gradient coverage", 1
#: What a call was, the strongest word first: a gradient passed it; it ran where one might have passed; it ran with
#: gradients switched off.
KINDS = ("gradient", "ran", "blocked")
_MOST_BYTES = 64 << 20
Span = tuple[int, int, int, int]
#: Of a mean distance: what comes so near in one run may reach the point in a longer one. A thousand ordinary numbers
#: come that near together, a few do not. (Where an epsilon keeps an operand from the point, there is no finding.)
_NEAR = 1e-3


class MalformedError(ValueError):
    """A file that is no gradient coverage; the message says why."""


@dataclass(frozen=True)
class Distance:
    """How near the operand of an operation (of the rule ``code``) came to a point; None for an overflow."""

    code: str
    point: float | None
    least: float
    #: The greatest mean over the elements of a call.
    mean: float

    @property
    def is_near(self) -> bool:
        """Whether that is next to nothing, compared with how far the operand usually is."""
        return self.least <= _NEAR * self.mean

    def joined(self, other: Distance | None) -> Distance:
        """What two runs saw of one operand."""
        if other is None:
            return self
        return Distance(self.code, self.point, min(self.least, other.least), max(self.mean, other.mean))


@dataclass
class Coverage:
    """For each file, the strongest word for every call. Merging is a union in which a stronger word wins."""

    calls: dict[str, dict[Span, str]] = field(default_factory=dict)
    #: What each file contained then, as a digest.
    digests: dict[str, str] = field(default_factory=dict)
    #: For each file, by span, code and point.
    distances: dict[str, dict[tuple[Span, str, float | None], Distance]] = field(default_factory=dict)

    def add(self, path: str, kind: str, span: Span) -> None:
        """One call."""
        calls = self.calls.setdefault(path, {})
        calls[span] = min(kind, calls.get(span, kind), key=KINDS.index)

    def came(self, path: str, span: Span, distance: Distance) -> None:
        """An operand came so near; numbers that are not finite say nothing."""
        if math.isfinite(distance.least) and math.isfinite(distance.mean):
            self.calls.setdefault(path, {})
            known, key = self.distances.setdefault(path, {}), (span, distance.code, distance.point)
            known[key] = distance.joined(known.get(key))

    def merge(self, other: Coverage) -> None:
        """What a later run saw, too; of a file that was changed meanwhile only that."""
        for path, calls in other.calls.items():
            if self.digests.get(path) != other.digests.get(path):
                self.calls.pop(path, None)
                self.distances.pop(path, None)
            for span, kind in calls.items():
                self.add(path, kind, span)
            for (at, *_), distance in other.distances.get(path, {}).items():
                self.came(path, at, distance)
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

    def has_near(self, path: str) -> bool:
        """Whether the operand of any operation of a file came next to a point."""
        return any(each.is_near for each in self.distances.get(path, {}).values())

    def distance(self, path: str, place: Span, codes: Container[str | None]) -> Distance | None:
        """How near the operands of the operation at a place came, to the point that they came nearest to."""
        found = [each for (span, of, _), each in self.distances.get(path, {}).items()
                 if of in codes and (span == place or (not span[2] and span[0] == place[0]))]  # fmt: skip
        return min(found, key=lambda each: (not each.is_near, each.least), default=None)

    def dumps(self) -> str:
        """The text of the file: the same for the same coverage."""
        files: dict[str, dict[str, Any]] = {}
        for path, calls in sorted(self.calls.items()):
            spans = {kind: sorted(span for span, its in calls.items() if its == kind) for kind in KINDS}
            known = sorted(self.distances.get(path, {}).items(), key=lambda item: (item[0][:2], str(item[0][2])))
            distances = [[*span, *astuple(distance)] for (span, *_), distance in known]
            files[path] = {"digest": self.digests.get(path, ""), **spans, "distances": distances}
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
            raise MalformedError(f"it has version {read['version']!r}, but this wherelint reads version {_VERSION}")
        found = Coverage()
        for file, kinds in read["files"].items():
            found.digests[file] = kinds["digest"]
            for kind in KINDS:
                for span in kinds[kind]:
                    found.add(file, kind, _span(span))
            for *span, code, point, least, mean in kinds.get("distances", ()):
                at, point = _span(span), None if point is None else float(point)
                found.came(file, at, Distance(str(code), point, float(least), float(mean)))
    except MalformedError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise MalformedError("not a gradient coverage file") from None
    return found


def _span(read: Any) -> Span:
    row, column, end_row, end_column = read
    if not all(type(each) is int and 0 <= each < 1 << 31 for each in read):
        raise MalformedError("it has an invalid place")
    return row, column, end_row, end_column


def digest_of(filename: str) -> str:
    """What tells a file from a changed one; empty if it cannot be read."""
    try:
        return disk.digest(disk.contents(Path(filename)))
    except OSError:
        return ""
