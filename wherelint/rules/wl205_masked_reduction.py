"""A reduction's `where=` mask drops a value whose derivative is not finite.

## What it does

Reports a singular operation inside a reduction with a mask, `mean(sqrt(x), where=x > 0)`, or one that leaves out nan,
`nansum(sqrt(x))`.

## Why is this bad?

The elements that the mask leaves out receive a cotangent of exactly 0, and `0 * inf` is nan.

## Example

```python
import jax.numpy as jnp


def f(x):
    return jnp.sum(jnp.sqrt(x), where=x > 0)
```

## Use instead

```python
import jax.numpy as jnp


def f(x):
    return jnp.sum(jnp.sqrt(jnp.where(x > 0, x, 1.0)), where=x > 0)
```

## Known problems

PyTorch and TensorFlow have no `where=`; there the mask is a product (WL202) or an index (WL201).
"""

from wherelint.rules.rule import Rule

RULE = Rule(
    help="mask the operand too: `sum(sqrt(where(c, x, 1.0)), where=c)`",
    example_at=((0.0, 4.0),),
)
