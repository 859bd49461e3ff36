"""The reports for other programs, as these programs read them: schemas, parsers, and the rules of escaping."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, unquote_to_bytes
from xml.etree import ElementTree

import pytest
from conftest import UNSAFE, environment
from jsonschema import Draft4Validator

from wherelint import __version__, docs
from wherelint.evidence.pieces import Level
from wherelint.finding import (
    AfterFix,
    Confirmation,
    Edit,
    Finding,
    Fix,
    Location,
    Outcome,
    Problem,
    Selection,
    Witness,
)
from wherelint.io.config import Settings
from wherelint.io.edits import Source
from wherelint.report.common import printable
from wherelint.report.formats import FORMATS
from wherelint.report.formats import json as report_json
from wherelint.rules import RULES, get
from wherelint.run.check import check_source

SCHEMA = Draft4Validator(json.loads((Path(__file__).parent / "sarif-2.1.0.json").read_text(encoding="utf-8")))
FINDING = Finding(
    code="WL101",
    name="unmasked-sqrt",
    message="gradient is nan for sqrt at 0 or below: `where` discards the result, "
    "but reverse mode still differentiates it",
    filename="pkg/a.py",
    location=Location(5, 29),
    end_location=Location(5, 40),
    select=Selection("where", Location(5, 12), Location(5, 46)),
    function="f",
    framework="jax",
    op="sqrt",
    level="error",
    witness=Witness({"x": 0.0}, 0.0, {"x": math.nan}),
    noqa_row=5,
)
LOW = replace(
    FINDING,
    level="note",
    evidence=("incidental", "random"),
    location=Location(7, 1),
    end_location=Location(9, 2),
    function="g",
    witness=None,
)
EDITS = (
    Edit("{'c': where(x > 0, x, 1.0)}['c']", Location(5, 38), Location(5, 39)),
    Edit("mask = x > 0\n", Location(5, 1), Location(5, 1)),
)
RICH = replace(
    FINDING,
    filename="pkg/b.py",
    code="WL203",
    name="nan-to-num",
    framework="tensorflow",
    modes=("xla",),
    related=(Selection("maximum", Location(4, 1), Location(6, 1)), Selection("index", Location(3, 1), Location(6, 9))),
    witness=Witness({"x": [math.inf, 1.0], "d['a']": -math.inf}, 0.0, {"x": [math.nan, -0.0]}),
    fix=Fix("unsafe", "mask `{x}`", EDITS),
    confirmation=Confirmation(
        "confirmed", None, "gpu", "2.21.0", {"x": 0.0}, {"xla": Outcome(0.0, {"x": math.nan})}, AfterFix(True, True)
    ),
)
UNFIXED = replace(FINDING, filename="pkg/b.py", function="", fix=Fix("display", "no fix is offered: too hard", ()))
#: Names that a file can have, of each kind that some format has to escape.
ODD_NAMES = [
    "with space.py",
    "müller/全角.py",
    "100%,a:b;c=d.py",
    'it\'s "quoted" & <tagged>.py',
    "[x](y){0}#?.py",
    "a\nb\r\tc.py",
    "a\x1b[31m\x00\x7f\x85.py",
    "\ufffe\U0001f600.py",
    "\udcff.py",
]
ODD = [replace(FINDING, filename=name, message=f"of {name}") for name in ODD_NAMES]
PROBLEMS = [
    Problem("broken.py", "does not parse as Python 3.11: '{' was never closed", Location(3, 4)),
    Problem("gone.py", "no such file or directory"),
    Problem("pkg/a.py", "gave up on `g`", Location(7, 1), error=False),
]
ALL = [FINDING, LOW, RICH, UNFIXED, *ODD]


def render(style: str, findings: Sequence[Finding] = (), problems: Sequence[Problem] = ()) -> str:
    return FORMATS[style](findings, problems, RULES, __version__)


def real() -> tuple[Finding, ...]:
    return check_source(UNSAFE.encode(), "real.py", Settings(), "offer").findings


def moved(finding: Finding, rows: int) -> Finding:
    """The finding after some rows were inserted above it."""

    def down(place: Location) -> Location:
        return Location(place.row + rows, place.column)

    select = replace(
        finding.select, location=down(finding.select.location), end_location=down(finding.select.end_location)
    )
    return replace(finding, location=down(finding.location), end_location=down(finding.end_location), select=select)


def refuse(constant: str) -> None:
    raise AssertionError(constant)


def strict(text: str) -> Any:
    """What a strict reader of JSON reads, in ASCII whatever the encoding of the output."""
    assert text.isascii()
    return json.loads(text, parse_constant=refuse)


# What goes for every format.


@pytest.mark.parametrize("style", FORMATS)
def test_a_report_is_a_text_without_a_last_newline_and_always_the_same(style: str) -> None:
    text = render(style, [*ALL, *real()], PROBLEMS)
    assert text == text.rstrip("\n")
    assert text == render(style, [*ALL, *real()], PROBLEMS)


@pytest.mark.parametrize("style", FORMATS)
def test_findings_stay_in_the_order_given(style: str) -> None:
    findings = [replace(FINDING, filename="f.py", message=f"message {i}") for i in (3, 1, 2)]
    said = [int(number) for number in re.findall(r"message (\d)", render(style, findings))]
    assert list(dict.fromkeys(said)) == [3, 1, 2]


@pytest.mark.parametrize("style", FORMATS)
def test_problems_are_reported(style: str) -> None:
    text = render(style, [], PROBLEMS)
    assert all(word in text for word in ("broken.py", "was never closed", "gone.py", "no such file", "gave up on"))


@pytest.mark.parametrize("style", FORMATS)
def test_a_format_is_imported_when_it_is_used(style: str) -> None:
    program = (
        "import sys; from wherelint.report.formats import FORMATS\n"
        "loaded = {name for name in sys.modules if name.startswith('wherelint.')}\n"
        "assert loaded == {'wherelint.report', 'wherelint.report.formats', 'wherelint.version'}, loaded\n"
        f"FORMATS[{style!r}]([], [], [], '1')\n"
        "assert not {'numpy', 'libcst', 'scipy', 'rich', 'wherelint.run.engine'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env=environment())


#: What stands in each format for an error, a warning and a note.
URL = "https://wherelint.readthedocs.io/en/stable/rules/WL101/"
LEVELS = {
    "json": ['"severity": "error"', '"severity": "warning"', '"severity": "note"'],
    "json-lines": ['"severity": "error"', '"severity": "warning"', '"severity": "note"'],
    "sarif": [
        '"level": "error",\n          "rank"',
        '"level": "warning",\n          "rank"',
        '"level": "note",\n          "rank"',
    ],
    "github": ["::error ", "::warning ", "::notice "],
    "gitlab": ['"severity": "major"', '"severity": "minor"', '"severity": "info"'],
    "junit": ['<failure message="of', '<skipped message="of', '<skipped message="of'],
    "rdjson": ['"severity": "ERROR"', '"severity": "WARNING"', '"severity": "INFO"'],
    "pylint": [", error] of it", ", warning] of it", ", note] of it"],
    "grouped": ["  error    WL101", "  warning  WL101", "  note     WL101"],
    "html": ['data-level="error"', 'data-level="warning"', 'data-level="note"'],
}


@pytest.mark.parametrize("style", FORMATS)
def test_every_format_has_the_level(style: str) -> None:
    levels: list[Level] = ["error", "warning", "note"]
    for level, expected in zip(levels, LEVELS[style], strict=True):
        text = render(style, [replace(FINDING, level=level, message="of it")])
        assert {mark for mark in LEVELS[style] if mark in text} == {expected}


# JSON.


def test_json_lines_are_the_elements_of_the_json() -> None:
    lines = render("json-lines", ALL).split("\n")
    assert [strict(line) for line in lines] == strict(render("json", ALL)) == list(map(report_json.as_dict, ALL))


def test_a_problem_in_json_has_the_keys_of_a_finding_and_no_code() -> None:
    finding, *problems = strict(render("json", ALL[:1], PROBLEMS))
    assert len(problems) == len(PROBLEMS)
    for entry, problem in zip(problems, PROBLEMS, strict=True):
        assert entry.keys() == finding.keys()
        assert entry["code"] is None
        assert (entry["filename"], entry["message"]) == (problem.filename, problem.message)
        assert entry["name"] == ("not-checked" if problem.error else "gave-up")
        assert entry["select"]["location"] == entry["location"]
    assert [strict(line) for line in render("json-lines", ALL[:1], PROBLEMS).split("\n")] == [finding, *problems]


def test_json_lines_of_nothing_are_no_lines() -> None:
    assert render("json-lines") == ""
    assert render("json") == "[]"


# SARIF.


def sarif(findings: Sequence[Finding] = (), problems: Sequence[Problem] = ()) -> Any:
    """The run of a log that the schema of the standard takes."""
    log = strict(render("sarif", findings, problems))
    SCHEMA.validate(log)
    (run,) = log["runs"]
    return run


@pytest.mark.parametrize("findings", [[], [FINDING], [LOW], [RICH], [UNFIXED], ODD, ALL], ids=lambda f: str(len(f)))
@pytest.mark.parametrize("problems", [[], PROBLEMS], ids=["fine", "problems"])
def test_sarif_is_valid(findings: list[Finding], problems: list[Problem]) -> None:
    assert len(sarif(findings, problems)["results"]) == len(findings)


def test_the_schema_refuses_what_is_no_sarif() -> None:
    log = strict(render("sarif", [FINDING]))
    log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] = 0
    assert not SCHEMA.is_valid(log)


def test_sarif_of_the_tool() -> None:
    driver = sarif()["tool"]["driver"]
    assert (driver["name"], driver["semanticVersion"]) == ("wherelint", __version__)
    assert [rule["id"] for rule in driver["rules"]] == [rule.code for rule in RULES]
    for said, rule in zip(driver["rules"], RULES, strict=True):
        assert said["shortDescription"]["text"] == rule.summary
        assert said["defaultConfiguration"] == {"enabled": rule.default, "level": "error"}
        assert said["properties"]["tags"]
        # GitHub shows no more than this.
        assert 0 < len(said["fullDescription"]["text"]) <= 1024
        assert "## Example" in said["help"]["markdown"]
        assert not re.search("^#|```", said["help"]["text"], re.MULTILINE)


def test_sarif_of_a_finding() -> None:
    run = sarif([FINDING, LOW])
    assert run["columnKind"] == "unicodeCodePoints"
    high, low = run["results"]
    assert run["tool"]["driver"]["rules"][high["ruleIndex"]]["id"] == high["ruleId"] == "WL101"
    assert (high["level"], low["level"]) == ("error", "note")
    assert high["rank"] > low["rank"]
    assert high["message"]["text"] == (
        f"{FINDING.message}. Witness: at x = 0.0 the value is 0.0 and the gradient with respect to x is nan"
    )
    assert low["message"]["text"] == FINDING.message
    (place,) = high["locations"]
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "pkg/a.py", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 5, "startColumn": 29, "endLine": 5, "endColumn": 40},
    }
    assert place["logicalLocations"] == [{"fullyQualifiedName": "f", "kind": "function"}]
    assert "%SRCROOT%" in run["originalUriBaseIds"]
    assert "fixes" not in high


def test_sarif_of_a_rule_that_is_not_listed() -> None:
    (result,) = sarif([replace(FINDING, code="WL999")])["results"]
    assert result["ruleIndex"] == -1


def test_sarif_shows_the_selections() -> None:
    (result,) = sarif([RICH])["results"]
    related = result["relatedLocations"]
    assert [place["message"]["text"] for place in related] == ["the where", "the maximum", "the index"]
    assert [place["id"] for place in related] == [1, 2, 3]
    assert related[0]["physicalLocation"]["region"]["startColumn"] == 12


def test_sarif_has_what_else_is_known() -> None:
    (result,) = sarif([RICH])["results"]
    assert result["properties"] == {
        "framework": "tensorflow",
        "modes": ["xla"],
        "op": "sqrt",
        "witness": {
            "inputs": {"x": ["inf", 1.0], "d['a']": "-inf"},
            "value": 0.0,
            "gradient": {"x": ["nan", -0.0]},
            "conditions": [],
            "unknown": [],
        },
        "confirmation": {
            "verdict": "confirmed",
            "reason": None,
            "device": "gpu",
            "framework_version": "2.21.0",
            "at": {"x": 0.0},
            "modes": {"xla": {"value": 0.0, "gradient": {"x": "nan"}}},
            "after_fix": {"value_unchanged": True, "gradient_finite": True},
        },
    }
    (bare,) = sarif([UNFIXED])["results"]
    assert bare["properties"].keys() == {"framework", "op", "witness"}
    assert "logicalLocations" not in bare["locations"][0]


def test_sarif_has_the_edits_of_a_fix() -> None:
    rich, unfixed = sarif([RICH, UNFIXED])["results"]
    assert "fixes" not in unfixed
    (fix,) = rich["fixes"]
    # A message's braces are doubled, since they hold placeholders; the text of an edit is what it is.
    assert fix["description"]["text"] == "mask `{{x}}`"
    assert fix["properties"] == {"applicability": "unsafe"}
    (change,) = fix["artifactChanges"]
    assert change["artifactLocation"] == rich["locations"][0]["physicalLocation"]["artifactLocation"]
    assert [(r["insertedContent"]["text"], r["deletedRegion"]["endColumn"]) for r in change["replacements"]] == [
        (edit.content, edit.end_location.column) for edit in EDITS
    ]


def test_the_fix_of_a_real_finding_can_be_made_from_sarif() -> None:
    (finding,) = real()
    (result,) = sarif([finding])["results"]
    source, text = Source(UNSAFE), UNSAFE
    for replacement in reversed(result["fixes"][0]["artifactChanges"][0]["replacements"]):
        region = replacement["deletedRegion"]
        start = source.offset(Location(region["startLine"], region["startColumn"]))
        end = source.offset(Location(region["endLine"], region["endColumn"]))
        text = text[:start] + replacement["insertedContent"]["text"] + text[end:]
    assert finding.fix is not None
    assert text == source.edited(finding.fix.edits) != UNSAFE
    assert not check_source(text.encode(), "real.py", Settings()).findings


@pytest.mark.parametrize("finding", ODD, ids=lambda f: ascii(f.filename))
def test_sarif_paths_are_uris(finding: Finding) -> None:
    (result,) = sarif([finding])["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert re.fullmatch(r"(?:[A-Za-z0-9._~/-]|%[0-9A-F]{2})+", uri)
    assert unquote_to_bytes(uri).decode("utf-8", "surrogateescape") == finding.filename


def test_sarif_of_a_file_elsewhere(tmp_path: Path) -> None:
    (result,) = sarif([replace(FINDING, filename=str(tmp_path / "a b.py"))])["results"]
    artifact = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact.keys() == {"uri"}
    assert artifact["uri"].startswith("file:///")
    assert artifact["uri"].endswith("/a%20b.py")


def test_sarif_of_problems() -> None:
    (invocation,) = sarif([FINDING], PROBLEMS)["invocations"]
    assert not invocation["executionSuccessful"]
    broken, gone, given_up = invocation["toolExecutionNotifications"]
    assert broken["message"]["text"] == "does not parse as Python 3.11: '{{' was never closed"
    assert broken["locations"][0]["physicalLocation"]["region"]["startLine"] == 3
    assert gone["locations"] == [
        {"physicalLocation": {"artifactLocation": {"uri": "gone.py", "uriBaseId": "%SRCROOT%"}}}
    ]
    assert [said["level"] for said in (broken, gone, given_up)] == ["error", "error", "warning"]
    assert sarif([FINDING], PROBLEMS[2:])["invocations"][0]["executionSuccessful"]


# Fingerprints, which SARIF and GitLab share.


def of_sarif(findings: Sequence[Finding]) -> list[str]:
    return [result["partialFingerprints"]["wherelint/v1"] for result in sarif(findings)["results"]]


def of_gitlab(findings: Sequence[Finding]) -> list[str]:
    return [issue["fingerprint"] for issue in strict(render("gitlab", findings))]


@pytest.mark.parametrize("fingerprints", [of_sarif, of_gitlab])
def test_fingerprints_are_unique_and_stay_when_lines_move(fingerprints: Any) -> None:
    twice = [FINDING, moved(FINDING, 1), *ALL]
    before = fingerprints(twice)
    assert len(set(before)) == len(twice)
    assert before == fingerprints([moved(finding, 10) for finding in twice])
    assert before == fingerprints([replace(finding, message="put otherwise", witness=None) for finding in twice])


@pytest.mark.parametrize(
    "change",
    [
        {"code": "WL102"},
        {"filename": "b.py"},
        {"function": "g"},
        {"op": "rsqrt"},
        {"select": replace(FINDING.select, kind="clip")},
    ],
    ids=lambda change: next(iter(change)),
)
def test_fingerprints_of_other_findings_differ(change: dict[str, Any]) -> None:
    other = replace(FINDING, **change)
    assert of_gitlab([FINDING]) != of_gitlab([other])
    # Something else before it changes nothing.
    assert of_gitlab([FINDING]) == of_gitlab([other, FINDING])[1:]


# GitHub.


def commands(text: str) -> Iterator[tuple[str, dict[str, str], str]]:
    """Name, properties and message of each line, as GitHub's runner reads it."""
    for line in re.split("[\r\n]", text):
        match = re.fullmatch("::(error|warning) (.+?)::(.*)", line)
        assert match is not None, line
        pairs = (pair.partition("=")[::2] for pair in match[2].split(","))
        yield match[1], {name: unquote(value) for name, value in pairs}, unquote(match[3])


def test_github_word_for_word() -> None:
    assert render("github", [FINDING, LOW], PROBLEMS).splitlines() == [
        "::error file=pkg/a.py,line=5,col=29,endLine=5,endColumn=40,title=wherelint (WL101)::pkg/a.py:5:29: WL101 "
        f"{FINDING.message}%0Aat x = 0.0 the value is 0.0 and the gradient with respect to x is nan"
        f"%0A{URL}",
        # GitHub takes no columns if there is more than one line.
        f"::notice file=pkg/a.py,line=7,endLine=9,title=wherelint (WL101)::pkg/a.py:7:1: WL101 {FINDING.message}"
        f"%0A{URL}",
        "::error file=broken.py,line=3,col=4,endLine=3,endColumn=4,title=wherelint"
        "::broken.py:3:4: does not parse as Python 3.11: '{' was never closed",
        "::error file=gone.py,title=wherelint::gone.py: no such file or directory",
        "::warning file=pkg/a.py,line=7,col=1,endLine=7,endColumn=1,title=wherelint::pkg/a.py:7:1: gave up on `g`",
    ]
    assert render("github") == ""


@pytest.mark.parametrize("finding", ODD, ids=lambda f: ascii(f.filename))
def test_github_reads_odd_names(finding: Finding) -> None:
    ((command, properties, message),) = commands(render("github", [finding]))
    assert command == "error"
    name = "".join(c if c in "\r\n" else printable(c) for c in finding.filename)
    assert properties.pop("file") == name
    assert properties == {"line": "5", "col": "29", "endLine": "5", "endColumn": "40", "title": "wherelint (WL101)"}
    assert message.startswith(f"{name}:5:29: WL101 of {name}\n")


def test_github_escapes_as_its_toolkit_does() -> None:
    finding = replace(FINDING, filename="%0A,:\r\n", message="%0A,:\r\n", witness=None)
    text = render("github", [finding])
    assert text.startswith("::error file=%250A%2C%3A%0D%0A,")
    assert f"::%250A,:%0D%0A:5:29: WL101 %250A,:%0D%0A%0A{URL}" in text


# GitLab.


def test_gitlab_of_findings() -> None:
    high, low = strict(render("gitlab", [FINDING, LOW]))
    assert re.fullmatch("[0-9a-f]{32}", high.pop("fingerprint"))
    assert high == {
        "description": f"WL101 {FINDING.message}",
        "check_name": "WL101",
        "severity": "major",
        "location": {
            "path": "pkg/a.py",
            "positions": {"begin": {"line": 5, "column": 29}, "end": {"line": 5, "column": 40}},
        },
    }
    assert low["severity"] == "info"
    assert render("gitlab") == "[]"


def test_gitlab_of_problems() -> None:
    issues = strict(render("gitlab", ALL, [*PROBLEMS, *PROBLEMS]))
    assert len({issue["fingerprint"] for issue in issues}) == len(issues) == len(ALL) + 2 * len(PROBLEMS)
    assert [issue["severity"] for issue in issues[-3:]] == ["critical", "critical", "info"]
    assert [issue["location"]["positions"]["begin"]["line"] for issue in issues[-3:]] == [3, 1, 7]
    assert {issue["check_name"] for issue in issues[-6:]} == {"wherelint"}


def test_gitlab_keeps_odd_names() -> None:
    assert [issue["location"]["path"] for issue in strict(render("gitlab", ODD))] == ODD_NAMES


# JUnit.


def junit(findings: Sequence[Finding] = (), problems: Sequence[Problem] = ()) -> ElementTree.Element:
    """The root, with the numbers at every suite checked against what it holds."""
    text = render("junit", findings, problems)
    assert text.startswith('<?xml version="1.0" encoding="utf-8"?>\n<testsuites ')
    assert text.isascii()
    root = ElementTree.fromstring(text.encode())
    for suite in (root, *root):
        counts = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}
        assert {name: int(suite.attrib[name]) for name in counts} == {
            name: len(list(suite.iter(tag))) for name, tag in counts.items()
        }
    return root


def test_junit_of_findings() -> None:
    root = junit([FINDING, LOW, RICH])
    assert [suite.attrib["name"] for suite in root] == ["pkg/a.py", "pkg/b.py"]
    case, low = root[0]
    assert case.attrib == {
        "name": "WL101 unmasked-sqrt at 5:29",
        "classname": "pkg/a",
        "file": "pkg/a.py",
        "line": "5",
    }
    assert case[0].attrib == {"message": FINDING.message, "type": "error"}
    assert case[0].text is not None
    assert case[0].text.splitlines() == [
        f"pkg/a.py:5:29: WL101 {FINDING.message}",
        "witness: at x = 0.0 the value is 0.0 and the gradient with respect to x is nan",
        f"help: {get('WL101').help}",
    ]
    assert (low[0].tag, low[0].attrib["type"]) == ("skipped", "note")


def test_junit_of_problems() -> None:
    root = junit([FINDING], PROBLEMS)
    first, broken, gone = root
    assert [element.tag for case in first for element in case] == ["failure", "skipped"]
    assert broken[0].attrib["line"] == "3"
    assert broken[0][0].attrib["message"] == PROBLEMS[0].message
    assert [element.tag for element in gone[0]] == ["error"]
    assert "line" not in gone[0].attrib


def test_junit_of_nothing_passes() -> None:
    ((case,),) = junit()
    assert case.attrib["name"] == "no findings"
    assert len(case) == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<a> & \"b\" 'c' ]]>", "<a> & \"b\" 'c' ]]>"),
        ("全角 😀 ü \x7f", r"全角 😀 ü \x7f"),
        ("tab\tnewline\n.", "tab\tnewline\n."),
        ("\x00\x0b\x1b[31m\r", r"\x00\x0b\x1b[31m\r"),
        ("\ud800\udcff\ufffe\uffff", r"\ud800\udcff\ufffe\uffff"),
    ],
    ids=["markup", "wide", "space", "control", "no characters"],
)
def test_junit_is_xml_whatever_the_text(text: str, said: str) -> None:
    finding = replace(FINDING, filename=f"{text}.py", message=text, name=text)
    ((case,), (problem,)) = junit([finding], [Problem(f"other {text}", text)])
    assert case.attrib["file"] == f"{said}.py"
    assert case.attrib["name"] == f"WL101 {said} at 5:29"
    assert case[0].attrib["message"] == problem[0].attrib["message"] == said
    assert case[0].text is not None
    assert f"WL101 {said}".replace("\n", r"\n") in case[0].text


@pytest.mark.parametrize("style", FORMATS)
def test_the_documentation_names_each_format(style: str) -> None:
    assert f"`{style}`" in docs.page("command-line")
