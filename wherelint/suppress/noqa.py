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
    """A suppression comment: where it stands, and what it silences."""

    row: int
    #: From which column to which it suppresses, 1-based.
    span: tuple[int, int]
    #: Code prefixes; ``""`` alone where it names no code, and silences all.
    codes: tuple[str, ...]
    #: Whether it goes for the whole file.
    file: bool


@dataclass(frozen=True)
class Suppressions:
    """The suppression comments of a text, in order, and (first row, last row) of its statements of several rows."""

    comments: tuple[Comment, ...] = ()
    statements: tuple[tuple[int, int], ...] = ()

    def cover(self, finding: Finding) -> bool:
        """Whether a comment silences the finding.

        It may stand on any row of the singular operation, on the finding's ``noqa_row``, on the row where the
        selection begins, or on the first or last row of the statement around either.
        """
        rows = self.places(finding)
        near = (comment.codes for comment in self.comments if comment.file or comment.row in rows)
        return any(map(finding.code.startswith, near))

    def idle(self, findings: Iterable[Finding]) -> Iterator[tuple[Comment, tuple[str, ...]]]:
        """The comments with codes that silence none of the findings, and these codes."""
        found = [(self.places(finding), finding.code) for finding in findings]
        for comment in self.comments:
            met = [code for rows, code in found if comment.file or comment.row in rows]
            idle = tuple(prefix for prefix in comment.codes if not any(code.startswith(prefix) for code in met))
            if idle and comment.codes != ("",):
                yield comment, idle

    def places(self, finding: Finding) -> list[int]:
        """The rows on which a comment may concern a finding, the best first."""
        operation, selection = finding.location.row, finding.select.location.row
        rows = [finding.noqa_row, *range(operation, finding.end_location.row + 1)]
        for first, last in self.statements:
            if first <= operation <= last or first <= selection <= last:
                rows += [last, first]
        return list(dict.fromkeys([*rows, selection]))


def find_suppressions(text: str) -> Suppressions:
    """The suppression comments of a file. A comment is what the tokenizer says it is, never a part of a string."""
    comments: list[Comment] = []
    statements: list[tuple[int, int]] = []
    first: int | None = None
    for token in _tokens(text) if "noqa" in text.lower() else ():
        row, column = token.start
        if token.type == tokenize.COMMENT:
            whole = None if token.line[:column].strip() else _FILE.match(token.string)
            if match := whole or _LINE.search(token.string):
                span = column + match.start() + 1, column + match.end() + 1
                codes = re.split(r"[,\s]+", (match["codes"] or "").upper())
                comments.append(Comment(row, span, tuple(codes), whole is not None))
        elif token.type == tokenize.NEWLINE:
            if first is not None and row > first:
                statements.append((first, row))
            first = None
        elif first is None and token.type not in _SKIPPED:
            first = row
    return Suppressions(tuple(comments), tuple(statements))


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    # The text has been parsed before; the tokenizer can still stumble over what the parser accepts.
    try:
        # It knows no row that ends with \r alone, and takes all that follows for the comment.
        yield from tokenize.generate_tokens(StringIO(_ENDS.sub("\n", text)).readline)
    except (tokenize.TokenError, SyntaxError):
        return
