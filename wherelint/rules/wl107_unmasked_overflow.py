"""A `where` drops an exponential that overflows, and its gradient is nan.

## What it does

Reports `exp`, `exp2`, `expm1`, `sinh` and `cosh` whose operand can overflow float32 at an input where a
selection drops the result.

## Why is this bad?

The derivative of `exp(x)` is `exp(x)`: infinite as soon as the value is. The dropped branch receives a
cotangent of 0, and `0 * inf` is nan. Hand-written ELU, softplus and log1p(exp(x)) are the usual places.

## Example

```python
import torch


def f(x):
    return torch.where(x > 0, x, torch.exp(x) - 1)
```

## Use instead

```python
import torch


def f(x):
    return torch.where(x > 0, x, torch.exp(torch.where(x > 0, 0.0, x)) - 1)
```

## Known problems

The probes are float32, which overflows near 88; a program that runs in float64 overflows near 709. The rule
does not see a bound that is known only at run time (a clip in the data pipeline).
"""

from wherelint.rules.rule import Rule

RULE = Rule(
    help="mask the operand too (the double where): `where(c, exp(where(c, x, 0.0)), y)`",
    example_at=(1000.0,),
)
