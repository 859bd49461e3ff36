"""The plot of a finding as a picture: the value and the gradient along a line through the witness."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal

from wherelint.finding import Plot
from wherelint.isolated import HOME
from wherelint.report.common import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The colours, on paper and in the dark; a page has a CSS variable of its own for each.
COLORS = {
    "ink": ("#4a4f57", "#a9b1bd"),
    "grid": ("#d9dde3", "#3a414c"),
    "before": ("#174a86", "#8cc8ff"),
    "after": ("#5da130", "#5f9e2a"),
    "lost": ("#c51b2c", "#ff7b84"),
}
_INK, _GRID, _BEFORE, _AFTER, _LOST = (light for light, _ in COLORS.values())
_STYLE: Any = {
    "axes.axisbelow": True, "axes.edgecolor": _INK, "axes.grid": True, "axes.labelcolor": _INK, "font.size": 8.5,
    "axes.spines.right": False, "axes.spines.top": False, "grid.color": _GRID, "svg.fonttype": "none",
    "svg.hashsalt": "wherelint", "text.color": _INK, "text.parse_math": False, "xtick.color": _INK,
    "ytick.color": _INK,
}  # fmt: skip
#: What is so many times as far from the middle as half of the points are has no say in the height.
_FAR = 12
_LONGEST_NAME = 20


def svg(plot: Plot, prefix: str = "") -> str:
    """The plot as an SVG element with a prefix for its ids, in CSS variables; without one a file."""
    text = re.sub(r" *<metadata>.*?</metadata>\n", "", _picture(plot, "svg").decode(), flags=re.DOTALL)
    text = re.sub(r"(\d\.\d\d)\d+", r"\1", text)
    if not prefix:
        return text
    for name, (light, _) in COLORS.items():
        text = text.replace(light, f"var(--{name})")
    return re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{prefix}-", text[text.index("<svg") :])


def png(plot: Plot) -> bytes:
    """The plot as the bytes of a PNG."""
    return _picture(plot, "png")


def _picture(plot: Plot, kind: Literal["svg", "png"]) -> bytes:
    with _own_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.2, 2.2))
        figure.subplots_adjust(left=0.08, right=0.98, top=0.87, bottom=0.21, wspace=0.24)
        left, right = figure.subplots(1, 2)
        curves = [plot.before] if plot.after is None else [plot.before, plot.after]
        _curves(left, plot, [each.value for each in curves])
        _curves(right, plot, [each.gradient for each in curves])
        before = zip(plot.before.value, plot.before.gradient, strict=True)
        lost = [math.isfinite(value) and not math.isfinite(gradient) for value, gradient in before]
        if any(lost):
            right.axvline(plot.witness, color=_LOST, linewidth=1, zorder=4)
        area: Any = {"where": lost, "transform": right.get_xaxis_transform()}
        right.fill_between(plot.at, 0, 1, color=_LOST, alpha=0.16, linewidth=0, **area)
        name = printable(plot.moved[0])
        if len(plot.moved) > 1:
            name = f"{len(plot.moved)} inputs: 0 is the witness, 1 an ordinary point"
        nan = "nan" if any(map(math.isnan, plot.before.gradient)) else "infinite"
        labels = (
            ("before", 0.63, _BEFORE),
            ("after the fix" * (len(curves) > 1), 0.9, _AFTER),
            (nan * any(lost), 1.0, _LOST),
        )
        for text, place, color in labels:
            left.text(place, 1.06, text, color=color, ha="right", transform=left.transAxes)
        titles = "value", f"gradient with respect to {_short(printable(plot.wrt))}"
        for axes, title in zip((left, right), titles, strict=True):
            axes.text(0, 1.06, title, transform=axes.transAxes)
            axes.set_xlabel(name if len(plot.moved) > 1 else _short(name))
        output = BytesIO()
        plain = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(output, format=kind, dpi=150, transparent=kind == "svg", metadata=plain)
        return output.getvalue()


def _curves(axes: Axes, plot: Plot, curves: Sequence[Sequence[float]]) -> None:
    """Draw the curve before the fix over the one after it, each with a dot at the witness."""
    heights = sorted(value for curve in curves for value in curve if math.isfinite(value)) or [0.0]
    middle = heights[len(heights) // 2]
    distances = sorted(abs(value - middle) for value in heights)
    most = _FAR * distances[len(distances) // 2] or math.inf
    heights = [value for value in heights if abs(value - middle) <= most]
    low, high = heights[0], heights[-1]
    room = 0.12 * (high - low) or 0.5 * abs(high) or 1.0
    axes.locator_params(nbins=5)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}".replace("-", "\N{MINUS SIGN}"))
    axes.set_xlim(plot.at[0], plot.at[-1])
    axes.set_ylim(low - room, high + room)
    for curve, color, width, order in zip(curves, (_BEFORE, _AFTER), (1.4, 4.5), (3, 2), strict=False):
        axes.plot(plot.at, curve, color=color, linewidth=width, zorder=order)
        axes.plot([plot.witness], [curve[plot.at.index(plot.witness)]], "o", color=color, markersize=width + 1)


@contextmanager
def _own_style() -> Iterator[None]:
    """Our settings of matplotlib, which reads a file of the working directory when it is imported: not from there."""
    here = os.getcwd()
    os.chdir(HOME)
    try:
        import matplotlib
    finally:
        os.chdir(here)
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
