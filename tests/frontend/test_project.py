"""Imports that lead to the project's own files are followed; nothing is imported, and nothing outside is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from wherelint.finding import Finding, Location
from wherelint.findings import DetectOptions, detect

HELPER = "import jax.numpy as jnp\n\n\ndef root(x):\n    return jnp.sqrt(x)\n"
SAFE_HELPER = HELPER.replace("jnp.sqrt(x)", "jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0)")
CALLER = "import jax.numpy as jnp\n{imports}\n\n\ndef f(x):\n    return jnp.where(x > 0, {call}, 0.0)\n"


def check(tmp_path: Path, files: dict[str, str], name: str) -> list[Finding]:
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    found, problems = detect((tmp_path / name).read_text(), str(tmp_path / name), DetectOptions())
    assert problems == []
    return [f for f in found if f.is_shown]


@pytest.mark.parametrize(
    ("imports", "call"),
    [
        pytest.param("from pack.helper import root", "root(x)", id="absolute"),
        pytest.param("from pack import helper", "helper.root(x)", id="module of a package"),
        pytest.param("from .helper import root", "root(x)", id="relative"),
        pytest.param("from . import helper as h", "h.root(x)", id="relative module"),
        pytest.param("from pack import shown", "shown(x)", id="re-exported by the package"),
        pytest.param("import pack.helper", "pack.helper.root(x)", id="dotted"),
    ],
)
def test_a_helper_in_another_file_is_followed(tmp_path: Path, imports: str, call: str) -> None:
    files = {"pack/__init__.py": "from pack.helper import root as shown\n", "pack/helper.py": HELPER}
    main = {"pack/main.py": CALLER.format(imports=imports, call=call)}
    (finding,) = check(tmp_path, {**files, **main}, "pack/main.py")
    assert (finding.code, finding.op) == ("WL101", "sqrt")
    # The operation stands in the other file: what can be shown here is the call that leads there.
    assert finding.location.row == finding.select.location.row
    assert finding.end_location.column - finding.location.column == len(call)
    (elsewhere,) = finding.elsewhere
    assert (elsewhere.message, elsewhere.location) == ("the sqrt", Location(5, 12))
    assert elsewhere.rows == HELPER.splitlines()[-1]
    assert Path(elsewhere.filename) == tmp_path / "pack" / "helper.py"
    assert check(tmp_path, {"pack/helper.py": SAFE_HELPER, **main}, "pack/main.py") == []


def test_scripts_side_by_side_are_a_project_too(tmp_path: Path) -> None:
    files = {"helper.py": HELPER, "main.py": CALLER.format(imports="from helper import root", call="root(x)")}
    assert [f.code for f in check(tmp_path, files, "main.py")] == ["WL101"]


def test_what_a_helper_does_to_itself_is_reported_in_its_own_file(tmp_path: Path) -> None:
    unsafe = HELPER.replace("jnp.sqrt(x)", "jnp.where(x > 0, jnp.sqrt(x), 0.0)")
    main = "import jax.numpy as jnp\nfrom helper import root\n\n\ndef f(x):\n    return jnp.maximum(x, 1.0) * root(x)\n"
    files = {"helper.py": unsafe, "main.py": main}
    assert check(tmp_path, files, "main.py") == []
    assert [f.code for f in check(tmp_path, files, "helper.py")] == ["WL101"]


def test_two_calls_that_meet_here_are_a_finding_of_this_file(tmp_path: Path) -> None:
    where, sqrt = "def where(m, a, b):\n    return torch.where(m, a, b)\n", "def sqrt(x):\n    return x.sqrt()\n"
    both = "from . import ops\n\n\ndef f(x):\n    y = ops.sqrt(x)\n    return ops.where(x > 0, {}, 0.0)\n"
    files = {
        "pack/__init__.py": "",
        "pack/ops.py": f"import torch\n\n\n{where}\n\n{sqrt}",
        "pack/main.py": both.format("y + ops.sqrt(x)"),
    }
    found = check(tmp_path, files, "pack/main.py")
    found.sort(key=Finding.sort_key)
    assert [(f.code, f.framework, f.location) for f in found] == [
        ("WL101", "torch", Location(5, 9)), ("WL101", "torch", Location(6, 33))
    ]  # fmt: skip
    assert [[place.message for place in f.elsewhere] for f in found] == [["the sqrt", "the where"]] * 2
    assert check(tmp_path, {"pack/main.py": both.format("x")}, "pack/main.py") == []


def test_files_that_import_each_other_do_not_loop(tmp_path: Path) -> None:
    files = {
        "a.py": CALLER.format(imports="from b import g, missing", call="g(x)"),
        "b.py": "import jax.numpy as jnp\nfrom a import f, missing\n\n\ndef g(x):\n    return f(x) + jnp.log(x)\n",
    }
    assert "WL102" in [f.code for f in check(tmp_path, files, "a.py")]


@pytest.mark.parametrize(
    "helper",
    [
        pytest.param("def root(x:\n", id="does not parse"),
        pytest.param("x = '\udcff'\n".encode("utf-8", "surrogateescape").decode("latin-1") + "\0", id="null byte"),
        pytest.param("raise SystemExit('imported!')\n", id="must not run"),
    ],
)
def test_a_helper_that_cannot_be_read_is_a_call_that_cannot_be_followed(tmp_path: Path, helper: str) -> None:
    files = {"helper.py": helper, "main.py": CALLER.format(imports="from helper import root", call="root(x)")}
    assert check(tmp_path, files, "main.py") == []


def test_the_private_helper_of_a_function_without_gradient_is_silent(tmp_path: Path) -> None:
    helper = "import torch\n\n\ndef _ratio(a, b):\n    return torch.where(b > 0, a / b, torch.zeros_like(a))\n\n\n"
    caller = "def report(a, b):\n    {guard}\n        return _ratio(a, b).sum()\n"
    assert check(tmp_path, {"a.py": helper + caller.format(guard="with torch.no_grad():")}, "a.py") == []
    assert [f.code for f in check(tmp_path, {"a.py": helper + caller.format(guard="if True:")}, "a.py")] == ["WL103"]


@pytest.mark.parametrize(
    ("call", "found"),
    [("pack.helper.Roots.root(x)", 1), ("pack.helper.Roots.none(x)", 0), ("pack.helper.root.it(x)", 0)],
)
def test_a_function_of_a_class_in_another_file(tmp_path: Path, call: str, found: int) -> None:
    helper = HELPER + "\n\nclass Roots:\n    @staticmethod\n    def root(x):\n        return jnp.sqrt(x)\n"
    files = {"pack/__init__.py": "", "pack/helper.py": helper}
    main = {"pack/main.py": CALLER.format(imports="import pack.helper", call=call)}
    assert len(check(tmp_path, {**files, **main}, "pack/main.py")) == found


def test_names_that_two_files_import_from_each_other_mean_nothing(tmp_path: Path) -> None:
    files = {"pack/__init__.py": "", "pack/a.py": "from pack.b import root\n", "pack/b.py": "from pack.a import root\n"}
    main = {"pack/main.py": CALLER.format(imports="from pack.a import root", call="root(x)")}
    assert check(tmp_path, {**files, **main}, "pack/main.py") == []


BASE = """\
import torch
from torch import nn


class Base(nn.Module):
    def forward(self, x):
        return self._masked(x) + self.inner(x)

    def _masked(self, x):
        return torch.where(x > 0, self.root(x), 0.0)

    def root(self, x):
        return self.inner(x) + 1

    def inner(self, x):
        return torch.log(x)
"""
SUB = "import torch\n{imports}\n\n\nclass Sub({base}):\n    def {name}(self, x):\n        return torch.sqrt(x)\n"


@pytest.mark.parametrize(
    ("imports", "base"),
    [
        pytest.param("from pack.base import Base", "Base", id="imported"),
        pytest.param("from pack.base import Base as B", "B", id="renamed"),
        pytest.param("from . import base", "base.Base", id="of a module"),
        pytest.param("from pack import Shown", "Shown", id="re-exported"),
        pytest.param("from pack.middle import Middle", "Middle[int]", id="twice"),
    ],
)
def test_an_inherited_method_is_searched_where_its_callee_is_overridden(
    tmp_path: Path, imports: str, base: str
) -> None:
    files = {
        "pack/__init__.py": "from pack.base import Base as Shown\n",
        "pack/base.py": BASE.replace("_masked(x) + self.inner(x)", "_masked(x)"),
        "pack/middle.py": "from .base import Base\n\n\nclass Middle(Base):\n    pass\n",
        "pack/sub.py": SUB.format(imports=imports, base=base, name="inner"),
        "pack/other.py": SUB.format(imports=imports, base=base, name="other"),
    }
    (finding,) = check(tmp_path, files, "pack/sub.py")
    assert (finding.code, finding.location) == ("WL101", Location(7, 16))
    (elsewhere,) = finding.elsewhere
    assert (elsewhere.message, elsewhere.location) == ("the where", Location(10, 16))
    assert [f.location for f in check(tmp_path, files, "pack/base.py")] == [Location(16, 16)]
    assert check(tmp_path, files, "pack/other.py") == []


def test_a_finding_of_an_inherited_method_is_the_base_s_alone(tmp_path: Path) -> None:
    text = BASE.replace("_masked(x) + self.inner(x)", "_masked(x)")
    sub = "\n\nclass Sub(Base):\n    def root(self, x):\n        return super().root(x) / 2\n"
    assert [f.location.row for f in check(tmp_path, {"one.py": text + sub}, "one.py")] == [16]
    files = {"base.py": text, "sub.py": "import torch\nfrom base import Base\n" + sub}
    assert [f.location.row for f in check(tmp_path, files, "sub.py") if f.elsewhere] == []


def test_a_class_stands_in_its_own_file_where_a_method_of_another_is_called_on_it(tmp_path: Path) -> None:
    """Its constructor cannot be followed, and what stands for it is named by rows that the other file has none of."""
    sub = (
        "import tensorflow as tf\nimport torch\nfrom base import Base\n" + 40 * "\n" + "class Sub(Base):\n"
        "    @tf.custom_gradient\n    def __init__(self, a):\n        self.a = a\n\n"
        "    def inner(self, x):\n        return torch.sqrt(x)\n"
    )
    files = {"base.py": BASE.replace("_masked(x) + self.inner(x)", "_masked(x)"), "sub.py": sub}
    (finding,) = check(tmp_path, files, "sub.py")
    assert (finding.code, finding.location.row) == ("WL101", 50)
