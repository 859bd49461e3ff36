"""Suppression comments: ``# noqa``, ``# noqa: WL101, WL2`` and ``# wherelint: noqa`` for a whole file."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO

from wherelint.finding import Finding

_CODES = r"(?:\s*:\s*(?P<codes>[A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*)|(?!\s*:))"
_LINE = re.compile(r"#\s*noqa" + _CODES, re.IGNORECASE)
_FILE = re.compile(r"#\s*wherelint:\s*noqa" + _CODES, re.IGNORECASE)
_SKIPPED = (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)


@dataclass(frozen=True)
class Suppressions:
    """Code prefixes by row and for the file; ``""`` stands for every code."""

    rows: dict[int, tuple[str, ...]]
    file: tuple[str, ...]
    #: (first row, last row) of the statements that take several rows.
    statements: tuple[tuple[int, int], ...]

    def cover(self, finding: Finding) -> bool:
        """Whether a comment silences the finding.

        It may stand on any row of the singular operation, on the finding's ``noqa_row``, on the row where the
        selection begins, or on the first or last row of the statement around either.
        """
        if finding.code.startswith(self.file):
            return True
        operation, selection = finding.location.row, finding.select.location.row
        rows = {finding.noqa_row, selection, *range(operation, finding.end_location.row + 1)}
        for first, last in self.statements:
            if first <= operation <= last or first <= selection <= last:
                rows |= {first, last}
        return any(finding.code.startswith(self.rows[row]) for row in rows & self.rows.keys())


NONE = Suppressions({}, (), ())


def find_suppressions(text: str) -> Suppressions:
    """The suppression comments of a file. A comment is what the tokenizer says it is, never a part of a string."""
    if "noqa" not in text.lower():
        return NONE
    rows: dict[int, tuple[str, ...]] = {}
    file: tuple[str, ...] = ()
    statements: list[tuple[int, int]] = []
    first: int | None = None
    for token in _tokens(text):
        row = token.start[0]
        if token.type == tokenize.COMMENT:
            if match := _FILE.match(token.string):
                if not token.line[: token.start[1]].strip():
                    file += _prefixes(match)
            elif match := _LINE.search(token.string):
                rows[row] = rows.get(row, ()) + _prefixes(match)
        elif token.type == tokenize.NEWLINE:
            if first is not None and row > first:
                statements.append((first, row))
            first = None
        elif first is None and token.type not in _SKIPPED:
            first = row
    return Suppressions(rows, file, tuple(statements))


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    # The text has been parsed before; the tokenizer can still stumble over what the parser accepts.
    try:
        yield from tokenize.generate_tokens(StringIO(text).readline)
    except (tokenize.TokenError, SyntaxError):
        return


def _prefixes(match: re.Match[str]) -> tuple[str, ...]:
    codes = match["codes"]
    return tuple(code.upper() for code in re.split(r"[,\s]+", codes)) if codes else ("",)
