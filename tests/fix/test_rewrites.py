"""What a fix writes, for each thing it has to get right: the lines that change, before and after."""

from __future__ import annotations

import difflib
import re
import textwrap
from pathlib import Path

import pytest

from wherelint.evidence.pieces import Level
from wherelint.finding import FileReport
from wherelint.io.config import Settings
from wherelint.run.check import check_source

_HEADER = "import jax\nimport jax.numpy as jnp\nimport tensorflow as tf\nimport torch\n\n\n"

#: What is shown, a program, and the lines of it that a fix takes away (-) and adds (+).
REWRITES = {
    "the operand in the arm that is selected": ("""
        def f(x):
            return jnp.where(x > 0, jnp.sqrt(x), 0.0)
    """, """
        -    return jnp.where(x > 0, jnp.sqrt(x), 0.0)
        +    return jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0)
    """),
    "the other arm": ("""
        def f(x):
            return jnp.where(x <= 0, 0.0, jnp.log(x))
    """, """
        -    return jnp.where(x <= 0, 0.0, jnp.log(x))
        +    return jnp.where(x <= 0, 0.0, jnp.log(jnp.where(x <= 0, 1.0, x)))
    """),
    "TensorFlow takes the dtype of what comes first": ("""
        def f(x):
            return tf.where(x <= 0, 0.0, tf.math.log(x))
    """, """
        -    return tf.where(x <= 0, 0.0, tf.math.log(x))
        +    return tf.where(x <= 0, 0.0, tf.math.log(tf.where(~(x <= 0), x, 1.0)))
    """),
    "a where that was imported by name": ("""
        from jax.numpy import where
        def f(x):
            return where(x > 0, x ** 0.5, 0.0)
    """, """
        -    return where(x > 0, x ** 0.5, 0.0)
        +    return where(x > 0, where(x > 0, x, 1.0) ** 0.5, 0.0)
    """),
    "a method of the tensor": ("""
        def f(x):
            return x.sqrt().masked_fill(x <= 0, 0.0)
    """, """
        -    return x.sqrt().masked_fill(x <= 0, 0.0)
        +    return torch.where(x <= 0, 1.0, x).sqrt().masked_fill(x <= 0, 0.0)
    """),
    "an operand in parentheses": ("""
        def f(x, y):
            return torch.where(x != y, 1.0 / (x - y), 0.0)
    """, """
        -    return torch.where(x != y, 1.0 / (x - y), 0.0)
        +    return torch.where(x != y, 1.0 / torch.where(x != y, x - y, 1.0), 0.0)
    """),
    "selections inside each other": ("""
        def f(x, on):
            safe = x > 0
            return jnp.where(on > 0, jnp.where(safe, jnp.sqrt(x), 0.0), 1.0)
    """, """
        -    return jnp.where(on > 0, jnp.where(safe, jnp.sqrt(x), 0.0), 1.0)
        +    return jnp.where(on > 0, jnp.where(safe, jnp.sqrt(jnp.where(safe, x, 1.0)), 0.0), 1.0)
    """),
    "several operations on one variable": ("""
        def f(x):
            return jnp.where(x > 1, jnp.arccosh(x) / jnp.log(x), 0.0)
    """, """
        -    return jnp.where(x > 1, jnp.arccosh(x) / jnp.log(x), 0.0)
        +    safe_x = jnp.where(x > 1, x, 2.0)
        +    return jnp.where(x > 1, jnp.arccosh(safe_x) / jnp.log(safe_x), 0.0)
    """),
    "a name that is taken": ("""
        def f(x, safe_x=0.0):
            return jnp.where(x > 1, jnp.arccosh(x) / jnp.log(x), safe_x)
    """, """
        -    return jnp.where(x > 1, jnp.arccosh(x) / jnp.log(x), safe_x)
        +    masked_x = jnp.where(x > 1, x, 2.0)
        +    return jnp.where(x > 1, jnp.arccosh(masked_x) / jnp.log(masked_x), safe_x)
    """),
    "a condition that is only known later is written before": ("""
        def f(x):
            root = torch.sqrt(x)
            positive = x > 0
            return torch.where(positive, root, 0.0)
    """, """
        -    root = torch.sqrt(x)
        +    root = torch.sqrt(torch.where(x > 0, x, 1.0))
    """),
    "a condition that is only known later, whose name is something else before": ("""
        def f(x, positive):
            root = torch.sqrt(x) * positive
            positive = x > 0  # so far
            return torch.where(positive, root, 0.0)
    """, """
        -    root = torch.sqrt(x) * positive
        +    root = torch.sqrt(torch.where(x > 0, x, 1.0)) * positive
    """),
    "a long condition gets a name": ("""
        def f(x, low, high):
            return jnp.where((x > low + 0.5) & (x < high - 0.5) & (x > 0), jnp.log(x), 0.0)
    """, """
        -    return jnp.where((x > low + 0.5) & (x < high - 0.5) & (x > 0), jnp.log(x), 0.0)
        +    valid = (x > low + 0.5) & (x < high - 0.5) & (x > 0)
        +    return jnp.where(valid, jnp.log(jnp.where(valid, x, 1.0)), 0.0)
    """),
    "a lambda": ("""
        f = lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0)
    """, """
        -f = lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0)
        +f = lambda x: jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0)
    """),
    "the argument of a helper": ("""
        def _root(v):
            return jnp.sqrt(v)
        def f(x):
            return jnp.where(x > 0, _root(x), 0.0)
    """, """
        -    return jnp.where(x > 0, _root(x), 0.0)
        +    return jnp.where(x > 0, _root(jnp.where(x > 0, x, 1.0)), 0.0)
    """),
    "a clip onto the singular point": ("""
        def f(x):
            return jnp.sqrt(jnp.maximum(x, 0.0))
    """, """
        -    return jnp.sqrt(jnp.maximum(x, 0.0))
        +    radicand = jnp.maximum(x, 0.0)
        +    is_regular = radicand != 0
        +    return jnp.where(is_regular, jnp.sqrt(jnp.where(is_regular, radicand, 1.0)), 0.0)
    """),
    "what is infinite stays so, without a gradient": ("""
        def f(x):
            return torch.clamp(1.0 / x**2, max=1e6)
    """, """
        -    return torch.clamp(1.0 / x**2, max=1e6)
        +    denominator = x**2
        +    return torch.clamp(1.0 / torch.where(denominator != 0, denominator, denominator.detach()), max=1e6)
    """),
    "both ends of a domain": ("""
        def f(c):
            return torch.arccos(c.clamp(-1.0, 1.0))
    """, """
        -    return torch.arccos(c.clamp(-1.0, 1.0))
        +    cosine = c.clamp(-1.0, 1.0)
        +    return torch.arccos(torch.where(torch.abs(cosine) >= 1, cosine.detach(), cosine))
    """),
    "both ends of a domain, onto which JAX clips": ("""
        def f(c):
            return jnp.arccos(jnp.clip(2.0 * c, -1, 1))
    """, """
        -    return jnp.arccos(jnp.clip(2.0 * c, -1, 1))
        +    cosine = jnp.clip(2.0 * c, -1, 1)
        +    return jnp.arccos(jnp.where(jnp.abs(cosine) >= 1, jax.lax.stop_gradient(cosine), cosine))
    """),
    "the same condition twice is one": ("""
        def f(x):
            return jnp.where(x > 0, jnp.where(x > 0, jnp.sqrt(x) + jnp.log(x), 0.0), 1.0)
    """, """
        -    return jnp.where(x > 0, jnp.where(x > 0, jnp.sqrt(x) + jnp.log(x), 0.0), 1.0)
        +    safe_x = jnp.where(x > 0, x, 1.0)
        +    return jnp.where(x > 0, jnp.where(x > 0, jnp.sqrt(safe_x) + jnp.log(safe_x), 0.0), 1.0)
    """),
    "a condition that calls something is written once": ("""
        def f(x):
            return jnp.where(x.max() > 0, 1.0 / x.max(), 0.0)
    """, """
        -    return jnp.where(x.max() > 0, 1.0 / x.max(), 0.0)
        +    valid = x.max() > 0
        +    return jnp.where(valid, 1.0 / jnp.where(valid, x.max(), 1.0), 0.0)
    """),
    "a condition stands where it is needed": ("""
        def f(alpha, w):
            # At zero.
            zero = jnp.log(alpha)
            # Elsewhere.
            value = alpha * jnp.log(w)
            return jnp.where(w < 1e-8, zero, value)
    """, """
        -    value = alpha * jnp.log(w)
        +    value = alpha * jnp.log(jnp.where(w < 1e-8, 1.0, w))
    """),
    "an assignment": ("""
        def f(x):
            y = torch.log(x)
            y[x == 0] = 0.0
            return y
    """, """
        -    y = torch.log(x)
        +    y = torch.log(torch.where(x == 0, 1.0, x))
    """),
    "a norm": ("""
        def f(x):
            n = jnp.linalg.norm(x, axis=-1, keepdims=True)
            return jnp.where(n > 0, n, 1.0)
    """, """
        -    n = jnp.linalg.norm(x, axis=-1, keepdims=True)
        +    is_regular = jnp.any(x != 0, axis=-1, keepdims=True)
        +    n = jnp.where(is_regular, jnp.linalg.norm(jnp.where(is_regular, x, 1.0), axis=-1, keepdims=True), 0.0)
    """),
    "a multi-line call keeps its comments": ("""
        def f(x):
            return jnp.where(
                x > 0,  # inside
                jnp.log(x),  # the entropy
                0.0,
            )
    """, """
        -        jnp.log(x),  # the entropy
        +        jnp.log(jnp.where(x > 0, x, 1.0)),  # the entropy
    """),
    "a mask of numbers is no condition for PyTorch": ("""
        def f(x):
            m = (x > 0).float()
            return m * torch.sqrt(x)
    """, """
        -    return m * torch.sqrt(x)
        +    return m * torch.sqrt(torch.where(m != 0, x, 1.0))
    """),
    "nor for TensorFlow": ("""
        def f(x):
            return tf.cast(x > 0, tf.float32) * tf.sqrt(x)
    """, """
        -    return tf.cast(x > 0, tf.float32) * tf.sqrt(x)
        +    return tf.cast(x > 0, tf.float32) * tf.sqrt(tf.where(x > 0, x, 1.0))
    """),
    "a mask that multiplies in place": ("""
        def f(x):
            y = torch.pow(x, 0.5)
            y *= x > 0
            return y
    """, """
        -    y = torch.pow(x, 0.5)
        +    y = torch.pow(torch.where(x > 0, x, 1.0), 0.5)
    """),
    "a division in place": ("""
        def f(x, y):
            z = 2.0 * x
            z /= y
            return jnp.where(y != 0, z, 0.0)
    """, """
        -    z /= y
        +    z /= jnp.where(y != 0, y, 1.0)
    """),
    "one of a list of conditions": ("""
        def f(x):
            return jnp.select([x > 2, x > 0], [2.0 * x, jnp.log(x)], 0.0)
    """, """
        -    return jnp.select([x > 2, x > 0], [2.0 * x, jnp.log(x)], 0.0)
        +    return jnp.select([x > 2, x > 0], [2.0 * x, jnp.log(jnp.where(x > 0, x, 1.0))], 0.0)
    """),
    "elements that are overwritten by a mask": ("""
        def f(x):
            return jnp.sqrt(x).at[x <= 0].set(0.0)
    """, """
        -    return jnp.sqrt(x).at[x <= 0].set(0.0)
        +    return jnp.sqrt(jnp.where(x <= 0, 1.0, x)).at[x <= 0].set(0.0)
    """),
    "a method of the object around": ("""
        class Law:
            def root(self, v):
                return jnp.sqrt(v)

            def at(self, x):
                return jnp.where(x > 0, self.root(x), 0.0)
    """, """
        -        return jnp.where(x > 0, self.root(x), 0.0)
        +        return jnp.where(x > 0, self.root(jnp.where(x > 0, x, 1.0)), 0.0)
    """),
    "an argument of a function that is given a lambda": ("""
        def f(x):
            return jnp.where(x > 0, jax.tree.map(lambda v: jnp.sqrt(v), x), 0.0)
    """, """
        -    return jnp.where(x > 0, jax.tree.map(lambda v: jnp.sqrt(v), x), 0.0)
        +    return jnp.where(x > 0, jax.tree.map(lambda v: jnp.sqrt(v), jnp.where(x > 0, x, 1.0)), 0.0)
    """),
    "no line is added before a statement that shares its line": ("""
        def f(x):
            if x is not None: return jnp.where(x > 1, jnp.arccosh(x) / jnp.log(x), 0.0)
    """, """
        -    if x is not None: return jnp.where(x > 1, jnp.arccosh(x) / jnp.log(x), 0.0)
        +    if x is not None: return jnp.where(
        +        x > 1, jnp.arccosh(jnp.where(x > 1, x, 2.0)) / jnp.log(jnp.where(x > 1, x, 2.0)), 0.0
        +    )
    """),
    "what may have an effect is evaluated once": ("""
        def f(x, g):
            return jnp.where(g(x) > x, jnp.sqrt(x), 0.0)
    """, """
        -    return jnp.where(g(x) > x, jnp.sqrt(x), 0.0)
        +    valid = g(x) > x
        +    return jnp.where(valid, jnp.sqrt(jnp.where(valid, x, 1.0)), 0.0)
    """),
    "a random number is drawn once": ("""
        def f(x, p):
            return torch.where(torch.bernoulli(p) > x, torch.sqrt(x), 0.0)
    """, """
        -    return torch.where(torch.bernoulli(p) > x, torch.sqrt(x), 0.0)
        +    valid = torch.bernoulli(p) > x
        +    return torch.where(valid, torch.sqrt(torch.where(valid, x, 1.0)), 0.0)
    """),
    "a condition whose name means something else now": ("""
        def f(x, y):
            positive = x > 0
            positive = positive & (y > 0)
            return jnp.where(x > 0, jnp.sqrt(x), positive)
    """, """
        -    return jnp.where(x > 0, jnp.sqrt(x), positive)
        +    return jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), positive)
    """),
    "a deviation": ("""
        def f(x):
            deviation = x.std()
            return jnp.where(deviation > 0, deviation, 1.0)
    """, """
        -    deviation = x.std()
        +    variance = x.var()
        +    deviation = jnp.where(variance != 0, jnp.sqrt(jnp.where(variance != 0, variance, 1.0)), 0.0)
    """),
    "a variable that is read twice": ("""
        def f(x):
            return jnp.where(x.std() > 0, x / x.std(), 0.0)
    """, """
        -    return jnp.where(x.std() > 0, x / x.std(), 0.0)
        +    valid = x.std() > 0
        +    safe_x = jnp.where(valid, x, 1.0)
        +    return jnp.where(valid, safe_x / safe_x.std(), 0.0)
    """),
    "one line for every operation that reads a variable": ("""
        def f(d):
            p = (18.0 / d) + jnp.exp(-d) * (1.0 - 18.0 / d)
            return jnp.where(d < 18.0, 1.0, p)
    """, """
        -    p = (18.0 / d) + jnp.exp(-d) * (1.0 - 18.0 / d)
        +    safe_d = jnp.where(d < 18.0, 1.0, d)
        +    p = (18.0 / safe_d) + jnp.exp(-safe_d) * (1.0 - 18.0 / safe_d)
    """),
    "a call is not evaluated twice": ("""
        def f(g):
            n = jnp.sqrt(jnp.sum(g**2))
            return jnp.where(n > 0, n, 1.0)
    """, """
        -    n = jnp.sqrt(jnp.sum(g**2))
        +    radicand = jnp.sum(g**2)
        +    is_regular = radicand != 0
        +    n = jnp.where(is_regular, jnp.sqrt(jnp.where(is_regular, radicand, 1.0)), 0.0)
    """),
    "the root of a sum of squares is a norm to PyTorch": ("""
        def f(u, v):
            left = torch.sqrt(torch.sum(u**2, axis=-1))
            right = (u - v).pow(2).sum((-2, -1), keepdim=True).sqrt()
            most = torch.sqrt(torch.square(v).sum())
            left, right, most = (torch.where(n > 0, n, 1.0) for n in (left, right, most))
            return left, right, most
    """, """
        -    left = torch.sqrt(torch.sum(u**2, axis=-1))
        -    right = (u - v).pow(2).sum((-2, -1), keepdim=True).sqrt()
        -    most = torch.sqrt(torch.square(v).sum())
        +    left = torch.linalg.vector_norm(u, dim=-1)
        +    right = torch.linalg.vector_norm(u - v, dim=(-2, -1), keepdim=True)
        +    most = torch.linalg.vector_norm(v)
    """),
    "the root of another sum is none": ("""
        def f(u, v):
            n = torch.sqrt((u * v).sum())
            return torch.where(n > 0, n, 1.0)
    """, """
        -    n = torch.sqrt((u * v).sum())
        +    radicand = (u * v).sum()
        +    is_singular = radicand <= 0
        +    n = torch.where(is_singular, 0.0, torch.sqrt(torch.where(is_singular, 1.0, radicand)))
    """),
    "an element that is read three times has a name": ("""
        def f(q):
            return torch.acos(q[..., 0].clamp(-1.0, 1.0)[..., None])
    """, """
        -    return torch.acos(q[..., 0].clamp(-1.0, 1.0)[..., None])
        +    cosine = q[..., 0].clamp(-1.0, 1.0)[..., None]
        +    return torch.acos(torch.where(torch.abs(cosine) >= 1, cosine.detach(), cosine))
    """),
    "what overflows is bounded": ("""
        def f(y):
            return torch.exp(y).clamp(max=1.0)
    """, """
        -    return torch.exp(y).clamp(max=1.0)
        +    return torch.exp(torch.where(y > 80.0, 80.0, y)).clamp(max=1.0)
    """),
    "a branch that is taken where the condition does not hold": ("""
        def f(a, v):
            w = jnp.sqrt(a)
            return jax.lax.cond(a <= 0, lambda x: v, lambda x: x * 2.0, w)
    """, """
        -    w = jnp.sqrt(a)
        +    w = jnp.sqrt(jnp.where(a <= 0, 1.0, a))
    """),
    "a mask is bound where all that it masks can read it": ("""
        def f(r, h, flat):
            q = r / jnp.maximum(h, 1e-12)
            if flat:
                sigma = 2.0 / jnp.maximum(h, 1e-12) ** 2
            else:
                sigma = 1.0 / (3.0 * jnp.maximum(h, 1e-12) ** 3)
            w = sigma * 0.25 * (2.0 - q) ** 3
            return jnp.where(q <= 2.0, w, 0.0)
    """, """
        -        sigma = 2.0 / jnp.maximum(h, 1e-12) ** 2
        +        sigma = 2.0 / jnp.where(q <= 2.0, jnp.maximum(h, 1e-12) ** 2, 1.0)
        -        sigma = 1.0 / (3.0 * jnp.maximum(h, 1e-12) ** 3)
        +        sigma = 1.0 / jnp.where(q <= 2.0, 3.0 * jnp.maximum(h, 1e-12) ** 3, 1.0)
    """),
    "two arms whose operations lose the gradient at one input": ("""
        def f(x, y):
            return jnp.where(x > y, jnp.exp(x) * (y - x), jnp.where(x < y, jnp.exp(y) * (x - y), 0.0))
    """, """
        -    return jnp.where(x > y, jnp.exp(x) * (y - x), jnp.where(x < y, jnp.exp(y) * (x - y), 0.0))
        +    return jnp.where(
        +        x > y,
        +        jnp.exp(jnp.where(x > y, x, 0.0)) * (y - x),
        +        jnp.where(x < y, jnp.exp(jnp.where(x < y, y, 0.0)) * (x - y), 0.0),
        +    )
    """),
    "an operand on several lines": ("""
        def f(x, y):
            return jnp.sqrt(
                jnp.maximum(
                    x - y,  # never below
                    0.0,
                )
            )
        def g(x, y):
            return jnp.sqrt(
                jnp.maximum(
                    y, 0.0
                )
            )
    """, """
        +    radicand = jnp.maximum(
        +        x - y,  # never below
        +        0.0,
        +    )
        -        jnp.maximum(
        -            x - y,  # never below
        -            0.0,
        -        )
        +        jnp.where(radicand != 0, radicand, jax.lax.stop_gradient(radicand))
        -    return jnp.sqrt(
        -        jnp.maximum(
        -            y, 0.0
        -        )
        -    )
        +    radicand = jnp.maximum(y, 0.0)
        +    is_regular = radicand != 0
        +    return jnp.where(is_regular, jnp.sqrt(jnp.where(is_regular, radicand, 1.0)), 0.0)
    """),
    "a norm along two axes": ("""
        def f(v):
            return jnp.maximum(jnp.linalg.norm(v, axis=(1, 2)), 1e-6)
    """, """
        -    return jnp.maximum(jnp.linalg.norm(v, axis=(1, 2)), 1e-6)
        +    return jnp.maximum(
        +        jnp.where(
        +            jnp.any(v != 0, axis=(1, 2)),
        +            jnp.linalg.norm(jnp.where(jnp.any(v != 0, axis=(1, 2), keepdims=True), v, 1.0), axis=(1, 2)),
        +            0.0,
        +        ),
        +        1e-6,
        +    )
    """),
    "a norm along no axis": ("""
        def f(v):
            n = jnp.linalg.norm(v, axis=None)
            return jnp.maximum(n, 1e-6)
    """, """
        -    n = jnp.linalg.norm(v, axis=None)
        +    is_regular = jnp.any(v != 0)
        +    n = jnp.where(is_regular, jnp.linalg.norm(jnp.where(is_regular, v, 1.0), axis=None), 0.0)
    """),
    "the mask of a root is enough for what is divided by it": ("""
        def f(q):
            squared = q[..., 1] ** 2 + q[..., 2] ** 2
            sine = torch.sqrt(squared)
            angle = 2.0 * torch.atan2(sine, q[..., 0]) / sine
            return torch.where(squared > 0.0, angle, 2.0)
    """, """
        -    sine = torch.sqrt(squared)
        -    angle = 2.0 * torch.atan2(sine, q[..., 0]) / sine
        +    sine = torch.sqrt(torch.where(squared > 0.0, squared, 1.0))
        +    angle = 2.0 * torch.atan2(sine, q[..., 0]) / torch.where(squared > 0.0, sine, 1.0)
    """),
    "every operand that may be singular, each with a value that is safe for it": ("""
        def f(a, b, c, d):
            ok = (a * c > 0) & (b * d > 0)
            return jnp.where(ok, jax.scipy.special.betaln(a * c, b * d), 0.0)
    """, """
        -    return jnp.where(ok, jax.scipy.special.betaln(a * c, b * d), 0.0)
        +    return jnp.where(ok, """
    """jax.scipy.special.betaln(jnp.where(ok, a * c, 1.0), jnp.where(ok, b * d, 1.0)), 0.0)
    """),
    "one mask, in the innermost of two operations": ("""
        def f(d, x):
            return jnp.where(d < 3.99, d, jnp.pi - jnp.arcsin(jnp.sqrt(jnp.sum(x**2))))
    """, """
        -    return jnp.where(d < 3.99, d, jnp.pi - jnp.arcsin(jnp.sqrt(jnp.sum(x**2))))
        +    return jnp.where(d < 3.99, d, jnp.pi - jnp.arcsin(jnp.where(d < 3.99, 0.0, jnp.sqrt(jnp.sum(x**2)))))
    """),
    "conditions of one function by names of their own, in whatever block": ("""
        def f(x, y, flag):
            total = jnp.log(x)
            if flag:
                total -= jnp.log(y)
            return jnp.where(total == total, total, -jnp.inf)
    """, """
        -    total = jnp.log(x)
        +    is_regular = x != 0
        +    total = jnp.where(is_regular, jnp.log(jnp.where(is_regular, x, 1.0)), -jnp.inf)
        -        total -= jnp.log(y)
        +        is_regular_2 = y != 0
        +        total -= jnp.where(is_regular_2, jnp.log(jnp.where(is_regular_2, y, 1.0)), -jnp.inf)
    """),
    "what stops a gradient by its shortest name": ("""
        from jax import lax
        def f(c):
            return jnp.arccos(jnp.clip(2.0 * c, -1, 1))
    """, """
        -    return jnp.arccos(jnp.clip(2.0 * c, -1, 1))
        +    cosine = jnp.clip(2.0 * c, -1, 1)
        +    return jnp.arccos(jnp.where(jnp.abs(cosine) >= 1, lax.stop_gradient(cosine), cosine))
    """),
    "one mask for every operation of an arm": ("""
        def f(d, r):
            a = jnp.arccos((d - 1.0) / r)
            b = jnp.arccos((d + 1.0) / (2.0 * r))
            return jnp.where(d < r, a * b, 0.0)
    """, """
        -    a = jnp.arccos((d - 1.0) / r)
        -    b = jnp.arccos((d + 1.0) / (2.0 * r))
        -    return jnp.where(d < r, a * b, 0.0)
        +    valid = d < r
        +    a = jnp.arccos(jnp.where(d < r, (d - 1.0) / jnp.where(valid, r, 1.0), 0.0))
        +    b = jnp.arccos(jnp.where(valid, (d + 1.0) / jnp.where(valid, 2.0 * r, 1.0), 0.0))
        +    return jnp.where(valid, a * b, 0.0)
    """),
    "between two numbers": ("""
        def f(x, y):
            root = jnp.sqrt(x)
            other = jnp.sqrt(1.0 - x)
            return jnp.where((x > 0.0) & (x < 1.0), root * other, y)
    """, """
        -    root = jnp.sqrt(x)
        -    other = jnp.sqrt(1.0 - x)
        -    return jnp.where((x > 0.0) & (x < 1.0), root * other, y)
        +    valid = (x > 0.0) & (x < 1.0)
        +    safe_x = jnp.where(valid, x, 0.5)
        +    root = jnp.sqrt(safe_x)
        +    other = jnp.sqrt(1.0 - safe_x)
        +    return jnp.where(valid, root * other, y)
    """),
    "an operation whose other selection is known": ("""
        def f(x0, y0, limit, x, y, gamma=0.0):
            impact = ((x - x0)**2 + (y - y0)**2) ** (1 / 2)
            mu = (1 - impact**2) ** (1 / 2)
            return jnp.where(impact <= limit, 1 - gamma * (1 - mu), 0)
    """, """
        -    mu = (1 - impact**2) ** (1 / 2)
        +    mu = jnp.where(impact <= limit, 1 - impact**2, 1.0) ** (1 / 2)
    """),
    "one mask that reaches the operation further on": ("""
        def f(quaternion):
            q1, q2, q3 = quaternion[..., 1], quaternion[..., 2], quaternion[..., 3]
            squared = q1 * q1 + q2 * q2 + q3 * q3
            sin_theta: torch.Tensor = torch.sqrt(squared)
            cos_theta = quaternion[..., 0]
            theta = torch.where(cos_theta < 0, torch.atan2(-sin_theta, -cos_theta), torch.atan2(sin_theta, cos_theta))
            k_pos: torch.Tensor = theta / sin_theta
            return q1 * torch.where(squared > 0.0, k_pos, 2.0)
    """, """
        -    sin_theta: torch.Tensor = torch.sqrt(squared)
        +    is_regular = squared != 0
        +    sin_theta: torch.Tensor = torch.where(is_regular, torch.sqrt(torch.where(is_regular, squared, 1.0)), 0.0)
        -    k_pos: torch.Tensor = theta / sin_theta
        +    k_pos: torch.Tensor = theta / torch.where(squared > 0.0, sin_theta, 1.0)
    """),
    "the condition of a selection between, where another one drops the operation": ("""
        def f(a, b, eps=1e-8):
            det = a * b
            valid = jnp.abs(det) > eps
            inverse = jnp.where(valid, 1.0 / det, 0.0)
            t = b * inverse
            return jnp.where(valid & (t > eps), t, jnp.inf)
    """, """
        -    inverse = jnp.where(valid, 1.0 / det, 0.0)
        +    inverse = jnp.where(valid, 1.0 / jnp.where(valid, det, 1.0), 0.0)
    """),
}  # fmt: skip


#: The same of notes.
UNLIKELY = {
    "a mask with an axis less than what it is assigned by": ("""
        def f(x):
            total = torch.sum(x, dim=-1, keepdim=True)
            out = torch.div(x, total)
            out[total.squeeze(-1) == 0] = 1.0
            return out
    """, """
        -    out = torch.div(x, total)
        +    out = torch.div(x, torch.where(total != 0, total, 1.0))
    """),
    "a divisor of two rows is masked once": ("""
        def f(x, y):
            rij = (x - y) ** 2
            a = jnp.sum(jnp.nan_to_num((x - y) / rij))
            b = jnp.sum(jnp.nan_to_num((y - x) / rij))
            return a + 2.0 * b
    """, """
        -    a = jnp.sum(jnp.nan_to_num((x - y) / rij))
        -    b = jnp.sum(jnp.nan_to_num((y - x) / rij))
        +    is_regular = rij != 0
        +    a = jnp.sum(jnp.nan_to_num(jnp.where(is_regular, (x - y) / jnp.where(is_regular, rij, 1.0), 0.0)))
        +    b = jnp.sum(jnp.nan_to_num(jnp.where(is_regular, (y - x) / jnp.where(is_regular, rij, 1.0), 0.0)))
    """),
    "a power keeps its slope where the exponent leaves it one": ("""
        def f(x, n):
            return jnp.power(jnp.maximum(x, 0.0), n)
    """, """
        -    return jnp.power(jnp.maximum(x, 0.0), n)
        +    base = jnp.maximum(x, 0.0)
        +    return jnp.power(jnp.where((base != 0) | (n >= 1), base, jax.lax.stop_gradient(base)), n)
    """),
    "the second of two divisions that begin at one place": ("""
        def f(x, y, z):
            return jnp.where(z > 0, x / (y * y + 1.0) / z, 0.0)
    """, """
        -    return jnp.where(z > 0, x / (y * y + 1.0) / z, 0.0)
        +    return jnp.where(z > 0, x / (y * y + 1.0) / jnp.where(z > 0, z, 1.0), 0.0)
    """),
    "a mask that is not None where something asks": ("""
        def f(x, mask=None):
            if mask is not None:
                return jnp.where(mask, jnp.log(x), 0.0)
            return x
    """, """
        -        return jnp.where(mask, jnp.log(x), 0.0)
        +        return jnp.where(mask, jnp.log(jnp.where(mask, x, 1.0)), 0.0)
    """),
    "a mask that is made where it is None": ("""
        def f(x, mask=None):
            if mask is None:
                mask = jnp.ones_like(x, dtype=bool)
            return jnp.where(mask, jnp.log(x), 0.0)
    """, """
        -    return jnp.where(mask, jnp.log(x), 0.0)
        +    return jnp.where(mask, jnp.log(jnp.where(mask, x, 1.0)), 0.0)
    """),
}  # fmt: skip


def repaired(text: str, level: Level = "warning") -> FileReport:
    return check_source(text.encode(), "f.py", Settings(root=Path("/"), level=level), "unsafe")


def program(body: str) -> str:
    return _HEADER + textwrap.dedent(body).strip("\n") + "\n"


@pytest.mark.parametrize("why", [*REWRITES, *UNLIKELY])
def test_what_is_written(why: str) -> None:
    body, lines = UNLIKELY.get(why) or REWRITES[why]
    text = program(body)
    report = repaired(text, "note" if why in UNLIKELY else "warning")
    changed = [
        line
        for line in difflib.unified_diff(text.splitlines(), report.after.decode().splitlines(), lineterm="", n=0)
        if line[0] in "+-" and not line.startswith(("+++", "---"))
    ]
    assert changed == textwrap.dedent(lines).strip("\n").splitlines()
    assert report.findings == ()


#: Programs in which something stands against the obvious rewrite, and that rewrite.
REFUSED = {
    "a cap that changes what no number bounds": ("""
        def f(x, most):
            return torch.exp(x).clamp(max=most)
    """, "80"),
    "a cap that changes what is bounded from below alone": ("""
        def f(x):
            y = torch.exp(-x)
            return torch.log((torch.tanh(2.0 * y) - torch.tanh(y)).clamp(min=1e-6))
    """, "80"),
    "along which axes a function reduces that was made elsewhere": ("""
        def f(x, y):
            norms = jax.vmap(jax.vmap(jnp.linalg.norm))
            n = norms(x[None] - y[:, None])
            return jnp.where(n > 0, 1.0 / n, 0.0)
    """, "jnp.any("),
    "a condition that is drawn anew": ("""
        def f(x, generator):
            return jnp.where(x > generator.normal(), jnp.sqrt(x), 0.0)
    """, "jnp.where(x > generator.normal(), x"),
    "a mask that may be None": ("""
        def f(x, where=None):
            return jnp.sum(jnp.sqrt(x), where=where)
    """, "jnp.where(where"),
    "a condition that is bound later and reads the result": ("""
        def f(x):
            y = jnp.log(x)
            low = y < -100.0
            return jnp.where(low, 0.0, y)
    """, "jnp.where(low, 1.0, x)"),
    "a number that fixes one operation and breaks another": ("""
        def f(x, y):
            grown = jnp.sinh(y)
            on = (x <= jnp.max(x)) & (grown > 2.0)
            return jnp.where(on, grown / x, -1.0)
    """, "jnp.where(on, x, 0.0)"),
    "a number in place of booleans": ("""
        def f(x, y):
            low = y < 0.5
            other = torch.erfinv(y)
            high = x >= 0.001
            return torch.where((high & low), torch.where(low, torch.where(low, x, 0.0).arccos(), 1.0), other)
    """, "low, low, "),
    "two fixes that keep the value one by one": ("""
        def f(x):
            a = x.acos()
            b = x.acos()
            largest = torch.amax(a * b)
            return torch.where(a != 2.0, -torch.where(largest < 1.0, largest, -1.0), largest)
    """, "a = torch.where(abs(x) < 1, x, 0.0).acos()\n    b = torch.where(abs(x) < 1, x, 0.0)"),
    "an assignment in the operand": ("""
        def f(x):
            return jnp.where(x > 0, jnp.sqrt(y := 2.0 * x), 0.0) + y
    """, "where((y"),
    "a call in a comprehension": ("""
        def f(xs, g):
            return [jnp.where(x > 0, jnp.sqrt(g(x)), 0.0) for x in xs]
    """, "where(g(x) > 0"),
    "a list of conditions that has a name": ("""
        def f(x):
            conditions = [x <= 0]
            return jnp.select(conditions, [0.0 * x], jnp.sqrt(x))
    """, "where(conditions"),
    "a deviation in a lambda": ("""
        def f(x):
            return (lambda v: jnp.where(v.max() > 3.0, jnp.std(v), 0.0))(x)
    """, "variance"),
    "a norm along an axis by its place": ("""
        def f(x):
            return jnp.where((x * x).sum(0) > 0, jnp.linalg.norm(x, None, 0), 0.0)
    """, "jnp.any"),
    "an infinity in place of a quotient": ("""
        def f(x):
            return jnp.maximum(1.0 - 1.0 / x, -5.0)
    """, "inf"),
    "an operand that is written thrice": ("""
        def f():
            return lambda x: (1 / x**2 - 1).clamp(min=0).sqrt()
    """, "where"),
    "infinities that nan_to_num makes large": ("""
        def f(x):
            return jnp.nan_to_num(jnp.log(x))
    """, "1.0, x)), 0.0)"),
    "a call that may give something else before another": ("""
        def f(x, g):
            return jnp.where(g(x) > 0, jnp.sqrt(g(x)), 0.0)
    """, "radicand"),
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_not_written(why: str) -> None:
    body, obvious = REFUSED[why]
    assert obvious not in repaired(program(body)).after.decode()


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_every_other_byte_survives(ending: str) -> None:
    lines = ["import jax.numpy as jnp\t# tab ", "", "def f(x):", '    """a"""   ', "    y = 'b' ;z=1"]
    lines.append("    return jnp.where(x > 0, jnp.log(x), 0.0) # no newline")
    content = ending.join(lines).encode()
    report = check_source(content, "f.py", Settings(root=Path("/")), "safe")
    assert report.after == content.replace(b"jnp.log(x)", b"jnp.log(jnp.where(x > 0, x, 1.0))")


def test_the_encoding_stays() -> None:
    text = "# coding: latin-1\n" + program("def f(x):\n    'é'\n    return jnp.where(x > 0, jnp.log(x), 0.0)\n")
    content = text.encode("latin-1")
    report = check_source(content, "f.py", Settings(root=Path("/")), "safe")
    assert report.after == content.replace(b"jnp.log(x)", b"jnp.log(jnp.where(x > 0, x, 1.0))")


def test_a_line_that_is_added_ends_as_the_others_do() -> None:
    text = program(REWRITES["several operations on one variable"][0]).replace("\n", "\r\n")
    after = repaired(text).after
    assert after.count(b"\r\n") == text.count("\r\n") + 1
    assert after.count(b"\n") == after.count(b"\r\n")


def test_a_byte_order_mark_stays() -> None:
    content = b"\xef\xbb\xbf" + program("def f(x):\n    return jnp.where(x > 0, jnp.log(x), 0.0)\n").encode()
    report = check_source(content, "f.py", Settings(root=Path("/")), "safe")
    assert report.after == content.replace(b"jnp.log(x)", b"jnp.log(jnp.where(x > 0, x, 1.0))")


def test_what_is_silenced_is_not_fixed() -> None:
    text = program("def f(x):\n    return jnp.where(x > 0, jnp.log(x), 0.0)  # noqa: WL102\n")
    assert repaired(text).fixed == ()


def test_an_unsafe_fix_is_not_applied_unless_asked_for() -> None:
    text = program("def f(x):\n    y = jnp.log(x).sum()\n    return jnp.where(x.sum() > 0, y, 0.0)\n")
    report = check_source(text.encode(), "f.py", Settings(root=Path("/")), "safe")
    assert report.fixed == ()
    assert [f.fix.applicability for f in report.findings if f.fix] == ["unsafe"]


def test_a_defect_in_the_search_for_a_fix_costs_the_fix_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr("wherelint.fix.search.Site", fail)
    text = program(REWRITES["a norm"][0])
    (finding,) = check_source(text.encode(), "f.py", Settings(root=Path("/")), "offer").findings
    assert finding.fix is not None
    assert finding.fix.edits == ()
    assert re.search(r"internal error, please report it: KeyError: 'x' \(\w+\.py:\d+\)$", finding.fix.message)


def test_a_parameter_may_have_the_name_of_a_variable_of_the_file() -> None:
    text = "import torch\n\n\ndef loss(x):\n    return torch.where(x > 0, x.sqrt(), 0.0).sum()\n\n\nx = torch.ones(3)\n"
    fixed = text.replace("x.sqrt()", "torch.where(x > 0, x, 1.0).sqrt()")
    assert repaired(text).after.decode() == fixed
