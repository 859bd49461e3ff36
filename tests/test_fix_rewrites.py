"""What a fix writes, for each thing it has to get right: the lines that change, before and after."""

from __future__ import annotations

import difflib
import re
import textwrap
from pathlib import Path

import pytest

from wherelint.finding import FileReport
from wherelint.fix import spelling
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
        +    return tf.where(x <= 0, 0.0, tf.math.log(tf.where(x <= 0, tf.ones_like(x), x)))
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
    "a condition that is only known later moves": ("""
        def f(x):
            root = torch.sqrt(x)
            positive = x > 0
            return torch.where(positive, root, 0.0)
    """, """
        -    root = torch.sqrt(x)
        +    root = torch.sqrt(torch.where(positive, x, 1.0))
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
        +    mask = (x > low + 0.5) & (x < high - 0.5) & (x > 0)
        +    return jnp.where(mask, jnp.log(jnp.where(mask, x, 1.0)), 0.0)
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
        +    clipped_x = jnp.maximum(x, 0.0)
        +    is_nonzero = clipped_x != 0
        +    return jnp.where(is_nonzero, jnp.sqrt(jnp.where(is_nonzero, clipped_x, 1.0)), 0.0)
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
        +    is_positive = x.max() > 0
        +    return jnp.where(is_positive, 1.0 / jnp.where(is_positive, x.max(), 1.0), 0.0)
    """),
    "two methods share no line": ("""
        class Inverse:
            def capped(self, least):
                return 1.0 / least

            def f(self, x, least):
                return jnp.where(jnp.abs(x) > least, 1.0 / x, self.capped(least))
    """, """
        -        return jnp.where(jnp.abs(x) > least, 1.0 / x, self.capped(least))
        +        above_least = jnp.abs(x) > least
        +        return jnp.where(
        +            above_least, 1.0 / jnp.where(above_least, x, 1.0), self.capped(jnp.where(above_least, 1.0, least))
        +        )
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
        -    return jnp.where(w < 1e-8, zero, value)
        +    is_small = w < 1e-8
        +    value = alpha * jnp.log(jnp.where(is_small, 1.0, w))
        +    return jnp.where(is_small, zero, value)
    """),
    "a mask that multiplies": ("""
        def f(x, y):
            return (x > 0) * torch.log(x.abs() + y * 0)
    """, None),
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
        +    has_length = jnp.any(x != 0, axis=-1, keepdims=True)
        +    n = jnp.where(has_length, jnp.linalg.norm(jnp.where(has_length, x, 1.0), axis=-1, keepdims=True), 0.0)
    """),
    "a divisor and the root that it is": ("""
        def f(x):
            n = jnp.sqrt(jnp.sum(x ** 2))
            return jnp.where(n > 0, x / n, 0.0)
    """, None),
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
        +    is_positive = x > 0
        +    return jnp.where(is_positive, jax.tree.map(lambda v: jnp.sqrt(v), jnp.where(is_positive, x, 1.0)), 0.0)
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
        +    above_x = g(x) > x
        +    return jnp.where(above_x, jnp.sqrt(jnp.where(above_x, x, 1.0)), 0.0)
    """),
    "a random number is drawn once": ("""
        def f(x, p):
            return torch.where(torch.bernoulli(p) > x, torch.sqrt(x), 0.0)
    """, """
        -    return torch.where(torch.bernoulli(p) > x, torch.sqrt(x), 0.0)
        +    above_x = torch.bernoulli(p) > x
        +    return torch.where(above_x, torch.sqrt(torch.where(above_x, x, 1.0)), 0.0)
    """),
    "a condition that has a name": ("""
        def f(x):
            positive = x > 0
            print(positive)
            return jnp.where(x > 0, jnp.sqrt(x), 0.0)
    """, """
        -    return jnp.where(x > 0, jnp.sqrt(x), 0.0)
        +    return jnp.where(x > 0, jnp.sqrt(jnp.where(positive, x, 1.0)), 0.0)
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
        +    is_positive = x.std() > 0
        +    safe_x = jnp.where(is_positive, x, 1.0)
        +    return jnp.where(is_positive, safe_x / safe_x.std(), 0.0)
    """),
    "one line for every operation that reads a variable": ("""
        def f(d):
            p = (18.0 / d) + jnp.exp(-d) * (1.0 - 18.0 / d)
            return jnp.where(d < 18.0, 1.0, p)
    """, """
        -    p = (18.0 / d) + jnp.exp(-d) * (1.0 - 18.0 / d)
        -    return jnp.where(d < 18.0, 1.0, p)
        +    is_small = d < 18.0
        +    safe_d = jnp.where(is_small, 1.0, d)
        +    p = (18.0 / safe_d) + jnp.exp(-safe_d) * (1.0 - 18.0 / safe_d)
        +    return jnp.where(is_small, 1.0, p)
    """),
    "a condition is named for what it tests": ("""
        def f(x, y, cutoff):
            a = jnp.where(jnp.abs(x) > jnp.float32(cutoff), 1.0 / x, 0.0)
            b = jnp.where(jnp.isfinite(jnp.log(y)) & (y > 2), jnp.log(y), 0.0)
            c = jnp.where(jnp.sum(x * y) > cutoff, 1.0 / jnp.sum(x * y), 0.0)
            return a, b, c
    """, """
        -    a = jnp.where(jnp.abs(x) > jnp.float32(cutoff), 1.0 / x, 0.0)
        -    b = jnp.where(jnp.isfinite(jnp.log(y)) & (y > 2), jnp.log(y), 0.0)
        -    c = jnp.where(jnp.sum(x * y) > cutoff, 1.0 / jnp.sum(x * y), 0.0)
        +    above_cutoff = jnp.abs(x) > jnp.float32(cutoff)
        +    a = jnp.where(above_cutoff, 1.0 / jnp.where(above_cutoff, x, 1.0), 0.0)
        +    mask = jnp.isfinite(jnp.log(y)) & (y > 2)
        +    b = jnp.where(mask, jnp.log(jnp.where(mask, y, 1.0)), 0.0)
        +    is_large = jnp.sum(x * y) > cutoff
        +    c = jnp.where(is_large, 1.0 / jnp.where(is_large, jnp.sum(x * y), 1.0), 0.0)
    """),
    "an attribute of something else is no variable": ("""
        def f(image, a):
            return jnp.where(jnp.abs(image.array) > a, 1.0 / image.array + jnp.log(jnp.abs(image.array)), 0)
    """, """
        -    return jnp.where(jnp.abs(image.array) > a, 1.0 / image.array + jnp.log(jnp.abs(image.array)), 0)
        +    above_a = jnp.abs(image.array) > a
        +    return jnp.where(
        +        above_a, 1.0 / jnp.where(above_a, image.array, 1.0) + """
    """jnp.log(jnp.where(above_a, jnp.abs(image.array), 1.0)), 0
        +    )
    """),
    "a condition without a sign before the operand": ("""
        def f(y):
            z = jnp.log1p(-y)
            return jnp.maximum(z, -9.0)
    """, """
        -    z = jnp.log1p(-y)
        +    is_different = y != 1
        +    z = jnp.where(is_different, jnp.log1p(jnp.where(is_different, -y, 0.0)), -jnp.inf)
    """),
    "a call is not evaluated twice": ("""
        def f(g):
            n = jnp.sqrt(jnp.sum(g**2))
            return jnp.where(n > 0, n, 1.0)
    """, """
        -    n = jnp.sqrt(jnp.sum(g**2))
        +    n_squared = jnp.sum(g**2)
        +    is_nonzero = n_squared != 0
        +    n = jnp.where(is_nonzero, jnp.sqrt(jnp.where(is_nonzero, n_squared, 1.0)), 0.0)
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
        +    n_squared = (u * v).sum()
        +    is_nonpositive = n_squared <= 0
        +    n = torch.where(is_nonpositive, 0.0, torch.sqrt(torch.where(is_nonpositive, 1.0, n_squared)))
    """),
    "what is under it may be negative, and stays nan": ("""
        def f(x):
            return jnp.maximum(jnp.sqrt(x), 1e-3)
    """, """
        -    return jnp.maximum(jnp.sqrt(x), 1e-3)
        +    is_nonzero = x != 0
        +    return jnp.maximum(jnp.where(is_nonzero, jnp.sqrt(jnp.where(is_nonzero, x, 1.0)), 0.0), 1e-3)
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
        +    return torch.exp(torch.clamp(y, max=80.0)).clamp(max=1.0)
    """),
    "an operand is called as the method that gives it": ("""
        def f(d):
            log_scale = jnp.log(d.variance())
            return jnp.maximum(log_scale, -8.0)
    """, """
        -    log_scale = jnp.log(d.variance())
        +    variance = d.variance()
        +    is_nonzero = variance != 0
        +    log_scale = jnp.where(is_nonzero, jnp.log(jnp.where(is_nonzero, variance, 1.0)), -jnp.inf)
    """),
    "an operand that has a name already": ("""
        def f(x, y):
            radicand = 1.0 - jnp.sum(x * y)
            valid = radicand > 0.0
            return jnp.where(valid, jnp.log(1.0 - jnp.sum(x * y)), y)
    """, """
        -    return jnp.where(valid, jnp.log(1.0 - jnp.sum(x * y)), y)
        +    return jnp.where(valid, jnp.log(jnp.where(valid, radicand, 1.0)), y)
    """),
    "what is clipped is called after the function that gave it": ("""
        def f(u, v):
            return jnp.sqrt(jnp.maximum(jnp.dot(u, v), 0.0))
    """, """
        -    return jnp.sqrt(jnp.maximum(jnp.dot(u, v), 0.0))
        +    clipped_dot = jnp.maximum(jnp.dot(u, v), 0.0)
        +    is_nonzero = clipped_dot != 0
        +    return jnp.where(is_nonzero, jnp.sqrt(jnp.where(is_nonzero, clipped_dot, 1.0)), 0.0)
    """),
    "what an angle is taken of is called its cosine": ("""
        def f(u, v):
            return torch.acos(torch.clamp(torch.dot(u, v), -1.0, 1.0))
    """, """
        -    return torch.acos(torch.clamp(torch.dot(u, v), -1.0, 1.0))
        +    cosine = torch.clamp(torch.dot(u, v), -1.0, 1.0)
        +    return torch.acos(torch.where(torch.abs(cosine) >= 1, cosine.detach(), cosine))
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
        +    is_nonzero = rij != 0
        +    a = jnp.sum(jnp.nan_to_num(jnp.where(is_nonzero, (x - y) / jnp.where(is_nonzero, rij, 1.0), 0.0)))
        +    b = jnp.sum(jnp.nan_to_num(jnp.where(is_nonzero, (y - x) / jnp.where(is_nonzero, rij, 1.0), 0.0)))
    """),
    "the square of a norm is a sum": ("""
        def f(u, v):
            return jnp.maximum(jnp.linalg.norm(u - v, axis=-1) ** 2, 1e-6)
    """, """
        -    return jnp.maximum(jnp.linalg.norm(u - v, axis=-1) ** 2, 1e-6)
        +    return jnp.maximum(jnp.sum((u - v) ** 2, axis=-1), 1e-6)
    """),
    "what two operations are singular in is guarded where it is made": ("""
        def f(u, v):
            cosine = torch.clip(torch.dot(u, v), -1, 1)
            sine = torch.sqrt(1 - cosine**2)
            return sine + (3.0 - torch.acos(cosine)) * cosine
    """, """
        +    cosine = torch.where(torch.abs(cosine) >= 1, cosine.detach(), cosine)
    """),
    "the condition of a branch moves in front of what it masks": ("""
        def f(a, v):
            w = jnp.sqrt(a)
            positive = a > 0
            return jax.lax.cond(positive, lambda x: x * 2.0, lambda x: v, w)
    """, """
        -    w = jnp.sqrt(a)
        +    w = jnp.sqrt(jnp.where(positive, a, 1.0))
    """),
    "a branch that is taken where the condition does not hold": ("""
        def f(a, v):
            w = jnp.sqrt(a)
            return jax.lax.cond(a <= 0, lambda x: v, lambda x: x * 2.0, w)
    """, """
        -    w = jnp.sqrt(a)
        +    w = jnp.sqrt(jnp.where(a <= 0, 1.0, a))
    """),
    "a bound of a norm is one of its square": ("""
        def f(x):
            return x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), 1e-8)
    """, """
        -    return x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), 1e-8)
        +    return x / jnp.sqrt(jnp.maximum(jnp.sum(x**2, axis=-1, keepdims=True), 1e-16))
    """),
    "an operand that is bounded from above has one edge": ("""
        def f(a, b):
            cap = jnp.minimum(jnp.abs(jnp.sum(a * b)), 1.0)
            return 2.0 * jnp.arccos(cap)
    """, """
        -    return 2.0 * jnp.arccos(cap)
        +    return 2.0 * jnp.arccos(jnp.where(cap >= 1, jax.lax.stop_gradient(cap), cap))
    """),
    "an operand that may be at the other edge has both": ("""
        def f(a):
            cap = jnp.minimum(a, 1.0)
            return 2.0 * jnp.arccos(jnp.maximum(cap, -1.0))
    """, """
        -    return 2.0 * jnp.arccos(jnp.maximum(cap, -1.0))
        +    cosine = jnp.maximum(cap, -1.0)
        +    return 2.0 * jnp.arccos(jnp.where(jnp.abs(cosine) >= 1, jax.lax.stop_gradient(cosine), cosine))
    """),
    "a mean of squares is called one": ("""
        def f(x):
            m = x - jnp.mean(x, axis=-1, keepdims=True)
            return m / jnp.maximum(jnp.sqrt(jnp.mean(jnp.square(m), axis=-1, keepdims=True)), 1e-6)
    """, """
        -    return m / jnp.maximum(jnp.sqrt(jnp.mean(jnp.square(m), axis=-1, keepdims=True)), 1e-6)
        +    mean_square = jnp.mean(jnp.square(m), axis=-1, keepdims=True)
        +    is_nonzero = mean_square != 0
        +    return m / jnp.maximum(jnp.where(is_nonzero, jnp.sqrt(jnp.where(is_nonzero, mean_square, 1.0)), 0.0), 1e-6)
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
        +        is_small = q <= 2.0
        +        sigma = 2.0 / jnp.where(is_small, jnp.maximum(h, 1e-12) ** 2, 1.0)
        -        sigma = 1.0 / (3.0 * jnp.maximum(h, 1e-12) ** 3)
        +        q_is_small = q <= 2.0
        +        sigma = 1.0 / jnp.where(q_is_small, 3.0 * jnp.maximum(h, 1e-12) ** 3, 1.0)
    """),
    "two arms whose operations lose the gradient at one input": ("""
        def f(x, y):
            return jnp.where(x > y, jnp.exp(x) * (y - x), jnp.where(x < y, jnp.exp(y) * (x - y), 0.0))
    """, """
        -    return jnp.where(x > y, jnp.exp(x) * (y - x), jnp.where(x < y, jnp.exp(y) * (x - y), 0.0))
        +    above_y = x > y
        +    below_y = x < y
        +    return jnp.where(
        +        above_y,
        +        jnp.exp(jnp.where(above_y, x, 0.0)) * (y - x),
        +        jnp.where(below_y, jnp.exp(jnp.where(below_y, y, 0.0)) * (x - y), 0.0),
        +    )
    """),
    "what is called safe is called so once": ("""
        def f(dt, a, b):
            dt_safe = jnp.maximum(dt, 0.0)
            c = a / dt_safe + dt
            d = b / dt_safe - dt
            return jnp.where(dt > 0, c / d, a)
    """, """
        -    c = a / dt_safe + dt
        -    d = b / dt_safe - dt
        -    return jnp.where(dt > 0, c / d, a)
        +    is_positive = dt > 0
        +    safe_dt = jnp.where(is_positive, dt_safe, 1.0)
        +    c = a / safe_dt + dt
        +    d = b / safe_dt - dt
        +    return jnp.where(is_positive, c / d, a)
    """),
    "what several branches are singular in is guarded where it is made": ("""
        def f(x, kind):
            cosine = torch.clamp(x, -1.0, 1.0)
            if kind == "sum":
                theta = torch.acos(cosine)
                return theta.sum()
            theta = torch.acos(cosine)
            return theta.mean()
    """, """
        +    cosine = torch.where(torch.abs(cosine) >= 1, cosine.detach(), cosine)
    """),
    "an axis that is given": ("""
        def f(v, d=-1):
            n = jnp.linalg.norm(v, axis=d)
            return jnp.maximum(n, 1e-6)
    """, """
        -    n = jnp.linalg.norm(v, axis=d)
        +    has_length = jnp.any(v != 0, axis=d)
        +    n = jnp.where(has_length, jnp.linalg.norm(jnp.where(jnp.expand_dims(has_length, d), v, 1.0), axis=d), 0.0)
    """),
    "a long name is read as it is": ("""
        def f(tangents, normal):
            tangent_across = tangents - normal
            return jnp.maximum(jnp.linalg.norm(tangent_across, axis=0), 1e-6)
    """, """
        -    return jnp.maximum(jnp.linalg.norm(tangent_across, axis=0), 1e-6)
        +    has_length = jnp.any(tangent_across != 0, axis=0)
        +    return jnp.maximum(
        +        jnp.where(has_length, jnp.linalg.norm(jnp.where(has_length, tangent_across, 1.0), axis=0), 0.0), 1e-6
        +    )
    """),
    "tensors stand where the author has tensors": ("""
        def f(x):
            return torch.where(x > 0, x.log(), torch.zeros_like(x))
    """, """
        -    return torch.where(x > 0, x.log(), torch.zeros_like(x))
        +    is_positive = x > 0
        +    return torch.where(is_positive, torch.where(is_positive, x, torch.ones_like(x)).log(), torch.zeros_like(x))
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
        -    return jnp.sqrt(
        -        jnp.maximum(
        -            x - y,  # never below
        -            0.0,
        -        )
        +    radicand = jnp.maximum(
        +        x - y,  # never below
        +        0.0,
        +    is_nonzero = radicand != 0
        +    return jnp.where(is_nonzero, jnp.sqrt(jnp.where(is_nonzero, radicand, 1.0)), 0.0)
        -    return jnp.sqrt(
        -        jnp.maximum(
        -            y, 0.0
        -        )
        -    )
        +    clipped_y = jnp.maximum(y, 0.0)
        +    is_nonzero = clipped_y != 0
        +    return jnp.where(is_nonzero, jnp.sqrt(jnp.where(is_nonzero, clipped_y, 1.0)), 0.0)
    """),
    "several orders of a norm": ("""
        def f(v):
            n = jnp.linalg.norm(v, 2, -1)
            return jnp.where(n > 0, 1.0 / n, 0.0)
    """, """
        -    n = jnp.linalg.norm(v, 2, -1)
        -    return jnp.where(n > 0, 1.0 / n, 0.0)
        +    has_length = jnp.any(v != 0, axis=-1)
        +    n = jnp.where(has_length, jnp.linalg.norm(jnp.where(has_length[..., None], v, 1.0), 2, -1), 0.0)
        +    return jnp.where(n > 0, 1.0 / jnp.where(n > 0, n, 1.0), 0.0)
    """),
    "a norm along an axis of its own": ("""
        def f(v):
            n = jnp.linalg.norm(v, axis=1)
            return jnp.maximum(n, 1e-6)
    """, """
        -    n = jnp.linalg.norm(v, axis=1)
        +    has_length = jnp.any(v != 0, axis=1)
        +    n = jnp.where(has_length, jnp.linalg.norm(jnp.where(jnp.expand_dims(has_length, 1), v, 1.0), axis=1), 0.0)
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
        +    has_length = jnp.any(v != 0)
        +    n = jnp.where(has_length, jnp.linalg.norm(jnp.where(has_length, v, 1.0), axis=None), 0.0)
    """),
    "the mask of a root is enough for what is divided by it": ("""
        def f(q):
            squared = q[..., 1] ** 2 + q[..., 2] ** 2
            sine = torch.sqrt(squared)
            angle = 2.0 * torch.atan2(sine, q[..., 0]) / sine
            return torch.where(squared > 0.0, angle, 2.0)
    """, """
        -    sine = torch.sqrt(squared)
        +    sine = torch.sqrt(torch.where(squared > 0.0, squared, 1.0))
    """),
    "a condition of two statements is written once": ("""
        def f(x, y, r):
            a = jnp.where(r + 0.0 > 0, x / r, 0.0)
            b = jnp.where(r + 0.0 > 0, y / r**2, 0.0)
            return a + b
    """, """
        -    a = jnp.where(r + 0.0 > 0, x / r, 0.0)
        -    b = jnp.where(r + 0.0 > 0, y / r**2, 0.0)
        +    is_positive = r + 0.0 > 0
        +    a = jnp.where(is_positive, x / jnp.where(is_positive, r, 1.0), 0.0)
        +    b = jnp.where(is_positive, y / jnp.where(is_positive, r**2, 1.0), 0.0)
    """),
    "a mask that would change nothing is no mask": ("""
        def f(frac):
            return jnp.where(frac != 0, frac * jnp.log(jnp.abs(frac)), 0.0)
    """, """
        -    return jnp.where(frac != 0, frac * jnp.log(jnp.abs(frac)), 0.0)
        +    is_nonzero = frac != 0
        +    return jnp.where(is_nonzero, frac * jnp.log(jnp.where(is_nonzero, jnp.abs(frac), 1.0)), 0.0)
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
        +    is_small = d < 3.99
        +    return jnp.where(is_small, d, jnp.pi - jnp.arcsin(jnp.where(is_small, 0.0, jnp.sqrt(jnp.sum(x**2)))))
    """),
    "a small bound of a root is one of what it is taken of": ("""
        def f(x):
            n = jnp.maximum(jnp.sqrt(jnp.sum(x**2, axis=-1, keepdims=True)), 1e-12)
            return x / n
    """, """
        -    n = jnp.maximum(jnp.sqrt(jnp.sum(x**2, axis=-1, keepdims=True)), 1e-12)
        +    n = jnp.sqrt(jnp.maximum(jnp.sum(x**2, axis=-1, keepdims=True), 1e-24))
    """),
    "no bound that half precision has and its square has not": ("""
        def f(x):
            return x / jnp.maximum(jnp.sqrt(x * x), 1e-6)
    """, """
        -    return x / jnp.maximum(jnp.sqrt(x * x), 1e-6)
        +    radicand = x * x
        +    is_nonzero = radicand != 0
        +    return x / jnp.maximum(jnp.where(is_nonzero, jnp.sqrt(jnp.where(is_nonzero, radicand, 1.0)), 0.0), 1e-6)
    """),
    "one name for the condition of several helpers": ("""
        def first(x, y):
            return (1.0 + 1.0 / y) / x
        def second(x, y):
            return (1.0 + 2.0 / y) / y
        def f(x):
            y = x * x
            return jnp.where(y > 16.0, first(x, y) * jnp.cos(x) - second(x, y) * jnp.sin(x), x)
    """, """
        -    return jnp.where(y > 16.0, first(x, y) * jnp.cos(x) - second(x, y) * jnp.sin(x), x)
        +    is_large = y > 16.0
        +    return jnp.where(
        +        is_large,
        +        first(jnp.where(is_large, x, 1.0), jnp.where(is_large, y, 1.0)) * jnp.cos(x) - second(
        +            x, jnp.where(is_large, y, 1.0)
        +        ) * jnp.sin(x),
        +        x,
        +    )
    """),
    "conditions of one function by names of their own, in whatever block": ("""
        def f(x, y, flag):
            total = jnp.log(x)
            if flag:
                total -= jnp.log(y)
            return jnp.where(total == total, total, -jnp.inf)
    """, """
        -    total = jnp.log(x)
        +    is_nonzero = x != 0
        +    total = jnp.where(is_nonzero, jnp.log(jnp.where(is_nonzero, x, 1.0)), -jnp.inf)
        -        total -= jnp.log(y)
        +        y_is_nonzero = y != 0
        +        total -= jnp.where(y_is_nonzero, jnp.log(jnp.where(y_is_nonzero, y, 1.0)), -jnp.inf)
    """),
    "a root is not called by the function that takes it": ("""
        def f(c, grid):
            psi = c / grid.detach().sqrt()
            return torch.clamp(psi, max=3.0)
    """, """
        -    psi = c / grid.detach().sqrt()
        +    denominator = grid.detach().sqrt()
        +    is_nonzero = denominator != 0
        +    psi = torch.where(is_nonzero, c, c.detach()) / torch.where(is_nonzero, denominator, denominator.detach())
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
    "a radicand that is clipped by that, rather than by what is made of it": ("""
        def f(squared):
            norms = jnp.sqrt(jnp.clip(squared, 0.0, 9.0))
            return jnp.maximum(norms, 0.1)
    """, """
        -    norms = jnp.sqrt(jnp.clip(squared, 0.0, 9.0))
        +    clipped_squared = jnp.clip(squared, 0.0, 9.0)
        +    is_nonzero = clipped_squared != 0
        +    norms = jnp.where(is_nonzero, jnp.sqrt(jnp.where(is_nonzero, clipped_squared, 1.0)), 0.0)
    """),
    "data that are missing, where the condition asks for what is computed of them": ("""
        def f(predicted, given):
            loss = (predicted - given) ** 2
            return torch.where(torch.isnan(loss), 0.0, loss).mean()
    """, """
        -    loss = (predicted - given) ** 2
        +    difference = predicted - given
        +    loss = torch.where(torch.isnan(difference), 0.0, difference) ** 2
    """),
    "the same in TensorFlow": ("""
        def f(predicted, given):
            loss = tf.square(predicted - given)
            return tf.reduce_sum(tf.where(tf.math.is_nan(loss), 0.0, loss))
    """, """
        -    loss = tf.square(predicted - given)
        +    difference = predicted - given
        +    loss = tf.square(tf.where(tf.math.is_nan(difference), tf.zeros_like(difference), difference))
    """),
    "a number for them would be seen, so that they stay and get no gradient": ("""
        def f(predicted, given):
            loss = torch.sigmoid(predicted - given)
            return torch.where(torch.isnan(loss), 0.0, loss).mean()
    """, """
        -    loss = torch.sigmoid(predicted - given)
        +    difference = predicted - given
        +    loss = torch.sigmoid(torch.where(torch.isnan(difference), difference.detach(), difference))
    """),
    "an annotated mask moves in front of what it masks": ("""
        def f(v: torch.Tensor):
            squared: torch.Tensor = v[..., 0] * v[..., 0] + v[..., 1] * v[..., 1]
            theta: torch.Tensor = torch.sqrt(squared)
            half: torch.Tensor = theta * 0.5
            mask: torch.Tensor = squared > 0.0
            scale: torch.Tensor = torch.sin(half) / theta
            return torch.where(mask, scale, 0.5)
    """, """
        -    theta: torch.Tensor = torch.sqrt(squared)
        +    mask: torch.Tensor = squared > 0.0
        +    theta: torch.Tensor = torch.sqrt(torch.where(mask, squared, 1.0))
        -    mask: torch.Tensor = squared > 0.0
    """),
    "a row that does more, or is spoken of, stays": ("""
        def f(degrees, x):
            norm = torch.pow(degrees, -0.5)
            norm[torch.isinf(norm)] = 0  # isolated nodes
            return norm.unsqueeze(1) * x
    """, """
        -    norm = torch.pow(degrees, -0.5)
        +    is_nonzero = degrees != 0
        +    norm = torch.where(is_nonzero, torch.pow(torch.where(is_nonzero, degrees, 1.0), -0.5), 0.0)
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
        +    below_r = d < r
        +    a = jnp.arccos(jnp.where(below_r, (d - 1.0) / jnp.where(below_r, r, 1.0), 0.0))
        +    b = jnp.arccos(jnp.where(below_r, (d + 1.0) / jnp.where(below_r, 2.0 * r, 1.0), 0.0))
        +    return jnp.where(below_r, a * b, 0.0)
    """),
    "a condition that stands twice in a statement": ("""
        def f(x, y):
            return jnp.where(x > 1, 1 / jnp.sin(x - 1) + jnp.sin(x + y), x), jnp.where(x > 1, y + 1.0, y)
    """, """
        -    return jnp.where(x > 1, 1 / jnp.sin(x - 1) + jnp.sin(x + y), x), jnp.where(x > 1, y + 1.0, y)
        +    above_one = x > 1
        +    return jnp.where(above_one, 1 / jnp.where(above_one, jnp.sin(x - 1), 1.0) + jnp.sin(x + y), x), jnp.where(
        +        above_one, y + 1.0, y
        +    )
    """),
    "a sum that stands twice in a statement": ("""
        def f(x):
            return jnp.where(x.sum(), x / x.sum(), x)
    """, """
        -    return jnp.where(x.sum(), x / x.sum(), x)
        +    x_sum = x.sum()
        +    return jnp.where(x_sum, x / jnp.where(x_sum != 0, x_sum, 1.0), x)
    """),
    "the square of a root, called through a namespace": ("""
        def f(x, y, nx=jnp):
            n = nx.sqrt(nx.sum(x * y, axis=1))
            return nx.where(n == 0, 1.0, n)
    """, """
        -    n = nx.sqrt(nx.sum(x * y, axis=1))
        +    n_squared = nx.sum(x * y, axis=1)
        +    is_nonzero = n_squared != 0
        +    n = nx.where(is_nonzero, nx.sqrt(nx.where(is_nonzero, n_squared, 1.0)), 0.0)
    """),
    "a mask, where the name is taken": ("""
        def f(x, z, mask):
            a = jnp.log(x)
            b = jnp.sqrt(z)
            return jnp.where((x > 0) & (z > 0), a * b, mask)
    """, """
        -    a = jnp.log(x)
        -    b = jnp.sqrt(z)
        -    return jnp.where((x > 0) & (z > 0), a * b, mask)
        +    both_positive = (x > 0) & (z > 0)
        +    a = jnp.log(jnp.where(both_positive, x, 1.0))
        +    b = jnp.sqrt(jnp.where(both_positive, z, 1.0))
        +    return jnp.where(both_positive, a * b, mask)
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
        +    in_range = (x > 0.0) & (x < 1.0)
        +    safe_x = jnp.where(in_range, x, 0.5)
        +    root = jnp.sqrt(safe_x)
        +    other = jnp.sqrt(1.0 - safe_x)
        +    return jnp.where(in_range, root * other, y)
    """),
    "a condition that the author named, or its opposite": ("""
        def advance(a, b):
            return a * (1.0 - jnp.exp(-b))
        def f(x, y):
            is_still = x == 0
            v = advance(y / x, 1.0 / x)
            return jnp.where(is_still, y, v)
    """, """
        -    v = advance(y / x, 1.0 / x)
        +    safe_x = jnp.where(is_still, 1.0, x)
        +    v = advance(y / safe_x, 1.0 / safe_x)
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
    "a name that a docstring speaks of": ('''
        def f(x):
            """The length of a vector."""
            return jnp.maximum(jnp.linalg.norm(x - 1.0), 1e-6)
    ''', """
        -    return jnp.maximum(jnp.linalg.norm(x - 1.0), 1e-6)
        +    vector = x - 1.0
        +    has_length = jnp.any(vector != 0)
        +    return jnp.maximum(jnp.where(has_length, jnp.linalg.norm(jnp.where(has_length, vector, 1.0)), 0.0), 1e-6)
    """),
    "a sum that hides what it sums": ("""
        def f(x, width):
            weight = jnp.exp(-(x**2) / width**2)
            total = jnp.sum(weight)
            return jnp.where(total > 0, weight / total, 0.0)
    """, """
        -    return jnp.where(total > 0, weight / total, 0.0)
        +    return jnp.where(total > 0, weight / jnp.where(total > 0, total, 1.0), 0.0)
    """),
    "the argument of a helper that a variable holds": ("""
        def f(p, limit, b):
            low = jnp.sin(p)
            high = density(p, limit, b)
            return jnp.where(p > limit, high, low)
        def density(p, limit, b):
            return jnp.sqrt(p - limit) * b
    """, """
        -    high = density(p, limit, b)
        +    high = density(jnp.where(p > limit, p, limit + 1.0), limit, b)
    """),
    "one mask that reaches the operation further on": ("""
        def f(quaternion):
            q1, q2, q3 = quaternion[..., 1], quaternion[..., 2], quaternion[..., 3]
            sin_squared_theta = q1 * q1 + q2 * q2 + q3 * q3
            sin_theta: torch.Tensor = torch.sqrt(sin_squared_theta)
            cos_theta = quaternion[..., 0]
            theta = torch.where(cos_theta < 0, torch.atan2(-sin_theta, -cos_theta), torch.atan2(sin_theta, cos_theta))
            k_pos: torch.Tensor = theta / sin_theta
            return q1 * torch.where(sin_squared_theta > 0.0, k_pos, 2.0)
    """, """
        -    sin_theta: torch.Tensor = torch.sqrt(sin_squared_theta)
        +    is_positive = sin_squared_theta > 0.0
        +    sin_theta: torch.Tensor = torch.sqrt(torch.where(is_positive, sin_squared_theta, 1.0))
    """),
    "a bound at which the operation is singular is dropped with the rest": ("""
        def f(x):
            return jnp.where(x >= 0.0, jnp.sqrt(x), 0.0)
    """, """
        -    return jnp.where(x >= 0.0, jnp.sqrt(x), 0.0)
        +    return jnp.where(x > 0.0, jnp.sqrt(jnp.where(x > 0.0, x, 1.0)), 0.0)
    """),
    "a bound that has a value of its own is not": ("""
        def f(x):
            return jnp.where(x >= 0.0, jnp.sqrt(x), 1.0)
    """, """
        -    return jnp.where(x >= 0.0, jnp.sqrt(x), 1.0)
        +    return jnp.where(x >= 0.0, jnp.sqrt(jnp.where(x >= 0.0, x, 1.0)), 1.0)
    """),
    "a bound at which the operation is regular stays": ("""
        def f(x):
            return jnp.where(x > 0.0, x, jnp.exp(x) - 1.0)
    """, """
        -    return jnp.where(x > 0.0, x, jnp.exp(x) - 1.0)
        +    return jnp.where(x > 0.0, x, jnp.exp(jnp.where(x > 0.0, 0.0, x)) - 1.0)
    """),
    "a floor stays, however small it is": ("""
        def f(p, q):
            s = jnp.sqrt(p * q)
            s = jnp.maximum(s, 1e-12)
            return s * 3.0
    """, """
        -    s = jnp.sqrt(p * q)
        +    s_squared = p * q
        +    is_nonzero = s_squared != 0
        +    s = jnp.where(is_nonzero, jnp.sqrt(jnp.where(is_nonzero, s_squared, 1.0)), 0.0)
    """),
    "what is dropped up to a bound": ("""
        def f(x):
            return torch.where(x < 0, torch.zeros_like(x), torch.sqrt(x))
    """, """
        -    return torch.where(x < 0, torch.zeros_like(x), torch.sqrt(x))
        +    is_nonpositive = x <= 0
        +    return torch.where(
        +        is_nonpositive, torch.zeros_like(x), torch.sqrt(torch.where(is_nonpositive, torch.ones_like(x), x))
        +    )
    """),
    "a norm of which the next row makes one": ("""
        def f(x):
            norm = jnp.linalg.norm(x, axis=-1, keepdims=True)
            norm = jnp.where(norm == 0, 1, norm)  # no division by zero
            return x / norm
    """, """
        -    norm = jnp.linalg.norm(x, axis=-1, keepdims=True)
        -    norm = jnp.where(norm == 0, 1, norm)  # no division by zero
        +    # no division by zero
        +    norm_squared = jnp.sum(x**2, axis=-1, keepdims=True)
        +    norm = jnp.sqrt(jnp.where(norm_squared == 0, 1.0, norm_squared))
    """),
    "a root of which the next row makes one": ("""
        def f(x):
            s = torch.sqrt(x.sum(-1, keepdim=True) ** 2)
            s = torch.where(s > 0.0, s, 1.0)
            return x / s
    """, """
        -    s = torch.sqrt(x.sum(-1, keepdim=True) ** 2)
        -    s = torch.where(s > 0.0, s, 1.0)
        +    s_squared = x.sum(-1, keepdim=True) ** 2
        +    s = torch.sqrt(torch.where(s_squared > 0, s_squared, 1.0))
    """),
    "a norm of which the next row makes two": ("""
        def f(x):
            n = jnp.linalg.norm(x, axis=-1)
            n = jnp.where(n == 0, 2.0, n)
            return x / n[..., None]
    """, """
        -    n = jnp.linalg.norm(x, axis=-1)
        +    has_length = jnp.any(x != 0, axis=-1)
        +    n = jnp.where(has_length, jnp.linalg.norm(jnp.where(has_length[..., None], x, 1.0), axis=-1), 0.0)
    """),
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
    "the size of a cosine has one edge": ("""
        def f(x):
            return jnp.arccos(jnp.abs(jnp.clip(x, -1.0, 1.0)))
    """, """
        -    return jnp.arccos(jnp.abs(jnp.clip(x, -1.0, 1.0)))
        +    cosine = jnp.abs(jnp.clip(x, -1.0, 1.0))
        +    return jnp.arccos(jnp.where(cosine >= 1, jax.lax.stop_gradient(cosine), cosine))
    """),
    "a threshold is written once": ("""
        def f(x, y):
            return jnp.where(y > 1e-12, x / y, 0.0)
    """, """
        -    return jnp.where(y > 1e-12, x / y, 0.0)
        +    above_threshold = y > 1e-12
        +    return jnp.where(above_threshold, x / jnp.where(above_threshold, y, 1.0), 0.0)
    """),
    "zeros of the same shape": ("""
        def f(x, dt):
            return tf.where(tf.math.equal(x, tf.zeros_like(x)), dt, (1 - tf.math.exp(-x * dt)) / x)
    """, """
        -    return tf.where(tf.math.equal(x, tf.zeros_like(x)), dt, (1 - tf.math.exp(-x * dt)) / x)
        +    is_zero = tf.math.equal(x, tf.zeros_like(x))
        +    return tf.where(is_zero, dt, (1 - tf.math.exp(-x * dt)) / tf.where(is_zero, tf.ones_like(x), x))
    """),
}  # fmt: skip


#: The same of findings of low confidence.
UNLIKELY = {
    "a part of a variable, where that alone is read": ("""
        def f(m, n, eps):
            s = jnp.abs(m)
            return jnp.diag(1.0 / jnp.sqrt(s[:n]) * (jnp.abs(s[:n]) > eps))
    """, """
        -    return jnp.diag(1.0 / jnp.sqrt(s[:n]) * (jnp.abs(s[:n]) > eps))
        +    above_eps = jnp.abs(s[:n]) > eps
        +    return jnp.diag(1.0 / jnp.sqrt(jnp.where(above_eps, s[:n], 1.0)) * above_eps)
    """),
    "what is bounded below one overflows nowhere below zero": ("""
        def f(y):
            return torch.exp(y).clamp(0.1, 0.9)
    """, """
        -    return torch.exp(y).clamp(0.1, 0.9)
        +    return torch.exp(torch.clamp(y, max=0.0)).clamp(0.1, 0.9)
    """),
    "an operand is called as what its logarithm is one of": ("""
        def f(a, b):
            log_ratio = jnp.log(jnp.sum(a * b) ** 2)
            return jnp.maximum(log_ratio, -8.0)
    """, """
        -    log_ratio = jnp.log(jnp.sum(a * b) ** 2)
        +    ratio = jnp.sum(a * b) ** 2
        +    is_nonpositive = ratio <= 0
        +    log_ratio = jnp.where(is_nonpositive, -jnp.inf, jnp.log(jnp.where(is_nonpositive, 1.0, ratio)))
    """),
    "a power keeps its slope where the exponent leaves it one": ("""
        def f(x, n):
            return jnp.power(jnp.maximum(x, 0.0), n)
    """, """
        -    return jnp.power(jnp.maximum(x, 0.0), n)
        +    clipped_x = jnp.maximum(x, 0.0)
        +    return jnp.power(jnp.where((clipped_x != 0) | (n >= 1), clipped_x, jax.lax.stop_gradient(clipped_x)), n)
    """),
    "an exponent that is computed is computed once": ("""
        def f(x, n):
            return jnp.power(jnp.maximum(x, 0.0), jnp.exp(n))
    """, """
        -    return jnp.power(jnp.maximum(x, 0.0), jnp.exp(n))
        +    clipped_x = jnp.maximum(x, 0.0)
        +    exponent = jnp.exp(n)
        +    return jnp.power(
        +        jnp.where((clipped_x != 0) | (exponent >= 1), clipped_x, jax.lax.stop_gradient(clipped_x)), exponent
        +    )
    """),
    "a mask that says where two numbers differ": ("""
        def f(x, a, b, low, high):
            apart = a != b
            weight = (x - a) / (b - a)
            weight = weight.unsqueeze(-1)
            return torch.where(apart.unsqueeze(-1), low + weight * (high - low), low)
    """, """
        -    weight = (x - a) / (b - a)
        +    weight = (x - a) / torch.where(apart, b - a, 1.0)
    """),
    "what holds the opposite of what is masked": ("""
        def f(x, y):
            x_safe = y + 1.0
            return jnp.where(x > 0, jnp.sqrt(x) + jnp.log(x), x_safe)
    """, """
        -    return jnp.where(x > 0, jnp.sqrt(x) + jnp.log(x), x_safe)
        +    masked_x = jnp.where(x > 0, x, 1.0)
        +    return jnp.where(x > 0, jnp.sqrt(masked_x) + jnp.log(masked_x), x_safe)
    """),
    "the second of two divisions that begin at one place": ("""
        def f(x, y, z):
            return jnp.where(z > 0, x / (y * y + 1.0) / z, 0.0)
    """, """
        -    return jnp.where(z > 0, x / (y * y + 1.0) / z, 0.0)
        +    return jnp.where(z > 0, x / (y * y + 1.0) / jnp.where(z > 0, z, 1.0), 0.0)
    """),
    "a mask that may be None at the operation": ("""
        def f(x, mask=None):
            y = 1.0 / x
            if mask is not None:
                y = jnp.where(mask, y, 0.0)
            return y
    """, """
        -    y = 1.0 / x
        +    y = 1.0 / (x if mask is None else jnp.where(mask, x, 1.0))
    """),
    "a mask that may be None and has an axis less": ("""
        def f(x, mask=None):
            y = jnp.log(x)
            if mask is not None:
                y = jnp.where(mask[..., None], y, 0.0)
            return y
    """, """
        -    y = jnp.log(x)
        +    y = jnp.log(x if mask is None else jnp.where(mask[..., None], x, 1.0))
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


def repaired(text: str, confidence: str = "high") -> FileReport:
    return check_source(text.encode(), "f.py", Settings(root=Path("/"), confidence=confidence), "unsafe")


def program(body: str) -> str:
    return _HEADER + textwrap.dedent(body).strip("\n") + "\n"


@pytest.mark.parametrize("why", [*(why for why, (_, lines) in REWRITES.items() if lines is not None), *UNLIKELY])
def test_what_is_written(why: str) -> None:
    body, lines = UNLIKELY.get(why) or REWRITES[why]
    text = program(body)
    report = repaired(text, "low" if why in UNLIKELY else "high")
    changed = [
        line
        for line in difflib.unified_diff(text.splitlines(), report.after.decode().splitlines(), lineterm="", n=0)
        if line[0] in "+-" and not line.startswith(("+++", "---"))
    ]
    assert changed == textwrap.dedent(lines or "").strip("\n").splitlines()
    assert report.findings == ()


@pytest.mark.parametrize(
    ("value", "fixed"),
    [
        ("torch.clamp(torch.sqrt((x**2).sum(-1)), 1)", "torch.sqrt(torch.clamp((x**2).sum(-1), 1))"),
        ("((x * x).sum(-1) ** 0.5).clip(1).reshape(-1)", "((x * x).sum(-1).clip(1) ** 0.5).reshape(-1)"),
        ("torch.pow(x * x, 0.5).clip(min=1.0)", "torch.pow((x * x).clip(min=1.0), 0.5)"),
        ("jnp.minimum(1.0, jnp.exp(x - 1.0))", "jnp.exp(jnp.minimum(0.0, x - 1.0))"),
    ],
)
def test_the_bound_of_a_value_is_one_of_what_it_is_made_of(value: str, fixed: str) -> None:
    text = program(f"def f(x):\n    return {value}\n")
    report = check_source(text.encode(), "f.py", Settings(root=Path("/"), confidence="low"), "safe")
    assert report.after.decode() == text.replace(value, fixed)


#: Programs in which something stands against the obvious rewrite, and that rewrite.
REFUSED = {
    "a guard on top of an epsilon": ("""
        def f(x, y):
            return jnp.where(x >= 0, y / (x + 1e-8), 0.0)
    """, "where(x >= 0, x"),
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


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        ("x > 0", ["is_positive", "x_is_positive"]),
        ("r_squared != 0", ["is_nonzero", "r_is_nonzero"]),
        ("d < 1", ["below_one", "d_below_one"]),
        ("(x[0] >= a) & (x[0] < b)", ["in_range", "x_in_range"]),
        ("jnp.isclose(p, 0.0)", ["is_zero", "p_is_zero"]),
        ('step < config["warmup"]', ["below_warmup", "step_is_small", "is_small"]),
        ("(x < 1e-5) | (y < 1e-5)", ["any_small"]),
        ("(x != 0) & (y != 0)", ["both_nonzero"]),
        ("x < -1e-14", ["is_negative", "x_is_negative"]),
        ("x > 1e-14", ["above_threshold", "x_above_threshold"]),
        ("x > 1e-4", ["above_threshold", "x_above_threshold"]),
        ("p > limit", ["above_limit", "p_is_large", "is_large"]),
        ("a & b", []),
    ],
)
def test_a_condition_is_named_for_what_it_tests(condition: str, names: list[str]) -> None:
    assert list(spelling.condition_names(condition)) == names


def test_a_parameter_may_have_the_name_of_a_variable_of_the_file() -> None:
    text = "import torch\n\n\ndef loss(x):\n    return torch.where(x > 0, x.sqrt(), 0.0).sum()\n\n\nx = torch.ones(3)\n"
    fixed = text.replace("x.sqrt()", "torch.where(x > 0, x, 1.0).sqrt()")
    assert repaired(text).after.decode() == fixed
