"""A piecewise constant operation cuts the gradient.

## What it does

Reports `sign`, `round`, `floor`, `ceil` and casts to an integer on a path that is differentiated. Off by
default.

## Why is this bad?

Their derivative is 0 wherever it exists: whatever feeds them gets no gradient, and no error says so.

## Example

```python
import torch


def f(x):
    return torch.round(x) * 2.0
```

## Use instead

```python
import torch


def f(x):
    return (x + (torch.round(x) - x).detach()) * 2.0
```

## Fix safety

No fix is offered: a straight-through estimator changes the gradient on purpose.

## Known problems

Often the cut is what the author wants (indices, bins, quantisation with its own gradient).
"""

from wherelint.rules.rule import Rule

RULE = Rule(
    sentence="{op} is piecewise constant: no gradient flows through it",
    help="detach it on purpose, or use a straight-through estimator: `x + stop_gradient(round(x) - x)`",
    example_at=(1.25,),
    preview=True,
)
