"""Whatever a file contains, the parts around the detection do not fail."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from test_text_and_json import FINDING, full

from wherelint.finding import FileReport, Finding, Location, Selection
from wherelint.io.config import Settings
from wherelint.report.frame import frame
from wherelint.run.check import check_source
from wherelint.suppress.noqa import find_suppressions

TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from("\t\n\r\x0c#\"'\\()[]: noqaWL10数"), max_size=300)
PLACES = st.builds(Location, st.integers(1, 12), st.integers(1, 200))


def finding_at(a: Location, b: Location, c: Location, d: Location) -> Finding:
    select = Selection("where", *sorted((c, d)))
    return replace(FINDING, location=min(a, b), end_location=max(a, b), select=select, noqa_row=a.row)


@given(TEXTS, PLACES, PLACES, PLACES, PLACES, st.integers(24, 120))
def test_frame(text: str, a: Location, b: Location, c: Location, d: Location, width: int) -> None:
    finding = finding_at(a, b, c, d)
    for line in frame(text, finding, width):
        shown = "".join(piece for piece, _ in line)
        assert shown.isprintable()
        narrow = [c for c in shown if not unicodedata.combining(c)]
        assert sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in narrow) <= width
    assert "WL101" in full(finding, text)


@given(TEXTS, PLACES, PLACES, PLACES, PLACES)
def test_suppressions(text: str, a: Location, b: Location, c: Location, d: Location) -> None:
    find_suppressions(text).covering(finding_at(a, b, c, d))


@given(st.binary(max_size=200) | TEXTS.map(str.encode))
def test_bytes(content: bytes) -> None:
    report = check_source(content, "a.py", Settings())
    assert isinstance(report, FileReport)
    assert not any("internal error" in problem.message for problem in report.problems)


@given(TEXTS)
def test_bytes_that_pass_the_gate(text: str) -> None:
    report = check_source(b"import jax.numpy as jnp\n" + text.encode(), "a.py", Settings())
    assert not any("internal error" in problem.message for problem in report.problems)
