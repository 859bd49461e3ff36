"""What has been published about gradients behind a selection, run under the frameworks that are installed.

A row is one expression at one point, with the page or the thread that speaks of it (or of its next of kin), the value,
and the gradient in every mode. Where the source says something else than what happens, `claimed` holds what it says.
`kept` is the gradient that a cotangent of zero would leave if it stayed zero: what the remedy has, what forward mode
computes, and what separates a selection that poisons its gradient from a function that is singular in earnest.

The expressions are the mathematics of their sources and nothing else of them.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import answers
import executing
import numpy as np
import pytest
from executing import outcomes
from real_gradients import require

from wherelint.findings import detect
from wherelint.frontend.options import DetectOptions

INF, NAN = float("inf"), float("nan")
Numbers = float | list[Any]

_HEADERS = {
    "jax": "import jax\nimport jax.numpy as jnp\nfrom jax import lax\n\n",
    "torch": "import torch\n\n",
    "tensorflow": "import tensorflow as tf\n\n",
}
#: Ways to take a derivative; forward mode comes last.
MODES = {
    "jax": ("eager", "jit", "forward", "forward, jit"),
    "torch": ("eager", "forward"),
    "tensorflow": ("eager", "graph", "xla", "forward"),
}


@dataclass(frozen=True, eq=False)
class Claim:
    """An expression in ``x`` (or a program with ``f``), where it is looked at, and what comes out."""

    name: str
    url: str
    framework: str
    expression: str
    at: Numbers
    value: Numbers
    #: In reverse mode; by mode where the modes differ, and a graph does what eager mode does.
    gradient: Numbers | Mapping[str, Numbers]
    #: The gradient under symbolic zeros, where a selection drops something that has none of its own.
    kept: Numbers | None = None
    #: The gradient that the source speaks of, where it is another one.
    claimed: Numbers | Mapping[str, Numbers] | None = None
    #: In forward mode, where it is not `kept`.
    forward: Numbers | None = None
    #: The same function with an operand that is harmless where its result is dropped.
    remedy: str = ""
    #: An element of an ordinary input, at which the remedy changes nothing; None where every input is poisoned.
    elsewhere: float | None = 0.7

    @property
    def text(self) -> str:
        """The expression as a file."""
        return program(self.framework, self.expression)

    def expected(self, mode: str) -> Numbers:
        """The gradient in one mode."""
        if mode.startswith("forward"):
            first = self.gradient if not isinstance(self.gradient, Mapping) else self.gradient["eager"]
            return next(g for g in (self.forward, self.kept, first) if g is not None)
        return by_mode(self.gradient, mode)

    @property
    def poisoned(self) -> set[str]:
        """The modes of reverse mode in which a zero cotangent became nan."""
        if self.kept is None or not np.isfinite(self.kept).all():
            return set()
        return {mode for mode in reverse_modes(self.framework) if np.isnan(self.expected(mode)).any()}


def by_mode(numbers: Numbers | Mapping[str, Numbers], mode: str) -> Numbers:
    """The entry of a mode; a graph does what eager mode does."""
    if not isinstance(numbers, Mapping):
        return numbers
    return numbers["eager" if mode == "graph" else mode]


def reverse_modes(framework: str) -> tuple[str, ...]:
    return tuple(mode for mode in MODES[framework] if not mode.startswith("forward"))


def program(framework: str, expression: str) -> str:
    """A file with ``f``: the expression as its only statement, or the program that is there already."""
    body = textwrap.dedent(expression) if "def f(" in expression else f"def f(x):\n    return {expression}\n"
    return _HEADERS[framework] + body


def issue(repository: str, number: int) -> str:
    return f"https://github.com/{repository}/issues/{number}"


def jax_issue(number: int) -> str:
    return issue("jax-ml/jax", number)


def torch_issue(number: int) -> str:
    return issue("pytorch/pytorch", number)


def tf_issue(number: int) -> str:
    return issue("tensorflow/tensorflow", number)


JAX_FAQ = "https://docs.jax.dev/en/latest/faq.html#gradients-contain-nan-where-using-where"
JNP_WHERE = "https://docs.jax.dev/en/latest/_autosummary/jax.numpy.where.html"
PITFALL = "https://lv416e.github.io/brepax/explanation/jax_where_gradient_pitfall/"
TORCH_NOTES = "https://docs.pytorch.org/docs/main/notes/autograd.html#division-by-zero-in-autograd"
MASKED_TUTORIAL = "https://github.com/pytorch/tutorials/pull/2044"
TF_WHERE = "https://www.tensorflow.org/api_docs/python/tf/where"
TF_KERNELS = "https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/kernels/cwise_ops_gradients.h"

_VECTORIZED_COND = """
def vectorized_cond(predicate, if_true, if_false, operand):
    kept = jnp.where(predicate, operand, 0.0)
    other = jnp.where(predicate, 0.0, operand)
    return jnp.where(predicate, if_true(kept), if_false(other))

"""
_ARCCOS = "jnp.where(x < 2, 2 * jnp.arccos(jnp.clip(x / 2, -1.0 + {0}, 1.0 - {0})), 0.0)"
_SAFE_ARCCOS = "jnp.where(x < 2, 2 * jnp.arccos(jnp.where(x < 2, x / 2, 0.0)), 0.0)"


def in_jax(name: str, url: str, expression: str, *numbers: Any, **more: Any) -> Claim:
    return Claim(f"jax {name}", url, "jax", expression, *numbers, **more)


JAX = [
    in_jax("faq log", JAX_FAQ, "jnp.where(x > 0, jnp.log(x), 0.0)", 0.0, 0.0, NAN, kept=0.0,
           remedy="jnp.where(x > 0, jnp.log(jnp.where(x > 0, x, 1.0)), 0.0)"),
    in_jax("faq log with the inner where only", JAX_FAQ, "jnp.log(jnp.where(x > 0, x, 1.0))", 0.0, 0.0, 0.0),
    in_jax("faq log or y", JAX_FAQ, "jnp.where(x[0] > 0, jnp.log(jnp.where(x[0] > 0, x[0], 1.0)), x[1])",
           [0.0, 3.0], 3.0, [0.0, 1.0]),
    in_jax("where with a branch that is nan", JNP_WHERE, "jnp.where(x > -1, x, jnp.nan)", 1.0, 1.0, 1.0, claimed=NAN),
    in_jax("where with a logarithm that is nan", JNP_WHERE, "jnp.where(x > 0, jnp.log(x), 0.0)", -1.0, 0.0, 0.0,
           kept=0.0, claimed=NAN),
    in_jax("pitfall quotient", PITFALL, "jnp.where(x > 0, 1 / x, 0.0)", 0.0, 0.0, NAN, kept=0.0,
           remedy="jnp.where(x > 0, 1 / jnp.where(x > 0, x, 1.0), 0.0)"),
    in_jax("pitfall quotient with a floor", PITFALL, "jnp.where(x > 0, 1 / jnp.maximum(x, 1e-10), 0.0)", 0.0, 0.0, 0.0),
    in_jax("pitfall sqrt", PITFALL, "jnp.where(x > 0, jnp.sqrt(x), 0.0)", 0.0, 0.0, NAN, kept=0.0,
           remedy="jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0)"),
    in_jax("pitfall arccos", PITFALL, "jnp.where(x < 1, jnp.arccos(x), 0.0)", 1.0, 0.0, NAN, kept=0.0,
           remedy="jnp.where(x < 1, jnp.arccos(jnp.where(x < 1, x, 0.0)), 0.0)"),
    in_jax("pitfall arccos of a clip", PITFALL, _ARCCOS.format("0.0"), 3.0, 0.0, NAN, kept=0.0, remedy=_SAFE_ARCCOS),
    in_jax("pitfall arccos of a clip with a margin", PITFALL, _ARCCOS.format("1e-6"), 3.0, 0.0, 0.0),
    in_jax("pitfall arccos of a clip with a margin that float32 has not", PITFALL, _ARCCOS.format("1e-10"),
           3.0, 0.0, NAN, kept=0.0, remedy=_SAFE_ARCCOS),
    in_jax("347 norms", jax_issue(347), """
           def f(x):
               norm = jnp.sqrt(jnp.sum(x**2, axis=1))
               return jnp.where(norm > 0.5, norm, 1.0)
           """, [[3.0, 4.0], [0.0, 0.0]], [5.0, 1.0], [[0.6, 0.8], [NAN, NAN]], kept=[[0.6, 0.8], [0.0, 0.0]],
           remedy="""
           def f(x):
               square = jnp.sum(x**2, axis=1)
               return jnp.sqrt(jnp.where(square > 0.25, square, 1.0))
           """),
    in_jax("654 pairs", jax_issue(654), """
           def f(x):
               itself = jnp.eye(2) == 1
               square = jnp.sum((x[None] - x[:, None]) ** 2, axis=-1)
               return jnp.where(itself, 0.0, 1 / jnp.sqrt(square))
           """, [[0.0, 0.0], [3.0, 4.0]], [[0.0, 0.2], [0.2, 0.0]], [[NAN, NAN], [NAN, NAN]],
           kept=[[0.048, 0.064], [-0.048, -0.064]], elsewhere=None, remedy="""
           def f(x):
               itself = jnp.eye(2) == 1
               square = jnp.sum((x[None] - x[:, None]) ** 2, axis=-1)
               return jnp.where(itself, 0.0, 1 / jnp.sqrt(jnp.where(itself, 1.0, square)))
           """),
    in_jax("1052 an array and a mask", jax_issue(1052), "jnp.where(jnp.array([0.0, 1.0, 0.0]) > 0.5, 0.0, "
           "jnp.arctan2(x, x))", [3.0, 0.0, -5.0], [np.pi / 4, 0.0, -3 * np.pi / 4], [0.0, NAN, 0.0],
           kept=[0.0, 0.0, 0.0]),
    in_jax("1052 a condition that is false", jax_issue(1052), "jnp.where(False, jnp.arctan2(x, x), 0.0)",
           0.0, 0.0, NAN, kept=0.0),
    in_jax("1052 a condition that is true", jax_issue(1052), "jnp.where(True, x, jnp.log(x))", 0.0, 0.0, NAN, kept=1.0),
    in_jax("1052 a condition on the operand", jax_issue(1052), "jnp.where(x > 0.5, jnp.arctan2(x, x), 0.0)",
           0.0, 0.0, NAN, kept=0.0),
    in_jax("1052 an angle", jax_issue(1052), "jnp.where((x[0] == 0) & (x[1] == 0), 0.0, jnp.arctan2(x[0], x[1]))",
           [0.0, 0.0], 0.0, [NAN, NAN], kept=[0.0, 0.0], remedy="""
           def f(x):
               origin = (x[0] == 0) & (x[1] == 0)
               return jnp.where(origin, 0.0, jnp.arctan2(x[0], jnp.where(origin, 1.0, x[1])))
           """),
    in_jax("1052 an index", jax_issue(1052), "jnp.array([x, jnp.arctan2(x, x)])[0]", 0.0, 0.0, NAN, kept=1.0),
    in_jax("1052 an index beside an inf", jax_issue(1052), "jnp.array([x, 1 / x])[0]", 0.0, 0.0, NAN, kept=1.0),
    in_jax("1052 index and operate", jax_issue(1052), "1 / x[1]", [0.0, 2.0], 0.5, [0.0, -0.25]),
    in_jax("1052 operate and index", jax_issue(1052), "(1 / x)[1]", [0.0, 2.0], 0.5, [NAN, -0.25], kept=[0.0, -0.25]),
    in_jax("1052 vectorized_cond", jax_issue(1052), _VECTORIZED_COND +
           "def f(x):\n    return vectorized_cond(x > 0.5, lambda t: jnp.arctan2(t, t), lambda t: 0.0, x)\n",
           0.0, 0.0, 0.0, kept=0.0),
    # The operand is masked, and what the function takes from elsewhere is not: 0 * log(0).
    in_jax("1052 vectorized_cond with a parameter", jax_issue(1052), _VECTORIZED_COND +
           "def f(x):\n    return vectorized_cond(x[0] > 0, lambda t: x[1] * jnp.log(t), lambda t: 0.0, x[0])\n",
           [0.0, 1.0], 0.0, [0.0, NAN], kept=[0.0, 0.0],
           remedy="jnp.where(x[0] > 0, x[1] * jnp.log(jnp.where(x[0] > 0, x[0], 1.0)), 0.0)"),
    # Forward mode drops what a select drops; a maximum multiplies by a mask, and 0 * inf is nan there too.
    in_jax("1052 a maximum", jax_issue(1052), "jnp.maximum(-5.0, jnp.log(x))", 0.0, -5.0, NAN, kept=0.0, forward=NAN),
    in_jax("2630 an infinite slope", jax_issue(2630), "jnp.where(x > 0, 0.0, x * jnp.inf)", 1.0, 0.0, NAN, kept=0.0),
    in_jax("2630 sqrt", jax_issue(2630), "jnp.where(x <= 0, 0.0, jnp.sqrt(x))", 0.0, 0.0, NAN, kept=0.0),
    in_jax("3058 norm", jax_issue(3058), "jnp.linalg.norm(x)", [0.0, 0.0], 0.0, [NAN, NAN]),
    in_jax("21723 squared norm", jax_issue(21723), "jnp.linalg.norm(x) ** 2", [0.0, 0.0], 0.0, [NAN, NAN]),
    in_jax("6024 powers", jax_issue(6024), "jnp.where(x < 0, jnp.power(-x, 1.5), jnp.power(x, 1.5))",
           4.0, 8.0, NAN, kept=3.0, elsewhere=None, remedy="""
           def f(x):
               opposite, itself = jnp.where(x < 0, -x, 1.0), jnp.where(x < 0, 1.0, x)
               return jnp.where(x < 0, jnp.power(opposite, 1.5), jnp.power(itself, 1.5))
           """),
    in_jax("20601 select", jax_issue(20601), "lax.select(False, x * jnp.nan, 1.0)", 2.3, 1.0, NAN, kept=0.0),
    in_jax("20601 cond", jax_issue(20601), "lax.cond(x > 0, jnp.log, lambda t: 0.0 * t, x)", 0.0, 0.0, 0.0),
    in_jax("20601 cond under vmap", jax_issue(20601),
           "jax.vmap(lambda t: lax.cond(t > 0, jnp.log, lambda s: 0.0 * s, t))(x)",
           [1.0, 0.0], [0.0, 0.0], [1.0, 0.0], claimed=[1.0, NAN]),
    in_jax("xc-29 cond with a closure under vmap", "https://github.com/sail-sg/jax_xc/pull/29",
           "jax.vmap(lambda t: lax.cond(t > 0, lambda: jnp.log(t), lambda: 0.0))(x)",
           [1.0, 0.0], [0.0, 0.0], [1.0, 0.0]),
    in_jax("20601 where under vmap", jax_issue(20601), "jax.vmap(lambda t: jnp.where(t > 0, jnp.log(t), 0.0))(x)",
           [1.0, 0.0], [0.0, 0.0], [1.0, NAN], kept=[1.0, 0.0]),
    in_jax("29152 a row of a jacobian", jax_issue(29152), "(x * jnp.log(jnp.cos(x)))[0]",
           [6.0, 8.0], -0.24386773, [1.7053925, NAN], kept=[1.7053925, 0.0]),
]  # fmt: skip


def in_torch(name: str, url: str, expression: str, *numbers: Any, **more: Any) -> Claim:
    return Claim(f"torch {name}", url, "torch", expression, *numbers, **more)


TORCH = [
    in_torch("187297 sqrt", torch_issue(187297), "torch.where(x > 0, torch.sqrt(x), x)",
             [-1.0, -4.0], [-1.0, -4.0], [NAN, NAN], kept=[1.0, 1.0],
             remedy="torch.where(x > 0, torch.sqrt(torch.where(x > 0, x, 1.0)), x)"),
    in_torch("187297 sqrt at 0", torch_issue(187297), "torch.where(x > 0, torch.sqrt(x), 0.0)", 0.0, 0.0, NAN, kept=0.0,
             remedy="torch.where(x > 0, torch.sqrt(torch.where(x > 0, x, 1.0)), 0.0)"),
    in_torch("36923 t * (x / t)", torch_issue(36923), "torch.where(x >= 0, x, 0 * (x / 0))", 1.0, 1.0, NAN, kept=1.0),
    in_torch("108618 log2", torch_issue(108618), "torch.where(x > 2, torch.log2(x), 2 * x)",
             [0.0, 2.0, 3.0], [0.0, 4.0, 1.5849625], [NAN, 2.0, 0.48089835], kept=[2.0, 2.0, 0.48089835],
             remedy="torch.where(x > 2, torch.log2(torch.where(x > 2, x, 1.0)), 2 * x)"),
    in_torch("52248 x / 0", torch_issue(52248), "torch.where(torch.tensor(False), x / 0, 1.0)",
             2.0, 1.0, NAN, kept=0.0),
    in_torch("68425 exp", torch_issue(68425), "torch.where(x <= 0, torch.exp(x), 1 + x)", 100.0, 101.0, NAN, kept=1.0,
             remedy="torch.where(x <= 0, torch.exp(torch.where(x <= 0, x, 0.0)), 1 + x)"),
    in_torch("10729 exp", MASKED_TUTORIAL, "torch.where(x < 0, torch.exp(x), torch.ones_like(x))",
             [-5.0, 80.0, 90.0, 100.0], [0.006737947, 1.0, 1.0, 1.0], [0.006737947, 0.0, NAN, NAN],
             kept=[0.006737947, 0.0, 0.0, 0.0],
             remedy="torch.where(x < 0, torch.exp(torch.where(x < 0, x, 0.0)), torch.ones_like(x))", elsewhere=-0.7),
    in_torch("23395 sqrt or half", torch_issue(23395), "torch.where(x == 0, x / 2, x.sqrt() + 1)",
             [16.0, 0.0], [5.0, 0.0], [0.125, NAN], kept=[0.125, 0.5], claimed=[0.125, INF]),
    in_torch("18287 cos", torch_issue(18287), "torch.where(x < 1, torch.cos(x), torch.zeros_like(x))",
             [0.0, INF], [1.0, 0.0], [0.0, NAN], kept=[0.0, 0.0]),
    in_torch("16317 x / n", torch_issue(16317), """
             def f(x):
                 n = torch.tensor([0.0, 2.0])
                 return torch.where(n == 0, 0.0, x / n)
             """, [0.0, 1.0], [0.0, 0.5], [NAN, 0.5], kept=[0.0, 0.5], remedy="""
             def f(x):
                 n = torch.tensor([0.0, 2.0])
                 return torch.where(n == 0, 0.0, x / torch.where(n == 0, 1.0, n))
             """),
    in_torch("156212 exp with missing data", torch_issue(156212), "torch.where(x <= 10, torch.exp(x), 1.0)",
             [1.0, NAN, 1e10], [2.7182817, 1.0, 1.0], [2.7182817, NAN, NAN], kept=[2.7182817, 0.0, 0.0]),
    in_torch("where with a logarithm that is nan", torch_issue(68425), "torch.where(x > 0, x.log(), 0.0)",
             -1.0, 0.0, 0.0, kept=0.0),
    in_torch("where at log(0)", torch_issue(68425), "torch.where(x > 0, x.log(), 0.0)", 0.0, 0.0, NAN, kept=0.0,
             remedy="torch.where(x > 0, torch.where(x > 0, x, 1.0).log(), 0.0)"),
    in_torch("where at 1 / 0", torch_issue(52248), "torch.where(x > 0, 1 / x, 0.0)", 0.0, 0.0, NAN, kept=0.0,
             remedy="torch.where(x > 0, 1 / torch.where(x > 0, x, 1.0), 0.0)"),
    in_torch("notes x / 0 and a mask", TORCH_NOTES, """
             def f(x):
                 divisor = torch.tensor([0.0, 1.0])
                 return (x / divisor)[divisor != 0]
             """, [1.0, 1.0], [1.0], [NAN, 1.0], kept=[0.0, 1.0], remedy="""
             def f(x):
                 divisor = torch.tensor([0.0, 1.0])
                 return x[divisor != 0] / divisor[divisor != 0]
             """),
    in_torch("4132 x / 0 overwritten", torch_issue(4132), """
             def f(x):
                 divisor = torch.tensor([0.0, 1.0])
                 y = x / divisor
                 y[divisor == 0] = 0
                 return y
             """, [1.0, 1.0], [0.0, 1.0], [NAN, 1.0], kept=[0.0, 1.0]),
    in_torch("23156 masked_fill", torch_issue(23156), "x.sqrt().masked_fill(x <= 0, 0.0)",
             [0.0, 4.0], [0.0, 2.0], [NAN, 0.25], kept=[0.0, 0.25],
             remedy="x.masked_fill(x <= 0, 1.0).sqrt().masked_fill(x <= 0, 0.0)"),
    in_torch("9688 a slice of sqrt", torch_issue(9688), "x.sqrt()[1]", [0.0, 1.0], 1.0, [NAN, 0.5], kept=[0.0, 0.5],
             remedy="x[1].sqrt()"),
    in_torch("9688 a mask after sqrt", torch_issue(9688), "x.sqrt()[x > 0]", [0.0, 4.0], [2.0], [NAN, 0.25],
             kept=[0.0, 0.25], remedy="x[x > 0].sqrt()"),
    in_torch("15506 the last logarithm", torch_issue(15506), "x.log()[-1]",
             [0.0, 1.0, 2.0], 0.6931472, [NAN, 0.0, 0.5], kept=[0.0, 0.0, 0.5], remedy="x[-1].log()"),
    in_torch("26799 one quotient of many", torch_issue(26799), "(x / torch.tensor([1.0, 0.0, 1.0]))[0]",
             [1.0, 1.0, 1.0], 1.0, [1.0, NAN, 0.0], kept=[1.0, 0.0, 0.0]),
    in_torch("17455 overwritten twice", torch_issue(17455), """
             def f(x):
                 y = torch.log(torch.exp(x) + 1)
                 y[1] = 0
                 y[:] = 0
                 return y[0]
             """, [0.0, 100.0], 0.0, [0.0, NAN], kept=[0.0, 0.0]),
    in_torch("152088 log1p", torch_issue(152088), "torch.log1p(x)[x > -1]",
             [-1.0, 1.0], [0.6931472], [NAN, 0.5], kept=[0.0, 0.5]),
    in_torch("121416 a masked MSE", torch_issue(121416),
             "torch.square(x[0] - x[1])[~torch.isnan(x[1])]",
             [[1.0, 1.0], [0.0, NAN]], [1.0], [[2.0, NAN], [-2.0, NAN]], kept=[[2.0, 0.0], [-2.0, 0.0]]),
    in_torch("121416 a masked L1", torch_issue(121416),
             "torch.abs(x[0] - x[1])[~torch.isnan(x[1])]",
             [[1.0, 1.0], [0.0, NAN]], [1.0], [[1.0, 0.0], [-1.0, 0.0]]),
    in_torch("67180 nansum", torch_issue(67180), "torch.nansum(torch.tensor([1.0, 2.0, float('nan')]) * x)",
             1.0, 3.0, NAN, kept=3.0),
    in_torch("2421 norm", torch_issue(2421), "x.norm()", [0.0, 0.0], 0.0, [0.0, 0.0], claimed=[NAN, NAN]),
    in_torch("2775 norm behind a where", issue("pytorch/pytorch", 2775), "torch.where(x.norm() > 0, x.norm(), 0.0)",
             [0.0, 0.0], 0.0, [0.0, 0.0]),
    in_torch("2775 the root of a sum", issue("pytorch/pytorch", 2775), "x.pow(2).sum().sqrt()",
             [0.0, 0.0], 0.0, [NAN, NAN]),
    in_torch("2775 the root of a sum behind a where", issue("pytorch/pytorch", 2775),
             "torch.where(x.pow(2).sum() > 0, x.pow(2).sum().sqrt(), 0.0)",
             [0.0, 0.0], 0.0, [NAN, NAN], kept=[0.0, 0.0], remedy="""
             def f(x):
                 square = x.pow(2).sum()
                 return torch.where(square > 0, torch.where(square > 0, square, 1.0).sqrt(), 0.0)
             """),
    in_torch("3264 normalize", torch_issue(3264), "torch.nn.functional.normalize(x, p=1.0, dim=0)",
             [0.0, 0.2], [0.0, 1.0], [5.0, 0.0], claimed=[NAN, 0.0]),
    in_torch("4320 std", torch_issue(4320), "x.std()", [1.0, 1.0, 1.0], 0.0, [0.0, 0.0, 0.0], claimed=[NAN, NAN, NAN]),
    # Reverse mode masks the reciprocal of x*x + y*y since 2025; forward mode does not.
    in_torch("93998 atan2 and a mask", torch_issue(93998),
             "torch.atan2(torch.tensor([2.0, 0.0, 0.0]), x)[torch.tensor([True, False, True])]",
             [1.0, 0.0, 2.0], [1.1071488, 0.0], [-0.4, 0.0, 0.0], claimed=[-0.4, NAN, 0.0]),
    in_torch("98276 atan2", torch_issue(98276), "torch.atan2(x[1], x[0])", [0.0, 0.0], 0.0, [0.0, 0.0],
             claimed=[NAN, NAN], forward=[NAN, NAN]),
    in_torch("98276 angle", torch_issue(98276), "torch.angle(torch.complex(x[0], x[1])) * 1e-13",
             [5.6843e-14, 1e-13], 1.0539136e-13, [-0.7557936, 0.42961577], claimed=[NAN, NAN]),
    in_torch("hypot has no such mask", torch_issue(98276), "torch.where(x > 0, torch.hypot(x, x), 0.0)",
             0.0, 0.0, NAN, kept=0.0, remedy="torch.where(x > 0, torch.hypot(torch.where(x > 0, x, 1.0), x), 0.0)"),
]  # fmt: skip


def in_tf(name: str, url: str, expression: str, *numbers: Any, **more: Any) -> Claim:
    return Claim(f"tf {name}", url, "tensorflow", expression, *numbers, **more)


#: Finite operation by operation, and nan where the whole is compiled.
XLA_ONLY = {"eager": 0.0, "xla": NAN}

TENSORFLOW = [
    in_tf("where 1 / x", TF_WHERE, "tf.where(x < 1, 0.0, 1 / x)", 0.0, 0.0, NAN, kept=0.0, elsewhere=2.0,
          remedy="tf.where(x < 1, 0.0, 1 / tf.where(x == 0, 1.0, x))"),
    # The gradient of the branch alone is nan here, and the where's is not.
    in_tf("where with a branch whose gradient is nan", TF_WHERE, "tf.where(x > 0, tf.sqrt(x), x)",
          -1.0, -1.0, {"eager": 1.0, "xla": NAN}, kept=1.0, claimed=NAN,
          remedy="tf.where(x > 0, tf.sqrt(tf.where(x > 0, x, 1.0)), x)"),
    in_tf("the branch alone", TF_WHERE, "tf.sqrt(x)", -1.0, NAN, NAN),
    in_tf("where with a logarithm that is nan", TF_WHERE, "tf.where(x > 0, tf.math.log(x), -100.0)",
          -1.0, -100.0, 0.0, kept=0.0),
    in_tf("118674 sqrt", tf_issue(118674), "tf.where(x > 0, tf.sqrt(x), 0.0)", [-1.0, 0.0, 1.0, 4.0],
          [0.0, 0.0, 1.0, 2.0], {"eager": [0.0, 0.0, 0.5, 0.25], "xla": [NAN, NAN, 0.5, 0.25]},
          kept=[0.0, 0.0, 0.5, 0.25], remedy="tf.where(x > 0, tf.sqrt(tf.where(x > 0, x, 1.0)), 0.0)"),
    in_tf("118674 sqrt in vectors", tf_issue(118674), "tf.where(x > 0, tf.sqrt(x), 0.0)", [-1.0, 0.0] * 16,
          [0.0] * 32, {"eager": [0.0] * 32, "xla": [NAN] * 32}, kept=[0.0] * 32),
    in_tf("118674 1 / x", tf_issue(118674), "tf.where(x > 0, 1 / x, 1.0)", 0.0, 1.0, NAN, kept=0.0, claimed=XLA_ONLY,
          remedy="tf.where(x > 0, 1 / tf.where(x > 0, x, 1.0), 1.0)"),
    in_tf("118674 1 / x unless 0", tf_issue(118674), "tf.where(x != 0, 1 / x, 0.0)", 0.0, 0.0, NAN, kept=0.0,
          claimed=XLA_ONLY, remedy="tf.where(x != 0, 1 / tf.where(x != 0, x, 1.0), 0.0)"),
    in_tf("118674 log", tf_issue(118674), "tf.where(x > 0, tf.math.log(x), -100.0)", 0.0, -100.0, NAN, kept=0.0,
          remedy="tf.where(x > 0, tf.math.log(tf.where(x > 0, x, 1.0)), -100.0)"),
    in_tf("118674 a safe distance", tf_issue(118674), """
          def f(x):
              square = tf.reduce_sum((x[0] - x[1]) ** 2)
              return tf.where(square > 0, tf.sqrt(square), 0.0)
          """, [[1.0, 2.0], [1.0, 2.0]], 0.0, {"eager": [[0.0, 0.0], [0.0, 0.0]], "xla": [[NAN, NAN], [NAN, NAN]]},
          kept=[[0.0, 0.0], [0.0, 0.0]], remedy="""
          def f(x):
              square = tf.reduce_sum((x[0] - x[1]) ** 2)
              return tf.where(square > 0, tf.sqrt(tf.where(square > 0, square, 1.0)), 0.0)
          """),
    in_tf("118674 acos", tf_issue(118674), "tf.where(x < 1, tf.acos(x), 0.0)", 1.0, 0.0, NAN, kept=0.0,
          claimed=XLA_ONLY, remedy="tf.where(x < 1, tf.acos(tf.where(x < 1, x, 0.0)), 0.0)"),
    in_tf("118674 pow", tf_issue(118674), "tf.where(x > 0, tf.pow(x, 0.5), 0.0)", 0.0, 0.0, NAN, kept=0.0,
          claimed=XLA_ONLY, remedy="tf.where(x > 0, tf.pow(tf.where(x > 0, x, 1.0), 0.5), 0.0)"),
    in_tf("118674 pow outside", tf_issue(118674), "tf.where(x > 0, tf.pow(x, 0.5), 0.0)", -1.0, 0.0, NAN, kept=0.0,
          claimed=XLA_ONLY),
    in_tf("118674 atan2", tf_issue(118674), "tf.where(x > 0, tf.atan2(x, x), 0.0)", 0.0, 0.0, NAN, kept=0.0,
          claimed=XLA_ONLY),
    in_tf("kernels rsqrt", TF_KERNELS, "tf.where(x > 0, tf.math.rsqrt(x), 0.0)", 0.0, 0.0, XLA_ONLY, kept=0.0),
    in_tf("kernels rsqrt outside", TF_KERNELS, "tf.where(x > 0, tf.math.rsqrt(x), 0.0)", -1.0, 0.0, XLA_ONLY, kept=0.0),
    in_tf("kernels reciprocal", TF_KERNELS, "tf.where(x > 0, tf.math.reciprocal(x), 1.0)",
          0.0, 1.0, XLA_ONLY, kept=0.0),
    in_tf("kernels reciprocal outside", TF_KERNELS, "tf.where(x > 0, tf.math.reciprocal(x), 1.0)",
          -1.0, 1.0, 0.0, kept=0.0),
    in_tf("kernels boolean_mask of sqrt", TF_KERNELS, "tf.boolean_mask(tf.sqrt(x), x > 0)", [0.0, 4.0], [2.0],
          {"eager": [0.0, 0.25], "xla": [NAN, 0.25]}, kept=[0.0, 0.25]),
    in_tf("60715 divide_no_nan", tf_issue(60715), "tf.where(x > 0, tf.math.divide_no_nan(1.0, x), 1.0)", 0.0, 1.0, 0.0),
    in_tf("60715 reciprocal_no_nan", tf_issue(60715), "tf.where(x > 0, tf.math.reciprocal_no_nan(x), 1.0)",
          0.0, 1.0, 0.0),
    in_tf("38467 sqrt or x", "https://github.com/tensorflow/tensorflow/pull/38467",
          "tf.where(x > 0, tf.sqrt(x), x)", -4.0, -4.0, {"eager": 1.0, "xla": NAN}, kept=1.0, claimed=NAN,
          remedy="tf.where(x > 0, tf.sqrt(tf.where(x > 0, x, 1.0)), x)"),
    in_tf("38349 pow of exp", tf_issue(38349), "tf.where(x < 15, x, tf.pow(10.0, tf.exp(x)))",
          10.0, 10.0, NAN, kept=1.0),
    in_tf("2540 exp", tf_issue(2540), "tf.where(x > 0, 0.0, tf.exp(x))", 1e10, 0.0, NAN, kept=0.0, elsewhere=-0.7,
          remedy="tf.where(x > 0, 0.0, tf.exp(tf.where(x > 0, 0.0, x)))"),
    in_tf("20091 x / 0", tf_issue(20091), "tf.where(x > 4, x / 0.0, tf.zeros_like(x))", 2.0, 0.0, NAN, kept=0.0),
    in_tf("20355 transfer above", tf_issue(20355), "tf.where(x < 0, 1 / (1 - x), tf.math.log(x + 1))",
          1.0, 0.6931472, NAN, kept=0.5),
    in_tf("20355 transfer below", tf_issue(20355), "tf.where(x < 0, 1 / (1 - x), tf.math.log(x + 1))",
          -1.0, 0.5, NAN, kept=0.25),
    in_tf("20355 transfer between", tf_issue(20355), "tf.where(x < 0, 1 / (1 - x), tf.math.log(x + 1))",
          0.0, 0.0, 1.0, kept=1.0),
    in_tf("27684 a factor of log", tf_issue(27684), "tf.where(x[1] >= 0, x[0] * tf.math.log(x[1]), 0.0)",
          [[1.0, 1.0], [-1.0, 2.0]], [0.0, 0.6931472], [[NAN, 0.6931472], [0.0, 0.5]],
          kept=[[0.0, 0.6931472], [0.0, 0.5]],
          remedy="tf.where(x[1] >= 0, x[0] * tf.math.log(tf.where(x[1] >= 0, x[1], 1.0)), 0.0)"),
    in_tf("2540 select, log and put back", tf_issue(2540), """
          def f(x):
              positive = x > 0
              logarithms = tf.math.log(tf.boolean_mask(x, positive))
              return tf.scatter_nd(tf.where(positive), logarithms, tf.shape(x, out_type=tf.int64))
          """, [0.0, 4.0], [0.0, 1.3862944], [0.0, 0.25]),
]  # fmt: skip

CLAIMS = [*JAX, *TORCH, *TENSORFLOW]


def load(text: str) -> Any:
    """The ``f`` of one of the programs above."""
    namespace: dict[str, Any] = {}
    exec(compile(text, "claim.py", "exec"), namespace)
    return namespace["f"]


def measured(framework: str, text: str, at: Any) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The value and the gradient of its sum in every mode."""
    require(framework)
    x = np.asarray(at, np.float32)

    def ask() -> answers.Answer:
        f = load(text)
        found = {o.mode: (o.value, o.gradients[0]) for o in outcomes(framework, f, [x])}
        found |= globals()[f"_more_{framework}"](f, x)
        return {f"{mode}; {part}": np.asarray(a) for mode, both in found.items() for part, a in enumerate(both)}

    found = answers.to(framework, (_HOW, text, x), ask)
    modes = dict.fromkeys(name.partition(";")[0] for name in found)
    return {mode: (found[f"{mode}; 0"], found[f"{mode}; 1"]) for mode in modes}


@cache
def measure(claim: Claim) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    found = measured(claim.framework, claim.text, claim.at)
    assert set(found) == set(MODES[claim.framework])
    return found


def _directions(x: np.ndarray) -> np.ndarray:
    return np.eye(x.size, dtype=np.float32).reshape(x.size, *x.shape)


def _more_jax(f: Callable[[Any], Any], x: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    import jax
    import jax.numpy as jnp

    def total(x: Any) -> tuple[Any, Any]:
        value = f(x)
        return jnp.sum(value), value

    reverse, forward = jax.grad(total, has_aux=True), jax.jacfwd(total, has_aux=True)
    calls = {"eager": reverse, "forward": forward, "forward, jit": jax.jit(forward)}
    found = {mode: call(jnp.asarray(x)) for mode, call in calls.items()}
    return {mode: (np.asarray(value), np.asarray(gradient)) for mode, (gradient, value) in found.items()}


def _more_torch(f: Callable[[Any], Any], x: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    import torch
    from torch.autograd import forward_ad

    slopes = []
    for direction in _directions(x):
        with forward_ad.dual_level():
            dual = forward_ad.unpack_dual(f(forward_ad.make_dual(torch.tensor(x), torch.tensor(direction))))
            slopes.append(0.0 if dual.tangent is None else dual.tangent.sum().item())
            value = dual.primal.numpy()
    return {"forward": (value, np.reshape(slopes, x.shape))}


def _more_tensorflow(f: Callable[[Any], Any], x: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    import tensorflow as tf

    @tf.function(autograph=False)
    def graph(x: Any) -> tuple[Any, Any]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = f(x)
            total = tf.reduce_sum(value)
        return value, tape.gradient(total, x, unconnected_gradients=tf.UnconnectedGradients.ZERO)

    slopes = []
    for direction in _directions(x):
        variable = tf.constant(x)
        with tf.autodiff.ForwardAccumulator(variable, tf.constant(direction)) as tangents:
            value = f(variable)
        slopes.append(tf.reduce_sum(tangents.jvp(value, tf.UnconnectedGradients.ZERO)).numpy())
    compiled = [tf.convert_to_tensor(result).numpy() for result in graph(tf.constant(x))]
    return {"graph": (compiled[0], compiled[1]), "forward": (value.numpy(), np.reshape(slopes, x.shape))}


#: An answer depends on how the question is put, too; the claims do not matter.
_HOW = "".join(inspect.getsource(each) for each in (executing, _more_jax, _more_torch, _more_tensorflow, _directions))


def same(found: Any, expected: Any) -> bool:
    """Equal up to rounding, and nan where nan is expected and nowhere else."""
    found, expected = np.asarray(found), np.asarray(expected, np.float32)
    return found.shape == expected.shape and np.allclose(found, expected, rtol=2e-5, atol=1e-6, equal_nan=True)


def rows(claims: list[Claim]) -> pytest.MarkDecorator:
    """A test for every one of these claims."""
    return pytest.mark.parametrize("claim", claims, ids=lambda claim: claim.name)


@pytest.mark.parametrize(
    ("claim", "mode"),
    [pytest.param(c, mode, id=f"{c.name}, {mode}") for c in CLAIMS for mode in MODES[c.framework]],
)
def test_what_happens(claim: Claim, mode: str) -> None:
    value, gradient = measure(claim)[mode]
    assert same(value, claim.value), value
    assert same(gradient, claim.expected(mode)), gradient


OUTDATED = [claim for claim in CLAIMS if claim.claimed is not None]


@rows(OUTDATED)
def test_what_is_claimed_does_not_happen(claim: Claim) -> None:
    assert claim.claimed is not None
    found = measure(claim)
    assert not all(same(found[mode][1], by_mode(claim.claimed, mode)) for mode in reverse_modes(claim.framework))


REMEDIED = [claim for claim in CLAIMS if claim.remedy]


@rows(REMEDIED)
def test_the_remedy_has_the_value_and_the_gradient_that_was_lost(claim: Claim) -> None:
    remedied = measured(claim.framework, program(claim.framework, claim.remedy), claim.at)
    assert claim.poisoned
    assert len(remedied) == len(MODES[claim.framework])
    for value, gradient in remedied.values():
        assert same(value, claim.value), value
        assert same(gradient, claim.kept), gradient


@rows([claim for claim in REMEDIED if claim.elsewhere is not None])
def test_the_remedy_changes_nothing_elsewhere(claim: Claim) -> None:
    assert claim.elsewhere is not None
    x = np.asarray(claim.at)
    at = claim.elsewhere * (1 + 0.1 * np.arange(x.size).reshape(x.shape))
    original = measured(claim.framework, claim.text, at)
    remedied = measured(claim.framework, program(claim.framework, claim.remedy), at)
    for mode, (value, gradient) in original.items():
        regular = np.isfinite(gradient)  # a divisor of 0 that is not an input stays there
        assert np.any(gradient[regular] != 0)
        assert np.isfinite(value).all()
        assert same(remedied[mode][0], value), mode
        assert same(remedied[mode][1][regular], gradient[regular]), mode


def test_a_python_branch_is_not_differentiated_where_it_is_not_taken() -> None:
    """jax#1052: the same function with an `if`, which compilation refuses."""
    require("jax")
    import jax
    import jax.numpy as jnp

    def f(x: Any) -> Any:
        return jnp.arctan2(x, x) if x > 0.5 else 0.0 * x

    assert jax.grad(f)(0.0) == 0.0
    with pytest.raises(jax.errors.TracerBoolConversionError):
        jax.jit(jax.grad(f))(0.0)


@pytest.mark.parametrize("closure", [False, True])
@pytest.mark.parametrize("inside", [False, True])
def test_a_batched_cond_keeps_the_branch_out(closure: bool, inside: bool) -> None:
    """jax#5658: the select that a batched cond becomes has its operands masked, on either side of the derivative."""
    require("jax")
    import jax
    import jax.numpy as jnp
    from jax import lax

    def by_cond(t: Any) -> Any:
        if closure:
            return lax.cond(t > 0, lambda: jnp.log(t), lambda: 0.0)
        return lax.cond(t > 0, jnp.log, lambda s: 0.0 * s, t)

    def by_select(t: Any) -> Any:
        return lax.select(t > 0, jnp.log(t), 0.0 * t)

    def gradient(f: Callable[[Any], Any]) -> Any:
        if inside:
            return jax.vmap(jax.grad(f))(jnp.array([1.0, 0.0]))
        return jax.grad(lambda x: jax.vmap(f)(x).sum())(jnp.array([1.0, 0.0]))

    assert "cond" not in str(jax.make_jaxpr(jax.vmap(by_cond))(jnp.array([1.0, 0.0])))
    assert same(gradient(by_cond), [1.0, 0.0])
    assert same(gradient(by_select), [1.0, NAN])


@pytest.mark.filterwarnings("ignore:.*MaskedTensor:UserWarning")
@pytest.mark.parametrize("masked_first", [False, True])
def test_a_masked_tensor_leaves_the_gradient_out(masked_first: bool) -> None:
    """The autograd notes: a mask that the tensor carries, given before x / 0 or after it."""
    require("torch")
    import torch
    from torch.masked import as_masked_tensor, masked_tensor

    divisor = torch.tensor([0.0, 1.0])
    mask = divisor != 0
    if masked_first:
        x = masked_tensor(torch.ones(2), mask, requires_grad=True)
        total = (x / divisor).sum()
    else:
        x = torch.ones(2, requires_grad=True)
        total = as_masked_tensor(x / divisor, mask).sum()
    total.backward()
    assert total.to_tensor(NAN).item() == 1.0
    assert x.grad.get_mask().tolist() == [False, True]
    assert x.grad.to_tensor(0.0).tolist() == [0.0, 1.0]


@pytest.mark.filterwarnings("ignore:.*MaskedTensor:UserWarning")
def test_a_masked_exp_does_not_overflow() -> None:
    """The tutorial on masked tensors: the exponential whose gradient is nan behind a where."""
    require("torch")
    import torch
    from torch.masked import masked_tensor

    data = torch.tensor([-5.0, 80.0, 90.0, 100.0])
    mask = data < 0
    x = masked_tensor(data, mask, requires_grad=True)
    ones = masked_tensor(torch.ones(4), ~mask, requires_grad=True)
    value = torch.where(mask, torch.exp(x), ones)
    value.sum().backward()
    assert same(value.detach().to_tensor(NAN), [0.006737947, 1.0, 1.0, 1.0])
    assert x.grad.get_mask().tolist() == mask.tolist()
    assert same(x.grad.to_tensor(0.0), [0.006737947, 0.0, 0.0, 0.0])


#: Programs that are poisoned and in which nothing is found, and why.
NOT_FOUND = {
    "jax 2630 an infinite slope": "the inf is a number in the program: no operation is singular at any finite operand",
    "jax 20601 select": "the nan is a number in the program: no operation is singular at any finite operand",
    "torch 18287 cos": "singular at an infinite input only, and no input is tried that is infinite",
    "torch 17455 overwritten twice": "all elements are overwritten: nothing of the input is left in the result",
    "torch 67180 nansum": "a sum that leaves out what is nan is not read as a selection",
}
#: One program may have been looked at in several points.
PROGRAMS = {text: [claim for claim in CLAIMS if claim.text == text] for text in dict.fromkeys(c.text for c in CLAIMS)}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            text,
            id=claims[0].name,
            marks=[
                pytest.mark.xfail(strict=True, reason=NOT_FOUND[claim.name])
                for claim in claims
                if claim.name in NOT_FOUND
            ],
        )
        for text, claims in PROGRAMS.items()
    ],
)
def test_it_is_found_where_a_zero_becomes_nan(text: str) -> None:
    """And only there: neither where nothing is nan, nor where the function is singular in earnest."""
    poisoned = {mode for claim in PROGRAMS[text] for mode in claim.poisoned}
    findings, problems = detect(text, "claim.py", DetectOptions())
    assert problems == []
    assert bool(findings) is bool(poisoned)
    if PROGRAMS[text][0].framework == "tensorflow":
        assert {mode for finding in findings for mode in finding.modes} == poisoned - {"graph"}


@rows(REMEDIED)
def test_nothing_is_found_in_the_remedy(claim: Claim) -> None:
    assert detect(program(claim.framework, claim.remedy), "claim.py", DetectOptions()) == ([], [])


def test_the_table_is_in_order() -> None:
    names = [claim.name for claim in CLAIMS]
    assert len(set(names)) == len(names)
    assert set(NOT_FOUND) <= set(names)
    assert all(claim.url.startswith("https://") for claim in CLAIMS)
    assert all(claim.kept is None or np.isfinite(claim.kept).all() for claim in CLAIMS)
    assert {claim.framework for claim in OUTDATED} == set(MODES)
