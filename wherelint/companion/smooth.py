"""Whether a function has a slope where its gradient is not finite: finite differences from both sides."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from wherelint.companion.report import Report

#: How many elements are moved, and how long that may take.
_MOST, _SECONDS = 6, 10.0
#: By how much, in double and in single precision; the second step is shorter by a factor.
_WIDE, _NARROW, _SHORTER = 1e-4, 3e-2, 16

#: The values of a function where one element of its arguments is moved by a fraction of it, or of 1 if that is more.
Along = Callable[[float], Sequence[npt.NDArray[Any]]]


def with_smooth(report: Report, lines: Callable[[bool], Iterable[Along]]) -> Report:
    """The report, whose findings that no selection drops say whether the function is smooth there.

    ``lines(wide)`` are those along the elements of the gradient that no mask makes finite, in double precision or as
    the program computes.
    """
    if not report.value_finite or report.masked_finite or not any(each.bare for each in report.findings):
        return report
    deadline = time.monotonic() + _SECONDS
    for wide in (True, False):
        smooth = False
        try:
            for along in islice(lines(wide), _MOST):
                smooth = is_smooth(along)
                if not smooth or time.monotonic() > deadline:
                    return report
        except Exception:  # the program has no such precision, or refuses the input, in whatever way
            continue
        return replace(report, findings=tuple(replace(each, smooth=smooth and each.bare) for each in report.findings))
    return report


def is_smooth(along: Along) -> bool:
    """Whether the slopes of both sides are finite, meet, and do not grow, as the step becomes shorter."""
    middle = along(0.0)
    precision = max((np.finfo(each.dtype).eps for each in middle), default=0.0)
    step = _WIDE if precision < 1e-12 else _NARROW
    origin = _joined(middle)

    def slopes(length: float) -> tuple[Any, Any]:
        right, left = ((_joined(along(end)) - origin) / end for end in (length, -length))
        return abs(right - left), abs(right + left) / 2

    with np.errstate(all="ignore"):
        (gap, slope), (shorter_gap, shorter_slope) = slopes(step), slopes(step / _SHORTER)
        noise = 8 * precision * abs(origin) * _SHORTER / step
        smooth = (shorter_gap <= gap / 2 + noise) & (shorter_slope <= 1.05 * slope + noise)
    return bool((smooth & np.isfinite(gap) & np.isfinite(shorter_gap)).all())


def _joined(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.float64]:
    parts = [part for each in arrays for part in ((each.real, each.imag) if np.iscomplexobj(each) else (each,))]
    return np.concatenate([np.ravel(part).astype(np.float64) for part in parts])
