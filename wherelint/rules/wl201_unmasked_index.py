"""An index drops a value whose derivative is not finite, and the gradient is nan.

## What it does

Reports a singular operation on elements that an index, a slice, `take` or `gather` leaves out.

## Why is this bad?

The gradient of an index scatters the cotangent into zeros: the elements that were not picked receive exactly
0, and `0 * inf` is nan.

## Example

```python
import jax.numpy as jnp


def f(x):
    return jnp.array([0.0, 1.0 / x])[0]
```

## Use instead

```python
import jax.numpy as jnp


def f(x):
    return jnp.array([0.0, 1.0 / jnp.where(x == 0, 1.0, x)])[0]
```

## Fix safety

Offered where the index is a mask that can guard the operand; otherwise for display only.

## Known problems

Arrays are modelled by a few elements. wherelint does not follow an index that is known only at
run time.
"""

from wherelint.rules.rule import Rule

RULE = Rule(help="index first and compute after, or mask the operand of the singular operation")
