"""What draws random numbers, as the frameworks themselves say or show it."""

from __future__ import annotations

import builtins

import numpy as np
import pytest
from real_gradients import require

from wherelint.ops import SIGNATURES
from wherelint.ops.purity import draws, is_pure, is_pure_method


def test_every_seeded_operation_of_torch_draws() -> None:
    require("torch")
    import torch

    names = set()
    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        packet = getattr(torch.ops.aten, name, None) if space == "aten" else None
        overload = getattr(packet, schema.overload_name or "default", None)
        if overload is not None and torch.Tag.nondeterministic_seeded in overload.tags and not name.startswith("_"):
            names.add(name)
    assert {"bernoulli", "poisson", "multinomial", "dropout", "rrelu", "normal"} <= names
    functions = [f"torch.{n}" for n in names if hasattr(torch, n)]
    functions += [f"torch.nn.functional.{n}" for n in names if hasattr(torch.nn.functional, n)]
    assert [name for name in functions if not draws(name) or is_pure(name)] == []
    assert [name for name in names if hasattr(torch.Tensor, name) and is_pure_method(name)] == []


@pytest.mark.parametrize(
    "name", ["normal", "uniform", "poisson", "gamma", "truncated_normal", "categorical", "shuffle"]
)
def test_tensorflow_draws(name: str) -> None:
    require("tensorflow")
    import tensorflow as tf

    arguments = {
        "poisson": ([8], 5.0), "gamma": ([8], 2.0), "categorical": ([[0.0] * 9], 20), "shuffle": (tf.range(50),)
    }.get(name, ([8],))  # fmt: skip
    function = getattr(tf.random, name)
    assert not np.array_equal(function(*arguments), function(*arguments))
    assert draws(f"tensorflow.random.{name}")


def test_what_is_given_a_key_or_a_seed_gives_the_same() -> None:
    require("jax")
    import jax

    key = jax.random.PRNGKey(3)
    np.testing.assert_array_equal(jax.random.normal(key, (8,)), jax.random.normal(key, (8,)))
    assert is_pure("jax.random.normal")
    assert is_pure("tensorflow.random.stateless_uniform")


@pytest.mark.parametrize("name", [
    "torch.bernoulli", "torch.poisson", "torch.nn.functional.dropout", "torch.nn.functional.gumbel_softmax",
    "torch.nn.functional.dropout2d", "torch.nn.functional.fractional_max_pool2d", "numpy.random.exponential",
    "numpy.random.default_rng", "keras.random.normal", "tensorflow.nn.dropout", "torch.nn.functional.relu_",
    "jax.debug.print", "jax.experimental.io_callback", "tensorflow.print", "tensorflow.py_function", "mine.helper",
    "builtins.print", "builtins.next", "torch.manual_seed", "torch.nn.Dropout", "tensorflow.Variable",
])  # fmt: skip
def test_what_is_not_called_twice(name: str) -> None:
    assert not is_pure(name)


@pytest.mark.parametrize("name", [
    "jax.numpy.fft.fft", "jax.scipy.special.betainc", "torch.nn.functional.pad", "torch.cummax", "numpy.interp",
    "math.gamma", "tensorflow.math.lbeta", "builtins.abs", "keras.ops.where", "torch.nn.functional.poisson_nll_loss",
])  # fmt: skip
def test_what_may_be_called_twice(name: str) -> None:
    assert is_pure(name)


def test_the_catalogue_is_pure_but_for_what_writes_to_its_operand() -> None:
    assert [n for n in SIGNATURES if not is_pure(n) and not n.endswith("_")] == []


def test_a_builtin_that_reads_or_writes_is_not_pure() -> None:
    impure = {n for n in dir(builtins) if not is_pure(f"builtins.{n}")}
    assert {"print", "input", "open", "exec", "eval", "next"} <= impure
