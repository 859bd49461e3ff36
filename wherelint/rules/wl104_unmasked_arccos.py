"""A `where` drops an inverse function at the edge of its domain, and its gradient is nan.

## What it does

Reports `arccos`, `arcsin`, `arccosh` and `arctanh` whose operand can reach the edge of the domain, where the
derivative is infinite, at an input where a selection drops the result.

## Why is this bad?

The dropped branch receives a cotangent of 0, the derivative of `arccos` at 1 is infinite, and `0 * inf` is
nan. Angles between vectors that may be parallel are the usual place.

## Example

```python
import jax.numpy as jnp


def f(x):
    return jnp.where(x < 1, jnp.arccos(x), 0.0)
```

## Use instead

```python
import jax.numpy as jnp


def f(x):
    return jnp.where(x < 1, jnp.arccos(jnp.where(x < 1, x, 0.0)), 0.0)
```

## Known problems

Clipping the operand to [-1, 1] does not help: the clip puts it exactly onto the edge (WL301).
"""

from wherelint.rules.rule import Rule

RULE = Rule(
    help="mask the operand too (the double where): `where(c, arccos(where(c, x, 0.0)), y)`",
    example_at=(1.0,),
)
