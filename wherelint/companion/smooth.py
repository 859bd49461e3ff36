"""Whether a function has a slope where its gradient is not finite: finite differences from both sides."""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from wherelint.companion.report import Report

#: How many elements are moved, and how long that may take.
_MOST, _SECONDS = 6, 3.0
#: By how much, in double and in single precision; the second step is shorter by a factor.
_WIDE, _NARROW, _SHORTER = 1e-4, 3e-2, 16

Arrays = Sequence[npt.NDArray[Any]]


def with_smooth(
    report: Report, inputs: Iterable[Any], masked: Iterable[Any], values: Callable[[list[Any], bool], Arrays]
) -> Report:
    """The report, whose findings that no selection drops say whether the function is smooth there.

    ``inputs`` are arrays, and ``masked`` their masked gradients (None: not differentiated); ``values(inputs, wide)``
    are those of the function, in double precision or as the program computes.
    """
    lost: list[tuple[int, Any]] = []
    if report.value_finite and not report.masked_finite and any(each.bare for each in report.findings):
        with suppress(Exception):  # NumPy has no such arrays
            arrays = [*inputs]
            lost = [(i, at) for i, ct in enumerate(masked) if ct is not None for at in np.argwhere(~np.isfinite(ct))]
    deadline = time.monotonic() + _SECONDS

    def along(i: int, element: tuple[int, ...], wide: bool, step: float) -> Arrays:
        point = [_widened(np.array(each)) if wide else np.array(each) for each in arrays]
        point[i][element] += step * max(1.0, abs(complex(point[i][element])))
        return values(point, wide)

    for wide in (True, False) if lost else ():
        with suppress(Exception):  # the program has no such precision, or refuses the input, in whatever way
            for i, at in lost[:_MOST]:
                if time.monotonic() > deadline or not is_smooth(partial(along, i, tuple(at), wide)):
                    return report
            return replace(report, findings=tuple(replace(each, smooth=each.bare) for each in report.findings))
    return report


def _widened(array: Any) -> Any:
    """A floating array in double precision; one of bfloat16 has no kind."""
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    return array.astype(np.float64) if array.dtype.kind in "fV" else array


def is_smooth(along: Callable[[float], Arrays]) -> bool:
    """Whether the slopes of both sides are finite, meet, and do not grow, as the step becomes shorter.

    ``along`` gives the values where one element of the arguments is moved by a fraction of it, or of 1 if that is more.
    """
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


def _joined(arrays: Arrays) -> npt.NDArray[np.float64]:
    parts = [part for each in arrays for part in ((each.real, each.imag) if np.iscomplexobj(each) else (each,))]
    return np.concatenate([np.ravel(part).astype(np.float64) for part in parts])
