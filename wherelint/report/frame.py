"""The code frame: rows of the file with the singular operation and the selection marked below them."""

import re
import unicodedata
from collections.abc import Iterable
from itertools import groupby, pairwise

from wherelint.finding import Finding, Location
from wherelint.io.notebook import in_cell

#: Pieces of a line with the style each is printed in.
Line = list[tuple[str, str]]
#: Characters of a row, each with the mark below it ("" for none).
Cells = list[tuple[str, str]]

#: Rows of one marked expression that are shown before the middle is left out.
_ROWS = 6
_TAB = 4
_STYLES = {"^": "operation", "-": "selection", "": "code"}


def frame(text: str, finding: Finding, width: int) -> list[Line]:
    """The rows of the operation (``^``) and of the selection (``-``), no line wider than ``width`` cells."""
    lines = re.split(r"\r\n|\r|\n", text) if "\r" in text else text.split("\n")
    marks = {"^": (finding.location, finding.end_location), "-": (finding.select.location, finding.select.end_location)}
    rows = sorted({row for span in marks.values() for row in _rows(*span) if row <= len(lines)})
    numbers = {row: in_cell(Location(row, 1), finding.cells)[1].row for row in rows}
    gutter = len(str(max(numbers.values(), default=1)))
    room = max(width - gutter - 3, 20)
    result: list[Line] = [[(" " * gutter + " |", "gutter")]]
    for row, following in pairwise([*rows, None]):
        assert row is not None
        cells = _crop(_marked(lines[row - 1], row, marks), room)
        result.append([(f"{numbers[row]:>{gutter}} | ", "gutter"), ("".join(c for c, _ in cells).rstrip(), "code")])
        if below := _mark_line(cells):
            # The selection is named at its last row, where nothing else is marked there.
            if row == finding.select.end_location.row and not any(mark == "^" for _, mark in cells):
                label = f" the {finding.select.kind}"
                below += [(label, "selection")] * (sum(len(piece) for piece, _ in below) + len(label) <= room)
            result.append([(" " * gutter + " | ", "gutter"), *below])
        if following is not None and following > row + 1:
            result.append([("." * gutter + " |", "gutter")])
    return result


def _rows(first: Location, last: Location) -> Iterable[int]:
    rows = range(first.row, last.row + 1)
    return rows if len(rows) <= _ROWS else (*rows[: _ROWS // 2], *rows[-_ROWS // 2 :])


def _marked(line: str, row: int, marks: dict[str, tuple[Location, Location]]) -> Cells:
    """The characters of a row with their marks: tabs are spaces, and indentation is not marked."""
    spans = [(mark, (a.row, a.column), (b.row, b.column)) for mark, (a, b) in marks.items()]
    cells: Cells = []
    indentation, width = True, 0
    for column, character in enumerate(line, 1):
        indentation = indentation and character in " \t"
        mark = next((mark for mark, first, last in spans if first <= (row, column) < last and not indentation), "")
        if character == "\t":
            character = " " * (_TAB - width % _TAB)
        elif not character.isprintable():  # it would garble the terminal
            character = "\N{REPLACEMENT CHARACTER}"
        cells += [(each, mark) for each in character]
        width += _width(character)
    return cells


def _crop(cells: Cells, room: int) -> Cells:
    """Cut a long row down to the part around its marks, the operation's before the selection's."""
    widths = [_width(character) for character, _ in cells]
    if sum(widths) <= room:
        return cells
    marked = [i for i, (_, mark) in enumerate(cells) if mark == "^"] or [i for i, (_, mark) in enumerate(cells) if mark]
    first = marked[0] if marked else 0
    start = max(0, first - (room - min(len(marked), room)) // 2)
    stop, used = start, 2  # the ellipses
    while stop < len(cells) and used + widths[stop] <= room:
        used += widths[stop]
        stop += 1
    return [*[("…", "")] * (start > 0), *cells[start:stop], *[("…", "")] * (stop < len(cells))]


def _mark_line(cells: Cells) -> Line:
    """The marks below a row; empty where there are none."""
    groups = groupby(cells, key=lambda cell: cell[1])
    line = [("".join((mark or " ") * _width(c) for c, _ in group), _STYLES[mark]) for mark, group in groups]
    return line[:-1] if line and line[-1][1] == "code" else line


def _width(text: str) -> int:
    """How many cells a terminal gives to a text; rich knows as well, and takes too long to import for that."""
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)
