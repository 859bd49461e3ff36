"""A `# noqa` comment silences nothing.

## What it does

Reports `# noqa: WL...` and `# wherelint: noqa: WL...` comments with codes that silence no finding there. Only rules
that are on count; comments without codes are left alone.

## Why is this bad?

A comment that silences nothing today hides a new finding tomorrow.

## Example

```python
import jax.numpy as jnp


def f(x):
    return jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0)  # noqa: WL101
```

## Use instead

```python
import jax.numpy as jnp


def f(x):
    return jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0)
```

## Fix safety

The fix is safe: it removes the codes, or the comment.

## Known problems

The rule skips files without a framework or a selection, and files that wherelint gave up on in part.
"""

from wherelint.rules.rule import Rule

RULE = Rule(
    sentence="nothing is silenced here by {op}",
    help="remove it",
)
