"""Hostile files: nothing of them runs, whatever they hold and however they are named; no script has code of theirs.

Every file here tries to leave a mark. What is left unsaid in a test is that there is none (``_unmarked``).
"""

from __future__ import annotations

import ast
import io
import json
import os
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from conftest import UNSAFE, environment, write
from kept_runs import printed
from real_gradients import require

from wherelint.cli import main
from wherelint.confirm import confirm
from wherelint.confirm.routine import Snippet
from wherelint.confirm.script import script
from wherelint.finding import Finding
from wherelint.frameworks import FRAMEWORKS
from wherelint.io.config import Settings
from wherelint.run.check import check_source

#: What every file begins with: code that leaves a mark wherever a piece of the file is run.
PREAMBLE = """\
import os, pathlib, subprocess
def pwn(*_, **__):
    pathlib.Path(MARK).touch()
    return 1.0
pwn()
os.system("touch MARK2")
@pwn
@(lambda f: pwn() or f)
class Meta(type):
    __prepare__ = pwn
    def __getattr__(cls, name): return pwn
class Open(metaclass=Meta): __class_getitem__ = pwn(); __set_name__ = pwn
def __getattr__(name): return pwn
def __dir__(): pwn()
"""


def sections(text: str) -> dict[str, str]:
    """Texts by name; QQQ stands for three double quotes."""
    parts = text.replace("QQQ", '"' * 3).split("\n== ")[1:]
    return {part.partition("\n")[0]: part.partition("\n")[2].strip("\n") + "\n" for part in parts}


def names(letter: str, count: int, between: str) -> str:
    """``a0, a1, a2``."""
    return between.join(f"{letter}{i}" for i in range(count))


JAX = sections(r"""
== call
def f(x):
    return J.where(os.system("touch MARK2"), J.log(x), 0.)
== default
def f(x, y=pwn(), *, z=os.system("touch MARK2")):
    return J.where(x > 0, J.log(x) * y * z, 0.)
== decorator
@pwn
@subprocess.run
@jax.jit
def f(x: pwn(), y: pwn() = pwn()) -> pwn():
    return J.where(x > 0, J.log(x) * y, 0.)
== lambda
f = lambda x, *exec, **eval: J.where(x > 0, J.log(x) * exec[0], 0.)
== builtins
def print(exec, eval, report, fixed, join, nth, keep, sum, len, zip, range, tuple, float, __import__, open, input):
    jnp = exec * 2
    tf = torch = F = keras = jnp + eval
    report = J.log(jnp) * report
    numbers = nth + keep + sum + len + zip + range + tuple + float + __import__ + open + input + tf
    return J.where(jnp > 0, report * fixed + J.sum(join) + numbers, 0.)
== locals
def report(label, f, inputs, names, total, gradient, mode, g, name, slope, t, t_2, mask, x, x_2, f_2, zeros, parts):
    numbers = f + inputs + names + total + gradient + mode + g + name + slope + t + t_2 + mask + x + x_2 + f_2 + zeros
    return J.where(label > 0, J.log(label) + numbers + parts, 0.)
== modules
def f(x, jax, jnp, J_, __name__, __builtins__, __file__, __doc__):
    return J.where(x > 0, J.log(x) + jax + jnp + J_ + __name__ + __builtins__ + __file__ + __doc__, 0.)
== keywords
def match(case, type, _, _x, __, ___):
    return J.where(case > 0, J.log(case) * type * _ * _x * __ * ___, 0.)
== dunder
def f(x):
    return J.where(x.__class__.__init__.__globals__ > 0, J.sqrt(x), 0.)
== dunder-call
def f(x):
    return J.where(x > 0, J.sqrt(x) * x.__class__.__mro__[1].__subclasses__()[0]("touch MARK2"), 0.)
== methods
def f(x, y):
    return J.where(x > 0, J.log(x) * y.__reduce__().__call__().item().__index__(), 0.)
== wide
def f(ｅｘｅｃ, ｊｎｐ, 𝓹𝓻𝓲𝓷𝓽, ª, ſum):
    return J.where(ｅｘｅｃ > 0, J.log(ｅｘｅｃ) * ｊｎｐ * 𝓹𝓻𝓲𝓷𝓽 * ª * ſum, 0.)
== look-alikes
def f(x, х, μ, é, e, ﬁxed):
    return J.where(x > 0, J.log(x) * х * μ * é * e * ﬁxed, 0.)
== alphabets
def f(변수, имя, متغير, x):
    return J.where(x > 0, J.log(x) * 변수 * имя * متغير, 0.)
== subscripts
def f(x, p):
    y = p['{0.__class__}'] * p['{'] * p['}}'] * p['%s%n'] * p['\n\nimport os'] * p['\\'] * p['QQQ'] * p['a\x00b']
    return J.where(x > p["a\"); import os; os.system('touch MARK2')#"], J.log(x) * y, 0.)
== raw-lines
def f(x, p):
    y = p['''
# coding: utf-7
QQQ
import os; os.system('touch MARK2')
''']
    return J.where(x > 0, J.log(x) * y * p[  # type: ignore
        'a'  '\N{BELL}'  "'"
    ] * p[b'\xff'], 0.)
== f-strings
def f(x, p):
    return J.where(x > 0, J.log(x) * p[f'{os.system("touch MARK2")!r:{pwn()}}'] * p[(y := pwn())], 0.)
== comprehension
def f(x):
    return J.where(x > 0, J.log(x) * [pwn() for _ in (pwn(),)][0] * {**Open}[pwn], 0.)
== evaluated
def f(x):
    y = exec('pwn()') * __import__('os').system('touch MARK2')
    return J.where(eval('pwn()') > 0, J.log(x) * y, 0.)
== class
class C(metaclass=Meta):
    __call__ = property(pwn)
    scale = pwn()
    def f(self, x):
        with pwn() as g:
            return J.where(x > 0, J.log(x) * self.scale * self[pwn()] * g, 0.)
== own-where
class J2:
    where = staticmethod(pwn)
def f(x):
    return J.where(x > 0, J.log(x) * J2.where(x > 0, x, 0.), 0.)
== import
def f(x):
    import evil, jax.evil
    from sitecustomize import y
    return J.where(x > 0, J.log(x) * y, 0.)
== alias
def f(x):
    return J.where(x > 0, os.log(x) * evil.scale, 0.)
== huge-float
def f(x):
    return J.where(x > 0, J.log(x) * 1e999, 1e-999)
== huge-loop
def f(x):
    for _ in range(10**9):
        x = J.where(x > 0, J.sqrt(x), 0.)
    return x
== huge-array
def f(x):
    return J.where(x > 0, J.sqrt(x + J.zeros((10**12,))), 0.).reshape(10**30)
""")
LONG, TEN = "x" * 5000, "1" + "0" * 400
JAX |= {
    "long": f"def f({LONG}, {LONG}y):\n    return J.where({LONG} > 0, J.log({LONG}) * {LONG}y, 0.)\n",
    "huge-int": f"def f(x):\n    return J.where(x > {TEN}, J.log(x) * -{TEN}, 0.)\n",
    "huge-power": f"def f(x):\n    return J.where(x > 0, J.log(x) ** {TEN}, 0.)\n",
    "huge-index": f"def f(x):\n    return J.where(x > 0, J.sqrt(x), 0.)[{TEN}]\n",
    "deep": "def f(x):\n    return "
    + "".join(f"J.where(x > {i}, J.sqrt(" for i in range(60))
    + "x"
    + "), 0.)" * 60
    + "\n",
    "parentheses": "def f(x):\n    return J.where(x > 0, J.log(x) + " + "(" * 80 + "x" + " + x)" * 80 + ", 0.)\n",
    "links": "def f(x):\n" + "    x = x * 1.1\n" * 300 + "    return J.where(x > 0, J.log(x), 0.)\n",
    "many": f"def f({names('a', 60, ', ')}):\n    return J.where(a0 > 0, J.log(a0) + {names('a', 60, ' + ')}, 0.)\n",
}
TORCH = sections(r"""
== names
def report(torch, F, report, value, gradient, print, label, __import__):
    return T.where(torch > 0, T.log(torch) * F * report * value * gradient * print * label * __import__, 0.)
== call
def f(x, p):
    return T.where(x > os.system("touch MARK2"), T.sqrt(x) * p["\n'''{0}"], pwn())
== methods
def f(x, y=pwn()):
    return x.sqrt().where(x > 0, y.__globals__.__getitem__("os").system("touch MARK2"))
== joined
def f(sum, keep):
    return T.where(sum > 0, T.log(sum) * T.stack([sum, keep])[1] * T.cumsum(keep, 0), 0.)
""")
TENSORFLOW = sections(r"""
== names
def report(tf, keras, tape, total, mode, print, __loader__, zip):
    return T.where(tf > 0, T.math.log(tf) * keras * tape * total * mode * print * __loader__ * zip, 0.)
== call
def f(x, p):
    return T.where(x > os.system("touch MARK2"), T.sqrt(x) * p["\n'''{0}"], pwn())
== graph
@T.function(jit_compile=pwn())
def f(x, y=pwn()):
    return T.where(x > 0., T.math.log(x) * y.__class__, 0.)
""")
FILES = {"jax": JAX, "torch": TORCH, "tensorflow": TENSORFLOW}
IMPORTS = {
    "jax": "import jax\nimport jax.numpy as J\n",
    "torch": "import torch as T\n",
    "tensorflow": "import tensorflow as T\n",
}
MODULES = {"jax": {"jax"}, "torch": {"torch"}, "tensorflow": {"tensorflow", "keras"}}
#: Modules of the linted folder under the names of what a framework, Python or pytest imports.
SHADOWS = ("jax", "jaxlib", "torch", "tensorflow", "keras", "sitecustomize", "usercustomize", "conftest", "evil")
CONFIGURATION = """\
[tool.wherelint]
level = "note"
fail-on = "note"
per-file-ignores = { "{0.__class__}*.py" = ["WL1"], "$(touch MARK2)" = ["WL2"] }

[tool.wherelint.aliases]
"os.log" = "jax.numpy.log"
"evil.scale" = "jax.numpy.pi"

[tool.pytest.ini_options]
addopts = "-p evil"
"""


def hostile(text: str, framework: str, folder: Path) -> str:
    """A file that leaves a mark in a folder, should any of it run."""
    text = PREAMBLE + IMPORTS[framework] + text
    return text.replace("MARK2", str(folder / "pwned-shell")).replace("MARK", repr(str(folder / "pwned")))


def shadows(folder: Path) -> None:
    """Modules that leave a mark when they are imported."""
    for name in SHADOWS:
        write(folder, {f"{name}.py": f"open({str(folder / f'pwned-{name}')!r}, 'w').close()\n"})


def marks(*folders: Path) -> list[str]:
    """The marks that were left."""
    return [str(path) for folder in folders for path in folder.rglob("pwned*")]


@pytest.fixture(autouse=True)
def _unmarked(tmp_path: Path) -> Iterator[None]:
    yield
    assert marks(tmp_path) == []
    assert not list(Path.cwd().glob("pwned*"))


# -- what a script may be ---------------------------------------------------------------------------------------------

CALLED = {"print", "zip", "len", "range", "tuple", "sum", "float"}
METHODS = {"astype", "tolist", "sum", "watch", "gradient", "float", "detach", "unsqueeze", "int", "function", "numpy"}
ATTRIBUTES = {"shape", "ndim", "values", "T", "device"}


@cache
def usual_strings(framework: str) -> frozenset[str]:
    """The strings of a script of a file that means no harm."""
    where = {"jax": "J.where(x > 0, J.log(x), 0.)", "torch": "T.where(x > 0, T.log(x), 0.)",
             "tensorflow": "T.where(x > 0., T.math.log(x), 0.)"}[framework]  # fmt: skip
    (finding,) = findings(f"{IMPORTS[framework]}def f(x):\n    return {where}\n")
    assert isinstance(finding.snippet, Snippet)
    text = "\n".join([script(finding.snippet, finding), *FRAMEWORKS[framework].helpers.values()])  # type: ignore[index]
    return frozenset(n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Constant) and type(n.value) is str)


def findings(text: str) -> tuple[Finding, ...]:
    return check_source(text.encode(), "a.py", Settings(level="note"), "offer").findings


def check_script(content: bytes, framework: str) -> None:
    """A script imports the framework, defines functions and calls them, and has no other strings or attributes."""
    assert tokenize.detect_encoding(io.BytesIO(content).readline)[0] == "utf-8"
    tree = ast.parse(content)
    assert not set(content) & set(b"\r\0\f")
    imported = {}
    for node in ast.walk(tree):
        assert not isinstance(node, (ast.ImportFrom, ast.ClassDef, ast.Global, ast.Nonlocal, ast.Lambda, ast.Delete))
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                assert root in MODULES[framework]
                imported[alias.asname or root] = alias.name
    assert all(isinstance(node, (ast.Import, ast.FunctionDef, ast.Assign, ast.Expr)) for node in tree.body)
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    arguments = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound = functions | arguments | stored
    assert not bound & (CALLED | imported.keys())
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            assert node.decorator_list == node.args.defaults == node.args.kw_defaults == []
        elif isinstance(node, ast.Name):
            assert node.id in bound | CALLED | imported.keys()
            assert not node.id.startswith("_")
        elif isinstance(node, ast.Attribute):
            assert not node.attr.startswith("_")
            assert reaches(node, imported.keys()) or node.attr in METHODS | ATTRIBUTES, node.attr
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                assert node.func.id in functions | CALLED | {"f", "g"}
            else:
                assert isinstance(node.func, ast.Attribute)
                assert reaches(node.func, imported.keys()) or node.func.attr in METHODS
        elif isinstance(node, ast.Constant):
            assert type(node.value) in (int, float, bool, str, type(None), type(...))
            if isinstance(node.value, str):
                assert node.value in usual_strings(framework) | bound | {"inf", "-inf", "nan"}
    comments = [t for t in tokenize.tokenize(io.BytesIO(content).readline) if t.type == tokenize.COMMENT]
    first = next(node.lineno for node in tree.body)
    assert 0 < len(comments) <= 6
    assert all(comment.start[0] < first for comment in comments)


def reaches(node: ast.expr, modules: object) -> bool:
    """Whether an attribute is that of a module, or of a submodule."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in modules  # type: ignore[operator]


# -- all files of a framework, at once --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """A run over a folder of hostile files."""

    framework: str
    folder: Path
    status: int
    errors: str
    found: list[dict[str, object]]


@pytest.fixture(scope="module", params=list(FILES))
def checked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Every hostile file of a framework, checked and confirmed in the folder where they lie."""
    framework = request.param
    require(framework)
    folder = tmp_path_factory.mktemp(f"hostile-{framework}")
    write(folder, {"src/" + name.replace("-", "_") + ".py": hostile(text, framework, folder)
                   for name, text in FILES[framework].items()})  # fmt: skip
    shadows(folder)
    write(folder, {"pyproject.toml": CONFIGURATION})
    command = [sys.executable, "-m", "wherelint", "check", "--confirm", "--device", "cpu", "--output-format", "json",
               "--repro-dir", "scripts", "src"]  # fmt: skip
    variables = environment() | {"PYTHONSTARTUP": str(folder / "evil.py"), "PYTEST_PLUGINS": "evil"}
    ran = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=300)
    return Run(framework, folder, ran.returncode, ran.stderr, json.loads(ran.stdout or "[]"))


@pytest.mark.rotated(3)
def test_every_finding_is_reported_and_confirmed(checked: Run) -> None:
    assert marks(checked.folder) == []
    assert (checked.status, checked.errors) == (1, "")
    found = {Path(str(finding["filename"])).stem for finding in checked.found}
    assert found == {name.replace("-", "_") for name in FILES[checked.framework]}
    for finding in checked.found:
        confirmation = finding["confirmation"]
        assert isinstance(confirmation, dict)
        assert confirmation["verdict"] == "confirmed", (finding["filename"], confirmation)


@pytest.mark.rotated(3)
def test_no_script_has_code_of_theirs(checked: Run) -> None:
    scripts = list((checked.folder / "scripts").iterdir())
    assert len(scripts) == len(checked.found)
    for path in scripts:
        check_script(path.read_bytes(), checked.framework)


@pytest.mark.rotated(3)
def test_repro_prints_the_same_script(
    checked: Run, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(checked.folder)
    written = [path.read_bytes() for path in (checked.folder / "scripts").iterdir()]
    for finding in checked.found[:8]:
        place = finding["location"]
        assert isinstance(place, dict)
        assert main(["repro", f"{finding['filename']}:{place['row']}:{place['column']}"]) == 0
        printed = capsysbinary.readouterr().out
        assert any(text.endswith(printed) for text in written)
    assert marks(checked.folder) == []


@pytest.mark.rotated(3)
@pytest.mark.filterwarnings("ignore")
def test_scripts_run_and_show_nan(checked: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the fix in every one of them, and not with it."""
    names = ["builtins", "locals", "wide", "subscripts", "raw_lines", "huge_int", "huge_float", "deep", "links", "many",
             "names", "call", "joined", "graph", "methods"]  # fmt: skip
    scripts = [path for path in sorted((checked.folder / "scripts").iterdir())
               if any(path.name.startswith(f"src_{name}_") for name in names)]  # fmt: skip
    assert len(scripts) >= 3
    monkeypatch.chdir(tmp_path)
    for path in scripts:
        check_script(path.read_bytes(), checked.framework)  # it runs in this process
        text = path.read_text("utf-8").removeprefix("# wherelint: noqa\n")
        before, _, after = printed(checked.framework, text).partition("after the fix")
        assert before.startswith("before the fix: value "), path.name
        assert "nan" not in before.partition("gradient")[0], path.name
        assert "nan" in before.partition("gradient")[2], path.name
        assert "nan" not in after, path.name
    assert marks(checked.folder) == []


# -- where Python looks for modules -----------------------------------------------------------------------------------


def test_the_child_imports_nothing_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by way of the working directory nor by the variables that say where modules are."""
    require("jax")
    shadows(tmp_path)
    for name in ("numpy", "json", "wherelint", "site"):
        write(tmp_path, {f"{name}.py": f"open({str(tmp_path / f'pwned-{name}')!r}, 'w').close()\n"})
    write(tmp_path, {"evil.pth": f"import os; os.mkdir({str(tmp_path / 'pwned-pth')!r})\n"})
    found = findings(UNSAFE)
    monkeypatch.chdir(tmp_path)
    for name in ("PYTHONPATH", "PYTHONUSERBASE", "PYTHONPLATLIBDIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("PYTHONSTARTUP", str(tmp_path / "evil.py"))
    monkeypatch.setenv("PYTHONINSPECT", "1")
    monkeypatch.setenv("PYTHONBREAKPOINT", "evil.f")
    (made,), problems = confirm(found, "cpu")
    assert problems == []
    assert made.confirmation is not None
    assert made.confirmation.verdict == "confirmed"


@pytest.mark.parametrize(
    "names",
    [
        ("numpy", "click", "libcst", "scipy", "rich", "attr", "encodings", "IPython"),
        # What Python itself has not imported before it comes to this package.
        pytest.param(("pathlib", "re", "json", "dataclasses", "inspect", "ast", "tempfile", "shutil")),
    ],
    ids=["packages", "library"],
)
def test_the_command_imports_nothing_of_the_folder(tmp_path: Path, names: Sequence[str]) -> None:
    for name in names:
        write(tmp_path / "src", {f"{name}.py": f"open({str(tmp_path / f'evidence-{name}')!r}, 'w').close()\n"})
    write(tmp_path / "src", {"model.py": UNSAFE})
    command = [sys.executable, "-m", "wherelint", "check", "--repro-dir", "../scripts", "--color", "always", "model.py"]
    ran = subprocess.run(
        command, cwd=tmp_path / "src", env=environment(), capture_output=True, text=True, check=False, timeout=60
    )
    assert [path.name for path in tmp_path.glob("evidence*")] == []
    assert (ran.returncode, ran.stderr) == (1, "")


# -- names of files ---------------------------------------------------------------------------------------------------

NAMES = {
    "quotes": b"q'\"\"\"'''.py",
    "shell": b"$(touch pwned) `touch pwned`;touch pwned.py",
    "bytes": b"l\xff\xfe.py",
    "escape": b"e\x1b[31m\x07red.py",
    "bidirectional": "r\u202e\u2028\u2029\u0085\ufeff.py".encode(),
    "placeholders": b"a b{0.__class__}%s%n.py",
    "separators": b"..\\..\\z.py",
    "colon": b"a:5:6.py",
    "tab": b"tab\t\r\f.py",
    "option": b"-rf.py",
    "symbols": b"$$$.py",
}
#: Code in a name, should the first line of a script be read in an encoding that it declares.
DECLARED = {
    "escaped": b"coding=unicode_escape \\nimport os\\nos.system('touch pwned')\\n#.py",
    "raw": b"coding:raw_unicode_escape \\u000aimport os\\u000aos.system('touch pwned')\\u000a#.py",
    "utf-7": b"coding=utf-7 +AAo-import os+AAo-os.mkdir('pwned')+AAo-+ACM-.py",
    "unknown": b"encoding=nonsense.py",
}
LINES = {"lines": b'x"""\n\nimport os; os.system("touch pwned")\n#.py', "line": b"\n.py"}


def named(folder: Path, name: bytes) -> str:
    """A file of this name, where the system has such names."""
    try:
        (folder / os.fsdecode(name)).write_text(UNSAFE)
    except (OSError, UnicodeError):
        pytest.skip("there is no such name here")
    if name not in os.listdir(os.fsencode(folder)):
        pytest.skip("there is no such name here")
    return os.fsdecode(name)


@pytest.mark.parametrize("key", [*NAMES, *DECLARED, *LINES])
def test_a_name_of_a_file_is_no_code(key: str, project: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    file = named(project, {**NAMES, **DECLARED, **LINES}[key])
    assert main(["check", "--output-format", "concise", "--repro-dir", "scripts"]) == 1
    assert b"Traceback" not in b"".join(capsysbinary.readouterr())
    assert main(["repro", f"./{file}:5"]) == 0
    printed = capsysbinary.readouterr().out
    check_script(printed, "jax")
    (written,) = (project / "scripts").iterdir()
    check_script(written.read_bytes(), "jax")
    assert written.parent == project / "scripts"
    assert written.read_bytes().endswith(printed)


def test_names_of_all_kinds_are_confirmed(tmp_path: Path) -> None:
    """In one run; what is printed can be read whatever it is named."""
    require("jax")
    names = [*NAMES.values(), *DECLARED.values(), *LINES.values()]
    for name in names:
        try:
            (tmp_path / os.fsdecode(name)).write_text(UNSAFE)
        except (OSError, UnicodeError):
            pytest.skip("there are no such names here")
    command = [sys.executable, "-m", "wherelint", "check", "--confirm", "--output-format", "json", "--device", "cpu"]
    ran = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, check=False, timeout=100)
    assert (ran.returncode, ran.stderr) == (1, b"")
    verdicts = [finding["confirmation"]["verdict"] for finding in json.loads(ran.stdout)]
    assert verdicts == ["confirmed"] * len(names)


@pytest.mark.parametrize(
    "path",
    [
        "x" * 250 + ".py",
        "/".join(["directory" * 20] * 3) + "/a.py",
        pytest.param("가" * 60 + "/" + "나" * 60 + ".py"),
    ],
    ids=["name", "path", "alphabet"],
)
def test_a_long_name_of_a_file(project: Path, capsys: pytest.CaptureFixture[str], path: str) -> None:
    write(project, {path: UNSAFE})
    assert main(["check", "--repro-dir", "scripts"]) == 1
    assert "Found 1 error (1 fixable with --fix), 1 file checked." in capsys.readouterr().out
    assert len(list((project / "scripts").iterdir())) == 1


def test_no_script_takes_the_place_of_another(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(project, dict.fromkeys(["a/b.py", "a_b.py", "a-b.py", "a.b.py"], UNSAFE))
    assert main(["check", "--repro-dir", "scripts"]) == 1
    capsys.readouterr()
    assert len({path.read_text() for path in (project / "scripts").iterdir()}) == 4


def test_scripts_that_cannot_be_written_lose_no_finding(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(project, {"a.py": UNSAFE, "file": ""})
    status = main(["check", "--repro-dir", "file/scripts", "--output-format", "concise"])
    captured = capsys.readouterr()
    assert (status, captured.out.count("WL101"), captured.err.count("\n")) == (2, 1, 1)


def test_a_script_is_utf_8_whatever_the_terminal_speaks(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": UNSAFE.replace("x", "α")})
    ran = subprocess.run(
        [sys.executable, "-m", "wherelint", "repro", "a.py:5"],
        cwd=tmp_path, env=environment() | {"PYTHONIOENCODING": "cp1252"}, capture_output=True, check=True, timeout=60,
    )  # fmt: skip
    check_script(ran.stdout, "jax")


# -- texts that are too much ------------------------------------------------------------------------------------------

TOO_MUCH = {
    "sum": f"def f(x):\n    return jnp.where(x > 0, jnp.log(x) + {' + '.join(['(x)'] * 500)}, 0.)\n",
    "links": "def f(x):\n" + "    x = x * 2\n" * 2000 + "    return jnp.where(x > 0, jnp.log(x), 0.)\n",
    "digits": f"def f(x):\n    return jnp.where(x > 0, jnp.log(x), {'9' * 5000})\n",
    "hexadecimal": f"def f(x):\n    return jnp.where(x > -0x{'f' * 5000}, jnp.log(x), 0x{'f' * 5000})\n",
    "tower": "def f(x):\n    return jnp.where(x > 0, jnp.log(x), 9**9**9**9**9)\n",
    "parentheses": f"def f(x):\n    return jnp.where(x > 0, jnp.log(x), {'(' * 300}x{')' * 300})\n",
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_is_too_much_is_said(project: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Beside it, another file is confirmed."""
    require("jax")
    write(project, {"a.py": "import jax.numpy as jnp\n" + TOO_MUCH[name], "b.py": UNSAFE})
    status = main(["check", "--confirm", "--device", "cpu", "--output-format", "concise", "--cache-dir", ".."])
    captured = capsys.readouterr()
    assert status in (1, 2)
    assert "internal error" not in captured.err
    assert "b.py:5:29: error: WL101" in captured.out
    assert "\n1 confirmed" in captured.out or "\n2 confirmed" in captured.out  # or it is too long to be run
