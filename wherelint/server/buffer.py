"""A text as an editor has it, and the way between its places and the editor's positions.

pygls keeps texts as well, but takes a form feed or a Unicode line separator for the end of a line, which neither Python
nor the protocol does: the edits of such a file would end up elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from lsprotocol import types
from pygls.workspace import PositionCodec

from wherelint.finding import Location
from wherelint.io.edits import split_lines


@dataclass(frozen=True)
class Buffer:
    """An open text at one version. ``codec`` counts columns as it was agreed with the editor."""

    uri: str
    version: int
    text: str
    codec: PositionCodec

    @cached_property
    def lines(self) -> list[str]:
        """The lines with their ends."""
        return split_lines(self.text)

    def position(self, place: Location) -> types.Position:
        """The editor's position of a place; the end of the text for a place behind it."""
        if place.row > len(self.lines):
            place = Location(len(self.lines), len(self.lines[-1]) + 1)
        before = self.lines[place.row - 1][: place.column - 1]
        return types.Position(place.row - 1, self.codec.client_num_units(before))

    def offset(self, position: types.Position) -> int:
        """The offset of an editor's position; one behind the end of its line, or of the text, stands for that end."""
        if position.line >= len(self.lines):
            return len(self.text)
        line = self.lines[position.line].rstrip("\r\n")
        widths = accumulate(map(self.codec.client_num_units, line), initial=0)
        column = next((i for i, width in enumerate(widths) if width >= position.character), len(line))
        return sum(map(len, self.lines[: position.line])) + column

    def changed(self, change: types.TextDocumentContentChangeEvent, version: int) -> Buffer:
        """The text after a change of a range, or of the whole."""
        text = change.text
        if isinstance(change, types.TextDocumentContentChangePartial):
            start, end = self.offset(change.range.start), self.offset(change.range.end)
            text = self.text[:start] + text + self.text[end:]
        return replace(self, text=text, version=version)
