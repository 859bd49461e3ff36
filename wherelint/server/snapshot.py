"""A document at one moment, and what wherelint finds in it."""

from __future__ import annotations

import io
import tokenize
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from lsprotocol import types
from pygls.workspace import PositionCodec

from wherelint.finding import Edit, FileReport, Fix, Location, Problem
from wherelint.io.config import Settings, load
from wherelint.io.edits import split_lines
from wherelint.io.encoding import decode
from wherelint.io.files import FixMode, excluded
from wherelint.io.notebook import Cells
from wherelint.report.text import change
from wherelint.run.check import check_source
from wherelint.suppress.noqa import not_differentiated, silence


@dataclass(frozen=True)
class Buffer:
    """An open text at one version. ``codec`` counts columns as it was agreed with the editor."""

    uri: str
    version: int | None
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


class Snapshot:
    """A document with everything that is computed of its text, each at most once.

    Only the worker may read what takes time: ``report``, ``fix``, ``comment``, ``not_differentiated`` and ``fix_all``.
    ``cells`` is the text of the document, or the code cells of a notebook, which are one program.
    """

    def __init__(self, uri: str, path: Path, root: Path, cells: Sequence[Buffer], *, notebook: bool) -> None:
        self.uri = uri
        self.cells = cells
        #: Whether the editor shows the findings of this very text.
        self.shown = False
        self._path = path
        self._root = root
        self._cells = Cells([cell.text for cell in cells]) if notebook else None
        # What a notebook computes is checked as the Python file beside it would be.
        self._name = str(path.with_suffix(".py") if notebook else path)

    @cached_property
    def report(self) -> FileReport:
        """The findings, without fixes. Raises ConfigError."""
        return self._checked("no")

    def fix(self, index: int) -> Fix | None:
        """The fix that is offered for a finding. Raises ConfigError."""
        finding = self.report.findings[index]
        return next((same.fix for same in self._offers.findings if same.sort_key() == finding.sort_key()), None)

    def comment(self, index: int) -> Edit | None:
        """The comment that silences a finding."""
        return silence(self._program, self.report.findings[index])

    def change(self, index: int) -> str:
        """The lines that the fix of a finding changes, once it was looked for; nothing that takes time."""
        if "_offers" not in vars(self):
            return ""
        finding = replace(self.report.findings[index], fix=self.fix(index))
        return "\n".join("".join(text for text, _ in line[1:]) for line in change(self._program, finding))

    def not_differentiated(self, index: int) -> Edit | None:
        """The comment that says that nobody differentiates the function around a finding."""
        return not_differentiated(self._program, self.report.findings[index].location.row)

    @cached_property
    def fix_all(self) -> list[Edit]:
        """The lines to replace to apply every safe fix. Raises ConfigError."""
        report = self._checked("safe")
        return list(self._line_edits(decode(report.after)[0])) if report.fixed else []

    def locate(self, start: Location, end: Location) -> tuple[Buffer, types.Range] | None:
        """The cell and the range of a stretch of the program; None where it is not within one cell."""
        first, last = (bisect_right(self._starts, place.row) - 1 for place in (start, end))
        if first != last:
            return None
        cell, skipped = self.cells[first], self._starts[first] - 1
        start, end = (Location(place.row - skipped, place.column) for place in (start, end))
        return cell, types.Range(cell.position(start), cell.position(end))

    @cached_property
    def _offers(self) -> FileReport:
        """The findings with their fixes."""
        return self._checked("offer")

    def _checked(self, fix_mode: FixMode) -> FileReport:
        if self._settings is None:
            return FileReport(self._name)
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(self._program.encode()).readline)
            content = self._program.encode(encoding)
        except (SyntaxError, UnicodeError, LookupError):
            return FileReport(self._name, problems=(Problem(self._name, "cannot be encoded as it says"),))
        return check_source(content, self._name, self._settings, fix_mode)

    @cached_property
    def _settings(self) -> Settings | None:
        """What the command would go by with the file and ``--force-exclude``; None if it is excluded."""
        tables = (load(directory / "pyproject.toml") for directory in self._path.parents)
        settings = next(filter(None, tables), None) or Settings(root=self._root)
        codes = tuple(settings.codes_for(self._path))  # here, because a notebook is checked under another name
        settings = replace(settings, select=codes, extend_select=(), ignore=(), per_file_ignores={})
        return None if excluded(self._path, settings) else settings

    @cached_property
    def _program(self) -> str:
        return self._cells.program if self._cells else self.cells[0].text.removeprefix("\ufeff")

    @cached_property
    def _starts(self) -> Sequence[int]:
        """For every cell the row at which it begins in the program."""
        return self._cells.cells(self._program) if self._cells else (1,)

    def _line_edits(self, program: str) -> Iterator[Edit]:
        """The lines to replace for another program; none where its cells cannot be found any more."""
        try:
            changed = self._cells.changed(program) if self._cells else [(self._program, program)]
        except ValueError:
            return
        for first, texts in zip(self._starts, changed, strict=True):
            old, new = map(split_lines, texts)
            if old != new:
                before = _alike(old, new)
                after = _alike(old[before:][::-1], new[before:][::-1])
                content = "".join(new[before : len(new) - after])
                content = self._cells.restored(content) if self._cells else content
                yield Edit(content, Location(first + before, 1), Location(first + len(old) - after, 1))


def _alike(old: Sequence[str], new: Sequence[str]) -> int:
    """How many lines two texts begin with in common."""
    return next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
