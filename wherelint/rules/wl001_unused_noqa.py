"""A `# noqa` comment silences nothing.

## What it does

Reports `# noqa: WL...` comments, and `# wherelint: noqa: WL...` ones, with codes of which nothing is found where they
stand. Only rules that are on count, and comments without codes are left alone.

## Why is this bad?

It silences a finding that is written there tomorrow.

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

A file in which nothing could be found, and a file of which a part was given up, are not looked at.
"""

from wherelint.rules.rule import Rule

RULE = Rule(
    sentence="nothing is silenced here by {op}",
    help="remove it",
)
