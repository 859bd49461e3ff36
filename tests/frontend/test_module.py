"""The index of a file: what it defines and imports, and where every node stands, in any kind of text."""

from __future__ import annotations

import ast
import sys
import textwrap

import pytest

from wherelint.finding import Finding
from wherelint.findings import DetectOptions, detect
from wherelint.frontend.module import Module
from wherelint.frontend.syntax import GiveUp
from wherelint.io.config import Settings
from wherelint.run.check import check_source

UNSAFE = "def f(x):\n    return jnp.where(x > 0, jnp.sqrt(x), 0.0)\n"
IMPORT = "import jax.numpy as jnp\n"


def findings(text: str) -> list[Finding]:
    found, problems = detect(text, "a.py", DetectOptions())
    assert problems == []
    return found


def marked(text: str, finding: Finding) -> str:
    """The text between the places of a finding, with rows as Python counts them."""
    rows = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    start, end = finding.location, finding.end_location
    if start.row == end.row:
        return rows[start.row - 1][start.column - 1 : end.column - 1]
    inner = rows[start.row : end.row - 1]
    return "\n".join([rows[start.row - 1][start.column - 1 :], *inner, rows[end.row - 1][: end.column - 1]])


def indent(text: str, by: str = "    ") -> str:
    return textwrap.indent(text, by)


TEXTS = {
    "plain": IMPORT + UNSAFE,
    "no newline at the end": IMPORT + UNSAFE.rstrip("\n"),
    "blank lines": IMPORT + "\n\n\n" + UNSAFE,
    "CRLF": (IMPORT + "\n" + UNSAFE).replace("\n", "\r\n"),
    "CR": (IMPORT + "\n" + UNSAFE).replace("\n", "\r"),
    "mixed newlines": IMPORT + "\r\n" + UNSAFE.replace("\n", "\r\n") + "x = 1\r",
    "tabs": IMPORT + UNSAFE.replace("    ", "\t"),
    "form feed between": IMPORT + "\f\n" + UNSAFE,
    "form feed before def": IMPORT + "\f" + UNSAFE,
    "form feed in a comment": IMPORT + "# a\fb\n" + UNSAFE,
    "line separators in a string": IMPORT + 's = "\u2028 \x85 \x0b"\n' + UNSAFE,
    "continuation": IMPORT + "y = 1 + \\\n    2\n" + UNSAFE,
    "triple quotes": IMPORT + 's = """\ndef f(x):\n"""\n' + UNSAFE,
    "decorated": IMPORT + "import jax\n@jax.jit\n@jax.named_call\n" + UNSAFE,
    "under if": IMPORT + "if True:\n" + indent(UNSAFE),
    "under else": IMPORT + "if False:\n    pass\nelse:\n" + indent(UNSAFE),
    "under elif": IMPORT + "if False:\n    pass\nelif True:\n" + indent(UNSAFE),
    "under if with a comment": IMPORT + "if True:\n# outdented\n" + indent(UNSAFE),
    "under if with tabs": IMPORT + "if True:\n" + indent(UNSAFE.replace("    ", "\t"), "\t"),
    "under if and if": IMPORT + "if True:\n    if True:\n" + indent(UNSAFE, " " * 8),
    "under try": "try:\n    import jax.numpy as jnp\n" + indent(UNSAFE) + "except ImportError:\n    pass\n",
    "under except": "try:\n    import jax.numpy as jnp\nexcept ImportError:\n" + indent(UNSAFE),
    "under finally": IMPORT + "try:\n    pass\nfinally:\n" + indent(UNSAFE),
    "under with": IMPORT + "with open('a'):\n" + indent(UNSAFE),
    "under if, with a string at column 1": IMPORT
    + 'if True:\n    def f(x):\n        """\na\n        """\n        return jnp.where(x > 0, jnp.sqrt(x), 0.0)\n',
    "one line": IMPORT + "f = lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0)\n",
    "after a semicolon": IMPORT + "a = 1; f = lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0)\n",
    "def on one line": IMPORT + "def f(x): return jnp.where(x > 0, jnp.sqrt(x), 0.0)\n",
    "if on one line": IMPORT + "if True: f = lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0)\n",
    "unicode before": IMPORT + 'def f(x):\n    return "é😀" and jnp.where(x > 0, jnp.sqrt(x), 0.0)\n',
    "unicode names": IMPORT + "def f(σ, x):\n    return σ * jnp.where(x > 0, jnp.sqrt(x), 0.0)\n",
    "after an f-string": IMPORT + 'def f(x):\n    return f"é{x!r}" and jnp.where(x > 0, jnp.sqrt(x), 0.0)\n',
    "byte order mark": "\ufeff" + IMPORT + UNSAFE,
    "in a class": IMPORT + "class A:\n" + indent(UNSAFE.replace("(x)", "(self, x)", 1)),
    "in a class under if": IMPORT + "if True:\n    class A:\n" + indent(UNSAFE.replace("(x)", "(self, x)", 1), " " * 8),
    "in a nested function": IMPORT + "def g(x):\n" + indent(UNSAFE) + "    return f(x)\n",
    "wide": IMPORT + "def f(x):\n    return jnp.where(x > 0," + " " * 300 + "jnp.sqrt(x), 0.0)\n",
    "parenthesised": IMPORT + "def f(x):\n    return jnp.where((x > 0), (jnp.sqrt(x)), 0.0)\n",
}
if sys.version_info >= (3, 12):
    TEXTS |= {
        "type parameters": IMPORT + "type A[T] = list[T]\n" + UNSAFE.replace("f(x)", "f[T: int](x: T) -> A[T]"),
        "quotes in an f-string": IMPORT + UNSAFE.replace("    ", "    s = f'é{x['a'] # why\n    }'; y = 1\n    ", 1),
    }


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_finding_points_at_the_operation(text: str) -> None:
    compile(text.removeprefix("\ufeff"), "a.py", "exec")  # Python takes it
    found = findings(text.removeprefix("\ufeff"))
    assert [marked(text.removeprefix("\ufeff"), f) for f in found] == ["jnp.sqrt(x)"]
    assert found[0].noqa_row == found[0].location.row


def test_an_operation_over_rows_ends_where_it_ends() -> None:
    text = IMPORT + "def f(x):\n    return jnp.where(x > 0, jnp.sqrt(\n        x\n    ), 0.0)\n"
    assert [marked(text, f) for f in findings(text)] == ["jnp.sqrt(\n        x\n    )"]


def test_the_index_knows_every_kind_of_definition() -> None:
    module = Module(
        "a.py", "import jax\ndef f(): ...\nclass A: ...\na = b = 1\nc: int = 2\nd: int\n(e, [g]) = 1, [2]\n"
    )
    assert list(module.definitions) == ["f", "A", "a", "b", "c", "e", "g"]
    assert module.imports == {"jax": "jax"}


def test_the_last_definition_of_a_name_counts() -> None:
    module = Module("a.py", "def f(): ...\n\n\ndef f(): ...\n")
    assert module.definitions["f"].block.first == 4


def test_a_decorator_belongs_to_its_block() -> None:
    module = Module("a.py", "\n@a\n@b\ndef f():\n    ...\n")
    block = module.definitions["f"].block
    assert (block.first, block.last) == (2, 5)


@pytest.mark.parametrize(
    ("text", "frameworks"),
    [
        ("import jax.numpy as jnp\n", ["jax"]),
        ("def f():\n    import torch\n", ["torch"]),
        ("import keras\nimport torch\n", ["tensorflow", "torch"]),
        ("import numpy\n", []),
        ("import torchvision\n", []),
    ],
)
def test_the_frameworks_of_a_file(text: str, frameworks: list[str]) -> None:
    assert sorted(Module("a.py", text).frameworks()) == sorted(frameworks)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_libcst_finds_what_ast_does_where_ast_does(text: str) -> None:
    module = Module("a.py", text.removeprefix("\ufeff"))
    asked = 0
    for statement, block in module.blocks:
        for node in ast.walk(statement):
            if isinstance(node, (ast.Call, ast.BinOp, ast.Compare, ast.Subscript, ast.Name)):
                asked += 1
                written = block.written(node)
                assert written is not None
                assert block.place(written) == block.region(node)
                assert block.concrete.code(written).strip("()") == block.text(node).strip("()")
    assert asked > 4


def test_a_label_has_names_as_python_reads_them() -> None:
    text = IMPORT + "def f(𝛽, y):\n    return jnp.where(y > 0, y / opaque(\n        ｙ, 𝛽), 0.0)\n"
    (found,) = findings(text)
    assert found.witness is not None
    assert "opaque( y, β)" in found.witness.inputs


def test_files_of_one_text_share_its_trees_but_not_what_their_names_mean() -> None:
    text = "from .other import f\n\n\ndef g(x):\n    return f(x)\n"
    one, two = Module("a.py", text), Module("b.py", text)
    blocks = [module.definitions["g"].block for module in (one, two)]
    assert blocks[0].concrete is blocks[1].concrete
    assert [block.module for block in blocks] == [one, two]
    assert one.definitions["g"] is not two.definitions["g"]


def test_a_question_about_a_node_is_asked_once() -> None:
    block = Module("a.py", "def once(x):\n    return x\n").definitions["once"].block
    function = block.chunk.statement
    asked: list[object] = []

    def question(node: object) -> int:
        asked.append(node)
        return len(asked)

    assert [block.chunk.once(question, function) for _ in "abc"] == [1, 1, 1]


def test_a_sum_of_many_terms_is_read_and_the_rest_is_checked() -> None:
    for terms in range(100, 1000, 50):
        deep = f"def deep(x):\n    return jnp.where(x > 0, jnp.sqrt({'+'.join(['x'] * terms)}), 0.0)\n"
        found, problems = detect(IMPORT + deep + UNSAFE, "a.py", DetectOptions())
        assert ([f.function for f in found], problems) == (["deep", "f"], [])


def test_a_block_that_libcst_refuses_says_so() -> None:
    module = Module("a.py", "def refused():\n    return 1\n")
    block = module.definitions["refused"].block
    module.lines[1] = "    return (\n"
    with pytest.raises(GiveUp, match="LibCST cannot parse this block"):
        block.concrete  # noqa: B018


@pytest.mark.parametrize(
    ("before", "after", "fixed"),
    [
        ("f(x):\n", "f(x, n):\n    match n:\n        case ((((y,),),),):\n            pass\n", True),
        ("f(x):\n", f"f(x, n):\n    match n:\n        case {'(' * 25}y{',)' * 25}:\n            pass\n", False),
        ("def f(x):\n    ", "if True:\n\f    def f(x):\n        ", False),
        ("def f(x):\n    return ", "if False:\n    pass\nelse: f = lambda x: ", False),
    ],
    ids=["brackets", "many brackets", "an indented form feed", "else on one line"],
)
def test_a_finding_in_a_block_that_libcst_refuses_is_shown_and_not_fixed(before: str, after: str, fixed: bool) -> None:
    text = IMPORT + UNSAFE.replace(before, after)
    report = check_source(text.encode(), "a.py", Settings(), "offer")
    assert [marked(text, finding) for finding in report.findings] == ["jnp.sqrt(x)"]
    assert [bool(finding.fix and finding.fix.edits) for finding in report.findings] == [fixed]
    assert all(not problem.error for problem in report.problems)


def test_text_that_is_not_python_is_a_syntax_error() -> None:
    with pytest.raises(SyntaxError):
        detect("def f(:\n", "a.py", DetectOptions())


def test_custom_rules_are_noted() -> None:
    text = "def f(x): ...\ndef f_fwd(x): ...\ndef f_bwd(r, g): ...\nf = custom_vjp(f)\nf.defvjp(f_fwd, f_bwd)\n"
    assert Module("a.py", text).rules == {"f": "primal", "f_fwd": "vjp", "f_bwd": "vjp"}
