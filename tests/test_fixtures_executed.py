"""The fixtures tell the truth: under the real framework, marked functions fail at the printed witness, others do not.

Only functions of the file's top level whose parameters are arrays can be run; the rest is left to the reader.
"""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from executing import Outcome, at_points
from real_gradients import framework_of, require
from test_fixtures import KNOWN, expected, function_at, replays, report_on, source

from wherelint.finding import Finding
from wherelint.io.config import Settings
from wherelint.run.check import check_source

#: Fixtures that import what is not installed, or no framework.
NOT_RUN = frozenset({"namespaces", "host_only"})
#: Unmarked functions that do have a nan gradient somewhere, and why that is no finding by default.
_TRUE = "a true singularity: the gradient is bad under symbolic zeros too"
_LOW = "a note: something has to move that the condition does not read"
_HELPER = "its marked row is in the helper that it calls"
EXEMPT = {
    **dict.fromkeys(("no_selection", "cubic_root", "cutoff_masked", "used_bare_as_well", "early_and_late",
                     "linear_in_the_norm"), _TRUE),
    **dict.fromkeys(("masked_with_another_variable", "tempered", "interpolation", "first_element_set"), _LOW),
    **dict.fromkeys(
        ("calls_a_helper", "helper_with_another_floor", "positional_and_keyword", "bound_arguments", "mapped",
         "keyword_splat", "several_results", "careless", "product_with_the_result_of_a_helper", "triplet"), _HELPER),
    "integers": "the count is an integer, here it is tried as an array",
    "asserted": "XLA leaves assertions out",
}  # fmt: skip
#: Findings that are right, with a printed witness that is not one.
NOT_CONFIRMED = {
    "masked_mean": "a mean with `where=` divides by the number of selected elements, so it is nan where there are none",
    "iou": "torch.min of two tensors is taken for the reduction of the first",
}
_VALUES = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 100.0, -100.0, 1000.0)
_LANES = 4


def cases() -> list[tuple[str, str]]:
    return [case for case in replays() if case[0] not in NOT_RUN]


@cache
def loaded(fixture: str, framework: str) -> tuple[str, str, dict[str, Any]]:
    """The framework, the text and the names of a fixture."""
    text = source(fixture, framework)
    used = framework or framework_of(text)
    require(used)
    return used, text, names_in(text, f"fixture_{fixture}_{framework}")


def names_in(text: str, name: str) -> dict[str, Any]:
    """The names that a program defines."""
    module = types.ModuleType(name)
    sys.modules[name] = module  # dataclasses look their module up
    exec(compile(text, f"{name}.py", "exec"), module.__dict__)
    return module.__dict__


def functions(text: str, names: dict[str, Any]) -> Iterator[tuple[str, Callable[..., Any], list[str]]]:
    """Top-level functions with the parameters that have no default."""
    for name in re.findall(r"^(?:def (\w+)|(\w+) = lambda)", text, re.MULTILINE):
        f = names[name[0] or name[1]]
        try:
            parameters = list(inspect.signature(f).parameters.values())
        except (TypeError, ValueError):
            continue
        if all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters):
            yield name[0] or name[1], f, [p.name for p in parameters if p.default is p.empty]


def bad(outcome: Outcome, inputs: list[np.ndarray]) -> bool:
    """Whether the value is finite and the gradient of finite inputs is not."""
    return bool(np.isfinite(outcome.value).all()) and any(
        bool((~np.isfinite(g) & (np.isfinite(x) | (x.shape != g.shape))).any())
        for x, g in zip(inputs, outcome.gradients, strict=True)
    )


def witnesses(text: str, fixture: str) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for finding in report_on(text, fixture).findings:
        found.setdefault(finding.function, []).append(finding)
    return found


@pytest.mark.rotated(6)
@pytest.mark.slow
@pytest.mark.parametrize(("fixture", "framework"), cases())
def test_the_printed_witnesses_are_ones(fixture: str, framework: str) -> None:
    used, text, names = loaded(fixture, framework)
    found = witnesses(text, fixture)
    confirmed = 0
    for name, f, parameters in functions(text, names):
        for finding in found.get(name, ()):
            inputs = finding.witness.inputs
            if set(parameters) != set(inputs) or name in NOT_CONFIRMED or any(name == known for *_, known in KNOWN):
                continue
            arrays = at_witness(inputs, parameters)
            # None: Python control flow, or a shape of its own.
            for outcome in at_points(used, f, len(parameters), [arrays], f"{name} of\n{text}"):
                assert bad(outcome, arrays), (name, finding.witness)
                confirmed += 1
    assert confirmed or not expected(text)


def at_witness(inputs: Mapping[str, Any], parameters: list[str]) -> list[np.ndarray]:
    return [np.broadcast_to(np.asarray(inputs[p], np.float32), (_LANES,)).copy() for p in parameters]


@pytest.mark.rotated(6)
@pytest.mark.slow
@pytest.mark.parametrize(("fixture", "framework"), cases())
def test_a_fixed_fixture_does_the_same(fixture: str, framework: str) -> None:
    """What a function takes before a fix it takes after it, with the same values; the witness is none any more."""
    used, text, names = loaded(fixture, framework)
    found = witnesses(text, fixture)
    report = check_source(text.encode(), f"{fixture}.py", Settings(root=Path("/")), "unsafe")
    fixed = {(finding.function, finding.code) for finding in report.fixed}
    after = report.after.decode()
    repaired = {name: f for name, f, _ in functions(after, names_in(after, f"fixed_{fixture}_{framework}"))}
    ran = 0
    for name, f, parameters in functions(text, names):
        rewrites = [finding for finding in found.get(name, ()) if (name, finding.code) in fixed]
        points = [
            at_witness(m.witness.inputs, parameters) for m in rewrites if set(parameters) == set(m.witness.inputs)
        ]
        if not points:
            continue
        points += islice(grid(len(parameters)), 3)
        # None: Python control flow, booleans, or a shape of its own.
        before = at_points(used, f, len(parameters), points, f"{name} of\n{text}")
        now = at_points(used, repaired[name], len(parameters), points[: len(before)], f"{name} of\n{after}")
        ran += len(before)
        for old, new in zip(before, now, strict=True):
            np.testing.assert_allclose(new.value, old.value, rtol=1e-5, atol=1e-6, err_msg=name)
        for new in now[:1]:  # what is selected may have a singularity of its own there
            assert not any(np.isnan(g).any() for g in new.gradients), name
    assert ran or not report.fixed


def grid(count: int) -> Iterator[list[np.ndarray]]:
    """All arguments at one value, one argument at a value, one element at a value, two arguments equal."""
    rng = np.random.default_rng(0)
    base = [rng.uniform(0.2, 3, _LANES).astype(np.float32) for _ in range(count)]
    yield base
    for value in _VALUES:
        yield [np.full(_LANES, value, np.float32)] * count
        for i in range(count):
            first = base[i].copy()
            first[0] = value
            yield [*base[:i], np.full(_LANES, value, np.float32), *base[i + 1 :]]
            yield [*base[:i], first, *base[i + 1 :]]
    for i in range(count):
        yield [base[i]] * count


@pytest.mark.slow
@pytest.mark.parametrize(("fixture", "framework"), cases())
def test_unmarked_functions_are_regular(fixture: str, framework: str) -> None:
    used, text, names = loaded(fixture, framework)
    marked = {function_at(text, row) for row, _ in expected(text)}
    for name, f, parameters in functions(text, names):
        if name in marked or name in EXEMPT or not parameters:
            continue
        points = list(grid(len(parameters)))
        for inputs, outcome in zip(
            points, at_points(used, f, len(parameters), points, f"{name} of\n{text}"), strict=False
        ):
            assert not bad(outcome, inputs), (name, [a.tolist() for a in inputs])
