"""A `where` drops the norm or deviation of a zero vector, and its gradient is nan.

## What it does

Reports `linalg.norm` and `std` of something that can vanish at an input where a selection drops the result.

## Why is this bad?

The derivative of a norm divides by the norm. At the zero vector that is `0 / 0`, whatever cotangent comes in.
Padded positions and the distance of a point to itself are the usual places.

## Example

```python
import jax.numpy as jnp


def f(x):
    d = jnp.linalg.norm(x)
    return jnp.where(d > 0, d, 0.0)
```

## Use instead

```python
import jax.numpy as jnp


def f(x):
    nonzero = jnp.any(x != 0)
    return jnp.where(nonzero, jnp.linalg.norm(jnp.where(nonzero, x, 1.0)), 0.0)
```

## Known problems

PyTorch defines the gradient of a norm at 0 as 0, so nothing is reported there. `keepdims` and axes are
followed only as far as "some elements are combined".
"""

from wherelint.rules.rule import Rule

RULE = Rule(
    help="mask the operand too (the double where): `where(c, norm(where(c, x, 1.0)), 0)`",
    example_at=((0.0, 0.0),),
)
