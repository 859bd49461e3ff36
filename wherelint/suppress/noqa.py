"""Suppression comments: ``# noqa``, ``# noqa: WL101, WL2`` and ``# wherelint: noqa`` for a whole file."""

import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import StringIO

from wherelint.finding import Finding

_CODES = r"(?:\s*:\s*(?P<codes>[A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*)|(?!\s*:))"
_LINE = re.compile(r"#\s*noqa" + _CODES, re.IGNORECASE)
_FILE = re.compile(r"#\s*wherelint:\s*noqa" + _CODES, re.IGNORECASE)
_ENDS = re.compile(r"\r\n?")
_SKIPPED = (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)


@dataclass(frozen=True)
class Comment:
    """A suppression comment that names codes: where it stands, and what stands there."""

    row: int
    #: Columns, 1-based: where the comment begins, and from where to where it suppresses.
    start: int
    suppression: tuple[int, int]
    codes: tuple[str, ...]
    #: Whether it goes for the whole file.
    file: bool = False


@dataclass(frozen=True)
class Suppressions:
    """Code prefixes by row and for the file; ``""`` stands for every code."""

    rows: dict[int, tuple[str, ...]]
    file: tuple[str, ...]
    #: (first row, last row) of the statements that take several rows.
    statements: tuple[tuple[int, int], ...]
    #: The comments that name codes, in order.
    comments: tuple[Comment, ...] = ()

    def cover(self, finding: Finding) -> bool:
        """Whether a comment silences the finding.

        It may stand on any row of the singular operation, on the finding's ``noqa_row``, on the row where the
        selection begins, or on the first or last row of the statement around either.
        """
        return finding.code.startswith(self.file) or any(
            finding.code.startswith(self.rows[row]) for row in self._rows(finding)
        )

    def idle(self, findings: Iterable[Finding]) -> Iterator[tuple[Comment, tuple[str, ...]]]:
        """The comments with codes that silence none of the findings, and these codes."""
        found = [(self._rows(finding), finding.code) for finding in findings]
        for comment in self.comments:
            met = {code for rows, code in found if comment.file or comment.row in rows}
            idle = tuple(prefix for prefix in comment.codes if not any(code.startswith(prefix) for code in met))
            if idle:
                yield comment, idle

    def _rows(self, finding: Finding) -> set[int]:
        """The rows with comments that concern a finding."""
        return self.rows.keys() & self.places(finding)

    def places(self, finding: Finding) -> list[int]:
        """The rows on which a comment may concern a finding, the best first."""
        operation, selection = finding.location.row, finding.select.location.row
        rows = [finding.noqa_row, *range(operation, finding.end_location.row + 1)]
        for first, last in self.statements:
            if first <= operation <= last or first <= selection <= last:
                rows += [last, first]
        return list(dict.fromkeys([*rows, selection]))


NONE = Suppressions({}, (), ())


def find_suppressions(text: str) -> Suppressions:
    """The suppression comments of a file. A comment is what the tokenizer says it is, never a part of a string."""
    if "noqa" not in text.lower():
        return NONE
    rows: dict[int, tuple[str, ...]] = {}
    file: tuple[str, ...] = ()
    comments: list[Comment] = []
    statements: list[tuple[int, int]] = []
    first: int | None = None
    for token in _tokens(text):
        row = token.start[0]
        if token.type == tokenize.COMMENT:
            if (match := _FILE.match(token.string)) and not token.line[: token.start[1]].strip():
                file += _prefixes(match)
                comments += _comment(token, match, file=True)
            elif match := _LINE.search(token.string):
                rows[row] = rows.get(row, ()) + _prefixes(match)
                comments += _comment(token, match)
        elif token.type == tokenize.NEWLINE:
            if first is not None and row > first:
                statements.append((first, row))
            first = None
        elif first is None and token.type not in _SKIPPED:
            first = row
    return Suppressions(rows, file, tuple(statements), tuple(comments))


def _comment(token: tokenize.TokenInfo, match: re.Match[str], *, file: bool = False) -> list[Comment]:
    if not match["codes"]:
        return []
    row, column = token.start
    span = column + match.start() + 1, column + match.end() + 1
    return [Comment(row, column + 1, span, _prefixes(match), file)]


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    # The text has been parsed before; the tokenizer can still stumble over what the parser accepts.
    try:
        # It knows no row that ends with \r alone, and takes all that follows for the comment.
        yield from tokenize.generate_tokens(StringIO(_ENDS.sub("\n", text)).readline)
    except (tokenize.TokenError, SyntaxError):
        return


def _prefixes(match: re.Match[str]) -> tuple[str, ...]:
    codes = match["codes"]
    return tuple(code.upper() for code in re.split(r"[,\s]+", codes)) if codes else ("",)
