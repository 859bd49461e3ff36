"""Suppressions that silence nothing (WL001), and comments for all that is found (``--add-noqa``)."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import UNSAFE, write

from wherelint.cli import main
from wherelint.io.config import Settings
from wherelint.run.check import check_source

LINE = "    return jnp.where(x > 0, jnp.sqrt(x), 0.0)"


def messages(text: str, **settings: object) -> list[str]:
    report = check_source(text.encode(), "a.py", Settings(root=Path("/"), **settings))  # type: ignore[arg-type]
    return [f"{f.location.row}:{f.location.column} {f.code} {f.message}" for f in report.findings]


def fixed(text: str) -> str:
    report = check_source(text.encode(), "a.py", Settings(root=Path("/")), "safe")
    return report.after.decode() if report.fixed else text


@pytest.mark.parametrize("comment", ["# noqa: WL101", "# noqa: WL1", "# noqa", "# noqa: E501", "# noqa: WL401"])
def test_a_suppression_that_counts_or_cannot_be_judged(comment: str) -> None:
    silenced = UNSAFE.replace(LINE, f"{LINE}  {comment}")
    assert [m for m in messages(silenced) if "WL001" in m] == []


@pytest.mark.parametrize(
    ("comment", "idle", "left"),
    [
        ("  # noqa: WL101, WL103", "WL103", "  # noqa: WL101"),
        ("  # noqa: WL103, WL101, E501", "WL103", "  # noqa: WL101, E501"),
        ("  # noqa: WL101  # noqa: WL2", "WL2", "  # noqa: WL101  # noqa: WL2"),
    ],
)
def test_codes_that_silence_nothing(comment: str, idle: str, left: str) -> None:
    text = UNSAFE.replace(LINE, LINE + comment)
    found = messages(text)
    if "  # noqa: WL101  #" in comment:  # only the first comment of a row counts
        assert found == []
        return
    assert found == [f"5:{len(LINE) + 3} WL001 `# noqa: {idle}` silences nothing here"]
    assert fixed(text) == UNSAFE.replace(LINE, LINE + left)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("    y = 1  # noqa: WL101\n", "    y = 1\n"),
        ("    y = 1  # noqa: WL101 it was so once\n", "    y = 1  # it was so once\n"),
        ("    y = 1  # noqa: WL101  # type: ignore\n", "    y = 1  # type: ignore\n"),
        ("    # noqa: WL101\n", ""),
        ("# wherelint: noqa: WL103\n", ""),
        ("# wherelint: noqa: WL103, E501\n", "# wherelint: noqa: E501\n"),
    ],
)
def test_comments_that_silence_nothing_are_removed(before: str, after: str) -> None:
    safe = UNSAFE.replace("jnp.sqrt(x)", "x")
    text = safe.replace(LINE.replace("jnp.sqrt(x)", "x"), before + LINE.replace("jnp.sqrt(x)", "x"))
    assert [m.partition(" ")[2].partition(" ")[0] for m in messages(text)] == ["WL001"]
    assert fixed(text) == text.replace(before, after)


@pytest.mark.parametrize(
    ("comment", "unknown"),
    [("WL101, WL999", "WL999"), ("wl110, wl120 why", "WL120"), ("WL9", "WL9"), ("E999", ""), ("WL1", "")],
)
def test_a_rule_that_is_unknown_is_a_warning(comment: str, unknown: str) -> None:
    report = check_source(UNSAFE.replace(LINE, f"{LINE}  # noqa: {comment}").encode(), "a.py", Settings(root=Path("/")))
    told = [(p.location and p.location.column, p.message, p.error) for p in report.problems]
    assert told == ([(len(LINE) + 3, f"unknown rule {unknown}", False)] if unknown else [])
    assert "WL999" not in str([f.message for f in report.findings])


def test_what_was_not_asked_cannot_be_said_to_be_unused() -> None:
    text = UNSAFE.replace(LINE, f"{LINE}  # noqa: WL101, WL103")
    assert messages(text, select=("WL101", "WL001")) == []
    assert messages(text, ignore=("WL001",)) == []


def test_add_noqa(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrapped = UNSAFE.replace(
        LINE, "    return jnp.where(\n        x > 0,\n        jnp.sqrt(x),  # noqa: E501\n        0.0,\n    )"
    )
    write(project, {"a.py": UNSAFE, "b.py": wrapped})
    assert main(["check", "--add-noqa"]) == 0
    assert capsys.readouterr().out == "Silenced 2 findings in 2 files.\nNo findings, 2 files checked.\n"
    assert (project / "a.py").read_text() == UNSAFE.replace(LINE, f"{LINE}  # noqa: WL101")
    assert (project / "b.py").read_text() == wrapped.replace("E501", "E501, WL101")
    assert main(["check"]) == 0
    assert main(["check", "--add-noqa", "--fix"]) == 2


def test_what_cannot_be_silenced_is_reported(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No comment can stand on a row that goes on after a backslash, nor within a string."""
    text = UNSAFE.replace(LINE, LINE.replace("(x), 0.0)", "(x), 0.0) + len('''\n''') \\\n    + 0"))
    write(project, {"a.py": text})
    status = main(["check", "--add-noqa"])
    output = capsys.readouterr().out
    assert (status == 0) == ("Silenced" in output)
    compile((project / "a.py").read_text(), "a.py", "exec")
