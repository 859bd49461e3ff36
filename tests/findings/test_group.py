"""One finding for each cause: what comments, baselines, fixes and formats make of its other places."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from wherelint.finding import FileReport, Finding
from wherelint.io.config import Settings
from wherelint.io.plain import decoder, plain
from wherelint.report.common import other_places
from wherelint.report.formats import FORMATS
from wherelint.report.text import concise, full, witness_sentence
from wherelint.rules import RULES
from wherelint.run.check import check_source
from wherelint.suppress.baseline import Baseline
from wherelint.suppress.baseline import write as write_baseline

TEXT = """\
import jax.numpy as jnp


def f(r):
    a = jnp.sqrt(r)
    b = jnp.log(r)
    c = 1.0 / r
    return jnp.where(r > 0, a + b + c, 0.0)
"""
ROWS = {5: "WL101", 6: "WL102", 7: "WL103"}


def noted(*rows: int) -> str:
    lines = [f"{line}  # noqa: {ROWS[i]}" if i in rows else line for i, line in enumerate(TEXT.splitlines(), 1)]
    return "\n".join(lines) + "\n"


def check(text: str) -> FileReport:
    return check_source(text.encode(), "a.py", Settings(root=Path("/")), "offer")


def rows(report: FileReport) -> list[list[int]]:
    return [[place.location.row for place in finding.places] for finding in report.findings]


@pytest.mark.parametrize(
    ("silenced", "left"), [((), [[5, 6, 7]]), ((5,), []), ((6,), [[5, 7]]), ((6, 7), [[5]]), ((5, 6, 7), [])]
)
def test_a_comment_at_its_place_silences_the_cause_and_another_that_place(
    silenced: tuple[int, ...], left: list[list[int]]
) -> None:
    assert rows(check(noted(*silenced))) == left  # and no comment is said to be unused


def test_the_fix_removes_all_of_them() -> None:
    (finding,) = check(TEXT).findings
    assert finding.fix is not None
    assert finding.fix.applicability == "safe"
    fixed = check_source(TEXT.encode(), "a.py", Settings(root=Path("/")), "safe")
    assert rows(fixed) == []
    assert len(fixed.fixed) == 1


def test_a_baseline_knows_each_place(tmp_path: Path) -> None:
    report = check(TEXT)
    assert write_baseline(tmp_path / "known.json", [report]) == 1
    assert rows(Baseline(tmp_path / "known.json").without_known(report)) == []
    write_baseline(tmp_path / "known.json", [check(noted(6))])
    known = Baseline(tmp_path / "known.json")
    assert rows(known.without_known(report)) == [[6]]
    assert known.known == 0


def test_what_formats_say() -> None:
    report = check(TEXT)
    (entry,) = json.loads(FORMATS["json"](report.findings, (), RULES, "0"))
    related = [(place["code"], place["location"]["row"]) for place in entry["related"]]
    assert related == [("WL102", 6), ("WL103", 7)]
    (result,) = json.loads(FORMATS["sarif"](report.findings, (), RULES, "0"))["runs"][0]["results"]
    places = [place["physicalLocation"]["region"]["startLine"] for place in result["relatedLocations"]]
    assert places == [8, 6, 7]
    assert "".join(piece for piece, _ in concise(report.findings[0])).endswith("; also at 6:9 and 7:9")
    lines = ["".join(piece for piece, _ in line) for line in full(report, {}, 80)]
    assert "  also: WL102 at 6:9; WL103 at 7:9: one double where can fix all 3" in lines


def test_an_operation_that_two_selections_drop_is_told_once() -> None:
    text = """import jax.numpy as jnp


def f(n, d):
    r = jnp.sqrt(n)
    a = jnp.where(d > 0, 1 / r, 1.0)
    b = jnp.where(d > 0, 2 / r, 1.0)
    return a + b
"""
    (finding,) = check_source(text.encode(), "a.py", Settings(root=Path("/"), level="note")).findings
    assert [place.location.row for place in finding.also] == [5, 6, 7]
    (entry,) = json.loads(FORMATS["json"]([finding], (), RULES, "0"))
    related = [(place["code"], place["kind"], place["location"]["row"]) for place in entry["related"]]
    assert related == [("WL101", None, 5), ("WL101", "where", 7), ("WL103", None, 6), ("WL103", None, 7)]
    assert list(other_places(finding)) == ["7:9", "6:26", "7:26"]


def test_nine_places_are_counted() -> None:
    body = "".join(f"    v{i} = {i}.0 / r\n" for i in range(1, 10))
    total = " + ".join(f"v{i}" for i in range(1, 10))
    text = f"import jax.numpy as jnp\n\n\ndef f(r):\n{body}    return jnp.where(r > 0, {total}, 0.0)\n"
    (finding,) = check(text).findings
    assert "".join(piece for piece, _ in concise(finding)).endswith("; also at 6:10, 7:10, 8:10 and 5 more places")


def test_it_comes_back_from_json() -> None:
    (finding,) = check(TEXT).findings
    written = replace(finding, snippet=None, also=tuple(replace(place, snippet=None) for place in finding.also))
    assert repr(decoder(Finding)(plain(written))) == repr(finding)


def test_a_witness_begins_with_the_input_that_matters() -> None:
    (finding,) = check("""\
import jax.numpy as jnp


def f(a, scale, n: int, axis=None, b=None):
    if axis is None and isinstance(b, list):
        scale = 2 * scale
    return jnp.where(a > 0, scale * n / a, 0.0)
""").findings
    assert finding.witness is not None
    assert next(iter(finding.witness.inputs.items())) == ("a", 0.0)
    assert set(finding.witness.inputs) == {"a", "scale", "n"}  # and no truth that is nearly always the same
    assert type(finding.witness.inputs["n"]) is int
    assert re.search(r"\bn = \d+ ", witness_sentence(finding.witness))
