"""The report for GitHub Actions: a workflow command a line, which becomes an annotation of the pull request."""

from collections.abc import Sequence

from wherelint import rules as known
from wherelint.finding import Finding, Location, Problem
from wherelint.report.common import level, message_of, posix, printable
from wherelint.report.text import witness_sentence
from wherelint.rules import Rule

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def render(findings: Sequence[Finding], problems: Sequence[Problem], rules: Sequence[Rule], version: str) -> str:
    """A line a finding, then a line a problem.

    The message repeats the place: the log does not show the properties.
    """
    return "\n".join([*map(_finding, findings), *map(_problem, problems)])


def _finding(finding: Finding) -> str:
    message = f"{finding.code} {message_of(finding)}"
    if finding.witness is not None:
        message += f"\n{witness_sentence(finding.witness)}"
    message += f"\n{known.url(finding.code)}"
    return _command(finding, f"wherelint ({finding.code})", message, finding.location, finding.end_location)


def _problem(problem: Problem) -> str:
    return _command(problem, "wherelint", problem.message, problem.location, problem.location)


def _command(item: Finding | Problem, title: str, message: str, start: Location | None, end: Location | None) -> str:
    path = posix(item.filename)
    properties: dict[str, object] = {"file": path}
    if start is not None and end is not None:
        # GitHub takes columns only where they are of one line.
        if start.row == end.row:
            columns = {"line": start.row, "col": start.column, "endLine": end.row, "endColumn": end.column}
        else:
            columns = {"line": start.row, "endLine": end.row}
        properties |= columns
    properties["title"] = title
    place = f"{path}:{start.row}:{start.column}" if start is not None else path
    escaped = {name: _data(str(value)).replace(":", "%3A").replace(",", "%2C") for name, value in properties.items()}
    text = ",".join(f"{name}={value}" for name, value in escaped.items())
    return f"::{_COMMANDS[level(item)]} {text}::{_data(f'{place}: {message}')}"


def _data(text: str) -> str:
    return printable(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))
