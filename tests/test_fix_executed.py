"""What newer kinds of fixes write, executed: every finite value, shape and dtype stays, and gradients become finite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_fix_trust import checked, executed, program, tensor

#: Programs, each with the framework that it is written in and with what its fix writes.
PROGRAMS = {
    "asked before": ("jax", """
        def f(x):
            y = 1.0 / x
            return jnp.where(jnp.isfinite(y), y, 0.0)
    """, "jnp.isfinite(1.0 / x)"),
    "asked before a write": ("torch", """
        def f(x):
            y = x / x
            y = y.masked_fill(torch.isnan(y), 0.0)
            return y
    """, "torch.isnan(x / x)"),
    "asked before, by TensorFlow": ("tensorflow", """
        def f(x):
            r = tf.math.log(x)
            return tf.where(tf.math.is_finite(r), r, tf.zeros_like(r))
    """, "tf.math.is_finite(tf.math.log(x))"),
    "one line for several operations": ("tensorflow", """
        def f(x):
            p = 18.0 / x + tf.exp(-x * x) * (1.0 + 18.0 / x)
            return tf.where(tf.equal(x, 0.0), tf.zeros_like(x), p)
    """, "safe_x = tf.where(is_zero, tf.ones_like(x), x)"),
    "one line for several operations of JAX": ("jax", """
        def f(x):
            p = 18.0 / x + jnp.exp(-x * x) * (1.0 + 18.0 / x)
            return jnp.where(x == 0.0, 0.0, p)
    """, "safe_x = jnp.where(is_zero, 1.0, x)"),
    "the dtype of what is masked": ("tensorflow", """
        def f(x):
            return tf.sqrt(tf.maximum(x, tf.zeros_like(x)))
    """, "tf.where(is_nonzero, clipped_x, 1.0)"),
    "a boundary that is a number": ("torch", """
        def f(x):
            return x.sqrt().clamp(min=1e-3)
    """, "is_nonzero"),
    "the edges of an angle": ("torch", """
        def f(x):
            return torch.asin(x.clamp(-1.0, 1.0))
    """, "torch.sign(clipped_x), clipped_x)"),
    "the edges of an angle, to JAX": ("jax", """
        def f(x):
            return jnp.arccos(jnp.clip(x, -1.0, 1.0))
    """, "jnp.sign(x), x)"),
    "the edges of an angle, to TensorFlow": ("tensorflow", """
        def f(x):
            return tf.asin(tf.clip_by_value(x, -1.0, 1.0))
    """, "tf.sign(clipped_x), clipped_x)"),
    "what the condition reads is transposed": ("jax", """
        def f(x):
            y = jnp.sqrt(x).T
            return jnp.where(x.T > 0, y, 0.0)
    """, "is_nonpositive = x <= 0"),
    "what is selected is transposed": ("jax", """
        def f(x):
            y = jnp.sqrt(x)
            z = y.T
            return jnp.where(x.T > 0, z, 0.0)
    """, "is_nonpositive = x <= 0"),
    "a sign before the operand": ("jax", """
        def f(x):
            return jnp.maximum(jnp.log1p(-x), -9.0)
    """, "x != 1"),
}  # fmt: skip
VALUES = [-2.0, -0.0, 0.0, 1e-30, 0.25, 1.0, 3.0, np.inf, np.nan]
SHAPES = [(), (9,), (0,), (3, 3)]


def like(value: Any) -> tuple[Any, Any, Any]:
    whole = value.detach().float().numpy() if hasattr(value, "detach") else np.asarray(value, np.float32)
    return str(value.dtype), tuple(value.shape), whole


def gradients(framework: str, f: Any, x: Any) -> Any:
    if framework == "jax":
        import jax

        return np.asarray(jax.grad(lambda v: f(v).sum())(x))
    if framework == "torch":
        x = x.clone().requires_grad_()
        f(x).sum().backward()
        return x.grad.numpy()
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(f(x))
    return np.asarray(tape.gradient(y, x))


@pytest.mark.parametrize("why", PROGRAMS)
def test_values_stay_and_gradients_are_finite(why: str, tmp_path: Path) -> None:
    framework, body, written = PROGRAMS[why]
    report, before, after = executed(framework, program(framework, body), tmp_path)
    assert written in report.after.decode()
    assert checked(report.after.decode()).fixed == ()
    for dtype in ("float32", "float64", "bfloat16"):
        for shape in SHAPES:
            size = int(np.prod(shape))
            for start in range(9 if shape == () else 1):
                data = np.array(VALUES[start : start + size] if size else [], np.float32).reshape(shape)
                x = cast(framework, tensor(framework, data), dtype)
                old, new = like(before(x)), like(after(x))
                assert old[:2] == new[:2]
                np.testing.assert_array_equal(
                    np.where(np.isfinite(old[2]), new[2], 0.0), np.nan_to_num(old[2], posinf=0, neginf=0)
                )
                assert not (np.isnan(old[2]) & ~np.isnan(new[2])).any()
    x = tensor(framework, np.array([0.0, 0.25, 1.0, 3.0], np.float32))
    bad, good = (gradients(framework, f, x) for f in (before, after))
    assert not np.isfinite(bad).all()
    kept = np.isfinite(np.asarray(like(before(x))[2]))
    assert np.isfinite(good[kept]).all()
    np.testing.assert_allclose(good[np.isfinite(bad)], bad[np.isfinite(bad)], rtol=1e-5)


def cast(framework: str, x: Any, dtype: str) -> Any:
    if framework == "torch":
        import torch

        return x.to(getattr(torch, dtype))
    if framework == "tensorflow":
        import tensorflow as tf

        return tf.cast(x, dtype)
    return x.astype(dtype) if dtype != "float64" else x  # JAX has none unless it is asked for


#: Operations that are singular in either operand: a mask of one is not enough.
EITHER = {
    "betaln": ("jax", "jax.scipy.special.betaln(a, b)"),
    "gammainc": ("jax", "jax.scipy.special.gammainc(a, b)"),
}


@pytest.mark.parametrize("op", EITHER)
def test_each_operand_that_may_be_singular_is_masked(op: str, tmp_path: Path) -> None:
    framework, call = EITHER[op]
    body = f"def f(a, b):\n    ok = (a > 0) & (b > 0)\n    return jnp.where(ok, {call}, -3.0)\n"
    report, before, after = executed(framework, program(framework, body), tmp_path)
    assert [finding.fix.message.split()[2] for finding in report.fixed] == ["operands"]
    import jax

    a, b = (tensor(framework, each.ravel()) for each in np.meshgrid([0.0, 0.5, 2.0], [-0.0, 1.0, 3.0]))
    np.testing.assert_array_equal(after(a, b), before(a, b))
    for f, is_whole in ((before, False), (after, True)):
        slopes = jax.grad(lambda a, b, f=f: f(a, b).sum(), (0, 1))(a, b)
        assert all(np.isfinite(slope).all() for slope in slopes) == is_whole
