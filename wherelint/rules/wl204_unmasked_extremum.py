"""`maximum`, `minimum` or `clip` drops a value whose derivative is not finite.

## What it does

Reports a singular operation whose result loses against the other operand of `maximum` or `minimum`, or leaves
the bounds of a `clip`.

## Why is this bad?

The operand that loses receives a cotangent of exactly 0, and `0 * inf` is nan.

## Example

```python
import jax.numpy as jnp


def f(x):
    return jnp.minimum(1.0 / x, 10.0)
```

## Use instead

```python
import jax.numpy as jnp


def f(x):
    return 1.0 / jnp.maximum(x, 0.1)
```

## Fix safety

Moving the bound to the operand changes the program where the function is not monotone, so the fix is for
display only.

## Known problems

Where both operands are equal, frameworks share the cotangent between them in different ways; such ties are
not probed.
"""

from wherelint.rules.rule import Rule

RULE = Rule(help="bound the operand instead of the result: `1 / maximum(x, 0.1)`")
