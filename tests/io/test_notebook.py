"""Notebooks: cells as one program, findings by cell, and fixes that leave the rest of the file alone.

``nbformat`` writes the notebooks, and says whether they still are some.
"""

from __future__ import annotations

import codecs
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest
from conftest import SAFE, UNSAFE, environment
from hypothesis import given
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output, new_raw_cell

from wherelint.cli import main
from wherelint.finding import Edit, FileReport, Fix, Location, Problem
from wherelint.io.config import Settings
from wherelint.io.files import Target
from wherelint.io.notebook import Notebook, _within_cells, in_cell, spelled
from wherelint.run.check import check_source
from wherelint.run.engine import check_targets

IMPORT = "import jax.numpy as jnp"
F = "def f(x):\n    return jnp.where(x > 0, jnp.sqrt(x), 0.0)"
REPAIR = ("jnp.sqrt(x)", "jnp.sqrt(jnp.where(x > 0, x, 1.0))")
FIXED = F.replace(*REPAIR)
#: Has an unsafe fix only.
NORM = "def g(x):\n    n = jnp.linalg.norm(x)\n    return jnp.where(n > 0, n, 1.0)"
#: Whose fix adds a row.
DISKS = """\
def area(d, r1=1.0, r2=2.0):
    alpha = jnp.arccos((d**2 + r1**2 - r2**2) / (2 * d * r1))
    beta = jnp.arccos((d**2 + r2**2 - r1**2) / (2 * d * r2))
    lens = r1**2 * (alpha - jnp.sin(2 * alpha) / 2) + r2**2 * (beta - jnp.sin(2 * beta) / 2)
    contained = jnp.pi * jnp.minimum(r1, r2) ** 2
    return jnp.where(d >= r1 + r2, 0.0, jnp.where(d <= jnp.abs(r1 - r2), contained, lens))
"""


def made(*cells: Any, **more: Any) -> dict[str, Any]:
    """A notebook of some cells; a string is a code cell."""
    return new_notebook(cells=[new_code_cell(cell) if isinstance(cell, str) else cell for cell in cells], **more)


def check(*cells: Any, fix_mode: Any = "no", settings: Settings | None = None) -> FileReport:
    return check_source(nbformat.writes(made(*cells)).encode(), "a.ipynb", settings or Settings(), fix_mode)


def places(report: FileReport) -> list[str]:
    return [f"{spelled(finding.location, finding.cells)} {finding.code}" for finding in report.findings]


def warnings(report: FileReport) -> list[str]:
    assert not any(problem.error for problem in report.problems)
    return [f"{spelled(p.location, p.cells) if p.location else ''} {p.message}" for p in report.problems]


class TestPlaces:
    def test_cells_are_one_program_and_all_of_them_count(self) -> None:
        report = check(new_markdown_cell("# Title\n\nText"), IMPORT, new_raw_cell("raw"), "", f"x = 1\n\n{F}", NORM)
        assert places(report) == ["cell 5:4:29 WL101", "cell 6:2:9 WL108"]
        assert report.problems == ()

    def test_the_text_of_the_report_has_the_rows_of_the_findings(self) -> None:
        report = check(new_markdown_cell("a\nb"), f"%%time\n{IMPORT}", F)
        (finding,) = report.findings
        lines = report.text.split("\n")
        assert lines[finding.location.row - 1] == F.split("\n")[1]
        assert "%%time" in lines

    def test_an_operation_and_its_selection_in_two_cells(self) -> None:
        (finding,) = check(
            f"{IMPORT}\n\ndef _root(x):\n    return jnp.sqrt(x)",
            new_markdown_cell("x"),
            "def f(x):\n    return jnp.where(x > 0, _root(x), 0.0)",
        ).findings
        assert spelled(finding.location, finding.cells) == "cell 1:4:12"
        assert in_cell(finding.select.location, finding.cells) == (3, Location(2, 12))

    def test_a_place_outside_of_notebooks(self) -> None:
        (finding,) = check_source(UNSAFE.encode(), "a.py", Settings()).findings
        assert finding.cells == ()
        assert in_cell(finding.location, finding.cells) == (None, finding.location)
        assert spelled(finding.location, finding.cells) == "5:29"

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    def test_every_line_end_of_python(self, end: str) -> None:
        report = check(f"x = 1{end}{end}", end.join([IMPORT, *F.split("\n")]), fix_mode="offer")
        assert places(report) == ["cell 2:3:29 WL101"]
        (finding,) = report.findings
        assert finding.fix is not None
        assert [spelled(edit.location, finding.cells) for edit in finding.fix.edits] == ["cell 2:3:38"]

    def test_the_end_of_a_cell_belongs_to_it(self) -> None:
        cells = Notebook(nbformat.writes(made("a\nb", "c")), "a.ipynb").cells("##\na\nb\n##\nc\n")
        assert cells == (2, 5)
        assert [in_cell(Location(row, 1), cells) for row in (2, 3, 4, 5)] == [
            (1, Location(1, 1)), (1, Location(2, 1)), (1, Location(3, 1)), (2, Location(1, 1)),
        ]  # fmt: skip

    def test_per_file_ignores(self) -> None:
        settings = Settings(per_file_ignores={"*.ipynb": ("WL",)})
        assert check(IMPORT, F, "def f(:", settings=settings) == FileReport("a.ipynb")

    def test_nothing_found(self) -> None:
        assert check(SAFE) == FileReport("a.ipynb")
        assert check() == FileReport("a.ipynb")


class TestNoqa:
    def test_a_row(self) -> None:
        assert places(check(IMPORT, f"{F}  # noqa: WL101", F.replace("f(", "h("))) == ["cell 3:2:29 WL101"]

    @pytest.mark.parametrize("cell", ["# wherelint: noqa", "x = 1\n# wherelint: noqa: WL1"])
    def test_the_whole_notebook(self, cell: str) -> None:
        assert places(check(IMPORT, F, cell)) == []


class TestMagics:
    @pytest.mark.parametrize(
        "magic",
        [
            "%matplotlib inline",
            "%%time",
            "# comment\n\n%%capture out\n%%timeit -n 3",
            "!ls",
            "!echo don't (",
            "!docker run \\\n  -v $PWD:'x \\\n  image",
            "?jnp",
            "jnp.sqrt?",
            "jnp.sqrt??",
            "np.*load*?",
            "y = %time g(2)",
            "files = !ls *.py",
            "d['a'], b = !cmd",
            "pip install jax",
            "if True:\n    !ls $HOME\nelse:\n    %time g()",
            "await g()\nasync with a: pass",
            '"\\d"',
        ],
    )
    def test_are_tolerated(self, magic: str) -> None:
        report = check(IMPORT, f"{magic}\n{F}")
        assert report.problems == ()
        assert places(report) == [f"cell 2:{magic.count(chr(10)) + 3}:29 WL101"]
        assert f"\n{magic}\n{F}\n" in report.text

    def test_stay_where_a_cell_is_fixed(self) -> None:
        cell = f"%%time\n{F}\n    %time f(2)\ny = %time f(3)\n!ls \\\n  'x"
        report = check(IMPORT, cell, fix_mode="safe")
        assert sources(report.after) == [IMPORT, cell.replace(F, FIXED)]

    @pytest.mark.parametrize("magic", ["%%bash", "%%html", "%%writefile a.py", "%%R -i x", "%%", "# a\n\n%%script x"])
    def test_another_language(self, magic: str) -> None:
        report = check(IMPORT, f"{magic}\n{F}", F)
        assert (places(report), report.problems) == (["cell 3:2:29 WL101"], ())


class TestBrokenCells:
    @pytest.mark.parametrize(
        ("cell", "place", "why"),
        [
            ("x = 1\ndef f(:", "2:7", "does not parse as Python 3."),
            ("if x:", "1:", "does not parse as Python 3."),
            ("x = (\n", "1:5", "does not parse as Python 3."),
            ("%%time\n  x = = 1  # why?", "2:", "does not parse as Python 3."),
            ("if x:\n%matplotlib inline", "2:", "does not parse as Python 3."),
            ("x = 1\n\\", "2:", "does not parse as Python 3."),
            ("x = '\0'", "1:", "does not parse as Python"),
            ("x = '\ud800'", "1:1", "does not parse as Python: "),
            ("(" * 1000 + ")" * 1000, "1:", ""),
            ("-" * 100_000 + "1", "1:1", "too deeply nested to analyse"),
        ],
    )
    def test_are_left_out_with_a_warning(self, cell: str, place: str, why: str) -> None:
        text = json.dumps({"nbformat": 4, "cells": [{"cell_type": "code", "source": s} for s in (IMPORT, cell, F)]})
        report = check_source(text.encode(), "a.ipynb", Settings(), "safe")
        (warning,) = warnings(report)
        assert warning.startswith(f"cell 2:{place}")
        assert why in warning
        assert warning.endswith("; wherelint skips this cell")
        assert sources(report.after) == [IMPORT, cell, FIXED]

    def test_each_has_its_warning(self) -> None:
        report = check("def f(:", IMPORT, "x = = 1", F)
        assert [warning.split(" does ")[0] for warning in warnings(report)] == ["cell 1:1:7", "cell 3:1:5"]
        assert places(report) == ["cell 4:2:29 WL101"]

    def test_what_is_given_up_is_a_warning_as_ever(self, fake_detect: None) -> None:
        report = check("x = 1", "def gave_up(): pass")
        assert [(p.message, p.error) for p in report.problems] == [("gave up on g", False)]


class TestNoNotebooks:
    @pytest.mark.parametrize(
        ("text", "message", "location"),
        [
            ("", "not a notebook: it is not JSON: Expecting value", Location(1, 1)),
            ('{\n "cells": [}', "not a notebook: it is not JSON: Expecting value", Location(2, 12)),
            ("[]", "not a notebook: it has no format or no cells", None),
            ("{}", "not a notebook: it has no format or no cells", None),
            ('{"nbformat": 4}', "not a notebook: it has no format or no cells", None),
            ('{"nbformat": "4", "cells": []}', "not a notebook: it has no format or no cells", None),
            ('{"nbformat": 4, "cells": [{"cell_type": "code"}]}', "not a notebook: cell 1 has no source", None),
            (
                '{"nbformat": 4, "cells": [1, {"cell_type": "code", "source": [2]}]}',
                "not a notebook: cell 2 has no source",
                None,
            ),
            (
                '{"nbformat": 3, "worksheets": []}',
                "a notebook of the old format 3: open it in Jupyter and save it again",
                None,
            ),
        ],
    )
    def test_one_error(self, text: str, message: str, location: Location | None) -> None:
        report = check_source(text.encode(), "a.ipynb", Settings(), "safe")
        assert report == FileReport("a.ipynb", problems=(Problem("a.ipynb", message, location),))

    @pytest.mark.parametrize("text", ['{"nbformat": ' + "9" * 5000 + ', "cells": []}', "[" * 100_000])
    def test_too_much(self, text: str) -> None:
        (problem,) = check_source(text.encode(), "a.ipynb", Settings()).problems
        assert problem.error
        assert "internal error" not in problem.message

    def test_undecodable(self) -> None:
        (problem,) = check_source("{}".encode("utf-16"), "a.ipynb", Settings()).problems
        assert problem.message == "cannot decode the file as utf-8: invalid start byte"

    @pytest.mark.parametrize(
        "metadata",
        [{"kernelspec": {"name": "ir", "display_name": "R", "language": "R"}}, {"language_info": {"name": "julia"}}],
    )
    def test_another_language_is_passed_over(self, metadata: Any) -> None:
        content = nbformat.writes(made(IMPORT, F, "x <- ?", metadata=metadata)).encode()
        assert check_source(content, "a.ipynb", Settings(), "safe") == FileReport("a.ipynb")

    @pytest.mark.parametrize(
        "metadata",
        [{"kernelspec": {"language": "python"}, "language_info": {"name": "ipython"}}, {"kernelspec": 3}, []],
    )
    def test_python(self, metadata: Any) -> None:
        content = json.dumps({**made(f"{IMPORT}\n{F}"), "metadata": metadata}).encode()
        assert len(check_source(content, "a.ipynb", Settings()).findings) == 1

    def test_a_cell_of_another_language(self) -> None:
        assert check(IMPORT, new_code_cell("x <- 1", metadata={"vscode": {"languageId": "r"}}), F).problems == ()

    def test_only_the_name_says_that_it_is_a_notebook(self) -> None:
        content = nbformat.writes(made(IMPORT, F)).encode()
        assert check_source(content, "a.py", Settings()) == FileReport("a.py")


def sources(content: bytes) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(content)["cells"]]


def rich() -> dict[str, Any]:
    """A notebook with everything that has to stay."""
    metadata = {
        "kernelspec": {"display_name": "Python 3 (é)", "language": "python", "name": "python3"},
        "language_info": {"name": "python", "version": "3.11.7"},
        "float": 1e-07, "big": 12345678901234567890, "other": [1.0, None, True, {}, []],
    }  # fmt: skip
    output = new_output("display_data", {"image/png": "iVBOR/w==\n", "text/html": "<b>\u2028</b>", "text/plain": [F]})
    cells = [
        new_markdown_cell(f"# Größe 🎈\n\n    {F}", attachments={"a.png": {"image/png": "x"}}),
        new_code_cell(IMPORT, metadata={"collapsed": True, "tags": ["source", "cells"]}, execution_count=3),
        new_code_cell(f"# größer 🎈 </b>\t\\\n{F}\nprint('\"é\"')\n", outputs=[output], execution_count=4),
        new_raw_cell(F),
        new_code_cell(F.replace("def f", "def h"), metadata={"source": F}),
        new_code_cell("source = [1, 2, 3]\n", metadata={"name": "cells"}),
    ]
    return new_notebook(cells=cells, metadata=metadata)


def in_one(notebook: dict[str, Any]) -> dict[str, Any]:
    """With every source as one string."""
    return json.loads(json.dumps(notebook))


def in_lines(notebook: dict[str, Any]) -> dict[str, Any]:
    """With every source as a list of lines."""
    cells = [{**cell, "source": cell["source"].splitlines(keepends=True)} for cell in in_one(notebook)["cells"]]
    return {**notebook, "cells": cells}


STYLES: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "nbformat": lambda n: nbformat.writes(n).encode(),
    "nbformat, an end of line": lambda n: f"{nbformat.writes(n)}\n".encode(),
    "one row": lambda n: json.dumps(in_lines(n)).encode(),
    "compact": lambda n: json.dumps(in_lines(n), separators=(",", ":"), ensure_ascii=False).encode(),
    "ascii": lambda n: json.dumps(in_lines(n), indent=1).encode(),
    "capitals": lambda n: json.dumps(in_lines(n), indent=1).replace("\\u00e9", "\\u00E9").encode(),
    "colab": lambda n: (
        json.dumps(in_lines(n), indent=2, ensure_ascii=False)
        .replace("<", "\\u003c").replace(">", "\\u003e").replace("/", "\\/").encode()
    ),
    "strings": lambda n: json.dumps(in_one(n), indent=4, ensure_ascii=False).encode(),
    "ascii strings": lambda n: json.dumps(in_one(n), sort_keys=True).encode(),
    "tabs": lambda n: json.dumps(in_lines(n), indent="\t", ensure_ascii=False).encode(),
    "crlf": lambda n: nbformat.writes(n).replace("\n", "\r\n").encode(),
    "mark": lambda n: codecs.BOM_UTF8 + nbformat.writes(n).encode(),
    "sources first": lambda n: json.dumps(
        {"cells": [dict(reversed(cell.items())) for cell in in_lines(n)["cells"]], "metadata": n["metadata"],
         "nbformat_minor": 5, "nbformat": 4}
    ).encode(),
    "keys twice": lambda n: (
        json.dumps(in_lines(n)).replace('"source":', '"source": "def f(:", "source":').encode()
    ),
}  # fmt: skip


class TestFix:
    @pytest.mark.parametrize("style", STYLES)
    def test_everything_else_stays(self, style: str) -> None:
        """What the writer writes of the fixed notebook, and what the fix makes of what the writer wrote."""
        before, after = rich(), rich()
        for cell in after["cells"]:
            if cell["cell_type"] == "code":
                cell["source"] = cell["source"].replace(*REPAIR)
        after["cells"][0], after["cells"][3] = before["cells"][0], before["cells"][3]
        for cell, same in zip(after["cells"], before["cells"], strict=True):
            cell["id"] = same.get("id")
        content, expected = STYLES[style](before), STYLES[style](after)
        assert content != expected
        report = check_source(content, "a.ipynb", Settings(), "safe")
        assert report.before == content
        assert report.after == expected
        assert [spelled(f.location, f.cells) for f in report.fixed] == ["cell 3:3:29", "cell 5:2:29"]
        nbformat.validate(nbformat.reads(report.after.decode("utf-8-sig"), 4))
        assert not check_source(report.after, "a.ipynb", Settings(), "safe").fixed

    def test_rows_that_a_fix_adds(self) -> None:
        left = NORM.replace("norm(x)", "norm(x, *[2])")  # over whatever axes: no guard is known
        report = check(IMPORT, F, DISKS, "x = 1", f"# \n{left}", fix_mode="safe")
        cells = sources(report.after)
        assert cells[1] == FIXED
        assert cells[2].count("\n") == DISKS.count("\n") + 2  # a condition and a mask
        assert cells[3:] == ["x = 1", f"# \n{left}"]
        assert {in_cell(f.location, f.cells)[0] for f in report.fixed} == {2, 3}
        assert places(report) == ["cell 5:3:9 WL108"]
        (finding,) = report.findings
        assert report.text.split("\n")[finding.location.row - 1] == left.split("\n")[1]

    def test_a_source_of_one_line(self) -> None:
        cell = f"{IMPORT}; f = lambda x: {F.split('return ')[1]}"
        content = json.dumps({"nbformat": 4, "cells": [{"cell_type": "code", "source": [cell]}]}, indent=1)
        report = check_source(content.encode(), "a.ipynb", Settings(), "safe")
        assert report.after.decode() == content.replace(*REPAIR)

    def test_a_fix_across_cells_is_not_offered(self) -> None:
        (finding,) = check(IMPORT, F, "x = 1", fix_mode="offer").findings
        assert _within_cells(finding) is finding
        edit = Edit("", Location(finding.cells[1], 1), Location(finding.cells[2], 1))
        other = _within_cells(replace(finding, fix=Fix("safe", "", (edit,))))
        assert other.fix == Fix("display", "no fix is offered: it would cross cells", ())

    def test_what_is_not_python_is_not_to_be_touched(self) -> None:
        notebook = Notebook(nbformat.writes(made("!ls", "x")), "a.ipynb")
        with pytest.raises(ValueError, match="not Python"):
            notebook.rewritten(notebook.program.replace("pass  ##0", "pass"))

    def test_a_comment_that_is_written_is_no_mark(self, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (project / "a.ipynb").write_text(nbformat.writes(made(IMPORT, F)))
        assert main(["check", "--add-noqa"]) == 0
        assert capsys.readouterr().err == ""
        assert "# noqa: WL101" in (project / "a.ipynb").read_text()

    def test_in_another_process(self, project: Path) -> None:
        (project / "a.ipynb").write_text(nbformat.writes(made(IMPORT, F)))
        targets = [Target("a.ipynb", Settings(), "safe")] * 2
        assert [in_cell(f.location, f.cells)[0] for f in check_targets(targets, 2).fixed] == [2, 2]

    def test_the_command(self, project: Path) -> None:
        content = nbformat.writes(made(IMPORT, new_markdown_cell("Größe"), F))
        (project / "a.ipynb").write_text(content, encoding="utf-8")

        def run(*arguments: str) -> str:
            command = [sys.executable, "-m", "wherelint", "check", *arguments]
            return subprocess.run(
                command, cwd=project, env=environment(), input=content, capture_output=True, encoding="utf-8"
            ).stdout

        patch = run("--diff")
        assert run("--fix", "-", "--stdin-filename", "b.ipynb") == content.replace(*REPAIR)
        subprocess.run(["git", "apply", "-"], cwd=project, input=patch, encoding="utf-8", check=True)
        assert (project / "a.ipynb").read_text(encoding="utf-8") == content.replace(*REPAIR)
        assert run("--fix") == "No findings, 1 file checked.\n"


BLANKS = st.text(" \t\r\n", max_size=3)
TEXTS = st.text(st.sampled_from('ab"\\/\b\té<\u2028🎈\x7f{}[]:,')) | st.text()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=4,
)


class Writer:
    """Writes JSON as no one would, but every character as it did before."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self._draw = draw
        self._spelling: dict[str, str] = {}

    def value(self, value: Any) -> str:
        if isinstance(value, str):
            return self.string(value)
        if isinstance(value, list):
            return self._within("[]", [self.value(item) for item in value])
        if isinstance(value, dict):
            return self._within(
                "{}", [f"{self.string(k)}{self._blank()}:{self._blank()}{self.value(v)}" for k, v in value.items()]
            )
        return json.dumps(value)

    def string(self, text: str) -> str:
        return f'"{"".join(map(self._character, text))}"'

    def _character(self, character: str) -> str:
        if character not in self._spelling:
            units = character.encode("utf-16-be", "surrogatepass").hex()
            escaped = "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
            ways = {escaped, escaped.upper().replace("U", "u"), json.dumps(character)[1:-1]}
            ways |= {"\\/"} if character == "/" else set()
            if character.isprintable() and character not in '"\\':
                ways.add(character)
            self._spelling[character] = self._draw(st.sampled_from(sorted(ways)))
        return self._spelling[character]

    def _within(self, brackets: str, items: list[str]) -> str:
        inside = ",".join(f"{self._blank()}{item}{self._blank()}" for item in items)
        return f"{brackets[0]}{inside or self._blank()}{brackets[1]}"

    def _blank(self) -> str:
        return self._draw(BLANKS)


@st.composite
def fixable(draw: Callable[[Any], Any]) -> tuple[str, str]:
    """A notebook, and what it should be after ``jnp.sqrt(x)`` was replaced in the code of one of its cells."""
    writer = Writer(draw)
    comment = draw(TEXTS).translate({ord(c): None for c in "\r\n\0\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"})
    comment = "".join(c for c in comment if not "\ud800" <= c <= "\udfff")
    lines = [f"# 1 {comment}\n", f"{IMPORT}\n", *F.splitlines(keepends=True)]
    if draw(st.booleans()):
        lead, before, after, tail = (draw(BLANKS) for _ in range(4))
        one, other = (
            f"[{lead}{f'{before},{after}'.join(map(writer.string, part))}{tail}]"
            for part in (lines, [line.replace(*REPAIR) for line in lines])
        )
    else:
        one, other = (writer.string(text) for text in ("".join(lines), "".join(lines).replace(*REPAIR)))

    def cell(source: str) -> list[tuple[str, str]]:
        return [("cell_type", writer.string("code")), ("source", source), *extra]

    def with_extra(members: list[tuple[str, str]], keys: list[str]) -> str:
        ordered = [(keys.index(k), f"{writer.string(k)}:{v}") for k, v in members]
        return "{" + ",".join(text for _, text in sorted(ordered)) + "}"

    extra = [("metadata", writer.value(draw(VALUES))), ("outputs", writer.value(draw(st.lists(VALUES, max_size=2))))]
    keys = draw(st.permutations(["cell_type", "source", "metadata", "outputs"]))
    others = st.lists(
        st.builds(lambda s, m: {"cell_type": "markdown", "source": s, "metadata": m}, st.lists(TEXTS) | TEXTS, VALUES),
        max_size=2,
    )
    left, right = ([writer.value(item) for item in draw(others)] for _ in range(2))
    metadata, blank = writer.value(draw(st.dictionaries(TEXTS, VALUES, max_size=2))), draw(BLANKS)
    order = draw(st.permutations(["cells", "metadata", "nbformat"]))

    def notebook(source: str) -> str:
        cells = f"[{blank}{','.join([*left, with_extra(cell(source), keys), *right])}]"
        return blank + with_extra([("cells", cells), ("metadata", metadata), ("nbformat", "4")], order) + blank

    return notebook(one), notebook(other)


@given(fixable())
def test_no_other_byte_is_changed(texts: tuple[str, str]) -> None:
    before, after = texts
    notebook = Notebook(before, "a.ipynb")
    assert notebook.rewritten(notebook.program) == before
    assert notebook.rewritten(notebook.program.replace(*REPAIR)) == after


ODD = st.lists(
    st.sampled_from(["%%time", "%x", "!ls \\", "x?", "a = !ls", "x = 1", "def f():", "    return 1", '"""', "(", "#",
                     "##1", "%%bash", "", "\r", "\x0c", "if x:", "    %y", "pass  #0", "\\", "pip install x"]),
    max_size=6,
)  # fmt: skip


@given(st.lists(ODD.map("\n".join), max_size=4))
def test_any_cells_come_back_as_they_were(cells: list[str]) -> None:
    text = json.dumps({"nbformat": 4, "cells": [{"cell_type": "code", "source": cell} for cell in cells]})
    notebook = Notebook(text, "a.ipynb")
    compile(notebook.program, "a.ipynb", "exec", flags=0x400, dont_inherit=True)
    assert len(notebook.cells(notebook.program)) == len(cells)
    again = Notebook(notebook.rewritten(notebook.program.replace("x = 1", "x = 2")), "a.ipynb")
    assert again.rewritten(again.program.replace("x = 2", "x = 1")) == text


@given(st.data())
def test_nothing_is_raised(data: st.DataObject) -> None:
    content = bytearray(nbformat.writes(made(IMPORT, "!ls", "def f(:")).encode())
    for _ in range(data.draw(st.integers(0, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    report = check_source(bytes(content), "a.ipynb", Settings(), "safe")
    assert not any("internal" in problem.message for problem in report.problems)
