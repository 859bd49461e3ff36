"""``locate`` and ``mask_gradients`` on modules of flax, equinox and haiku."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")
from jax import numpy as jnp  # noqa: E402

from wherelint.jax import locate, mask_gradients  # noqa: E402

X = np.float32([0, 1, 4])
KEY = jax.random.key(0)


def of_flax() -> tuple[Callable[..., Any], Any]:
    linen = pytest.importorskip("flax.linen")

    class Net(linen.Module):
        @linen.compact
        def __call__(self, x: Any) -> Any:
            y = linen.Dense(3)(x)
            roots = jnp.sqrt(x * y**2)  # op of flax
            return jnp.where(x > 0, roots, 0)  # select of flax

    net = Net()
    return net.apply, net.init(KEY, X)


def of_nnx() -> tuple[Callable[..., Any], Any]:
    nnx = pytest.importorskip("flax.nnx")

    class Net(nnx.Module):
        def __init__(self) -> None:
            self.dense = nnx.Linear(3, 3, rngs=nnx.Rngs(0))

        def __call__(self, x: Any) -> Any:
            roots = jnp.sqrt(x * self.dense(x) ** 2)  # op of nnx
            return jnp.where(x > 0, roots, 0)  # select of nnx

    graph, state = nnx.split(Net())
    return lambda state, x: nnx.merge(graph, state)(x), state


def of_equinox() -> tuple[Callable[..., Any], Any]:
    equinox = pytest.importorskip("equinox")

    class Net(equinox.Module):
        dense: equinox.nn.Linear

        def __call__(self, x: Any) -> Any:
            roots = jnp.sqrt(x * self.dense(x) ** 2)  # op of equinox
            return jnp.where(x > 0, roots, 0)  # select of equinox

    return lambda net, x: net(x), Net(equinox.nn.Linear(3, 3, key=KEY))


def of_haiku() -> tuple[Callable[..., Any], Any]:
    haiku = pytest.importorskip("haiku")

    def forward(x: Any) -> Any:
        roots = jnp.sqrt(x * haiku.Linear(3)(x) ** 2)  # op of haiku
        return jnp.where(x > 0, roots, 0)  # select of haiku

    net = haiku.without_apply_rng(haiku.transform(forward))
    return net.apply, net.init(KEY, X)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("build", [of_flax, of_nnx, of_equinox, of_haiku])
def test_modules(build: Callable[[], tuple[Callable[..., Any], Any]]) -> None:
    name = build.__name__.removeprefix("of_")
    apply, params = build()
    report = locate(apply, params, X)
    assert report.poisoned
    (poison,) = report.findings
    lines = Path(__file__).read_text().splitlines()
    for place, mark in ((poison.op_at, "op"), (poison.select_at, "select")):
        assert place is not None
        assert lines[place.row - 1].endswith(f"# {mark} of {name}")
    masked = jax.grad(lambda params: jnp.sum(mask_gradients(apply)(params, X)))(params)
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(masked))
