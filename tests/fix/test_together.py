"""Several fixes as one: each name is bound once, and what does not fit together is no fix."""

from __future__ import annotations

import textwrap

from wherelint.finding import Edit, FileReport, Location
from wherelint.fix import messages
from wherelint.fix.together import _renamed, _union
from wherelint.frontend.module import Module
from wherelint.io.config import Settings
from wherelint.run.check import check_source

TEXT = "import jax.numpy as jnp\n\n\ndef f(x, y):\n    a = x\n    b = y\n    return a + b\n"


def inserted(content: str, row: int) -> Edit:
    return Edit(content, Location(row, 1), Location(row, 1))


def offered(body: str) -> FileReport:
    text = "import jax.numpy as jnp\n\n\n" + textwrap.dedent(body).strip("\n") + "\n"
    return check_source(text.encode(), "f.py", Settings(), "offer")


def test_a_name_that_two_fixes_bind_to_different_values_is_another_in_the_second() -> None:
    first = (inserted("    mask = x > 0\n", 5), Edit("mask", Location(5, 9), Location(5, 10)))
    second = (inserted("    mask = y > 0\n", 6), Edit("mask", Location(6, 9), Location(6, 10)))
    edits = _union(Module("f.py", TEXT), [first, second])
    assert edits is not None
    assert [edit.content for edit in edits] == [
        "    mask = x > 0\n",
        "mask",
        "    mask_2 = y > 0\n",
        "mask_2",
    ]


def test_a_row_that_two_fixes_share_is_written_once() -> None:
    row = "    mask = x > 0\n"
    edits = _union(Module("f.py", TEXT), [(inserted(row, 5),), (inserted(row, 6), inserted("    c = x\n", 7))])
    assert edits is not None
    assert set(edits) == {inserted(row, 5), inserted("    c = x\n", 7)}


def test_what_overlaps_is_not_put_together() -> None:
    whole, part = Edit("b = y", Location(5, 5), Location(5, 10)), Edit("x", Location(5, 9), Location(5, 10))
    assert _union(Module("f.py", TEXT), [(whole,), (part,)]) is None


def test_a_name_that_one_fix_binds_twice_is_renamed_everywhere() -> None:
    edits = [inserted("    m = x > 0\n", 5), inserted("    m = x > 0\n", 7)]
    renamed = _renamed(TEXT, edits, {"m": "    m = y\n"})
    assert [edit.content for edit in renamed] == ["    m_2 = x > 0\n"] * 2


def test_a_message_names_three_rows() -> None:
    assert messages.made_with("", [4]) == ", together with row 4"
    assert messages.made_with("mask it" + messages.left_in([4, 6]), [4]) == "mask it, together with row 4"
    assert messages.made_with("", [4, 5, 6, 7, 8]) == ", together with rows 4, 5, 6 and 2 more"


def test_selections_of_one_variable_are_fixed_together() -> None:
    report = offered("""
        def f(x):
            a = jnp.where(x > 0, jnp.sqrt(x), 0.0)
            b = jnp.where(x > 1, jnp.sqrt(x - 1), 0.0)
            return a + b
    """)
    first, second = (finding.fix for finding in report.findings)
    assert first is not None
    assert second is not None
    assert {(fix.applicability, fix.remaining) for fix in (first, second)} == {("safe", ())}
    assert first.message.endswith(", together with row 6")  # at 0 the root of -1 is nan as well
    assert {edit.location.row for edit in first.edits} == {5, 6}


def test_a_function_of_many_selections_of_a_few_variables_is_fixed_at_once() -> None:
    """At no input do all others stay finite: every fix needs all, and rows of one cause have several fixes."""
    rows = "".join(f"    y{i} = jnp.where(x{i % 3} > {i % 2}, jnp.sqrt(x{i % 3} - {i % 2}), 0.0)\n" for i in range(12))
    text = (
        f"import jax.numpy as jnp\n\n\ndef f(x0, x1, x2):\n{rows}    return {' + '.join(f'y{i}' for i in range(12))}\n"
    )
    report = check_source(text.encode(), "f.py", Settings(), "safe")
    assert report.findings == ()
    assert report.after.decode().count("jnp.where") == 24
