"""Calls as they stand in an editor before they are finished: whatever is passed, the function around them is read."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from wherelint.frontend.options import Budget
from wherelint.interpret.lowering import CONTAINER_METHODS, FUNCTIONS, METHODS
from wherelint.io.config import Settings
from wherelint.run.check import check_source

#: One of each kind of value that the analysis tells apart.
_VALUES = ["y", "0.5", "'text'", "[y, 1.0]", "None", "{'a': y}", "(lambda v: v)", "jnp.sqrt", "y > 0", "Thing(y)", "[]",
           "3", "y.shape", "torch", "(low < 2.0)"]  # fmt: skip
_RECEIVERS = ["y", "(y > 0)", "[y, 1.0]", "{'a': y}", "Thing(y)", "y.shape", "y.at[0]", "y.at", "'text'"]
_HEAD = """
import jax.numpy as jnp, torch, tensorflow
class Thing:
    def __init__(self, x):
        self.x = x
"""
_FUNCTION = """
def function_{}(x, y, low=1.0):
    {}
    return jnp.where(x > 0, jnp.sqrt(x), 0.0)
"""
_AT_ONCE = 40


def calls(function: str) -> list[str]:
    """A function called with none to four values, each kind of value in each place."""
    rows = [f"{function}()", f"{function}(**{{}})", f"{function}(*y)", f"{function}(unknown=y)"]
    for count in range(1, 5):
        for i in range(len(_VALUES)):
            given = [_VALUES[(i + 5 * k) % len(_VALUES)] for k in range(count)]
            rows.append(f"{function}({', '.join(given)})")
    return rows


def report(bodies: list[tuple[str, list[str]]]) -> list[str]:
    """What is wrong with the findings of some functions, by what each of them calls."""
    text, marked = _HEAD, {}
    for i, (name, rows) in enumerate(bodies):
        if not name.startswith((*_RECEIVERS, "builtins.")):
            text += f"import {name.rpartition('.')[0]}\n"
        text += _FUNCTION.format(i, "; ".join(rows))
        marked[text.count("\n")] = name
    found = check_source(text.encode(), "half_typed.py", Settings(root=Path("/")))
    wrong = [f"{problem.message}" for problem in found.problems]
    rows_found = {finding.location.row for finding in found.findings}
    wrong += [f"{name}: the finding beside it is lost" for row, name in marked.items() if row not in rows_found]
    lines = text.splitlines()
    return wrong + [f"a finding out of nothing: {lines[row - 1]}" for row in rows_found - marked.keys()]


def named(handlers: dict[str, Any]) -> list[str]:
    """The first and the last name of every handler: they may be of two frameworks."""
    names: dict[Any, list[str]] = {}
    for name in sorted(handlers):
        names.setdefault(handlers[name], []).append(name)
    return sorted({name for group in names.values() for name in (group[0], group[-1])})


def batches(bodies: list[tuple[str, list[str]]]) -> list[list[tuple[str, list[str]]]]:
    rest = iter(bodies)
    return list(iter(lambda: list(islice(rest, _AT_ONCE)), []))


_FUNCTIONS = batches([(name, calls(name.removeprefix("builtins."))) for name in named(FUNCTIONS)])
_METHODS = batches([(f"{receiver}.{name}", calls(f"{receiver}.{name}"))
                    for name in named({**METHODS, **CONTAINER_METHODS}) for receiver in _RECEIVERS])  # fmt: skip


@pytest.mark.parametrize("bodies", [pytest.param(batch, id=batch[0][0]) for batch in _FUNCTIONS + _METHODS])
def test_calls_that_make_no_sense_are_read(
    bodies: list[tuple[str, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Budget, "function_work", 10_000_000)
    assert report(bodies) == []
