"""``python tests/benchmarks/companion.py``: what ``mask_gradients`` costs under ``jit``, beside plain ``jit(grad)``.

Running time is the median of interleaved runs (on a CPU the time of all threads), compiling includes tracing and
lowering, memory is XLA's temporary buffers. Limits: 1.2, 2.5 and 1.1 times the plain gradient.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from wherelint.jax import mask_gradients

Program = tuple[str, Callable[..., Any], tuple[Any, ...]]


def programs() -> Iterator[Program]:
    """Four programs, each with a selection over something singular: name, loss, arguments."""
    keys = jax.random.split(jax.random.key(0), 20)

    def energy(params: Any, points: Any) -> Any:
        apart = points[:, None] - points[None]
        squared = jnp.sum(apart**2, -1)
        near = (squared > 0) & (squared < 9)
        features = jnp.where(near, jnp.exp(-jnp.sqrt(squared)), 0.0)
        for weight in params:
            features = jnp.tanh(features @ weight)
        return jnp.sum(features**2)

    layers = [0.1 * jax.random.normal(k, s) for k, s in zip(keys, [(512, 256), (256, 256), (256, 64)], strict=False)]
    yield "pairwise distances, MLP", energy, (layers, jax.random.normal(keys[3], (512, 3)))

    def block(params: Any, x: Any, mask: Any) -> Any:
        def norm(x: Any) -> Any:
            return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)

        q, k, v = jnp.split(norm(x) @ params["qkv"], 3, -1)
        q, k, v = (a.reshape(*a.shape[:2], 8, -1) for a in (q, k, v))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(q.shape[-1])
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e9))
        x = x + jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape) @ params["out"]
        x = x + jax.nn.gelu(norm(x) @ params["up"]) @ params["down"]
        return jnp.mean(jnp.where(x > 0, jnp.log1p(x), 0.0))

    shapes = {"qkv": (256, 768), "out": (256, 256), "up": (256, 1024), "down": (1024, 256)}
    params = {n: 0.05 * jax.random.normal(k, s) for k, (n, s) in zip(keys[4:], shapes.items(), strict=False)}
    mask = jnp.tril(jnp.ones((128, 128), bool))
    yield "transformer block", block, (params, jax.random.normal(keys[8], (4, 128, 256)), mask)

    def orbit(start: Any, masses: Any) -> Any:
        def step(state: Any, _: None) -> tuple[Any, Any]:
            position, velocity = state
            apart = position[None] - position[:, None]
            squared = jnp.sum(apart**2, -1)
            pull = jnp.where(squared > 0, masses[None] / (squared * jnp.sqrt(squared)), 0.0)
            velocity = velocity + 1e-3 * jnp.sum(pull[..., None] * apart, 1)
            position = position + 1e-3 * velocity
            return (position, velocity), jnp.sum(position**2)

        return jnp.sum(jax.lax.scan(step, start, None, 500)[1])

    bodies = (jax.random.normal(keys[9], (32, 3)), jax.random.normal(keys[10], (32, 3)))
    yield "orbits, scan of 500", orbit, (bodies, jnp.ones(32))

    def likelihood(params: Any, x: Any) -> Any:
        weights = jax.nn.softmax(params["weights"])
        z = (x[:, None] - params["means"]) / jnp.exp(params["scales"])
        density = weights * jnp.exp(-0.5 * z**2 - params["scales"])
        total = jnp.sum(density, -1)
        return -jnp.sum(jnp.where(total > 0, jnp.log(total), -100.0))

    mixture = {"weights": jnp.zeros(64), "means": jax.random.normal(keys[11], (64,)), "scales": jnp.zeros(64)}
    yield "mixture likelihood", likelihood, (mixture, jax.random.normal(keys[12], (20_000,)))


def measured(loss: Callable[..., Any], args: tuple[Any, ...], runs: int) -> dict[str, tuple[float, float]]:
    """Seconds a run, seconds to compile, and bytes, each plain and masked."""
    compiled, compiling, memory = [], [], []
    for f in (loss, mask_gradients(loss)):
        jax.clear_caches()
        start = time.perf_counter()
        compiled.append(jax.jit(jax.value_and_grad(f)).lower(*args).compile())
        compiling.append(time.perf_counter() - start)
        memory.append(float(compiled[-1].memory_analysis().temp_size_in_bytes))
    clock = time.process_time if jax.default_backend() == "cpu" else time.perf_counter
    running: list[list[float]] = [[], []]
    for _ in range(runs):
        for each, times in zip(compiled, running, strict=True):
            start = clock()
            jax.block_until_ready(each(*args))
            times.append(clock() - start)
    plain, masked = map(statistics.median, running)
    return {"run": (plain, masked), "compile": (compiling[0], compiling[1]), "memory": (memory[0], memory[1])}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=31)
    given = parser.parse_args()
    print(f"jax {jax.__version__} on {jax.devices()[0].device_kind}")
    print(f"{'':26}{'run':>20}{'lower and compile':>20}{'temporary memory':>22}")
    for name, loss, args in programs():
        found = measured(loss, args, given.runs)
        (run, run_masked), (make, make_masked), (size, size_masked) = found.values()
        print(
            f"{name:26}{run * 1e3:9.2f} ms {run_masked / run:5.2f} x{make:9.2f} s {make_masked / make:5.2f} x"
            f"{size / 1e6:11.2f} MB {size_masked / max(size, 1):5.2f} x"
        )
