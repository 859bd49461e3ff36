"""Looking for fixes parses, differentiates and locates no more than it has to."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from test_fix_rounds import functions

from wherelint.analysis import DetectOptions, analyse
from wherelint.analysis.findings import Analysis
from wherelint.finding import Location
from wherelint.fix import proof
from wherelint.fix.proving import Proof
from wherelint.frontend import concrete
from wherelint.frontend.syntax import Chunk
from wherelint.io.config import Settings
from wherelint.io.edits import Source
from wherelint.run.check import check_source

CLASS = """
import jax.numpy as jnp


class Model:
    limit = 2.0

    def first(self, x):
        return x + 1

    @property
    def other(self):
        return 3

    # The comment belongs to nobody.
    @staticmethod
    def roots(x):
        y = jnp.sqrt(x)  # of a negative number
        return jnp.where(x > 0, y, 0.0)

    def quotient(self, x, d):
        if x is None:
            return d
        return jnp.where((d > 0), 1.0 / (d), 0.0)
"""


def edits(text: str) -> list[Any]:
    report = check_source(text.encode(), "a.py", Settings(), "offer")
    assert not report.problems
    return [finding.fix and finding.fix.edits for finding in report.findings]


def test_libcst_parses_the_method_not_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    parse = concrete.cst.parse_module
    monkeypatch.setattr(concrete.cst, "parse_module", lambda text: parsed.append(text) or parse(text))
    assert all(edits(CLASS))
    named = [{name for name in ("first", "other", "roots", "quotient") if f"def {name}" in text} for text in parsed]
    assert sorted(map(sorted, named)) == [["quotient"], ["roots"]]


def test_a_method_is_fixed_as_in_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    made = edits(CLASS)
    monkeypatch.setattr(Chunk, "part", lambda chunk, node: chunk)
    assert edits(CLASS + "\n") == made
    assert len(made) == 2


def analysed(body: str) -> tuple[Analysis, Proof]:
    made = analyse("import jax.numpy as jnp\n" + textwrap.dedent(body), "a.py", DetectOptions({}, frozenset()))
    assert isinstance(made, Analysis)
    (detection,) = [each for _, each in made.found if each is not None]
    return made, Proof(made, detection)


def test_what_has_another_value_is_not_differentiated(monkeypatch: pytest.MonkeyPatch) -> None:
    differentiated: list[object] = []
    real = proof._differentiate
    monkeypatch.setattr(proof, "_differentiate", lambda *given: differentiated.append(given[1]) or real(*given))
    made, asked = analysed("def f(x):\n    return jnp.where(x > 0, jnp.sqrt(x), 0.0)\n")
    text = made.module.text
    assert asked.of(text.replace("sqrt(x)", "sqrt(jnp.where(x > 1, x, 1.0))")) is None
    assert len(differentiated) == 1  # the old text
    assert asked.of(text.replace("sqrt(x)", "sqrt(jnp.where(x > 0, x, 1.0))")) is not None
    assert len(differentiated) == 2


def test_gradients_are_computed_where_they_are_compared() -> None:
    made, asked = analysed("def f(x, y):\n    return jnp.where(x > 0, jnp.sqrt(x), 0.0) * y\n")
    assert asked.of(made.module.text.replace("sqrt(x)", "sqrt(jnp.where(x > 0, x, 1.0))")) is not None
    records = [record for known in asked._records.values() for _, record in known]
    assert records
    for record in records:
        assert 0 < record.told.beyond < len(record.counted)
        lengths = {len(g) for found in (*record.gradients, *record.real) for g in found.values()}
        assert lengths == {record.compared} == {len(record.counted) - record.told.beyond}


def test_a_region_is_located_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the findings: twice the regions that are looked for after the edits."""
    counts: Counter[int] = Counter()
    number = 0
    moved = Source.moved

    def counting(source: Source, given: Any) -> Callable[[Location, Location], Any]:
        found = moved(source, given)

        def counted(start: Location, end: Location) -> Any:
            counts[number] += 1
            return found(start, end)

        return counted

    monkeypatch.setattr(Source, "moved", counting)
    for number in (6, 12):
        report = check_source(functions(number, 1).encode(), "a.py", Settings(), "offer")
        assert sum(bool(f.fix and f.fix.edits) for f in report.findings) == number
    assert 0 < counts[12] <= 2.2 * counts[6]
