"""The linear term that WL304 shows: executed under its framework it has the value, and the slope of the limit."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from conftest import code_block
from real_gradients import framework_of, require, value_and_gradient

from wherelint import rules
from wherelint.cli import main
from wherelint.cli.output import CLEAN, FINDINGS
from wherelint.finding import Fix
from wherelint.fix.refusals import NO_TERM
from wherelint.fix.slopes import short
from wherelint.io.config import Settings
from wherelint.io.edits import Source
from wherelint.io.files import FixMode
from wherelint.run.check import check_source

JAX, TORCH, TENSORFLOW = "import jax.numpy as jnp\n", "import torch\n", "import tensorflow as tf\n"
DOUBLE = (
    JAX
    + """
def f(x):
    small = jnp.abs(x) < 1e-4
    safe = jnp.where(small, 1.0, x)
    return jnp.where(small, {arm}, {quotient})
"""
)
EXPM1, COSINE = "jnp.expm1(safe) / safe", "(1 - jnp.cos(safe)) / safe"
FROM_SQUARE = "(jnp.arcsinh(jnp.sqrt(safe**2)) / jnp.sqrt(safe**2) - 1) / safe"
AT_QUARTER = (
    JAX
    + """
def f(x):
    safe = jnp.where(x != 0.25, x, 1.0) - 0.25
    return jnp.where(x != 0.25, jnp.log1p(safe) / safe, 1)
"""
)
OF_A_VARIABLE = (
    JAX
    + """
def f(p):
    angle = 3 * p[0]
    safe = jnp.where(angle == 0, 1.0, angle)
    return jnp.where(angle == 0, -1.0, -jnp.expm1(safe) / safe)
"""
)
LIKE = (
    TORCH
    + """
def f(x):
    small = x.abs() < 1e-6
    safe = torch.where(small, torch.ones_like(x), x)
    return torch.where(small, torch.ones_like(x), torch.expm1(-safe) / -safe)
"""
)
LOGARITHM = (
    TENSORFLOW
    + """
def f(x):
    safe = tf.where(x == 0.0, 1.0, x)
    return tf.where(x == 0.0, 2.0, (tf.exp(2.0 * safe) - 1.0) / safe)
"""
)
#: The source, the arm that is shown, the point, and the slope of the limit there.
SHOWN = {
    "the linear term": (DOUBLE.format(arm="1.0", quotient=EXPM1), "1.0 + 0.5 * x", 0.0, 0.5),
    "no constant": (DOUBLE.format(arm="0.0", quotient=COSINE), "0.5 * x", 0.0, 0.5),
    "nothing but minus": (DOUBLE.format(arm="0", quotient=f"-2 * {COSINE}"), "-x", 0.0, -1.0),
    "a third": (DOUBLE.format(arm="-1", quotient=f"-1 - {COSINE} / 1.5"), "-1 - x / 3", 0.0, -1 / 3),
    "a sixth": (DOUBLE.format(arm="0.0", quotient=FROM_SQUARE), "-x / 6", 0.0, -1 / 6),
    "elsewhere": (AT_QUARTER, "1 - 0.5 * (x - 0.25)", 0.25, -0.5),
    "an element": (OF_A_VARIABLE, "-1.0 - 0.5 * angle", [0.0, 2.0], [-1.5, 0.0]),
    "torch": (LIKE, "torch.ones_like(x) - 0.5 * x", 0.0, -0.5),
    "tensorflow": (LOGARITHM, "2.0 + 2.0 * x", 0.0, 2.0),
}
HIDDEN = {
    "no constant": DOUBLE.format(arm="1.0 + 0.25 * x", quotient=EXPM1),
    "no short number": DOUBLE.format(arm="0.0", quotient=f"0.9387126 * {COSINE}"),
    "as another input has it": JAX
    + """
def f(x, scale):
    safe = jnp.where(x == 0, 1.0, x)
    return jnp.where(x == 0, 1.0, jnp.expm1(scale * safe) / (scale * safe))
""",
    "the elements of another": JAX
    + """
def f(x):
    safe = jnp.where(x[:1] == 0, 1.0, x[:1])
    return jnp.where(x[:1] == 0, 1.0, jnp.expm1(safe) / safe)
""",
}


def offered(source: str, mode: FixMode = "offer") -> Fix:
    report = check_source(source.encode(), "a.py", Settings(select=("WL304",), root=Path("/")), mode)
    assert (report.problems, report.fixed) == ((), ())
    (finding,) = report.findings
    assert finding.fix is not None
    return finding.fix


def run(source: str, at: object) -> tuple[np.ndarray, np.ndarray]:
    require(framework_of(source))
    namespace: dict[str, object] = {}
    exec(source, namespace)
    return value_and_gradient(framework_of(source), namespace["f"], [at])


@pytest.mark.parametrize(("source", "arm", "at", "limit"), SHOWN.values(), ids=SHOWN)
def test_the_arm_that_is_shown_has_the_slope_of_the_limit(source: str, arm: str, at: object, limit: object) -> None:
    fix = offered(source)
    assert (fix.applicability, [edit.content for edit in fix.edits]) == ("display", [arm])
    fixed = Source(source).edited(fix.edits)
    (value, gradient), (new_value, new_gradient) = run(source, at), run(fixed, at)
    np.testing.assert_array_equal(new_value, value)
    np.testing.assert_allclose(gradient, 0, atol=1e-6)
    np.testing.assert_allclose(new_gradient, np.ravel(limit), rtol=1e-6)


@pytest.mark.parametrize("source", HIDDEN.values(), ids=HIDDEN)
def test_no_other_term_is_shown(source: str) -> None:
    fix = offered(source)
    assert (fix.edits, fix.message) == ((), f"no fix is offered: {NO_TERM}")


def test_the_example_of_the_rule_gets_what_its_page_recommends() -> None:
    rule = rules.get("WL304")
    bad = code_block(rule, "Example")
    assert Source(bad).edited(offered(bad).edits) == code_block(rule, "Use instead")


def test_no_option_applies_it(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = DOUBLE.format(arm="1.0", quotient=EXPM1)
    (project / "a.py").write_text(source)
    for options in (["--fix"], ["--fix", "--unsafe-fixes"]):
        assert main(["check", "--select", "WL304", *options]) == FINDINGS
        assert "WL304      0     1  it changes values that are read" in capsys.readouterr().out
        assert (project / "a.py").read_text() == source
    assert main(["check", "--select", "WL304", "--diff"]) == CLEAN
    why, *lines = capsys.readouterr().out.splitlines()
    assert why.endswith("with respect to x is 0.0; with the fix it is that of the limit "
                        "(not applied: it changes values that are read)")  # fmt: skip
    arms = ("-", "1.0"), ("+", "1.0 + 0.5 * x")
    assert lines == [f"#     {sign}    return jnp.where(small, {arm}, {EXPM1})" for sign, arm in arms]


def test_a_double_where_that_leaves_a_wrong_slope_is_applied_all_the_same() -> None:
    source = JAX + "def f(x):\n    return jnp.where(x == 0, 1.0, jnp.expm1(x) / x)\n"
    settings = Settings(extend_select=("WL304",), root=Path("/"))
    report = check_source(source.encode(), "a.py", settings, "safe")
    assert ([f.code for f in report.fixed], [f.code for f in report.findings]) == (["WL103"], ["WL304"])


@pytest.mark.parametrize(
    ("number", "error", "fraction"),
    [
        (1 / 3 + 1e-9, 2e-9, Fraction(1, 3)),
        (1 / 3 + 1e-9, 1e-10, None),
        (-0.125, 1e-12, Fraction(-1, 8)),
        (7.0, 1e-3, Fraction(7)),
        (0.3371, 1e-3, None),  # 1/3 is as near, as it is to many
        (1 / 840, 1e-12, Fraction(1, 840)),
        (0.41979412, 1e-7, None),
    ],
)
def test_a_short_number(number: float, error: float, fraction: Fraction | None) -> None:
    assert short(number, error) == fraction
