"""A product with a 0/1 mask drops a value whose derivative is not finite.

## What it does

Reports a singular operation whose result is multiplied by something that is exactly 0 or 1: a comparison, a
cast of one, or a mask built from one.

## Why is this bad?

The mask multiplies the cotangent by 0 on its way in, and `0 * inf` is nan. Where the *value* of the operation
is infinite too, the forward product is nan already, except in JAX: XLA makes a select of the product with a boolean
(converted or not), so that `(x > 0) * jnp.log(x)` is 0 at 0, and its gradient nan.

## Example

```python
import torch


def f(x):
    return (x > 0).float() * torch.sqrt(x)
```

## Use instead

```python
import torch


def f(x):
    return (x > 0).float() * torch.sqrt(torch.where(x > 0, x, 1.0))
```

## Known problems

XLA may turn the product of the cotangent with the mask into a select, too, if that cotangent is a constant: compiled
JAX then hides a nan that comes back as soon as a loss weighs the result.
"""

from wherelint.rules.rule import Rule

RULE = Rule(help="mask the operand: `mask * sqrt(where(mask, x, 1.0))`")
