"""A `where` drops a quotient whose divisor is 0, and its gradient is nan.

## What it does

Reports divisions, `reciprocal` and `mod` whose divisor can be 0 at an input where a selection drops the
quotient.

## Why is this bad?

The dropped quotient receives a cotangent of 0; the derivatives `1 / y` and `-x / y ** 2` are not finite at 0,
and `0 * inf` is nan.

## Example

```python
import tensorflow as tf


def f(x):
    return tf.where(x > 0, 1.0 / x, 1.0)
```

## Use instead

```python
import tensorflow as tf


def f(x):
    return tf.where(x > 0, 1.0 / tf.where(x > 0, x, 1.0), 1.0)
```

## Known problems

A mask that has nothing to do with the divisor (`where(valid, a / b, 0)`) is shown only with `--confidence
low`: the divisor may well never be 0.
"""

from wherelint.rules.rule import Rule

RULE = Rule(help="mask the operand too (the double where): `where(c, x / where(c, y, 1.0), z)`")
