"""Suppression comments: ``# noqa``, ``# noqa: WL101, WL2`` and ``# wherelint: noqa`` for a whole file.

They are found, written (``--add-noqa``), and reported where they silence nothing any more (WL001).
"""

import ast
import re
import tokenize
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from io import StringIO

from wherelint import rules
from wherelint.finding import Edit, Finding, Fix, Location, Selection
from wherelint.io.config import did_you_mean
from wherelint.io.edits import Source
from wherelint.io.encoding import parsed

_UNUSED = "WL001"
_CODES = r"(?:\s*:\s*(?P<codes>[A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*)|(?!\s*:))"
_LINE = re.compile(r"#\s*noqa" + _CODES, re.IGNORECASE)
_FILE = re.compile(r"#\s*wherelint:\s*noqa" + _CODES, re.IGNORECASE)
_NAMED = re.compile(r"#\s*noqa\s*:\s*[A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*", re.IGNORECASE)
_OURS = re.compile(r"noqa\s*:.*\bWL[0-9]", re.IGNORECASE)
_DIRECTIVE = re.compile(r"#\s*wherelint\s*:\s*(?P<word>[\w-]*)(?P<rest>.*)", re.IGNORECASE)
_DIRECTIVES = ("noqa", "not-differentiated")
#: What other tools call it.
_SYNONYMS = frozenset({"ignore", "disable", "skip", "off", "nolint"})
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
    #: What it says besides.
    reason: str


@dataclass(frozen=True)
class Suppressions:
    """The suppression comments of a text, in order, and (first row, last row) of its statements of several rows."""

    comments: tuple[Comment, ...] = ()
    statements: tuple[tuple[int, int], ...] = ()

    def covering(self, finding: Finding) -> Comment | None:
        """The comment that silences the finding.

        It may stand on any row of the singular operation, on the finding's ``noqa_row``, on the row where the
        selection begins, or on the first or last row of the statement around either.
        """
        rows = self.rows(finding)
        near = (each for each in self.comments if each.file or each.row in rows)
        return next((each for each in near if finding.code.startswith(each.codes)), None)

    def rows(self, finding: Finding) -> list[int]:
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
            of_file = None if token.line[:column].strip() else _FILE.match(token.string)
            if match := of_file or _LINE.search(token.string):
                span = column + match.start() + 1, column + match.end() + 1
                codes = re.split(r"[,\s]+", (match["codes"] or "").upper())
                reason = token.string[match.end() :].partition("#")[0].strip(" \t-:,;\N{EN DASH}\N{EM DASH}")
                comments.append(Comment(row, span, tuple(codes), of_file is not None, reason))
        elif token.type == tokenize.NEWLINE:
            if first is not None and row > first:
                statements.append((first, row))
            first = None
        elif first is None and token.type not in _SKIPPED:
            first = row
    return Suppressions(tuple(comments), tuple(statements))


def unknown_directives(text: str) -> Iterator[tuple[Location, str]]:
    """Where comments for wherelint say what it does not know, and what was meant."""
    for comment in find_suppressions(text).comments if _OURS.search(text) else ():
        for code in comment.codes:
            if code.startswith("WL") and not _named(code):
                yield Location(comment.row, comment.span[0]), f"unknown rule {code}"
    for token in _tokens(text) if "wherelint" in text.lower() else ():
        match = _DIRECTIVE.match(token.string) if token.type == tokenize.COMMENT else None
        if match is None:
            continue
        word, is_alone = match["word"].lower(), not token.line[: token.start[1]].strip()
        codes = re.findall(r"WL\d+", match["rest"].upper())
        noqa = f"# noqa: {', '.join(codes)}" if codes else "# wherelint: noqa" if is_alone else "# noqa"
        if word == "noqa" and not is_alone:
            why = f"this comment has no effect on a line of code; write `{noqa}`"
            yield Location(token.start[0], token.start[1] + 1), why
        hint = ""
        if word in _SYNONYMS:
            hint = f"; write `{noqa}`"
        elif word == "not" and match["rest"].strip().lower().startswith("differentiated"):
            hint = "; did you mean 'not-differentiated'?"
        elif word == "differentiated":
            hint = ": set this key in the configuration instead"
        elif word not in _DIRECTIVES:
            hint = did_you_mean(word, _DIRECTIVES)
        if hint:  # else it is a comment like any other
            yield Location(token.start[0], token.start[1] + 1), f"unknown directive {word!r}{hint}"


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    # The text has been parsed before; the tokenizer can still stumble over what the parser accepts.
    try:
        # It knows no row that ends with \r alone, and takes all that follows for the comment.
        yield from tokenize.generate_tokens(StringIO(_ENDS.sub("\n", text)).readline)
    except (tokenize.TokenError, SyntaxError):
        return


def silence(text: str, finding: Finding) -> Edit | None:
    """The edit that adds a comment for a finding and changes nothing else about the program; None where none does."""
    source = Source(text)
    syntax = _syntax(text)
    for row in find_suppressions(f"{text}\n# noqa").rows(finding):
        line = source.lines[row - 1].rstrip("\r\n")
        # A comment may name other codes already.
        edits = [_edit(f", {finding.code}", row, match.end(), match.end()) for match in _NAMED.finditer(line)]
        for edit in [*edits, _edit(f"  # noqa: {finding.code}", row, len(line.rstrip()), len(line))]:
            silenced = source.edited([edit])
            # A row may end within a string, or go on after a backslash: what comes of the comment decides.
            if find_suppressions(silenced).covering(finding) and _syntax(silenced) == syntax is not None:
                return edit
    return None


def not_differentiated(text: str, row: int) -> Edit | None:
    """The edit that says that nobody differentiates the innermost function around a row; None where there is none."""
    functions = [node for node in ast.walk(parsed(text)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    around = [node for node in functions if node.lineno <= row <= (node.end_lineno or 0)]
    for node in sorted(around, key=lambda node: -node.lineno):
        line = Source(text).lines[node.lineno - 1].rstrip("\r\n")
        edit = _edit("  # wherelint: not-differentiated", node.lineno, len(line.rstrip()), len(line))
        if _syntax(Source(text).edited([edit])) == _syntax(text) is not None:
            return edit
    return None


def _syntax(text: str) -> str | None:
    """What Python reads in a program, whatever its comments; None where it does not parse."""
    try:
        return ast.dump(parsed(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def unused(
    text: str, filename: str, noqa: Suppressions, findings: Iterable[Finding], codes: Collection[str], framework: str
) -> Iterator[Finding]:
    """A finding for each comment with codes of wherelint that silence none of ``findings``, all that there are.

    Only rules that are on (``codes``) can be said to find nothing.
    """
    lines = Source(text).lines
    rule = rules.get(_UNUSED)
    rows = [(noqa.rows(finding), finding.code) for finding in findings]
    for comment in noqa.comments:
        silenced = [code for near, code in rows if comment.file or comment.row in near]
        idle = [
            prefix
            for prefix in comment.codes
            if (named := _named(prefix)) and named <= {*codes, _UNUSED} and not any(c in named for c in silenced)
        ]
        if not idle:
            continue
        start, end = (Location(comment.row, column) for column in comment.span)
        removal = _removal(lines[comment.row - 1].rstrip("\r\n"), comment, idle)
        yield Finding(
            code=_UNUSED,
            name=rule.name,
            message=rule.sentence.format(op=", ".join(idle)),
            filename=filename,
            location=start,
            end_location=end,
            select=Selection("noqa", start, end),
            function="",
            framework=framework,
            op="noqa",
            level="error",
            witness=None,
            noqa_row=comment.row,
            fix=Fix("safe", "remove the unused comment or codes", (removal,)),
        )


def _named(prefix: str) -> set[str]:
    """The rules that a prefix stands for, if it is one of wherelint."""
    return {code for code in rules.codes() if code.startswith(prefix)} if prefix.startswith("WL") else set()


def _removal(line: str, comment: Comment, idle: list[str]) -> Edit:
    """The edit that leaves the codes that count, or nothing of the comment."""
    row, (first, last) = comment.row, comment.span
    before, inside, after = line[: first - 1], line[first - 1 : last - 1], line[last - 1 :]
    if counting := [code for code in comment.codes if code not in idle]:
        head = inside.rpartition(":")[0] if comment.file else inside.partition(":")[0]
        return _edit(f"{head}: {', '.join(counting)}", row, first - 1, last - 1)
    if not before.strip() and not after.strip():
        return Edit("", Location(row, 1), Location(row + 1, 1))
    if not after.strip():
        return _edit("", row, len(before.rstrip()), len(line))
    if after.lstrip().startswith("#"):  # another comment goes on
        return _edit("", row, first - 1, len(line) - len(after.lstrip()))
    return _edit("#", row, first - 1, last - 1)  # words that explained it


def _edit(content: str, row: int, start: int, end: int) -> Edit:
    return Edit(content, Location(row, start + 1), Location(row, end + 1))
