"""A `where` drops the value of a logarithm at 0, and its gradient is nan.

## What it does

Reports `log`, `log2`, `log10` and `log1p` whose operand can reach the point where the logarithm is infinite,
at an input where a selection drops the result.

## Why is this bad?

The dropped branch receives a cotangent of 0, the derivative `1 / x` is infinite at 0, and `0 * inf` is nan.
Entropies, likelihoods with masked observations and padded sequences are the usual places.

## Example

```python
import torch


def f(x):
    return torch.where(x > 0, torch.log(x), -100.0)
```

## Use instead

```python
import torch


def f(x):
    return torch.where(x > 0, torch.log(torch.where(x > 0, x, 1.0)), -100.0)
```

## Known problems

At a negative operand the value of `log` is nan but its derivative `1 / x` is finite, so the gradient
survives: that alone is not reported. `x * log(where(x > 0, x, 1))` needs no outer `where` and is not reported
either.
"""

from wherelint.rules.rule import Rule

RULE = Rule(help="mask the operand too (the double where): `where(c, log(where(c, x, 1.0)), y)`")
