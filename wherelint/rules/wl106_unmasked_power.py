"""A `where` drops a power of 0 or of a negative number, and its gradient is nan.

## What it does

Reports powers whose derivative with respect to the base (or to a differentiated exponent) is infinite or nan
at an input where a selection drops the result: `x ** 0.5` or `x ** -1` at 0, `x ** 1.5` below 0.

## Why is this bad?

The dropped branch receives a cotangent of 0, and `0 * inf` and `0 * nan` are nan.

## Example

```python
import torch


def f(x):
    return torch.where(x > 0, x**0.5, 0.0)
```

## Use instead

```python
import torch


def f(x):
    return torch.where(x > 0, torch.where(x > 0, x, 1.0) ** 0.5, 0.0)
```

## Known problems

Positive integer exponents are smooth everywhere and never reported. An exponent that is a parameter is probed
at several values and is itself differentiated; a default value says what it is.
"""

from wherelint.rules.rule import Rule

RULE = Rule(help="mask the operand too (the double where): `where(c, where(c, x, 1.0) ** p, y)`")
