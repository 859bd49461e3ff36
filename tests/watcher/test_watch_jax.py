"""``wherelint run`` of JAX programs: what is seen, and that nothing of the program changes."""

from __future__ import annotations

import linecache
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
from jax import lax  # noqa: E402
from jax import numpy as jnp  # noqa: E402

from wherelint.jax import _compat  # noqa: E402
from wherelint.watcher import jax as watcher  # noqa: E402
from wherelint.watcher import watching  # noqa: E402
from wherelint.watcher.session import Explanation, Hit, Session, Stop, busy, current  # noqa: E402

pytestmark = pytest.mark.usefixtures("quick_compiling")
X = np.float32([1, 2, 0, 3])
KEY = jax.random.key(0)
GRAD = jax.grad  # as it was imported before


def loss(p: Any, x: Any = X) -> Any:
    return jnp.sum(jnp.where(x > 0, jnp.sqrt(x * p), 0.0))


ROW = loss.__code__.co_firstlineno + 1


def watched(run: Callable[[], Any], **options: Any) -> tuple[Session, Any]:
    """The session in which a program ran, and what it returned (None if it was stopped)."""
    session, found = Session(**options), None
    try:
        with watching(session):
            found = run()
    except Stop:
        pass
    session.end()
    return session, found


def explained(run: Callable[[], Any]) -> Explanation:
    """Why the first gradient of a program is not finite that is not."""
    session, _ = watched(run, keep_going=True)
    assert session.unwatched == {}
    with busy():
        return session.hits[0].explain()


def rows(found: Explanation) -> set[tuple[str, int | None, int | None]]:
    return {
        (each.op, each.op_at and each.op_at.row, each.select_at and each.select_at.row)
        for each in found.report.findings
    }


def pulled(p: Any) -> Any:
    _, pull = jax.vjp(lambda p: jnp.where(X > 0, jnp.sqrt(X * p), 0.0), p)
    return pull(jnp.array([1.0, 0, 2, 3]))


def linear(p: Any) -> Any:
    _, push = jax.linearize(loss, p)
    return jax.linear_transpose(push, p)(1.0)


def split(p: Any) -> Any:
    _, pull = jax.jit(lambda p: jax.vjp(loss, p))(p)
    return jax.jit(lambda pull: pull(1.0))(pull)


TAKEN: dict[str, Callable[[], Any]] = {
    "eager": lambda: jax.grad(loss)(2.0),
    "jit": lambda: jax.jit(jax.value_and_grad(loss))(2.0),
    "vmap": lambda: jax.vmap(jax.grad(loss), (None, 0))(2.0, np.stack([X + 1, X])),
    "jit of vmap": lambda: jax.jit(jax.vmap(jax.grad(loss), (None, 0)))(2.0, np.stack([X + 1, X])),
    "scan": lambda: jax.jit(lambda p: lax.scan(lambda p, x: (p - GRAD(loss)(p, x), p), p, np.stack([X + 1, X])))(9.0),
    "while": lambda: jax.jit(lambda p: lax.fori_loop(0, 2, lambda i, p: p - jax.grad(loss)(p, X[None][0]), p))(2.0),
    "imported before": lambda: jax.jit(GRAD(loss))(2.0),
    "checkpoint": lambda: jax.jit(jax.grad(jax.checkpoint(loss)))(2.0),
    "closure": lambda: jax.jit(lambda x: jax.grad(lambda p: loss(p, x))(2.0))(X),
    "key": lambda: jax.jit(lambda k: jax.grad(lambda p: loss(p, jax.random.normal(k, (4,)) * X))(2.0))(KEY),
    "index": lambda: jax.jit(lambda i: jax.grad(lambda p: loss(p[i], X))(jnp.ones(9)))(jnp.arange(4)),
    "linear": lambda: jax.jit(linear)(2.0),
    "linear, eager": lambda: linear(2.0),
    "split": lambda: split(2.0),
    "grad of grad": lambda: jax.jit(jax.grad(lambda p: jax.grad(loss)(p) ** 2))(2.0),
}  # fmt: skip


@pytest.fixture(scope="module")
def taken() -> dict[str, list[Hit]]:
    """What there is to report of each of these, in one session: what is compiled once is compiled for all."""
    session, hits = Session(keep_going=True, most=100), dict[str, list[Hit]]()
    with watching(session):
        for name, take in TAKEN.items():
            before = len(session.hits)
            take()
            _compat.wait_for_callbacks()
            hits[name] = session.hits[before:]
    session.end()
    assert session.unwatched == {}
    return hits


@pytest.mark.parametrize("name", TAKEN)
def test_it_is_found(name: str, taken: dict[str, list[Hit]]) -> None:
    with busy():
        found = taken[name][0].explain()
    assert ("sqrt", ROW, ROW) in rows(found)


@pytest.mark.parametrize("take", [pulled, jax.jacrev(lambda p: jnp.where(X > 0, jnp.sqrt(X * p), 0.0))])
@pytest.mark.parametrize("wrap", [jax.jit, lambda f: f])
def test_cotangents_are_part_of_it(take: Any, wrap: Any) -> None:
    (found,) = explained(lambda: wrap(take)(2.0)).report.findings
    assert (found.op, found.select) == ("sqrt", "where")


def test_cotangents_that_are_not_finite_are_of_others() -> None:
    def run() -> Any:
        _, pull = jax.vjp(lambda p: p * X, 2.0)
        return pull(jnp.array([1, jnp.nan, 1, 1]))

    assert watched(run)[0].hits == []


def test_hessian_runs_forward_over_it() -> None:
    session, found = watched(lambda: jax.jit(jax.hessian(lambda p: loss(p, X + 1)))(2.0))
    assert session.unwatched == {}
    np.testing.assert_allclose(found, jax.hessian(lambda p: loss(p, X + 1))(2.0), rtol=1e-6)


def test_it_is_counted_and_the_program_stops() -> None:
    seen = []

    def run() -> None:
        step = jax.jit(jax.grad(loss))
        for i in range(500):
            seen.append(float(step(2.0, X + (i < 3))))

    session, _ = watched(run)
    (hit,) = session.hits
    assert (hit.number, hit.status, hit.site.name) == (4, "gradient", "loss")
    assert len(seen) < 400


def test_a_stop_is_not_caught_by_the_program() -> None:
    def run() -> str:
        for _ in range(1000):
            try:
                jax.jit(jax.grad(loss))(2.0).block_until_ready()
            except Exception:
                return "caught"
        return "went on"

    assert watched(run)[1] is None


def test_names_of_what_is_lost() -> None:
    params = {"a": {"w": jnp.ones(4)}, "b": jnp.ones(4)}
    found = explained(lambda: jax.jit(jax.grad(lambda p: loss(p["a"]["w"]) + jnp.sum(p["b"])))(params))
    assert (found.lost, found.inputs) == (["['a']['w']"], 2)


@pytest.mark.parametrize("wrap", [jax.jit, lambda f: f])
def test_a_value_that_is_not_finite(wrap: Any) -> None:
    def run() -> None:
        step = wrap(jax.grad(lambda p: jnp.sum(jnp.where(X > 5, jnp.log(X), jnp.log(X * p)))))
        for p in (1.0, 1.0, 1.0):
            step(p)

    session, _ = watched(run)
    (hit,) = session.hits
    assert (hit.status, hit.number) == ("value", 1)
    (found,) = hit.explain().report.findings
    assert (found.op, found.value, found.index) == ("log", True, (2,))
    assert found.op_at is not None
    assert linecache.getline(__file__, found.op_at.row)[found.op_at.column - 1 :].startswith("jnp.log(X * p)")
    assert "log returns the first value that is not finite at element (2,)" in str(found)


@pytest.mark.parametrize(
    ("f", "op", "iteration"),
    [
        (lambda p: jax.nn.softmax(jnp.where(X > 9, X * p, -jnp.inf))[0], "sub", ()),
        (lambda p: lax.scan(lambda c, x: (c / (x * p), c), 1.0, X)[0], "divide", (2,)),
        (lambda p: lax.cond(p > 0, lambda p: jnp.exp(p), lambda p: p, p * 1000), "exp", ()),
        (lambda p: p * jnp.nan, None, ()),
    ],
)
def test_where_a_value_was_made(f: Any, op: str | None, iteration: tuple[int, ...]) -> None:
    found = explained(lambda: jax.jit(jax.grad(f))(1.0))
    assert [(each.op, each.iteration) for each in found.report.findings] == ([(op, iteration)] if op else [])


def test_what_recovers_is_no_hit() -> None:
    step = jax.jit(jax.grad(lambda p: jnp.log(p)))
    session, _ = watched(lambda: [step(p) for p in (0.0, 0.0, 1.0)])
    assert (session.hits, session.recovered, session.gradients["jax"]) == ([], 2, 3)


def twice(x: Any, y: Any) -> Any:
    return 2 * x * jnp.cos(y)


custom = jax.custom_vjp(twice, nondiff_argnums=(1,))
custom.defvjp(lambda x, y: (twice(x, y), x), lambda y, x, ct: (ct * 2 * jnp.sin(y) + x,))
Z = jnp.array([1.0 + 2j, 3 - 1j])


def with_aux(p: Any) -> Any:
    return p**2, {"name": "a", "n": 3, "x": X, "p": p, "two": p + 1}


def of_dicts() -> Any:
    _, pull = jax.vjp(lambda d: {"s": d["a"] * 2, "t": (d["b"], None)}, {"a": 1.0, "b": X})
    return pull({"s": 1.0, "t": (X, None)})


def wrong() -> Any:
    with pytest.raises(TypeError, match="scalar-output") as error:
        jax.grad(lambda p: p * X)(2.0)
    return str(error.value)


USUAL: dict[str, Callable[[], Any]] = {
    "aux": lambda: jax.value_and_grad(with_aux, has_aux=True)(3.0),
    "custom_vjp": lambda: jax.grad(lambda x: custom(x, 0.5) ** 2)(3.0),
    "integers": lambda: jax.grad(lambda n, p: n * p, argnums=(0, 1), allow_int=True)(3, 2.0),
    "holomorphic": lambda: jax.grad(lambda z: jnp.sum(z**3), holomorphic=True)(Z),
    "complex": lambda: jax.grad(lambda z: jnp.sum(jnp.abs(z)))(Z),
    "keywords": lambda: jax.grad(lambda p, *, x: jnp.sum(p * x))(2.0, x=X),
    "pytrees": of_dicts,
    "constant": lambda: jax.grad(lambda p: 3.0)(2.0),
    "numpy random": lambda: jax.grad(lambda p: p * np.random.default_rng(0).normal())(2.0),
    "jacobians": lambda: (jax.jacrev(jnp.sin)(X), jax.jacfwd(jax.jacrev(lambda x: jnp.sum(x**3)))(X)),
    "pushed": lambda: jax.linearize(jnp.sin, X)[1](X),
    "an error": wrong,
}  # fmt: skip


def eager() -> Any:
    return {name: run() for name, run in USUAL.items()}


def in_jit() -> Any:
    """The arrays that the programs return, from inside of one trace."""
    return jax.jit(lambda: [
        x for x in jax.tree.leaves(eager()) if isinstance(x, jax.Array | np.ndarray) and x.dtype.kind != "V"
    ])()  # fmt: skip


@pytest.mark.parametrize("run", [eager, in_jit])
def test_results_are_as_without(run: Callable[[], Any]) -> None:
    expected = run()
    session, found = watched(run)
    assert session.unwatched == {}
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert type(a) is type(b)
        np.testing.assert_array_equal(a, b)


def test_python_decides_by_values() -> None:
    assert watched(lambda: jax.grad(lambda p: p**2 if p > 1 else p)(3.0))[1] == 6.0


def test_effects_happen_once() -> None:
    seen: list[str] = []

    def f(p: Any) -> Any:
        seen.append("traced")
        jax.debug.callback(lambda p: seen.append("run"), p)
        return p**2

    def run() -> Any:
        found = jax.jit(jax.grad(f))(3.0).block_until_ready()
        jax.effects_barrier()
        return found

    assert (watched(run)[1], seen) == (6.0, ["traced", "run"])


def test_parameters_are_the_same_bit_for_bit() -> None:
    optax = pytest.importorskip("optax")
    rng = np.random.default_rng(0)
    batches = rng.normal(size=(20, 32, 16)).astype(np.float32)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-2))
    start = {"w": batches[0, :8] / 9, "b": np.zeros(16, np.float32), "s": np.ones(16, np.float32)}

    def f(p: Any, x: Any) -> Any:
        y = jax.nn.gelu((x - x.mean(-1, keepdims=True)) * p["s"] / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5))
        return jnp.mean((jnp.tanh(y @ p["w"].T @ p["w"] + p["b"]) - jnp.exp(-(x**2))) ** 2)

    def step(p: Any, s: Any, x: Any) -> Any:
        value, gradient = jax.value_and_grad(f)(p, x)
        update, s = optimizer.update(gradient, s, p)
        return optax.apply_updates(p, update), s, value

    def train() -> Any:
        p, compiled = jax.tree.map(jnp.array, start), jax.jit(step, donate_argnums=(0, 1))
        s = optimizer.init(p)
        for x in batches:
            p, s, _ = compiled(p, s, x)
        return p, jax.jit(lambda p: lax.scan(lambda c, x: (step(*c, x)[:2], None), (p, optimizer.init(p)), batches))(p)

    expected = train()
    session, found = watched(train)
    assert session.gradients["jax"] == 40
    assert all(jax.tree.leaves(jax.tree.map(np.array_equal, found, expected)))


def test_what_cannot_be_traced_again_is_said_and_runs() -> None:
    kept: dict[str, Any] = {}
    drawn = []

    def f(p: Any, x: Any) -> Any:
        kept["x"] = x * 2
        drawn.append((random.random(), np.random.rand()))
        return p**2

    def step(x: Any) -> Any:
        return jax.grad(lambda p: f(p, x))(3.0) + kept["x"]

    random.seed(0)
    np.random.seed(0)
    session, found = watched(lambda: jax.jit(step)(2.0))
    assert found == 10
    assert drawn == 2 * [(random.Random(0).random(), np.random.RandomState(0).rand())]  # the second time as the first
    assert [*session.unwatched.values()] == ["RuntimeError: the function stores a traced value outside itself"]


def test_the_watchers_own_errors_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise ValueError("mine")

    monkeypatch.setattr(watcher, "_status", fails)
    session, found = watched(lambda: jax.jit(jax.grad(loss))(2.0, X + 1))
    assert (np.isfinite(found), session.unwatched) == (True, {"loss": "ValueError: mine"})


def test_what_was_compiled_is_harmless_afterwards() -> None:
    step = jax.jit(jax.grad(loss))
    session, _ = watched(lambda: step(2.0), keep_going=True)
    assert current() is None
    step(2.0).block_until_ready()
    jax.effects_barrier()
    assert session.gradients["jax"] == 1
    again, _ = watched(lambda: step(2.0), keep_going=True)
    assert len(again.hits) == 1  # compiled before: traced anew


@pytest.mark.rotated(2)
@pytest.mark.parametrize("key", [jax.random.key(1), None])
def test_a_script_shows_it_again(tmp_path: Path, key: Any) -> None:
    def f(p: Any, key: Any) -> Any:
        noise = 1.0 if key is None else jax.random.uniform(key, (4,))
        return loss(p["w"].astype(jnp.float32) * noise)

    found = explained(lambda: jax.jit(jax.grad(f))({"w": jnp.ones(4, jnp.bfloat16), "v": 1.0}, key))
    assert found.save is not None
    assert found.save(tmp_path) == ["arguments.npz", "function.bin", "repro.py"]
    ran = subprocess.run([sys.executable, tmp_path / "repro.py"], capture_output=True, text=True, cwd="/", check=False)
    said = ran.stdout.splitlines()
    assert said == ["value finite: True", "gradient finite: True ['v']", "gradient finite: False ['w']"], ran.stderr


SEVERAL = """
import os, sys
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax, numpy as np
from jax import numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from wherelint.jax._compat import wait_for_callbacks
from wherelint.watcher import watching
from wherelint.watcher.session import Session

def f(p, x):
    return jnp.sum(jnp.where(x > 0, jnp.sqrt(x * p), 0.0))

x, mesh = np.float32([[1, 2], [3, 0]]), Mesh(np.array(jax.devices()), ("d",))
shard_map = getattr(jax, "shard_map", None) or __import__("jax.experimental.shard_map").experimental.shard_map.shard_map
session = Session(keep_going=True)
mapped = shard_map(lambda p, x: jax.lax.pmean(f(p, x), "d"), mesh=mesh, in_specs=(P(), P("d")), out_specs=P())
hits = []
with watching(session):
    for how, take in {
        "pmap": lambda: jax.pmap(jax.grad(f), in_axes=(None, 0))(2.0, x),
        "jit": lambda: jax.jit(jax.grad(f))(2.0, jax.device_put(x, NamedSharding(mesh, P("d")))),
    }.items():
        before = len(session.hits)
        take()
        wait_for_callbacks()
        hits.append((how, session.hits[before]))
    jax.jit(jax.grad(mapped))(2.0, x)
    wait_for_callbacks()
session.end()
for how, hit in hits:
    (found,) = hit.explain().report.findings
    print(how, found.op, found.select, found.op_at.row)
print(session.unwatched)
"""


def test_several_devices() -> None:
    ran = subprocess.run([sys.executable, "-c", SEVERAL], capture_output=True, text=True, timeout=120, check=False)
    *found, unwatched = ran.stdout.splitlines()
    assert found == [f"{how} sqrt where 12" for how in ("pmap", "jit")], ran.stderr
    assert unwatched.endswith(
        "NotImplementedError: wherelint cannot watch a program for several devices (shard_map, psum)'}"
    )
