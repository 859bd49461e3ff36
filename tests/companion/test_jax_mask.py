"""``wherelint.jax.mask_gradients``: nan only where it is singular in earnest, and JAX's own gradient elsewhere."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
from jax import lax, nn  # noqa: E402
from jax import numpy as jnp  # noqa: E402
from jax.experimental import ode  # noqa: E402

from wherelint.jax import _primitives, mask_gradients  # noqa: E402
from wherelint.jax._transpose import RULES  # noqa: E402

pytestmark = pytest.mark.usefixtures("quick_compiling")
F = Callable[..., Any]
X = np.float32([0, 1, 4])
NAN = np.float32("nan")


def summed(f: F) -> F:
    return lambda *args: jnp.sum(f(*args))


def safe_root(x: Any) -> Any:
    return jnp.where(x > 0, jnp.sqrt(x), 0.0)


def both(f: F, *args: Any) -> tuple[Any, Any]:
    """JAX's gradient and the masked one, which must be the same with and without ``jit``; the values are the same."""
    value, plain = jax.value_and_grad(f)(*args)
    made = jax.value_and_grad(mask_gradients(f))
    (first, eager), (second, jitted) = made(*args), jax.jit(made)(*args)
    np.testing.assert_allclose(first, value, rtol=1e-6)
    np.testing.assert_allclose(second, value, rtol=1e-6)
    np.testing.assert_allclose(jitted, eager, rtol=1e-5)
    return np.asarray(plain), np.asarray(eager)


root = [0.0, 0.5, 0.25]
DROPPED: dict[str, tuple[F, Any, Any]] = {
    "where": (safe_root, X, root),
    "product with a mask": (lambda x: (x > 0) * jnp.sqrt(x), X, root),
    "a float mask": (lambda x: (x > 0).astype(jnp.float32) * jnp.sqrt(x), X, root),
    "a mask of zeros and ones": (lambda x: jnp.array([0.0, 1.0, 1.0]) * jnp.sqrt(x), X, root),
    "zero": (lambda x: 0.0 * jnp.sqrt(x) + x, X, [1, 1, 1]),
    "maximum": (lambda x: jnp.maximum(jnp.sqrt(x), 1.5), X, [0, 0, 0.25]),
    "clip": (lambda x: jnp.clip(jnp.log(x), -1, 10), X, [0, 1, 0.25]),
    "relu": (lambda x: nn.relu(jnp.sqrt(x) - 1.5), X, [0, 0, 0.25]),
    "nan_to_num": (lambda x: jnp.nan_to_num(jnp.log(x)), X, [0, 1, 0.25]),
    "index": (lambda x: jnp.sqrt(x)[1:], X, root),
    "gather": (lambda x: jnp.sqrt(x)[jnp.array([2, 1])], X, root),
    "dynamic slice": (lambda x: lax.dynamic_slice(jnp.sqrt(x), (1,), (2,)), X, root),
    "assignment": (lambda x: jnp.sqrt(x).at[0].set(2.0), X, root),
    "masked sum": (lambda x: jnp.sum(jnp.sqrt(x), where=x > 0), X, root),
    "one-hot matrix": (lambda x: jnp.array([[0.0, 1, 0], [0, 0, 1]]) @ jnp.sqrt(x), X, root),
    "a row of a matrix product": (
        lambda x: jnp.where(x > 0, (1 / x)[:, None] * jnp.eye(3) @ jnp.ones(3), 0), X, [0, -1, -1 / 16],
    ),
    "complex": (lambda x: jnp.where(x > 0, jnp.real(jnp.sqrt(x + 0j)), 0), X, root),
    "convolution": (
        lambda x: jnp.where(jnp.array([False, True]), jnp.convolve(jnp.sqrt(x), jnp.ones(2), "valid"), 0), X, root,
    ),
    "sort": (lambda x: jnp.sort(jnp.sqrt(x))[1:], X, root),
    "max-pooling": (lambda x: lax.reduce_window(jnp.sqrt(x), -jnp.inf, lax.max, (3,), (1,), "VALID"), X, [0, 0, 0.25]),
    "cumulative sum": (lambda x: jnp.where(x > 0, jnp.cumsum(jnp.sqrt(x[::-1]))[::-1], 0), X, [0, 0.5, 0.5]),
    "the norm of a row": (
        lambda x: jnp.where(x > 0, jnp.linalg.norm(x[:, None] * jnp.ones(4), axis=1), 0), X, [0, 2, 2],
    ),
    "solve": (lambda x: jnp.where(x > 0, jax.vmap(lambda d: jnp.linalg.solve(d * jnp.eye(2), jnp.ones(2))[0])(x), 0), X,
              [0, -1, -1 / 16]),
}  # fmt: skip


@pytest.mark.rotated(3)
@pytest.mark.parametrize("name", DROPPED)
def test_what_is_dropped_receives_nothing(name: str) -> None:
    f, x, expected = DROPPED[name]
    plain, masked = both(summed(f), x)
    np.testing.assert_allclose(masked, expected, rtol=1e-5)
    finite = np.isfinite(plain)
    np.testing.assert_allclose(plain[finite], masked[finite], rtol=1e-5)
    assert not finite.all() or name in ("zero", "index", "gather", "convolution", "sort")


SINGULAR: dict[str, tuple[F, Any]] = {
    "sqrt(x) ** 2": (lambda x: jnp.sqrt(x) ** 2, 0.0),
    "x * sqrt(x)": (lambda x: jnp.sqrt(x) * x, 0.0),
    "sqrt(x) * sqrt(x)": (lambda x: jnp.sqrt(x) * jnp.sqrt(x), 0.0),
    "norm": (lambda x: jnp.linalg.norm(jnp.stack([x, x])), 0.0),
    "a perfect fit": (lambda x: (jnp.sqrt(x) - 0.0) ** 2, 0.0),
    "a perfect fit of a line": (lambda x: jnp.sum((jnp.sqrt(x * jnp.ones(3)) - jnp.zeros(3)) ** 2), 0.0),
    "sqrt": (jnp.sqrt, 0.0),
    "selected": (lambda x: jnp.where(x >= 0, jnp.sqrt(x), 0), 0.0),
    "a weight that is differentiated": (lambda x: x * jnp.log(x), 0.0),
}


@pytest.mark.rotated(3)
@pytest.mark.parametrize("name", SINGULAR)
def test_what_is_singular_in_earnest_stays(name: str) -> None:
    f, x = SINGULAR[name]
    plain, masked = both(f, x)
    assert not np.isfinite(plain)
    np.testing.assert_array_equal(np.isfinite(masked), False)


@pytest.mark.rotated(3)
@pytest.mark.parametrize(
    "dropped",
    [
        lambda x: jnp.where(x > 0, x, 0.0), lambda x: (x > 0) * x, lambda x: (x > 0).astype(jnp.float32) * x,
        lambda x: jnp.maximum(x, 0.0), lambda x: jnp.clip(x, 0.0, 1.0), nn.relu, lambda x: 0.0 * x,
        lambda x: jnp.where(x > 0, jnp.log(x), 0.0),
    ],
)  # fmt: skip
def test_what_is_dropped_receives_nothing_of_an_infinite_cotangent(dropped: F) -> None:
    gradient = jax.grad(mask_gradients(lambda x, y: jnp.sqrt(dropped(x) + y)), (0, 1))
    for run in (gradient, jax.jit(gradient)):
        assert run(-1.0, 0.0) == (0, np.inf)


def test_a_perfect_fit_has_the_gradient_that_it_has() -> None:
    def loss(w: Any) -> Any:
        return jnp.sum((jnp.exp(w) - 1.0) ** 2)

    assert jax.hessian(mask_gradients(loss))(0.0) == pytest.approx(2.0)


def test_a_factor_drops_only_if_it_is_not_differentiated() -> None:
    def f(x: Any, w: Any) -> Any:
        return w * jnp.sqrt(x)

    assert jax.grad(mask_gradients(f), 0)(0.0, 0.0) == 0
    assert np.isnan(jax.grad(mask_gradients(f), (0, 1))(0.0, 0.0)[0])


def scanned(x: Any) -> Any:
    def body(carry: Any, t: Any) -> Any:
        carry = carry + jnp.where(t > 0, jnp.sqrt(t * x[1]), 0) + jnp.where(carry > 1e9, jnp.log(carry - carry), 0)
        return carry, jnp.where(t > 2, carry, 0)

    carry, each = lax.scan(body, 0.0, x)
    return carry + jnp.sum(each)


def in_loop(x: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, y: y + jnp.where(x > i, jnp.sqrt(x - i), 0), x).sum()


def branches(x: Any) -> Any:
    roots = jnp.where(x > 0, jnp.sqrt(x), 0)
    return lax.cond(x[1] > 0, lambda y: jnp.sum(jnp.where(y > 0, jnp.log(y), 0)), jnp.sum, x) + jnp.sum(roots)


@jax.custom_vjp
def doubled_root(x: Any) -> Any:
    return 2 * jnp.sqrt(x)


doubled_root.defvjp(lambda x: (2 * jnp.sqrt(x), x), lambda x, ct: (ct / jnp.sqrt(x),))


@jax.custom_vjp
def clipped(x: Any) -> Any:
    return jnp.sqrt(x)


clipped.defvjp(lambda x: (jnp.sqrt(x), x), lambda x, ct: (jnp.clip(ct, -1, 1) * 0.5 / jnp.sqrt(x),))


@jax.custom_jvp
def own_root(x: Any) -> Any:
    return jnp.sqrt(x)


own_root.defjvp(lambda primals, tangents: (own_root(*primals), tangents[0] / (2 * own_root(*primals))))


@jax.jit
def helper(x: Any) -> Any:
    return jnp.where(x > 0, jnp.sqrt(x), 0)


COMPOSED: dict[str, F] = {
    "scan": scanned,
    "fori_loop": in_loop,
    "cond": branches,
    "an arm of cond": lambda x: lax.cond(x[0] > 0, jnp.sum, lambda y: jnp.sum(x), jnp.sqrt(x)),
    "checkpoint": summed(jax.checkpoint(safe_root)),
    "checkpoint with a policy": summed(
        jax.checkpoint(safe_root, policy=jax.checkpoint_policies.nothing_saveable)  # type: ignore[attr-defined]
    ),
    "checkpointed scan": jax.checkpoint(scanned),
    "scan of checkpoint": lambda x: lax.scan(lambda c, t: (c + jax.checkpoint(safe_root)(t), c), 0.0, x)[0],
    "vmap inside": summed(jax.vmap(safe_root)),
    "vmap of cond": summed(jax.vmap(lambda x: lax.cond(x > 0, jnp.sqrt, lambda x: x, x))),
    "vmapped scan": lambda x: jnp.sum(jax.vmap(lambda s: scanned(s * x))(jnp.array([0.0, 1.0]))),
    "a jitted helper twice": lambda x: jnp.sum(helper(x) + helper(2 * x)),
    "custom_vjp": summed(lambda x: jnp.where(x > 0, doubled_root(x), 0)),
    "custom_vjp that clips": lambda x: jnp.where(x[0] > 0, clipped(x[0]), 0) + jnp.sum(x),
    "custom_jvp": summed(lambda x: jnp.where(x > 0, own_root(x), 0)),
    "optimization_barrier": summed(lambda x: jnp.where(x > 0, lax.optimization_barrier(jnp.sqrt(x)), 0)),
    "masked inside": summed(lambda x: mask_gradients(safe_root)(x) + safe_root(x)),
    "gradient inside": lambda x: jnp.sum(jax.vmap(jax.grad(mask_gradients(lambda x: safe_root(x) ** 3)))(x)),
    "a lambda": lambda x: jnp.sum((lambda y: jnp.where(y > 0, 1 / y, 0))(x)),
    "fft": lambda x: jnp.sum(jnp.abs(jnp.fft.fft(jnp.where(x > 0, jnp.sqrt(x), 0)))),
    "logsumexp": lambda x: jnp.where(x[0] > 9, jax.scipy.special.logsumexp(jnp.log(x * 0)), jnp.sum(x)),
}


@pytest.mark.rotated(3)
@pytest.mark.parametrize("name", COMPOSED)
def test_it_composes(name: str) -> None:
    f = COMPOSED[name]
    plain, masked = both(f, X)
    assert np.isfinite(masked).all()
    assert not np.isfinite(plain).all() or name in ("scan of checkpoint", "vmap of cond") or "vmap" in name
    inside = np.float32([0.5, 1, 4])
    (plain, masked), hessian = both(f, inside), jax.hessian(f)(inside)
    made = jax.jit(jax.hessian(mask_gradients(f)))(inside)
    for theirs, ours in ((plain, masked), (hessian, made)):
        np.testing.assert_allclose(np.where(np.isfinite(theirs), ours, theirs), theirs, rtol=1e-4, atol=1e-6)
        assert np.isfinite(ours).all()


@pytest.mark.rotated(6)
@pytest.mark.parametrize("name", [name for name in COMPOSED if name != "masked inside"])
def test_under_vmap(name: str) -> None:
    batch = jnp.stack([X, X[::-1], X + 0.5])
    gradient = jax.grad(mask_gradients(COMPOSED[name]))
    expected = jnp.stack([gradient(x) for x in batch])
    np.testing.assert_allclose(jax.jit(jax.vmap(gradient))(batch), expected, rtol=1e-4, atol=1e-6)


def test_inside_of_scan_and_checkpoint() -> None:
    def step(carry: Any, x: Any) -> Any:
        return carry + jax.checkpoint(mask_gradients(safe_root))(x), None

    gradient = jax.grad(lambda xs: lax.scan(step, 0.0, xs)[0])
    np.testing.assert_array_equal(jax.jit(gradient)(X), np.float32(root))


def test_reverse_over_reverse_needs_a_second_mask() -> None:
    first = jax.grad(mask_gradients(safe_root))
    assert jax.grad(mask_gradients(first))(0.0) == 0
    assert jax.grad(mask_gradients(first))(4.0) == pytest.approx(-1 / 32)
    assert jax.hessian(mask_gradients(safe_root))(0.0) == 0


def test_pytrees_integers_and_what_is_no_array() -> None:
    def f(params: Any, n: Any, index: Any, *, name: str) -> Any:
        assert name == "loss"
        assert n == 2
        y = jnp.where(params["a"] > 0, jnp.sqrt(params["a"]), 0) * params["b"][0]
        return {"total": jnp.sum(y[index]) * n, "index": index}, (params["a"] > 0)

    params = {"a": jnp.array(X), "b": [jnp.float32(2.0), jnp.arange(3)]}
    index = jnp.array([0, 1])

    def total(params: Any) -> Any:
        return mask_gradients(f)(params, 2, index, name="loss")[0]["total"]

    gradient = jax.jit(jax.grad(total, allow_int=True))(params)
    np.testing.assert_array_equal(gradient["a"], np.float32([0, 2, 0]))
    assert gradient["b"][0] == 2
    assert mask_gradients(f)(params, 2, index, name="loss")[0]["index"].tolist() == [0, 1]


def test_closures_are_differentiated() -> None:
    def outer(a: Any, x: Any) -> Any:
        return mask_gradients(lambda y: jnp.sum(a * safe_root(y)))(x)

    a, x = jax.jit(jax.grad(outer, (0, 1)))(2.0, X)
    assert a == 3
    np.testing.assert_array_equal(x, 2 * np.float32(root))
    batched = jax.vmap(jax.grad(outer), (0, None))(jnp.array([1.0, 2.0]), X)
    np.testing.assert_array_equal(batched, np.float32([3, 3]))


def test_a_program_that_turns_warnings_into_errors() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(jax.grad(mask_gradients(COMPOSED["checkpointed scan"]))(X)).all()


def test_names_and_documentation_are_kept() -> None:
    assert mask_gradients(safe_root).__name__ == "safe_root"


@pytest.mark.parametrize("forward", [jax.jacfwd, lambda f: lambda x: jax.jvp(f, (x,), (x,))], ids=["jacfwd", "jvp"])
def test_forward_mode_is_refused(forward: Any) -> None:
    with pytest.raises(NotImplementedError, match=r"forward mode.*hessian\(f\)"):
        forward(mask_gradients(safe_root))(X)


def test_spence_of_scipy() -> None:
    # jax.grad is nan there in jax 0.10.2; the derivative is log(z) / (1 - z).
    gradient = jax.grad(mask_gradients(jax.scipy.special.spence))
    assert gradient(1.4) == pytest.approx(-0.8411806, abs=2e-6)
    assert gradient(2.0) == pytest.approx(-np.log(2), abs=2e-6)


def test_collectives_below_vmap() -> None:
    def f(x: Any) -> Any:
        y = safe_root(x)
        return y * lax.psum(y, "i") + lax.pmax(lax.stop_gradient(y), "i")

    gradient = jax.vmap(jax.grad(mask_gradients(f)), axis_name="i")(jnp.array(X) + 1)
    expected = jax.vmap(jax.grad(f), axis_name="i")(jnp.array(X) + 1)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6)
    assert jnp.isfinite(jax.vmap(jax.grad(mask_gradients(f)), axis_name="i")(jnp.array(X))).all()


# ---------------------------------------------------------------------- primitives


def linear_primitives() -> set[str]:
    """The names of the primitives that JAX knows how to transpose."""
    from jax._src.interpreters import ad

    return {p.name for p in (*ad.primitive_transposes, *getattr(ad, "fancy_transposes", ()))}


#: As they are before another test imports equinox, which brings its own.
LINEAR = linear_primitives()


#: Primitives that nobody met under a mask, so that they have no rule.
RARE = frozenset(
    """composite custom_jvp_call custom_transpose_call custom_vmap_call eval_jaxpr from_edtype to_edtype remat_opt
    stage run_state pdot global_array_to_host_local_array host_local_array_to_global_array""".split()
)


def test_every_linear_primitive_is_handled_or_refused() -> None:
    tables = _primitives.SAME, _primitives.MOVES, _primitives.DROPS, _primitives.DENSE, RULES
    known = {name for table in tables for name in table}
    assert not LINEAR - known - set(_primitives.REFUSED) - RARE
    assert set(_primitives.REFUSED) & known == {"custom_linear_solve"}


@pytest.mark.parametrize("name", sorted(_primitives.REFUSED))
def test_a_refusal_names_the_primitive(name: str) -> None:
    assert f"`{name}`" in str(_primitives.refusal(name))


def test_what_is_not_known_is_refused() -> None:
    assert f"jax is {jax.__version__}" in str(_primitives.refusal("of_tomorrow"))


def test_a_loop_without_bounds_is_refused_by_name() -> None:
    def f(x: Any) -> Any:
        return lax.while_loop(lambda y: y < 10, lambda y: 2 * y, x)

    with pytest.raises(NotImplementedError, match=r"`while`.*no reverse mode in JAX"):
        jax.grad(mask_gradients(f))(1.0)
    assert mask_gradients(f)(1.0) == 16


def test_a_mapped_program_is_refused_by_name() -> None:
    mesh = jax.make_mesh((1,), ("i",))
    spec = jax.sharding.PartitionSpec("i")
    mapped = jax.shard_map(safe_root, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    x = jax.device_put(X, jax.NamedSharding(mesh, spec))
    with pytest.raises(NotImplementedError, match="`shard_map`"):
        jax.grad(mask_gradients(summed(mapped)))(x)


#: A function of one array for every kind of linear primitive, to be compared with JAX where nothing is dropped.
EXAMPLES: dict[str, F] = {
    "add sub neg mul div": lambda x: -(x + 2 * x - x * x) / 3,
    "reshape transpose rev squeeze": lambda x: x.reshape(2, 3).T[::-1].reshape(1, 6)[0],
    "concatenate pad stack": lambda x: jnp.stack([jnp.pad(x, 1), jnp.concatenate([x, x[:2]])]),
    "dynamic_update_slice": lambda x: lax.dynamic_update_slice(x, x[:2] ** 2, (jnp.argmax(x),)),
    "gather scatter scatter-add": lambda x: x.at[jnp.array([0, 0])].add(x[3]).at[1].set(x[2]),
    "scatter-mul": lambda x: x.at[jnp.array([0, 1])].multiply(jnp.array([2.0, 3.0]), unique_indices=True),
    "cumsum cumprod": lambda x: jnp.cumsum(x) * jnp.cumprod(x),
    "reduce_window": lambda x: lax.reduce_window(x, 0.0, lax.add, (2,), (2,), "VALID"),
    "select_and_scatter": lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2,), (2,), "VALID"),
    "dot_general": lambda x: x.reshape(2, 3) @ x.reshape(3, 2),
    "batched dot_general": lambda x: jnp.einsum("bij,bjk->bik", x.reshape(2, 1, 3), x.reshape(2, 3, 1)),
    "convolution": lambda x: jnp.convolve(x, x[:3]),
    "fft": lambda x: jnp.abs(jnp.fft.rfft(x)) + jnp.real(jnp.fft.ifft(x[:4])),
    "linear algebra": lambda x: jnp.linalg.solve(x.reshape(2, 3)[:, :2] + 3 * jnp.eye(2), x[:2]),
    "cholesky": lambda x: jnp.linalg.cholesky(jnp.outer(x, x) + jnp.eye(6)),
    "triangular solve": lambda x: jax.scipy.linalg.solve_triangular(jnp.diag(x), x, lower=True),
    "tridiagonal solve": lambda x: lax.linalg.tridiagonal_solve(
        jnp.zeros(6).at[1:].set(0.1), x + 3, jnp.zeros(6).at[:-1].set(0.1), x[:, None]
    ),
    "complex": lambda x: jnp.abs(jnp.conj(x + 1j * x**2) * (1 - 2j)) + jnp.angle(x + 1j),
    "precision": lambda x: lax.reduce_precision(x, 8, 20) + x.astype(jnp.bfloat16).astype(jnp.float32),
    "sort split": lambda x: jnp.sort(x) * jnp.split(x, 2)[0].sum(),
    "ragged_dot": lambda x: lax.ragged_dot(x.reshape(3, 2), jnp.stack([x[:4].reshape(2, 2)] * 2), jnp.array([1, 2])),
    "odeint": lambda x: ode.odeint(lambda y, t: -y * x, x, jnp.array([0.0, 1.0])),
    "custom_linear_solve": lambda x: lax.custom_linear_solve(
        lambda y: y * (x + 2), x, lambda _, b: b / (x + 2), lambda _, b: b / (x + 2)
    ),
    "associative_scan": lambda x: lax.associative_scan(operator.mul, x),
    "map": lambda x: lax.map(lambda y: y**2, x),
    "batched map": lambda x: lax.map(lambda y: jnp.sin(y) ** 2, x, batch_size=4),
}


@pytest.mark.rotated(6)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", EXAMPLES)
def test_where_nothing_is_dropped_the_gradient_is_that_of_jax(name: str) -> None:
    x = np.linspace(0.3, 1.7, 6).astype(np.float32)
    weights = np.linspace(-1, 2, 500).astype(np.float32)

    def inner(x: Any) -> Any:
        y = jnp.ravel(EXAMPLES[name](jnp.where(x > 0, jnp.sqrt(x), 0)))
        return jnp.sum(jnp.where(y > -100, y, 0) * weights[: y.size])

    plain, masked = both(inner, x)
    assert np.isfinite(plain).all()
    np.testing.assert_allclose(masked, plain, rtol=2e-5, atol=1e-6)
