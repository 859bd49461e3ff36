"""An epsilon is too small for float32 and guards nothing.

## What it does

Reports a small constant that disappears when it is added to or subtracted from the value it should keep away
from a singular point, under a selection or a clip: `1 - 1e-9` is 1 in float32, and `1e-50` is 0.

## Why is this bad?

The code reads as guarded and is not: the operand reaches the singular point exactly as it would without the
epsilon.

## Example

```python
import torch


def f(x):
    return torch.arccos(torch.clamp(x, -1 + 1e-9, 1 - 1e-9))
```

## Use instead

```python
import torch


def f(x):
    inside = torch.abs(x) < 1
    angle = torch.arccos(torch.where(inside, x, 0.0))
    return torch.where(inside, angle, 0.0)
```

## Fix safety

A larger epsilon changes values, so the fix is unsafe. In float32 the spacing next to 1 is about 1.2e-7; 1e-6
is visible.

## Known problems

A program that runs in float64 throughout sees epsilons down to about 1e-16; ignore the rule there.
"""

from wherelint.rules.rule import Rule

RULE = Rule(
    sentence="the epsilon is lost in float32, and {op} reaches its singular point: the gradient is not finite",
    help="use an epsilon that float32 can see next to the value: 1e-6 next to 1, 1e-30 next to 0",
    example_at=(1.0,),
)
