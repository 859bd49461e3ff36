"""A ``# noqa`` comment for a finding, on a row that can take one."""

import ast
import re
from collections.abc import Iterator

from wherelint.finding import Edit, Finding, Location
from wherelint.io.edits import Source
from wherelint.io.encoding import parsed
from wherelint.suppress.noqa import find_suppressions

_CODES = re.compile(r"#\s*noqa\s*:\s*[A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*", re.IGNORECASE)


def silence(text: str, finding: Finding) -> Edit | None:
    """The edit that silences a finding and changes nothing else about the program; None where there is none."""
    source = Source(text)
    meaning = _meaning(text)
    for row in find_suppressions(f"{text}\n# noqa").places(finding):
        for edit in _edits(source.lines[row - 1].rstrip("\r\n"), row, finding.code):
            silenced = source.edited([edit])
            # A row may end within a string, or go on after a backslash: what comes of the comment decides.
            if find_suppressions(silenced).cover(finding) and _meaning(silenced) == meaning is not None:
                return edit
    return None


def _edits(line: str, row: int, code: str) -> Iterator[Edit]:
    """The ways to name a code at the end of a row: in a comment that names others, or in one of its own."""
    for match in _CODES.finditer(line):
        yield _edit(f", {code}", row, match.end(), match.end())
    yield _edit(f"  # noqa: {code}", row, len(line.rstrip()), len(line))


def _edit(content: str, row: int, start: int, end: int) -> Edit:
    return Edit(content, Location(row, start + 1), Location(row, end + 1))


def _meaning(text: str) -> str | None:
    """What Python makes of a program, whatever its comments; None where it makes nothing of it."""
    try:
        return ast.dump(parsed(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
