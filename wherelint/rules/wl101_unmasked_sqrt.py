"""A `where` drops the value of a square root at 0, and its gradient is nan.

## What it does

Reports `sqrt`, `rsqrt` and `cbrt` whose operand can reach 0 (or go below) at an input where a selection drops
the result.

## Why is this bad?

Reverse mode differentiates both branches. The branch that was dropped receives a cotangent of 0, the
derivative of `sqrt` at 0 is infinite, and `0 * inf` is nan. The value looks right; one nan in the gradient
destroys a training step.

## Example

```python
import jax.numpy as jnp


def f(x):
    return jnp.where(x > 0, jnp.sqrt(x), 0.0)
```

## Use instead

```python
import jax.numpy as jnp


def f(x):
    return jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0)
```

## Known problems

TensorFlow in eager mode computes a zero here and the same program compiled with XLA a nan; the finding says
"under XLA". `sqrt(x) ** 2` at 0 is a true singularity with no selection in it, and is not reported.
"""

from wherelint.rules.rule import Rule

RULE = Rule(help="mask the operand too (the double where): `where(c, sqrt(where(c, x, 1.0)), y)`")
