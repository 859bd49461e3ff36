"""What `wherelint.tensorflow.locate` blames, on the published bugs and in programs of a few shapes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from executing import load
from real_gradients import require
from test_cases import CASES, IDS, arrays, lines, read

require("tensorflow")

import tensorflow as tf  # noqa: E402
from tensorflow.python.eager import backprop, execute  # noqa: E402
from tensorflow.python.framework import op_callbacks  # noqa: E402

from wherelint.tensorflow import locate  # noqa: E402

X = np.float32([0, 1, 4])
CASE_IDS = [name for name in IDS if read(name)["framework"] == "tf" and read(name).get("witness")]
#: What is finite when it runs eagerly: the derivative of a root at 0 is 0 there, and nan when it is compiled.
EAGERLY_FINITE = {"keras-2960-std", "tf-118674-safe-distance"}


@pytest.mark.parametrize("name", [n for n in CASE_IDS if not n.startswith("neg-") and n not in EAGERLY_FINITE])
def test_both_lines_of_a_published_bug_are_named(name: str) -> None:
    case = read(name)
    report = locate(load(CASES / name / "unsafe.py").f, *arrays(case["witness"]))
    assert report.value_finite
    assert not report.gradient_finite
    found = {(p.op_at.row, p.select_at.row) for p in report.findings if p.op_at and p.select_at}
    assert found & {(row, case["select_line"]) for row in lines(case)}, str(report)


@pytest.mark.parametrize("name", CASE_IDS)
def test_safe_programs_are_silent(name: str) -> None:
    report = locate(load(CASES / name / "safe.py").f, *arrays(read(name)["witness"]))
    assert report.ok, str(report)
    assert report.findings == ()


def chosen(x: Any) -> Any:
    y = tf.math.log(x)  # op
    return tf.where(x > 0, y, 0.0)  # select


def sliced(x: Any) -> Any:
    y = 1 / x  # op
    return y[1:]  # select


def gathered(x: Any) -> Any:
    y = 1 / x  # op
    return tf.gather(y, [1, 2])  # select


def broadcast(x: Any) -> Any:
    y = x[:, None] * tf.ones([1, 2])
    y = tf.math.log(tf.reduce_sum(y, 1, keepdims=True))  # op
    return tf.where(x[:, None] > 0, y * tf.ones([1, 2]), 0.0)  # select


def the_nearest(x: Any) -> Any:
    y = tf.math.acos(x - 1)  # op
    y = tf.where((x > 0) & (x < 2), y, 0.0)  # select
    return tf.where(x > 0, y, 1.0)


@tf.function
def compiled(x: Any) -> Any:
    y = tf.math.log(x)  # op
    return tf.maximum(y, -5.0)  # select


GALLERY: dict[str, tuple[Callable[..., Any], str, str, str]] = {
    "where": (chosen, "WL102", "log", "where"),
    "a slice": (sliced, "WL201", "divide", "index"),
    "gather": (gathered, "WL201", "divide", "index"),
    "a sum and a broadcast": (broadcast, "WL102", "log", "where"),
    "two selections": (the_nearest, "WL104", "arccos", "where"),
    "maximum, in tf.function": (compiled, "WL204", "log", "maximum"),
}


@pytest.mark.parametrize("name", GALLERY)
def test_gallery(name: str) -> None:
    f, code, op, kind = GALLERY[name]
    x = np.float32([0, 1, 1.5])
    report = locate(f, x)
    (poison,) = report.findings
    assert report.poisoned
    assert (poison.code, poison.op, poison.select) == (code, op, kind)
    source, first = inspect.getsourcelines(getattr(f, "python_function", f))
    rows = [first + i for mark in ("# op", "# select") for i, line in enumerate(source) if mark in line]
    assert poison.op_at is not None
    assert poison.select_at is not None
    assert [poison.op_at.row, poison.select_at.row] == rows
    assert poison.op_at.filename == __file__
    assert np.isfinite(report.masked[0]).all()


def test_a_factor_that_is_not_differentiated_drops() -> None:
    (poison,) = locate(lambda x: tf.constant([0.0, 1, 1]) * tf.math.xlogy(2.0, x + 1), np.float32([-1, 1, 1])).findings
    assert (poison.select, poison.code) == ("multiply", "WL202")


def test_what_is_singular_in_earnest() -> None:
    (poison,) = locate(lambda x: tf.math.acos(x), np.float32([1, 0.5])).findings
    assert (poison.genuine, poison.select, poison.index) == (True, None, (0,))
    (poison,) = locate(lambda x: tf.math.acos(tf.clip_by_value(x, -1.0, 1.0)), np.float32([1, 0.5])).findings
    assert (poison.genuine, poison.select, poison.code) == (True, "maximum", "WL301")


def test_arguments_in_structures_and_what_is_no_array() -> None:
    def f(tree: Any, name: str, number: int) -> Any:
        assert (name, number) == ("a", 3)
        return tf.where(tree["x"] > 0, number / tree["x"], 0.0)

    report = locate(f, {"x": tf.Variable(X)}, "a", 3)
    assert [poison.op for poison in report.findings] == ["divide"]
    assert not tf.config.functions_run_eagerly()


def test_what_has_no_gradient_is_refused() -> None:
    for given in (0, np.arange(3), tf.constant([0, 1])):
        with pytest.raises(TypeError, match=r"no argument holds floats; write 0\.0 for 0"):
            locate(lambda x: chosen(tf.cast(x, tf.float32)), given)
    for f in (lambda x: None, lambda x: x > 0, lambda x: float(tf.reduce_sum(x))):
        with pytest.raises(TypeError, match="the function returns no tensor of floats; return the loss"):
            locate(f, X)
    for f in (lambda x: chosen(tf.stop_gradient(x)), lambda x: tf.constant(x.numpy()), lambda x: tf.constant(1.0)):
        with pytest.raises(ValueError, match="the result has no gradient: leave out the `stop_gradient`"):
            locate(f, X)
    assert locate(lambda x: x, X).ok


def test_the_gradient_is_that_of_a_tape() -> None:
    def f(x: Any) -> Any:
        y = tf.reshape(tf.tile(x, [2]), [2, 3])
        z = tf.linalg.matmul(y, tf.transpose(y)) + tf.reduce_max(y) * tf.nn.softmax(y)[0, 0]
        return tf.reduce_sum(tf.concat([z, tf.where(z > 1, z, z**2)], 0)) + tf.reduce_mean(x) * tf.norm(x)

    x = tf.constant(X + 0.5)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    np.testing.assert_allclose(locate(f, x).gradient[0], tape.gradient(y, x), rtol=1e-5)


@tf.custom_gradient
def safe_root(x: Any) -> Any:
    y = tf.sqrt(x)
    return y, lambda ct: ct / tf.maximum(2 * y, 1e-3)


def test_a_gradient_that_a_function_brings_itself_may_be_finite() -> None:
    assert locate(lambda x: safe_root(x) / 2, np.float32([-0.0, 1])).ok


def test_a_product_leaves_out_what_is_dropped() -> None:
    def f(x: Any, w: Any) -> Any:
        p = tf.nn.softmax(tf.where(x > 0, x, -np.inf))
        return tf.where(tf.reduce_any(x > 0, 1)[:, None], p @ w, 0.0)

    x, w = np.float32([[1, 2], [-1, -1]]), np.float32([[1, 2], [3, 4]])
    report = locate(f, x, w)
    assert report.poisoned, str(report)
    assert {(poison.op, poison.select, poison.genuine) for poison in report.findings} == {
        ("matmul", "where", False), ("softmax", "where", False),
    }  # fmt: skip
    np.testing.assert_allclose(report.masked[1], tf.transpose(tf.nn.softmax(x[:1])) @ np.ones((1, 2)), rtol=1e-6)


def test_a_factor_that_is_broadcast_is_alive_where_one_product_is() -> None:
    report = locate(lambda x, s: tf.where(x > 0, tf.math.log(x) * s, 0.0), X, 2.0)
    assert report.poisoned, str(report)
    assert {(poison.op, poison.index) for poison in report.findings} == {("log", (0,)), ("multiply", ())}
    np.testing.assert_allclose(report.masked[1], np.log(4), rtol=1e-6)


def test_variables_that_are_read_are_differentiated() -> None:
    w, fixed = tf.Variable([0.0, 2.0]), tf.Variable(1.0, trainable=False)
    report = locate(lambda: tf.where(w > 0, fixed / w, 0.0))
    assert [poison.op for poison in report.findings] == ["divide"]
    assert report.gradient == ()
    report = locate(lambda x, labels: tf.gather(1 / w, labels) * x, 1.0, np.array([1]))
    assert report.poisoned
    assert len(report.gradient) == 1
    with pytest.raises(TypeError, match="no argument holds floats"):
        locate(lambda: 1 / fixed)


def test_private_names_are_there() -> None:
    told = f"tensorflow {tf.__version__}"
    assert list(inspect.signature(execute.quick_execute).parameters)[:5] == [
        "op_name", "num_outputs", "inputs", "attrs", "ctx",
    ], told  # fmt: skip
    assert callable(getattr(op_callbacks, "add_op_callback", None)), told
    assert callable(getattr(op_callbacks, "remove_op_callback", None)), told
    assert list(inspect.signature(backprop._gradient_function).parameters)[:6] == [
        "op_name", "attr_tuple", "num_inputs", "inputs", "outputs", "out_grads",
    ], told  # fmt: skip
