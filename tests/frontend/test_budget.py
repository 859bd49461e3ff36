"""Whatever is given up is a warning of the file, in every format, and nothing that was found is lost by it."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import write

from wherelint.cli import main
from wherelint.findings import DetectOptions, detect, forget
from wherelint.frontend.module import Module
from wherelint.frontend.options import Budget
from wherelint.interpret.programs import programs
from wherelint.io.config import Settings
from wherelint.report.formats import FORMATS
from wherelint.run.check import check_source

WHERE = "    return jnp.where(x > 0, {}, 0.0)\n"
HEAD = "import jax.numpy as jnp\n\n\n"
DEEP = (
    HEAD
    + "".join(f"def f{i}(x):\n    return f{i + 1}(x)\n\n\n" for i in range(4))
    + "def f4(x):\n    return jnp.sqrt(x)\n"
)
PRIVATE = HEAD + "def _g(x, k):\n" + WHERE.replace("x > 0", "k > 0").format("jnp.sqrt(x)")
RESULTS = HEAD + "def f(x):\n    y = jnp.where(x > 0, jnp.sqrt(x), 0.0)\n    return y, y + 1, y + 2, y + 3\n"
OTHER = "from .other import f4\n" + HEAD + "def f(x):\n" + WHERE.format("f4(x)")
CASES = {
    "nodes": ("nodes", 8, {"main": DEEP + "\n\ndef g(x):\n    y = x + 1 + 1 + 1 + 1\n" + WHERE.format("f0(y)")},
              "calls in `g`: it computes too many values"),
    "steps": ("steps", 20, {"main": HEAD + "def g(x):\n" + "    x = x + 1\n" * 20 + WHERE.format("jnp.sqrt(x)")},
              "`g`: it takes too many steps (analysis budget exceeded)"),
    "file steps": ("file_work", 2, {"main": RESULTS + "\n\ndef g(x):\n" + WHERE.format("jnp.sqrt(x)")},
                   "`g`: the file has too many functions"),
    "evaluations": ("function_work", 5, {"main": RESULTS}, "`f`: its computations are too long"),
    "results": ("results", 2, {"main": RESULTS}, "2 results of `f`: it has too many"),
    "bytes": ("file_bytes", 5, {"main": OTHER, "other": DEEP}, "what other.py defines"),
    "bytes of a caller": ("file_bytes", 5, {"main": PRIVATE, "b": "from .main import _g\n"}, "what b.py defines"),
    "mentions": ("mentions", 1, {"main": PRIVATE, "b": "from .main import _g\n", "c": "from .main import _g\n"},
                 "the callers of `_g` in other files"),
}  # fmt: skip


@pytest.mark.parametrize(("limit", "value", "files", "message"), CASES.values(), ids=CASES)
def test_what_is_given_up_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, files: dict[str, str], message: str
) -> None:
    write(tmp_path, {"pack/__init__.py": "", **{f"pack/{name}.py": text for name, text in files.items()}})
    path = tmp_path / "pack" / "main.py"
    _, problems = detect(path.read_text(), str(path), DetectOptions())
    assert problems == []
    monkeypatch.setattr(Budget, limit, value)
    forget()
    _, problems = detect(path.read_text(), str(path), DetectOptions())
    assert any(problem.message.startswith(f"gave up on {message}") for problem in problems), problems
    assert not any(problem.error for problem in problems)


def test_a_text_that_is_too_long_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Budget, "characters", len(RESULTS) - 1)
    report = check_source(RESULTS.encode(), "a.py", Settings())
    assert report.findings == ()
    assert [(problem.message, problem.error) for problem in report.problems] == [
        (f"gave up on the file: it has more than {len(RESULTS) - 1} characters", False)
    ]


def test_a_wrapper_that_is_too_large_is_a_warning(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrapped = "from .other import nx\n" + RESULTS.removeprefix(HEAD).replace("jnp", "nx")
    write(project, {"pack/__init__.py": "", "pack/main.py": wrapped, "pack/other.py": HEAD.replace("jnp", "nx")})
    monkeypatch.setattr(Budget, "file_bytes", 5)
    assert main(["check", "pack/main.py"]) == 0
    assert "warning: pack/main.py: gave up on the file: it imports too many" in capsys.readouterr().err


def test_a_function_that_leads_to_too_many_others_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    text = DEEP.replace("sqrt", "sin") + "\n\ndef choose(m, x):\n    return jnp.where(m, x, 0.0)\n"
    text += "\n\ndef g(x):\n    return choose(x > 0, f0(jnp.log(x)))\n"
    for limit in (60, 2):
        monkeypatch.setattr(Budget, "functions", limit)
        found, _ = detect(text, "a.py", DetectOptions())
        assert [(finding.function, finding.op) for finding in found] == [("choose", "log")]


def test_a_function_inside_another_has_a_budget_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = "    def f{0}(x):\n        return helper(x) + 1 + 1 + 1\n\n"
    text = DEEP.replace("f4", "helper") + "\n\ndef make():\n" + "".join(map(inner.format, range(9)))
    text += "    def last(x):\n    " + WHERE.format("helper(x)") + "\n    return f0, f1, f2, f3, last\n"
    monkeypatch.setattr(Budget, "nodes", 12)
    found, problems = detect(text, "a.py", DetectOptions())
    assert [(finding.select.location.row, finding.op) for finding in found] == [(text.count("\n") - 2, "sqrt")]
    assert problems == []


#: How a function of another file comes to hold something of this one, and whether it does.
HOLDING = {
    "make(root)": True,
    "make([root][0])": True,
    "make(partial(root))": True,
    "make(Holder(root).call)": True,
    "make([jnp.sqrt(x), {}])": True,
    "make(x)": False,
    "make(Holder(other).call)": False,
}
MAKERS = """\
import jax.numpy as jnp


class Holder:
    def __init__(self, f):
        self.f = f

    def call(self, x):
        return self.f(x)


def other(x):
    return x


def make(y):
    def inner(x):
        return jnp.where(x > 0, y, 0.0)

    return inner
"""


@pytest.mark.parametrize("text", HOLDING)
def test_a_function_of_another_file_is_lowered_if_it_holds_something_of_this_one(tmp_path: Path, text: str) -> None:
    """Else its own file is the place to look at it: there may be dozens of them, in one that makes kernels."""
    main = "from functools import partial\n\nfrom .makers import Holder, make, other\n" + HEAD
    main += f"def root(x):\n    return jnp.sqrt(x)\n\n\ndef f(x):\n    return {text}\n"
    write(tmp_path, {"pack/__init__.py": "", "pack/makers.py": MAKERS})
    module = Module(str(tmp_path / "pack" / "main.py"), main, {})
    made = [program.name for program in programs(module, ("f",), ["jax"])]
    assert made == (["f", "make.inner"] if HOLDING[text] else ["f"])


@pytest.mark.parametrize("style", FORMATS)
def test_every_format_has_it(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], style: str
) -> None:
    monkeypatch.setattr(Budget, "results", 2)
    write(project, {"a.py": RESULTS})
    for _ in range(2):  # the second from the cache
        assert main(["check", "--output-format", style]) == 1
        said = capsys.readouterr()
        assert "gave up on 2 results of `f`" in said.out.replace("<code>", "`").replace("</code>", "`")
        assert "warning: a.py: gave up on 2 results of `f`" in said.err
