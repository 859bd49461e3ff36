"""The condition of a `where` admits the singular point itself.

## What it does

Reports a selection whose condition still selects the singular point: `where(x >= 0, sqrt(x), 0)`. Off by
default, because the gradient at that point is a true infinity which no mask removes.

## Why is this bad?

At the boundary the branch *is* selected, and its infinite derivative goes into the gradient as it is. A
double where written with the same condition does not help.

## Example

```python
import jax.numpy as jnp


def f(x):
    return jnp.where(x >= 0, jnp.sqrt(jnp.where(x >= 0, x, 1.0)), 0.0)
```

## Use instead

```python
import jax.numpy as jnp


def f(x):
    return jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0)
```

## Fix safety

No fix is offered: which value the boundary should take is the author's choice.

## Known problems

Where the boundary cannot be reached the wider condition is harmless.
"""

from wherelint.rules.rule import Rule

RULE = Rule(
    sentence="the condition still selects {op} {place}: the gradient there is not finite",
    help="make the comparison strict: `x > 0` instead of `x >= 0`",
    opt_in=True,
)
