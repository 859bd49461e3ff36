"""``--fix`` reaches the fixpoint in one run, whatever else the file holds, and says what it gave up on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from fixes import chain, functions

from wherelint import fix
from wherelint.findings import analysis
from wherelint.fix import apply as rounds
from wherelint.fix import messages as refusals
from wherelint.fix import search as rewrites
from wherelint.fix.verify import compare
from wherelint.fix.verify import proof as proving
from wherelint.frontend.options import Budget
from wherelint.graph.work import Work
from wherelint.io.config import Settings
from wherelint.run.check import check_source

SETTINGS = Settings()


def fixed(text: str) -> tuple[int, str]:
    """How many findings one run fixes, and the text after it, which another run leaves alone."""
    report = check_source(text.encode(), "a.py", SETTINGS, "safe")
    assert not report.problems
    after = report.after.decode()
    again = check_source(report.after, "a.py", SETTINGS, "safe")
    assert (again.fixed, again.problems) == ((), ())
    return len(report.fixed), after


@pytest.mark.parametrize(("text", "count"), [(functions(12, 1), 12), (functions(2, 6), 12), (chain(12), 12)])
def test_one_run_applies_what_check_offers(text: str, count: int) -> None:
    offered = check_source(text.encode(), "a.py", SETTINGS, "offer").findings
    assert [f.fix.applicability for f in offered if f.fix is not None] == ["safe"] * count
    assert fixed(text)[0] == count


@pytest.mark.parametrize(
    "many", [lambda n: functions(n, 1), lambda n: functions(n, 2), chain], ids=["one", "two", "chain"]
)
def test_the_work_grows_with_the_findings(many: Callable[[int], str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: the functions that are analysed for twice as many findings are twice as many."""
    analysed: Counter[int] = Counter()
    analyse = analysis.analyse_functions
    count = 0

    def counting(module: Any, used: Any, names: Iterable[Any], *rest: Any, **options: Any) -> Any:
        names = list(names)
        analysed[count] += len(names)
        return analyse(module, used, names, *rest, **options)

    monkeypatch.setattr(analysis, "analyse_functions", counting)
    monkeypatch.setattr(proving, "analyse_functions", counting)
    for count in (8, 16):
        fixed(many(count))
    assert analysed[16] <= 2.2 * analysed[8]


@pytest.mark.parametrize(
    ("many", "most"),
    [(lambda n: functions(1, n), 2.4), (chain, 4.0)],  # each function of a chain holds those before it
    ids=["one function", "chain"],
)
def test_a_fix_is_proven_where_its_selection_reads(
    many: Callable[[int], str], most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice the findings of one function: twice the analyses, and twice the values that proofs compute."""
    counts: Counter[tuple[str, int]] = Counter()
    number = 0

    def counting(module: Any, name: str, weigh: Callable[..., int]) -> None:
        real = getattr(module, name)

        def counted(*given: Any, **options: Any) -> Any:
            counts[name, number] += weigh(*given)
            return real(*given, **options)

        monkeypatch.setattr(module, name, counted)

    counting(proving, "analyse_functions", lambda *_: 1)
    counting(
        compare, "_measure", lambda program, settled, inputs, *_: len(program.order) * max(map(len, inputs.values()))
    )
    for number in (6, 12):
        assert fixed(many(number))[0] == number
    assert counts["analyse_functions", 12] <= 2.2 * counts["analyse_functions", 6]
    assert counts["_measure", 12] <= most * counts["_measure", 6]


def test_findings_of_one_kind_are_told_apart_by_their_place() -> None:
    """The second goes with its own fix only."""
    body = (
        "def f(x, y):\n    a = jnp.where(x > 0, jnp.sqrt(x), 0.0)\n    return a + jnp.where(y > 0, jnp.sqrt(y), 0.0)\n"
    )
    report = check_source((f"import jax.numpy as jnp\n\n\n{body}").encode(), "a.py", SETTINGS, "offer")
    edits = [finding.fix.edits for finding in report.findings if finding.fix is not None]
    assert [[edit.location.row for edit in each] for each in edits] == [[5], [6]]


GIVEN_UP = {
    "_MOST_IN_ALL": (fix, 0, refusals.TOO_MANY),
    "_MOST_WORK": (fix, 0, "too much to search (analysis budget exceeded)"),
    "_MOST_TRIED": (rewrites, 0, "too many possible fixes (analysis budget exceeded)"),
    "_MOST_ROUNDS": (rounds, 0, refusals.ROUNDS),
    "changed_behavior": (rounds, lambda analysis, after, done, whole, sure: done, refusals.ALONE),
}


@pytest.mark.parametrize("bound", GIVEN_UP)
def test_what_is_given_up_is_said(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, value, why = GIVEN_UP[bound]
    monkeypatch.setattr(module, bound, value)
    report = check_source(functions(2, 1).encode(), "a.py", SETTINGS, "safe")
    assert not report.fixed
    assert [(p.message, p.error) for p in report.problems] == [(f"gave up on fixes for 2 of 2 findings: {why}", False)]


def test_the_fixes_of_a_file_cost_what_they_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is done for: reading functions again and computing both programs count as the searches do."""

    def cost(fix_mode: Any) -> int:
        before = Work.done
        messages = [p.message for p in check_source(chain(8).encode(), "a.py", SETTINGS, fix_mode).problems]
        assert messages == [f"gave up on fixes for 5 of 8 findings: {refusals.TOO_MANY}"] * (fix_mode == "offer")
        return Work.done - before

    monkeypatch.setattr(fix, "_MOST_IN_ALL", 2_500)
    assert 2_500 < cost("offer") - cost("no") < 10_000


def test_what_has_no_fix_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round goes on with the other findings; the statement of this one no fix has changed."""
    matrix = "\n\ndef g(a):\n    return jnp.where(jnp.linalg.det(a) != 0, jnp.linalg.inv(a), 0.0).sum()\n"
    asked: list[str] = []
    proposed = fix.propose

    def counted(analysis: Any, finding: Any, whole: Any = None) -> Any:
        asked.append(finding.function)
        return proposed(analysis, finding, whole)

    monkeypatch.setattr(fix, "propose", counted)
    report = check_source((functions(2, 1) + matrix).encode(), "a.py", SETTINGS, "safe")
    assert len(report.fixed) == 2
    assert [finding.fix for finding in report.findings] == [refusals.refused(refusals.MATRIX)]
    assert asked.count("g") == 1


def test_no_fix_is_looked_for_where_the_search_did_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    text = functions(1, 12).encode()
    whole = check_source(text, "a.py", SETTINGS, "offer")
    assert all(finding.fix is not None and finding.fix.edits for finding in whole.findings)
    monkeypatch.setattr(Budget, "function_work", 2_000)
    part = check_source(text, "a.py", SETTINGS, "offer")
    assert 0 < len(part.findings) < len(whole.findings)
    assert {finding.fix for finding in part.findings} == {refusals.refused(refusals.TOO_LONG)}


def test_a_defect_of_a_fix_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(fix, "rewritten", broken)
    report = check_source(functions(1, 1).encode(), "a.py", SETTINGS, "offer")
    (problem,) = report.problems
    assert problem.error
    assert problem.message.startswith("gave up on fixes for 1 of 1 finding: internal error, please report it: KeyError")
    assert len(report.findings) == 1


@pytest.mark.parametrize("applicability", ["safe", "unsafe", "display"])
def test_what_is_for_display_is_never_applied(monkeypatch: pytest.MonkeyPatch, applicability: Any) -> None:
    propose = fix.propose

    def graded(*given: Any, **options: Any) -> Any:
        found = propose(*given, **options)
        assert found is not None
        return replace(found, applicability=applicability)

    monkeypatch.setattr(fix, "propose", graded)
    applied = [
        len(check_source(functions(1, 1).encode(), "a.py", SETTINGS, fix_mode).fixed) for fix_mode in ("safe", "unsafe")
    ]
    assert applied == {"safe": [1, 1], "unsafe": [0, 1], "display": [0, 0]}[applicability]


def test_what_leaves_its_finding_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    propose = fix.propose

    def idle(*given: Any, **options: Any) -> Any:
        found = propose(*given, **options)
        return found and replace(found, edits=(replace(found.edits[0], content="(x0 + 0.0)"),))

    monkeypatch.setattr(fix, "propose", idle)
    report = check_source(functions(1, 1).encode(), "a.py", SETTINGS, "safe")
    assert report.fixed == ()
    assert not report.after
    assert [f.fix.message for f in report.findings if f.fix] == [refusals.refused(refusals.ALONE).message]
