"""A call to host NumPy cuts the gradient.

## What it does

Reports a NumPy function applied to a value of the framework on a path that is differentiated. Off by default.

## Why is this bad?

NumPy computes plain numbers: the result is a constant for the framework. PyTorch needs `.detach()` to get
that far, JAX raises an error under `grad`, and TensorFlow cuts the gradient in silence.

## Example

```python
import numpy as np
import tensorflow as tf


def f(x):
    return x + tf.constant(np.sin(x))
```

## Use instead

```python
import tensorflow as tf


def f(x):
    return x + tf.sin(x)
```

## Fix safety

No fix is offered.

## Known problems

Constants computed by NumPy from constants are not reported.
"""

from wherelint.rules.rule import Rule

RULE = Rule(
    sentence="{op} runs on the host: no gradient flows through it",
    help="use the function of the framework instead of NumPy's",
    example_at=(1.25,),
    preview=True,
)
