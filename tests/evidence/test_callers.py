"""Where a function of a project is used, and what that says of a gradient."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import write

from wherelint.findings import DetectOptions, analyse
from wherelint.findings.analysis import Analysis
from wherelint.frontend import sources

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
    "a stopped gradient": (
        {"use": _USES.replace("torch", "jax", 1) + "def rank(x): return x * jax.lax.stop_gradient(root(x))\n"}, True,
    ),
    "a number": ({"use": _USES + "def rank(x): return float(root(x))\n"}, True),
    "a comparison": ({"use": _USES + "def rank(x): return x * (root(x) > 3)\n"}, True),
    "a constant": ({"use": _USES + "TABLE = root(torch.arange(9.0))\n"}, True),
    "a function with a derivative of its own": (
        {"use": _USES + "class Root(torch.autograd.Function):\n    @staticmethod\n"
                        "    def forward(ctx, x): return root(x)\n"}, True,
    ),
    "a function with a rule of its own": (
        {"use": "import jax\nfrom functools import partial\nfrom pkg.model import root\n\n"
                "@partial(jax.custom_jvp, nondiff_argnums=(1,))\ndef f(x, n): return root(x)\n"}, True,
    ),
    "a module": ({"use": _USES + "class Net(torch.nn.Module):\n    def forward(self, x): return root(x)\n"}, False),
    "an argument of that name": (
        {"use": _USES + "@torch.no_grad()\ndef rank(x): return root(x)\ndef half(x, root): return root(x)\n"}, True,
    ),
    "a loss whose training is told as numbers": (
        {"use": _USES + "def train(net, xs):\n    loss = 0\n    for x in xs:\n        loss += root(net(x))\n"
                        "    loss.backward()\n    return net\n\n"
                        "def main(net, xs): return float(train(net, xs).size)\n"}, False,
    ),
    "a loss in a list": (
        {"use": _USES + "def train(net, xs):\n    losses = []\n    losses.append(root(net(xs)))\n"
                        "    total = sum(losses)\n    total.backward()\n\n"
                        "@torch.no_grad()\ndef main(net, xs): train(net, xs)\n"}, False,
    ),
    "a loss that a function inside computes": (
        {"use": _USES.replace("torch", "jax", 1) + "def train(p):\n    def loss(p): return root(p)\n"
                "    return jax.value_and_grad(loss)(p)\n\ndef main(p): return float(train(p)[0])\n"}, False,
    ),
    "beside a loss that it trains on itself": (
        {"use": _USES + "def train(net, x):\n    loss = net(x).sum()\n    loss.backward()\n    return root(x)\n\n"
                        "def main(net, x): return float(train(net, x))\n"}, False,
    ),
    "a file of that name in another folder": (
        {"flax/__init__": "", "flax/model": "def root(x): return x\n",
         "flax/use": "from . import model\n\ndef f(x): return model.root(x)\n",
         "use": _USES + "@torch.no_grad()\ndef rank(x): return root(x)\n"}, True,
    ),
    "what a package hands on": (
        {"api/__init__": "from pkg.model import root\n",
         "other": "from pkg import api\n\ndef f(x): return api.root(x)\n",
         "use": _USES + "@torch.no_grad()\ndef rank(x): return root(x)\n"}, False,
    ),
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
    "NumPy": ({"use": _USES + "import numpy as np\ndef rank(x): return np.mean([root(x)])\n"}, True),
    "another NumPy": ({"use": _USES + "import autograd.numpy as np\ndef rank(x): return np.mean([root(x)])\n"}, False),
    "a function that is handed to a solver": (
        {"use": _USES + "import numpy as np\ndef fit(x): return np.asarray(minimize(root, x).tolist())\n"}, False,
    ),
    "a function in a function that is handed to a solver": (
        {"use": _USES + "def fit(x): return minimize(lambda y: root(2 * y), x).tolist()\n"}, False,
    ),
    "a function that is made of it": (
        {"use": _USES + "import numpy as np\ndef rank(x): return np.asarray(torch.vmap(root)(x))\n"}, True,
    ),
    "a draw": ({"use": _USES + "def rank(x): return torch.multinomial(root(x), 1)\n"}, True),
    "a draw with a gradient of 0": ({"use": _USES + "def rank(x): return torch.bernoulli(root(x))\n"}, False),
    "what is relaxed of a draw": ({"use": _USES + "def rank(x): return relaxed_bernoulli(root(x))\n"}, False),
    "a rule of a derivative": (
        {"use": _USES + "class F(torch.autograd.Function):\n"
                        "    def backward(ctx, g): return g * root(ctx.saved_tensors[0])\n"}, True,
    ),
    "a gradient that is switched off": (
        {"use": _USES + "def rank(x):\n    with torch.set_grad_enabled(False):\n        return root(x)\n"}, True,
    ),
    "a gradient that may be switched off": (
        {"use": _USES + "def rank(x):\n    with torch.set_grad_enabled(x.train):\n        return root(x)\n"}, False,
    ),
    "an operation of its own": (
        {"use": _USES + "@torch.library.custom_op('pkg::rank', mutates_args=())\ndef rank(x): return root(x)\n"}, True,
    ),
    "a constraint of weights": (
        {"use": _USES + "class NonNegative(Layer):\n    def __call__(self, w): return root(w)\n"
                        "class UnitConstraint(Constraint):\n    def __call__(self, w): return root(w)\n"}, False,
    ),
    "constraints of weights": (
        {"use": _USES + "class UnitConstraint(Constraint):\n    def __call__(self, w): return root(w)\n"}, True,
    ),
    "another function of the name": (
        {"use": _USES + "@torch.no_grad()\ndef rank(x): return root(x)\n",
         "other": "def root(x): return x\ndef loss(x): return root(x)\n"}, True,
    ),
    "a variable of the name": (
        {"use": "import torch\n\n@torch.no_grad()\ndef rank(x, root): return root(x)\n"}, False,
    ),
    "what another package calls so": (
        {"use": "import torch, numerics\n\n@torch.no_grad()\ndef rank(x): return numerics.root(x)\n"}, False,
    ),
    "another name": (
        {"use": _USES + "@torch.no_grad()\ndef rank(x): return root(x)\n",
         "other": "from pkg.model import root as r\ndef loss(x): return r(x)\n"}, False,
    ),
    "an import in a function": (
        {"use": "import torch\n\n@torch.no_grad()\ndef rank(x):\n    from pkg.model import root\n"
                "    return root(x)\n"}, True,
    ),
    "everything imported": (
        {"use": "import torch\nfrom .model import *\n\n@torch.no_grad()\ndef rank(x): return root(x)\n"}, True,
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
    assert ("shielded by callers" in finding.evidence) is without
    assert finding.confidence == ("low" if without else "high")


@pytest.mark.parametrize(
    ("uses", "without"),
    [
        ("import torch\n\n@torch.no_grad()\ndef rank(net, x): return net.root(x)\n", True),
        ("import torch\n\ndef loss(net, x): return net.root(x)\n", False),
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
    assert ("shielded by callers" in finding.evidence) is without


@pytest.mark.parametrize(
    ("use", "without"), [("def half(x, root): return x / root", True), ("HALF = Net().root", False)]
)
def test_a_variable_of_the_name_of_a_method(
    use: str, without: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rank = "import torch\n\n@torch.no_grad()\ndef rank(net, x): return net.root(x)\n"
    (finding,) = analysed(tmp_path, f"{_METHOD}\n{use}\n", {"use": rank}).findings
    assert ("shielded by callers" in finding.evidence) is without


def test_a_use_in_the_file_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = _ROOT + "\n@torch.no_grad()\ndef rank(x): return root(x)\n"
    assert all("shielded by callers" in finding.evidence for finding in analysed(tmp_path, text, {}).findings)


def test_what_is_called_a_gradient_differentiates_what_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = _ROOT.replace("root", "root_gradient")
    for use, without in (("root_gradient(x)", True), ("torch.func.grad(root_gradient)(x)", False)):
        uses = {"use": _USES.replace("root", "root_gradient") + f"@torch.no_grad()\ndef rank(x): return {use}\n"}
        (finding,) = analysed(tmp_path, text, uses).findings
        assert ("shielded by callers" in finding.evidence) is without


def test_who_uses_a_script_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = _ROOT + "\n@torch.no_grad()\ndef rank(x): return root(x)\n"
    write(tmp_path, {"script.py": text})
    made = analyse(text, "script.py", DetectOptions())
    assert isinstance(made, Analysis)
    assert not any("shielded by callers" in finding.evidence for finding in made.findings)


@pytest.mark.parametrize(("initial", "without"), [("", True), ("from .model import update\n", False)])
def test_many_files_may_call_another_function_of_the_name(
    initial: str, without: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that do not speak of its file mean another, unless a package hands it on."""
    monkeypatch.chdir(tmp_path)
    many = {f"file{i}": "def f(q):\n    return q.update()\n" for i in range(20)}
    use = _USES.replace("root", "update") + "@torch.no_grad()\ndef rank(x): return update(x)\n"
    write(tmp_path, {"pkg/sub/__init__.py": initial})
    (finding,) = analysed(tmp_path, _ROOT.replace("root", "update"), {"use": use, **many}).findings
    assert ("shielded by callers" in finding.evidence) is without


_RANK = "import torch\nfrom model import root\n\n@torch.no_grad()\ndef rank(x): return root(x)\n"


@pytest.mark.parametrize(
    ("files", "without"),
    [
        ({".git/HEAD": "", "rank.py": _RANK}, True),
        ({"pyproject.toml": "", "tools/rank.py": _RANK}, True),
        ({"rank.py": _RANK}, False),  # no repository: a script on its own
        (
            {".git/HEAD": "", "rank.py": _RANK, "train.py": "from model import root\ndef loss(x): return root(x)\n"},
            False,
        ),
        ({".git/HEAD": "", "train.py": "from model import root\ny = root(x)\ny.backward()\n"}, False),
        ({".git/HEAD": "", "rank.py": _RANK, "build/train.py": "def loss(x): return root(x)\n"}, True),
        ({".git/HEAD": "", "rank.py": _RANK, "e/pyvenv.cfg": "", "e/a.py": "def loss(x): return m.root(x)\n"}, True),
        ({".git/HEAD": "", "rank.py": _RANK, "tests/test_it.py": "from model import root\ny = root(1)\n"}, True),
    ],
)
def test_uses_in_the_whole_repository(
    files: dict[str, str], without: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"src/model.py": _ROOT, **files})
    monkeypatch.chdir(tmp_path / "src")
    made = analyse(_ROOT, "model.py", DetectOptions())
    assert isinstance(made, Analysis)
    (finding,) = made.findings
    assert ("shielded by callers" in finding.evidence) is without


def test_what_an_example_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {".git/HEAD": "", "examples/model.py": _ROOT, "examples/rank.py": _RANK})
    made = analyse(_ROOT, "examples/model.py", DetectOptions())
    assert isinstance(made, Analysis)
    assert all("shielded by callers" in finding.evidence for finding in made.findings)


@pytest.mark.parametrize("bound", ["_MOST_FILES", "_MOST_LISTED"])
def test_a_repository_too_large_to_search(bound: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {".git/HEAD": "", "pkg/__init__.py": "", "pkg/model.py": _ROOT, "rank.py": _RANK, "data.csv": ""})
    package = str(tmp_path / "pkg")
    sources.forget()
    assert sources.scope(package) == str(tmp_path)
    monkeypatch.setattr(sources, bound, 1)
    sources.forget()
    assert sources.scope(package) == package
    sources.forget()


def test_a_repository_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [f"pkg{number}" for number in range(9)]
    write(tmp_path, {".git/HEAD": "", **{f"{name}/model.py": _ROOT for name in folders}})
    walked: list[str] = []
    walk = sources._walk
    monkeypatch.setattr(sources, "_walk", lambda root: walked.append(root) or walk(root))
    sources.forget()
    assert {sources.scope(str(tmp_path / name)) for name in folders} == {str(tmp_path)}
    assert walked == [str(tmp_path)]
    sources.forget()
