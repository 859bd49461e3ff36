"""Text edits: where they lie in a file, whether they get in each other's way, and the text after them."""

import difflib
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

from wherelint.finding import Edit, Location

#: What no place lies inside of.
_UNIT = re.compile(r"\r\n|.", re.DOTALL)
_AFTER_LINE = re.compile(r"(?<=\n)|(?<=\r)(?!\n)")
#: From one place to another.
Region = tuple[Location, Location]


def split_lines(text: str) -> list[str]:
    r"""Lines as Python counts them, with their ends (\n, \r\n or \r; a form feed is none); the last one has no end."""
    if "\r" in text:
        return _AFTER_LINE.split(text)
    *lines, last = text.split("\n")
    return [*(f"{line}\n" for line in lines), last]


def physical_lines(text: str) -> list[str]:
    """The same, with an end of the last one."""
    *lines, last = split_lines(text)
    return [*lines, f"{last}\n"]


class Source:
    """A text and its lines, for places given as rows and columns."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = physical_lines(text)
        self._starts = [0, *accumulate(map(len, self.lines))]

    def offset(self, place: Location) -> int:
        """The offset of a place in the text; the end of a row is the last place in it."""
        assert 1 <= place.row <= len(self.lines), f"there is no row {place.row}"
        line = self.lines[place.row - 1].rstrip("\r\n")
        assert 1 <= place.column <= len(line) + 1, f"there is no place {place}"
        return self._starts[place.row - 1] + place.column - 1

    def place(self, offset: int) -> Location:
        """The place of an offset."""
        row = min(bisect_right(self._starts, offset), len(self.lines))
        return Location(row, offset - self._starts[row - 1] + 1)

    def between(self, start: Location, end: Location) -> str:
        """The text from one place to another."""
        return self.text[self.offset(start) : self.offset(end)]

    def edited(self, edits: Iterable[Edit]) -> str:
        """The text after some edits that do not overlap."""
        parts, end = [], 0
        for start, stop, content in self._spans(edits):
            assert end <= start <= stop, "edits overlap"
            parts += [self.text[end:start], content]
            end = stop
        return "".join([*parts, self.text[end:]])

    def _spans(self, edits: Iterable[Edit]) -> list[tuple[int, int, str]]:
        return sorted((self.offset(e.location), self.offset(e.end_location), e.content) for e in edits)

    def moved(self, edits: Iterable[Edit]) -> Callable[[Location, Location], list[Region]]:
        """Where a region may be in the text after some edits: right there, or in what was written instead of it."""
        edits = list(edits)
        spans, after = self._spans(edits), Source(self.edited(edits))
        shifts = [0, *accumulate(len(content) - (b - a) for a, b, content in spans)]
        written = [after._region(a + by, a + by + len(text)) for (a, _, text), by in zip(spans, shifts, strict=False)]

        def moved(start: Location, end: Location) -> list[Region]:
            first, last = self.offset(start), self.offset(end)
            if any(a < first < b or a < last < b or (a < b and (a, b) == (first, last)) for a, b, _ in spans):
                return written
            before = sum(b <= first for _, b, _ in spans)
            within = sum(b <= last and (a, b) != (last, last) for a, b, _ in spans)
            return [after._region(first + shifts[before], last + shifts[within])]

        return moved

    def _region(self, start: int, end: int) -> Region:
        return self.place(start), self.place(end)

    def difference(self, text: str) -> tuple[Edit, ...]:
        """Edits that make another text of this one, as few rows as possible, each row by itself if it is replaced."""
        old, new = split_lines(self.text), split_lines(text)
        edits = []
        for kind, *hunk in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            for a0, a1, b0, b1 in _by_row(*hunk) if kind != "equal" else ():
                gone, content = (_UNIT.findall("".join(part)) for part in (old[a0:a1], new[b0:b1]))
                first = shared(gone, content)
                last = shared(gone[first:][::-1], content[first:][::-1])
                start = min(self._starts[a0], len(self.text)) + len("".join(gone[:first]))
                end = start + len("".join(gone[first : len(gone) - last]))
                edits.append(Edit("".join(content[first : len(content) - last]), *self._region(start, end)))
        return tuple(edits)


def _by_row(a0: int, a1: int, b0: int, b1: int) -> list[tuple[int, int, int, int]]:
    """Rows that as many others replace, one by one."""
    if a1 - a0 != b1 - b0:
        return [(a0, a1, b0, b1)]
    return [(a, a + 1, b, b + 1) for a, b in zip(range(a0, a1), range(b0, b1), strict=True)]


def shared(a: Sequence[str], b: Sequence[str]) -> int:
    """How many elements two sequences begin with alike."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def compatible(edits: Sequence[Edit], others: Sequence[Edit]) -> bool:
    """Whether some edits neither overlap nor meet others, so that all can be made together."""
    return not any(a.location <= b.end_location and b.location <= a.end_location for a in edits for b in others)


def consistent(edits: Sequence[Edit]) -> bool:
    """Whether the edits of one rewrite leave each other alone."""
    return all(compatible([edit], edits[:i]) for i, edit in enumerate(edits))


def diff(before: str, after: str, filename: str, context: int = 3) -> list[str]:
    """A unified diff, as ``patch`` and ``git apply`` take it: lines without their final newline."""
    a, b = before.split("\n"), after.split("\n")
    last = [lines.pop() for lines in (a, b)]  # what follows the last newline
    for lines, rest in zip((a, b), last, strict=True):
        lines += [f"{rest}\n\\ No newline at end of file"] if rest else []
    return list(difflib.unified_diff(a, b, f"a/{filename}", f"b/{filename}", lineterm="", n=context))
