"""A `where` meets the limit of a singular arm in value, not in slope.

## What it does

Reports a selection whose arms meet in value at a point where one of them is singular, and whose gradient there is
finite, but not the limit of the gradient. Off by default.

## Why is this bad?

No nan gives it away: `expm1(x) / x` is 1 at 0, and so is the arm that replaces it, but the first has a slope of 0.5 and
a constant a slope of 0. An optimizer that starts at such a point (no rotation, no shape parameter, no time) may stay
there. A double where alone turns a nan into this.

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
1/6) whatever the other inputs are. wherelint proves that the value at the point stays and that the slope is that of
the limit. How many terms the arm needs, and how far from the point they have to hold, is the author's choice, so no
option applies the fix. The double where of another rule that leaves a wrong slope says so beside its diff.

## Known problems

The search moves one input at a time, to 0, 1, -1, the constants of the condition and the middle between two of them.
It misses points that need several inputs or the value of a computed bound, and guards of one side only, such as
`x < 1e-6`, whose arm has a slope of its own on its side. The rule does not report an even function such as
`sin(x) / x`, which loses only its second derivative, an ordinary kink with two regular arms (`relu`, Huber's loss), a
slope without a limit (`norm` at 0), or a gradient that is nan, which other rules report.
"""

from wherelint.rules.rule import Rule

RULE = Rule(
    sentence="the `{kind}` meets the limit of {op} in value, and not in slope",
    help="give the arm the linear term of the limit: `1.0 + 0.5 * x` for `expm1(x) / x`",
    opt_in=True,
)
