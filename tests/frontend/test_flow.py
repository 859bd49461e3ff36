"""The screen of functions: what it has to pass, and what it saves."""

from pathlib import Path

import pytest

from wherelint.frontend import screen
from wherelint.frontend.module import Module

HEAD = "import jax\nimport jax.numpy as jnp\nfrom functools import partial\n\n\n"
HELPERS = """
def inverse(x):
    return 1 / x


def choose(mask, x):
    return jnp.where(mask, x, 0.0)


def bounded(x):
    return jnp.maximum(x, 0.0)


def even(x):
    if x is None:
        return odd(x)
    return jnp.sqrt(x)


def odd(x):
    return even(x)


class Table:
    def __init__(self, x):
        self.inverse = 1 / x

    def read(self, mask):
        return jnp.where(mask, self.inverse, 0.0)

    @property
    def bare(self):
        return 2.0
"""
PASSED = {
    "a name between": "y = 1 / x\n    z = y + 1\n    return jnp.where(x > 0, z, 0.0)",
    "whatever the order": "y = x\n    while True:\n        z = jnp.where(x > 0, y, 0.0)\n        y = 1 / x\n",
    "a helper divides": "return jnp.where(x > 0, inverse(x), 0.0)",
    "a helper selects": "return choose(x > 0, jnp.sqrt(x))",
    "two helpers": "return choose(x > 0, inverse(x))",
    "a circle of helpers": "return jnp.where(x > 0, odd(x), 0.0)",
    "a clip feeds it": "return jnp.sqrt(bounded(x))",
    "a function of a framework is handed on": "return jnp.where(x > 0, jax.vmap(jnp.sqrt)(x), 0.0)",
    "a helper is handed on": "return jax.vmap(choose)(x > 0, jnp.log(x))",
    "a part of a helper": "return partial(choose, x > 0)(jnp.log(x))",
    "a function inside": "def inner(y):\n        return jnp.where(x > 0, y, 0.0)\n    return inner(1 / x)",
    "a lambda": "return jax.lax.cond(x > 0, lambda y: jnp.sqrt(y), lambda y: y, x)",
    "a list": "found = []\n    found.append(jnp.log(x))\n    return jnp.where(x > 0, found[0], 0.0)",
    "a product with a mask": "mask = x > 0\n    return mask * jnp.log(x)",
    "an index": "return jnp.log(x)[x > 0]",
    "written in place": "return jnp.log(x).at[0].set(0.0)",
    "a test for nan": "return jnp.where(jnp.isnan(x), 0.0, x * x)",
    "a test in other words": "return jnp.where(x != x, 0.0, x * x)",
    "a comparison with inf": "return jnp.where(jnp.abs(x) < jnp.inf, x * x, 0.0)",
    "a size may be 1": "return jnp.where(x > 0, x / (x.shape[0] - 1), 0.0)",
    "a power": "return jnp.where(x > 0, x**0.5, 0.0)",
    "by its name": 'return jnp.where(x > 0, getattr(jnp, "sqrt")(x), 0.0)',
}
DISMISSED = {
    "nothing singular": "return jnp.where(x > 0, x * x, 0.0)",
    "nothing selects": "y = x > 0\n    return 1 / x + jnp.sqrt(x)",
    "a constant divides": "return jnp.where(x > 0, x / 2.0, 0.0)",
    "after the selection": "return 1 / jnp.where(x > 0, x, 1.0)",
    "a square": "return jnp.where(x > 0, x**2, 0.0)",
    "its derivative is stopped": "return jnp.where(x > 0, jax.lax.stop_gradient(1 / x), 0.0)",
    "it only decides": "return jnp.where(1 / x > 0, x, 0.0)",
    "two that do not meet": "y = jnp.where(x > 0, x, 0.0)\n    return y + 1 / x",
    "a helper with both of its own": "return Table(x).bare + jnp.where(x > 0, x, 0.0)",
}


def passed(body: str) -> bool:
    text = f"{HEAD}{HELPERS}\n\ndef f(x):\n    {body}\n"
    module = Module("a.py", text)
    return screen.meets(module, ("f",), module, module.definitions["f"].statement)


@pytest.mark.parametrize("body", PASSED.values(), ids=PASSED)
def test_what_may_be_a_finding_is_read(body: str) -> None:
    assert passed(body)


@pytest.mark.parametrize("body", DISMISSED.values(), ids=DISMISSED)
def test_what_cannot_be_one_is_not_read(body: str) -> None:
    assert not passed(body)


def test_attributes_are_handed_on_between_methods() -> None:
    names = screen.roots(Module("a.py", HEAD + HELPERS))
    assert ("Table", "read") in names
    assert ("Table", "bare") not in names


def test_a_base_class_of_another_file(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    base = "class Base:\n    def __init__(self, x):\n        self.inverse = 1 / x\n"
    (tmp_path / "pack" / "base.py").write_text(base)
    heir = "class Heir(Base):\n    def read(self, mask):\n        return jnp.where(mask, self.inverse, 0.0)\n"
    text = f"{HEAD}from .base import Base\n\n\n{heir}"
    path = tmp_path / "pack" / "heir.py"
    path.write_text(text)
    assert screen.roots(Module(str(path), text)) == [("Heir", "read")]
