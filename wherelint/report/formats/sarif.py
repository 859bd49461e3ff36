"""The report for code scanning: SARIF 2.1.0, the Static Analysis Results Interchange Format."""

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from wherelint.finding import Edit, Finding, Fix, Location, Problem
from wherelint.report.common import fingerprints, level, message_of, posix, related
from wherelint.report.formats.json import as_dict
from wherelint.report.text import witness_sentence
from wherelint.rules import Rule

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "%SRCROOT%"
_MARKUP = re.compile(r"^(## |```.*\n)", re.MULTILINE)

_PROPERTIES = ("why", "evidence", "framework", "modes", "op", "witness", "confirmation")


def render(findings: Sequence[Finding], problems: Sequence[Problem], rules: Sequence[Rule], version: str) -> str:
    """A log with one run: every rule, the findings as results, and the problems as notifications."""
    indices = {rule.code: index for index, rule in enumerate(rules)}
    versions = {"version": version, "semanticVersion": version}
    driver = {"name": "wherelint", **versions, "rules": [_rule(rule) for rule in rules]}
    invocation = {
        "executionSuccessful": not any(problem.error for problem in problems),
        "toolExecutionNotifications": [_notification(problem) for problem in problems],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "originalUriBaseIds": {_ROOT: {"description": _message("The directory in which wherelint was run.")}},
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(finding, indices, fingerprint)
            for finding, fingerprint in zip(findings, fingerprints(findings), strict=True)
        ],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, allow_nan=False)


def _rule(rule: Rule) -> dict[str, Any]:
    doc = rule.doc
    return {
        "id": rule.code,
        "name": rule.name,
        "helpUri": rule.url,
        "shortDescription": _message(rule.summary),
        "fullDescription": _message(" ".join(rule.sections()["What it does"].split())),
        "help": {**_message(_MARKUP.sub("", doc)), **_message(doc, "markdown")},
        "defaultConfiguration": {"enabled": rule.default, "level": "error"},
        "properties": {"tags": ["correctness", "gradient", "numerics"]},
    }


def _result(finding: Finding, indices: dict[str, int], fingerprint: str) -> dict[str, Any]:
    described = as_dict(finding)
    place = _place(finding.filename, finding.location, finding.end_location)
    if finding.function:
        place["logicalLocations"] = [{"fullyQualifiedName": finding.function, "kind": "function"}]
    sentences = [message_of(finding)]
    if finding.witness is not None:
        sentences.append(f"Witness: {witness_sentence(finding.witness)}")
    result = {
        "ruleId": finding.code,
        # -1, which is the default, stands for a rule that is not listed.
        "ruleIndex": indices.get(finding.code, -1),
        "level": level(finding),
        "rank": round(100 * finding.score),
        "message": _message(". ".join(sentences)),
        "locations": [place],
        "relatedLocations": [{"id": number, **place} for number, place in enumerate(_related(finding), 1)],
        "partialFingerprints": {"wherelint/v1": fingerprint},
        "properties": {name: described[name] for name in _PROPERTIES if described[name] not in (None, [], "")},
    }
    if finding.silenced is not None:
        result["suppressions"] = [{"kind": "inSource", "justification": finding.silenced}]
    if finding.fix is not None and finding.fix.offered:
        result["fixes"] = [_fix(finding.filename, finding.fix)]
    return result


def _related(finding: Finding) -> Iterator[dict[str, Any]]:
    select = finding.select
    if select.kind:  # a singularity that the companion met has no selection
        place = _place(finding.filename, select.location, select.end_location)
        yield {**place, "message": _message(f"the {select.kind}")}
    for other in related(finding):
        place = _place(other.filename, other.location, other.end_location)
        yield {**place, "message": _message(other.message)}


def _fix(filename: str, fix: Fix) -> dict[str, Any]:
    return {
        "description": _message(fix.message),
        "artifactChanges": [
            {"artifactLocation": _artifact(filename), "replacements": list(map(_replacement, fix.edits))}
        ],
        "properties": {"applicability": fix.applicability},
    }


def _replacement(edit: Edit) -> dict[str, Any]:
    # No message: braces stand for themselves.
    content = {"text": edit.content}
    return {"deletedRegion": _region(edit.location, edit.end_location), "insertedContent": content}


def _notification(problem: Problem) -> dict[str, Any]:
    place = _place(problem.filename, problem.location, problem.location)
    return {"level": level(problem), "message": _message(problem.message), "locations": [place]}


def _place(filename: str, start: Location | None, end: Location | None) -> dict[str, Any]:
    region = {"region": _region(start, end)} if start is not None and end is not None else {}
    return {"physicalLocation": {"artifactLocation": _artifact(filename), **region}}


def _region(start: Location, end: Location) -> dict[str, int]:
    return {"startLine": start.row, "startColumn": start.column, "endLine": end.row, "endColumn": end.column}


def _artifact(filename: str) -> dict[str, str]:
    path = Path(filename)
    if path.is_absolute():
        return {"uri": path.as_uri()}
    return {"uri": quote(os.fsencode(posix(filename))), "uriBaseId": _ROOT}


def _message(text: str, kind: str = "text") -> dict[str, str]:
    """A message, in which SARIF reads braces as a placeholder unless they are doubled."""
    return {kind: text.replace("{", "{{").replace("}", "}}")}
