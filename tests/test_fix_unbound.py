"""A fix that would leave a name unbound is none, whatever a proof makes of the name."""

from __future__ import annotations

import pytest

from wherelint.finding import Edit, Location
from wherelint.fix.unbound import binds_all
from wherelint.frontend.module import Module

TEXT = """import jax.numpy as jnp
from math import *

LIMIT = 1.0


def f(x):
    y = jnp.sqrt(x)
    return y + LIMIT + missing
"""


@pytest.mark.parametrize(
    ("row", "columns", "content", "bound"),
    [
        (7, (5, 6), "root", False),  # what reads y is left without it
        (7, (9, 20), "jnp.sqrt(abs(x))", True),
        (7, (9, 20), "jax.nn.relu(x)", False),
        (8, (12, 13), "(lambda v: v + y)(x)", True),
        (8, (12, 13), "missing", True),  # as it was before
        (8, (12, 13), "other", False),
    ],
)
def test_a_name_is_bound_or_was_not_before(row: int, columns: tuple[int, int], content: str, bound: bool) -> None:
    text = TEXT.replace("from math import *\n", "")
    edit = Edit(content, Location(row, columns[0]), Location(row, columns[1]))
    assert binds_all(Module("f.py", text), [edit]) == bound


def test_an_edit_may_import_what_another_one_reads() -> None:
    text = TEXT.replace("from math import *\n", "")
    imported = Edit("import jax\n", Location(1, 1), Location(1, 1))
    used = Edit("jax.nn.relu(x)", Location(7, 9), Location(7, 20))
    assert binds_all(Module("f.py", text), [imported, used])


def test_a_file_that_imports_everything_may_read_anything() -> None:
    edit = Edit("other", Location(9, 12), Location(9, 13))
    assert binds_all(Module("f.py", TEXT), [edit])
