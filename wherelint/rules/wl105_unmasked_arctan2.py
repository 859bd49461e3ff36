"""A `where` drops an angle at the origin, and its gradient is nan.

## What it does

Reports `arctan2` (and `angle`) whose operands can both be 0 at an input where a selection drops the result.

## Why is this bad?

The derivative of `arctan2(y, x)` divides by `x ** 2 + y ** 2`. At the origin that is `0 / 0`, and the
cotangent of 0 that the selection sends into the dropped branch cannot repair a nan.

## Example

```python
import jax.numpy as jnp


def f(x, y):
    origin = (x == 0) & (y == 0)
    return jnp.where(origin, 0.0, jnp.arctan2(y, x))
```

## Use instead

```python
import jax.numpy as jnp


def f(x, y):
    origin = (x == 0) & (y == 0)
    return jnp.where(origin, 0.0, jnp.arctan2(y, jnp.where(origin, 1.0, x)))
```

## Known problems

PyTorch defines the derivative at the origin as 0, so nothing is reported there.
"""

from wherelint.rules.rule import Rule

RULE = Rule(
    help="mask the operand too (the double where): `where(c, arctan2(y, where(c, x, 1.0)), z)`",
    example_at=(0.0, 0.0),
)
