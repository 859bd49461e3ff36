"""The backend of a project: functions of arrays behind a name that no import explains."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from wherelint.finding import FileReport
from wherelint.io.config import Settings
from wherelint.run.check import check_source

BACKEND = """
    import importlib

    class Backend:
        def __init__(self, name):
            self.module = importlib.import_module(name)
        def where(self, condition, x, y):
            return self.module.where(condition, x, y)
        def sqrt(self, x):
            return self.module.sqrt(x)
        def log(self, x):
            "A logarithm that is safe in earnest."
            tiny = self.module.abs(x) < 1e-3
            return self.module.log(self.module.where(tiny, 1.0, x))
        def __getattr__(self, name):
            return getattr(self.module, name)

    backend = Backend("torch")

    def get_backend(*arrays):
        return _pick(arrays)
"""
_ROOT = "return {0}.where(x > 0, {0}.sqrt(x), {0}.zeros_like(x))"


def checked(folder: Path, text: str, **others: str) -> FileReport:
    (folder / ".git").mkdir(exist_ok=True)
    for name, other in {"__init__": "", "backend_obj": BACKEND, **others, "model": text}.items():
        path = folder / "pkg" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(other))
    path = folder / "pkg" / "model.py"
    return check_source(path.read_bytes(), str(path), Settings(), "offer")


@pytest.mark.parametrize(
    "text",
    [
        "from .backend_obj import backend\ndef f(x): " + _ROOT.format("backend"),
        "from . import backend_obj as B\ndef f(x): " + _ROOT.format("B.backend"),
        "from .backend_obj import get_backend\ndef f(x):\n    nx = get_backend(x)\n    " + _ROOT.format("nx"),
        "def f(x, xp): " + _ROOT.format("xp"),
        "class A:\n    def f(self, x): " + _ROOT.format("self.nx"),
    ],
)
def test_a_backend_is_read_as_numpy(text: str, tmp_path: Path) -> None:
    (finding,) = checked(tmp_path, text).findings
    assert (finding.code, finding.is_shown) == ("WL101", True)
    assert finding.location.row == finding.select.location.row  # where it is called, not in the backend
    assert finding.fix is not None
    base = text.rpartition("return ")[2].partition(".where")[0]
    assert any(
        f"{base}.sqrt({base}.where(" in edit.content or f"{base}.where(" in edit.content for edit in finding.fix.edits
    )


@pytest.mark.parametrize(
    "text",
    [
        "import sympy as S\ndef f(x): " + _ROOT.format("S"),  # another package's
        "def f(x):\n    import numpy as S\n    " + _ROOT.format("S"),
        "def f(x, y): return x.where(x > 0, y.sqrt()) + x.sqrt() + x.abs()",  # methods of tensors
        "from .backend_obj import backend\ndef f(x): return backend.where(x > 0, backend.log(x), backend.abs(x))",
    ],
)
def test_what_is_none_is_not(text: str, tmp_path: Path) -> None:
    assert not checked(tmp_path, text).findings


def test_a_project_without_a_framework_differentiates_nothing(tmp_path: Path) -> None:
    text = "def f(x, xp): " + _ROOT.format("xp")
    assert checked(tmp_path, text).findings
    alone = tmp_path / "alone"
    alone.mkdir()
    assert checked(alone, text, backend_obj="").skipped == "no framework"


def test_what_the_repository_imports_is_behind_it(tmp_path: Path) -> None:
    """TensorFlow's power of 0 has a nan at 0; a backend that only mentions TensorFlow does not bring that in."""
    text = "def f(x, xp): return xp.where(xp.abs(x) > 0, xp.square(x) ** 0, 1.0)"
    for backend, found in (("import tensorflow", True), ("import torch  # as tensorflow does", False)):
        folder = tmp_path / str(found)
        folder.mkdir()
        assert bool(checked(folder, text, backend_obj=backend).findings) is found


def test_a_cast_of_a_condition_is_a_mask(tmp_path: Path) -> None:
    text = "def f(x, nx): return nx.cast(nx.abs(x) > 0, x.dtype) * nx.sqrt(nx.abs(x))"
    (finding,) = checked(tmp_path, text).findings
    assert finding.code == "WL202"


def test_no_fix_asks_a_backend_for_what_numpy_has_not(tmp_path: Path) -> None:
    text = "def f(x, xp):\n    c = xp.clip(x, -1, 1)\n    angle = xp.arccos(c)\n    return xp.sin(angle) * x"
    (finding,) = checked(tmp_path, text, backend_obj="import torch").findings
    assert finding.fix is not None
    assert not any("detach" in edit.content for edit in finding.fix.edits)


def test_a_backend_has_the_constants_of_numpy(tmp_path: Path) -> None:
    text = """
        from .backend_obj import backend as gs
        def one(x):
            d = gs.where(x > gs.pi, 1.0, 0.0) + gs.where(x <= gs.pi, 1.0, 0.0)
            return gs.where(d > 0, x / d, gs.zeros_like(x))
        def two(x): return gs.where(x != gs.pi, 1 / (x - gs.pi), gs.zeros_like(x))
    """
    (finding,) = checked(tmp_path, text).findings
    assert finding.function == "two"


def test_what_is_ordered_beside_an_array_is_a_number() -> None:
    text = "import jax.numpy as jnp\nfrom other import ATOL\n\ndef f(x):\n"
    text += "    d = jnp.where(x > ATOL, 1.0, 0.0) + jnp.where(x <= ATOL, 1.0, 0.0)\n"
    text += "    return jnp.where(d > 0, x / d, 0.0)\n"
    assert check_source(text.encode(), "a.py", Settings(level="note")).findings == ()
