"""The figures of the README are computed as they are said to be."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

LABELS = Path(__file__).parent / "labels"
sys.path.insert(0, str(LABELS))

from fit import Row, fit, matched, probability  # noqa: E402  (scripts beside their data)
from score import figures, flags  # noqa: E402

SCORES = ("unsafe-guard", "unsafe-incidental", "safe", "either")


def label(score: str, row: int) -> dict[str, object]:
    return {"path": "a.py", "lines": [row, row + 1], "score": score}


def test_the_figures_are_what_they_are_called() -> None:
    labels = [label("unsafe-guard", 10), label("unsafe-guard", 20), label("unsafe-incidental", 30), label("safe", 40)]
    labels += [label("safe", 50), label("either", 60)]
    found = {("a.py", 10): "error", ("a.py", 30): "note", ("a.py", 40): "note", ("a.py", 60): "warning"}
    expected = {
        "labels": 6,
        "precision": 1.0,
        "guard recall": 0.5,
        "wide recall": 0.667,
        "precision of notes": 0.5,
    }
    assert figures(labels, found) == expected
    assert figures(labels, {**found, ("a.py", 50): "warning"})["precision"] == 0.5


def test_a_statement_is_flagged_by_the_selection_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(LABELS.parent.parent))
    text = "import jax.numpy as jnp\n\n\ndef f(x):\n    return jnp.where(\n        x > 0, jnp.sqrt(x), 0.0)\n"
    (tmp_path / "a.py").write_text(text)
    assert flags([label("unsafe-guard", 5), label("safe", 1)], tmp_path) == {("a.py", 5): "error"}


@pytest.mark.parametrize("name", ["given", "given_2", "own", "drawn"])
def test_labels_are_complete(name: str) -> None:
    for line in (LABELS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        first, last = entry["lines"]
        assert entry["score"] in SCORES
        assert 0 < first <= last
        assert entry["path"].endswith(".py")
        assert entry["why"]


def test_evidence_is_weighed_by_what_it_stands_with() -> None:
    rows = [Row("a", "unsafe-guard", frozenset({"direct"}))] * 9 + [Row("b", "false", frozenset({"random"}))] * 9
    rows += [Row("b", "arguable", frozenset({"random"})), Row("c", "safe", frozenset({"direct", "late"}))]
    weights = fit(rows, ["direct", "late", "random"])
    assert weights["direct"] > 0 > weights["late"] > weights["random"]
    assert probability(rows[0], weights) > 0.8
    assert probability(rows[9], weights) < 0.2


def test_a_judgement_is_about_the_finding_nearby() -> None:
    judged = {"path": "a.py", "row": 10, "code": "WL101", "function": "f", "verdict": "true"}
    finding = {"filename": "p/a.py", "code": "WL101", "function": "f", "location": {"row": 12}, "score": 0.2}
    assert matched(judged, [{**finding, "location": {"row": 14}}, finding, {**finding, "score": 0.9}]) == {
        **finding,
        "score": 0.9,
    }
    assert matched(judged, [{**finding, "function": "g"}]) is None
