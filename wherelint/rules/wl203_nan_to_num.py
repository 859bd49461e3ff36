"""`nan_to_num` replaces a value whose derivative is not finite, and the gradient is nan.

## What it does

Reports a singular operation whose nan or infinite result is replaced by `nan_to_num`. (The same replacement
written as `where(isfinite(y), y, 0)` is reported under the code of the operation.)

## Why is this bad?

The replacement sends a cotangent of exactly 0 back into the operation that failed, and `0 * inf` is nan.

## Example

```python
import jax.numpy as jnp


def f(x):
    return jnp.nan_to_num(jnp.log(x), neginf=-100.0)
```

## Use instead

```python
import jax.numpy as jnp


def f(x):
    return jnp.where(x > 0, jnp.log(jnp.where(x > 0, x, 1.0)), -100.0)
```

## Fix safety

No fix is offered: the code has no condition to mask with.

## Known problems

`nan_to_num` at the very end of a program, on something that is only logged, is not differentiated; put it
under `stop_gradient` or `no_grad` to say so.
"""

from wherelint.rules.rule import Rule

RULE = Rule(help="test the operand before the operation, not the result after it")
