"""A `where` drops a special function at its singular point, and its gradient is nan.

## What it does

Reports `gammaln`, `digamma`, `erfinv`, `logit`, `xlogy` and their relatives whose operand can reach a pole at
an input where a selection drops the result.

## Why is this bad?

The dropped branch receives a cotangent of 0; at the pole the derivative is infinite or nan, and the product
is nan.

## Example

```python
import jax.numpy as jnp
from jax.scipy.special import gammaln


def f(x):
    return jnp.where(x > 0, gammaln(x), 0.0)
```

## Use instead

```python
import jax.numpy as jnp
from jax.scipy.special import gammaln


def f(x):
    return jnp.where(x > 0, gammaln(jnp.where(x > 0, x, 1.0)), 0.0)
```

## Known problems

Frameworks disagree about these functions: TensorFlow's `xlogy` is regular at 0, those of JAX and PyTorch are
not. The catalogue follows the framework of the file.
"""

from wherelint.rules.rule import Rule

RULE = Rule(help="mask the operand too (the double where): `where(c, gammaln(where(c, x, 1.0)), y)`")
