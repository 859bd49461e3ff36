"""The pages that ``wherelint explain`` shows: their programs run, and print what the page says."""

from __future__ import annotations

import contextlib
import io
import linecache
import re
from pathlib import Path

import pytest
from conftest import Run
from real_gradients import require

from wherelint import docs
from wherelint.cli import main

#: A program, and what it prints; a program that is followed by nothing prints what it likes.
_BLOCK = re.compile(r"```python\n(?P<program>.+?)```\n(?:\n```text\n(?P<printed>.+?)```)?", re.DOTALL)


@pytest.mark.parametrize("topic", docs.topics())
def test_the_programs_of_a_page_print_what_it_says(
    topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    page = docs.page(topic)
    names: dict[str, object] = {"__name__": "model"}
    rows, moved = 0, 0
    for block in _BLOCK.finditer(page):
        program = block["program"]
        for framework in ("jax", "torch"):
            if re.search(rf"^(import|from) {framework}\b", program, re.MULTILINE):
                require(framework)
        # One file: the blocks of a page follow each other, and the places that are printed are rows of it.
        path = tmp_path / "model.py"
        text = (path.read_text() if path.exists() else "") + program
        path.write_text(text)
        linecache.checkcache(str(path))
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile("\n" * rows + program, str(path), "exec"), names)
        rows = text.count("\n")
        if block["printed"] and request.config.getoption("--regenerate"):
            start, end = (place + moved for place in block.span("printed"))
            page = page[:start] + printed.getvalue() + page[end:]
            moved += len(printed.getvalue()) - len(block["printed"])
            docs.path(topic).write_text(page, encoding="utf-8")
        elif block["printed"]:
            assert printed.getvalue() == block["printed"]


@pytest.mark.parametrize("topic", docs.topics())
def test_a_page_is_shown_and_short(run: Run, topic: str) -> None:
    page = docs.page(topic)
    status, shown, errors = run("explain", topic)
    assert (status, errors) == (0, "")
    assert shown.startswith("# ")
    assert "<!--" not in shown
    assert shown.strip() == page.strip() or "<!--" in page
    assert len(page.splitlines()) <= 150
    prose = re.sub(r"```.*?```|^\|.*?$|https://\S+", "", page, flags=re.DOTALL | re.MULTILINE)
    assert [line for line in prose.splitlines() if len(line) > 100 and "![" not in line] == []


def test_what_is_generated_is_that_of_the_code(run: Run) -> None:
    assert "--exit-non-zero-on-fix" in run("explain", "command-line")[1]
    assert 'The default is `"warning"`.' in run("explain", "configuration")[1]
    assert "[WL101](rules/WL101.md) | `unmasked-sqrt` | on |" in run("explain", "rules")[1]


def test_former_names_lead_to_their_pages(run: Run) -> None:
    assert run("explain", "noqa") == run("explain", "baseline") == run("explain", "suppressing")


def test_without_a_name_explain_lists_what_there_is(run: Run) -> None:
    status, shown, _ = run("explain")
    assert status == 0
    assert all(topic in shown for topic in docs.topics())
    assert "WL101" in shown


def test_an_unknown_topic_gets_a_hint(run: Run) -> None:
    status, _, errors = run("explain", "locat")
    assert status == 2
    assert errors == "error: no rule or topic 'locat'; did you mean 'locate'?\n"


def test_rule_is_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rule", "WL101"]) == main(["explain", "WL101"]) == 0
    output = capsys.readouterr().out
    assert output == 2 * output[: len(output) // 2]
    assert "# WL101 unmasked-sqrt" in output
