"""Lines that a fix writes are no longer than those of the project."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from wherelint.finding import FileReport
from wherelint.fix.layout import wrapped
from wherelint.io.config import Settings
from wherelint.run.check import check_source

#: Statements that are too long, in every way that they may be broken.
LONG = """\
def f(x):
    return jnp.where(radicand <= 0, 0.0, jnp.sqrt(jnp.where(radicand <= 0, 1.0, radicand))) + foo(a, b, c)
    terms = jnp.where(singular, jnp.log(stop_gradient(weights)), jnp.log(jnp.where(singular, 1.0, weights))) + comp
    pos = -a * torch.where(singular, torch.pow((1.0 - p).detach(), g), torch.pow(torch.where(singular, 1.0, q), g))
    each = torch.where(bottom != 0, torch.div(top, torch.where(bottom != 0, bottom, 1.0)), float("nan"))
    dm = torch.where(radicand <= 0, 0.0, torch.where(radicand <= 0, 1.0, radicand_with_a_long_name)).sqrt()
    self.gg[idx, :] = some_function_name(abcdefgh, ijklmnop)[:, something + another] + jnp.where(a > b, a, 1.0)
    loss = -(target * torch.log(torch.where(of_it > 0, of_it, 1.0)) + other_term).sum(dim=-1, keepdim=True)
    foo(torch.where(probability_of_it > 0, probability_of_it, 1.0), other_argument=12, another_argument=[1, 2, 3])
    w = {k: jnp.where(v > 0, jnp.log(jnp.where(v > 0, v, 1.0)), 0.0) for k, v in dictionary_of_things.items()}
    y = jnp.where(
        cond,
        x,
        jnp.sqrt(jnp.where(cond_cond_cond_cond_cond, 1.0, x_x_x_x_x_x_x_x_x_x_x)) / yyyyyyyyyyyyyyyyy,
    )
    a = jnp.where(probability_of_it > 0, probability_of_it, 1.0) if condition_is_true else jnp.zeros_like(of_it)
    ops = {"a": lambda s, t: torch.where(s > 0, s, 1.0) / t, "b": lambda s: (1 / s**2 - 1).clamp(min=0).sqrt(), "c": 1}
    z = jnp.where(
        cond,
        jnp.sqrt(jnp.where(cond_cond_cond_cond_cond, 1.0, x_x_x_x_x_x_x_x_x_x_x)) - jnp.where(a > b, 1.0, c) / d,
        (a - b) / jnp.where(cond_cond_cond_cond_cond_cond_cond, 1.0, x_x_x_x_x_x_x_x_x_x_x_x_x_x_x),
    )
    m = jnp.any(x != 0, axis=-1, keepdims=True) & (jnp.abs(some_other_thing) > 0.001) & mask_of_valid_elements
    alone = foo(a_name=jnp.where(probability_of_it > 0, probability_of_it, 1.0) + jnp.where(of_it > 0, 1.0, 0.0))
    nested = jnp.log(-jnp.where(probability_of_it > 0, probability_of_it, 1.0, jnp.where(of_it > 0, 1.0, 0.0), 12345))
    item = jnp.log(jnp.where(probability_of_it > 0, probability_of_it, 1.0, jnp.where(of_it > 0, 1.0, 0.0))[..., None])
    either = jnp.log(probability_of_it if jnp.where(probability_of_it > 0, of_it, 1.0) else another_name_of_something)
    mapped = jax.vmap(lambda p: jnp.where(p > 0, probability_of_it, 1.0, jnp.where(of_it > 0, 1.0, 0.0), 123456))
    summed = jnp.log(
        jnp.where(probability_of_it > 0, probability_of_it, 1.0) + jnp.where(of_it > 0, 1.0, 0.0),
    )
    one = (jnp.where(probability_of_it > 0, probability_of_it, 1.0), jnp.where(probability_of_it > 0, 1.0, 0.0),)
"""


def test_long_lines_are_broken_at_brackets_and_the_program_stays() -> None:
    new = wrapped("", LONG, 88)
    assert max(map(len, new.splitlines())) <= 88
    assert ast.dump(ast.parse(new)) == ast.dump(ast.parse(LONG))
    assert new.splitlines()[1:8] == [
        "    return jnp.where(",
        "        radicand <= 0, 0.0, jnp.sqrt(jnp.where(radicand <= 0, 1.0, radicand))",
        "    ) + foo(a, b, c)",
        "    terms = jnp.where(",
        "        singular,",
        "        jnp.log(stop_gradient(weights)),",
        "        jnp.log(jnp.where(singular, 1.0, weights)),",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "value = jnp.where(a_very_long_condition > 0, a_very_long_name, 1.0)  # and a comment",
        "value = name_name_name_name_name_name_name_name_name_name_name_name_name",
        'value = """a string that is\nof two lines and too long for the width given""" + jnp.sqrt(x)',
        "value = (a_a_a_a_a_a_a_a_a_a_a_a_a_a_a_a_a_a\n         # a comment inside\n         + b_b_b_b_b_b_b_b)",
        "first = jnp.where(a_long_condition > 0, a_long_name, 1.0); second = 2",
    ],
)
def test_what_cannot_be_broken_stays(line: str) -> None:
    program = f"def f(x):\n    {line}\n"
    new = wrapped("", program, 60)
    assert new == program or max(map(len, new.partition("#")[0].splitlines())) <= 60


def test_only_the_row_that_is_too_long_is_broken() -> None:
    old = "def f(x):\n  y = jnp.where(  a,\n      (x - 1.) / (x + y - 2.),\n      where(b,\n            0., jnp.nan))\n"
    long = old.replace("/ (x + y - 2.)", "/ jnp.where(mask, x + y - 2., 1.0)")
    new = long.replace("where(mask, x + y - 2., 1.0)", "where(\n          mask, x + y - 2., 1.0\n      )")
    assert wrapped(old, long, 44) == new


def test_lines_of_the_author_stay() -> None:
    old = f"x = f({'a, ' * 40})\n"
    assert wrapped(old, old + "y = 1\n", 60) == old + "y = 1\n"


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_ends_of_lines_stay(ending: str) -> None:
    new = wrapped("", f"x = f({'a, ' * 8}b){ending}y = 1", 20)
    assert new.endswith(f"){ending}y = 1")
    assert ending == "\n" or "\n" not in new.replace(ending, "")


PROGRAM = """\
import jax.numpy as jnp


def f(x, some_threshold):
    value = jnp.where(x > some_threshold, jnp.sqrt(x - some_threshold), jnp.zeros_like(x)) + 1.0
    return value


def g(x, low, high):
    return [jnp.where((x > low) & (x < high), jnp.log(x - low), 0.0) for _ in range(3)]
"""


def fixed(path: Path, text: str) -> str:
    path.write_text(text)
    report: FileReport = check_source(text.encode(), str(path), Settings(root=path.parent), "safe")
    assert len(report.fixed) == 2
    return report.after.decode()


def test_the_length_of_black_is_that_of_its_table(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.black]\nline-length = 110\nskip-string-normalization = true\n")
    after = fixed(tmp_path / "f.py", PROGRAM + "\n\nNAME = 'single'\n")
    assert "'single'" in after
    assert any(88 < len(line) <= 110 for line in after.splitlines())


def test_what_is_laid_out_otherwise_elsewhere_stays(tmp_path: Path) -> None:
    text = PROGRAM.replace("def f", "TABLE = [1,\n   2]\n\n\ndef f")
    after = fixed(tmp_path / "f.py", text)
    assert "TABLE = [1,\n   2]\n" in after
    assert max(map(len, after.splitlines())) <= max(map(len, PROGRAM.splitlines()))


@pytest.mark.parametrize("table", ["[tool.ruff]\nline-length = 'wide'", "[tool.ruff", "tool = 1"])
def test_a_table_that_cannot_be_read_is_no_table(table: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(table)
    assert fixed(tmp_path / "f.py", PROGRAM) != PROGRAM


def test_the_lines_of_an_offered_fix_are_broken(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\nline-length = 70\n")
    report = check_source(PROGRAM.encode(), str(tmp_path / "f.py"), Settings(root=tmp_path), "offer")
    for finding in report.findings:
        assert finding.fix is not None
        assert all(len(line) <= 70 for edit in finding.fix.edits for line in edit.content.splitlines())
