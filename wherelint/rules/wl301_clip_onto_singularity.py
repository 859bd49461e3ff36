"""A clip puts the operand exactly onto the singular point.

## What it does

Reports `clip`, `clamp`, `maximum`, `minimum` or `relu` whose bound is the singular point of the operation
that follows: `arccos(clip(x, -1, 1))`, `sqrt(maximum(x, 0))`. No `where` is needed for this one.

## Why is this bad?

Every input beyond the bound is moved onto the point where the derivative is infinite. The clip then
multiplies it by 0 (nan) or, where its own derivative at the bound is 1, passes the infinity on.

## Example

```python
import jax.numpy as jnp


def f(x):
    return jnp.arccos(jnp.clip(x, -1.0, 1.0))
```

## Use instead

```python
import jax.numpy as jnp


def f(x):
    inside = jnp.abs(x) < 1
    angle = jnp.arccos(jnp.where(inside, x, 0.0))
    return jnp.where(inside, angle, jnp.where(x < 0, jnp.pi, 0.0))
```

## Fix safety

Bounds that stay away from the singular point (`clip(x, -1 + 1e-6, 1 - 1e-6)`) change values near the edge, so
the fix is unsafe.

## Known problems

The rule does not ask whether the bound can be reached: rounding reaches it sooner or later. An epsilon must
survive float32, see WL303. From torch 2.15 `clamp` hands nothing to an element that lies on its bound, so
`clamp(x, min=0).sqrt()` has a finite gradient there; the source does not say which version will
run it, so the rule reports it all the same. If your program needs torch 2.15, silence the finding.
"""

from wherelint.rules.rule import Rule

RULE = Rule(
    sentence="the {kind} puts the operand of {op} onto its singular point: the gradient there is not finite",
    help="keep the bound away from the singular point (1e-6, not 1e-9), or select before the operation",
    example_at=(2.0,),
)
