"""Whether finite differences tell a smooth function from one without a gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from wherelint.companion import Poison, Report
from wherelint.companion.smooth import Along, is_smooth, with_smooth

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


def along(f: Callable[[Any], Any], kind: type[Any] = np.float64) -> Along:
    return lambda step: [np.asarray(f(kind(step)), kind)]


@pytest.mark.filterwarnings("ignore:(invalid|divide):RuntimeWarning")
@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("name", [*SMOOTH, *SINGULAR])
def test_slopes_of_both_sides(name: str, kind: type[Any]) -> None:
    assert is_smooth(along({**SMOOTH, **SINGULAR}[name], kind)) == (name in SMOOTH)


REPORT = Report(True, False, False, (Poison("sqrt", None, genuine=True), Poison("log", None, "where")))


def test_only_what_no_selection_drops_is_told_smooth() -> None:
    report = with_smooth(REPORT, lambda wide: [along(SMOOTH["a curve"])])
    assert [each.smooth for each in report.findings] == [True, False]
    for other in (replace(REPORT, value_finite=False), replace(REPORT, masked_finite=True)):
        assert with_smooth(other, lambda wide: [along(SMOOTH["a curve"])]) == other
    assert with_smooth(REPORT, lambda wide: []) == REPORT
    assert with_smooth(REPORT, lambda wide: map(along, (SMOOTH["a curve"], SINGULAR["a norm"]))) == REPORT


def test_without_double_precision_it_is_tried_as_the_program_computes() -> None:
    def lines(wide: bool) -> list[Along]:
        return [along(1 / 0 if wide else SMOOTH["a curve"], np.float32)]  # type: ignore[arg-type]

    assert with_smooth(REPORT, lines).findings[0].smooth
