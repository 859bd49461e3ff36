"""Every option of every command is tried by some test."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from wherelint.cli import cli

TESTS = Path(__file__).parents[1]


def given(text: str) -> Iterator[str]:
    """The options in the strings of a program that are no documentation."""
    tree = ast.parse(text)
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            for word in node.value.split():
                if word.startswith("--"):
                    yield word.partition("=")[0]
                elif word.startswith("-"):
                    yield word[:2]


TRIED = {each for path in TESTS.rglob("test_*.py") for each in given(path.read_text(encoding="utf-8"))}


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (name, option)
        for name, command in sorted(cli.commands.items())
        for each in command.params
        if isinstance(each, click.Option)
        for option in (*each.opts, *each.secondary_opts)
    ],
)
def test_an_option_is_tried(command: str, option: str) -> None:
    assert option in TRIED, f"no test gives {command} {option}"


def test_what_counts_as_tried() -> None:
    program = '''"""Not --this."""\nrun("check", "--one=3", "-j2")\nrun("x --two y")\n'''
    assert sorted(given(program)) == ["--one", "--two", "-j"]
