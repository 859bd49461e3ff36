"""Fixes that looked safe and were not: what they did to a function, executed where that is what matters."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixes import checked, executed, program, tensor
from real_gradients import require, value_and_gradient

from wherelint import fix
from wherelint.finding import Edit, Location
from wherelint.findings import DetectOptions, analyse
from wherelint.findings.analysis import Analysis
from wherelint.fix.mask.double_where import Site
from wherelint.fix.search import rewritten
from wherelint.fix.verify.compare import observe, observe_rewrite
from wherelint.fix.verify.findings import Comparison
from wherelint.fix.verify.proof import Passed, Proof
from wherelint.interpret.programs import own_programs
from wherelint.io.config import Settings
from wherelint.run.check import check_source

#: An operand guarded by its own condition has another value there, which something sees: nothing of the kind is safe.
ALONE = {
    "a divisor that makes 0 of 0 / 0": ("jax", """
        def f(x, scale=1):
            r = scale / x
            r6 = r ** 6
            return jnp.nan_to_num(4 * (r6 * r6 - r6))
    """, {"x": [0.0, 1.0, 0.9], "scale": [1.0, 2.0]}),
    "a cap that is a parameter": ("torch", """
        def f(x, most=1.0):
            return torch.clamp(torch.exp(x), max=most)
    """, {"x": [100.0, 90.0, 0.1], "most": [1.0, 2.0, 1e30]}),
    "a sampler that rejects nan": ("jax", """
        def f(d, u):
            accept = jnp.minimum(jnp.exp(d), 1.0)
            return jnp.where(u < accept, 3.0, 5.0) + jnp.where(accept > 0.2, accept, 0.0)
    """, {"d": [100.0, -1.0, np.nan, np.inf], "u": [0.1, 0.9]}),
    "a probability at the middle": ("torch", """
        def f(x, df=2.0):
            y = torch.where(x == 0, torch.zeros_like(x), df / x)
            tail = 0.5 * y.abs() / (1.0 + y.abs())
            root = torch.sqrt(torch.clamp(tail, min=0.0))
            return torch.where(x > 0, 1.0 - root, root)
    """, {"x": [0.0, 1.0, -1.0], "df": [2.0, 0.5]}),
}  # fmt: skip


@pytest.mark.parametrize("why", ALONE)
def test_no_safe_fix_changes_a_value(why: str, tmp_path: Path) -> None:
    framework, body, given = ALONE[why]
    report, before, after = executed(framework, program(framework, body), tmp_path)
    names, columns = list(given), [np.array(c, np.float32) for c in given.values()]
    for values in np.stack(np.meshgrid(*columns), -1).reshape(-1, len(names)):
        old, new = (
            np.asarray(f(*(tensor(framework, v) for v in values)), np.float64) for f in (before, after)
        )  # fmt: skip
        np.testing.assert_allclose(new, old, rtol=1e-5, err_msg=report.after.decode())


#: What an operation gives where it is singular is read, but only where something else is moved too, or as the last
#: of many results; the arguments at which a fix would show.
READ = {
    "the arm of a helper": ("torch", """
        def part(y, v0):
            return torch.where(y >= -1.0, y, v0)


        def f(x, y):
            v0 = x / x
            v2 = part(y=y, v0=v0)
            return v2 + v2
    """, {"x": [0.0, -0.0, 1.0], "y": [-1.5, 100.0]}),
    "an infinity of either sign": ("torch", """
        def f(x, y, v0=1.0):
            v1 = y.arcsin()
            v2 = x / y
            v4 = torch.where(x >= v0, v1, x)
            v8 = v4 >= v0
            return torch.where(v8, torch.where(v8, v2, 0.001).trunc(), v0) * x
    """, {"x": [-1.0, 0.5], "y": [0.0, 2.0], "v0": [1.0, -1.0]}),
    "a cap that meets a zero": ("torch", """
        def part(y, v0, v1):
            v2 = torch.log1p(y)
            return v2, torch.where(y != v0, v2, v1)


        def f(x, y, v0=0.5):
            v1 = x.sinh()
            v2, v4 = part(y, v0, v1)
            return v4 * v2
    """, {"x": [100.0, 1.0], "y": [0.0, -1.0], "v0": [0.0, 0.5]}),
    "a zero with a sign": ("torch", """
        def f(x, y, v0=0.5):
            v1 = torch.reciprocal(x)
            return torch.where(y > v0, y, v1)
    """, {"x": [-0.0, 0.0, 1.0], "y": [0.0, 1.0]}),
    "an infinity of either sign, beside another operation": ("torch", """
        def part(y, v2, v3):
            return v3 + v2, y < 0.001


        def f(x, y):
            v0 = y.asin()
            v4, v5 = part(y, (v0 / x) + v0, torch.arcsin(y))
            return torch.where(v5, 0.5, v4)
    """, {"x": [-0.0, 0.0, 1.0], "y": [0.3, 0.0]}),
    "a zero with a sign that a domain ends at": ("jax", """
        def f(x, y):
            v2 = jnp.arctanh(jnp.arctan2(x, x))
            return jnp.where(v2 + y > 5.0, 2.0, v2 + v2)
    """, {"x": [-0.0, 0.0, 0.3], "y": [0.0, 10.0]}),
    "a parameter that is what a mask makes, after a first rewrite": ("torch", """
        def f(x, y, v0=0.001):
            v1 = y.log()
            v2 = x.logit()
            v3 = x <= v0
            v4 = torch.where(v3, v1, v2)
            v5 = v2 != v0
            return torch.where(~v5, v4, v0)
    """, {"x": [0.0, 0.5], "y": [0.7, 2.0], "v0": [0.0, 0.001]}),
    "a product with what was drawn": ("torch", """
        def f(y):
            v0 = torch.sigmoid(y).bernoulli()
            v1 = torch.log10(v0)
            return torch.where(y <= v1, v1, v0) * v0
    """, {"y": [-np.inf, np.inf]}),
    "an input and a parameter that are 0 at once": ("torch", """
        def f(x, y, v0=0.001):
            v1 = F.dropout(x, 1.0)
            v4 = torch.where(v1 == 0.001, v1, torch.reciprocal(v1))
            return torch.where(x / y != v0, x, v4.log1p())
    """, {"x": [0.0, 1.0], "y": [0.7], "v0": [0.0, 0.001]}),
    "a parameter that is 0 where the domain ended": ("torch", """
        def f(x, v0=0.5):
            v2 = x.atanh()
            v3 = v2 / torch.log10(x)
            return torch.where(v3 != v0, v2, v3) * x
    """, {"x": [-0.5, 0.5], "v0": [0.0, 0.5]}),
    "the root of minus infinity": ("tensorflow", """
        def part(v0):
            return v0 >= 0.5


        def f(x, y):
            v0 = x ** 0.5
            v3 = tf.where(x >= 2.0, y, 0.001) / v0
            return tf.where(part(v0), v3, x)
    """, {"x": [-np.inf, 4.0, -1.0], "y": [0.7]}),
    "a shape": ("torch", """
        def f(x, y):
            v2 = torch.xlogy(y + y, y)
            return torch.where(x == 1.0, 1.0, v2 / v2.numel())
    """, {"x": [[1.0, 2.0]], "y": [0.5]}),
    "a zero with a sign that another operation meets": ("torch", """
        def f(x, y, z):
            v0 = torch.asin(x)
            v2 = torch.reciprocal(y)
            v3 = torch.reciprocal(v2)
            return torch.where(v2 <= 2.0, v0, v3) * z
    """, {"x": [0.8, 1.0], "y": [-0.0, 0.5], "z": [-np.inf, 1.0]}),
    "the sign of nan, which is 0": ("torch", """
        def f(x, y):
            v1 = torch.sign(y.log())
            return torch.where(v1 > -1.0, torch.logit(v1), -1.0)
    """, {"x": [1.0], "y": [-1.0, 0.0, 2.0]}),
    "two nans that meet": ("jax", """
        def part(x, v0, v2):
            return v2 + v0, x == 0.0


        def f(x, y):
            v0 = jnp.sqrt(x)
            v1 = jax.lax.sqrt(x)
            v3, v4 = part(x, v0, v1 / y)
            return jnp.where(v4, x, v3)
    """, {"x": [-1.0, 0.0, 4.0], "y": [0.7]}),
    "a power that is a root, of -0.0": ("torch", """
        def f(x):
            v0 = x ** -0.5
            return torch.where(v0 > 0.001, 0.001, v0)
    """, {"x": [-0.0, 0.0, 4.0, -np.inf]}),
    "a number that one comparison is about": ("torch", """
        def f(x, y, v0=-1.0):
            v1 = torch.special.logit(x)
            v7 = torch.where(x != 2.0, x / x, v1)
            return v7 * (y + torch.where(x < v0, x, v1))
    """, {"x": [2.0, 0.5], "y": [0.7], "v0": [2.5, -1.0]}),
    "nan that no rest is compared with": ("tensorflow", """
        def part(x, v0, v1):
            return tf.where(v0, x, v1)


        def f(x, y):
            v2 = part(x, y <= y, tf.acosh(x))
            return v2 * v2
    """, {"x": [0.63, 2.0], "y": [np.nan, 1.0]}),
    "the last of many results": ("tensorflow", """
        def f(x, y):
            for k in range(7):
                print(y * k)
            rate = x / y
            return tf.where(tf.math.is_nan(rate), tf.zeros_like(rate), rate)
    """, {"x": [0.5, 0.0], "y": [0.0, 2.0]}),
}  # fmt: skip


@pytest.mark.parametrize("why", READ)
def test_a_value_that_is_read_stays(why: str, tmp_path: Path) -> None:
    framework, body, given = READ[why]
    report, before, after = executed(framework, program(framework, body), tmp_path, "safe", level="note")
    assert report.fixed or report.findings
    for values in itertools.product(*given.values()):
        old, new = (f(*(tensor(framework, np.float32(v)) for v in values)) for f in (before, after))
        np.testing.assert_allclose(np.asarray(new), np.asarray(old), rtol=1e-5, err_msg=report.after.decode())


#: Programs whose fixes ended in an internal error.
DEFECTS = {
    "a number beside many probes": ("torch", """
        def part(x, y, v0, v2):
            v3 = v2 * v2
            return torch.where(x >= v0, -1.0, v3 / y)


        def f(x, y, v0=0.0):
            v6 = part(x, y, v0, torch.poisson(torch.full_like(y, 1.5)).log10())
            return v6 + v6
    """),
    "a mask of some shapes, and no other": ("jax", """
        def f(x):
            return (jnp.eye(4) != 0).astype(x.dtype) * jnp.log(x)
    """),
    "no integer is safe": ("jax", """
        def f(x, y):
            v1 = jnp.arange(4.0)
            return jnp.where(v1 <= 2.0, y, jax.scipy.special.logit(v1) * (y + y))
    """),
}  # fmt: skip


@pytest.mark.parametrize("why", DEFECTS)
def test_no_fix_ends_in_a_defect(why: str) -> None:
    report = check_source(program(*DEFECTS[why]).encode(), "f.py", Settings(root=Path("/"), level="note"), "safe")
    assert report.fixed or report.findings
    assert not [problem for problem in report.problems if problem.error]


def test_a_guard_of_what_is_read_is_not_safe() -> None:
    """The value is the same and the gradient is not: TensorFlow makes 0 of what is nan by the rules."""
    text = program("tensorflow", """
        def f(x, y):
            v1 = tf.math.reciprocal(y)
            v3 = tf.random.normal(tf.shape(x)) > 0.001
            return tf.where(v3, y / v1, 0.5)
    """)  # fmt: skip
    report = checked(text, "offer", level="note")
    (fix,) = [finding.fix for finding in report.findings]
    assert fix is not None
    assert fix.applicability == "display"


#: Conditions that read a name which is bound after the operation, though no value of it, or bound again in between.
MOVED = {
    "its shape": ("jax", """
        def f(x, y, key):
            v2 = 1.0 / jnp.expm1(y)
            v3 = jnp.arctanh(v2)
            v6 = jnp.arcsin(y)
            v7 = v6 + x
            return jnp.where(jax.random.bernoulli(key, 0.5, jnp.shape(v6)), v7, jnp.where(v2 != 0.0, v3, v3))
    """),
    "its length": ("torch", """
        def f(x, y, key):
            root = torch.sqrt(x)
            rows = y + 1.0
            return torch.where(torch.ones(rows.shape) * x > 0.0, root, 0.0)
    """),
    "it was another": ("torch", """
        def f(x, y, key):
            like = None
            root = torch.sqrt(x)
            like = y
            return torch.where(torch.full_like(like, 0.1) < x, root, 0.0)
    """),
}  # fmt: skip


@pytest.mark.parametrize("why", MOVED)
def test_a_condition_moves_only_where_its_names_are_bound(why: str, tmp_path: Path) -> None:
    framework, body = MOVED[why]
    report, before, after = executed(framework, program(framework, body), tmp_path, "unsafe", level="note")
    assert report.fixed or report.findings
    x, y = (tensor(framework, np.array(v, np.float32)) for v in ([0.0, 1.0, 0.3], [0.5, 2.0, -0.4]))
    key = tensor(framework, np.array([10, 52], np.uint32))
    np.testing.assert_allclose(np.asarray(after(x, y, key)), np.asarray(before(x, y, key)), rtol=1e-6)


#: Programs with data that may be nan, each with the framework that it is written in.
MISSING = {
    "a root of what was clipped": ("jax", "return jnp.sqrt(jnp.maximum(x, 0.0))"),
    "a root of what was clamped": ("torch", "return torch.sqrt(x.clamp(min=0.0))"),
    "an arm that the condition selects at nan": ("tensorflow", "return tf.where(x <= 0, 0.0, tf.math.log(x))"),
    "the other arm": ("torch", "return torch.where(x <= 0, torch.zeros_like(x), torch.log(x))"),
    "an angle": ("torch", "return torch.arccos(x.clamp(-1.0, 1.0))"),
    "growth": ("jax", "return jnp.minimum(jnp.exp(x), 10.0)"),
    "a norm": ("jax", "n = jnp.sqrt(jnp.sum(x * x))\n    return jnp.where(n > 1.0, x / n, x)"),
    "a quotient": ("tensorflow", "return tf.where(x <= 1, x, 1.0 / (x - 1.0))"),
}  # fmt: skip


@pytest.mark.parametrize("why", MISSING)
def test_nan_stays_nan(why: str, tmp_path: Path) -> None:
    framework, line = MISSING[why]
    report, before, after = executed(framework, program(framework, f"def f(x):\n    {line}\n"), tmp_path)
    assert report.fixed
    for values in ([np.nan, 0.5, 1.0, 0.0], [np.inf, 0.5, -1.0, 1.0], [-np.inf, 2.0, 100.0, 0.0]):
        x = tensor(framework, np.array(values, np.float32))
        np.testing.assert_allclose(
            np.asarray(after(x)), np.asarray(before(x)), rtol=1e-6, err_msg=report.after.decode()
        )


def test_a_call_whose_argument_changed_gives_something_else() -> None:
    """The masked argument also reaches a result that nothing selects."""
    text = program("jax", """
        def f(a, x):
            p = jax.scipy.special.betainc(a, 2.0, x)
            return jnp.where(x > 0, p / x, 0.0) + p
    """)  # fmt: skip
    after = checked(text, "unsafe").after.decode()
    assert "betainc(a, 2.0, x)" in after


#: Programs whose mask has another shape than the operand, and shapes of the operand that they are called with.
SHAPES = {
    "a constant mask of a matrix": ("torch", """
        def f(x):
            off = torch.eye(3) != 0
            return torch.where(off, torch.sqrt(x).unsqueeze(-1), 0.0)
    """, [(3,), (1,), (5, 3)]),
    "a mask of the rows": ("jax", """
        def f(x):
            root = jnp.sqrt(x)
            return jnp.where((jnp.sum(x, axis=-1) > 0)[..., None], root, 0.0)
    """, [(3,), (4, 3), (2, 4, 3)]),
    "a mask of pairs": ("jax", """
        def f(x):
            root = jnp.sqrt(x)
            return jnp.where(x[:, None] > x[None, :], root[:, None], 0.0)
    """, [(3,), (1,), (0,)]),
    "a mask that reduces": ("tensorflow", """
        def f(x):
            return tf.where(tf.reduce_sum(x, axis=-1) > 0, tf.reduce_sum(tf.sqrt(x), axis=-1), 0.0)
    """, [(3,), (4, 3), (3, 3)]),
}  # fmt: skip


@pytest.mark.parametrize("why", SHAPES)
def test_no_safe_fix_changes_a_shape(why: str, tmp_path: Path) -> None:
    framework, body, shapes = SHAPES[why]
    report, before, after = executed(framework, program(framework, body), tmp_path)
    for shape in shapes:
        x = tensor(framework, np.linspace(0, 2, int(np.prod(shape)), dtype=np.float32).reshape(shape))
        np.testing.assert_array_equal(np.asarray(after(x)), np.asarray(before(x)), err_msg=report.after.decode())


#: Files that call the `where` of the first TensorFlow, which broadcasts nothing, and what a fix calls.
OLD = {
    "import tensorflow.compat.v1 as old": ("old.where", "old.where_v2(x > 0, x, 1.0)"),
    "from tensorflow.compat import v1": ("v1.where", "v1.where_v2(x > 0, x, 1.0)"),
    "import tensorflow as tf\nimport tensorflow.compat.v1 as old": ("old.where", "tf.where(x > 0, x, 1.0)"),
    "import tensorflow as tf": ("tf.compat.v1.where", "tf.where(x > 0, x, 1.0)"),
}


@pytest.mark.parametrize("imports", OLD)
def test_a_fix_calls_what_broadcasts(imports: str, tmp_path: Path) -> None:
    where, called = OLD[imports]
    namespace = where.removesuffix(".where")
    text = f"{imports}\n\n\ndef f(x):\n    return {where}(x > 0, {namespace}.sqrt(x), {namespace}.zeros_like(x))\n"
    report, before, after = executed("tensorflow", text, tmp_path)
    assert called in report.after.decode()
    x = tensor("tensorflow", [0.0, 4.0])
    np.testing.assert_array_equal(after(x), before(x))


def test_a_fix_calls_what_broadcasts_of_the_modules_inside(tmp_path: Path) -> None:
    text = (
        "from tensorflow.python.ops import array_ops\nfrom tensorflow.python.ops import math_ops\n\n\n"
        "def f(x):\n    y = math_ops.truediv(1.0, x)\n"
        "    return array_ops.where(math_ops.greater(x, 0.0), y, array_ops.zeros_like(y))\n"
    )
    report, before, after = executed("tensorflow", text, tmp_path)
    assert len(report.fixed) == 1
    x = tensor("tensorflow", [0.0, 4.0])
    np.testing.assert_array_equal(after(x), before(x))


def test_no_fix_calls_what_does_not_broadcast() -> None:
    text = "from tensorflow.compat.v1 import sqrt, where\n\n\ndef f(x):\n    return where(x > 0, sqrt(x), 0 * x)\n"
    report = checked(text, "unsafe")
    assert report.findings
    assert not report.fixed


@pytest.mark.parametrize(
    ("head", "body", "line"),
    [
        ("from torch import Tensor", "y = 1.0 / x\n    return y.masked_fill(y == float('inf'), 0.0)", "import torch\n"),
        ("from jax.numpy import maximum, sqrt", "return maximum(sqrt(x), 1e-3)", "import jax.numpy as jnp\n"),
        ("from tensorflow import maximum, sqrt", "return maximum(sqrt(x), 1e-3)", "import tensorflow as tf\n"),
    ],
)
def test_a_file_that_has_no_name_for_a_selection_gets_one(head: str, body: str, line: str) -> None:
    report = checked(f'"""A module."""\n\n{head}\n\n\ndef f(x):\n    {body}\n')
    assert len(report.fixed) == 1
    assert report.after.decode().startswith(f'"""A module."""\n\n{line}{head}\n')


def test_a_where_of_the_project_is_called_where_the_author_calls_it(tmp_path: Path) -> None:
    """The file that is fixed knows NumPy's names from a module of its own alone."""
    backend = "import jax.numpy as jnp\n\n\ndef where(cond, x, y, /):\n    return jnp.where(cond, x, y)\n"
    text = "from pack.backend import np\n\n\ndef f(x):\n    return np.where(x > 0, x ** -0.5, 0.0)\n"
    (tmp_path / "pack" / "backend").mkdir(parents=True)
    (tmp_path / "pyproject.toml").touch()
    for name, content in {"__init__.py": "", "backend/__init__.py": "", "backend/np.py": backend, "f.py": text}.items():
        (tmp_path / "pack" / name).write_text(content)
    report = check_source(text.encode(), str(tmp_path / "pack" / "f.py"), Settings(root=tmp_path), "safe")
    assert b"np.where(x > 0, np.where(x > 0, x, 1.0) ** -0.5, 0.0)" in report.after


def test_what_is_infinite_already_is_no_objection() -> None:
    """At an infinite x the gradient was nan before, by the root, and is so by the product now."""
    text = program("jax", "def f(x):\n    return jnp.sqrt(jnp.maximum(1.0 - x * x, 0.0))\n")
    assert checked(text).fixed


def test_a_nan_that_was_given_is_another_cause() -> None:
    call = "torch.nan_to_num(x.flip(0) / s, nan=0.0, posinf=0.0, neginf=0.0)"
    text = program("torch", f"def f(x, s):\n    return {call}\n")
    assert b"torch.where(is_regular, x.flip(0) / torch.where(is_regular, s, 1.0), 0.0)" in checked(text).after


def test_a_floor_that_is_no_zero_is_not_mended_by_a_comparison_with_zero() -> None:
    """The gradient overflows at the floor, and elements that nobody reads are none that the floor drops."""
    text = program("jax", """
        def f(g, s):
            floor = jnp.maximum(g, 1e-30)
            return jnp.array([s / floor, 0.0, 1.0])
    """)  # fmt: skip
    report = checked(text, "offer", level="note")
    assert report.findings
    assert all(f.fix is None or "!= 0" not in "".join(e.content for e in f.fix.edits) for f in report.findings)


def test_where_the_selection_gives_an_infinity_the_gradient_counts_too() -> None:
    """With -inf for the logarithm the slope by `a` is 0 * -inf still."""
    text = program("jax", """
        def within(x, value):
            return jnp.where(x < 0, -jnp.inf, value)


        def f(x, a):
            logpdf = (a - 1.0) * jnp.log(x)
            return within(x, logpdf)
    """)  # fmt: skip
    report = checked(text, "unsafe", level="note")
    assert report.findings
    assert not report.fixed


def test_a_fix_says_which_other_finding_stands_in_its_way() -> None:
    text = program("jax", """
        def f(omega, d):
            root = jnp.sqrt(jnp.maximum(omega, 0.0))
            return jnp.where(root > 0, d / root * jnp.sinh(root * d), d)
    """)  # fmt: skip
    report = checked(text, "offer", unfixable=("WL3",))
    (fix,) = (finding.fix for finding in report.findings if finding.op == "divide")
    assert (fix.remaining, fix.applicability) == (("`sqrt` at 6:12",), "unsafe")


def test_a_fix_has_that_of_what_stands_in_its_way_in_it() -> None:
    text = program("jax", """
        def f(omega, d):
            root = jnp.sqrt(jnp.maximum(omega, 0.0))
            return jnp.where(root > 0, d / root * jnp.sinh(root * d), d)
    """)  # fmt: skip
    report = checked(text, "offer")
    fixes = {finding.op: finding.fix for finding in report.findings}
    assert (fixes["divide"].remaining, fixes["divide"].applicability) == ((), "safe")
    assert set(fixes["sqrt"].edits) <= set(fixes["divide"].edits)
    assert fixes["divide"].message.endswith(", together with row 6")


def test_a_name_that_is_taken_is_not_imported() -> None:
    text = "from torch import Tensor\n\ntorch = 3\n\n\ndef f(x):\n    return 1.0 / x.clamp(min=0.0).sqrt()\n"
    assert not checked(text.replace("1.0 / ", ""), "unsafe").fixed


def test_shapes_of_many_matrices_that_share_their_operands_are_compared_at_once() -> None:
    """Atom by atom, without an eye to what they share, it would take 2 ** 60 steps."""
    steps = "    x = jnp.tanh(x @ x)\n" * 60
    body = f"def f(x):\n{steps}    return jnp.where(x > 0, jnp.sqrt(x), 0.0)"
    assert b"jnp.where(x > 0, x, 1.0)" in checked(program("jax", body)).after


def test_a_fix_keeps_what_an_heir_computes(tmp_path: Path) -> None:
    """Another class inherits the method and reads what the selection drops."""
    text = program("torch", """
        class Base(torch.nn.Module):
            def rest(self, r):
                return 0.0

            def forward(self, x):
                r = 1.0 / x
                return torch.where(x != 0, r, 0.0) + self.rest(r)


        class Heir(Base):
            def rest(self, r):
                return torch.tanh(r)


        f = Heir()
    """)  # fmt: skip
    report, before, after = executed("torch", text, tmp_path)
    assert b"1.0 / torch.where(x != 0, x, x.detach())" in report.after
    x = tensor("torch", [0.0, 0.5])
    np.testing.assert_array_equal(after(x), before(x))
    assert b"x.detach()" not in checked(text.replace("torch.tanh(r)", "1.0")).after


def test_a_condition_may_be_a_bool_of_python(tmp_path: Path) -> None:
    """The opposite of True is -2 there."""
    text = program("tensorflow", "def f(x, flat):\n    return tf.where(flat > 0, x, tf.sqrt(x))\n")
    report, before, after = executed("tensorflow", text, tmp_path, level="note")
    assert report.fixed
    x = tensor("tensorflow", [1.0, 4.0])
    for flat in (1, 0):
        np.testing.assert_array_equal(after(x, flat), before(x, flat))


def test_the_gradient_at_the_witness_is_finite_after_every_fix(tmp_path: Path) -> None:
    """What a first fix makes infinite, a product with 0 makes nan."""
    require("tensorflow")
    import tensorflow as tf

    text = program("tensorflow", """
        def f(y):
            v1 = (y / y) * y
            v3 = v1 >= 0.0
            return tf.where(v3, tf.math.acosh(v1), 0.5)
    """)  # fmt: skip
    report, _, after = executed("tensorflow", text, tmp_path)
    y = tf.constant([0.0])
    with tf.GradientTape() as tape:
        tape.watch(y)
        value = after(y)
    assert report.findings or np.isfinite(tape.gradient(value, y)).all()


def test_a_guard_of_a_finite_value_is_not_safe() -> None:
    """Above 80 the exponential of double precision is a number."""
    text = program("torch", """
        def f(x, y):
            v1 = torch.exp(x)
            return torch.where(v1 > y, 1.0, v1)
    """)  # fmt: skip
    report = checked(text, "offer", level="note")
    (fix,) = (finding.fix for finding in report.findings)
    assert fix is not None
    assert fix.applicability != "safe" or not any("80" in edit.content for edit in fix.edits)


def test_the_namespace_is_that_of_the_call() -> None:
    """What runs on every backend of Keras does so after a fix too."""
    text = "import keras\nimport tensorflow as tf\n\n\ndef f(x):\n    return tf.where(x > 0, keras.ops.log(x), 0.0)\n"
    assert b"keras.ops.log(keras.ops.where(x > 0, x, 1.0))" in checked(text).after


def test_a_name_of_the_namespace_is_better_than_a_path_to_it() -> None:
    text = "import jax\nimport jax.numpy as jnp\n\n\ndef f(x):\n    return jax.lax.select(x > 0, jax.lax.log(x), x)\n"
    assert b"jax.lax.log(jnp.where(x > 0, x, 1.0))" in checked(text).after


COUNTS = {
    "torch": "n = (x > 0).sum()\n    return torch.where(n > 0, x.sum() / n, 0.0)",
    "jax": "n = (x > 0).sum()\n    return jnp.where(n > 0, x.sum() / n, 0.0)",
}


@pytest.mark.parametrize("framework", COUNTS)
def test_an_integer_stays_one(framework: str, tmp_path: Path) -> None:
    """A number with a point would make a float32 of a count, and of the half precision that it divides."""
    text = program(framework, f"def f(x):\n    {COUNTS[framework]}\n")
    report, before, after = executed(framework, text, tmp_path, "unsafe")
    assert report.fixed
    x = tensor(framework, np.array([0.0, 1.0, 2.0], np.float32))
    x = x.bfloat16() if framework == "torch" else x.astype("bfloat16")
    assert after(x).dtype == before(x).dtype


def test_what_a_file_does_while_it_is_imported_is_no_result(tmp_path: Path) -> None:
    """Another function asked for the constant first: so the old text has less of it than the new one."""
    helper = (
        "def handler(name):\n    found = name.split('.')[0]\n    found.level = max(found.count, 1)\n    return found\n"
    )
    text = (
        "import torch\n\nfrom helper import handler\n\nLOG = handler(__name__)\n\n\n"
        "def f(x):\n    LOG.info(x)\n    return torch.where(x > 0, x.log(), 0.0)\n"
    )
    (tmp_path / "helper.py").write_text(helper)
    path = tmp_path / "f.py"
    path.write_text(text)
    assert check_source(text.encode(), str(path), Settings(root=tmp_path), "safe").fixed


@pytest.mark.parametrize(
    ("text", "sure"),
    [
        ("return torch.arccos(x.clamp(-1.0, 1.0))", False),  # a value at each edge, which no number keeps
        ("return torch.where(x > 0, torch.log(x), 0.0)", True),
    ],
)
def test_an_operand_is_masked_by_its_own_edges_only_where_no_value_is_finite(text: str, sure: bool) -> None:
    made = analyse(f"import torch\n\ndef f(x):\n    {text}\n", "a.py", DetectOptions())
    assert isinstance(made, Analysis)
    ((_, detection),) = made.found
    assert detection is not None
    guards = Site(made.module, "torch", detection.hazard, (), ()).guards()
    alone = [each for each in guards if each.alone]
    assert [each.elementwise for each in alone] == [True] * len(alone)
    assert bool(alone) is sure


def test_a_mask_of_what_goes_wrong_elsewhere_is_tried_with_two_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    passes = Proof.passes

    def noted(proof: Proof, text: str, compared: Comparison | None = None) -> Passed | None:
        tried.append(text)
        return passes(proof, text, compared)

    monkeypatch.setattr(Proof, "passes", noted)
    helper = "def helper(far, near):\n    return far + 1.0 / near\n\n\n"
    body = "def f(x, y):\n    return jnp.where(y > 0, helper(2.0 * x, y * x), 0.0)\n"
    checked(program("jax", helper + body))
    masked = [text for text in tried if "where(y > 0, 2.0 * x, " in text]
    assert len(masked) <= 2
    assert len(tried) > 1


def test_an_impure_call_is_told_from_one_of_the_same_number_on_another_way() -> None:
    text = program(
        "jax",
        """
        from jax import lax
        from package import promoted
        def ball(q, b=None):
            def plain(x):
                x = promoted(x)
                n = jnp.linalg.norm(x)
                return lax.cond(n > q, lambda x: (q / n) * x, lambda x: x, x)
            if b is None:
                return plain
            def moved(x):
                r = promoted(x) - promoted(b)
                n = jnp.linalg.norm(r)
                return lax.cond(n > q, lambda r: (q / n) * r, lambda r: r, r)
            return moved
    """,
    )
    assert len(checked(text, "safe").fixed) == 2


def test_a_product_of_two_booleans_is_a_condition() -> None:
    text = program(
        "jax",
        """
        def f(x, low, high):
            inside = (x > low) * (x < high)
            return jnp.where(inside, 1.0 / (x - low), 0.0)
    """,
    )
    report = checked(text, "safe")
    assert "jnp.where(inside, x - low, 1.0)" in report.after.decode()


def test_what_stays_of_one_cause_does_not_keep_the_rest_from_being_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = program(
        "jax",
        """
        def f(d, r):
            alpha = jnp.arccos((d - r) / r)
            beta = jnp.arccos((d - 1.0) / 2.0)
            return jnp.where((d < 1.0) & (d < r), alpha + beta, 0.0)
    """,
    )
    together = checked(text, "safe")
    asked = []

    def one_only(analysis: Any, places: Any, most: int, effort: Any) -> Any:
        asked.append(len(places))
        return rewritten(analysis, places, most, effort) if len(places) == 1 else "no"

    monkeypatch.setattr("wherelint.fix.rewritten", one_only)
    report = checked(text, "safe")
    assert max(asked) > 1
    assert report.findings == together.findings == ()
    # The mask of both rows leaves none; that of the first one would.
    assert "stays" not in next(f.fix.message for f in report.fixed if f.fix)
    places: Any = [(finding, None) for finding in report.fixed]
    (first,) = {finding.location.row for finding in report.fixed[:1]}
    (second,) = {finding.location.row for finding in report.fixed[0].also}
    places = [(report.fixed[0], None), (report.fixed[0].also[0], None)]
    one = Edit("jnp.where(d < r, d, 1.0)", Location(first, 5), Location(first, 6))
    assert fix._others(places, [one]) == f"; not fixed here: row {second}"
    assert fix._others(places, [one, Edit("", Location(second, 1), Location(second + 1, 1))]) == ""


QUOTIENTS = {
    "jax": ("jnp.clip((x + 1.0) / x, 0.0, 2.0)", "jax.lax.stop_gradient(numerator))"),
    "torch": ("torch.clamp((x + 1.0) / x, 0.0, 2.0)", "numerator.detach())"),
    "tensorflow": ("tf.clip_by_value((x + 1.0) / x, 0.0, 2.0)", "tf.stop_gradient(numerator))"),
}


@pytest.mark.parametrize("framework", QUOTIENTS)
def test_a_quotient_that_a_clip_bounds_is_what_it_was(framework: str, tmp_path: Path) -> None:
    written, kept = QUOTIENTS[framework]
    text = program(framework, f"""
        def f(x):
            return {written}
    """)  # fmt: skip
    report, before, after = executed(framework, text, tmp_path, "unsafe", level="note")
    assert kept in report.after.decode()
    for x, slope in ((-2.0, -0.25), (0.0, 0.0), (0.25, 0.0), (3.0, -1 / 9)):
        old, new = (value_and_gradient(framework, f, [x]) for f in (before, after))
        assert old[0] == new[0]
        assert new[1].item() == pytest.approx(slope, rel=1e-5)
        assert np.isnan(old[1]).item() == (x == 0)


def test_a_number_has_no_gradient_to_stop(tmp_path: Path) -> None:
    text = program("torch", """
        def f(x, scale=1.0):
            return torch.clamp(scale / x, max=2.0)
    """)  # fmt: skip
    report, _, after = executed("torch", text, tmp_path, "unsafe", level="note")
    assert b"scale / torch.where(x != 0, x, x.detach())" in report.after
    assert [value_and_gradient("torch", after, [x])[1].item() for x in (0.0, 1.0)] == [0.0, -1.0]


def test_what_was_broken_before_a_mask_is_broken_after_it_too() -> None:
    """A mask that keeps what is not finite at the witness makes no more of it."""
    text = program("jax", "def f(x, y):\n    r = x / y\n    return jnp.where(y > 0, r, 0.0)\n")
    analysis = analyse(text, "f.py", DetectOptions())
    assert isinstance(analysis, Analysis)
    ((_, detection),) = analysis.found
    assert detection is not None
    masked = analysis.module.project.revised(text.replace("> 0, r,", "> 0, jnp.where(y == y, r, 1.0),"))
    (before,), (after,) = (own_programs(module, ("f",), analysis.used) for module in (analysis.module, masked))
    assert observe_rewrite(observe(before, detection), after, "jax") is not None


def test_a_guard_that_keeps_a_test_of_the_result_from_asking_is_not_safe() -> None:
    """What is not finite may be mended by who asks; a number that is wrong would not be."""
    body = "def f(x, y):\n    r = x / y\n    return jnp.where(jnp.isfinite(r) & (r < 5.0), r * 0.0, 0.0)\n"
    report = check_source(program("jax", body).encode(), "f.py", Settings(root=Path("/"), level="note"), "offer")
    (offered,) = (finding.fix for finding in report.findings)
    assert offered is not None
    assert [edit.content for edit in offered.edits] == ["jnp.where(y != 0, y, 1.0)"]
    assert offered.applicability == "display"
