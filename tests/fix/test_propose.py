"""Looking for fixes parses and locates no more than it has to, and a fix reads no unbound name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from fixes import functions

from wherelint import fix
from wherelint.finding import Location
from wherelint.frontend import concrete
from wherelint.frontend.module import Module
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
        report = check_source(functions(number // 3, 3).encode(), "a.py", Settings(), "offer")
        assert sum(bool(f.fix and f.fix.edits) for f in report.findings) == number
    assert 0 < counts[12] <= 2.2 * counts[6]


TEXT = """import jax.numpy as jnp

LIMIT = 1.0


def f(x):
    y = jnp.sqrt(x)
    return y + LIMIT + missing
"""


@pytest.mark.parametrize(
    ("old", "new", "bound"),
    [
        ("y = jnp", "root = jnp", False),  # what reads y is left without it
        ("jnp.sqrt(x)", "jnp.sqrt(abs(x))", True),
        ("jnp.sqrt(x)", "jax.nn.relu(x)", False),
        ("y + LIMIT", "(lambda v: v + y)(LIMIT)", True),
        ("y + LIMIT", "other + LIMIT", False),
        ("import jax.numpy as jnp\n", "import jax\nimport jax.numpy as jnp\n", True),
    ],
)
def test_a_fix_reads_no_unbound_name(old: str, new: str, bound: bool) -> None:
    module = Module("f.py", TEXT)
    assert fix._binds_all(module, TEXT.replace(old, new)) == bound
    assert fix._binds_all(Module("f.py", f"from math import *\n{TEXT}"), TEXT.replace(old, new))
