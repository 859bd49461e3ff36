"""The report in pylint's parseable format, which many programs read: ``path:row: [code(name), level] message``."""

from collections.abc import Sequence

from wherelint.finding import Finding, Problem
from wherelint.report.common import level, message_of, posix, printable
from wherelint.rules import Rule


def render(findings: Sequence[Finding], problems: Sequence[Problem], rules: Sequence[Rule], version: str) -> str:
    """A line a finding, then a line a problem."""
    rows = [(f.filename, f.location.row, f"{f.code}({f.name}), {f.level}", message_of(f)) for f in findings]
    rows += [(p.filename, p.location.row if p.location else 1, str(level(p)), p.message) for p in problems]
    return "\n".join(printable(f"{posix(path)}:{row}: [{what}] {said}") for path, row, what, said in rows)
