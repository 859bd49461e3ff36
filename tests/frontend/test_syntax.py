"""The syntax of a text: what it mentions, and what stays of it when one statement is rewritten."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wherelint.frontend import syntax
from wherelint.frontend.syntax import Syntax

TEXT = '''"""A file."""
import jax.numpy as jnp
from jax import lax as l; x = 1

@decorated
def f(x):
    import numpy as np
    return jnp.where(x > 0, jnp.sqrt(x), 0.0)


class A(B):
    """A class."""

    def g(self, y):
        return y / self.scale[0]

    h = jnp.maximum

if x:
    def k(z):
        return lambda: z ** 2
last = [
    1,
    2,
]
f.defvjp(forward, backward)
'''
ROWS = TEXT.splitlines(keepends=True)


def known(syntax: Syntax) -> list[object]:
    """Everything that a syntax says, but for the nodes that it says it of."""
    said: list[object] = [syntax.lines, [ast.dump(statement) for statement in syntax.imports], syntax.rules]
    for statement, chunk in syntax.statements:
        words = syntax.words(statement)
        places = [chunk.region(node) for node in ast.walk(statement) if isinstance(node, (ast.expr, ast.stmt))]
        said.append((ast.dump(statement), chunk.first, chunk.last, chunk.text, places, words))
        methods = statement.body if isinstance(statement, ast.ClassDef) else []
        said += [syntax.words(each) for each in methods if isinstance(each, ast.FunctionDef)]
    return said


def test_words_are_what_a_statement_mentions() -> None:
    syntax = Syntax(TEXT)
    words = {getattr(s, "name", ""): syntax.words(s) for s, _ in syntax.statements}
    assert {"jnp", "x"} <= words["f"].names
    assert {"where", "sqrt"} <= words["f"].attributes
    assert words["f"].imported == {"numpy"}
    assert {ast.Gt, ast.Compare} <= words["f"].kinds
    assert "maximum" in words["A"].attributes
    assert ast.Div in words["A"].kinds
    assert ast.Subscript in words["A"].kinds
    assert {ast.Lambda, ast.Pow} <= words["k"].kinds
    assert syntax.rules == {"forward": "vjp", "backward": "vjp"}
    assert [ast.dump(i) for i in syntax.inner_imports] == [ast.dump(ast.parse("import numpy as np").body[0])]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("jnp.sqrt(x)", "jnp.sqrt(jnp.where(x > 0, x, 1.0))"),
        ("    return jnp.where", "    safe = x\n    return jnp.where"),
        ("        return y / self.scale[0]\n", "        return y\n"),
        ("    1,\n    2,\n", "    1,\n"),
        ("@decorated\n", "@decorated\n@twice\n"),
    ],
)
def test_a_rewritten_statement_is_parsed_alone(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, text = Syntax(TEXT), TEXT.replace(old, new)
    assert text != TEXT
    fresh = known(Syntax(text))
    parsed: list[str] = []
    parse = ast.parse
    monkeypatch.setattr(ast, "parse", lambda source, *rest: parsed.append(source) or parse(source, *rest))
    after = before.revised(text)
    assert known(after) == fresh
    assert known(before) == known(Syntax(TEXT))
    assert len(parsed[0]) < len(text) / 2


@settings(max_examples=300)
@given(
    at=st.integers(0, len(ROWS)),
    removed=st.integers(0, 3),
    added=st.lists(st.sampled_from([*ROWS, "    y = 1\n", "z = 2\n", "\n", '"""\n', "# a comment\n"]), max_size=3),
)
def test_a_revised_syntax_is_that_of_the_text(at: int, removed: int, added: list[str]) -> None:
    text = "".join([*ROWS[:at], *added, *ROWS[at + removed :]])
    try:
        fresh = Syntax(text)
    except SyntaxError:
        with pytest.raises(SyntaxError):
            Syntax(TEXT).revised(text)
    else:
        after = Syntax(TEXT).revised(text)
        # What an old version of the statement said of derivatives and imports may still be there.
        after.rules = fresh.rules
        assert known(after) == known(fresh)


def test_texts_are_kept_as_long_as_they_are_few_and_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syntax, "_recent", {})
    monkeypatch.setattr(syntax, "_MOST_CHARACTERS", 30)
    short = [syntax.read(f"a = {n}\n") for n in range(4)]
    assert syntax.read("a = 0\n") is short[0]
    syntax.read("b = 12345678901\n")
    assert list(syntax._recent) == ["a = 3\n", "a = 0\n", "b = 12345678901\n"]
    assert syntax.read("a = 1\n") is not short[1]
    syntax.read("c = " + "1" * 40)  # the last one stays, however long it is
    assert len(syntax._recent) == 1
