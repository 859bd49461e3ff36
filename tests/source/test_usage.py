"""Where a function of a project is used, and what that says of a gradient."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import write

from wherelint.analysis import DetectOptions, analyse
from wherelint.analysis.findings import Analysis

_ROOT = "import torch\n\ndef root(x): return torch.where(x > 0, x.sqrt(), 0.0)\n"
_METHOD = (
    "import torch\n\nclass Net:\n    def root(self, x): return torch.where(x > 0, x.sqrt(), 0.0)\n"
    "    def other(self): return self\n"
)
_USES = "import torch\nfrom pkg.model import root\n\n"

#: What other files of the project say, and whether every use keeps gradients away.
USES = {
    "nobody": ({}, False),
    "a function": ({"use": _USES + "def loss(x): return root(x).sum()\n"}, False),
    "a decorator": ({"use": _USES + "@torch.no_grad()\ndef rank(x): return root(x)\n"}, True),
    "a context": ({"use": _USES + "def rank(x):\n    with torch.no_grad():\n        return root(x)\n"}, True),
    "beside it": ({"use": _USES + "def rank(x):\n    with torch.no_grad(): x += 1\n    return root(x)\n"}, False),
    "a detached result": ({"use": _USES + "def rank(x): return x * root(x).detach()\n"}, True),
    "a number": ({"use": _USES + "def rank(x): return float(root(x))\n"}, True),
    "a comparison": ({"use": _USES + "def rank(x): return x * (root(x) > 3)\n"}, True),
    "a constant": ({"use": _USES + "TABLE = root(torch.arange(9.0))\n"}, True),
    "a table of functions": ({"use": _USES + "TABLE = {'root': root}\n"}, False),
    "a metric": ({"metrics/use": _USES + "def rank(x): return root(x)\n"}, True),
    "a metric and a loss": (
        {"metrics/use": _USES + "def rank(x): return root(x)\n", "use": _USES + "def loss(x): return root(x)\n"}, False,
    ),
    "a test": ({"test_use": _USES + "def test(): assert root(1) == 1\n"}, False),
    "a demonstration": ({"demo": _USES + "def show(x): return root(x)\n"}, False),
    "an example": ({"examples/use": _USES + "TABLE = root(torch.arange(9.0))\n"}, False),
    "a test and a metric": (
        {"test_use": _USES + "def test(): root(1)\n", "metrics/use": _USES + "def rank(x): return root(x)\n"}, True,
    ),
    "inference": (
        {"use": _USES + "class Net:\n    def forward(self, x):\n        if self.training:\n            return x\n"
                        "        else:\n            return root(x)\n"}, True,
    ),
    "training": (
        {"use": _USES + "class Net:\n    def forward(self, x):\n        if not self.training:\n            return x\n"
                        "        else:\n            return root(x)\n"}, False,
    ),
    "a caller's caller": (
        {"use": _USES + "def half(x): return root(x) / 2\n",
         "rank": "import torch\nfrom pkg.use import half\n\n@torch.no_grad()\ndef rank(x): return half(x)\n"}, True,
    ),
    "a gradient that is printed": ({"use": _USES + "print(torch.func.grad(root)(torch.ones(())))\n"}, False),
    "a variable that is compared": (
        {"use": _USES + "def rank(x):\n    y = root(x)\n    return x * (y > 3)\n"}, True,
    ),
    "a variable that is compared, and more": (
        {"use": _USES + "def rank(x):\n    y = root(x)\n    return y * (y > 3)\n"}, False,
    ),
    "a draw": ({"use": _USES + "def rank(x): return torch.multinomial(root(x), 1)\n"}, True),
    "a draw with a gradient of 0": ({"use": _USES + "def rank(x): return torch.bernoulli(root(x))\n"}, False),
    "what is relaxed of a draw": ({"use": _USES + "def rank(x): return relaxed_bernoulli(root(x))\n"}, False),
    "a rule of a derivative": (
        {"use": _USES + "class F(torch.autograd.Function):\n"
                        "    def backward(ctx, g): return g * root(ctx.saved_tensors[0])\n"}, True,
    ),
    "an object that is made": ({"use": _USES + "class Net:\n    def __init__(self): self.root = [root]\n"}, False),
    "itself": ({"use": _USES + "def half(x): return root(x) + half(x / 2)\n"}, False),
}  # fmt: skip


def analysed(tmp_path: Path, model: str, uses: dict[str, str]) -> Analysis:
    files = {"pkg/__init__.py": "", "pkg/metrics/__init__.py": "", "pkg/model.py": model}
    write(tmp_path, files | {f"pkg/{name}.py": text for name, text in uses.items()})
    made = analyse(model, str(tmp_path / "pkg/model.py"), DetectOptions())
    assert isinstance(made, Analysis)
    return made


@pytest.mark.parametrize("name", USES)
def test_what_the_uses_of_a_function_say(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uses, without = USES[name]
    monkeypatch.chdir(tmp_path)
    (finding,) = analysed(tmp_path, _ROOT, uses).findings
    assert ("used without gradients" in finding.evidence) is without
    assert finding.confidence == ("low" if without else "high")


@pytest.mark.parametrize(
    ("uses", "without"),
    [
        ("import torch\n\n@torch.no_grad()\ndef rank(net, x): return net.root(x)\n", True),
        ("import torch\n\ndef loss(net, x): return net.root(x)\n", False),
        (
            "import torch\n\nclass Small(Net):\n    def root(self): pass\n\n@torch.no_grad()\ndef rank(n): n.root(1)\n",
            True,
        ),
        # Which of the two it is, nobody knows.
        (
            "import torch\n\nclass Other:\n    def root(self): pass\n\n@torch.no_grad()\ndef rank(n): n.root(1)\n",
            False,
        ),
    ],
)
def test_what_the_uses_of_a_method_say(
    uses: str, without: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (finding,) = analysed(tmp_path, _METHOD, {"use": uses}).findings
    assert ("used without gradients" in finding.evidence) is without


def test_a_use_in_the_file_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = _ROOT + "\n@torch.no_grad()\ndef rank(x): return root(x)\n"
    assert all("used without gradients" in finding.evidence for finding in analysed(tmp_path, text, {}).findings)


def test_who_uses_a_script_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = _ROOT + "\n@torch.no_grad()\ndef rank(x): return root(x)\n"
    write(tmp_path, {"script.py": text})
    made = analyse(text, "script.py", DetectOptions())
    assert isinstance(made, Analysis)
    assert not any("used without gradients" in finding.evidence for finding in made.findings)
