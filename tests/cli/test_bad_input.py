"""Whatever a file, a path or an option is: one clear line, the exit code, and neither a hang nor a traceback."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from conftest import SAFE, UNSAFE, Run, environment, write

from wherelint import fix
from wherelint.cli import main
from wherelint.fix import apply as rounds
from wherelint.fix import messages as refusals
from wherelint.frontend.options import Budget

TESTS = Path(__file__).parents[1]
J = "import jax.numpy as jnp\n"
#: What makes a function worth a search, and one finding of it.
TAIL = "    return jnp.where(x > 0, jnp.sqrt(x), 0.0)\n"
SECONDS, BYTES = 60, 2 << 30
STEPS = "gave up on `f`: it takes too many steps (analysis budget exceeded)"
NESTED = "gave up on `f`: it is nested too deeply"
WORK = "gave up on `f`: its computations are too long"
VALUES = "gave up on `f`: it computes too many values (analysis budget exceeded)"
DEEP = "too deeply nested to analyse"
ANY = "*"  # which of clean, warned and failed it is depends on the version of Python; it is said in one line


def f(*rows: str, x: str = "x") -> str:
    """A function of some rows and the selection."""
    return f"{J}def f({x}):\n" + "".join(f"    {row}\n" for row in rows) + TAIL


def nested(opening: str, closing: str, depth: int) -> str:
    return f(f"y = {opening * depth}x{closing * depth}")


def helpers(count: int, body: str) -> str:
    """Functions that each call the one before."""
    return (
        J + "def f0(x):\n" + TAIL + "".join(f"def f{n}(x):\n    return {body.format(n - 1)}\n" for n in range(1, count))
    )


LOOPS = f(*(f"{'    ' * n}for i{n} in range(4):" for n in range(24)), "    " * 24 + "pass")

LATER = (2, "does not parse as Python 3.") if sys.version_info < (3, 12) else (0, "")

#: Name: text or bytes, exit code of ``check``, and the beginning of what is said ("" for nothing).
CONTENT: dict[str, tuple[str | bytes, int, str]] = {
    "a key of shared parts": (f("k = (x,)", *["k = (k, k)"] * 60, "y = {}.get(k)"), 1, ""),
    "empty": (b"", 0, ""),
    "blank": (b" \t\x0c\n\n", 0, ""),
    "syntax error": ("def f(:\n", 2, "does not parse as Python"),
    "cut off": (UNSAFE[:-8], 2, "does not parse as Python"),
    "Python 2": ("print 'a'\n", 2, "does not parse as Python"),
    "type parameters": ("def f[T](x: T): return x\n", *LATER),
    "a type": ("type Vector[T] = list[T]\n", *LATER),
    "tabs and spaces": ("if 1:\n        a\n\tb\n", 2, "does not parse as Python"),
    "tabs": (UNSAFE.replace("    ", "\t"), 1, ""),
    "null byte": (b"x = 1\n\0", 2, "the file contains a null byte"),
    "an executable": (b"\x7fELF\x02\x01\x01" + bytes(range(256)), 2, "cannot decode the file as utf-8"),
    "utf-16": (UNSAFE.encode("utf-16"), 2, "cannot decode the file as utf-8"),
    "byte order mark": (b"\xef\xbb\xbf" + UNSAFE.encode(), 1, ""),
    "mixed line ends": (UNSAFE.replace("\n", "\r\n", 2).replace("y\n", "y\r"), 1, ""),
    "form feeds": ("\x0c\n" * 10_000 + UNSAFE, 1, ""),
    "a row of 10 MB": (f"{UNSAFE[:-1]}, '{'a' * 10_000_000}'\n", 1, ""),
    "a row of 10 MB beside": (f"s = '{'a' * 10_000_000}'\n{UNSAFE}", 1, ""),
    "a million rows": (J + "\n" * 1_000_000 + UNSAFE, 1, ""),
    "500 terms": (f(f"x = {' + '.join(['x'] * 500)}"), 1, ""),
    "100,000 terms": (f(f"x = {' + '.join(['x'] * 100_000)}"), 2, ANY),
    "200 calls": (helpers(200, "f{0}(x)"), 1, ""),
    "40 doubled calls": (helpers(40, "f{0}(f{0}(x))"), 1, ""),
    "30 calls each": (helpers(30, " + ".join(["f{0}(x)"] * 30)), 1, ""),
    "900 elifs": (f("if n == 0:", "    x = 1", *("elif n == 1:\n        x = 2",) * 900, x="x, n"), 0, NESTED),
    "10,000 parentheses": (nested("(", ")", 10_000), 2, ANY),
    "60 wheres": (f(*["x = jnp.where(c, x + x, x)"] * 60, x="x, c"), 1, ""),
    "60 singular wheres": (f(*["x = jnp.where(c, jnp.sqrt(x + x), x)"] * 60, x="x, c"), 1, WORK),
    "90 singular wheres": (f(*["x = jnp.where(c, jnp.sqrt(x + x), x)"] * 90, x="x, c"), 1, WORK),
    "5,000 assignments": (f(*(f"a{n} = x + {n}" for n in range(5_000))), 1, ""),
    "7,000 operations": (f(*["x = x + 1"] * 7_000), 0, VALUES),
    "helpers that call each other": (
        J + "def a(x):\n    return b(x)\ndef b(x):\n    return a(x)\ndef f(x):\n    a(x)\n" + TAIL,
        1,
        "",
    ),
    "loops in loops": (LOOPS, 0, STEPS),
    "comprehensions in comprehensions": (f(f"y = [0 {' '.join(['for i in range(8)'] * 20)}]"), 0, STEPS),
    "a list that doubles": (f("y = [1]", *["y = y + y"] * 60), 0, STEPS),
    "a list that doubles by stars": (f("y = [1]", *["y = [*y, *y]"] * 60), 0, STEPS),
    "a text that doubles": (f("y = 'a'", *["y += y"] * 60), 0, STEPS),
    "lists in lists": (f("y = 1", *["y = [y, y]"] * 60, "x = x + jnp.array(y)"), 0, STEPS),
    "tuples in tuples": (f("y = x", *["y = (y, y)"] * 60, "y = jax.lax.stop_gradient(y)"), 1, ""),
    "a list in itself": (f("y = []", "y.append(y)", "x = x + jnp.array(y)"), 0, NESTED),
    "squares of squares": (f(*["x = x * x"] * 60), 1, ""),
    "masks of masks": (f("m = (x > 0).astype(float)", *["m = m * m"] * 60, "x = m * jnp.sqrt(x)"), 1, ""),
    "conditions of conditions": (f(*["m = m and m"] * 60, "assert m", x="x, m: bool"), 1, ""),
    "sizes of sizes": (f(*["n = jnp.maximum(n, n)"] * 60, "y = jnp.zeros(n)", x="x, n"), 1, ""),
    "lambdas of lambdas": (f("t = lambda g: lambda y: g(g(y))", "x = t(t)(t)(t)(t)(lambda y: y + 1)(x)"), 1, ""),
    "Y": (f("Y = lambda g: (lambda u: u(u))(lambda u: g(lambda v: u(u)(v)))", "x = Y(lambda g: g)(x)"), 1, ""),
    "a default of itself": ("def h(x, g=lambda x: h(x)):\n    return g(x)\n" + f("x = h(x)"), 1, ""),
    "a function given itself": (J + "def k(x, g):\n    return g(x, g)\ndef f(x):\n    k(x, k)\n" + TAIL, 1, ""),
    "a generator of itself": (J + "def f(x):\n    yield from f(x)\n" + TAIL.replace("return", "yield"), 1, ""),
    "decorators of each other": (
        J + "@b\ndef a(f): return b(f)\n@a\ndef b(f): return a(f)\n@a\n@b\n" + f()[24:],
        1,
        "",
    ),
    "3,000 decorators": (J + "def d(f): return f\n" + "@d\n" * 3_000 + f()[24:], 1, ""),
    "classes in a row": (
        J + "class C0: pass\n" + "".join(f"class C{n}(C{n - 1}): pass\n" for n in range(1, 3_000)) + f()[24:],
        1,
        "",
    ),
    "bases of bases": (
        J
        + "class A0: pass\nclass B0: pass\n"
        + "".join(f"class {c}{n}(A{n - 1}, B{n - 1}): pass\n" for n in range(1, 60) for c in "AB")
        + f"class C(A59, B59):\n    def f(self, x):\n        x = x + self.q\n    {TAIL}",
        1,
        "",
    ),
    "a class that is its base": (J + f"class A(B): pass\nclass B(A):\n    def f(self, x):\n    {TAIL}", 1, ""),
    "attributes of attributes": (
        J
        + f"class A:\n    def __getattr__(self, n):\n        return getattr(self, n)\n    def f(self, x):\n    {TAIL}",
        1,
        "",
    ),
    "3,000 conjunctions": (f(f"y = {' and '.join(['x'] * 3_000)}"), 1, ""),
    "3,000 comparisons": (f(f"y = {' < '.join(['x'] * 3_000)}"), 1, ""),
    "3,000 attributes": (f(f"y = x{'.a' * 3_000}"), 2, ANY),
    "an f-string": (f("y = f'" + "{x}" * 3_000 + "'"), 1, ""),
    "3,000 stars": (f(f"y = [{', '.join(['*x'] * 3_000)}]", "a, *b = y", "(c, (d, (*e,))) = y"), 1, ""),
    "patterns in patterns": (
        f("match n:", f"    case {'(' * 25}y{',)' * 25}:", "        pass", x="x, n"),
        1,
        "",
    ),
    "900 cases": (f("match n:", *(f"    case {n}:\n            x = x + 1" for n in range(900)), x="x, n"), 1, WORK),
    "a large table": (J + f"D = {{{', '.join(f'{n}: {n}' for n in range(30_000))}}}\n" + f("x = x * D[7]")[24:], 1, ""),
    "names that look alike": (J + "def f(х, x):\n    ｙ = х\n    return jnp.where(х > 0, jnp.sqrt(х), x)\n", 1, ""),
    "where is shadowed": (f("jnp.where = 5", "where = lambda *a: where(*a)", "y = where(x)"), 1, ""),
    "a comment of codes": (UNSAFE.replace("0.0)", f"0.0)  # noqa: {'W,' * 100_000}!"), 1, ""),
    "a comment of blanks": (UNSAFE.replace("0.0)", f"0.0)  # noqa{' ' * 300_000}:"), 1, ""),
    "a comment of hashes": (UNSAFE.replace("0.0)", f"0.0)  {'#noqa ' * 50_000}!"), 0, ""),
}
#: Expressions that Python computes at great length, or not at all.
CONSTANTS = """
    10**10**8 | "a"*10**10 | [0]*10**10 | range(10**12) | range(10**30) | range(1, 5, 0) | 1 << 10**10 | 1 << -1
    pow(3, 10**9) | pow(3, -1, 3) | math.factorial(10**8) | math.prod([10**299]*64) | math.comb(10**9, 10**8)
    jnp.zeros(10**12) | jnp.eye(10**12) | jnp.arange(10**400) | jnp.arange(float("nan")) | jnp.arange(-10**299, 10**299)
    jnp.linspace(0, 10**400, 5) | jnp.full(10**12, 10**200) | jnp.array([2**64, 10**200]) | jnp.polyval([10**299]*9, x)
    f"{1:1000000000}" | "%1000000000d" % 1 | bytes(10**10) | list(range(10**12)) | sum([10**299]*64) | 5 % 0
    [1, 2][10**20] | [1, 2][::0] | x[::0] | x[10**30] | x[1:10**30] | x ** 10**20 | int("9"*10**6) | int(float("inf"))
    [i for i in range(10**9)] | round(1e300, 10**9) | -10**299 * 10**299 | 10**299 // 1e-299 | jnp.sum(x, axis=10**30)
    jnp.roll(x, 10**20) | jnp.repeat(x, 10**12) | jnp.diff(x, n=10**9) | x.reshape(10**20, -1) | chr(10**10)
    2.0**10**10 | (1j)**10**9
"""  # fmt: skip
for _text in (text.strip() for row in CONSTANTS.strip().splitlines() for text in row.split(" | ")):
    CONTENT[_text] = (f("import math", f"y = {_text}", "x = x + y") + "\n\n" + UNSAFE[24:].replace("f(", "g("), 1, "")
for _what, _opening, _closing in (
    ("lists", "[", "]"),
    ("dictionaries", "{1: ", "}"),
    ("lambdas", "lambda: ", ""),
    ("subscripts", "x[", "]"),
    ("calls", "jnp.sin(", ")"),
    ("comprehensions", "[", " for i in x]"),
    ("negations", "not ", ""),
    ("choices", "1 if x else ", ""),
):
    CONTENT[f"90 {_what}"] = (nested(_opening, _closing, 90), 1, "")
    CONTENT[f"900 {_what}"] = (nested(_opening, _closing, 900), 2, ANY)


def run_table(directory: str, names: str, *options: str) -> None:
    """In a child: rows of the table in one process, with limits; a line of JSON for each."""
    import contextlib
    import io

    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    os.chdir(directory)
    for name in json.loads(names):
        content, _, _ = CONTENT[name]
        Path("a.py").write_bytes(content if isinstance(content, bytes) else content.encode())
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of its own time; nothing catches it
        output, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            status = main(["check", "a.py", "--no-cache", "--isolated", *options])
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps([name, status, errors.getvalue()]), flush=True)


def ran_table(directory: Path, names: Sequence[str], *options: str) -> dict[str, tuple[int, str]]:
    script = "import sys; from cli.test_bad_input import run_table; run_table(*sys.argv[1:])"
    command = [sys.executable, "-c", script, str(directory), json.dumps([*names]), *options]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=TESTS)
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    assert ran.returncode == 0, f"died after {rows[-1:]}: {ran.stderr[-2000:]}"
    assert os.listdir(directory) == ["a.py"]
    return {name: (status, errors) for name, status, errors in rows}


@pytest.mark.slow
def test_content(tmp_path: Path, a_tenth: Callable[..., Sequence[str]]) -> None:
    names = a_tenth([*CONTENT], parts=3)
    for name, (status, errors) in ran_table(tmp_path, names, "--output-format", "concise").items():
        _, code, message = CONTENT[name]
        assert "internal error" not in errors, name
        errors = "".join(line for line in errors.splitlines(keepends=True) if "gave up on fixes for" not in line)
        assert len(errors.splitlines()) <= 1, (name, errors)
        if message != ANY:
            assert (status, message in errors, bool(errors)) == (code, True, bool(message)), (name, errors)


@pytest.mark.slow
def test_content_survives_fixes(tmp_path: Path, a_tenth: Callable[..., Sequence[str]]) -> None:
    options = "--fix", "--unsafe-fixes", "--output-format", "json"
    for name, (status, errors) in ran_table(tmp_path, a_tenth([*CONTENT]), *options).items():
        _, code, message = CONTENT[name]
        assert "internal error" not in errors, name
        assert message == ANY or (status == 2) == (code == 2), name


@pytest.fixture
def command(wherelint: Run) -> Run:
    """The command in the working directory; it may not take for ever."""

    def command(*arguments: str) -> tuple[int, str, str]:
        signal.alarm(SECONDS)
        try:
            return wherelint("check", "--output-format", "concise", *arguments)
        finally:
            signal.alarm(0)

    return command


def pipe(path: Path) -> None:
    os.mkfifo(path)


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)  # a whole path may be too long


def loop(path: Path) -> None:
    path.symlink_to(path)


def dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.mkdir()


#: Name: what makes it, and what is said of it where it is named; below a folder that is named it is passed over.
PATHS: dict[str, tuple[Callable[[Path], None], str]] = {
    "pipe": (pipe, "not a regular file; use - for standard input"),
    "socket": (unix_socket, "not a regular file; use - for standard input"),
    "device": (zero, "not a regular file; use - for standard input"),
    "loop": (loop, "no such file or directory"),
    "dangling": (dangling, "no such file or directory"),
    "folder": (folder, ""),
}


@pytest.mark.parametrize("name", PATHS)
def test_what_is_no_file(project: Path, command: Run, name: str) -> None:
    make, message = PATHS[name]
    make(project / "odd.py")
    write(project, {"a.py": UNSAFE})
    status, output, errors = command("odd.py")
    nothing = "warning: found no Python file or notebook to check\n"
    assert (status, errors) == ((2, f"error: odd.py: {message}\n") if message else (0, nothing))
    for options in ((), ("--fix",)):
        status, output, errors = command(".", *options)
        assert (status, errors, output.count("a.py:")) == ((0, "", 0) if options else (1, "", 1))


@pytest.mark.parametrize("name", ["pipe", "device"])
@pytest.mark.parametrize("place", ["pyproject.toml", ".gitignore", "helper.py", "base.toml", "known.json"])
def test_what_is_no_file_where_one_is_read(project: Path, command: Run, name: str, place: str) -> None:
    PATHS[name][0](project / place)
    write(project, {"a.py": UNSAFE.replace("\n\n", "\nfrom helper import g\n", 1)})
    option = {"base.toml": ("--config", place), "known.json": ("--baseline", place)}.get(place, ())
    status, output, errors = command("a.py" if place == "helper.py" else ".", *option)
    if place in (".gitignore", "helper.py"):
        assert (status, output.count("WL101"), errors) == (1, 1, "")
    else:
        assert (status, output, errors.count("\n")) == (2, "", 1)
        assert "not a regular file" in errors


def test_a_name_that_is_not_utf_8(project: Path, command: Run) -> None:
    try:
        Path(os.fsdecode(b"caf\xe9.py")).write_text(UNSAFE)
    except OSError:
        pytest.skip("the file system has none")
    for options in ((), ("--output-format", "json"), ("--output-format", "sarif"), ("--fix",)):
        status, output, errors = command(".", *options)
        assert (status, errors) == (0 if options == ("--fix",) else 1, "")
        assert options[-1:] == ("--fix",) or "caf" in output


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read(project: Path, command: Run) -> None:
    write(project, {"a.py": UNSAFE, "locked/b.py": UNSAFE, "c.py": UNSAFE})
    os.chmod("c.py", 0)
    os.chmod("locked", 0)
    try:
        status, output, errors = command(".")
    finally:
        os.chmod("locked", 0o700)
    assert (status, output.count("WL101")) == (2, 1)
    assert errors == (
        "error: locked: cannot read the directory: Permission denied\n"
        "error: c.py: cannot read the file: Permission denied\n"
    )


@pytest.mark.slow
def test_an_interrupted_fix_leaves_nothing_behind(project: Path) -> None:
    """At whatever moment: each file is what it was or what it becomes, and nothing is beside them."""
    many = J + "".join(UNSAFE[24:].replace("f(", f"f{n}(") for n in range(20))
    arguments = [sys.executable, "-m", "wherelint", "check", "--fix", "-j", "2", "--no-cache", "-q", "."]
    seen = set()
    for seconds in (0.7, 1.5, 3):
        write(project, {f"a{n}.py": many for n in range(8)})
        process = subprocess.Popen(arguments, stderr=subprocess.PIPE, stdout=subprocess.PIPE, env=environment())
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=SECONDS)
        seen.add(process.returncode)
        assert errors in (b"wherelint: interrupted\n", b"")
        texts = {path.name: path.read_text() for path in project.iterdir() if path.is_file()}
        assert set(texts) == {f"a{n}.py" for n in range(8)}
        assert all(text == many or text.count("jnp.where") == 40 for text in texts.values())
    assert seen <= {130, -signal.SIGINT, 0}


NOTEBOOK = {"nbformat": 4, "metadata": {}, "cells": [{"cell_type": "code", "metadata": {}, "source": [UNSAFE]}]}
NOTEBOOKS: dict[str, tuple[bytes, int, str]] = {
    "empty": (b"", 2, "not a notebook: it is not JSON"),
    "cut off": (json.dumps(NOTEBOOK).encode()[:-9], 2, "not a notebook: it is not JSON"),
    "nested": (b"[" * 100_000, 2, DEEP),
    "a number of a million digits": (b'{"nbformat": ' + b"4" * 1_000_000 + b"}", 2, "not a notebook"),
    "a list": (b"[]", 2, "not a notebook: it has no format or no cells"),
    "old": (b'{"nbformat": 3, "cells": []}', 2, "a notebook of the old format 3"),
    "no source": (b'{"nbformat": 4, "cells": [{"cell_type": "code"}]}', 2, "cell 1 has no source"),
    "cells that are none": (b'{"nbformat": 4, "cells": [1, null, [], {}]}', 0, ""),
    "half a surrogate pair": (
        json.dumps(NOTEBOOK).replace("f(x)", "f(x, \\ud800)").encode(),
        0,
        "wherelint skips this cell",
    ),
    "100,000 cells": (json.dumps({**NOTEBOOK, "cells": NOTEBOOK["cells"][:1] + [{}] * 100_000}).encode(), 1, ""),  # type: ignore[index]
}


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks(project: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    content, status, message = NOTEBOOKS[name]
    (project / "a.ipynb").write_bytes(content)
    for options in ((), ("--diff",), ("--output-format", "json"), ("--fix", "--unsafe-fixes")):
        assert main(["check", "--no-cache", *options]) == (0 if status == 1 and "--fix" in options else status)
        errors = capsys.readouterr().err
        assert message in errors
        assert "internal error" not in errors


OPTIONS: dict[str, tuple[str, list[str], str]] = {
    "nested": (f"a = {'[' * 100_000}", [], "not valid TOML"),
    "not UTF-8": ("a = '\udcff'", [], "not valid TOML"),
    "a number": ("tool = 1", [], ""),
    "a list": ("[tool]\nwherelint = []", [], "must be a table"),
    "extends itself": ("[tool.wherelint]\nextend = 'pyproject.toml'", [], "extend"),
    "extends a folder": ("[tool.wherelint]\nextend = '.'", [], "Is a directory"),
    "extends a null byte": ('[tool.wherelint]\nextend = "x\\u0000y"', [], "must be the path of a file"),
    "extends a link to itself": ("[tool.wherelint]\nextend = 'loop'", [], "Too many levels of symbolic links"),
    "extends a device": ("[tool.wherelint]\nextend = '/dev/zero'", [], "not a regular file"),
    "a number of many digits": (f"a = {'1' * 10_000}", [], "not valid TOML"),
    "a large value": (
        f"[tool.wherelint]\nselect = '{'a' * 1_000_000}'",
        [],
        "must be a list of strings, not 'aaa",
    ),
    "a large file": (f"# {'a' * 10_000_000}", [], "File too large"),
    "a pattern that is none": ("[tool.wherelint]\nexclude = ['[', '!', '**', '\\\\', '[z-a]', '']", [], ""),
    "diff and baseline": ("", ["--diff", "--write-baseline", "a"], "--write-baseline cannot be combined"),
    "fix and add-noqa": ("", ["--fix", "--add-noqa"], "--add-noqa cannot be combined with --fix"),
    "device alone": ("", ["--device", "cpu"], "--device needs --confirm or --only-confirmed"),
    "no jobs": ("", ["-j", "-1"], "-1 is not in the range"),
    "many jobs": ("", ["-j", "100000"], ""),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options(project: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    config, options, message = OPTIONS[name]
    (project / "pyproject.toml").write_bytes(config.encode("utf-8", "surrogateescape"))
    write(project, {f"{'a' * 60}.py": SAFE})
    os.symlink("loop", project / "loop")
    start = time.monotonic()
    status = main(["check", "--no-cache", *options])
    errors = capsys.readouterr().err
    assert status == (2 if message else 0), errors
    assert message in errors
    assert len(errors) < 1_000
    assert time.monotonic() - start < SECONDS


def test_a_file_has_a_bound(project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes after is given up, which every format says; the same in every run."""
    write(project, {"a.py": J + "".join(UNSAFE[24:].replace("f(", f"f{n}(") for n in range(20))})
    monkeypatch.setattr(Budget, "file_work", 1_000)
    said = set()
    for _ in range(2):
        assert main(["check", "--no-cache", "--output-format", "json"]) == 1
        said.add(capsys.readouterr().err)
    (message,) = said
    assert message.startswith("warning: a.py: gave up on `f")
    assert "more functions: the file has too many functions (analysis budget exceeded)" in message


@pytest.mark.parametrize("options", [("--output-format", "json"), ("--fix", "--output-format", "json")], ids=" ".join)
def test_the_fixes_of_a_file_have_a_bound(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    write(project, {"a.py": J + "".join(UNSAFE[24:].replace("f(", f"f{n}(") for n in range(20))})
    monkeypatch.setattr(fix, "_MOST_IN_ALL", 500)
    monkeypatch.setattr(rounds, "_MOST_ROUNDS", 1)
    assert main(["check", "--no-cache", *options]) == 1
    captured = capsys.readouterr()
    refused = [(finding["fix"] or {}).get("message") for finding in json.loads(captured.out)]
    skipped = sum(message in refusals.GIVEN_UP for message in refused)
    assert skipped == 19  # the first has cost what all may
    said = re.findall(r"^warning: a.py: gave up on fixes for (\d+) of \d+ findings: ", captured.err, re.MULTILINE)
    assert sum(map(int, said)) == skipped
