"""Text edits: where they lie in a file, whether they get in each other's way, and the text after them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from itertools import accumulate

from wherelint.finding import Edit, Location


def physical_lines(text: str) -> list[str]:
    r"""Lines as Python counts them: \n, \r\n and \r end a line, a form feed does not."""
    if "\r" not in text:
        return [f"{line}\n" for line in text.split("\n")]
    lines: list[str] = []
    for line in text.split("\n"):
        parts = line.split("\r")
        for i, part in enumerate(parts[:-1]):
            lines.append(part + ("\r\n" if i == len(parts) - 2 and parts[-1] == "" else "\r"))
        if parts[-1] or len(parts) == 1:
            lines.append(parts[-1] + "\n")
    return lines


class Source:
    """A text and its lines, for places given as rows and columns."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = physical_lines(text)
        self._starts = [0, *accumulate(map(len, self.lines))]

    def offset(self, place: Location) -> int:
        """The offset of a place in the text."""
        return self._starts[place.row - 1] + place.column - 1

    def place(self, offset: int) -> Location:
        """The place of an offset."""
        row = next(i for i, start in enumerate(self._starts) if start > offset or i == len(self.lines))
        return Location(row, offset - self._starts[row - 1] + 1)

    def between(self, start: Location, end: Location) -> str:
        """The text from one place to another."""
        return self.text[self.offset(start) : self.offset(end)]

    def edited(self, edits: Iterable[Edit]) -> str:
        """The text after some edits that do not touch each other."""
        parts, end = [], 0
        for edit in sorted(edits, key=lambda e: (e.location, e.end_location)):
            parts += [self.text[end : self.offset(edit.location)], edit.content]
            end = self.offset(edit.end_location)
        return "".join([*parts, self.text[end:]])


def touching(a: Edit, b: Edit) -> bool:
    """Whether two edits overlap or meet, so that only one of them can be made at a time."""
    return a.location <= b.end_location and b.location <= a.end_location


def compatible(edits: Sequence[Edit], others: Sequence[Edit]) -> bool:
    """Whether some edits can be made together with others."""
    return not any(touching(a, b) for a in edits for b in others)


def consistent(edits: Sequence[Edit]) -> bool:
    """Whether the edits of one rewrite leave each other alone."""
    return not any(touching(a, b) for i, a in enumerate(edits) for b in edits[:i])


def diff(before: str, after: str, filename: str, context: int = 3) -> list[str]:
    """A unified diff, as ``patch`` and ``git apply`` take it: lines without their final newline."""
    a, b = before.split("\n"), after.split("\n")
    last = [lines.pop() for lines in (a, b)]  # what follows the last newline
    for lines, rest in zip((a, b), last, strict=True):
        lines += [f"{rest}\n\\ No newline at end of file"] if rest else []
    return list(difflib.unified_diff(a, b, f"a/{filename}", f"b/{filename}", lineterm="", n=context))
