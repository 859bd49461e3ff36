"""A file that reaches a framework only through other files of its project is looked at, and read as what it means."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import write

import wherelint.findings
from wherelint.finding import Finding
from wherelint.findings import DetectOptions
from wherelint.frontend.module import Module
from wherelint.frontend.options import Budget
from wherelint.io.config import Settings
from wherelint.io.files import Target
from wherelint.run.engine import check_file

MAIN = "{imports}\n\n\ndef f(x):\n    return {np}.where(x > 0, {np}.sqrt(x), 0.0)\n"
JAX = "import jax.numpy as np\n"
TRY = "try:\n    import jax.numpy as np\nexcept ImportError:\n    {otherwise}\n"
CHOOSE = "import jax.numpy as jnp\nimport numpy\n\nif True:\n    np = {first}\nelse:\n    np = {second}\n"


def check(tmp_path: Path, files: dict[str, str]) -> list[Finding]:
    write(tmp_path, {"pack/__init__.py": "", **files})
    main = tmp_path / "pack" / "main.py"
    found, problems = wherelint.findings.detect(main.read_text(), str(main), DetectOptions())
    assert problems == []
    return found


@pytest.mark.parametrize(
    ("imports", "np", "files", "framework"),
    [
        pytest.param("from pack.backend import np", "np", {"backend": JAX}, "jax", id="renamed module"),
        pytest.param("from .backend import np as K", "K", {"backend": JAX}, "jax", id="renamed twice"),
        pytest.param(
            "from . import ops as K", "K", {"ops": "from torch import where, sqrt\n"}, "torch", id="functions"
        ),
        pytest.param("from . import ops as K", "K", {"ops": "from torch import *\n"}, "torch", id="everything"),
        pytest.param("from .backend import *", "np", {"backend": JAX}, "jax", id="a star"),
        pytest.param("import pack.backend as c", "c.np", {"backend": JAX}, "jax", id="a module's attribute"),
        pytest.param("import pack.backend", "pack.backend.np", {"backend": JAX}, "jax", id="dotted"),
        pytest.param(
            "from pack import np", "np", {"__init__": "from .b import *\n", "b": JAX}, "jax", id="a package's star"
        ),
        pytest.param(
            "from pack import K", "K", {"__init__": "from .b import np as K\n", "b": JAX}, "jax", id="a package's name"
        ),
        pytest.param("from .b import np", "np", {"b": TRY.format(otherwise="np = None")}, "jax", id="try or None"),
        pytest.param("from .b import np", "np", {"b": TRY.format(otherwise="import numpy as np")}, "jax", id="try"),
        pytest.param("from .b import np", "np", {"b": "import jax.numpy as jnp\nnp = jnp\n"}, "jax", id="assigned"),
        pytest.param("from .b import np", "np", {"b": CHOOSE.format(first="jnp", second="numpy")}, "jax", id="if"),
        pytest.param("from .b import np", "np", {"b": CHOOSE.format(first="numpy", second="jnp")}, "jax", id="else"),
        pytest.param("from .math import numpy as jnp", "jnp", {}, "jax", id="a numpy of its own"),
        pytest.param("from .b import tf", "tf", {"b": "import tensorflow.compat.v2 as tf\n"}, "tensorflow", id="tf"),
    ],
)
def test_a_framework_is_reached(tmp_path: Path, imports: str, np: str, files: dict[str, str], framework: str) -> None:
    main = {"pack/main.py": MAIN.format(imports=imports, np=np)}
    (finding,) = check(tmp_path, {f"pack/{name}.py": text for name, text in files.items()} | main)
    assert (finding.code, finding.framework, finding.is_shown) == ("WL101", framework, True)


@pytest.mark.parametrize(
    ("imports", "np", "files"),
    [
        pytest.param("from pack.backend import np", "np", {"backend": "import numpy as np\n"}, id="host"),
        pytest.param("from .b import np", "np", {"b": TRY.replace("jax", "cupy").format(otherwise="pass")}, id="cupy"),
        pytest.param("import jax\nimport cupy", "cupy", {}, id="cupy beside jax"),
        pytest.param("from .math import numpy as jnp", "jnp", {"math": "import numpy\n"}, id="host, as its own"),
        pytest.param(
            "from .a import np", "np", {"a": "from .b import np\n", "b": "from .a import np\n"}, id="a circle"
        ),
        pytest.param("from .a import *", "np", {"a": "from .b import *\n", "b": "from .a import *\n"}, id="of stars"),
        pytest.param("from .b import other", "np", {"b": JAX}, id="another name"),
    ],
)
def test_nothing_is_reached(tmp_path: Path, imports: str, np: str, files: dict[str, str]) -> None:
    main = {"pack/main.py": MAIN.format(imports=imports, np=np)}
    assert check(tmp_path, {f"pack/{name}.py": text for name, text in files.items()} | main) == []


def test_a_file_without_any_of_the_words_is_not_indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wherelint.frontend.module.Module", lambda *_: pytest.fail("the file was indexed"))
    main = {"pack/main.py": "from pack.backend import np\n\n\ndef f(x):\n    return np.sin(x) * x[0]\n"}
    assert check(tmp_path, {**main, "pack/backend.py": JAX}) == []


def test_too_many_files_are_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = {f"pack/b{i}.py": f"from .b{i + 1} import np\n" for i in range(9)}
    write(tmp_path, {**chain, "pack/b9.py": JAX, "pack/__init__.py": ""})
    text = MAIN.format(imports="from .b0 import np", np="np")
    options = DetectOptions()
    assert not isinstance(wherelint.findings.analyse(text, str(tmp_path / "pack" / "main.py"), options), str)
    monkeypatch.setattr(Budget, "files", 5)
    assert wherelint.findings.analyse(text, str(tmp_path / "pack" / "main.py"), options) == "too many imports"


def test_why_a_file_was_skipped() -> None:
    texts = {
        "import jax\n": "no selection",
        "x = 1\n": "no framework",
        "import numpy as np\n\n\ndef f(x):\n    return np.where(x > 0, np.log(x), 0)\n": "no framework",
    }
    for text, reason in texts.items():
        assert wherelint.findings.analyse(text, "a.py", DetectOptions()) == reason


def test_a_fix_is_written_with_the_wrapper(tmp_path: Path) -> None:
    text = MAIN.format(imports="from .backend import np", np="np")
    write(tmp_path, {"pack/__init__.py": "", "pack/backend.py": JAX, "pack/main.py": text})
    report = check_file(Target(str(tmp_path / "pack" / "main.py"), Settings(), "safe"))[0]
    assert b"np.where(x > 0, np.sqrt(np.where(x > 0, x, 1.0)), 0.0)" in report.after


def test_numpy_of_tensorflow_has_tensorflows_gradients() -> None:
    text = "import tensorflow.experimental.numpy as tnp\n\n\ndef f(x):\n    return tnp.where(x > 0, tnp.{op}(x), 0.0)\n"
    for op, modes in (("sqrt", ("xla",)), ("log", ("eager", "xla"))):
        found, _ = wherelint.findings.detect(text.format(op=op), "a.py", DetectOptions())
        assert [(finding.framework, finding.modes) for finding in found] == [("tensorflow", modes)]


def test_what_a_star_brings_of_a_framework(tmp_path: Path) -> None:
    """Functions that are no operation of the catalogue come with it, too; what Python knows itself does not."""
    text = (
        "from pack import compat as tf\n\n"
        "def f(x, y): return tf.where(y != 0, x / tf.where(y == 0, tf.ones([], y.dtype), y), tf.zeros([], y.dtype))\n"
        "def g(x): return tf.where(x > 0, tf.sqrt(x), 0.0)\n"
    )
    found = check(tmp_path, {"pack/compat.py": "from tensorflow import *\n", "pack/main.py": text})
    assert [finding.function for finding in found] == ["g"]
    module = Module("m.py", "from torch import *\n", {})
    assert (module.target("zeros"), module.target("len")) == ("torch.zeros", None)
