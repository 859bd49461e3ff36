"""What the watch of TensorFlow reports, and that a watched program computes what it computes without."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from real_gradients import require

require("tensorflow")

import tensorflow as tf  # noqa: E402

from wherelint.watcher import watching  # noqa: E402
from wherelint.watcher.session import Explanation, Hit, Session, Stop, busy  # noqa: E402

GOOD, BAD = tf.constant([1.0, 2.0]), tf.constant([1.0, 0.0])


def watched(program: Callable[[], Any], **options: Any) -> tuple[Session, list[tuple[Hit, Explanation]]]:
    """Run a program under the watch; its session, and what there was to report."""
    session = Session(**options)
    found: dict[Hit, Explanation] = {}

    def report(hit: Hit) -> None:
        if hit not in found:
            with busy():
                found[hit] = hit.explain()

    session.report = report
    with watching(session):
        try:
            program()
        except Stop:
            assert not session.keep_going
    for hit in session.end():
        report(hit)
    return session, list(found.items())


def rows(f: Callable[..., Any]) -> list[int]:
    source, first = inspect.getsourcelines(f)
    return [first + i for mark in ("# op", "# select") for i, line in enumerate(source) if mark in line]


def loss(x: Any, w: Any) -> Any:
    y = tf.math.log(x * w)  # op
    return tf.reduce_sum(tf.where(x > 0, y, 0.0))  # select


def trained(how: str) -> Callable[[], None]:
    """Trains eight steps; the sixth is poisoned."""
    w = tf.Variable([2.0, 3.0], name="scale")
    inner = tf.function(loss, jit_compile="jit" in how) if "called" in how else loss

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            value = inner(x, w)
        (ct,) = tape.gradient(value, [w])
        w.assign_sub(0.1 * ct)
        return value

    if "function" in how:
        step = tf.function(step, jit_compile="jit" in how)
    if "outer" in how:
        compiled = step
        step = tf.function(lambda x: compiled(x) + 1.0)

    def steps() -> None:
        for i in tf.range(8):
            step(tf.where(i == 5, BAD, GOOD))

    def loop() -> None:
        for i in range(8):
            step(BAD if i == 5 else GOOD)

    return tf.function(steps) if "loop" in how else loop


HOW = [
    "eager",
    "called",
    "called jit",
    "function",
    "function called",
    "function loop",
    "function jit",
    "function jit outer",
    "function jit loop",
]


@pytest.mark.parametrize("how", HOW)
def test_the_first_poisoned_gradient_is_explained(how: str) -> None:
    session, ((hit, found),) = watched(trained(how))
    assert (hit.number, hit.status, session.gradients) == (6, "gradient", {"tensorflow": 6})
    assert hit.site.name == "step"
    assert not session.unwatched
    assert found.report.poisoned, str(found.report)
    (poison,) = found.report.findings
    assert (poison.op, poison.select, poison.index, poison.genuine) == ("log", "where", (1,), False)
    assert poison.op_at is not None
    assert poison.select_at is not None
    assert [poison.op_at.row, poison.select_at.row] == rows(loss)
    assert poison.op_at.filename == __file__
    assert (list(found.lost), found.inputs) == ([] if "jit" in how and how != "called jit" else ["scale"], 1)


@pytest.mark.parametrize("how", ["eager", "function", "function loop", "function jit"])
def test_it_goes_on_if_it_is_to(how: str) -> None:
    session, found = watched(trained(how), keep_going=True)
    assert session.gradients == {"tensorflow": 8}
    assert [hit.status for hit, _ in found] == ["gradient"]


def test_a_variable_that_is_not_finite_is_named() -> None:
    w = tf.Variable([np.nan, 1.0], name="scale")

    def step() -> None:
        with tf.GradientTape() as tape:
            value = loss(GOOD, w)
        tape.gradient(value, w)

    _, ((_, found),) = watched(step)
    assert not found.report.value_finite
    assert (found.report.findings, found.note) == ((), "Not finite before this step: scale.")


def test_a_value_that_is_not_finite_is_explained_once_it_has_lasted() -> None:
    for wrapped in (lambda f: f, tf.function, lambda f: tf.function(f, jit_compile=True)):
        w = tf.Variable([1.0, 2.0])

        def step(x: Any, w: Any = w) -> None:
            with tf.GradientTape() as tape:
                value = tf.reduce_sum(tf.math.log(x) * w) ** 2  # op
            w.assign_add(0 * tf.math.multiply_no_nan(tape.gradient(value, w), 0.0))

        run = wrapped(step)
        session, ((hit, found),) = watched(lambda run=run: [run(x) for x in (GOOD, BAD, GOOD, *[BAD] * 20, GOOD)])
        assert (hit.status, hit.number, session.recovered) == ("value", 4, 1)
        (poison,) = found.report.findings
        assert (poison.op, poison.index, poison.value) == ("log", (1,), True)
        assert poison.op_at is not None
        assert poison.op_at.row == rows(test_a_value_that_is_not_finite_is_explained_once_it_has_lasted)[0]


def test_random_numbers_are_those_of_the_step() -> None:
    w = tf.Variable(tf.ones(64))

    @tf.function
    def step() -> Any:
        kept = tf.nn.dropout(tf.ones(64), 0.5)
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(tf.where(kept > 0, tf.math.log(kept * w), 0.0))
        tape.gradient(value, w)
        return kept

    kept: list[Any] = []
    _, found = watched(lambda: kept.append(step()), keep_going=True)
    (poison,) = found[0][1].report.findings
    dropped = np.argwhere(kept[0].numpy() == 0)
    assert (poison.index, poison.count) == (tuple(dropped[0]), len(dropped))


def test_loops_branches_and_lists_are_looked_into() -> None:
    w = tf.Variable(2.0)

    @tf.function
    def step(x: Any, n: Any) -> Any:
        with tf.GradientTape() as tape:
            kept = tf.TensorArray(tf.float32, n)
            for i in tf.range(n):
                if x[i] < 10:  # noqa: SIM108
                    kept = kept.write(i, tf.math.log(x[i] * w))  # op
                else:
                    kept = kept.write(i, w)
            value = tf.reduce_sum(tf.where(x > 0, kept.stack(), 0.0))  # select
        return tape.gradient(value, w)

    _, ((_, found),) = watched(lambda: [step(x, 2) for x in (GOOD, BAD)])
    assert found.report.poisoned, str(found.report)
    (poison,) = found.report.findings
    assert poison.op_at is not None
    assert poison.select_at is not None
    marked = rows(test_loops_branches_and_lists_are_looked_into)
    assert (poison.op, [poison.op_at.row, poison.select_at.row]) == ("log", marked)


def test_rows_of_an_embedding_are_read() -> None:
    table, other = tf.Variable(tf.constant([[0.0], [1.0], [2.0]]), name="table"), tf.Variable(1.0, name="other")

    def step(rows: Any) -> Any:
        with tf.GradientTape() as tape:
            found = tf.nn.embedding_lookup(table, rows)
            value = tf.reduce_sum(tf.where(found > 0, other / found, 0.0))
        return tape.gradient(value, [table, other])

    _, ((_, found),) = watched(lambda: [step(each) for each in (tf.constant([1, 2]), tf.constant([0, 2]))])
    assert found.report.poisoned, str(found.report)
    assert [poison.op for poison in found.report.findings] == ["divide"]
    assert list(found.lost) == ["table", "other"]


@pytest.mark.parametrize("how", ["eager", "function", "jit", "outer jit"])
def test_an_overflow_under_a_loss_scale_is_counted(how: str) -> None:
    keras = pytest.importorskip("keras")
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1))
    w = tf.Variable([200.0, 1.0])

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            half = tf.cast(w, tf.float16)
            dropped = tf.where(x > 0, tf.math.log(x * w), 0.0)
            value = optimizer.scale_loss(tf.cast(tf.reduce_sum(half * half), tf.float32) + tf.reduce_sum(dropped))
        return tape.gradient(value, w)

    run = step if how == "eager" else tf.function(step, jit_compile="jit" in how)
    if "outer" in how:
        run = tf.function(lambda x, inner=run: inner(x) + 1.0)

    def program() -> None:
        for _ in range(4):
            run(GOOD)
        w.assign([0.5, 0.5])  # nothing overflows any more
        for x in (GOOD, BAD, BAD):
            run(x)

    session, ((hit, found),) = watched(program)
    assert (session.scaled, session.gradients, hit.number) == (4, {"tensorflow": 6}, 6)
    assert [(each.op, each.select) for each in found.report.findings] == [("log", "where")]


def test_an_exception_of_the_watch_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wherelint.watcher.tensorflow.maybe_finite", lambda found: 1 / 0)
    session, found = watched(trained("eager"))
    assert found == []
    assert session.unwatched == {"a gradient": "ZeroDivisionError: division by zero"}


def fit(how: str) -> bytes:
    keras = pytest.importorskip("keras")
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(80, 8)).astype("f"), rng.normal(size=(80, 1)).astype("f")
    layers = [keras.layers.Dense(16, "tanh"), keras.layers.Dropout(0.3), keras.layers.BatchNormalization()]
    model = keras.Sequential([*layers, keras.layers.Dense(1)])
    if how == "custom":
        model.build((None, 8))
        optimizer = keras.optimizers.Adam(0.01)

        @tf.function
        def step(x: Any, y: Any) -> None:
            with tf.GradientTape() as tape:
                value = tf.reduce_mean((model(tf.nn.dropout(x, 0.1), training=True) - y) ** 2)
            optimizer.apply(tape.gradient(value, model.trainable_variables), model.trainable_variables)

        for i in range(20):
            step(x[i : i + 8], y[i : i + 8])
    else:
        model.compile(keras.optimizers.Adam(0.01), "mse", run_eagerly=how == "eager", jit_compile=how == "jit")
        model.fit(x, y, batch_size=8, epochs=2, verbose=0)
    return b"".join(each.tobytes() for each in model.get_weights())


@pytest.mark.rotated(4)
@pytest.mark.parametrize("how", ["eager", "graph", "jit", "custom"])
def test_training_is_the_same_bit_for_bit(how: str) -> None:
    without, results = fit(how), []
    session, found = watched(lambda: results.append(fit(how)))
    assert (session.gradients, found, session.unwatched) == ({"tensorflow": 20}, [], {})
    assert results == [without]


W, X = tf.Variable([[1.0, 0.5], [0.2, 2.0]]), tf.constant([[1.0, 2.0], [3.0, 4.0]])


def persistent() -> Any:
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(X)
        y = X @ W
        z = tf.reduce_sum(y**3)
    return tape.gradient(y, X), tape.gradient(z, {"a": X, "b": [W]}), tape.gradient(z, y)


def second() -> Any:
    with tf.GradientTape() as outer:
        with tf.GradientTape() as tape:
            tape.watch(X)
            y = tf.reduce_sum(tf.sin(X) * X @ W)
        value = tf.reduce_sum(tape.gradient(y, X) ** 2)
    return outer.gradient(value, W)


def jacobians() -> Any:
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(X)
        y = tf.tanh(X @ W)
    return tape.jacobian(y, W), tape.batch_jacobian(y, X), tape.jacobian(y, W, experimental_use_pfor=False)


def chosen() -> Any:
    unused = tf.constant(1.0)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(X)
        with tape.stop_recording():
            factor = tf.reduce_sum(X)
        y = X @ W * factor
    found = tape.gradient(y, [X, W, unused], output_gradients=2 * X)
    assert [each is None for each in found] == [False, True, True]
    with tf.GradientTape() as tape:
        y = tf.gather(W, [1, 1])
    rows = tape.gradient(y, W)
    assert isinstance(rows, tf.IndexedSlices)
    with tf.GradientTape() as tape:
        tape.watch(unused)
        y = X @ W
    return found[0], rows.values, tape.gradient(y, unused, unconnected_gradients=tf.UnconnectedGradients.ZERO)


def vectorized() -> Any:
    def one(row: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(row)
            y = tf.reduce_sum(tf.sin(row) ** 2)
        return tape.gradient(y, row)

    return tf.vectorized_map(one, X), tf.map_fn(one, X)


def forward_over_reverse() -> Any:
    with tf.autodiff.ForwardAccumulator(X, tf.ones_like(X)) as forward:
        with tf.GradientTape() as tape:
            tape.watch(X)
            y = tf.reduce_sum(X**3)
        ct = tape.gradient(y, X)
    return forward.jvp(ct)


@pytest.mark.rotated(3)
@pytest.mark.parametrize("f", [persistent, second, jacobians, chosen, vectorized, forward_over_reverse])
def test_what_is_unusual_is_as_without(f: Callable[[], Any]) -> None:
    for wrapped in (lambda f: f, tf.function, lambda f: tf.function(f, jit_compile=True)):
        results: list[Any] = [tf.nest.flatten(wrapped(f)())]
        session, found = watched(lambda wrapped=wrapped, results=results: results.append(tf.nest.flatten(wrapped(f)())))
        assert set(session.unwatched) <= {"jacobian, vectorized_map"}
        assert found == []
        for without, with_it in zip(*results, strict=True):
            assert without.numpy().tobytes() == with_it.numpy().tobytes()


def test_random_streams_are_as_without() -> None:
    def program() -> Any:
        tf.random.set_seed(1)
        w = tf.Variable(tf.random.normal([3]))

        def step() -> Any:
            with tf.GradientTape() as tape:
                value = tf.reduce_sum(tf.nn.dropout(w * tf.random.normal([3]), 0.5) ** 2)
            return tape.gradient(value, w), tf.random.uniform([2])

        traced = tf.function(step)
        return [step(), traced(), traced(), step()]

    results: list[Any] = [program()]
    watched(lambda: results.append(program()))
    np.testing.assert_array_equal(*[np.concatenate([np.ravel(each) for each in tf.nest.flatten(r)]) for r in results])
