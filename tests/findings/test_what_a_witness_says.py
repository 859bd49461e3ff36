"""What a witness says: arrays and parameters by the author's names, and how the program stands beside them."""

from __future__ import annotations

import textwrap

import pytest

from wherelint.evidence.pieces import Level
from wherelint.finding import Finding
from wherelint.io.config import Settings
from wherelint.report.text import witness_sentence
from wherelint.run.check import check_source

HEAD = "import abc\nimport jax\nimport jax.numpy as jnp\nimport tensorflow as tf\nimport torch\n"


def findings(body: str, level: Level = "note") -> tuple[Finding, ...]:
    return check_source((HEAD + textwrap.dedent(body)).encode(), "a.py", Settings(level=level)).findings


def said(body: str) -> str:
    (finding, *_) = findings(body)
    assert finding.witness is not None
    return witness_sentence(finding.witness)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            """
            def f(x, g, y):
                h = 1 / x if g.ndim == 3 else x
                return jnp.where(x > 0, h, y)
            """,
            "at x = 0.0 and y = 1.0 where `g` is 3-D the value is 1.0 and the gradient with respect to x is nan",
        ),
        (
            """
            def f(x, y):
                h = jnp.sqrt(x) / y.shape[-1]
                return jnp.where(x > 0, h, 0.0)
            """,
            "at x = 0.0 the value is 0.0 and the gradient with respect to x is nan",
        ),
        (
            """
            def f(x, mode):
                h = jnp.sqrt(x) if mode == "root" else x
                return jnp.where(x > 0, h, 0.0)
            """,
            'at x = 0.0 where `mode == "root"` the value is 0.0 and the gradient with respect to x is nan',
        ),
        (
            """
            class Net(torch.nn.Module):
                def __init__(self, n):
                    self.linear = torch.nn.Linear(n, n, bias=False)

                def forward(self, x):
                    y = self.linear(x)
                    return torch.where(y > 0, y.sqrt(), 0.0)
            """,
            "at x = 0.0 and self.linear.weight = 1.0 the value is 0.0 and the gradient with respect to x and "
            "self.linear.weight is nan",
        ),
        (
            """
            def f(x, period):
                if period is None:
                    x = x + 1
                return jnp.where(x > 0, jnp.sqrt(x), 0.0)
            """,
            "at x = 0.0 the value is 0.0 and the gradient with respect to x is nan",
        ),
        (
            """
            LEAST = {torch.float32: 1e-4, torch.float64: 1e-7}
            def f(x):
                return torch.where(x > LEAST[x.dtype], 1 / x, x)
            """,
            "at x = 0.0 the value is 0.0 and the gradient with respect to x is nan",
        ),
        (
            """
            def f(x, pose, settings):
                return jnp.where(x > 0, jnp.sqrt(x), settings.turn(pose if settings.turned else None))
            """,
            "at x = 0.0 and settings.turn(...) = 1.0 the value is 1.0 and the gradient with respect to x is nan",
        ),
        (
            """
            def f(x, mode, rate):
                h = jnp.sqrt(x) if mode == "root" else x
                h = h * 2 if rate == None else h
                h = h * 3 if mode == "log" else h
                return jnp.where(x > 0, h, jax.random.normal(rate, x.shape))
            """,
            'at x = 0.0 and jax.random.normal(...) = 1.0 where `mode == "root"` the value is 1.0 and the gradient with '
            "respect to x is nan",
        ),
        (
            """
            def f(x, y):
                x = jnp.abs(x) / y.shape[0] - (1.0 if y.shape[0] == 1 else -1.0)
                return jnp.where(x > 0, jnp.sqrt(x), 0.0)
            """,
            "at x = 1.0 where axis 0 of `y` has size 1 the value is 0.0 and the gradient with respect to x is nan",
        ),
        (
            """
            def f(x, model):
                spread = model(x, in_axes=(0, None), out_axes=(0, None), axis_size=7)
                return jnp.where(spread > 0, jnp.sqrt(spread), 0.0)
            """,
            "at spread = 0.0 the value is 0.0 and the gradient with respect to spread is nan",
        ),
        (
            """
            def f(x, model):
                return jnp.where(x > 0, x * model(x, in_axes=(0, None), out_axes=(0, None), axis_size=7) / x, 0.0)
            """,
            "at x = 0.0 and model(...) = 1.0 the value is 0.0 and the gradient with respect to x and model(...) is nan",
        ),
        (
            """
            def f(x):
                return jnp.where(x[0] == x[1], 0.0, 1 / (x[1] - x[0]))
            """,
            "at x[1] = 0.0 and x[0] = 0.0 the value is 0.0 and the gradient with respect to x is nan",
        ),
        (
            """
            def f(x, a, b, c):
                return jnp.where(x > 0, a * b * c / x, 0.0)
            """,
            "at x = 0.0 the value is 0.0 and the gradient with respect to x, a, b and c is nan",
        ),
        (
            """
            def f(x, a, b, c, d):
                return jnp.where(x > 0, a * b * c * d / x, 0.0)
            """,
            "at x = 0.0 the value is 0.0 and the gradient with respect to x, a, b and 2 more is nan",
        ),
        (
            """
            def f(x, n):
                while n > 0:
                    x = jnp.where(x > 0, x / x.sum(), 0.0)
                    n = n - 1
                return x
            """,
            "at x = 0.0 the value is 0.0 and the gradient with respect to x is nan",
        ),
    ],
    ids=[
        "rank",
        "size",
        "choice",
        "no bias",
        "None",
        "entry",
        "optional",
        "one choice",
        "one element",
        "variable",
        "long call",
        "elements",
        "many",
        "more",
        "loop",
    ],
)
def test_arrays_and_parameters(body: str, sentence: str) -> None:
    assert said(body) == sentence


def test_what_it_took_goes_with_the_numbers_that_are_printed() -> None:
    (finding,) = findings("""
        def slerp(dot, a, b, t):
            omega = jnp.arccos(dot)
            out = jnp.sin((1 - t) * omega) / jnp.sin(omega) * a + jnp.sin(t * omega) / jnp.sin(omega) * b
            return jnp.where(jnp.abs(dot) > 0.9995, (1 - t) * a + t * b, out)
    """)
    assert finding.witness is not None
    assert min(map(float, finding.witness.inputs.values())) < 0 or "below zero" not in finding.evidence  # type: ignore[arg-type]


@pytest.mark.parametrize("dot", ["dot", "jnp.clip(jnp.sum(a * b), -1.0, 1.0)"])
def test_a_slerp_is_shown(dot: str) -> None:
    found = findings(
        f"""
        def slerp(dot, a, b, t):
            dot = {dot}
            omega = jnp.arccos(dot)
            out = jnp.sin((1 - t) * omega) / jnp.sin(omega) * a + jnp.sin(t * omega) / jnp.sin(omega) * b
            return jnp.where(jnp.abs(dot) > 0.9995, (1 - t) * a + t * b, out)
        """,
        "warning",
    )
    assert {finding.level for finding in found} == {"error"}


def test_an_assertion_that_nothing_is_nan_makes_no_finding() -> None:
    body = """
        class Crop:
            def __init__(self, **kwargs):
                self.width = kwargs["SIZE"][1]

            def apply(self, uvd, depth):
                new = uvd.clone()
                new[:, :, 0] = (uvd[:, :, 0] + 0.5) * self.width * 4
                new[:, :, 2] = uvd[:, :, 2] * depth
                assert uvd.isnan().sum() == 0
                dz = new[:, :, 2]
                return dz
    """
    assert findings(body) == ()


@pytest.mark.parametrize("test", ["not torch.isnan(x).any()", "torch.isfinite(x).all()", "torch.isnan(x).sum() == 0"])
def test_what_is_asserted_holds_of_a_witness(test: str) -> None:
    assert findings(f"def f(x, w):\n    assert {test}\n    return torch.where(torch.isnan(x), 0.0, x * w)\n") == ()
    assert findings("def f(x, w):\n    return torch.where(torch.isnan(x), 0.0, x * w)\n")


def test_ranks_that_are_made_floats_have_no_gradient() -> None:
    body = """
        def f(labels, {0}):
            gain = 1.0 / tf.math.log1p(tf.cast({0}, tf.float32))
            return tf.where({0} > 0, labels * gain, 0.0)
    """
    assert findings(body.format("ranks"), "warning") == ()
    assert findings(body.format("x"), "warning")


def test_what_a_module_takes_from_its_keywords_is_a_setting() -> None:
    body = """
        class Net({base}):
            def __init__(self, **kwargs):
                self.scale = kwargs["scale"]

            def forward(self, x):
                return x * torch.where(torch.as_tensor(self.scale) > 0, 1 / self.scale, 0.0)
    """
    assert findings(body.format(base="torch.nn.Module"), "warning") == ()
    assert findings(body.format(base="object"), "warning")


def test_a_method_whose_every_override_detaches_gives_no_gradient() -> None:
    body = """
        class Base(abc.ABC):
            @abc.abstractmethod
            def fit(self, x): ...

        class Kernel(Base):
            def fit(self, x):
                return {0}

        class Model:
            def __init__(self, kernel: Base):
                self._kernel = kernel

            def __call__(self, x):
                y = self._kernel.fit(x)
                return jnp.where(y > 0, jnp.sqrt(y), 0.0)
    """
    assert findings(body.format("jax.lax.stop_gradient(x)")) == ()
    assert findings(body.format("x * x"))
