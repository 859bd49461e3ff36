"""What is certain, what is doubtful and what is silent: for each mechanism the program that it must not mistake."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from wherelint.findings import DetectOptions, detect

_HEADER = "import jax\nimport jax.numpy as jnp\nimport tensorflow as tf\nimport torch\nfrom jax import lax\n\n"

#: Why, a program, and what is said of it: "high", "low", or "" for nothing.
PROGRAMS = {
    # Nobody differentiates it.
    "a helper whose caller stops the gradient": ("", """
        def _step(d):
            return jnp.where(d > 0, 1.0 / d, 1.0)
        def init(d):
            return lax.stop_gradient(_step(d))
    """),
    "a singular point that many operations lead to": ("shown", """
        def f(x, y, scale):
            g = jnp.sqrt(x**2 + y**2) / scale
            above = jnp.maximum(g, 1.001)
            h = jnp.where(g > 1.01, jnp.arccos(1 / above) / jnp.sqrt(above**2 - 1), g)
            return jnp.where(g == 1, 0.0, (0.5 - h) / (g**2 - 1))
    """),
    "attributes that are equal and no numbers": ("shown", """
        def f(x, a, b, c, d):
            if a.dtype != b.dtype or b.dtype != c.dtype or c.dtype != d.dtype:
                raise TypeError
            if a.device != b.device:
                raise TypeError
            return jnp.where(x > 0, jnp.sqrt(x), 0.0)
    """),
    "sizes that are equal": ("shown", """
        def f(x, a, b, c, d):
            assert a.n == b.n
            assert b.n == c.n
            assert c.n == d.n
            assert a.k == b.k
            return jnp.where(x > 0, jnp.sqrt(x), 0.0)
    """),
    "contracts that cannot be kept together": ("shown", """
        def f(x, n, m):
            assert n > 3
            assert n < 2
            return jnp.where(x > 0, jnp.sqrt(x), 0.0)
    """),
    "what a callable makes of a literal is not that literal": ("note", """
        def f(x, schedule):
            return jnp.where(x > 0, 1.0 / jnp.maximum(x, schedule(0)), 0.0)
    """),
    "a helper that one caller differentiates": ("shown", """
        def _step(d):
            return jnp.where(d > 0, 1.0 / d, 1.0)
        def init(d):
            return lax.stop_gradient(_step(d))
        def scale(d):
            return _step(d) * d
    """),
    "a helper of a helper that is shielded": ("", """
        def _inverse(d):
            return jnp.where(d > 0, 1.0 / d, 1.0)
        def _step(d):
            return 2.0 * _inverse(d)
        def init(d):
            return lax.stop_gradient(_step(d))
    """),
    "a helper of a rule of its own": ("", """
        def _value(x):
            return jnp.where(x > 0, jnp.sqrt(x), 0.0)
        @jax.custom_vjp
        def root(x):
            return _value(x)
        def fwd(x):
            return _value(x), x
        def bwd(x, g):
            return (g,)
        root.defvjp(fwd, bwd)
    """),
    "a decorator in the image of custom_gradient": ("", """
        from pack import grads
        def _bwd(x, g):
            return tf.where(x > 0, g / tf.sqrt(x), 0.0)
        @grads.custom_gradient(vjp_bwd=_bwd)
        def root(x):
            return tf.where(x > 0, tf.sqrt(x), 0.0)
    """),
    "an optimizer writes its variables": ("", """
        class Adam(tf.keras.optimizers.Optimizer):
            def _update(self, gradient, v):
                v.assign_sub(tf.where(gradient > 0, tf.sqrt(gradient), 0.0))
    """),
    "a variable takes the number": ("", """
        def update(v, gradient):
            v.assign(tf.where(gradient > 0, tf.sqrt(gradient), 0.0))
    """),
    "a metric": ("", """
        class Ratio(tf.keras.metrics.Metric):
            def result(self):
                return tf.where(self.n > 0, self.total / self.n, 0.0)
    """),
    "a loss of the same form": ("shown", """
        class Ratio(tf.keras.losses.Loss):
            def call(self, total, n):
                return tf.where(n > 0, total / n, 0.0)
    """),
    # Facts.
    "an assertion of the framework": ("", """
        def f(x):
            tf.debugging.assert_positive(x)
            return tf.where(x > 1, tf.math.log(x), 0.0)
    """),
    "integers by dtype": ("", """
        def f(xs):
            n = torch.zeros(3, dtype=torch.int)
            for x in xs:
                n[x] += 1
            return torch.where(n > 0, n / n, 0.0)
    """),
    "a size": ("", """
        def f(x, n):
            grid = jnp.arange(n)
            return jnp.where(n > 1, x / n, grid * x)
    """),
    "a parameter of a class of the file": ("", """
        class Rotation:
            def log(self):
                return self.angle
        def f(r: Rotation, x):
            return jnp.where(x > 0, r.log(), 0.0)
    """),
    "the constructor of a base class": ("", """
        class Base:
            def __init__(self, count: int):
                self.count = count
        class Search(Base):
            def __init__(self, count: int):
                super().__init__(count)
            def weights(self):
                w = 1.0 / (jnp.arange(3) - self.count)
                return jnp.where(w > 0, w, 0.0)
    """),
    "isinstance of what is known": ("", """
        def constants(values, like):
            if isinstance(values, float):
                return torch.full_like(like, values)
            return tuple(torch.full_like(like, v) for v in values)
        def div(a, b):
            zero, one = constants((0.0, 1.0), a)
            bad = b == zero
            return torch.where(bad, one, a / torch.where(bad, one, b))
    """),
    "entries of a dictionary are apart": ("", """
        def f(x, config):
            return jnp.where(x > config["low"], x / (config["low"] - config["high"] + 100.0), 0.0)
    """),
    "the arguments that every caller gives": ("note", """
        def _log(x):
            return jnp.where(x > 1, jnp.log(x), 0.0)
        def f(x):
            return _log(jnp.exp(jnp.tanh(x)))
    """),
    "the arguments that one caller gives": ("shown", """
        def _log(x):
            return jnp.where(x > 1, jnp.log(x), 0.0)
        def f(x):
            return _log(jnp.exp(jnp.tanh(x)))
        def g(x):
            return _log(x)
    """),
    # Arrays.
    "the knots of a spline": ("", """
        def f(x, sizes):
            inner = jnp.cumsum(0.1 + 0.6 * jax.nn.softmax(sizes)[:-1])
            knots = jnp.concatenate([jnp.zeros(1), inner, jnp.full((1,), 1.1)])
            widths = knots[1:] - knots[:-1]
            return jnp.where(sizes[:-1] > 0, x / widths, 0.0)
    """),
    "sums over elements that share an index": ("", """
        def f(x, index):
            n = jax.ops.segment_sum(jnp.ones_like(x), index, 4)
            total = jax.ops.segment_sum(x, index, 4)
            return jnp.where(n > 0, total / n, 0.0)
    """),
    "an element of a sum along the other axis": ("", """
        def f(x, a, b):
            pair = jnp.sum((x > 0)[:, None] * jnp.stack([a, jax.nn.sigmoid(b)], axis=1), axis=0)
            return jnp.where(x > 0, x / (1.0 + pair[1]), 0.0)
    """),
    "an index that was searched for": ("note", """
        def f(x, knots):
            k = jnp.searchsorted(knots, x)
            return jnp.where(x > 0, x / (knots[k] - knots[k - 1]), 0.0)
    """),
    "elements of an empty choice": ("", """
        def f(x, mask):
            out = x.clone()
            out[mask] = torch.softmax(x[mask], 0)
            return out
    """),
    # What a condition is about.
    "two limits that happen to meet": ("note", """
        def f(x, a, b):
            return jnp.where(x < a, (x - a) / (b - a), 0.0)
    """),
    "two inputs that the condition compares": ("shown", """
        def f(x, a, b):
            return jnp.where(a != b, x / (b - a), 0.0)
    """),
    "two inputs that are tested one by one": ("shown", """
        def f(x, p):
            return jnp.where((x == 0) & (p == 0), 1.0, x ** p)
    """),
    "a draw decides": ("note", """
        def f(x, key):
            accept = jax.random.uniform(key) < x
            return jnp.where(accept, jnp.sqrt(x), 0.0)
    """),
    "an ordering that a nan falls through": ("note", """
        def f(x):
            y = jnp.arccosh(x) + 1.0
            return jnp.where(y > 0, y, 0.0)
    """),
    "a test for nan": ("shown", """
        def f(x):
            y = jnp.arccosh(x) + 1.0
            return jnp.where(jnp.isnan(y), 0.0, y)
    """),
    "a range of probabilities": ("note", """
        def f(x):
            return jnp.minimum(jnp.exp(x), 1.0)
    """),
    "a bound that guards": ("shown", """
        def f(x):
            return jnp.maximum(jnp.linalg.norm(x), 1e-6)
    """),
    "a bound that guards where centres coincide": ("shown", """
        def f(x, y, a, b):
            return jnp.maximum(jnp.sqrt((x - a) ** 2 + (y - b) ** 2), 1e-6)
    """),
    "a bound that guards unless it is passed": ("shown", """
        def f(x, eps=1e-6):
            return jnp.maximum(jnp.linalg.norm(x), eps * jnp.ones_like(x))
    """),
    "a bound that is a radius unless it is passed": ("shown", """
        def f(x, radius=3.0):
            return jnp.maximum(jnp.linalg.norm(x), radius)
    """),
    "a bound that is a radius": ("shown", """
        def f(x, radius):
            return jnp.maximum(jnp.linalg.norm(x), radius)
    """),
    "an activation": ("note", """
        def f(x):
            return jax.nn.relu(jnp.log(x))
    """),
    "an element that is overwritten by its place": ("note", """
        def f(x):
            y = torch.sqrt(x)
            z = y + 0.0
            z[0] = 1.0
            return z
    """),
    "a ramp is no mask": ("", """
        def f(x):
            return jnp.linspace(0.0, 1.0, 5) * jnp.sqrt(x)
    """),
    "a number on the diagonal": ("", """
        def f(s):
            return (1.0 / s)[..., None, None] * jnp.eye(3)
    """),
    "arithmetic on settings": ("note", """
        class Head(torch.nn.Module):
            def __init__(self, width):
                self.scale = float(1.0 / width)
            def forward(self, x):
                return torch.clamp(x * self.scale, -5.0, 5.0)
    """),
    # Aiming.
    "a singular point between telling values": ("shown", """
        def f(r):
            return torch.acos(torch.clamp((r.sum() - 1.0) / 2.0, -1.0, 1.0))
    """),
    # What the operands are.
    "the frequencies of a transform": ("", """
        def envelope(a, n):
            f = jnp.fft.rfftfreq(n)
            return jnp.where(f >= 0, a * jnp.sqrt(f + a**2 + 1e-3), 0.0)
    """),
    "what else uses a root hands it a zero": ("shown", """
        def exp(v):
            n = jnp.linalg.norm(v)
            return jnp.cos(n) + jnp.sin(n) * (v / jnp.maximum(n, 1e-8))
    """),
    "the infinity that the author wrote is a value": ("shown", """
        def log_prob(x, low, high):
            inside = (x > low) & (x < high)
            return jnp.where(inside, jnp.log(x - low), -jnp.inf)
    """),
    "another infinity is none": ("", """
        def f(x):
            return 1 / jnp.where(x > 0, jnp.sqrt(x), 0.0)
    """),
    "what else uses a root does not": ("", """
        def f(v):
            n = jnp.linalg.norm(v)
            return n + v / jnp.maximum(n, 1e-8)
    """),
    "what the next iteration of a loop reads": ("shown", """
        def solve(A, b, n):
            r = p = x = b
            rho = (r * r).sum()
            for _ in range(n):
                x = x + p
                r = r - A(p)
                rho, last = (r * r).sum(), rho
                p = r + torch.where(last > 1e-8, rho / last, torch.zeros_like(rho)) * p
            return x
    """),
    "what the next iteration does not read": ("", """
        def solve(A, b, n):
            x = b
            for _ in range(n):
                x = x + A(x)
                p = torch.where(x > 0, 1 / x, 0.0)
            return x
    """),
    "callers that compute with complex numbers": ("shown", """
        def _scale(size):
            return jnp.where(size > 1e-4, jnp.tanh(size) / size, 1.0)
        def f(x, y):
            return x * _scale(jnp.abs(complex(x, y)))
    """),
    "settings, and an array that has to vanish somewhere": ("shown", """
        class Scaler:
            def f(self, x, a, b):
                if self.norm == "max" or self.norm == "sum":
                    return x
                if isinstance(x, list) or a == b or not self.fitted or a in self.seen:
                    return x
                sizes = torch.sqrt(torch.sum(x**2))
                empty = sizes == 0
                if torch.any(empty):
                    sizes = torch.where(empty, torch.ones_like(sizes), sizes)
                return x / sizes
    """),
    "entries of a matrix that vanish together": ("shown", """
        def angle(m):
            m = m.reshape(-1, 3, 3)
            a = jnp.arctan2(-m[:, 1, 2], m[:, 2, 2])
            return jnp.where(jnp.abs(m[:, 0, 2]) > 0.99999, 0.0, a)
    """),
    "a bound that nobody's number exceeds": ("shown", """
        def stress(virial, volume):
            y = virial / volume
            return jnp.where(jnp.abs(y) < 1e10, y, 0.0)
    """),
    "a bound that numbers exceed": ("note", """
        def stress(virial, volume):
            y = virial / volume
            return jnp.where(jnp.abs(y) < 10.0, y, 0.0)
    """),
    "onto a ball": ("shown", """
        def project(x):
            return x / jnp.maximum(jnp.linalg.norm(x) / 0.1, 1.0)
    """),
    "outside of a ball": ("note", """
        def push(x):
            return jnp.maximum(jnp.linalg.norm(x), 5.0)
    """),
    "a point that float32 steps over on one way": ("shown", """
        def nfw(x, y, x0, y0, rs, t):
            g = jnp.sqrt((x - x0) ** 2 + (y - y0) ** 2) / rs
            return jnp.where(g == 1, (t + 1) / 3.0, (t + 1) / (g**2 - 1))
    """),
    "a private helper that is given a setting": ("note", """
        class Delta:
            def f(self, x):
                return self._value(x, self.config.accuracy)
            def _value(self, x, accuracy):
                return jnp.where(jnp.abs(x) > 0.5 * accuracy, x, x / accuracy)
    """),
    "the classes are 0 or 1": ("", """
        def weight(x, labels):
            classes = torch.nn.functional.one_hot(labels, 3).float()
            q = classes * torch.sigmoid(x) + (1 - classes)
            return torch.where(q > 2, torch.log(2 - q), 0.0)
    """),
}  # fmt: skip


@pytest.mark.parametrize("why", PROGRAMS)
def test_what_is_said(why: str) -> None:
    expected, text = PROGRAMS[why]
    found, problems = detect(_HEADER + textwrap.dedent(text), "f.py", DetectOptions())
    assert problems == []
    said = {"shown" if f.is_shown else "note" for f in found}
    assert said == ({expected} if expected else set()), [(f.code, f.op, f.location.row, f.witness) for f in found]


def test_softmax_is_not_blamed_for_what_a_later_operation_broke() -> None:
    text = """
        def focal(x):
            p = torch.softmax(x, -1)
            return torch.where(p < 0.5, 1.0, torch.sqrt(p - 0.5)).sum()
    """
    found, _ = detect(_HEADER + textwrap.dedent(text), "f.py", DetectOptions())
    assert [f.op for f in found] == ["sqrt"]


def package(tmp_path: Path, files: dict[str, str]) -> Path:
    for name, text in {"__init__.py": "", **files}.items():
        (tmp_path / "pack").mkdir(exist_ok=True)
        (tmp_path / "pack" / name).write_text(_HEADER + textwrap.dedent(text))
    return tmp_path / "pack"


HELPER = "def _mean(total, n):\n    return torch.where(n > 0, total / n, 0.0)\n"


@pytest.mark.parametrize(
    ("caller", "expected"),
    [
        ("def f(total):\n    return _mean(total.exp(), torch.ones(3))", {False}),
        ("def f(total, n):\n    return _mean(total, n)", {True}),
        ("def f(total, n):\n    return _mean(total, n).detach()", set()),
        ("f = [_mean]", {True}),
    ],
    ids=["gives ones", "gives anything", "detaches", "hands it on"],
)
def test_callers_in_other_files_of_the_package_count(tmp_path: Path, caller: str, expected: set[bool]) -> None:
    home = package(tmp_path, {"helper.py": HELPER, "main.py": f"from pack.helper import _mean\n{caller}\n"})
    path = home / "helper.py"
    found, _ = detect(path.read_text(), str(path), DetectOptions())
    assert {f.is_shown for f in found} == expected


def test_a_class_whose_docstring_is_assigned_is_still_the_class() -> None:
    text = """
        class Step:
            def scale(self, x):
                return jnp.where(x > 0, jnp.sqrt(x), 0.0)
        Step.scale.__doc__ = "The scale."
    """
    found, _ = detect(_HEADER + textwrap.dedent(text), "f.py", DetectOptions())
    assert [f.code for f in found] == ["WL101"]


@pytest.mark.parametrize(
    "imports",
    [
        "from jax._src import numpy as jnp",
        "from jax._src.numpy import lax_numpy as jnp",
        "from tensorflow.python.ops import array_ops, math_ops",
    ],
)
def test_the_frameworks_own_spelling(imports: str) -> None:
    where, sqrt = ("array_ops.where", "math_ops.sqrt") if "math_ops" in imports else ("jnp.where", "jnp.sqrt")
    found, _ = detect(f"{imports}\ndef f(x):\n    return {where}(x > 0, {sqrt}(x), 0.0)\n", "f.py", DetectOptions())
    assert [f.code for f in found] == ["WL101"]
