"""A `where` meets the limit of a singular arm in value, not in slope.

## What it does

Reports a selection whose arms meet in value where one of them is singular, and whose gradient there is finite and not
the limit of the gradient. Off by default.

## Why is this bad?

No nan tells of it: `expm1(x) / x` is 1 at 0, and so is the arm that replaces it, but the slope of the one is 0.5 and
that of a constant 0. An optimizer that starts at such a point (no rotation, no shape parameter, no time) may stay
there. A double where alone makes this of a nan.

## Example

```python
import jax.numpy as jnp


def f(x):
    small = jnp.abs(x) < 1e-4
    safe = jnp.where(small, 1.0, x)
    return jnp.where(small, 1.0, jnp.expm1(safe) / safe)
```

## Use instead

An arm with the linear term, the first one of the series that is lost:

```python
import jax.numpy as jnp


def f(x):
    small = jnp.abs(x) < 1e-4
    safe = jnp.where(small, 1.0, x)
    return jnp.where(small, 1.0 + 0.5 * x, jnp.expm1(safe) / safe)
```

If the gradient is differentiated again, the arm needs the next term as well. A function that knows its own limit needs
no arm: `sin(x) / x` is `jnp.sinc(x / jnp.pi)`, and with `s = jnp.sinc(0.5 * x / jnp.pi)` the quotient
`(1 - cos(x)) / x` is `0.5 * x * s**2`.

## Fix safety

For display only, and where the arm is a constant: the linear term of the limit, if its factor is a short number (0.5,
1/6) whatever the other inputs are. It is proven: the value at the point is the same, the slope is that of the limit.
How many terms the arm needs, and how far from the point they have to hold, is the author's choice, so that no option
applies it. The double where of another rule that leaves a wrong slope says so beside its diff.

## Known problems

The point is looked for on lines along which one input moves, to 0, 1, -1, the constants of the condition and the
middle between two of them. What needs several inputs, or the value of a computed bound, is not found, nor is a guard
of one side only, such as `x < 1e-6`, whose arm has a slope of its own on its side. An even function such as
`sin(x) / x` loses only its second derivative, which is not reported. Nor are an ordinary kink, both arms of which are
regular (`relu`, Huber's loss), a slope without a limit (`norm` at 0), and a gradient that is nan, which other rules
report.
"""

from wherelint.rules.rule import Rule

RULE = Rule(
    sentence="the `{kind}` meets the limit of {op} in value, and not in slope",
    help="give the arm the linear term of the limit: `1.0 + 0.5 * x` for `expm1(x) / x`",
    opt_in=True,
)
