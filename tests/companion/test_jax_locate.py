"""``wherelint.jax.locate``: both lines, the element, the iteration; silence where the gradient is finite."""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from executing import load

jax = pytest.importorskip("jax")
from jax import lax  # noqa: E402
from jax import numpy as jnp  # noqa: E402

from wherelint.companion import Report  # noqa: E402
from wherelint.jax import hunt, locate  # noqa: E402
from wherelint.jax._primitives import CATALOGUE  # noqa: E402
from wherelint.jax._tags import FUNCTIONS  # noqa: E402
from wherelint.ops import OPERATIONS  # noqa: E402

pytestmark = pytest.mark.usefixtures("quick_compiling")
CASES = Path(__file__).parents[1] / "cases"
X = np.float32([0, 1, 4])
#: Cases that are not located, and why.
MISSED = {
    "optax-1267-focal-power": "nothing drops it: the exponent 0 times inf is a residual that is nan",
}


def case(name: str) -> tuple[dict[str, Any], list[Any]]:
    described = json.loads((CASES / name / "case.json").read_text())
    inputs = described.get("witness") or (described.get("points") or [[1.0]])[0]
    return described, [np.asarray(jax.tree.map(float, value), np.float32) for value in inputs]


JAX_CASES = sorted(
    path.parent.name for path in CASES.glob("*/case.json") if json.loads(path.read_text())["framework"] == "jax"
)


@pytest.mark.rotated(3)
@pytest.mark.parametrize("name", [name for name in JAX_CASES if not name.startswith("neg-")])
def test_published_bugs_are_located(name: str) -> None:
    described, args = case(name)
    report = locate(load(CASES / name / "unsafe.py").f, *args, argnums=described.get("argnums"))
    assert report.value_finite
    assert not report.gradient_finite
    rows = {described["unsafe_line"], *described.get("unsafe_lines", [])}
    named = {(p.op_at.row, p.select_at.row) for p in report.findings if p.op_at and p.select_at}
    assert bool({(row, described["select_line"]) for row in rows} & named) == (name not in MISSED)


@pytest.mark.rotated(3)
@pytest.mark.parametrize("name", JAX_CASES)
def test_safe_programs_have_nothing_to_locate(name: str) -> None:
    described, args = case(name)
    report = locate(load(CASES / name / "safe.py").f, *args, argnums=described.get("argnums"))
    assert report.ok
    assert report.findings == ()


# ------------------------------------------------------------------------- gallery


@jax.jit
def helper(x: Any) -> Any:
    root = jnp.sqrt(x)  # op
    return jnp.where(x > 0, root, 0)  # select


def helper_twice(x: Any) -> Any:
    return jnp.sum(helper(x[1:]) + helper(x[:2]))


def scanned(x: Any) -> Any:
    def body(total: Any, t: Any) -> Any:
        angle = jnp.arccos(t / 4)  # op
        return total + jnp.where(t < 4, angle, 0), None  # select

    return lax.scan(body, 0.0, x)[0]


def two_of_one_shape(x: Any) -> Any:
    first = jnp.where(x > -1, jnp.exp(x), 0)
    logs = jnp.log(x)  # op
    second = jnp.where(x > 0, logs, 0)  # select
    third = jnp.where(x > -2, jnp.sin(x), 0)
    return jnp.sum(first + second + third)


def branches(x: Any) -> Any:
    def positive(x: Any) -> Any:
        roots = jnp.sqrt(x)  # op
        return jnp.sum(jnp.where(x > 0, roots, 0))  # select

    return lax.cond(x[1] > 0, positive, jnp.sum, x)


def one_arm_reads(x: Any) -> Any:
    roots = jnp.sqrt(x)  # op
    return lax.cond(x[0] > 0, lambda: jnp.sum(roots), lambda: jnp.sum(x))  # select


def checkpointed(x: Any) -> Any:
    @jax.checkpoint
    def inner(x: Any) -> Any:
        quotient = 1 / x  # op
        return jnp.where(x > 0, quotient, 0)  # select

    return jnp.sum(inner(x))


def mapped(x: Any) -> Any:
    def one(x: Any) -> Any:
        y = x**0.5  # op
        return lax.select(x > 0, y, x)  # select

    return jnp.sum(jax.vmap(one)(x))


def mapped_rounds(x: Any) -> Any:
    def row(x: Any) -> Any:
        def body(total: Any, t: Any) -> Any:
            roots = jnp.sqrt(t)  # op
            return total + jnp.where(t > 0, roots, 0), None  # select

        return lax.scan(body, 0.0, x)[0]

    return jax.vmap(row)(jnp.stack([x, x + 1]))


class Model:
    def __init__(self) -> None:
        self.scale = 2.0

    def __call__(self, x: Any) -> Any:
        norms = self.norms(x)
        return jnp.sum(jnp.where(x > 0, norms, 0))  # select

    def norms(self, x: Any) -> Any:
        return jnp.linalg.norm(x[:, None] * jnp.ones(2), axis=1)  # op


@jax.custom_vjp
def own(x: Any) -> Any:
    return jnp.sqrt(x)


own.defvjp(lambda x: (jnp.sqrt(x), x), lambda x, ct: (ct / jnp.sqrt(x),))


def custom_rule(x: Any) -> Any:
    y = own(x)  # op
    return jnp.sum(jnp.where(x > 0, y, 0))  # select


def barred(x: Any) -> Any:
    y = jnp.sqrt(x)  # op
    y = lax.optimization_barrier(y)
    return jnp.sum(jnp.where(x > 0, y, 0))  # select


def indexed(x: Any) -> Any:
    y = jnp.log(x)  # op
    return y[1]  # select


def maximum(x: Any) -> Any:
    y = jnp.sqrt(x)  # op
    return jnp.sum(jnp.maximum(y, 0.5))  # select


def masked(x: Any) -> Any:
    y = jnp.sqrt(x)  # op
    return jnp.sum(y * (x > 0))  # select


def clamped(x: Any) -> Any:
    y = jnp.sqrt(x)  # op
    return lax.clamp(0.5, y, 9.0)  # select


def divided(x: Any) -> Any:
    y = 1 + jnp.sqrt(x)  # op
    return (x > 0) / y  # select


def assigned(x: Any) -> Any:
    y = jnp.sqrt(x)  # op
    return jnp.sum(y.at[0].set(0))  # select


def behind_a_double_where(x: Any) -> Any:
    logs = jnp.log(jnp.where(x > 0, x, 0) * 1.0)
    safe = jnp.where(x > 0, jnp.where(x > 0, logs, 0), 0)
    roots = jnp.sqrt(x)  # op
    return jnp.sum(safe + jnp.where(x > 0, roots, 0))  # select


in_a_lambda = lambda x: jnp.sum(jnp.where(x > 0, 1 / x, 0))  # noqa: E731  # op # select

GALLERY: dict[str, tuple[Callable[..., Any], str, str, str]] = {
    "a jitted helper twice": (helper_twice, "WL101", "sqrt", "where"),
    "scan": (scanned, "WL104", "arccos", "where"),
    "two selections of one shape": (two_of_one_shape, "WL102", "log", "where"),
    "cond": (branches, "WL101", "sqrt", "where"),
    "an arm of cond": (one_arm_reads, "WL101", "sqrt", "cond"),
    "checkpoint": (checkpointed, "WL103", "divide", "where"),
    "vmap": (mapped, "WL106", "power", "where"),
    "vmapped scan": (mapped_rounds, "WL101", "sqrt", "where"),
    "a method": (Model(), "WL108", "norm", "where"),
    "custom_vjp": (custom_rule, "WL111", "own", "where"),
    "optimization_barrier": (barred, "WL101", "sqrt", "where"),
    "an index": (indexed, "WL201", "log", "index"),
    "maximum": (maximum, "WL204", "sqrt", "maximum"),
    "a mask": (masked, "WL202", "sqrt", "multiply"),
    "an assignment": (assigned, "WL206", "sqrt", "assignment"),
    "beside a double where": (behind_a_double_where, "WL101", "sqrt", "where"),
    "a clamp": (clamped, "WL204", "sqrt", "clip"),
    "a mask that is divided": (divided, "WL202", "sqrt", "multiply"),
    "a lambda": (in_a_lambda, "WL103", "divide", "where"),
}


def marked(f: Callable[..., Any], mark: str) -> list[int]:
    """The rows of this file with a mark, within a function."""
    inside = f if inspect.isfunction(f) else helper.__wrapped__ if f is helper else type(f)
    if f is helper_twice:
        inside = helper.__wrapped__
    lines, first = inspect.getsourcelines(inside)
    return [first + i for i, line in enumerate(lines) if re.search(rf"# {mark}\b", line)]


@pytest.mark.rotated(3)
@pytest.mark.parametrize("name", GALLERY)
def test_gallery(name: str) -> None:
    f, code, op, kind = GALLERY[name]
    report = locate(f, X)
    (poison,) = report.findings
    assert report.poisoned
    assert (poison.code, poison.op, poison.select, poison.genuine) == (code, op, kind, False)
    assert poison.op_at is not None
    assert poison.select_at is not None
    assert {poison.op_at.filename, poison.select_at.filename} == {__file__}
    assert [poison.op_at.row] == marked(f, "op")
    assert [poison.select_at.row] == marked(f, "select")
    assert np.isfinite(report.masked[0]).all()


@pytest.mark.parametrize("chosen", [lax.cond, lambda p, a, b: lax.switch(jnp.where(p, 0, 1), [a, b])])
def test_what_only_the_other_arm_reads_receives_a_zero(chosen: Callable[..., Any]) -> None:
    def of_one(x: Any) -> Any:
        root = jnp.sqrt(x)
        return chosen(x > 0, lambda: root, lambda: x)

    def of_both(x: Any) -> Any:
        root = jnp.sqrt(x)
        return chosen(x > 0, lambda: root, lambda: 2 * root)

    def inside(x: Any) -> Any:
        return chosen(x > 0, lambda: jnp.sqrt(x), lambda: x)

    assert not np.isfinite([jax.grad(f)(0.0) for f in (of_one, of_both)]).any()
    assert np.isfinite(jax.grad(inside)(0.0))
    for f in (of_one, jax.jit(of_one)):
        report = locate(f, 0.0)
        (poison,) = report.findings
        assert (poison.select, poison.genuine, report.masked) == ("cond", False, (1.0,))
    assert [each.genuine for each in locate(of_both, 0.0).findings] == [True]
    assert not locate(inside, 0.0).poisoned


def test_a_loop_without_bounds_is_refused_by_name() -> None:
    with pytest.raises(NotImplementedError, match=r"`while`.*no reverse mode in JAX"):
        locate(lambda x: lax.while_loop(lambda y: y < 10, lambda y: 2 * y, x), 1.0)


def test_elements_and_iterations() -> None:
    (poison,) = locate(helper, X).findings
    assert (poison.index, poison.count, poison.iteration) == ((0,), 1, ())
    (poison,) = locate(scanned, np.float32([1, 2, 4, 3, 4])).findings
    assert (poison.index, poison.iteration) == ((), (2,))


def test_rounds_and_branches_keep_their_selections() -> None:
    def f(x: Any) -> Any:
        def body(total: Any, t: Any) -> Any:
            made = lax.cond(t[0] > 1, late, early, t)
            return total + made, None

        return lax.scan(body, jnp.zeros(2), x)[0]

    def late(t: Any) -> Any:
        return jnp.where(t < 4, jnp.arccos(t / 4), 0)

    def early(t: Any) -> Any:
        return jnp.where(t < 1, jnp.sqrt(1 - t), 0)

    x = np.full((2000, 2), 0.5, np.float32)
    x[500], x[700, 1], x[900] = (2, 4), 1, 4
    found = locate(f, x).findings
    assert {(p.op, p.iteration, p.index, p.count) for p in found} == {
        ("arccos", (500,), (1,), 1), ("sqrt", (700,), (1,), 1),
    }  # fmt: skip
    assert [p.select_at and p.select_at.row for p in found] == [p.op_at and p.op_at.row for p in found]


def test_elements_of_one_operation_may_have_selections_of_their_own() -> None:
    def f(x: Any) -> Any:
        roots = jnp.sqrt(x)
        assigned = roots.at[0].set(0)
        return jnp.where(jnp.arange(2) != 1, assigned, 0)

    found = locate(f, np.zeros(2, np.float32)).findings
    assert [(p.op, p.index, p.select) for p in found] == [("sqrt", (0,), "assignment"), ("sqrt", (1,), "where")]


def test_the_column_is_that_of_the_operation() -> None:
    (poison,) = locate(two_of_one_shape, X).findings
    assert poison.op_at is not None
    assert poison.op_at.line[poison.op_at.column - 5 :].startswith("jnp.log(x)")
    assert "two_of_one_shape" in poison.op_at.function


def test_the_first_break_hides_no_other() -> None:
    def f(x: Any) -> Any:
        return jnp.sum(jnp.where(x > 0, 1 / jnp.sqrt(x), 0) + jnp.where(x > 0, jnp.log(x), 0))

    assert {poison.op for poison in locate(f, X).findings} == {"divide", "sqrt", "log"}


def test_nan_of_the_data_hides_no_operation() -> None:
    def f(x: Any) -> Any:
        return jnp.where(jnp.isnan(x), 0, jnp.sqrt(x) + jnp.square(x) * jnp.exp(x))

    assert {p.op for p in locate(f, np.float32([np.nan, 1])).findings} >= {"sqrt", "exp"}


def test_the_nearest_selection_is_to_blame_though_another_dropped_the_element_already() -> None:
    def f(x: Any) -> Any:
        root = jnp.sqrt(x - 1)  # op
        inner = jnp.where(x > 1, root, 0)  # select
        return jnp.where(x < 1, x, inner)

    (found,) = locate(f, jnp.array([0.5, 3.0])).findings
    assert found.op_at is not None
    assert found.select_at is not None
    assert [found.op_at.row] == marked(f, "op")
    assert [found.select_at.row] == marked(f, "select")


def test_what_is_singular_in_earnest() -> None:
    report = locate(lambda x: jnp.sum(jnp.sqrt(x) ** 2), X)
    (poison,) = report.findings
    assert (poison.op, poison.genuine, poison.select, report.masked_finite) == ("sqrt", True, None, False)
    assert "No selection discards all operations that break it" in str(report)


def huber(x: Any) -> Any:
    r = jnp.sqrt(jnp.sum(x * x))
    return jnp.where(r < 1, 0.5 * r * r, r - 0.5)


def test_of_a_smooth_function_it_says_how_to_write_it() -> None:
    (poison,) = locate(huber, jnp.zeros(3)).findings
    assert (poison.op, poison.genuine, poison.smooth) == ("sqrt", True, True)
    assert "the whole function has a finite gradient here: write the root of s as `where(s > 0, sqrt(" in str(poison)
    assert not locate(lambda x: jnp.sqrt(jnp.sum(x * x)), jnp.zeros(3)).findings[0].smooth
    (poison,) = locate(lambda x: jnp.sum(1 / (jnp.exp(-x) + 1)), jnp.float32([-100, 1])).findings
    assert (poison.smooth, poison.count) == (True, 1)  # it overflows


def root(x: Any) -> Any:
    return jnp.sum(jnp.where(x > 0, jnp.sqrt(x), 0.0))


class Losses:
    def loss(self, x: Any) -> Any:
        return root(x)


def made_by(library: str, *names: str) -> Any:
    """A function of a library that makes gradients, as it is imported."""
    module = pytest.importorskip(library)
    return [getattr(module, name) for name in names]


@pytest.mark.parametrize(
    ("library", "names"),
    [
        ("jax", ("grad", "value_and_grad")),
        ("equinox", ("filter_grad", "filter_value_and_grad")),
        ("flax.nnx", ("grad", "value_and_grad")),
    ],
)
def test_a_gradient_is_refused_and_the_loss_asked_for(library: str, names: tuple[str, ...]) -> None:
    for transform in made_by(library, *names):
        gradient = transform(root)
        for f in (gradient, jax.jit(gradient), functools.partial(gradient), transform(Losses().loss)):
            for search in (locate, hunt):
                with pytest.raises(TypeError, match=r"already a gradient: write locate\(loss, x\) instead of"):
                    search(f, X)
        # A loss with a gradient in it.
        assert locate(lambda x, g=gradient: jax.tree.leaves(g(x))[-1] * 0 + root(x), X + 1).ok


def test_a_gradient_of_a_library_that_nobody_knows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is called: its code takes a gradient, and a library is where no loss of the program stands."""
    library = tmp_path / "site-packages" / "unheard_of.py"
    library.parent.mkdir()
    library.write_text(
        "import jax\n\nclass Slope:\n    def __init__(self, f):\n        self.f = f\n\n"
        "    def __call__(self, x):\n        return jax.vjp(self.f, x)[1](1.0)[0]\n\n"
        "def loss(f):\n    return lambda x: f(x)\n"
    )
    monkeypatch.syspath_prepend(library.parent)
    unheard_of = importlib.import_module("unheard_of")
    for f in (unheard_of.Slope(root), jax.jit(unheard_of.Slope(root)), functools.partial(unheard_of.Slope(root))):
        with pytest.raises(TypeError, match="this function is already a gradient"):
            locate(f, X)
    assert locate(unheard_of.loss(root), X).poisoned


def test_what_is_no_gradient_is_not_refused() -> None:
    @functools.wraps(jax.grad(root))
    def penalty(x: Any) -> Any:
        return jnp.sum(jax.grad(root)(x) ** 2) + root(x)

    for f in (root, jax.jit(root), functools.partial(root), Losses().loss, jax.vmap(root), jax.checkpoint(root)):
        assert locate(f, X[:, None] if f is not root else X).poisoned
    assert locate(penalty, X + 1).ok


def test_a_fault_of_jax_names_the_line_of_jax_and_that_of_the_caller() -> None:
    jax.clear_caches()  # an older JAX keeps the frames of whoever traced it first
    report = locate(jax.scipy.special.spence, 1.4)
    assert report.poisoned
    poison = report.findings[0]
    assert poison.op_at is not None
    assert poison.op_within is not None
    assert poison.select_within is not None
    assert poison.op_at.filename == __file__
    assert poison.op_at.line.startswith("report = locate")
    assert "special.py" in poison.op_within.filename
    assert "special.py" in str(report)
    assert report.masked[0] == pytest.approx(-0.8411806, abs=2e-6)


def test_arguments() -> None:
    def f(params: Any, n: Any, mask: Any) -> Any:
        return jnp.sum(jnp.where(mask, jnp.sqrt(params["a"]), 0)) * n

    report = locate(f, {"a": X}, 3, X > 0)
    assert report.poisoned
    assert report.masked[1:] == (None, None)
    np.testing.assert_array_equal(report.masked[0]["a"], np.float32([0, 1.5, 0.75]))
    assert locate(lambda x, y: jnp.sum(helper(x)) + y, X, 1.0, argnums=1).ok


def test_values_that_are_not_finite_are_told() -> None:
    report = locate(lambda x: jnp.sum(jnp.log(x)), X)
    assert not report.value_finite
    assert "value is not finite" in str(report)


def test_what_has_no_gradient_is_refused_as_by_jax() -> None:
    for args in [(0,), (np.arange(3),), ("x", True)]:
        with pytest.raises(TypeError, match=r"no argument holds floats; write 0\.0 for 0"):
            locate(lambda *given: jnp.sqrt(given[0]), *args)
    with pytest.raises(TypeError, match="no argument of argnums holds floats"):
        locate(lambda n, x: n * x, 1, 1.0, argnums=0)
    for f in (lambda x: None, lambda x: x > 0, lambda x: (1, jnp.argmax(x))):
        with pytest.raises(TypeError, match="the function returns no floats; return its value"):
            locate(f, X)
        with pytest.raises(TypeError):
            jax.grad(f)(X)
    assert locate(lambda x: (None, x), X).ok


def test_nothing_is_unrolled_where_the_gradient_is_finite() -> None:
    long = np.ones(200_000, np.float32)
    assert locate(scanned, long) == Report(True, True, True)


def test_names_are_those_of_the_catalogue() -> None:
    for op in (*CATALOGUE.values(), *FUNCTIONS.values()):
        assert op in OPERATIONS


def test_singular_primitives_have_their_code() -> None:
    smooth = {name for name, op in CATALOGUE.items() if OPERATIONS[op].code is None}
    assert smooth == {"mul", "max", "min", "select_n", "dot_general"}


@pytest.mark.parametrize("argnums", [1, -2, (0, 3)])
def test_an_argument_that_there_is_not(argnums: Any) -> None:
    with pytest.raises(ValueError, match="gets 1 positional"):
        locate(jnp.sqrt, 1.0, argnums=argnums)
