"""``wherelint.jax.hunt``: inputs that poison a gradient, found from benign ones."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from executing import load

jax = pytest.importorskip("jax")
from jax import lax  # noqa: E402
from jax import numpy as jnp  # noqa: E402

from wherelint.jax import hunt, locate, mask_gradients  # noqa: E402

pytestmark = pytest.mark.usefixtures("quick_compiling")
CASES = Path(__file__).parents[1] / "cases"
X = np.float32([0.5, 1.5, 2.5])
#: Cases that are not found from an ordinary input, and why.
MISSED = {
    "tinygp-115-matern-radius": "compiled, the clip's product with its mask is a selection; on the bound it is inf",
    "optax-1267-focal-power": "nothing drops it: the exponent 0 times inf is a residual that is nan",
}


def reproduced(f: Callable[..., Any], witness: tuple[Any, ...]) -> bool:
    """Value finite, gradient not, operation by operation; the masked gradient is."""
    real = [i for i, each in enumerate(witness) if np.asarray(each).dtype.kind == "f"]

    def summed(*args: Any) -> Any:
        return jnp.sum(f(*args))

    value, plain = jax.value_and_grad(summed, real)(*witness)
    masked = jax.grad(mask_gradients(summed), real)(*witness)

    def finite(tree: Any) -> bool:
        return all(bool(np.isfinite(leaf).all()) for leaf in jax.tree.leaves(tree))

    return finite(value) and not finite(plain) and finite(masked)


def case(name: str) -> tuple[dict[str, Any], list[Any]]:
    """A case, and ordinary arguments for it."""
    described = json.loads((CASES / name / "case.json").read_text())
    given = (described.get("points") or [None])[0]
    if given is not None:
        return described, [np.asarray(jax.tree.map(float, value), np.float32) for value in given]
    rng = np.random.default_rng(0)
    shapes = [np.shape(value) for value in described.get("witness") or [1.0]]
    return described, [np.float32(0.3 + 0.5 * np.abs(rng.normal(size=shape))) for shape in shapes]


JAX_CASES = sorted(
    path.parent.name for path in CASES.glob("*/case.json") if json.loads(path.read_text())["framework"] == "jax"
)


@pytest.mark.rotated(8)
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in JAX_CASES if not name.startswith("neg-")])
def test_published_bugs_are_found_from_ordinary_inputs(name: str) -> None:
    described, args = case(name)
    f = load(CASES / name / "unsafe.py").f
    report = hunt(f, *args, seconds=120, budget=640)
    assert report.poisoned == (name not in MISSED)
    if report.poisoned:
        assert reproduced(f, report.witness)
        rows = {described["unsafe_line"], *described.get("unsafe_lines", [])}
        assert {p.op_at.row for p in report.findings if p.op_at} & rows


@pytest.mark.rotated(8)  # a random search, held against JAX
@pytest.mark.slow
@pytest.mark.parametrize("name", JAX_CASES)
def test_what_is_found_in_safe_programs_is_real(name: str) -> None:
    _, args = case(name)
    f = load(CASES / name / "safe.py").f
    report = hunt(f, *args, seconds=120, budget=640)
    assert not report.poisoned or reproduced(f, report.witness)


def guarded(x: Any) -> Any:
    return jnp.where(x > 0, jnp.sqrt(x), 0.0)


def double_where(x: Any) -> Any:
    return jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0)


def in_a_scan(x: Any) -> Any:
    def body(total: Any, t: Any) -> Any:
        total = total + t
        return total, jnp.where(total < 5.25, jnp.arccos(total / 5.25), 0.0)

    return lax.scan(body, jnp.float32(0), x)[1]


FOUND: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "a special value": (guarded, (X,), "WL101"),
    "a literal's neighbour": (lambda x: jnp.where(x < 0.7, jnp.log(0.7 - x), 0.0), (0.2,), "WL102"),
    "two equal rows": (
        lambda p: jnp.where(jnp.any(p[0] != p[1]), jnp.linalg.norm(p[0] - p[1]), 0.0),
        (np.float32([[1, 2], [3, 5], [2, 2]]),), "WL108",
    ),
    "two equal arguments": (lambda a, b: jnp.where(a > b, 1 / (a - b), 0.0), (X, X - 0.25), "WL103"),
    "by aiming": (
        lambda x: jnp.where(jnp.exp(x) > 2.5 * x[::-1], jnp.sqrt(jnp.exp(x) - 2.5 * x[::-1]), 0.0), (X,), "WL101",
    ),
    "inside of a scan": (in_a_scan, (np.float32([1, 1.5, 2]),), "WL104"),
    "overflow": (lambda x: jnp.where(x < 50, jnp.exp(x), x), (X,), "WL107"),
    "a missing number": (lambda x: jnp.where(jnp.isnan(x), 0.0, jnp.sin(x) * x), (X,), "WL111"),
    "a program of JAX": (jax.scipy.special.spence, (1.2,), "WL111"),
}  # fmt: skip


@pytest.mark.rotated(3)
@pytest.mark.parametrize("name", FOUND)
def test_what_is_found(name: str) -> None:
    f, args, code = FOUND[name]
    report = hunt(f, *args, budget=1024)
    assert report.poisoned
    assert code in {poison.code for poison in report.findings}
    assert reproduced(f, report.witness)
    for made, given in zip(report.witness, args, strict=True):
        assert np.shape(made) == np.shape(given)


def test_the_nearest_witness_comes_first() -> None:
    report = hunt(guarded, X)
    (x,) = report.witness
    assert np.sum(x != X) == 1
    assert set(np.asarray(x).tolist()) - set(X.tolist()) == {0.0}
    assert report.findings[0].level == "error"


@pytest.mark.rotated(3)
def test_many_hits_nearby_hide_no_other_operation() -> None:
    def f(x: Any, w: Any) -> Any:
        norm = jnp.linalg.norm(w)
        return jnp.sum(guarded(x)) + jnp.where(norm > 0, 1 / norm, 0)

    report = hunt(f, 0.5 + np.arange(16, dtype=np.float32), X, budget=512)
    assert {p.op for p in report.findings} == {"sqrt", "norm", "divide"}


def test_an_extreme_witness_is_a_warning() -> None:
    report = hunt(lambda x: jnp.where(x < 1e6, x * x * x * x, 0.0), np.float32(2))
    assert {poison.level for poison in report.findings} <= {"warning"}


@pytest.mark.parametrize("f", [double_where, jnp.sin, lambda x: lax.cond(x.min() > 0, jnp.sqrt, jnp.abs, x)])
def test_nothing_is_found_where_nothing_is_wrong(f: Callable[..., Any]) -> None:
    report = hunt(f, X, budget=300)
    assert report.ok
    assert report.findings == ()
    assert report.witness is None
    assert 10 < report.tried <= 300


def test_an_input_that_no_mask_repairs_is_the_witness_of_a_report_that_is_fine() -> None:
    report = hunt(lambda x: jnp.sum(jnp.sqrt(x) ** 2), np.float32([1, 2]), budget=300)
    assert report.ok
    assert [(p.op, p.genuine, p.witness[0].tolist()) for p in report.findings] == [("sqrt", True, [0.0, 2.0])]
    assert "are finite at the given arguments" in str(report)
    assert "no selection discards all operations that break it." in str(report)


@pytest.mark.rotated(3)
def test_two_things_move_at_once() -> None:
    def padded_mean(mask: Any, score: Any) -> Any:
        return jnp.sum(jnp.where(mask > 0, jnp.exp(score), 0.0)) / jnp.sum(mask)

    report = hunt(padded_mean, np.ones(3, np.float32), np.ones(3, np.float32), budget=640)
    assert [(p.op, p.select) for p in report.findings][:1] == [("exp", "where")]
    assert reproduced(padded_mean, report.witness)


def test_what_cannot_occur_is_not_tried() -> None:
    assert hunt(guarded, X, positive=[0], budget=300).ok
    assert hunt(guarded, X, bounds={"x": (0.25, None)}, budget=300).ok
    report = hunt(lambda a, b: jnp.sum(guarded(a) + guarded(b)), X, X, positive=[0], budget=400)
    a, b = report.witness
    assert (np.asarray(a) > 0).all()
    assert (np.asarray(b) <= 0).any()


def test_without_numbers_that_move_nothing_is_said_to_be_fine() -> None:
    with pytest.raises(TypeError, match=r"no argument holds floats; write 0\.0 for 0"):
        hunt(guarded, 1)
    with pytest.raises(TypeError, match="hunt needs an argument to change"):
        hunt(lambda z: jnp.abs(z), np.complex64(1j))
    with pytest.raises(TypeError, match="the function returns no floats"):
        hunt(lambda x: None, X)


def test_bounds_go_by_parameters_as_well() -> None:
    with pytest.raises(ValueError, match="there is no argument 'y'; choose from 0, 'x'"):
        hunt(guarded, X, bounds={"y": (0, 1)})


def test_types_shapes_and_integers_stay() -> None:
    def f(tree: Any, index: Any, n: Any) -> Any:
        return jnp.sum(guarded(tree["x"])[index]) * n

    given = {"x": jnp.asarray(X, jnp.bfloat16)}
    tree, index, n = hunt(f, given, jnp.array([0, 2]), 3, budget=300).witness
    assert (tree["x"].dtype, tree["x"].shape) == (jnp.bfloat16, (3,))
    assert index.tolist() == [0, 2]
    assert n == 3


def test_budget_and_seconds_are_kept() -> None:
    report = hunt(double_where, X, budget=20)
    assert report.tried == 20
    assert report.note == "The limit of 20 inputs was reached."

    def slow(x: Any) -> Any:
        return double_where(lax.fori_loop(0, 600, lambda i, y: jnp.sin(y @ y.T) @ y, jnp.ones((30, 30)) * x)[0, :3] + 2)

    began = time.monotonic()
    report = hunt(slow, np.float32(0.01), seconds=0.3)
    assert report.note == "The time limit was reached."
    assert report.tried < 100
    assert time.monotonic() - began < 60


def test_without_time_the_witness_names_no_selection() -> None:
    report = hunt(guarded, np.float32([0, 1]), seconds=0)
    assert [(poison.op, poison.select) for poison in report.findings] == [("sqrt", None)]
    assert report.note == "The time limit was reached."
    assert [poison.select for poison in locate(guarded, *report.witness).findings] == ["where"]


def test_an_input_that_is_poisoned_already_is_the_nearest() -> None:
    report = hunt(guarded, np.float32([0, 1]), budget=50)
    np.testing.assert_array_equal(report.witness[0], np.float32([0, 1]))


@pytest.mark.rotated(3)  # which points are tried is common to the frameworks
def test_the_seed_decides() -> None:
    first, second = (hunt(guarded, np.ones(50, np.float32), budget=200, seed=4) for _ in range(2))
    np.testing.assert_array_equal(first.witness[0], second.witness[0])
