"""The report for GitHub Actions: a workflow command a line, which becomes an annotation of the pull request."""

from collections.abc import Sequence

from wherelint.finding import Finding, Location, Problem
from wherelint.report.common import level, posix, printable, told
from wherelint.report.text import witness_sentence
from wherelint.rules import Rule


def render(findings: Sequence[Finding], problems: Sequence[Problem], rules: Sequence[Rule], version: str) -> str:
    """A line a finding, then a line a problem; of a file without its rows, one for all of them.

    The message repeats the place: the log does not show the properties.
    """
    together: dict[tuple[str, Location | None, bool], list[Problem]] = {}
    for problem in problems:
        together.setdefault((problem.filename, problem.location, problem.error), []).append(problem)
    told = (
        _command(some[0], "wherelint", "\n".join(p.message for p in some), some[0].location, some[0].location)
        for some in together.values()
    )
    return "\n".join([*map(_finding, findings), *told])


def _finding(finding: Finding) -> str:
    message = f"{finding.code} {told(finding)}"
    if finding.witness is not None:
        message += f"\n{witness_sentence(finding.witness)}"
    return _command(finding, f"wherelint ({finding.code})", message, finding.location, finding.end_location)


def _command(said: Finding | Problem, title: str, message: str, start: Location | None, end: Location | None) -> str:
    path = posix(said.filename)
    properties: dict[str, object] = {"file": path}
    if start is not None and end is not None:
        # GitHub takes columns only where they are of one line.
        one_line = start.row == end.row
        properties["line"] = start.row
        properties |= {"col": start.column} if one_line else {}
        properties["endLine"] = end.row
        properties |= {"endColumn": end.column} if one_line else {}
    properties["title"] = title
    place = f"{path}:{start.row}:{start.column}" if start is not None else path
    escaped = {name: _data(str(value)).replace(":", "%3A").replace(",", "%2C") for name, value in properties.items()}
    listed = ",".join(f"{name}={value}" for name, value in escaped.items())
    return f"::{level(said)} {listed}::{_data(f'{place}: {message}')}"


def _data(text: str) -> str:
    return printable(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))
