"""Ordinary files whose offending lines say so: ``# error: WL101``, or ``# note: WL103`` where only a note says it.

``select=+1`` is the row of the selection, and ``of=-1`` in ``causes.py`` that of the finding that speaks for it.
A row without a marker must stay silent, so every fixture tests precision as much as recall. A fixture that begins
with ``# replay: jax torch tensorflow`` is written for ``xp`` of JAX and read again for the other frameworks.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from wherelint.finding import FileReport
from wherelint.io.config import Settings
from wherelint.run.check import check_source

FIXTURES = Path(__file__).parent / "fixtures"
_MARKER = re.compile(r"# (?:error|note): (WL\d+)(?: select=([+-]\d+))?(?: of=([+-]\d+))?")
_IMPORT = "import jax.numpy as xp"
#: How the other frameworks spell what a replayed fixture uses.
_SPELLINGS = {
    "jax": {},
    "torch": {_IMPORT: "import torch as xp"},
    "tensorflow": {
        _IMPORT: "import tensorflow as xp",
        "xp.log(": "xp.math.log(",
        "xp.arccos(": "xp.acos(",
        "xp.sum(": "xp.reduce_sum(",
    },
}

#: Rows on which the detection is wrong today, by fixture, framework and function; the markers stay true.
KNOWN: dict[tuple[str, str, str], str] = {
    ("structure", "", "attribute_of_a_local_object"): "a namedtuple made by a call has no fields",
}


def replays() -> list[tuple[str, str]]:
    """Every fixture with every framework it is read for; "" where it is read as it stands."""
    found = []
    for path in sorted(FIXTURES.glob("*.py")):
        first = path.read_text().splitlines()[0]
        names = first.partition("# replay:")[2].split() or [""]
        found += [(path.stem, name) for name in names]
    return found


def source(fixture: str, framework: str) -> str:
    text = (FIXTURES / f"{fixture}.py").read_text()
    for old, new in _SPELLINGS.get(framework, {}).items():
        text = text.replace(old, new)
    return text


def expected(text: str) -> set[tuple[int, str]]:
    """Row and code of every marker."""
    rows = enumerate(text.splitlines(), 1)
    return {(row, code) for row, line in rows for code, *_ in _MARKER.findall(line)}


def function_at(text: str, row: int) -> str:
    """The name in the nearest ``def``, ``class`` or top-level assignment above a row."""
    for line in reversed(text.splitlines()[:row]):
        if match := re.match(r"(?:async def|def|class) (\w+)|(\w+) = ", line):
            return match[1] or match[2]
    return ""


@cache
def report_on(text: str, fixture: str) -> FileReport:
    report = check_source(text.encode(), f"{fixture}.py", Settings(root=Path("/")))
    noted = [row for row, line in enumerate(text.splitlines(), 1) if "# note: WL" in line]
    if noted:
        everything = check_source(text.encode(), f"{fixture}.py", Settings(root=Path("/"), level="note")).findings
        notes = [f for f in everything if f.level == "note" and f.location.row in noted]
        report = replace(report, findings=(*report.findings, *notes))
    return report


def check(text: str, fixture: str) -> tuple[set[tuple[int, str]], dict[tuple[int, str], int]]:
    report = report_on(text, fixture)
    assert report.problems == ()
    places = [place for finding in report.findings for place in finding.places]
    return {(f.location.row, f.code) for f in places}, {(f.location.row, f.code): f.select.location.row for f in places}


@pytest.mark.parametrize(("fixture", "framework"), replays())
def test_the_marked_rows_and_no_other(fixture: str, framework: str) -> None:
    text = source(fixture, framework)
    found, _ = check(text, fixture)
    known = {name for file, replay, name in KNOWN if file == fixture and replay in ("", framework)}
    wrong = expected(text) ^ found
    surprising = {key for key in wrong if function_at(text, key[0]) not in known}
    lines = text.splitlines()
    assert not surprising, "\n".join(
        f"{fixture}.py:{row}: {code} {'missed' if (row, code) in expected(text) else 'false alarm'}: {lines[row - 1]}"
        for row, code in sorted(surprising)
    )


@pytest.mark.parametrize(("fixture", "framework"), replays())
def test_the_selection_is_the_marked_one(fixture: str, framework: str) -> None:
    text = source(fixture, framework)
    _, selections = check(text, fixture)
    for row, line in enumerate(text.splitlines(), 1):
        for code, offset, _ in _MARKER.findall(line):
            if offset and (row, code) in selections:
                assert selections[row, code] == row + int(offset), line


@pytest.mark.parametrize("framework", [framework for fixture, framework in replays() if fixture == "causes"])
def test_a_cause_is_reported_once(framework: str) -> None:
    text = source("causes", framework)
    rows = enumerate(text.splitlines(), 1)
    marked = {(row, code): row + int(of or 0) for row, line in rows for code, _, of in _MARKER.findall(line)}
    findings = report_on(text, "causes").findings
    assert {(place.location.row, place.code): f.location.row for f in findings for place in f.places} == marked


@pytest.mark.parametrize("known", KNOWN, ids="-".join)
def test_what_is_known_to_be_wrong_still_is(known: tuple[str, str, str]) -> None:
    # Strict: a row that became right leaves the table.
    fixture, framework, name = known
    wrong = set()
    for replay in [framework] if framework else [f for file, f in replays() if file == fixture]:
        text = source(fixture, replay)
        found, _ = check(text, fixture)
        wrong |= {function_at(text, row) for row, _ in expected(text) ^ found}
    assert name in wrong


@pytest.mark.parametrize(("fixture", "framework"), replays())
def test_a_noqa_in_place_of_every_marker_is_silent(fixture: str, framework: str) -> None:
    text = _MARKER.sub(r"# noqa: \1", source(fixture, framework))
    text = re.sub(r"(# noqa: WL\d+) # noqa: (WL\d+)", r"\1, \2", text)
    found, _ = check(text, fixture)
    known = {name for file, _, name in KNOWN if file == fixture}
    assert {key for key in found if function_at(text, key[0]) not in known} == set()


def test_every_default_rule_has_a_fixture() -> None:
    from wherelint.rules import RULES

    marked = {code for fixture, framework in replays() for _, code in expected(source(fixture, framework))}
    about_gradients = {rule.code for rule in RULES if not rule.preview and not rule.code.startswith("WL0")}
    assert about_gradients - marked == set()
    assert marked <= {rule.code for rule in RULES}
