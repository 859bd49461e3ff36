"""The figures of the README are computed as they are said to be."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import numpy as np
import pytest

LABELS = Path(__file__).parent / "labels"
sys.path.insert(0, str(LABELS))

import fit  # noqa: E402  (scripts beside their data)
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


def judged(*said: tuple[str, str, str], draw: int = 1, function: str = "") -> list[fit.Row]:
    """A row for each repository, verdict and evidence."""
    return [
        fit.Row(name, draw, (verdict, verdict), frozenset(evidence.split(", ")), frozenset(function.split()))
        for name, verdict, evidence in said
    ]


def test_evidence_is_weighed_by_what_it_stands_with() -> None:
    rows = judged(*[("a", "true", "direct")] * 20, *[("b", "false", "unseen")] * 20)
    rows += judged(("c", "false", "direct, tolerance"), ("c", "arguable", "unseen"))
    weights = fit.fit(fit.grouped(rows), ["direct", "tolerance", "unseen", "geometry"])
    assert weights["direct"] > 1
    assert weights["unseen"] < -1
    assert weights["tolerance"] == 0  # it would count against, and its sentence speaks for
    assert weights["geometry"] == 0
    score = fit.scores(fit.grouped(rows), weights)
    assert score[0] > 1
    assert score[20] < -1


def test_what_is_rare_weighs_little() -> None:
    few = fit.grouped(judged(*[("a", "true", "direct")] * 2, *[("b", "false", "returned")] * 2))
    many = fit.grouped(judged(*[("a", "true", "direct")] * 40, *[("b", "false", "returned")] * 40))
    assert 0 < fit.fit(few, ["direct"])["direct"] < fit.fit(many, ["direct"])["direct"] / 2


def test_copies_are_one_group_and_count_once() -> None:
    rows = judged(*((name, "true", "direct") for name in "abc"), function="x=1 y=2 return")
    rows += judged(("c", "true", "direct"), function="quite another")
    rows += judged(("d", "true", "direct"), function="x=1 other lines of code")
    rows += judged(("e", "true", "direct"), ("f", "true", "direct"))  # nobody knows their functions
    found = fit.grouped(rows)
    assert found.group.tolist() == [0, 0, 0, 0, 1, 2, 3]
    assert found.counts.tolist() == [1 / 3, 1 / 3, 1 / 3, 1, 1, 1, 1]


def test_a_copy_may_have_another_layout() -> None:
    one = 'def f(x):\n    """One."""\n    y = g(x,\n          1)  # why\n    return y\n'
    other = "class A:\n    def f(x):\n        y = g(x, 1)\n\n        return y\n"
    assert fit.lines_of_function(one, 3) == fit.lines_of_function(other, 3) == {"y = g(x, 1)", "return y"}
    assert fit.lines_of_function("x = 1\n", 1) == frozenset()


def test_a_later_draw_is_not_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "_ENOUGH", 1)
    rows = judged(("a", "true", "direct"), draw=1) + judged(("b", "false", "direct"), draw=2)
    rows += judged(("a", "true", "direct"), draw=3) + judged(("c", "false", "direct"), draw=3)
    parts = [
        (before.nonzero()[0].tolist(), after.nonzero()[0].tolist()) for before, after in fit.splits(fit.grouped(rows))
    ]
    assert parts == [([0], [1, 3]), ([0, 1], [3])]
    assert [after.sum() for _, after in fit.splits(fit.grouped(rows), only=True)] == [1, 1]


def test_a_fold_is_told_by_the_others() -> None:
    rows = judged(("a", "true", "direct"), ("b", "false", "returned"), ("c", "false", "returned"))
    odd = judged(*[("d", "false", "direct")] * 20)
    with_it, without = (fit.folded(fit.grouped(each), ["direct"]) for each in (rows + odd, rows))
    assert with_it[0] < without[0] - 1  # what others say of the same evidence
    assert with_it[3] > with_it[0] + 0.1  # not what it says of itself


def test_a_cut_is_as_low_as_what_may_be_false_lets_it_be() -> None:
    score, counts = np.array([5.0, 4.0, 4.0, 2.0, 1.0]), np.ones(5)
    false = np.array([False, False, True, False, True])
    assert fit.least(score, false, counts, 0.25) == 2.0
    assert fit.least(score, false, counts, 0.2) == 5.0
    assert fit.least(score, false, np.array([1, 3, 1, 1, 1.0]), 0.2) == 2.0
    assert fit.least(score, ~false, counts, 0.2) == np.inf
    assert fit.auc(score, ~false, counts) == pytest.approx((2 + 1.5 + 1) / 6)


def test_levels_are_cut_one_after_the_other() -> None:
    rows = judged(("a", "true", "direct"), ("b", "false", "direct, unseen"), ("c", "true", "returned"))
    rows += judged(*[("d", "arguable", "returned")] * 2, *[("e", "false", "returned")] * 2, ("f", "false", "quotient"))
    found = fit.grouped(rows)
    score = np.array([3.0, 3.0, *[2.0] * 5, 1.0])
    assert fit.cuts(found, score) == (3.0, 2.0)  # what is unseen is no error
    assert fit.told(found, score, (3.0, 2.0)) == "0.59 |    1   0%  50% |    6  50%  50%"
    assert fit.told(found, score, (9.0, 9.0)) == "0.59 |    0 nan%   0% |    0 nan%   0%"


def test_two_scores_are_compared_at_the_same_numbers() -> None:
    rows = judged(*((name, "true", "direct, unseen" if name == "c" else "direct") for name in "abcdef"))
    found = fit.grouped(rows)
    other, score = np.array([9.0, 8, 7, 6, 5, 4]), np.array([1.0, 2, 6, 3, 4, 5])
    assert fit.as_many(found, score, other, (8.0, 6.0)) == (4.0, 3.0)  # f and e are errors, c and d warnings
    assert fit.as_many(found, score, other, (10.0, 9.0)) == (np.inf, 6.0)


def test_what_tells_nothing_can_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "_ENOUGH", 1)
    names = ["direct", "returned", "unseen"]
    rows = [
        row
        for draw in (1, 2, 3)
        for i in range(20)
        for row in judged(
            (f"{draw}{i}", "true", "direct, returned" if i % 2 else "direct"),
            (f"{draw}{i}", "false", "unseen, returned" if i % 2 else "unseen"),
            draw=draw,
        )
    ]
    found = fit.grouped(rows)
    assert [name for name, _, _ in fit.prune(found, names)] == ["returned"]
    loss, area = fit.ahead(found, names)
    assert loss < 0.2
    assert area == 1
    assert fit.ahead(found, ["returned"])[0] > 0.6


def test_the_table_is_what_the_package_has() -> None:
    text = fit.table(fit.grouped(judged(("a", "true", "direct"))), {"": 0.5, "direct": 0.25}, (0.0, -np.inf))
    assert text.splitlines()[0] == "_START = 0.50"
    assert text.splitlines()[1].startswith('    DIRECT = "direct", 0.25, ')
    assert text.splitlines()[1].endswith("# (1, 0, 0)")
    assert text.splitlines()[-1] == "ERROR, WARNING = 0.50, 0.00"
    for each, line in zip(fit.Evidence, text.splitlines()[1:-1], strict=True):
        name, _, values = line.strip().partition(" = ")
        label, weight, sentence = ast.literal_eval(f"({values}\n)")
        assert (name, label, sentence) == (each.name, each.label, each.sentence)
        assert each is fit.Evidence.DIRECT or weight == each.weight


def test_a_judgement_is_about_the_finding_nearby() -> None:
    entry = {"path": "a.py", "row": 10, "select_row": 10, "code": "WL101"}

    def finding(row: int, select: int, score: float = 0.5, **more: str) -> dict[str, object]:
        places = {"location": {"row": row}, "select": {"location": {"row": select}}}
        return {"filename": "a.py", "code": "WL101", "score": score, **places, **more}

    far, near, surer = finding(13, 13), finding(12, 9), finding(12, 9, 0.9)
    assert fit.matched(entry, [far, near, surer, finding(12, 8)]) is surer
    assert fit.matched(entry, [far]) is far
    assert (
        fit.matched(entry, [finding(14, 10), finding(10, 10, code="WL102"), finding(10, 10, filename="b.py")]) is None
    )


def test_a_checkout_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(LABELS.parent.parent))
    root = tmp_path / "p-0123456789ab"
    root.mkdir()
    (root / "a.py").write_text(
        "import jax.numpy as jnp\n\n\ndef f(x):\n    return jnp.where(x > 0, jnp.sqrt(x), 0.0)\n"
    )
    entry = {"package": "p", "version": "0123456789ab", "repository": "o/p", "path": "a.py", "row": 5, "select_row": 5}
    entry |= {"code": "WL101", "verdicts": ["true", "false"], "verdict": "true"}
    gone = {**entry, "version": "x"}
    (row,) = fit.rows([entry, gone], {"o/p": 7}, tmp_path, 1)
    assert (row.repository, row.draw, row.verdicts) == ("o/p", 7, ("true", "false"))
    assert row.function == {"return jnp.where(x > 0, jnp.sqrt(x), 0.0)"}
    assert "direct" in row.evidence
    monkeypatch.setattr(fit.subprocess, "run", None)
    assert fit.rows([entry, gone], {"o/p": 7}, tmp_path, 1) == [row]
    monkeypatch.setattr(fit, "tool", lambda: "another")
    with pytest.raises(TypeError):
        fit.rows([entry], {}, tmp_path, 1)
