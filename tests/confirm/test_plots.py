"""The plot of a finding: its numbers are the framework's, before the fix and after it."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from conftest import UNSAFE, environment
from real_gradients import require

from wherelint import check_paths
from wherelint.cli import main, options
from wherelint.finding import Curve, Finding, Plot
from wherelint.io.config import Configuration, Settings
from wherelint.io.edits import Source
from wherelint.report.common import printable
from wherelint.report.plot import png, svg
from wherelint.run.check import check_source

HEAD = "import jax.numpy as jnp\n\n\n"
#: A function, the input that moves, and at how many points of the line the gradient is lost (None: at many).
LINES = [
    ("def f(x):\n    return jnp.where(x > 0, jnp.sqrt(x), 0.0)\n", "x", None),
    ("def f(x):\n    return jnp.where(x == 0, 0.0, 1 / x)\n", "x", 1),
    ("def f(x):\n    return jnp.where(x < 10, jnp.exp(x), x)\n", "x", None),
    ("def f(x, y):\n    return jnp.where((x == 0) & (y == 0), 0.0, jnp.arctan2(y, x))\n", "x", 1),
    ("def f(x, y):\n    return jnp.where(x * y > 0, jnp.sqrt(x * y), 0.0)\n", "x", None),
]


def found(program: str) -> Finding:
    (finding,) = check_source((HEAD + program).encode(), "a.py", Settings(level="note"), "offer").findings
    return finding


@pytest.mark.parametrize(("program", "moved", "lost"), LINES, ids=[program[14:-1] for program, _, _ in LINES])
def test_the_curves_are_those_of_the_framework(program: str, moved: str, lost: int | None) -> None:
    require("jax")
    import jax

    finding = found(program)
    plot, fix, witness = finding.plot, finding.fix, finding.witness
    assert plot is not None
    assert plot.after is not None
    assert fix is not None
    assert witness is not None
    assert plot.moved == (moved,)
    assert plot.at == tuple(sorted(plot.at))
    bad = [not math.isfinite(gradient) for gradient in plot.before.gradient]
    assert bad[plot.at.index(plot.witness)]
    assert sum(bad) == lost or (lost is None and sum(bad) > 20)
    assert len(bad) - sum(bad) > 20
    assert all(map(math.isfinite, plot.after.gradient))
    order = program.partition("(")[2].partition(")")[0].split(", ")
    inputs = [np.float32(plot.at if n == moved else [witness.inputs[n]] * len(plot.at)) for n in order]
    for text, curve in ((HEAD + program, plot.before), (Source(HEAD + program).edited(fix.edits), plot.after)):
        names: dict[str, Any] = {}
        exec(compile(text, "a.py", "exec"), names)
        value, slope = jax.jit(jax.vmap(jax.value_and_grad(names["f"], order.index(plot.wrt))))(*inputs)
        np.testing.assert_allclose(curve.value, value, rtol=2e-5, atol=1e-6)
        np.testing.assert_allclose(curve.gradient, slope, rtol=1e-4, atol=1e-6)


def test_without_a_fix_there_is_no_curve_after_it() -> None:
    settings = Settings(fixable=())
    (finding,) = check_source(UNSAFE.encode(), "a.py", settings, "offer").findings
    assert finding.plot is not None
    assert finding.plot.after is None
    assert check_source(UNSAFE.encode(), "a.py", settings, "no").findings[0].plot is None


def test_several_inputs_move_together_where_none_does_alone() -> None:
    plot = found("def f(x, y):\n    return jnp.where((x == 0) & (y == 0), 0.0, jnp.sqrt(x * y))\n").plot
    assert plot is not None
    assert (plot.moved, plot.witness) == (("x", "y"), 0.0)
    assert math.isfinite(plot.before.gradient[-1])


def test_an_element_moves_after_the_fix_too() -> None:
    plot = found("def f(x): return jnp.array([0.0, 1.0 / x[2]])[0]\n").plot
    assert plot is not None
    assert plot.after is not None
    assert all(map(math.isfinite, plot.after.gradient))


def test_a_function_that_ends_early_is_drawn_as_far_as_it_goes() -> None:
    plot = found("def f(x):\n    if x > 1:\n        return x\n    return jnp.where(x > 0, jnp.sqrt(x), 0.0)\n").plot
    assert plot is not None
    assert max(plot.at) <= 1


def test_the_cache_keeps_plots(project: Path) -> None:
    (project / "a.py").write_text(UNSAFE)

    def drawn() -> str:
        plot = check_paths(["a.py"], Configuration(), fix_mode="offer", cache="cache").findings[0].plot
        assert plot is not None
        return svg(plot)

    assert drawn() == drawn()


def texts(picture: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(picture).iter() if element.tag.endswith("text")]


CURVE = Curve((0.0, 0.0, 1.0), (math.nan, math.inf, 2.0))
PLOT = Plot(("x",), "y", 0.0, (-1.0, 0.0, 1.0), CURVE)
EVIL = "d['</text>$x$<script>\u2028\x00"


def test_a_picture_is_always_the_same_and_names_the_inputs() -> None:
    assert svg(PLOT) == svg(PLOT)
    assert png(PLOT) == png(PLOT)
    assert png(PLOT).startswith(b"\x89PNG")
    assert {"value", "gradient with respect to y", "x", "before", "nan"} <= set(texts(svg(PLOT)))
    assert "after the fix" not in texts(svg(PLOT))
    after = replace(PLOT, moved=("x", "y"), after=Curve((0.0, 0.0, 1.0), (0.0, 0.0, 2.0)))
    assert {"after the fix", "2 inputs: 0 is the witness, 1 an ordinary point"} <= set(texts(svg(after)))


def test_names_in_a_picture_are_only_text() -> None:
    for name in (EVIL[:12], EVIL[12:]):
        picture = svg(replace(PLOT, wrt=name))
        assert f"gradient with respect to {printable(name)}" in texts(picture)
        assert "<script" not in picture


def test_pictures_of_one_page_share_no_ids_and_have_its_colors() -> None:
    a, b = svg(PLOT, "a"), svg(PLOT, "b")
    ids = [set(re.findall(r'id="([^"]+)"', each)) for each in (a, b)]
    assert ids[0]
    assert not ids[0] & ids[1]
    for text, own in zip((a, b), ids, strict=True):
        assert set(re.findall(r'(?:url\(#|href="#)([^")]+)', text)) <= own
        assert "var(--before)" in text
        assert not re.search("#[0-9a-f]{6}", text)


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_plot_writes_the_picture(project: Path, capsysbinary: pytest.CaptureFixture[bytes], kind: str) -> None:
    (project / "a.py").write_text(UNSAFE)
    assert main(["plot", "a.py:5", "-o", f"a.{kind}"]) == 0
    content = (project / f"a.{kind}").read_bytes()
    assert content.startswith(b"<?xml" if kind == "svg" else b"\x89PNG")
    if kind == "svg":
        assert main(["plot", "a.py:5"]) == 0
        assert capsysbinary.readouterr().out == content


def test_what_a_stranger_set_for_matplotlib_does_not_count(project: Path) -> None:
    (project / "a.py").write_text(UNSAFE)
    (project / "matplotlibrc").write_text("axes.labelsize: 40\ntext.usetex: True\nsavefig.dpi: oops\n")
    command = [sys.executable, "-m", "wherelint", "plot", "a.py:5"]
    ran = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    assert ran.stdout == svg(found(UNSAFE.partition("\n\n\n")[2]).plot)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.py:5", "-o", "a.jpg"], "a.jpg: write an .svg or a .png"),
        (["a.py"], "'a.py' is not of the form PATH:ROW, for example model.py:12"),
        (["a.py:1"], "no finding at a.py:1: there is one at 5"),
    ],
)
def test_plot_says_what_is_wrong(
    project: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    (project / "a.py").write_text(UNSAFE)
    assert main(["plot", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["plot", "a.py:5"], ["check", "--report", "html=a.html"]], ids=" ".join)
def test_what_needs_the_extra_says_so(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    (project / "a.py").write_text(UNSAFE)
    real = options.find_spec
    monkeypatch.setattr(options, "find_spec", lambda name: None if name == "matplotlib" else real(name))
    assert main(arguments) == 2
    _, errors = capsys.readouterr()
    what = "a plot" if arguments[0] == "plot" else "the format html"
    assert errors == f"error: {what} needs matplotlib: pip install matplotlib\n"
    assert not (project / "a.html").exists()
