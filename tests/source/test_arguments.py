"""What calls hand to a function, and which method they mean."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import write

from wherelint.analysis import DetectOptions, analyse
from wherelint.analysis.findings import Analysis
from wherelint.finding import Finding

_ROOT = "import torch\n\ndef root(x, scale=2.0): return torch.where(x > 0, x.sqrt(), 0.0) * scale\n"
_USES = "import torch\nfrom pkg.model import root\n\n"


def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, **uses: str) -> Finding:
    """The finding in a package with some other files."""
    monkeypatch.chdir(tmp_path)
    files = {"pkg/__init__.py": "", "pkg/model.py": model}
    write(tmp_path, files | {f"pkg/{name}.py": text for name, text in uses.items()})
    made = analyse(model, str(tmp_path / "pkg/model.py"), DetectOptions())
    assert isinstance(made, Analysis)
    (finding,) = made.findings
    return finding


@pytest.mark.parametrize(
    ("use", "without"),
    [
        ("def f(x): return root(x)", False),
        ("def f(x): return root(2.0)", True),
        ("def f(x): return root(x.detach(), x)", True),
        ("def f(x): return root(torch.linspace(0, 1, 5) ** 2)", True),
        ("def f(x): return root(x.new_zeros(3).normal_())", True),
        ("def f(x):\n    y = x.detach() + 1\n    return root(torch.sin(y).view(len(x)))", True),
        ("def f(x):\n    y = x.detach()\n    y = y * x\n    return root(y)", False),
        ("def f(x):\n    with torch.no_grad():\n        y = x + 1\n    return root(y)", True),
        ("def f(x):\n    with torch.no_grad():\n        y = x + 1\n    y = y * x\n    return root(y)", False),
        ("def f(x, target): return root(target[0])", True),
        ("def f(x, count: int): return root(count / 2)", True),
        ("def f(x, config): return root(config.start)", True),
        ("def f(x, config): return root(**config.options)", True),
        ("def f(x, options): return root(*options)", False),
        ("def f(x): return root(helper(x.detach()))\ndef helper(x): return x * 2", True),
        ("def f(x, net): return root(net(x.detach()))", False),
        ("def f(x): return root(torch.ones(3))\ndef g(x): return root(x)", False),
        ("def f(x): return map(root, x.detach())", False),
        ("class N(torch.nn.Module):\n    def __init__(self): self.register_buffer('k', torch.ones(3))\n"
         "    def f(self): return root(self.k)", True),
        ("class N(torch.nn.Module):\n    def __init__(self): self.k = torch.nn.Parameter(torch.ones(3))\n"
         "    def f(self): return root(self.k)", False),
        ("def f(x, y): return root(y)\ndef g(x): return f(x, y=x.detach())", True),
        ("def f(x, y): return root(y)\ndef g(x): return f(x, y=x)", False),
        ("def f(x, y): return root(y)", False),
    ],
)  # fmt: skip
def test_whether_calls_hand_on_what_is_differentiated(
    use: str, without: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = found(tmp_path, monkeypatch, _ROOT, use=_USES + use)
    assert ("called without gradients" in finding.evidence) is without


def test_what_jax_traces_may_be_annotated_as_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jax = "import jax.numpy as jnp\n\ndef root(x): return jnp.where(x > 0, jnp.sqrt(x), 0.0)\n"
    for framework, without in (("jax", False), ("torch", True)):
        use = f"import {framework}\nfrom pkg.model import root\n\ndef f(x: float): return root(x)\n"
        finding = found(tmp_path, monkeypatch, jax, use=use)
        assert ("called without gradients" in finding.evidence) is without


@pytest.mark.parametrize(
    ("use", "said"),
    [
        ("def f(x): return ratio(x, 2.0)", True),
        ("def f(x): return ratio(x, scale=3)", True),
        ("def f(x): return partial(ratio, scale=1.0)", True),
        ("def f(x): return partial(ratio, x)", False),
        ("def f(x): return ratio(x, 0.0)", False),
        ("def f(x): return ratio(x, 2.0) + ratio(x, x)", False),
        ("def f(x): return x", False),
    ],
)
def test_a_number_that_no_call_hands_on(use: str, said: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = "import torch\n\ndef ratio(x, scale): return torch.where(scale > 0, x / scale, 0.0)\n"
    uses = "import torch\nfrom functools import partial\nfrom pkg.model import ratio\n\n"
    finding = found(tmp_path, monkeypatch, model, use=uses + use)
    assert ("no caller's number" in finding.evidence) is said


_METHOD = (
    "import torch\n\nclass Net:\n    def put(self, x, y): return torch.where(x > 0, x.sqrt(), y)\n"
    "    def other(self): return self\n"
)
_RANK = "import torch\nfrom pkg.model import Net\n\n@torch.no_grad()\ndef rank(net, x): return net.put(x, x)\n"


@pytest.mark.parametrize(
    ("use", "without"),
    [
        ("", True),
        ("def f(q, x): return q.put(x, x)", False),
        ("def f(q, x): return q.put(x)", True),  # a method of something else
        ("def f(q, x): return q.put(x, x, x)", True),
        ("def f(q, x): return q.put(x, block=x)", True),
        ("def f(q, x): return q.put(*x)", False),
        ("def f(q, x): return q.put(**x)", False),
        ("def f(q, x): return Net.put(q, x, x)", False),
        ("def f(x):\n    q = []\n    return q.put(x, x)", True),
        ("def f(q, x):\n    q = []\n    return q.put(x, x)", False),
        ("def f(q, x):\n    p = []\n    p = q\n    return p.put(x, x)", False),
        ("class A:\n    def __init__(self): self.q = {}\n    def f(self, x): return self.q.put(x, x)", True),
        ("class A:\n    def __init__(self, q): self.q = q\n    def f(self, x): return self.q.put(x, x)", False),
        # Another class, of which this file, which imports that of the method, may have objects; its own `self` is none.
        ("class A:\n    def put(self, x, y): return x\n    def f(self, x): return self.put(x, x)", True),
        ("class A:\n    def put(self, x, y): return x\ndef f(q, x): return q.put(x, x)", False),
        ("class A(Net):\n    def put(self, x, y): return x\n    def f(self, x): return self.put(x, x)", False),
    ],
)
def test_which_method_a_call_means(use: str, without: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finding = found(tmp_path, monkeypatch, _METHOD, use=f"{_RANK}\n{use}\n")
    assert ("used without gradients" in finding.evidence) is without


def test_many_files_may_call_another_method_of_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They say nothing: without an argument, or without an object, they cannot mean this one."""
    many = {f"file{i}": "def f(q, put):\n    '''Put it.'''\n    return q.put()\n" for i in range(20)}
    finding = found(tmp_path, monkeypatch, _METHOD, use=_RANK, **many)
    assert "used without gradients" in finding.evidence


@pytest.mark.parametrize(("initial", "without"), [("", True), ("from .model import update\n", False)])
def test_many_files_may_call_another_function_of_the_name(
    initial: str, without: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that do not speak of its file mean another, unless a package hands it on."""
    monkeypatch.chdir(tmp_path)
    model = _ROOT.replace("root", "update")
    many = {f"file{i}": "def f(q):\n    return q.update()\n" for i in range(20)}
    use = _USES.replace("root", "update") + "@torch.no_grad()\ndef rank(x): return update(x)\n"
    write(tmp_path, {"pkg/sub/__init__.py": initial})
    finding = found(tmp_path, monkeypatch, model, use=use, **many)
    assert ("used without gradients" in finding.evidence) is without
