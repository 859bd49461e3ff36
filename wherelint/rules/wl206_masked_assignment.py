"""An assignment overwrites a value whose derivative is not finite, and the gradient is nan.

## What it does

Reports a singular operation some of whose elements are overwritten afterwards: `y.at[0].set(0)`, `y[mask] =
0`, `index_put`.

## Why is this bad?

The elements that were overwritten receive a cotangent of exactly 0, and `0 * inf` is nan.

## Example

```python
import torch


def f(x):
    y = torch.log(x)
    y[x == 0] = 0.0
    return y.sum()
```

## Use instead

```python
import torch


def f(x):
    y = torch.log(torch.where(x == 0, 1.0, x))
    y[x == 0] = 0.0
    return y.sum()
```

## Known problems

Arrays are modelled by a few elements; wherelint follows only roughly which of them an assignment overwrites.

PyTorch refuses at run time to differentiate an in-place assignment over the saved output of `sqrt`, `exp` and the
like: there the finding stands for a `RuntimeError`, not for a nan. The remedy is the same, with an assignment that
is not in place (`torch.where`).
"""

from wherelint.rules.rule import Rule

RULE = Rule(
    help="overwrite the operand before the operation: `log(where(mask, 1.0, x))`",
    example_at=((0.0, 2.0),),
)
