"""Suppression comments."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import UNSAFE, Run, write

from wherelint.finding import FileReport, Finding, Location, Selection
from wherelint.io.config import Settings
from wherelint.io.edits import Source
from wherelint.run.check import check_source
from wherelint.suppress.noqa import find_suppressions, not_differentiated

#: Operation on row 4, selection on rows 6-8 of a statement on rows 6-8.
LINES = [
    "",
    "def f(x):",
    "    y = 0",
    "    r = sqrt(x)",
    "    z = 1",
    "    return where(",
    "        x > 0, r,",
    "        0.0)",
    "",
]
FINDING = Finding(
    "WL101",
    "unmasked-sqrt",
    "",
    "a.py",
    Location(4, 9),
    Location(4, 16),
    Selection("where", Location(6, 12), Location(8, 13)),
    "f",
    "jax",
    "sqrt",
    "error",
    None,
    4,
)


def covered(comments: dict[int, str], finding: Finding = FINDING) -> bool:
    lines = [f"{line}  {comments.get(row, '')}" for row, line in enumerate(LINES, 1)]
    return find_suppressions("\n".join(lines)).covering(finding) is not None


@pytest.mark.parametrize("row", [4, 6, 8])
def test_rows_of_the_operation_and_ends_of_the_statement_of_the_selection(row: int) -> None:
    assert covered({row: "# noqa: WL101"})


@pytest.mark.parametrize("row", [1, 2, 3, 5, 7, 9])
def test_other_rows(row: int) -> None:
    assert not covered({row: "# noqa"})


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa",
        "#noqa",
        "# NOQA: wl101",
        "# noqa:WL101",
        "# NOQA : WL101",
        "# noqa :WL101, E501",
        "# noqa: WL1",
        "# noqa: E501, WL101",
        "# noqa: E501 WL101",
        "# noqa: E501,WL101 because it is never 0",
        "# type: ignore # noqa: WL101",
        "# noqa because",
    ],
)
def test_comments_that_count(comment: str) -> None:
    assert covered({4: comment})


@pytest.mark.parametrize(
    "comment",
    ["# noqa: WL102", "# noqa: E501", "# noqa: because", "# no qa", "# nothing", "# noqa : ", "# noqa : WL102"],
)
def test_comments_that_do_not(comment: str) -> None:
    assert not covered({4: comment})


def test_every_row_of_an_operation_over_several_rows() -> None:
    finding = replace(FINDING, location=Location(6, 12), end_location=Location(8, 13), noqa_row=6)
    assert all(covered({row: "# noqa"}, finding) for row in (6, 7, 8))


def test_the_noqa_row_counts() -> None:
    assert covered({2: "# noqa"}, replace(FINDING, noqa_row=2))


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("# wherelint: noqa", True),
        ("#wherelint:noqa: WL101", True),
        ("# wherelint: noqa: WL1, WL203", True),
        ("# wherelint: noqa : WL101", True),
        ("# wherelint: noqa: WL2", False),
    ],
)
def test_whole_file(comment: str, expected: bool) -> None:
    assert covered({1: comment}) is expected
    assert covered({9: "    " + comment}) is expected


def test_a_file_comment_needs_a_row_of_its_own() -> None:
    assert not covered({3: "# wherelint: noqa"})


def test_strings_are_not_comments() -> None:
    text = 'a = "# noqa"\nb = """\n# wherelint: noqa\n"""\n'
    assert not find_suppressions(text).comments


def test_a_multi_line_string_is_silenced_on_its_last_row() -> None:
    text = 'r = sqrt(x, """\n\n""")  # noqa\n'
    finding = replace(FINDING, location=Location(1, 5), end_location=Location(1, 12), noqa_row=1)
    assert find_suppressions(text).covering(finding)


@pytest.mark.parametrize(
    "text", ["x = (  # noqa\n", "\x0c# noqa\n", "if x:\n        a  # noqa\n    b\n", "# noqa\r\nx = 1\r\n"]
)
def test_odd_texts_do_not_crash(text: str) -> None:
    assert find_suppressions(text).comments


@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_a_comment_ends_with_its_row(end: str) -> None:
    text = end.join(["x = (1,  # noqa: WL101, WL102", "     2)", "y = 1  # noqa", ""])
    assert find_suppressions(text) == find_suppressions(text.replace(end, "\n"))
    assert find_suppressions(text).statements == ((1, 2),)


def test_a_comment_for_files_that_stands_behind_code_hides_no_other() -> None:
    (comment,) = find_suppressions("x = 1  # wherelint: noqa  # noqa: WL101\n").comments
    assert (comment.codes, comment.file) == (("WL101",), False)


@pytest.mark.parametrize(
    ("comment", "hint"),
    [
        ("# wherelint: not-diferentiated", "unknown directive 'not-diferentiated'; did you mean 'not-differentiated'?"),
        ("# wherelint: nqoa: WL101", "unknown directive 'nqoa'; did you mean 'noqa'?"),
        ("# wherelint: ignore[WL101]", "unknown directive 'ignore'; write `# noqa: WL101`"),
        ("#wherelint:disable", "unknown directive 'disable'; write `# wherelint: noqa`"),
        ("# wherelint: not differentiated", "unknown directive 'not'; did you mean 'not-differentiated'?"),
        (
            "# wherelint: differentiated",
            "unknown directive 'differentiated': set this key in the configuration instead",
        ),
        ("# wherelint: noqa", None),
        ("# wherelint: not-differentiated", None),
        ("# wherelint: see the issue", None),
        ("# about wherelint", None),
    ],
)
def test_a_misspelt_directive_is_a_warning(comment: str, hint: str | None) -> None:
    text = f"import jax.numpy as jnp\n\n\ndef f(x):\n    return jnp.where(x > 0, jnp.sqrt(x), 0.0)\n{comment}\n"
    found = [(p.message, p.location, p.error) for p in check_source(text.encode(), "a.py", Settings()).problems]
    assert found == ([(hint, Location(6, 1), False)] if hint else [])


@pytest.mark.parametrize(
    ("text", "row", "after"),
    [
        ("def f(x):\n    return x\n", 2, "def f(x):  # wherelint: not-differentiated\n    return x\n"),
        ("def f(x): return x  # why\n", 1, "def f(x): return x  # why  # wherelint: not-differentiated\n"),
        (
            "def f(\n    x,\n):\n    return x\n",
            4,
            "def f(  # wherelint: not-differentiated\n    x,\n):\n    return x\n",
        ),
        ("class A:\n    def f(x):\n        return x\n", 3, None),
        ("def f(x):\n    def g(y):\n        return y\n    return g\n", 3, None),
        ("x = 1\n", 1, ""),
        ("def f(x): return '''\n'''\n", 2, ""),  # the row ends within a string
    ],
)
def test_where_it_is_said_that_nobody_differentiates(text: str, row: int, after: str | None) -> None:
    edit = not_differentiated(text, row)
    if after is None:
        assert edit is not None
        assert edit.location.row == row - 1
    else:
        assert (edit and Source(text).edited([edit])) == (after or None)


@pytest.mark.parametrize(
    ("comment", "why"),
    [
        ("# wherelint: ignore", "unknown directive 'ignore'; write `# noqa`"),
        ("# wherelint: noqa", "this comment has no effect on a line of code; write `# noqa`"),
        ("# wherelint: noqa: WL101", "this comment has no effect on a line of code; write `# noqa: WL101`"),
    ],
)
def test_what_is_advised_beside_code_works(comment: str, why: str) -> None:
    def checked(comment: str) -> FileReport:
        return check_source(f"{UNSAFE.rstrip()}  {comment}\n".encode(), "a.py", Settings())

    assert [problem.message for problem in checked(comment).problems] == [why]
    assert len(checked(comment).findings) == 1
    advised = checked(why.partition("`")[2].rstrip("`"))
    assert (advised.findings, advised.problems) == ((), ())


@pytest.mark.parametrize(
    ("comment", "reason"),
    [
        ("# noqa: WL101 -- knots are distinct", "knots are distinct"),
        ("# noqa: WL101, E501: knots are distinct.  # type: ignore", "knots are distinct."),
        ("# noqa \N{EM DASH} knots are distinct", "knots are distinct"),
        ("# type: ignore # noqa: WL101 knots are distinct", "knots are distinct"),
        ("# noqa: WL101", ""),
    ],
)
def test_the_reason_of_a_comment_is_shown(wherelint: Run, project: Path, comment: str, reason: str) -> None:
    write(project, {"a.py": f"{UNSAFE.rstrip()}  {comment}\n"})
    for cached in ("with", "without"):
        status, output, errors = wherelint("check", "-v")
        assert (status, output) == (0, "No findings, 1 file checked.\n"), cached
        assert errors.startswith(f"a.py:5:29: WL101 is silenced: {reason or 'no reason given'}\n"), cached
    assert wherelint("check") == (0, "No findings, 1 file checked.\n", "")
    results = [
        json.loads(wherelint("check", "--output-format", "sarif", *more)[1])["runs"][0]["results"]
        for more in ((), ("-v",), ("-v", "--ignore-noqa"))
    ]
    assert [[each.get("suppressions") for each in some] for some in results] == [
        [],  # GitHub would open an alert for it
        [[{"kind": "inSource", "justification": reason}]],
        [None],
    ]


def test_the_command_says_it(wherelint: Run, project: Path) -> None:
    write(project, {"a.py": UNSAFE})
    assert wherelint("check")[0] == 1
    assert wherelint("check", "--add-not-differentiated", "a.py:5") == (
        0,
        "a.py:4: marked as not-differentiated.\n",
        "",
    )
    assert wherelint("check")[0] == 0
    text = (project / "a.py").read_text()
    assert wherelint("check", "--add-not-differentiated", "a.py:5") == (
        0,
        "a.py:4: already marked as not-differentiated.\n",
        "",
    )
    assert (project / "a.py").read_text() == text
    status, _, errors = wherelint("check", "--add-not-differentiated", "a.py:1")
    assert (status, errors) == (2, "error: a.py:1: this row is in no function\n")
