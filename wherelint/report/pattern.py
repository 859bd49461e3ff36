"""What findings have in common: one pattern that was written again and again."""

import ast
import re
from collections.abc import Iterable
from contextlib import suppress
from keyword import iskeyword

from wherelint.finding import FileReport, Finding
from wherelint.io.edits import Source
from wherelint.report.common import place_of, printable

#: Fewer than this are no pattern, and longer code is not quoted.
_FEWEST, _LONGEST = 3, 60
_WORD = re.compile(r"\d[\w.]*(?:(?<=e)-\d+)?|[^\W\d][\w.]*")


def repeated(reports: Iterable[FileReport]) -> str:
    """``6 of these 9 are the same pattern: WL103 in `...`, first at a.py:5:29.``; empty where none is frequent."""
    groups: dict[object, list[tuple[Finding, str]]] = {}
    total = 0
    for report in reports:
        source = Source(report.text)
        for finding in report.findings:
            total += 1
            # Places that a report invents are in no text, and a statement is no expression.
            with suppress(SyntaxError, ValueError, RecursionError, AssertionError):
                select = source.between(finding.select.location, finding.select.end_location)
                both = source.between(finding.location, finding.end_location), select
                pattern = finding.code, finding.op, finding.select.kind, _bare(*both)
                groups.setdefault(pattern, []).append((finding, " ".join(select.split())))
    found = max(groups.values(), key=len, default=[])
    if len(found) < _FEWEST:
        return ""
    first, select = found[0]
    where = f" in `{select}`" if len(select) <= _LONGEST else ""
    some = f"{len(found)} of these {total}" if len(found) < total else f"These {total}"
    return printable(f"{some} are the same pattern: {first.code} `{first.op}`{where}, first at {place_of(first)}.")


def _bare(*expressions: str) -> str:
    """Expressions whatever their names and numbers: a name is its place among them. Raises SyntaxError."""
    names: dict[str, int] = {}

    def bare(match: re.Match[str]) -> str:
        word = match[0]
        return word if iskeyword(word) else "0" if word[0].isdigit() else f"n{names.setdefault(word, len(names))}"

    trees = [ast.parse(f"({each}\n)", mode="eval") for each in expressions]
    return _WORD.sub(bare, " ".join(map(ast.unparse, trees)))
