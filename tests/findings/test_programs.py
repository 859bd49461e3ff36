"""The promises of the first version, one test a promise: what is found, what is silent, and in which words.

Every program is also run under its framework at the input it speaks of, so that no row can promise what is not true.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from executing import outcomes
from real_gradients import require

from wherelint.finding import Finding
from wherelint.io.config import Settings
from wherelint.run.check import check_source

_HEADERS = {
    "jax": "import jax\nimport jax.numpy as jnp\nimport numpy as np\nfrom jax import lax\n",
    "torch": "import torch\n",
    "tensorflow": "import tensorflow as tf\n",
}


@dataclass
class Row:
    """A program, what is found in it, and an input at which the framework shows why."""

    why: str
    source: str
    found: set[str]
    #: Arguments of `f` at which its gradient is bad where something is found, and good where nothing is.
    at: tuple[Any, ...]
    framework: str = "jax"
    select: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return _HEADERS[self.framework] + textwrap.dedent(self.source)

    def check(self) -> tuple[Finding, ...]:
        report = check_source(self.text.encode(), "row.py", Settings(extend_select=self.select, root=Path("/")))
        assert report.problems == ()
        return report.findings


def disks(distance: str, clip: str) -> str:
    return f"""
    def f(d, r=1.0, s=2.0):
        apart, inside = d >= r + s, d <= abs(r - s)
        {distance}
        cos_alpha = (d**2 + r**2 - s**2) / (2 * d * r)
        cos_beta = (d**2 + s**2 - r**2) / (2 * d * s)
        {clip}
        alpha = 2 * jnp.arccos(cos_alpha)
        beta = 2 * jnp.arccos(cos_beta)
        lens = (r**2 * (alpha - jnp.sin(alpha)) + s**2 * (beta - jnp.sin(beta))) / 2
        return jnp.where(apart, 0.0, jnp.where(inside, jnp.pi * min(r, s)**2, lens))
    """


def guarded_disks(eps: str) -> str:
    bounds = f"-1 + {eps}, 1 - {eps}"
    clip = f"cos_alpha, cos_beta = jnp.clip(cos_alpha, {bounds}), jnp.clip(cos_beta, {bounds})"
    return disks("d = jnp.maximum(d, 1e-10)", clip)


_MASKED_COND = """
    def vectorized_cond(predicate, true_fun, false_fun, operand):
        true_operand = jnp.where(predicate, operand, 0.0)
        false_operand = jnp.where(predicate, 0.0, operand)
        return jnp.where(predicate, true_fun(true_operand), false_fun(false_operand))

    def f(x):
        return vectorized_cond(x > 0.5, lambda t: jnp.arctan2(t, t), lambda t: 0.0 * t, x)
    """
_SAFE_SQRT = """
    @jax.custom_jvp
    def safe_sqrt(x):
        return jnp.sqrt(x)

    @safe_sqrt.defjvp
    def safe_sqrt_jvp(primals, tangents):
        (x,), (t,) = primals, tangents
        return safe_sqrt(x), jnp.where(x > 0, t * 0.5 / jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0)

    def f(x):
        return jnp.where(x > 0, safe_sqrt(x), 0.0)
    """
_ENTROPY = "def f(p):\n    return -(p * jnp.log(jnp.where(p > 0, p, 1.0))).sum()"
_CROSS_ENTROPY = "def f(p, q):\n    return -(p * jnp.log(jnp.where(p > 0, q, 1.0))).sum()"

ROWS = [
    Row(
        "a constant array that is written twice is one array",
        "def f(x):\n    return jnp.where(jnp.eye(2) == 1, 0.0, 1 / jnp.where(jnp.eye(2) == 1, 1.0, x**2))",
        set(),
        ([[0.0, 1.0], [1.0, 0.0]],),
    ),
    Row(
        "a mask on one side only leaves the other elements open",
        "def f(x):\n    return jnp.where(jnp.eye(2) == 1, 0.0, 1 / x**2)",
        {"WL103"},
        ([[0.0, 1.0], [1.0, 0.0]],),
    ),
    Row(
        "the same distance written twice is one distance",
        """
        def f(x):
            return jnp.where(jnp.sum((x - jnp.array([1.0, 2.0, 3.0])) ** 2) > 0,
                             jnp.sqrt(jnp.sum((x - jnp.array([1.0, 2.0, 3.0])) ** 2)), 0.0)
        """,
        {"WL101"},
        ([1.0, 2.0, 3.0],),
    ),
    Row(
        "an exponent that is an array of integers is differentiated as an integer",
        "def f(x):\n    return x ** jnp.array(0) * (x > 0)",
        set(),
        (0.0,),
    ),
    Row("two disks divide by their distance", disks("", ""), {"WL103", "WL104"}, (0.0,)),
    Row("two disks with an epsilon that float32 sees", guarded_disks("1e-6"), set(), (0.0,)),
    Row("two disks with an epsilon that float32 rounds away", guarded_disks("1e-9"), {"WL303"}, (3.0,)),
    Row(
        "jax#1052: a mask that knows nothing of the operand",
        """
        def f(a):
            temp = jnp.array([0.0, 1.0, 0.0])
            return jnp.where(temp > 0.5, 0.0, jnp.arctan2(a, a))
        """,
        {"WL105"},
        ([1.0, 0.0, 1.0],),
    ),
    Row(
        "jax#1052: a phase that is masked where it is undefined",
        "def f(a):\n    return jnp.where(jnp.abs(a) < 0.5, 0.0, jnp.arctan2(a, a))",
        {"WL105"},
        (0.0,),
    ),
    Row(
        "jax#1052: a constant mask",
        "def f(x):\n    return jnp.where(False, jnp.arctan2(x, x), 0.0)",
        {"WL105"},
        (0.0,),
    ),
    Row(
        "torch's atan2 is regular at 0",
        "def f(a):\n    return torch.where(a.abs() < 0.5, torch.zeros_like(a), torch.atan2(a, a))",
        set(),
        (0.0,),
        "torch",
    ),
    Row(
        "torch's atan2 is regular at 0 under a constant mask",
        "def f(x):\n    return torch.where(torch.tensor(False), torch.atan2(x, x), torch.zeros_like(x))",
        set(),
        (0.0,),
        "torch",
    ),
    Row(
        "jax#1052: one element of an array that holds a quotient",
        "def f(x):\n    return jnp.array([0.0, 1.0 / x])[0]",
        {"WL201"},
        (0.0,),
    ),
    Row("jax#1052: vectorized_cond masks both operands", _MASKED_COND, set(), (0.0,)),
    Row(
        "a true singularity away from it: no selection",
        "def f(x):\n    return jnp.sqrt(x) ** 2",
        set(),
        (1.0,),
    ),
    Row("a custom_jvp that is written with care", _SAFE_SQRT, set(), (0.0,)),
    Row(
        "the tf.where recipe, before",
        "def f(x):\n    return tf.where(x == 0.0, tf.ones_like(x), tf.sin(x) / x)",
        {"WL103"},
        (0.0,),
        "tensorflow",
    ),
    Row(
        "the tf.where recipe, after",
        """
        def f(x):
            safe_x = tf.where(x == 0.0, tf.ones_like(x), x)
            return tf.where(x == 0.0, tf.ones_like(x), tf.sin(safe_x) / safe_x)
        """,
        set(),
        (0.0,),
        "tensorflow",
    ),
    Row("an entropy whose outer where is a product", _ENTROPY, set(), ([0.0, 0.5, 0.5],)),
    Row("a cross entropy whose outer where is a product", _CROSS_ENTROPY, set(), ([0.0, 1.0], [0.0, 1.0])),
    Row("maximum as the selection", "def f(x):\n    return jnp.maximum(-5.0, jnp.log(x))", {"WL204"}, (0.0,)),
    Row("minimum as the selection", "def f(x):\n    return jnp.minimum(5.0, jnp.exp(x))", {"WL204"}, (100.0,)),
    Row(
        "log at a negative operand is finite",
        "def f(x):\n    return jnp.where(x >= 1, jnp.log(x), 0.0) if x < 0 else x",
        set(),
        (-1.0,),
    ),
    Row(
        "a power above one has a finite derivative at 0",
        """
        def f(x):
            if x < 0:
                raise ValueError
            return jnp.where(x > 0, x ** 1.5, 0.0)
        """,
        set(),
        (0.0,),
    ),
    Row("jnp.hypot", "def f(x, y):\n    return jnp.where(x > 0, jnp.hypot(x, y), 0.0)", set(), (0.0, 0.0)),
    Row("lax.cond", "def f(x):\n    return lax.cond(x > 0, jnp.sqrt, lambda t: 0.0 * t, x)", set(), (0.0,)),
    Row("jnp.piecewise", "def f(x):\n    return jnp.piecewise(x, [x > 0], [jnp.sqrt, lambda t: 0 * t])", set(), (0.0,)),
    Row("stop_gradient", "def f(x):\n    return x * jnp.where(x > 0, lax.stop_gradient(1 / x), 0.0)", set(), (0.0,)),
    Row(
        "an integer array",
        "def f(x):\n    n = x.astype(int)\n    return x * jnp.where(n > 0, 1.0 / n, 0.0)",
        set(),
        (0.0,),
    ),
    Row(
        "host NumPy",
        "def f(x):\n    k = np.arange(4)\n    return x * np.where(k > 0, 1 / np.maximum(k, 1), 0.0).sum()",
        set(),
        (0.0,),
    ),
    Row(
        "an integer cast, when nobody asked",
        "def f(x):\n    return jnp.sum(x) * jnp.round(x).astype(int)",
        set(),
        (1.5,),
    ),
]

_OPERATIONS = {
    "log": ("{m}log(x)", "WL102", 0.0),
    "sqrt": ("{m}sqrt(x)", "WL101", 0.0),
    "quotient": ("1 / x", "WL103", 0.0),
    "arccos": ("{m}arccos(x)", "WL104", 1.0),
}
_PLACES = {
    "inline": "def f(x):\n    return {where}({guard}, {op}, 0.0 * x)",
    "earlier": "def f(x):\n    y = {op}\n    z = 2 * y\n    return {where}({guard}, z, 0.0 * x)",
    "helper": "def g(x):\n    return {op}\n\ndef f(x):\n    return {where}({guard}, g(x), 0.0 * x)",
    "method": """
class Model:
    def g(self, x):
        return {op}

    def __call__(self, x):
        return {where}({guard}, self.g(x), 0.0 * x)

def f(x):
    return Model()(x)
""",
}


def spelled(framework: str, operation: str, place: str) -> Row:
    pattern, code, at = _OPERATIONS[operation]
    module = {"jax": "jnp.", "torch": "torch.", "tensorflow": "tf."}[framework]
    expression = pattern.format(m=module).replace("tf.log", "tf.math.log").replace("tf.arccos", "tf.acos")
    guard = "x < 1" if operation == "arccos" else "x > 0"
    source = _PLACES[place].format(where=f"{module}where", guard=guard, op=expression)
    return Row(f"{operation} {place} in {framework}", source, {code}, (at,), framework)


ROWS += [spelled(f, o, p) for f in _HEADERS for o in _OPERATIONS for p in _PLACES]
#: Rows that are wrong today, by what they are called, and why.
KNOWN: dict[str, str] = {}
PARAMETERS = [
    pytest.param(r, id=r.why, marks=[pytest.mark.xfail(strict=True, reason=KNOWN[r.why])] if r.why in KNOWN else [])
    for r in ROWS
]


@pytest.mark.parametrize("row", PARAMETERS)
def test_what_is_found(row: Row) -> None:
    findings = row.check()
    assert {place.code for f in findings for place in f.places} == row.found
    assert all(f.is_shown and f.witness is not None for f in findings)
    assert all(f.framework == row.framework for f in findings)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.why)
def test_what_the_framework_does(row: Row) -> None:
    f = _function(row)
    if " if " in row.source or "raise" in row.source:  # Python's own branches need numbers, which jit has none of
        import jax

        value, gradient = jax.value_and_grad(f)(*row.at)
        assert np.isfinite(value)
        assert np.isfinite(gradient)
        return
    found = outcomes(row.framework, f, row.at, text=row.text)
    assert all(np.isfinite(o.value).all() for o in found)
    assert found[0].regular is not bool(row.found)


def messages(framework: str, source: str) -> list[str]:
    return [f.message for f in Row("", source, set(), (), framework).check()]


def test_a_root_of_tensorflow_fails_under_xla_only() -> None:
    (message,) = messages("tensorflow", "def f(x):\n    return tf.where(x > 0, tf.sqrt(x), tf.zeros_like(x))")
    assert message.startswith("under XLA, ")


def test_a_quotient_of_tensorflow_fails_in_both_modes() -> None:
    (finding,) = Row(
        "", "def f(x):\n    return tf.where(x > 0, 1 / x, tf.zeros_like(x))", set(), (), "tensorflow"
    ).check()
    assert finding.modes == ("eager", "xla")
    assert "XLA" not in finding.message


def test_a_distance_of_tensorflow_fails_under_xla_only() -> None:
    (message,) = messages(
        "tensorflow",
        """
        def safe_distance(x, y):
            square = tf.reduce_sum((x - y) ** 2)
            return tf.where(square > 0, tf.sqrt(square), 0.0)
        """,
    )
    assert message.startswith("under XLA, ")


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("jnp.sign(x) * x", "WL401"),
        ("jnp.round(x)", "WL401"),
        ("jnp.floor(x) + x", "WL401"),
        ("jnp.ceil(x)", "WL401"),
        ("x.astype(jnp.int32) * 1.0", "WL401"),
        ("np.sqrt(x)", "WL402"),
        ("np.sum(x * x)", "WL402"),
    ],
)
def test_a_severed_gradient_is_said_when_asked(expression: str, code: str) -> None:
    source = f"@jax.jit\ndef f(x):\n    return {expression}"
    assert Row("", source, set(), ()).check() == ()
    assert {f.code for f in Row("", source, set(), (), select=("WL401", "WL402")).check()} == {code}


@pytest.mark.parametrize(("comment", "expected"), [("", "error"), ("  # wherelint: not-differentiated", "note")])
def test_a_comment_says_that_no_gradient_is_missed(comment: str, expected: str) -> None:
    settings = Settings(select=("WL401",), level="note")
    source = f"import jax.numpy as jnp\n\n\ndef f(x):{comment}\n    return jnp.round(x)\n"
    (finding,) = check_source(source.encode(), "a.py", settings).findings
    assert finding.level == expected


@pytest.mark.parametrize("mask", ["torch.max(x > 5.0, x == 0)", "~torch.min(x < 5.0, x != 0)"])
def test_an_extremum_of_two_masks_reads_both(mask: str) -> None:
    (finding,) = Row("", f"def f(x):\n    return torch.where({mask}, 1.0, torch.log(x))", set(), (), "torch").check()
    assert finding.witness is not None
    assert finding.witness.inputs == {"x": 0.0}


def test_a_mask_that_is_an_argument_of_its_own_is_a_note() -> None:
    """jax#1052 with the flag as an argument: it fails only where two unrelated arguments meet."""
    row = Row("", "def f(temp, a):\n    return jnp.where(temp > 0.5, 0.0, jnp.arctan2(a, a))", set(), ())
    assert row.check() == ()
    report = check_source(row.text.encode(), "row.py", Settings(level="note", root=Path("/")))
    (finding,) = report.findings
    assert (finding.code, finding.is_shown) == ("WL105", False)
    inputs = finding.witness.inputs
    assert not outcomes("jax", _function(row), [inputs["temp"], inputs["a"]])[0].regular


def _function(row: Row) -> Any:
    require(row.framework)
    namespace: dict[str, Any] = {}
    exec(compile(row.text, "row", "exec"), namespace)
    return namespace["f"]
