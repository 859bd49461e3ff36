"""Every form of import leads to the one spelling that the tables use."""

from __future__ import annotations

import ast

import pytest

from wherelint import check_source, fix_source
from wherelint.finding import Location
from wherelint.findings import DetectOptions, detect
from wherelint.frameworks import framework_of
from wherelint.frontend.names import canonical, imported


def names(text: str, package: str = "") -> dict[str, str]:
    (statement,) = ast.parse(text).body
    assert isinstance(statement, (ast.Import, ast.ImportFrom))
    return imported(statement, package)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import jax", {"jax": "jax"}),
        ("import jax.numpy", {"jax": "jax"}),
        ("import jax.numpy as jnp", {"jnp": "jax.numpy"}),
        ("import jax, torch as t", {"jax": "jax", "t": "torch"}),
        ("from jax import numpy as jnp, lax", {"jnp": "jax.numpy", "lax": "jax.lax"}),
        ("from torch import where", {"where": "torch.where"}),
        ("from torch import where as pick", {"pick": "torch.where"}),
        ("from jax.numpy import *", {}),
    ],
    ids=str,
)
def test_an_import_binds_its_local_names(text: str, expected: dict[str, str]) -> None:
    assert names(text) == expected


def test_a_relative_import_is_never_taken_for_an_installed_package() -> None:
    assert names("from . import torch") == {"torch": ".torch"}
    assert names("from .torch import where") == {"where": ".torch.where"}
    for target in (*names("from . import torch").values(), *names("from .torch import where").values()):
        assert framework_of(canonical(target)) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from .ops import f", "a.b.ops.f"),
        ("from . import ops", "a.b.ops"),
        ("from ..ops import f", "a.ops.f"),
    ],
)
def test_a_relative_import_is_resolved_against_its_package(text: str, expected: str) -> None:
    (target,) = names(text, "a.b").values()
    assert target.lstrip(".") == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("jax.numpy.where", "jax.numpy.where"),
        ("tensorflow.compat.v1.where", "tensorflow.where"),
        ("tensorflow.compat.v2.math.log", "tensorflow.math.log"),
        ("tensorflow.experimental.numpy.where", "tensorflow.experimental.numpy.where"),
        ("cupy.where", "numpy.where"),
        ("keras.backend.sqrt", "tensorflow.keras.backend.sqrt"),
        ("tensorflow.keras.ops.where", "keras.ops.where"),
        ("torch.functional.norm", "torch.norm"),
        ("flax.linen.relu", "jax.nn.relu"),
        ("flax.linen.Dense", "flax.linen.Dense"),
        ("scico.numpy.where", "jax.numpy.where"),
        ("scico.numpy", "jax.numpy"),
        ("scico.numpy.linalg.norm", "jax.numpy.linalg.norm"),
        ("mine.numpy_helpers.where", "mine.numpy_helpers.where"),
        ("numpy.where", "numpy.where"),
        ("numpy", "numpy"),
        ("numpyro.where", "numpyro.where"),
    ],
)
def test_the_one_spelling(name: str, expected: str) -> None:
    assert canonical(name) == expected


def test_configured_aliases_come_first() -> None:
    assert canonical("mine.where", {"mine": "torch"}) == "torch.where"
    assert canonical("mine.special.log", {"mine": "torch", "mine.special": "jax.numpy"}) == "jax.numpy.log"
    assert canonical("miner.where", {"mine": "torch"}) == "miner.where"


@pytest.mark.parametrize(
    ("name", "framework"),
    [
        ("jax", "jax"),
        ("jax.numpy", "jax"),
        ("keras.ops", "tensorflow"),
        ("torch.nn.functional", "torch"),
        ("jaxlib", None),
        ("torchvision.ops", None),
        ("numpy", None),
    ],
)
def test_the_framework_of_a_name(name: str, framework: str | None) -> None:
    assert framework_of(name) == framework


def test_imported_names_mean_what_their_modules_say() -> None:
    text = (
        "from torch import inf as big, log, no_grad as paused, where\n\n\n"
        "@paused()\ndef f(x):\n    return where(x > 0, log(x), -big)\n\n\n"
        "def g(x):\n    return where(x > 0, log(x), 0.0)\n\n\n"
        "def h(x):\n    return where(x < big, log(where(x < big, 1.0, x)), 0.0)\n"
    )
    found, _ = detect(text, "a.py", DetectOptions())
    assert [finding.function for finding in found] == ["g"]


def test_names_are_read_as_python_reads_them() -> None:
    """Letters of full width and ligatures: a name is its NFKC form, and the places are those of the text."""
    text = (
        "import ｊａｘ.numpy as jnp\n\n\n"
        "def f(ｘ):\n    return jnp.ｗｈｅｒｅ(x > 0, jnp.ｓｑｒｔ(ｘ), 0.0)\n\n\n"
        "def g(ﬁne):\n    return jnp.where(fine > 0, jnp.ſqrt(ﬁne), 0.0)\n"
    )
    report = check_source(text, fixes=True)
    assert [(f.function, f.code, f.location, f.end_location.column) for f in report.findings] == [
        ("f", "WL101", Location(5, 29), 40), ("g", "WL101", Location(9, 32), 45)
    ]  # fmt: skip
    fixed, after = fix_source(text)
    assert len(after.fixed) == 2
    assert "jnp.where(fine > 0, jnp.ſqrt(jnp.where(fine > 0, ﬁne, 1.0)), 0.0)" in fixed
    assert "'ｘ'" in fix_source(text + "s = 'ｘ'\n")[0]
