"""The texts and the JSON of the reports, word for word."""

from __future__ import annotations

import io
import json as stdlib_json
import math
import unicodedata
from dataclasses import replace
from typing import Literal

import pytest

from wherelint.evidence.pieces import Level
from wherelint.finding import Edit, FileReport, Finding, Fix, Location, Problem, Selection, Witness
from wherelint.report import text
from wherelint.report.formats import json

TEXT = """\
import jax.numpy as jnp


def f(x):
    return jnp.where(x > 0, jnp.sqrt(x), 0.0)
"""
FINDING = Finding(
    code="WL101",
    name="unmasked-sqrt",
    message="gradient is nan for sqrt at 0 or below: `where` discards the result, "
    "but reverse mode still differentiates it",
    filename="pkg/a.py",
    location=Location(5, 29),
    end_location=Location(5, 40),
    select=Selection("where", Location(5, 12), Location(5, 46)),
    function="f",
    framework="jax",
    op="sqrt",
    level="error",
    witness=Witness({"x": 0.0}, 0.0, {"x": math.nan}),
    noqa_row=5,
)
WARNING, NOTE = replace(FINDING, level="warning"), replace(FINDING, level="note")
FIXABLE = replace(FINDING, fix=Fix("safe", "", (Edit("y", Location(5, 38), Location(5, 39)),)))
HELPS = {"WL101": "mask the operand too (the double where): `where(c, sqrt(where(c, x, 1.0)), y)`"}


def full(finding: Finding = FINDING, source: str = TEXT, width: int = 80, color: bool = False) -> str:
    stream = io.StringIO()
    report = FileReport(finding.filename, (finding,), text=source)
    text.write(text.full(report, HELPS, width), stream, color=color)
    return stream.getvalue()


def cells(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def at(source: str, operation: str, selection: str) -> Finding:
    """The finding at the place of two pieces of a text."""

    def span(piece: str) -> tuple[Location, Location]:
        start = source.index(piece)

        def place(offset: int) -> Location:
            return Location(source.count("\n", 0, offset) + 1, offset - source.rfind("\n", 0, offset))

        return place(start), place(start + len(piece))

    first, last = span(operation)
    return replace(FINDING, location=first, end_location=last, select=Selection("where", *span(selection)))


def test_full() -> None:
    assert full() == (
        "pkg/a.py:5:29: error: WL101 unmasked-sqrt\n"
        "  |\n"
        "5 |     return jnp.where(x > 0, jnp.sqrt(x), 0.0)\n"
        "  |            -----------------^^^^^^^^^^^------\n"
        "  why: gradient is nan for sqrt at 0 or below: `where` discards the result, but\n"
        "       reverse mode still differentiates it\n"
        "  witness: at x = 0.0 the value is 0.0 and the gradient with respect to x is nan\n"
        "  help: mask the operand too: `jnp.sqrt(jnp.where(x > 0, x, 1.0))`\n"
        "\n"
    )


def test_operation_and_selection_on_rows_of_their_own() -> None:
    source = "r = sqrt(x)\n" + "a = 1\n" * 10 + "return where(\n    x > 0,\n    r,\n)\n"
    finding = at(source, "sqrt(x)", "where(\n    x > 0,\n    r,\n)")
    assert full(finding, source).splitlines()[1:-6] == [
        "   |",
        " 1 | r = sqrt(x)",
        "   |     ^^^^^^^",
        ".. |",
        "12 | return where(",
        "   |        ------",
        "13 |     x > 0,",
        "   |     ------",
        "14 |     r,",
        "   |     --",
        "15 | )",
        "   | - the where",
    ]


def test_the_middle_of_a_long_selection_is_left_out() -> None:
    selection = "where(\n" + "    a,\n" * 20 + "    sqrt(x))"
    lines = full(at(selection, "sqrt(x)", selection), selection).splitlines()
    assert sum(line.startswith(tuple("0123456789 ")) and " | " in line for line in lines) == 12
    assert ".. |" in lines


@pytest.mark.parametrize(
    ("source", "code", "marks"),
    [
        (
            "\treturn\twhere(c,\tsqrt(x))",
            "    return  where(c,    sqrt(x))",
            "            ------------^^^^^^^-",
        ),
        ("全角 = where(数, sqrt(x))", "全角 = where(数, sqrt(x))", "       ----------^^^^^^^-"),
        ("e\N{COMBINING ACUTE ACCENT} = where(c, sqrt(x))", "é = where(c, sqrt(x))", "    ---------^^^^^^^-"),
        (
            "s = '\x1b'; where(c, sqrt(x))",
            "s = '\N{REPLACEMENT CHARACTER}'; where(c, sqrt(x))",
            "         ---------^^^^^^^-",
        ),
    ],
    ids=["tabs", "wide", "combining", "control"],
)
def test_marks_stand_below_what_they_mark(source: str, code: str, marks: str) -> None:
    lines = full(at(source, "sqrt(x)", source[source.index("where") :]), source).splitlines()
    assert unicodedata.normalize("NFC", lines[2]) == unicodedata.normalize("NFC", f"1 | {code}")
    assert lines[3] == f"  | {marks}"


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("filler", ["a + ", "数 + "], ids=["narrow", "wide"])
@pytest.mark.parametrize("where", ["start", "middle", "end"])
def test_long_rows_are_cut_around_the_operation(width: int, filler: str, where: str) -> None:
    before = {"start": "", "middle": filler * 50, "end": filler * 100}[where]
    after = {"start": filler * 100, "middle": filler * 50, "end": ""}[where]
    source = f"where({before}sqrt(x) + {after}1)"
    lines = full(at(source, "sqrt(x)", source), source, width).splitlines()
    assert "sqrt(x)" in lines[2]
    assert lines[3].count("^") == 7
    assert all(cells(line) <= width for line in lines[1:4])
    assert cells(lines[2][: lines[2].index("sqrt")]) == lines[3].index("^")
    assert max(map(cells, full(width=width).splitlines()[4:])) <= width


def test_a_label_that_does_not_fit_is_left_out() -> None:
    for length in range(50, 90):
        source = f"r = sqrt(x)\nwhere({'a' * length})"
        lines = full(at(source, "sqrt(x)", source[12:]), source).splitlines()
        assert max(map(cells, lines)) <= 80
        assert ("the where" in lines[5]) == (length <= 59)


def test_a_place_beyond_the_text_does_not_crash() -> None:
    assert "WL101" in full(FINDING, "")
    assert "WL101" in full(replace(FINDING, location=Location(1, 90), end_location=Location(1, 99)), "x = 1\n")


@pytest.mark.parametrize(
    ("level", "why", "color"),
    [("error", "why an error", "1;31"), ("warning", "why a warning", "1;33"), ("note", "why a note", "36")],
)
def test_the_level_is_said_and_why(level: Level, why: str, color: str) -> None:
    finding = replace(FINDING, level=level, evidence=("below zero", "direct"))
    assert full(finding).startswith(f"pkg/a.py:5:29: {level}: WL101 unmasked-sqrt\n")
    because = "the condition tests the operand of this operation, but an input must be below zero"
    assert f"  {why}: {because}\n" in full(finding, width=120)
    assert f"\x1b[{color}m{level}" in full(finding, color=True)
    line = text.concise(finding)
    assert "".join(piece for piece, _ in line) == f"pkg/a.py:5:29: {level}: WL101 {FINDING.message}"
    assert (level, level) in line


@pytest.mark.parametrize(
    ("modes", "sentence"),
    [
        (("xla",), "  mode: under XLA only (jit_compile=True); in eager mode this gradient is finite\n"),
        (("eager",), "  mode: in eager mode only; under XLA this gradient is finite\n"),
        (("eager", "xla"), "  mode: both in eager mode and under XLA\n"),
    ],
)
def test_modes_of_tensorflow(modes: tuple[str, ...], sentence: str) -> None:
    assert sentence in full(replace(FINDING, framework="tensorflow", modes=modes))
    assert "mode:" not in full(replace(FINDING, modes=modes))


@pytest.mark.parametrize(
    ("witness", "sentence"),
    [
        (
            Witness({"x": 0.0, "y": 1.0}, -0.0, {"x": math.nan, "y": 2.0}),
            "at x = 0.0 and y = 1.0 the value is -0.0 and the gradient with respect to x is nan",
        ),
        (
            Witness({"x": [0.0, 1.0]}, [0.0, 1.0], {"x": [math.nan, 0.5]}),
            "at x = [0.0, 1.0] the value is [0.0, 1.0] and the gradient with respect to x is [nan, 0.5]",
        ),
        (
            Witness({"a": 1e-10, "b": 0.10000000149, "c": 1e30}, 3.0, {"a": math.nan, "b": math.nan, "c": -math.inf}),
            "at a = 1e-10, b = 0.1 and c = 1e+30 the value is 3.0 and the gradient with respect to a and b is nan"
            " and with respect to c is -inf",
        ),
        (Witness({}, 0.0, {"x": math.inf}), "the value is 0.0 and the gradient with respect to x is inf"),
    ],
)
def test_witness(witness: Witness, sentence: str) -> None:
    assert text.witness_sentence(witness) == sentence


def test_without_a_witness_or_a_help_there_is_no_such_line() -> None:
    bare = full(replace(FINDING, witness=None, code="WL999"))
    assert "witness:" not in bare
    assert "help:" not in bare


def test_a_fix_is_shown_instead_of_the_help() -> None:
    edit = Edit("jnp.where(x > 0, x, 1.0)", Location(5, 38), Location(5, 39))
    shown = full(replace(FINDING, fix=Fix("safe", "mask `x`", (edit,))))
    assert "help:" not in shown
    assert shown.endswith(
        "  fix: mask `x`\n    -    return jnp.where(x > 0, jnp.sqrt(x), 0.0)\n"
        "    +    return jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0)\n\n"
    )
    assert "  fix: mask `x` (unsafe: " in full(replace(FINDING, fix=Fix("unsafe", "mask `x`", (edit,))))


def test_why_there_is_no_fix_is_said_after_the_help() -> None:
    shown = full(replace(FINDING, fix=Fix("display", "no fix is offered: too hard", ())))
    assert shown.index("help:") < shown.index("  note: no fix is offered: too hard\n")


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ([], ""),
        (["safe", "safe"], " (2 fixable with --fix)"),
        (["safe", "unsafe"], " (1 fixable with --fix, 1 more with --fix --unsafe-fixes)"),
        (["unsafe"], " (1 fixable with --fix --unsafe-fixes)"),
    ],
)
def test_what_can_be_fixed_is_counted(kinds: list[Literal["safe", "unsafe"]], said: str) -> None:
    edit = Edit("y", Location(5, 38), Location(5, 39))
    findings = [FINDING, *(replace(FINDING, fix=Fix(kind, "", (edit,))) for kind in kinds)]
    assert text.fixable(findings) == said


def test_colours_change_no_character() -> None:
    from rich.text import Text

    coloured = full(color=True)
    assert "\x1b[" in coloured
    assert Text.from_ansi(coloured).plain.rstrip("\n") == full().rstrip("\n")


def test_square_brackets_and_emoji_codes_survive_colours() -> None:
    from rich.text import Text

    source = "y = where(c, sqrt(x[b]) + a[:smile:] + '[red]', 0)"
    assert source in Text.from_ansi(full(at(source, "sqrt(x[b])", source[4:]), source, color=True)).plain


def test_concise() -> None:
    line = "".join(piece for piece, _ in text.concise(FINDING))
    assert line == f"pkg/a.py:5:29: error: WL101 {FINDING.message}"


def test_code_is_as_wide_as_the_terminal_and_sentences_are_not() -> None:
    source = f"where({'a + ' * 30}sqrt(x))"
    lines = full(replace(at(source, "sqrt(x)", source), message="word " * 60), source, 200).splitlines()
    assert lines[2] == f"1 | {source}"
    assert len(source) > 120 >= max(map(len, lines[4:]))


@pytest.mark.parametrize(
    ("findings", "hidden", "files", "expected"),
    [
        ([], 0, 1, "No findings, 1 file checked."),
        ([FINDING], 0, 2, "Found 1 error, 2 files checked."),
        ([FINDING, replace(FINDING, filename="b.py")], 0, 9, "Found 2 errors in 2 files, 9 files checked."),
        ([WARNING, FINDING, WARNING], 0, 1, "Found 1 error and 2 warnings, 1 file checked."),
        ([NOTE, WARNING, FINDING], 0, 1, "Found 1 error, 1 warning and 1 note, 1 file checked."),
        ([FIXABLE, WARNING], 0, 1, "Found 1 error and 1 warning (1 fixable with --fix), 1 file checked."),
        ([], 1, 3, "No findings, 3 files checked.\n1 note is hidden; see it with --level note."),
        ([], 5, 3, "No findings, 3 files checked.\n5 notes are hidden; see them with --level note."),
    ],
)
def test_summary(findings: list[Finding], hidden: int, files: int, expected: str) -> None:
    assert text.summary(findings, hidden, files) == expected


def test_summary_of_what_is_left() -> None:
    assert text.summary([FINDING, NOTE], 0, 1, left=True) == "1 error and 1 note left, 1 file checked."
    assert text.summary([], 0, 1, left=True) == "No findings left, 1 file checked."


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        ([], ""),
        (["warning"], "No errors, so the exit status is 0; --fail-on warning makes it 1."),
        (["note", "warning"], "No errors, so the exit status is 0; --fail-on warning makes it 1."),
        (["note"], "No errors or warnings, so the exit status is 0; --fail-on note makes it 1."),
    ],
)
def test_why_the_exit_status_is_0(findings: list[Level], expected: str) -> None:
    assert text.passing([replace(FINDING, level=level) for level in findings]) == expected


@pytest.mark.parametrize(
    ("files", "failed", "expected"),
    [
        (0, 1, "No findings, 0 files checked, 1 could not be checked."),
        (1, 2, "No findings, 1 file checked, 2 could not be checked."),
    ],
)
def test_summary_says_what_could_not_be_checked(files: int, failed: int, expected: str) -> None:
    assert text.summary([], 0, files, failed) == expected


def test_problem_lines() -> None:
    assert text.problem_line(Problem("a.py", "is odd", Location(3, 4))) == "error: a.py:3:4: is odd"
    assert text.problem_line(Problem("a.py", "is odd", error=False)) == "warning: a.py: is odd"


def test_a_line_is_printed_once() -> None:
    elsewhere = replace(FINDING, select=replace(FINDING.select, location=Location(9, 1)))
    assert list(text.concise_lines([FINDING, elsewhere, WARNING])) == [text.concise(FINDING), text.concise(WARNING)]


def test_statistics() -> None:
    fixed = replace(FINDING, fix=Fix("safe", "mask `x`", (Edit("y", Location(1, 2), Location(1, 3)),)))
    findings = [NOTE, NOTE, NOTE, WARNING, replace(FINDING, code="WL103", name="unmasked-division"), FINDING, fixed]
    assert text.statistics(findings) == [
        "     2  error    WL101  [*]  unmasked-sqrt",
        "     1  error    WL103  [ ]  unmasked-division",
        "     1  warning  WL101  [ ]  unmasked-sqrt",
        "     3  note     WL101  [ ]  unmasked-sqrt",
    ]
    first, *_, last = stdlib_json.loads(text.statistics_json(findings))
    assert first == {"severity": "error", "code": "WL101", "name": "unmasked-sqrt", "count": 2, "fixable": 1}
    assert last == {"severity": "note", "code": "WL101", "name": "unmasked-sqrt", "count": 3, "fixable": 0}


def test_json_has_the_documented_fields() -> None:
    rendered = json.render([replace(FINDING, evidence=("at the boundary", "direct", "returned"))])
    (finding,) = stdlib_json.loads(rendered)
    assert finding == {
        "url": "https://wherelint.readthedocs.io/en/stable/rules/WL101/",
        "code": "WL101",
        "name": "unmasked-sqrt",
        "message": FINDING.message,
        "filename": "pkg/a.py",
        "cell": None,
        "location": {"row": 5, "column": 29},
        "end_location": {"row": 5, "column": 40},
        "select": {"kind": "where", "location": {"row": 5, "column": 12}, "end_location": {"row": 5, "column": 46}},
        "related": [],
        "function": "f",
        "framework": "jax",
        "modes": [],
        "op": "sqrt",
        "severity": "error",
        "score": 0.76,
        "why": "the condition tests the operand of this operation",
        "evidence": ["at the boundary", "direct", "returned"],
        "witness": {"inputs": {"x": 0.0}, "value": 0.0, "gradient": {"x": "nan"}, "conditions": [], "unknown": []},
        "noqa_row": 5,
        "fix": None,
        "confirmation": None,
    }


def test_json_is_strict() -> None:
    witness = Witness({"x": [math.inf, 1.0], "y": -math.inf}, 0.0, {"x": [math.nan, -0.0]})
    rendered = json.render([replace(FINDING, witness=witness, filename="\udcff.py")])

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    (finding,) = stdlib_json.loads(rendered, parse_constant=refuse)
    assert finding["witness"] == {
        "inputs": {"x": ["inf", 1.0], "y": "-inf"},
        "value": 0.0,
        "gradient": {"x": ["nan", -0.0]},
        "conditions": [],
        "unknown": [],
    }
    rendered.encode("ascii")


def test_json_of_a_fix_and_of_nothing() -> None:
    fix = Fix("safe", "mask `x`", (Edit("y", Location(1, 2), Location(1, 3)),))
    (finding,) = stdlib_json.loads(json.render([replace(FINDING, fix=fix, witness=None)]))
    assert finding["witness"] is None
    edit = {"content": "y", "location": {"row": 1, "column": 2}, "end_location": {"row": 1, "column": 3}}
    assert finding["fix"] == {"applicability": "safe", "message": "mask `x`", "edits": [edit]}
    assert json.render([]) == "[]"
