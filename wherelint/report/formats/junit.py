"""The report for whoever reads test results: JUnit's XML, with a suite a file and a test a finding."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from wherelint.finding import Finding, Location, Problem
from wherelint.report.common import level, message_of, posix, printable
from wherelint.report.text import witness_sentence
from wherelint.rules import Rule

#: What XML 1.0 has no way to say, a carriage return, which its readers make a newline, and a delete.
_NOT_IN_XML = re.compile("[^\t\n -~\x80-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(findings: Sequence[Finding], problems: Sequence[Problem], rules: Sequence[Rule], version: str) -> str:
    """Errors fail, other findings are skipped, problems are errors; all is ASCII. One test passes if there are none."""
    helps = {rule.code: rule.help for rule in rules}
    suites: dict[str, list[Element]] = {}
    for finding in findings:
        suites.setdefault(posix(finding.filename), []).append(_test(finding, helps))
    for problem in problems:
        suites.setdefault(posix(problem.filename), []).append(_error(problem))
    if not suites:
        suites["wherelint"] = [_element("testcase", name="no findings", classname="wherelint")]
    root = _element("testsuites", name="wherelint", **_counts(case for cases in suites.values() for case in cases))
    for name, cases in suites.items():
        suite = _element("testsuite", name=name, **_counts(cases))
        suite.extend(cases)
        root.append(suite)
    indent(root)
    text: bytes = tostring(root, "us-ascii", xml_declaration=False)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text.decode("ascii")}'


def _test(finding: Finding, helps: dict[str, str]) -> Element:
    row, column = finding.location.row, finding.location.column
    case = _case(finding, f"{finding.code} {finding.name} at {row}:{column}", finding.location)
    lines = [f"{posix(finding.filename)}:{row}:{column}: {finding.code} {message_of(finding)}"]
    lines += [f"witness: {witness_sentence(finding.witness)}"] if finding.witness is not None else []
    lines += [f"help: {helps[finding.code]}"] if finding.code in helps else []
    outcome = "failure" if finding.reaches("error") else "skipped"
    result = SubElement(case, outcome, message=_in_xml(message_of(finding)), type=finding.level)
    result.text = _in_xml("\n".join(map(printable, lines)))
    return case


def _error(problem: Problem) -> Element:
    """What kept a file from being checked is an error; a part of it that was given up was skipped."""
    place = f" at {problem.location.row}:{problem.location.column}" if problem.location else ""
    case = _case(problem, f"check{place}", problem.location)
    SubElement(case, "error" if problem.error else "skipped", message=_in_xml(problem.message), type=level(problem))
    return case


def _case(item: Finding | Problem, name: str, place: Location | None) -> Element:
    path = posix(item.filename)
    line = {"line": str(place.row)} if place else {}
    return _element("testcase", name=name, classname=path.removesuffix(".py"), file=path, **line)


def _counts(cases: Iterable[Element]) -> dict[str, str]:
    outcomes = Counter(case[0].tag if len(case) else "" for case in cases)
    names = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    return {"tests": str(outcomes.total()), **{name: str(outcomes[tag]) for name, tag in names.items()}}


def _element(tag: str, **attributes: str) -> Element:
    return Element(tag, {name: _in_xml(value) for name, value in attributes.items()})


def _in_xml(text: str) -> str:
    r"""The text with what cannot be item in XML spelled out: ``\x1b``."""
    return _NOT_IN_XML.sub(lambda match: ascii(match[0])[1:-1], text)
