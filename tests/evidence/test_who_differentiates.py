"""Who differentiates a function: its callers in the project, what they pass, and the code around a selection."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from conftest import write

from wherelint.evidence.carrying import Carrying, Scope
from wherelint.evidence.pieces import ERROR, Evidence, labelled, level, worth
from wherelint.evidence.reach import reach
from wherelint.finding import Finding
from wherelint.frontend.module import Module
from wherelint.io.config import Settings
from wherelint.run.check import check_source

ROOT = """
import torch


def root(x):
    return torch.where(x > 0, torch.sqrt(x), 0.0)
"""


def module(root: Path, files: dict[str, str], name: str = "a.py") -> Module:
    write(root, {".git/HEAD": "", **{path: textwrap.dedent(text) for path, text in files.items()}})
    return Module(str(root / name), (root / name).read_text())


@pytest.mark.parametrize(
    ("caller", "found"),
    [
        ("from a import root\ndef train(x):\n    root(x).sum().backward()", None),
        ("from a import root\ndef loss(x):\n    return root(x).sum()", None),
        ("import jax\nfrom a import root\nslope = jax.grad(root)", None),
        ("import torch.nn as nn\nfrom a import root\nclass N(nn.Module):\n    def forward(self, x):\n"
         "        return root(x)", None),
        ("from a import root\ndef middle(x):\n    return root(x)\ndef train(x):\n    middle(x).backward()", None),
        ("from a import root\ndef accuracy(x):\n    print(root(x))", Evidence.UNREACHED),
        ("import torch\nfrom a import root\n@torch.no_grad()\ndef f(x):\n    root(x).backward()", Evidence.UNREACHED),
        ("import torch\nfrom a import root\ndef loss(x):\n    with torch.no_grad():\n        return root(x)",
         Evidence.UNREACHED),
        ("from jax import lax\nfrom a import root\ndef loss(x):\n    return lax.while_loop(bool, root, x)",
         Evidence.UNREACHED),
        ("import jax\nfrom a import root\ndef loss(x):\n    def body(x):\n        return root(x)\n"
         "    return jax.lax.while_loop(bool, body, x)", Evidence.UNREACHED),
        ("import tensorflow as tf\nfrom a import root\ndef loss(x):\n    return tf.while_loop(bool, root, x)", None),
        ("from a import root\nprint(root(1.0))", Evidence.UNREACHED),
        ("def other(x):\n    return x", None),  # it was written for somebody
        ("from a import other\nprint(other(1.0))", Evidence.UNSEEN),  # who uses other parts of the file
        ("def root(x):\n    return x\nprint(root(1.0))", None),  # another one
    ],
)  # fmt: skip
def test_an_application_is_all_there_is(caller: str, found: Evidence | None, tmp_path: Path) -> None:
    assert reach(module(tmp_path, {"a.py": ROOT, "b.py": caller}), ("root",)) is found


@pytest.mark.parametrize(
    ("caller", "found"),
    [
        ("def other(x):\n    return x", None),  # everybody may call it
        ("from a import root\ndef shown(x):\n    print(root(x))", Evidence.UNSEEN),
        ("from a import root\ndef loss(x):\n    return root(x)", None),
        ("import torch\nfrom a import root\n@torch.no_grad()\ndef shown(x):\n    print(root(x))", Evidence.UNREACHED),
    ],
)
def test_a_library_has_callers_that_nobody_knows(caller: str, found: Evidence | None, tmp_path: Path) -> None:
    packaged = {"pyproject.toml": '[project]\nname = "a"\n', "a.py": ROOT, "b.py": caller}
    assert reach(module(tmp_path, packaged), ("root",)) is found


def test_a_package_without_a_project_is_a_library(tmp_path: Path) -> None:
    write(tmp_path, {"p/__init__.py": "", "p/a.py": ROOT, "p/b.py": "x = 1\n"})
    assert reach(Module(str(tmp_path / "p/a.py"), ROOT), ("root",)) is None


def test_a_project_may_hold_a_library(tmp_path: Path) -> None:
    files = {"python/setup.py": "", "python/a.py": ROOT, "b.py": "x = 1\n"}
    assert reach(module(tmp_path, files, "python/a.py"), ("root",)) is None


def test_only_what_is_differentiated_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def checked(caller: str) -> Finding:
        home = tmp_path / str(len(list(tmp_path.iterdir())))
        home.mkdir()
        monkeypatch.chdir(home)
        write(home, {".git/HEAD": "", "a.py": ROOT, "b.py": caller})
        (finding,) = check_source(ROOT.encode(), "a.py", Settings(level="note")).findings
        return finding

    assert checked("from a import root\nroot(1.0).backward()\n").level == "error"
    unreached = checked("from a import root\nprint(root(1.0))\n")
    assert unreached.level != "error"
    assert worth(labelled(unreached.evidence) - {Evidence.UNREACHED}) >= ERROR
    assert checked("x = 1\n").level == "error"
    for piece in (Evidence.UNSEEN, Evidence.UNREACHED):
        assert level([piece, Evidence.DIFFERENTIATED]) == level([piece, Evidence.NEAR]) == "error"


@pytest.mark.parametrize(
    ("name", "carries"),
    [
        ("x", True),
        ("y", True),
        ("torch.linspace(0, 1, n)", False),
        ("grid", False),
        ("grid * x", True),
        ("grid * y", True),
        ("x.detach()", False),
        ("x.shape[0]", False),
        ("eps", False),
        ("self.weight", True),
        ("self.table", False),
        ("self.width", False),
        ("self.layer(x)", True),
        ("self.weight * grid", True),
        ("batch", True),
    ],
)
def test_which_inputs_carry_a_gradient(name: str, carries: bool, tmp_path: Path) -> None:
    made = module(tmp_path, {"a.py": """
        import torch
        import torch.nn as nn


        class Net(nn.Module):
            width: float = 1.0

            def __init__(self, n):
                self.weight = nn.Parameter(torch.zeros(n))
                self.register_buffer("table", torch.zeros(n))
                self.layer = nn.Linear(n, n)

            def forward(self, batch):
                return self.part(batch, 3)

            def part(self, x, n: int, y=None, eps=1e-6):
                grid = torch.arange(n)
                return x * grid

            def message(self, batch):
                return batch
    """})  # fmt: skip
    scope = Scope.of(made, ("Net", "message" if name == "batch" else "part"))
    assert scope is not None
    assert Carrying().may_carry(name, scope) is carries


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return torch.where(x > 1e-6, torch.sqrt(x), 0.0)", {"tolerance", "returned", "root or angle"}),
        ("near = x < eps\n    y = torch.where(near, 1.0, 1 / x)\n    return y", {"tolerance", "quotient"}),
        ("y = torch.where(x > 0, torch.log(x), 0.0)\n    return y", set()),
        ("k = x.argmax()\n    y = torch.where(x > 0, torch.log(x), 0.0)\n    return y * k", {"integers"}),
        ("angle = x\n    y = torch.where(x > 0, torch.log(x), 0.0)\n    return torch.sin(angle) * y", {"geometry"}),
        ("# sin cos angle norm points\n    y = torch.where(x > 0, torch.log(x), 0.0)\n    return y", set()),
    ],
)
def test_what_the_code_around_a_selection_says(body: str, said: set[str]) -> None:
    text = f"import torch\n\n\ndef f(x, eps):\n    {body}\n"
    (finding,) = check_source(text.encode(), "f.py", Settings(root=Path("/"), level="note")).findings
    structure = "tolerance returned integers geometry quotient".split()
    assert {*structure, "root or angle"}.intersection(finding.evidence) == said
    assert worth(labelled(finding.evidence)) == finding.score


@pytest.mark.parametrize(
    ("caller", "found"),
    [
        ("def update(x):\n    g = jax.grad(lambda p: root(p).sum())(x)\n    return x - g", None),
        (
            "def update(x):\n    def f(p):\n        return root(p).sum()\n    return x - jax.grad(f)(x)",
            None,
        ),
        ("def update(x):\n    f = functools.partial(root)\n    return x - jax.grad(f)(x)", None),
        ("def update(x):\n    return x - jax.grad(root)(x)", None),
        ("@jax.value_and_grad\ndef f(x):\n    return root(x).sum()", None),
        ("def update(x):\n    g = jax.grad(energetic)(x)\n    return root(x - g)", Evidence.UNREACHED),
        ("def update(x):\n    root(x).sum().backward()", None),
    ],
)
def test_what_grad_is_given_is_differentiated(caller: str, found: Evidence | None, tmp_path: Path) -> None:
    text = f"import jax, functools\nfrom a import root\n{caller}\n"
    assert reach(module(tmp_path, {"a.py": ROOT, "b.py": text}), ("root",)) is found


def test_another_function_of_that_name_is_no_caller(tmp_path: Path) -> None:
    other = "import jax.numpy as jnp\ndef loss(x):\n    return jnp.root(x)\n"
    shown = "from a import root\nprint(root(1.0))\n"
    assert reach(module(tmp_path, {"a.py": ROOT, "b.py": other, "c.py": shown}), ("root",)) is Evidence.UNREACHED


def test_a_project_without_a_word_of_training_differentiates_nothing(tmp_path: Path) -> None:
    caller = "from a import root\ndef loss(x):\n    return root(x)\n"
    files = {"a.py": ROOT, "b.py": caller, **{f"c{n}.py": "x = 1\n" for n in range(8)}}
    assert reach(module(tmp_path / "1", files), ("root",)) is Evidence.UNREACHED
    assert reach(module(tmp_path / "2", {**files, "c1.py": "loss.backward()\n"}), ("root",)) is None
    del files["c1.py"]  # so few may be the beginning of one
    assert reach(module(tmp_path / "3", files), ("root",)) is None


def test_the_callers_of_a_file_are_all_where_no_other_file_imports_it(tmp_path: Path) -> None:
    text = (
        ROOT + "\n\ndef loss(x):\n    return (x - root(x).detach()).sum()\n\n\ndef train(x):\n    loss(x).backward()\n"
    )
    settings = Settings(level="note")

    def found(**more: str) -> int:
        home = tmp_path / str(len(list(tmp_path.iterdir())))
        home.mkdir()
        write(home, {".git/HEAD": "", "a.py": text, **{f"{name}.py": content for name, content in more.items()}})
        return len(check_source(text.encode(), str(home / "a.py"), settings).findings)

    assert found() == 0
    assert found(b="from a import root\nroot(1.0).backward()\n") == 1
    assert found(setup="") == 1


@pytest.mark.parametrize(
    ("caller", "other", "is_unreached"),
    [
        ("def weight(x):\n    return root(x).detach()", "", True),
        ("def weight(x):\n    y = root(x)\n    y = y.detach()\n    return y * x", "", True),
        ("def weight(x):\n    return root(x)", "", False),
        ("def weight(x):\n    return root(x).detach() + root(x)", "", False),
        ("def weight(x):\n    return root(x).detach()", "from a import root\n", False),
    ],
)
def test_a_function_whose_callers_all_detach_is_not_reached(
    caller: str, other: str, is_unreached: bool, tmp_path: Path
) -> None:
    packaged = {"pyproject.toml": '[project]\nname = "a"\n', "b.py": other}
    text = f"{ROOT}\n\n{caller}\n"
    write(tmp_path, {".git/HEAD": "", **packaged, "a.py": text})
    (found,) = check_source(text.encode(), str(tmp_path / "a.py"), Settings(level="note"), "no").findings
    assert ("unreached" in found.evidence) is is_unreached
