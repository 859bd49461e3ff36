"""The code frame: rows of the file with the singular operation and the selection marked below them."""

import re
import unicodedata
from collections.abc import Iterable
from itertools import pairwise

from wherelint.finding import Finding, Location
from wherelint.io.notebook import in_cell

#: Pieces of a line with the style each is printed in.
Line = list[tuple[str, str]]

#: Rows of one marked expression that are shown before the middle is left out.
_ROWS = 6
_TAB = 4


def frame(text: str, finding: Finding, width: int) -> list[Line]:
    """The rows of the operation (``^``) and of the selection (``-``), no line wider than ``width`` cells."""
    lines = re.split(r"\r\n|\r|\n", text) if "\r" in text else text.split("\n")
    marks = {"^": (finding.location, finding.end_location), "-": (finding.select.location, finding.select.end_location)}
    rows = sorted({row for span in marks.values() for row in _shown(*span) if row <= len(lines)})
    numbers = {row: in_cell(Location(row, 1), finding.cells)[1].row for row in rows}
    gutter = len(str(max(numbers.values(), default=1)))
    room = max(width - gutter - 3, 20)
    result: list[Line] = [[(" " * gutter + " |", "gutter")]]
    for row, following in pairwise([*rows, None]):
        assert row is not None
        # Control characters would garble the terminal.
        cells = [c if c == "\t" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in lines[row - 1]]
        marked = _marks(row, marks, len(cells))
        cells, marked = _expand_tabs(cells, marked)
        shown, marked = _crop(cells, marked, room)
        result.append([(f"{numbers[row]:>{gutter}} | ", "gutter"), ("".join(shown).rstrip(), "code")])
        if any(marked):
            below = _mark_line(shown, marked)
            label = _label(row, finding, marked)
            if sum(len(piece) for piece, _ in (*below, *label)) <= room:
                below += label
            result.append([(" " * gutter + " | ", "gutter"), *below])
        if following is not None and following > row + 1:
            result.append([("." * gutter + " |", "gutter")])
    return result


def _shown(first: Location, last: Location) -> Iterable[int]:
    rows = range(first.row, last.row + 1)
    return rows if len(rows) <= _ROWS else (*rows[: _ROWS // 2], *rows[-_ROWS // 2 :])


def _marks(row: int, spans: dict[str, tuple[Location, Location]], length: int) -> list[str]:
    """The mark below every character of a row; the operation lies over the selection."""
    marked = [""] * length
    for mark in ("-", "^"):
        first, last = spans[mark]
        if first.row <= row <= last.row:
            start = first.column - 1 if row == first.row else 0
            stop = last.column - 1 if row == last.row else length
            for column in range(start, min(stop, length)):
                marked[column] = mark
    return marked


def _expand_tabs(cells: list[str], marked: list[str]) -> tuple[list[str], list[str]]:
    """Tabs as spaces; indentation is not marked."""
    shown: list[str] = []
    marks: list[str] = []
    indentation = True
    for cell, mark in zip(cells, marked, strict=True):
        indentation = indentation and cell in " \t"
        count = _TAB - _width("".join(shown)) % _TAB if cell == "\t" else 1
        shown += [" "] * count if cell == "\t" else [cell]
        marks += ["" if indentation else mark] * count
    return shown, marks


def _crop(cells: list[str], marked: list[str], room: int) -> tuple[list[str], list[str]]:
    """Cut a long row down to the part around its marks, the operation's before the selection's."""
    if _width("".join(cells)) <= room:
        return cells, marked
    shown = [i for i, mark in enumerate(marked) if mark == "^"] or [i for i, mark in enumerate(marked) if mark]
    first, last = (shown[0], shown[-1]) if shown else (0, 0)
    start = stop = first
    used = 2  # the ellipses
    while stop < len(cells) and stop <= last and used + _width(cells[stop]) <= room:
        used += _width(cells[stop])
        stop += 1
    while start > 0 and used + _width(cells[start - 1]) <= room:
        start -= 1
        used += _width(cells[start])
    while stop < len(cells) and used + _width(cells[stop]) <= room:
        used += _width(cells[stop])
        stop += 1
    before, after = ["…"] * (start > 0), ["…"] * (stop < len(cells))
    return [*before, *cells[start:stop], *after], [*([""] * len(before)), *marked[start:stop], *([""] * len(after))]


def _mark_line(cells: list[str], marked: list[str]) -> Line:
    line: Line = []
    for cell, mark in zip(cells, marked, strict=True):
        style = {"^": "operation", "-": "selection", "": "code"}[mark]
        piece = (mark or " ") * _width(cell)
        if line and line[-1][1] == style:
            line[-1] = (line[-1][0] + piece, style)
        else:
            line.append((piece, style))
    while line and not line[-1][0].strip():
        line.pop()
    return line


def _label(row: int, finding: Finding, marked: list[str]) -> Line:
    """Name the selection at its last row, where nothing else is marked there."""
    last = row == finding.select.end_location.row
    return [(f" the {finding.select.kind}", "selection")] if last and "^" not in marked else []


def _width(text: str) -> int:
    """How many cells a terminal gives to a text; rich knows as well, and takes too long to import for that."""
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)
