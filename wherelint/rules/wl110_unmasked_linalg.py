"""A `where` drops a decomposition of a singular matrix, and its gradient is nan.

## What it does

Reports `cholesky`, `inv`, `solve`, `det`, `eigh` and their relatives whose matrix can be singular (or have
equal eigenvalues) at an input where a selection drops the result.

## Why is this bad?

The derivative of a decomposition solves with its own result. If that result holds inf or nan, a cotangent of
0 gives nan.

## Example

```python
import jax.numpy as jnp


def f(a):
    regular = jnp.linalg.det(a) != 0
    return jnp.where(regular, jnp.sum(jnp.linalg.inv(a)), 0.0)
```

## Use instead

```python
import jax.numpy as jnp


def f(a):
    regular = jnp.linalg.det(a) != 0
    inverse = jnp.linalg.inv(jnp.where(regular, a, jnp.eye(2)))
    return jnp.where(regular, jnp.sum(inverse), 0.0)
```

## Fix safety

No fix is offered. A number in place of a matrix is a matrix of equal elements, which is singular itself: the safe
operand is an identity matrix of the right size. For a batch the condition needs two more axes, `regular[..., None,
None]`, and only the author knows whether it is about whole matrices.

## Known problems

PyTorch's `inv`, `solve` and `cholesky` raise at a singular matrix: no gradient is lost there, and nothing is reported.
Matrices are modelled by a few elements; a matrix that is positive definite by construction may be reported if
that construction is out of sight.
"""

from wherelint.rules.rule import Rule

RULE = Rule(
    help="give the decomposition a matrix that is always regular: `where(c, matrix, eye(n))`",
    example_at=(((0.0, 0.0), (0.0, 1.0)),),
)
