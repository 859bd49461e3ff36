"""A document at one moment, and what wherelint has to say about it."""

from __future__ import annotations

import io
import os
import tokenize
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types

import wherelint.analysis
from wherelint import rules, score
from wherelint.finding import Edit, FileReport, Finding, Fix, Location, Problem
from wherelint.frontend.options import DetectOptions
from wherelint.io.config import Settings, load
from wherelint.io.edits import split_lines
from wherelint.io.encoding import decode
from wherelint.io.files import excluded
from wherelint.io.formatter import line_length
from wherelint.io.notebook import Cells
from wherelint.run.check import check_source
from wherelint.server.buffer import Buffer
from wherelint.suppress.silence import silence

if TYPE_CHECKING:
    from wherelint.analysis.findings import Analysis

_NUMBERS = count()


class Snapshot:
    """A document with everything that is made of its text, each at most once.

    Only the worker may ask for what takes time: ``report``, ``remedies`` and ``fix_all``. ``cells`` is the text of the
    document, or the code cells of a notebook, which are one program.
    """

    def __init__(self, uri: str, path: Path, root: Path, cells: Sequence[Buffer], *, notebook: bool) -> None:
        self.uri = uri
        self.number = next(_NUMBERS)
        self.cells = cells
        #: Whether the editor shows the findings of this very text.
        self.shown = False
        self._path = path
        self._root = root
        self._notebook = notebook
        # What a notebook computes is checked as the Python file beside it would be.
        self._name = str(path.with_suffix(".py") if notebook else path)
        self._remedies: dict[int, tuple[Fix | None, Edit | None]] = {}

    @cached_property
    def report(self) -> FileReport:
        """The findings, without fixes. Raises ConfigError."""
        if self._settings is None:
            return FileReport(self._name)
        if self._content is None:
            return FileReport(self._name, problems=(Problem(self._name, "cannot be encoded as it says"),))
        return check_source(self._content, self._name, self._settings)

    def remedies(self, index: int) -> tuple[Fix | None, Edit | None]:
        """The rewrite that is offered for a finding, and the comment that silences it. Raises ConfigError."""
        if index not in self._remedies:
            finding = self.report.findings[index]
            self._remedies[index] = self._fix(finding), silence(self._program, finding)
        return self._remedies[index]

    @cached_property
    def fix_all(self) -> list[Edit]:
        """The lines to replace to apply every safe fix. Raises ConfigError."""
        if self._settings is None or self._content is None:
            return []
        report = check_source(self._content, self._name, self._settings, "safe")
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
    def _settings(self) -> Settings | None:
        """What the command would go by if it was given the file and ``--force-exclude``; None if it is excluded."""
        tables = (load(directory / "pyproject.toml") for directory in self._path.parents)
        settings = next(filter(None, tables), None) or Settings(root=self._root)
        codes = tuple(settings.codes_for(self._path))  # here, because a notebook is checked under another name
        settings = replace(settings, select=codes, extend_select=(), ignore=(), per_file_ignores={})
        return None if excluded(self._path, settings) else settings

    @cached_property
    def _joined(self) -> Cells | None:
        """The cells of a notebook as one program."""
        return Cells([cell.text for cell in self.cells]) if self._notebook else None

    @cached_property
    def _program(self) -> str:
        return self._joined.program if self._joined else self.cells[0].text.removeprefix("\ufeff")

    @cached_property
    def _starts(self) -> Sequence[int]:
        """For every cell the row at which it begins in the program."""
        return self._joined.cells(self._program) if self._joined else (1,)

    @cached_property
    def _content(self) -> bytes | None:
        """The program in the encoding that it declares; None where it is not possible."""
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(self._program.encode()).readline)
            return self._program.encode(encoding)
        except (SyntaxError, UnicodeError, LookupError):
            return None

    @cached_property
    def _analysis(self) -> Analysis | None:
        settings = self._settings or Settings(root=self._root)
        said = settings.evidence_for(Path(os.path.abspath(self._name)))
        opt_in = rules.previews(settings.select or ())
        options = DetectOptions(settings.aliases, opt_in, score.least(settings.confidence), said)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = wherelint.analysis.analyse(self._program, self._name, options)
            return None if isinstance(made, str) else made

    def _fix(self, finding: Finding) -> Fix | None:
        from wherelint.fix import offered_for, work_budget
        from wherelint.fix.groups import neighbourhood
        from wherelint.fix.layout import laid_out

        analysis = self._analysis
        settings = self._settings or Settings(root=self._root)
        twins = [twin for twin in analysis.findings if twin.sort_key() == finding.sort_key()] if analysis else []
        if analysis is None or not twins or finding.code not in settings.fixed_codes:
            return None
        near, text = analysis.completed(neighbourhood(analysis, twins)), analysis.module.text
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (fix,) = offered_for(near, twins[:1], None, work_budget(), comment=settings.fix_comment)
            return laid_out(text, fix, line_length(self._path, text)) if fix is not None else None

    def _line_edits(self, program: str) -> Iterator[Edit]:
        """The lines to replace for another program; none where its cells cannot be told apart any more."""
        try:
            changed = self._joined.changed(program) if self._joined else [(self._program, program)]
        except ValueError:
            return
        for first, texts in zip(self._starts, changed, strict=True):
            old, new = map(split_lines, texts)
            for kind, a0, a1, b0, b1 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
                if kind != "equal":
                    content = "".join(new[b0:b1])
                    content = self._joined.restored(content) if self._joined else content
                    yield Edit(content, Location(first + a0, 1), Location(first + a1, 1))
