"""What wild programs call: random numbers, constants with a shape of their own, and a module that no linter can see."""

from __future__ import annotations

import sys
import types
from typing import Any

_OPAQUE = {
    "call": ["elsewhere.bend({})", "elsewhere.tick({})", "elsewhere.peak({})", "elsewhere.ends({})", "elsewhere.BOUND"],
    "test": ["elsewhere.allowed({})", "{} > elsewhere.BOUND"],
}
_RANDOM = {
    "jax": {
        "call": [
            "jax.random.uniform({1}, jnp.shape({0}))",
            "jax.random.normal({1}, jnp.shape({0}))",
            "jax.random.bernoulli({1}, jax.nn.sigmoid({0})).astype(jnp.float32)",
        ],
        "test": ["jax.random.bernoulli({1}, 0.5, jnp.shape({0}))", "jax.random.uniform({1}, jnp.shape({0})) < {0}"],
    },
    "torch": {
        "call": [
            "torch.bernoulli(torch.full_like({}, 0.6))",
            "torch.poisson(torch.full_like({}, 1.5))",
            "torch.sigmoid({}).nan_to_num(0.5).bernoulli()",
            "torch.rand_like({})",
            "torch.normal({}, 1.0)",
            "F.dropout({}, 0.5)",
        ],
        "test": ["torch.rand_like({}) < 0.5", "torch.bernoulli(torch.full_like({0}, 0.6)) > {0}"],
    },
    "tensorflow": {
        "call": [
            "tf.random.uniform(tf.shape({}))",
            "tf.random.normal(tf.shape({}))",
            "tf.random.stateless_uniform(tf.shape({0}), seed={1})",
            "tf.nn.dropout({}, 0.5)",
        ],
        "test": ["tf.random.uniform(tf.shape({})) < 0.5", "tf.random.uniform(tf.shape({0})) < {0}"],
    },
}
_SHAPED = {
    "jax": {"call": ["jnp.arange(4.0)", "jnp.eye(4)"], "test": ["jnp.arange(4) > 1", "jnp.eye(4) != 0"]},
    "torch": {"call": ["torch.arange(4.0)", "torch.eye(4)"], "test": ["torch.arange(4) > 1", "torch.eye(4) != 0"]},
    "tensorflow": {"call": ["tf.range(4.0)", "tf.eye(4)"], "test": ["tf.range(4) > 1", "tf.eye(4) != 0.0"]},
}
#: The texts to fill in, by framework and kind of step: {0} is an operand, {1} a key.
WILD = {
    framework: {kind: _OPAQUE[kind] + _RANDOM[framework][kind] + _SHAPED[framework][kind] for kind in ("call", "test")}
    for framework in _RANDOM
}
BOUND = 0.5


def reset(bound: float = BOUND) -> None:
    """Make ``import elsewhere`` find the module, with nothing called yet."""
    elsewhere: Any = types.ModuleType("elsewhere")
    elsewhere.BOUND = bound
    elsewhere.calls = 0

    def tick(v: Any) -> Any:
        elsewhere.calls += 1
        return v + 0.125 * elsewhere.calls

    elsewhere.tick = tick
    elsewhere.bend = lambda v: v * v * 0.3 + v - 0.1
    elsewhere.peak = lambda v: 1.0 / v
    elsewhere.ends = lambda v: v[..., :1] - v[..., -1:]
    elsewhere.allowed = lambda v: v > 0.3
    sys.modules["elsewhere"] = elsewhere
