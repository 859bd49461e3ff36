"""The plot of a finding as a picture: the value and the gradient along a line through the witness."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from io import BytesIO
from itertools import groupby, pairwise
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from wherelint.finding import Plot
from wherelint.isolated import HOME
from wherelint.report.common import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    "axes.axisbelow": True, "axes.edgecolor": _INK, "axes.grid": True, "axes.labelcolor": _INK, "axes.labelsize": 8.5,
    "axes.linewidth": 0.7, "axes.spines.right": False, "axes.spines.top": False, "font.size": 8.5,
    "grid.color": _GRID, "grid.linewidth": 0.6, "lines.solid_capstyle": "round", "svg.fonttype": "none",
    "svg.hashsalt": "wherelint", "text.color": _INK, "text.parse_math": False, "xtick.color": _INK,
    "xtick.labelsize": 8, "ytick.color": _INK, "ytick.labelsize": 8,
}  # fmt: skip
#: How much of the line on each side of the witness has no say in the height: a gradient may be without bound there.
_BESIDE = 0.03
#: Nor has what is so many times as far from the middle as half of the points are.
_MOST = 12
#: Characters of a name, alone and in the title.
_LONGEST, _BESIDE_WORDS = 24, 20
#: Where neighbours lie so close and differ so much, relative to what is shown, the curve jumps.
_CLOSE, _JUMP = 0.002, 0.15
#: What is narrower is drawn as a line.
_NARROW = 0.01
#: What a picture can do without: most of its size.
_SHORTER = [
    (re.compile(pattern, re.DOTALL), instead)
    for pattern, instead in [
        (r" *<metadata>.*?</metadata>\n", ""),
        (r"<!DOCTYPE.*?>\n", ""),
        (r'<style type="text/css">', "<style>"),
        (r' id="[a-z][\w.]*_\d+"', ""),
        (r"font-family: [^;\"]+", "font-family: sans-serif"),
        (r"font: ([\d.]+px) [^;\"]+", r"font: \1 sans-serif"),
        (r" transform=\"rotate\(-0 [\d. ]+\)\"", ""),
        (r"; stroke-linecap: \w+", ""),
        (r"(\d\.\d\d)\d+", r"\1"),
        (r"\s*\n\s*", "\n"),
    ]
]


def svg(plot: Plot, prefix: str = "") -> str:
    """The plot as an SVG element with a prefix for its ids, in CSS variables; without one a file with its colours."""
    text = _picture(plot, "svg").decode()
    for pattern, instead in _SHORTER:
        text = pattern.sub(instead, text)
    text = "".join(_ungrouped(text.splitlines(keepends=True)))
    if prefix:
        for name, (light, _) in COLORS.items():
            text = text.replace(light, f"var(--{name})")
        return re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{prefix}-", text[text.index("<svg") :])
    dark = "".join(
        f'[style*="{what}: {light}"]{{{what}:{dark}!important}}'
        for light, dark in COLORS.values()
        for what in ("fill", "stroke")
    )
    return text.replace("<style>", f"<style>@media (prefers-color-scheme: dark){{{dark}}}", 1)


def _ungrouped(lines: Iterable[str]) -> Iterator[str]:
    """An SVG, a tag a line, without the groups that say nothing: half of its elements."""
    needed: list[bool] = []
    for line in lines:
        if line.startswith("<g") and not line.endswith("/>\n"):
            needed.append(line != "<g>\n")
        if (line == "</g>\n" and needed.pop()) or not line.startswith(("<g>", "</g>")):
            yield line


def png(plot: Plot) -> bytes:
    """The plot as the bytes of a PNG."""
    return _picture(plot, "png")


def _picture(plot: Plot, kind: Literal["svg", "png"]) -> bytes:
    with _own_style():
        figure = _figure()
        left, right = figure.axes
        where = _short(plot.moved[0])
        if len(plot.moved) > 1:
            where = f"{len(plot.moved)} inputs: 0 is the witness, 1 an ordinary point"
        curves = [plot.before] if plot.after is None else [plot.before, plot.after]
        _curves(left, plot, [each.value for each in curves])
        _curves(right, plot, [each.gradient for each in curves])
        before = zip(plot.before.value, plot.before.gradient, strict=True)
        lost = [math.isfinite(value) and not math.isfinite(gradient) for value, gradient in before]
        _lost(right, plot.at, lost)
        left.set_xlabel(where)
        right.set_xlabel(where)
        nan = "nan" if any(map(math.isnan, plot.before.gradient)) else "infinite"
        texts = "value", "before", "after the fix" * (len(curves) > 1), nan * any(lost)
        for text, label in zip(left.texts, texts, strict=True):
            text.set_text(label)
        right.texts[0].set_text(f"gradient with respect to {_short(plot.wrt, _BESIDE_WORDS)}")
        output = BytesIO()
        plain = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(output, format=kind, dpi=150, transparent=kind == "svg", metadata=plain)
        for artist in [each for axes in figure.axes for each in (*axes.lines, *axes.patches)]:
            artist.remove()
        return output.getvalue()


@lru_cache(maxsize=1)
def _figure() -> Figure:
    """Two empty plots side by side, and what tells their curves apart: to make them takes longer than to fill them."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 2.2))
    for axes in figure.subplots(1, 2):
        axes.text(0, 1.06, "", transform=axes.transAxes, fontsize=9)
        axes.locator_params(nbins=5)
        axes.tick_params(bottom=False, left=False)
        for axis in (axes.xaxis, axes.yaxis):  # a factor apart from the numbers would lie over the title
            axis.set_major_formatter(lambda number, _: f"{number:g}".replace("-", "\N{MINUS SIGN}"))
    for place, color in ((0.63, _BEFORE), (0.9, _AFTER), (1.0, _LOST)):
        figure.axes[0].text(place, 1.06, "", color=color, ha="right", transform=figure.axes[0].transAxes)
    figure.subplots_adjust(left=0.08, right=0.98, top=0.87, bottom=0.21, wspace=0.24)
    return figure


def _curves(axes: Axes, plot: Plot, curves: Sequence[Sequence[float]]) -> None:
    """Draw the curve before the fix over the one after it, each with a dot at the witness."""
    width = plot.at[-1] - plot.at[0]
    heights = [
        value
        for curve in curves
        for at, value in zip(plot.at, curve, strict=True)
        if math.isfinite(value) and (at == plot.witness or abs(at - plot.witness) > _BESIDE * width)
    ]
    middle = median(heights or [0.0])
    most = _MOST * median([abs(value - middle) for value in heights] or [0.0]) or math.inf
    heights = [value for value in heights if abs(value - middle) <= most]
    low, high = min(heights, default=0.0), max(heights, default=0.0)
    room = 0.12 * (high - low) or 0.5 * abs(high) or 1.0
    axes.set_xlim(plot.at[0], plot.at[-1])
    axes.set_ylim(low - room, high + room)
    looks = [(_BEFORE, 1.4, 3), (_AFTER, 4.5, 2)]
    for curve, (color, thick, order) in zip(curves, looks, strict=False):
        points = list(zip(plot.at, curve, strict=True))
        pieces = [points[:1]]
        for (a, x), (b, y) in pairwise(points):
            if b - a < _CLOSE * width and abs(y - x) > _JUMP * (high - low):
                pieces.append([])
            pieces[-1].append((b, y))
        broken = [point for piece in pieces for point in (*piece, (math.nan, math.nan))]
        axes.plot(*zip(*broken, strict=True), color=color, linewidth=thick, zorder=order)
        here = [value for at, value in points if at == plot.witness]
        axes.plot([plot.witness] * len(here), here, "o", color=color, markersize=2.4 * thick**0.5, zorder=order)


def _lost(axes: Axes, at: Sequence[float], lost: Sequence[bool]) -> None:
    """Mark points at which the gradient is lost: between some in a row it is, too."""
    for bad, run in groupby(range(len(at)), key=lost.__getitem__):
        if bad:
            first, *_, last = [*run] * 2
            if at[last] - at[first] < _NARROW * (at[-1] - at[0]):
                axes.axvline((at[first] + at[last]) / 2, color=_LOST, linewidth=1, linestyle=(0, (4, 2)))
            else:
                axes.axvspan(at[first], at[last], color=_LOST, alpha=0.16, linewidth=0)


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


def _short(name: str, most: int = _LONGEST) -> str:
    name = printable(name)
    return name if len(name) <= most else f"{name[: most - 1]}…"
