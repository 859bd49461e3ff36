"""A `where` drops missing data (nan) after it was used, and the gradient is nan.

## What it does

Reports a selection on `isnan` (or `isfinite`) that is applied to a result computed *from* the nan, instead of
to the data itself.

## Why is this bad?

The operation is smooth, but its operand is nan: the derivative of `(x - y) ** 2` is `2 * (x - y)`, which is
nan where `y` is missing, and `0 * nan` is nan. The loss looks right, and every parameter becomes nan after
one step.

## Example

```python
import torch


def f(x, y):
    return torch.where(torch.isnan(y), 0.0, (x - y) ** 2)
```

## Use instead

```python
import torch


def f(x, y):
    safe_y = torch.where(torch.isnan(y), 0.0, y)
    return torch.where(torch.isnan(y), 0.0, (x - safe_y) ** 2)
```

## Known problems

Only selections that ask about nan themselves are probed with nan. `nanmean` and `nansum` mask their operand
and are not reported.
"""

from wherelint.rules.rule import Rule

RULE = Rule(
    sentence="{op} is differentiated at nan, {selection}: the gradient is nan",
    help="replace the missing data before they are used: `safe_y = where(isnan(y), 0.0, y)`",
    example_at=(1.0, float("nan")),
)
