"""Whether finite differences tell a smooth function from one without a gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from wherelint.companion import Poison, Report
from wherelint.companion.smooth import is_smooth, with_smooth

SMOOTH: dict[str, Callable[[Any], Any]] = {
    "the square of a norm": lambda x: np.sqrt(x * x) ** 2,
    "a steep line": lambda x: 1e6 * x + 3,
    "a constant": lambda x: x * 0 + 5,
    "a curve": lambda x: np.exp(3 * x),
    "a root of a cube": lambda x: np.cbrt(x) ** 3,
    "large beside it": lambda x: np.stack([np.sqrt(x * x) ** 2, x * 0 + 1e6]),
}
SINGULAR: dict[str, Callable[[Any], Any]] = {
    "a norm": lambda x: np.sqrt(x * x),
    "one side": lambda x: np.sqrt(x) ** 2,
    "a cube root": np.cbrt,
    "a root": lambda x: np.sqrt(np.abs(x)),
    "a direction": lambda x: x / (np.abs(x) + 1e-30),
    "a step": lambda x: np.where(x > 0, 1.0, 0.0),
    "a small kink beside": lambda x: np.stack([x, 1e-3 * np.abs(x)]),
}


def along(f: Callable[[Any], Any], kind: type[Any] = np.float64) -> Callable[[float], Any]:
    return lambda step: [np.asarray(f(kind(step)), kind)]


@pytest.mark.filterwarnings("ignore:(invalid|divide):RuntimeWarning")
@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("name", [*SMOOTH, *SINGULAR])
def test_slopes_of_both_sides(name: str, kind: type[Any]) -> None:
    assert is_smooth(along({**SMOOTH, **SINGULAR}[name], kind)) == (name in SMOOTH)


REPORT = Report(True, False, False, (Poison("sqrt", None, genuine=True), Poison("log", None, "where")))


def judged(report: Report, f: Callable[[Any], Any], lost: int = 1) -> Report:
    """A report on a function of so many elements of which the gradient is lost."""
    return with_smooth(report, [np.zeros(2)], [np.float64([np.nan] * lost + [1] * (2 - lost))], lambda x, _: [f(x[0])])


def test_only_what_no_selection_drops_is_told_smooth() -> None:
    curve = SMOOTH["a curve"]
    assert [each.smooth for each in judged(REPORT, curve).findings] == [True, False]
    for other in (replace(REPORT, value_finite=False), replace(REPORT, masked_finite=True)):
        assert judged(other, curve) == other
    assert judged(REPORT, curve, lost=0) == REPORT
    assert judged(REPORT, lambda x: np.stack([x[0], abs(x[1])]), lost=1) != REPORT
    assert judged(REPORT, lambda x: np.stack([x[0], abs(x[1])]), lost=2) == REPORT


def test_without_double_precision_it_is_tried_as_the_program_computes() -> None:
    def values(inputs: list[Any], wide: bool) -> list[Any]:
        if wide:
            raise TypeError("it has no such precision")
        return inputs

    assert with_smooth(REPORT, [np.zeros(1, np.float32)], [np.float32([np.nan])], values).findings[0].smooth
