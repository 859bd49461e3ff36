"""What newer kinds of fixes write, executed: every finite value, shape and dtype stays, and gradients become finite."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from executing import load
from fixes import cast, checked, executed, gradients, like, program, tensor
from real_gradients import require

from wherelint.io.edits import Source

#: Programs, each with the framework that it is written in and with what its fix writes.
PROGRAMS = {
    "a result that is asked whether it is finite": ("jax", """
        def f(x):
            y = 1.0 / x
            return jnp.where(jnp.isfinite(y), y, 0.0)
    """, "jnp.where(is_regular, 1.0 / jnp.where(is_regular, x, 1.0), 0.0)"),
    "a result that is asked whether it is nan": ("torch", """
        def f(x):
            y = x / x
            y = y.masked_fill(torch.isnan(y), 0.0)
            return y
    """, "torch.where(is_regular, x / torch.where(is_regular, x, 1.0), 0.0)"),
    "one line for several operations": ("tensorflow", """
        def f(x):
            p = 18.0 / x + tf.exp(-x * x) * (1.0 + 18.0 / x)
            return tf.where(tf.equal(x, 0.0), tf.zeros_like(x), p)
    """, "safe_x = tf.where(~invalid, x, 1.0)"),
    "one line for several operations of JAX": ("jax", """
        def f(x):
            p = 18.0 / x + jnp.exp(-x * x) * (1.0 + 18.0 / x)
            return jnp.where(x == 0.0, 0.0, p)
    """, "safe_x = jnp.where(x == 0.0, 1.0, x)"),
    "the dtype of what is masked": ("tensorflow", """
        def f(x):
            return tf.sqrt(tf.maximum(x, tf.zeros_like(x)))
    """, "tf.where(is_regular, radicand, 1.0)"),
    "a boundary that is a number": ("torch", """
        def f(x):
            return x.sqrt().clamp(min=1e-3)
    """, "is_regular"),
    "the edges of an angle": ("torch", """
        def f(x):
            return torch.asin(x.clamp(-1.0, 1.0))
    """, "sine.detach(), sine)"),
    "the edges of an angle, to JAX": ("jax", """
        def f(x):
            return jnp.arccos(jnp.clip(x, -1.0, 1.0))
    """, "jax.lax.stop_gradient(cosine), cosine)"),
    "the edges of an angle, to TensorFlow": ("tensorflow", """
        def f(x):
            return tf.asin(tf.clip_by_value(x, -1.0, 1.0))
    """, "tf.stop_gradient(sine), sine)"),
    "what the condition reads is transposed": ("jax", """
        def f(x):
            y = jnp.sqrt(x).T
            return jnp.where(x.T > 0, y, 0.0)
    """, "is_singular = x <= 0"),
    "what is selected is transposed": ("jax", """
        def f(x):
            y = jnp.sqrt(x)
            z = y.T
            return jnp.where(x.T > 0, z, 0.0)
    """, "is_singular = x <= 0"),
    "a sign before the operand": ("jax", """
        def f(x):
            return jnp.maximum(jnp.log1p(-x), -9.0)
    """, "argument != -1"),
    "the argument of a helper whose result a variable holds": ("jax", """
        def f(x):
            low = jnp.sin(x)
            high = root(x)
            return jnp.where(x > 0, high, low)

        def root(x):
            return jnp.sqrt(x) + jnp.log(x)
    """, "root(jnp.where(x > 0, x, 1.0))"),
    "the mask of a root is enough for what is divided by it": ("torch", """
        def f(x):
            squared = x * x
            sine = torch.sqrt(squared)
            angle = 2.0 * torch.atan2(sine, x + 3.0) / sine
            return torch.where(squared > 0.0, angle, 2.0)
    """, "sine = torch.sqrt(torch.where(squared > 0.0, squared, 1.0))"),
}  # fmt: skip
VALUES = [-2.0, -0.0, 0.0, 1e-30, 0.25, 1.0, 3.0, np.inf, np.nan]
SHAPES = [(), (9,), (0,), (3, 3)]


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


NORMS = {
    "the last axis": (
        "jax",
        "jnp.maximum(jnp.linalg.norm(x, axis=-1), 1e-6)",
        "axis=-1, keepdims=True)",
    ),
    "an order": (
        "jax",
        "jnp.maximum(jnp.linalg.norm(x, ord=2, axis=1), 1e-6)",
        "axis=1, keepdims=True)",
    ),
    "the axis is kept": ("jax", "x / jnp.maximum(jnp.linalg.norm(x, axis=1, keepdims=True), 1e-6)", "is_regular, x"),
    "all axes": ("jax", "jnp.maximum(jnp.linalg.norm(x, axis=None), 1e-6)", "jnp.any(x != 0)"),
    "TensorFlow under XLA": (
        "tensorflow",
        "tf.maximum(tf.norm(x, axis=0), 1e-6)",
        "axis=0, keepdims=True)",
    ),
    "rows of a shape that is not known": (
        "jax",
        "jnp.maximum(jnp.linalg.norm(x @ jnp.eye(3), axis=-1), 1e-6)",
        "axis=-1, keepdims=True)",
    ),
    "the first axis of such": (
        "jax",
        "jnp.maximum(jnp.linalg.norm(x @ jnp.eye(3), 2, 0), 1e-6)",
        "axis=0, keepdims=True)",
    ),
    "an axis of such that is kept": (
        "tensorflow",
        "tf.maximum(tf.norm(tf.linalg.diag(x), ord=2, axis=-1, keepdims=True), 1e-6)",
        "tf.reduce_any(",
    ),
}


@pytest.mark.parametrize("why", NORMS)
def test_a_norm_is_guarded_along_its_axis(why: str, tmp_path: Path) -> None:
    framework, value, written = NORMS[why]
    report, before, after = executed(framework, program(framework, f"def f(x):\n    return {value}\n"), tmp_path)
    assert [finding.fix.applicability for finding in report.fixed] == ["safe"]
    assert written in report.after.decode()
    rows = [[0.0, 0.0, 0.0], [3.0, 4.0, 0.0], [np.nan, 0.0, 1.0], [np.inf, 0.0, 0.0], [1e-3, 0.0, -2.0]]
    for data in (np.array(rows), np.zeros((5, 3)), np.zeros((0, 3)) if "None" not in value else np.ones((1, 3))):
        for dtype in ("float32", "float64", "bfloat16"):
            x = cast(framework, tensor(framework, data.astype(np.float32)), dtype)
            old, new = like(before(x)), like(after(x))
            assert old[:2] == new[:2]
            np.testing.assert_array_equal(old[2], new[2])
    x = tensor(framework, np.zeros((2, 3), np.float32))
    assert np.isfinite(gradients(framework, after, x)).all()
    if framework == "jax":
        assert not np.isfinite(gradients(framework, before, x)).all()


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


@pytest.mark.parametrize(
    "value",
    [
        "jnp.where(x < 0, -jnp.log(1 - x * (2 + x)) / x, jnp.where(x > 0, (jnp.exp(2 * x) - 1) / x + x, 2.0))",
        "jnp.where(x < 1e-6, 0.0, 4 * (jnp.log(x / 2) + jnp.sqrt(x)) / x)",
    ],
    ids=["each arm has a fix, and both are one", "one mask of the variable is enough for the arm"],
)
def test_no_fix_is_half_of_one(value: str, tmp_path: Path) -> None:
    """Two published formulas, whose gradient at 0 is nan for several operations: every safe fix mends them all."""
    text = program("jax", f"def f(x):\n    return {value}")
    require("jax")
    import jax

    found = checked(text, "offer").findings
    for finding in found:
        assert finding.fix is not None
        assert (finding.fix.applicability, finding.fix.remaining) == ("safe", ())
        path = tmp_path / f"{finding.location.column}.py"
        path.write_text(Source(text).edited(finding.fix.edits))
        with jax.debug_nans(True):
            assert finding.witness is not None
            assert np.isfinite(jax.value_and_grad(load(path).f)(finding.witness.inputs["x"])).all()
    assert found


def test_what_pytorch_selects_by_masks_the_operand_too(tmp_path: Path) -> None:
    text = program(
        "torch",
        """
        def f(r, mask):
            mask = (mask * (r > 0)).unsqueeze(-1)
            r = r.unsqueeze(-1)
            return torch.stack([torch.where(mask, r.pow(-p), torch.tensor(0.0)) for p in range(3)], dim=-1)
    """,
    )
    report, before, after = executed("torch", text, tmp_path)
    assert "torch.where(mask, torch.where(mask, r, 1.0).pow(-p)" in report.after.decode()
    x, mask = tensor("torch", np.array([0.0, 1.0, 4.0], np.float32)), tensor("torch", np.array([True, True, False]))
    np.testing.assert_array_equal(np.asarray(after(x, mask)), np.asarray(before(x, mask)))
    assert np.isfinite(gradients("torch", lambda v: after(v, mask), x)).all()


def test_a_finding_elsewhere_in_a_function_is_not_held_against_a_rewrite(tmp_path: Path) -> None:
    text = program(
        "jax",
        """
        def root(x):
            return jnp.where(x > 0.0, jnp.sqrt(x), 0.0)


        def quotient(x, y):
            return jnp.where(y == 0.0, 0.0, x / y)


        def f(grad, old):
            trial = 7e4 * grad + old
            deviator = trial - 0.5 * jnp.trace(trial) * jnp.eye(2)
            norm = root(1.5 * jnp.sum(deviator * deviator))
            excess = norm - 250.0
            return trial - quotient(jnp.where(excess > 0.0, excess, 0.0) * deviator, norm)
    """,
    )
    report, before, after = executed("jax", text, tmp_path)
    assert "x / jnp.where(y == 0.0, 1.0, y)" in report.after.decode()
    for data in (np.eye(2), np.tri(2)):
        x = tensor("jax", data.astype(np.float32))
        np.testing.assert_array_equal(np.asarray(after(x, x)), np.asarray(before(x, x)))
        assert np.isfinite(gradients("jax", lambda v: after(v, -7e4 * v), x)).all()


def test_what_an_operation_still_does_to_one_selection_is_not_excused_by_another(tmp_path: Path) -> None:
    # The guard keeps the exponent 0 from making nan; the witness has another.
    body = """
        def decay(t, exponent=0.8):
            return 1.0 - t ** (-exponent)


        def f(t, row, column, grad, rate):
            kept = decay(t, exponent=rate)
            new_row = kept * row + (1.0 - kept) * grad
            new_column = kept * column + (1.0 - kept) * grad
            return jnp.where(jnp.isnan(new_row), row, new_row), jnp.where(jnp.isnan(new_column), column, new_column)
    """
    report = executed("jax", program("jax", body), tmp_path, fixes="offer")[0]
    assert report.findings
    assert not [
        f.fix for f in report.findings if f.fix and f.fix.applicability == "safe" and "stop_gradient" in str(f.fix)
    ]
