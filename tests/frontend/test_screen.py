"""The screen lets everything through that can hold a finding, and not much else."""

from __future__ import annotations

from pathlib import Path

import pytest

from wherelint.findings import DetectOptions, detect
from wherelint.frontend import screen
from wherelint.frontend.module import Module
from wherelint.frontend.sources import forget

HEADER = "import jax.numpy as jnp\nfrom torch import where as pick\n"


def roots(text: str) -> list[tuple[str, ...]]:
    return screen.roots(Module("a.py", HEADER + text))


OPEN = {
    "a selection": "def f(x): return jnp.where(x > 0, jnp.sqrt(x), 0.0)",
    "a selection by another name": "def f(x): return pick(x > 0, x.sqrt(), 0.0)",
    "a selection as a method": "def f(x): return x.sqrt().masked_fill(x > 0, 1.0)",
    "a clip": "def f(x): return jnp.arccos(jnp.clip(x, -1, 1))",
    "a masked reduction": "def f(x, m): return jnp.mean(jnp.sqrt(x), where=m)",
    "a product with a comparison": "def f(x): return (x > 0) * jnp.sqrt(x)",
    "an index after a quotient": "def f(x): return jnp.array([0.0, 1 / x])[0]",
    "an async function": "async def f(x): return jnp.where(x > 0, jnp.sqrt(x), 0.0)",
    "a lambda": "f = lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0)",
    "a local import": "def f(x):\n    import torch as t\n    return t.where(x > 0, x.sqrt(), x)",
    "an inner function": "def f(x):\n    def g(y): return jnp.where(y > 0, jnp.sqrt(y), 0.0)\n    return g(x)",
}
SHUT = {
    "arithmetic": "def f(x): return x * 2 + jnp.sin(x)",
    "a quotient": "def f(x, y): return x / y",
    "an index": "def f(x): return x[0] + x[1]",
    "a constant": "F = 3.0",
    "an empty class": "class f: pass",
}


@pytest.mark.parametrize("text", OPEN.values(), ids=OPEN)
def test_what_is_let_through(text: str) -> None:
    assert roots(text) == [("f",)]


@pytest.mark.parametrize("text", SHUT.values(), ids=SHUT)
def test_what_is_kept_out(text: str) -> None:
    assert roots(text) == []


def test_a_caller_that_combines_two_helpers_is_let_through() -> None:
    text = "def choose(m, x): return jnp.where(m, x, 0.0)\ndef root(x): return jnp.sqrt(x)\n"
    assert ("f",) in roots(text + "def f(x): return choose(x > 0, root(x))")
    assert ("f",) in roots(text + "def g(x): return root(x)\ndef f(x): return choose(x > 0, g(x))")


def test_methods_are_roots_of_their_own_in_file_order() -> None:
    body = "(self, x): return jnp.where(x > 0, jnp.sqrt(x), 0.0)\n"
    text = f"class A:\n    def b{body}    def a{body}"
    assert roots(text + "def f(x): return jnp.where(x > 0, 1 / x, 0.0)") == [("A", "b"), ("A", "a"), ("f",)]


@pytest.mark.parametrize(
    "text",
    ["import numpy as np\n\ndef f(x):\n    return np.where(x > 0, np.sqrt(x), 0.0)\n", "x = 1\n", ""],
    ids=["numpy", "nothing", "empty"],
)
def test_a_file_without_a_framework_costs_nothing(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    import wherelint.findings.analysis as module

    monkeypatch.setattr(module, "analyse_functions", lambda *_: pytest.fail("the file was analysed"))
    assert detect(text, "a.py", DetectOptions()) == ([], [])


def test_a_look_alike_is_searched_if_it_is_configured_or_its_package_imports_a_framework(tmp_path: Path) -> None:
    text = "import mine as m\n\n\ndef f(x):\n    return m.where(x > 0, m.sqrt(x), 0.0)\n"
    (tmp_path / "__init__.py").touch()
    name = str(tmp_path / "a.py")
    assert detect(text, name, DetectOptions()) == ([], [])
    found, _ = detect(text, name, DetectOptions(aliases={"mine": "jax.numpy"}))
    assert [f.code for f in found] == ["WL101"]
    forget()
    (tmp_path / "b.py").write_text("import jax\n")
    found, _ = detect(text, name, DetectOptions())
    assert [f.code for f in found] == ["WL101"]
    assert detect(text.replace("mine", "cupy"), name, DetectOptions()) == ([], [])
