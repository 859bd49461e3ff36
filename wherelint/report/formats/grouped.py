"""The findings and problems of each file below its name."""

from collections.abc import Sequence
from itertools import groupby

from wherelint.finding import Finding, Problem
from wherelint.io.notebook import spelled
from wherelint.report.common import fixable_mark, level, message_of, printable
from wherelint.rules import Rule

CELLS = True


def render(findings: Sequence[Finding], problems: Sequence[Problem], rules: Sequence[Rule], version: str) -> str:
    """Files, each a block: its name, then a line a finding."""
    items: list[Finding | Problem] = sorted([*findings, *problems], key=lambda item: item.filename)
    return "\n\n".join(_block(name, list(group)) for name, group in groupby(items, key=lambda item: item.filename))


def _block(name: str, items: Sequence[Finding | Problem]) -> str:
    rows = [(spelled(item.location, item.cells) if item.location else "-", item) for item in items]
    width = max(len(place) for place, _ in rows)
    lines = [f"  {place:<{width}}  {level(item):<7}  {_told(item)}" for place, item in rows]
    return "\n".join(map(printable, [f"{name}:", *lines]))


def _told(item: Finding | Problem) -> str:
    return f"{item.code}{fixable_mark(item)} {message_of(item)}" if isinstance(item, Finding) else item.message
