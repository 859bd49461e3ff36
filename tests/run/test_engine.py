"""One file to its report: encodings, errors, filters."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from encodings.aliases import aliases
from pathlib import Path
from typing import NoReturn

import pytest
from conftest import SAFE, UNSAFE, write

from wherelint.finding import FileReport, Location, Problem
from wherelint.io.config import Configuration, Overrides, Settings
from wherelint.io.files import discover
from wherelint.run import engine
from wherelint.run.check import check_source
from wherelint.run.engine import check_targets

NOTE = UNSAFE.replace("def f", "def f_note")


def problem(report: FileReport) -> Problem:
    assert report.findings == ()
    assert len(report.problems) == 1
    assert report.problems[0].error
    return report.problems[0]


@pytest.mark.usefixtures("fake_detect")
class TestFilters:
    def test_a_finding_and_the_text_for_its_frame(self) -> None:
        report = check_source(UNSAFE.encode(), "a.py", Settings())
        assert [finding.code for finding in report.findings] == ["WL101"]
        assert (report.text, report.problems) == (UNSAFE, ())

    def test_nothing_found(self) -> None:
        assert check_source(SAFE.encode(), "a.py", Settings()) == FileReport("a.py")
        assert check_source(b"", "a.py", Settings()) == FileReport("a.py")

    def test_a_note_is_shown_on_request(self) -> None:
        assert check_source(NOTE.encode(), "a.py", Settings()) == FileReport("a.py")
        assert len(check_source(NOTE.encode(), "a.py", Settings(level="note")).findings) == 1

    def test_noqa(self) -> None:
        assert not check_source(UNSAFE.replace("0.0)", "0.0)  # noqa: WL101").encode(), "a.py", Settings()).findings
        assert check_source(UNSAFE.replace("0.0)", "0.0)  # noqa: WL102").encode(), "a.py", Settings()).findings

    def test_findings_are_sorted(self) -> None:
        report = check_source((UNSAFE + UNSAFE).encode(), "a.py", Settings(level="note"))
        assert [finding.location.row for finding in report.findings] == [5, 10]

    def test_opt_in_codes_reach_the_detection_when_selected(self) -> None:
        report = check_source(UNSAFE.encode(), "a.py", Settings(extend_select=("WL4",)))
        assert {finding.code for finding in report.findings} == {"WL101", "WL401", "WL402"}

    def test_per_file_ignores(self, project: Path) -> None:
        settings = Settings(per_file_ignores={"tests/": ("WL101",)}, root=project)
        assert not check_source(UNSAFE.encode(), "tests/a.py", settings).findings
        assert check_source(UNSAFE.encode(), "a.py", settings).findings

    def test_warnings_are_kept_beside_findings(self) -> None:
        report = check_source((UNSAFE + "\ndef gave_up(): pass\n").encode(), "a.py", Settings())
        assert len(report.findings) == 1
        assert [(p.message, p.error) for p in report.problems] == [("gave up on g", False)]


@pytest.mark.usefixtures("fake_detect")
class TestEncodings:
    @pytest.mark.parametrize(
        "content",
        [
            codecs.BOM_UTF8 + UNSAFE.encode(),
            b"# -*- coding: latin-1 -*-\n# \xe9\n" + UNSAFE.encode(),
            b"# coding: cp1252\n# \x80\n" + UNSAFE.encode(),
            UNSAFE.replace("\n", "\r\n").encode(),
            UNSAFE.replace("\n", "\r").encode(),
            UNSAFE.rstrip("\n").encode(),
            b"\x0c\n" + UNSAFE.encode(),
            ("# 数値 \U0001f600\n" + UNSAFE).encode(),
        ],
        ids=["utf-8 mark", "latin-1", "cp1252", "crlf", "cr", "no newline at the end", "form feed", "wide"],
    )
    def test_readable(self, content: bytes) -> None:
        report = check_source(content, "a.py", Settings())
        assert report.problems == ()
        assert [finding.code for finding in report.findings] == ["WL101"]

    @pytest.mark.parametrize(
        ("content", "message", "location"),
        [
            (b"x = 1\ny = '\xff'\n", "cannot decode the file as utf-8: invalid start byte", Location(2, 6)),
            (b"# coding: klingon\n", "cannot decode the file: unknown encoding: klingon", None),
            (b"# coding: hex\n", "cannot decode the file: 'hex' is not a text encoding", None),
            (b"# coding: rot13\n", "cannot decode the file: 'rot13' is not a text encoding", None),
            (codecs.BOM_UTF8 + b"# coding: latin-1\n", "cannot decode the file: encoding problem: utf-8", None),
            (b"x = 1\r\n\0\n", "the file contains a null byte", Location(2, 1)),
            ("x = 1\n".encode("utf-16"), "cannot decode the file as utf-8: invalid start byte", Location(1, 1)),
        ],
    )
    def test_unreadable(self, content: bytes, message: str, location: Location | None) -> None:
        found = problem(check_source(content, "a.py", Settings()))
        assert (found.message, found.location) == (message, location)

    def test_a_codec_that_fails_in_its_own_way(self) -> None:
        message = problem(check_source(b"# coding: undefined\n", "a.py", Settings())).message
        assert message.startswith("cannot decode the file: ")
        assert "undefined encoding" in message

    @pytest.mark.parametrize("encoding", sorted({*aliases, *aliases.values(), "idna", "punycode", "unicode_escape"}))
    def test_no_codec_raises(self, encoding: str) -> None:
        for content in (b"", b"..\\x", bytes(range(1, 256))):
            report = check_source(f"# coding: {encoding}\n# ".encode() + content, "a.py", Settings())
            assert all("\n" not in found.message for found in report.problems)


class TestErrors:
    def test_syntax_error(self, fake_detect: None) -> None:
        found = problem(check_source(b"x = 1\ndef f(:\n", "a.py", Settings()))
        assert found.message.startswith("does not parse as Python 3.")
        assert found.location == Location(2, 7)

    @pytest.mark.parametrize("error", [RecursionError, MemoryError])
    def test_too_deep(self, monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
        monkeypatch.setattr("wherelint.findings.analyse", raiser(error("maximum recursion depth")))
        assert problem(check_source(UNSAFE.encode(), "a.py", Settings())).message == "too deeply nested to analyse"

    @pytest.mark.parametrize(
        ("error", "words"),
        [(ValueError("two\nlines"), "ValueError: two"), (KeyError(), "KeyError"), (AssertionError(), "AssertionError")],
    )
    def test_internal_error(self, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str) -> None:
        monkeypatch.setattr("wherelint.findings.analyse", raiser(error))
        message = problem(check_source(UNSAFE.encode(), "a.py", Settings())).message
        assert message.startswith(f"internal error, please report it: {words} (test_engine.py:")

    def test_a_syntax_error_of_something_else_is_an_internal_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("wherelint.findings.analyse", raiser(SyntaxError("'(' was never closed")))
        message = problem(check_source(UNSAFE.encode(), "a.py", Settings())).message
        assert message.startswith("internal error, please report it: SyntaxError: '(' was never closed")

    def test_interruption_is_not_an_internal_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("wherelint.findings.analyse", raiser(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            check_source(UNSAFE.encode(), "a.py", Settings())

    def test_a_file_that_cannot_be_opened(self, project: Path, fake_detect: None) -> None:
        write(project, {"a.py": UNSAFE, "b.py": UNSAFE})
        targets, _ = discover(["."], Configuration())
        (project / "a.py").unlink()
        result = check_targets(targets)
        assert [p.message for p in result.problems] == ["cannot read the file: No such file or directory"]
        assert [finding.filename for finding in result.findings] == ["b.py"]


def raiser(error: BaseException) -> Callable[..., NoReturn]:
    def detect(*_: object) -> NoReturn:
        raise error

    return detect


@pytest.mark.usefixtures("fake_detect")
def test_many_files(project: Path) -> None:
    write(project, {f"{name}.py": text for name, text in zip("abcd", [UNSAFE, SAFE, NOTE, "def f(:"], strict=True)})
    targets, _ = discover(["."], Configuration(Overrides()))
    done: list[int] = []
    result = check_targets(targets, 1, done.append)
    assert done == [1, 2, 3, 4]
    assert [report.filename for report in result.reports] == ["a.py", "d.py"]
    assert (result.files, result.failed, len(result.findings), len(result.problems)) == (3, 1, 1, 1)


@pytest.mark.parametrize(
    ("sizes", "expected"), [([100_000], 0), ([1_000] * 40, 0), ([150_000] * 2, 2), ([2_000] * 500, 4)]
)
def test_processes_are_worth_their_start(
    project: Path, monkeypatch: pytest.MonkeyPatch, sizes: list[int], expected: int
) -> None:
    """One file, or a few small ones, are checked in this process; with many there is one for every core."""
    asked = []

    def run(function: object, items: list[object], jobs: int, *_: object, **__: object) -> list[object]:
        asked.append(jobs)
        return [(FileReport("a.py"), None) for _ in items]

    monkeypatch.setattr(engine, "_cpus", lambda: 4)
    monkeypatch.setattr("wherelint.run.pool.run", run)
    write(project, {f"a{number:03}.py": "#" * size for number, size in enumerate(sizes)})
    targets, _ = discover(["."], Configuration())
    check_targets(targets)
    check_targets(targets, 1)
    check_targets(targets, 3)
    assert [jobs if jobs > 1 else 0 for jobs in asked] == [expected, 0, min(3, len(sizes)) if len(sizes) > 1 else 0]


def test_a_dead_process_is_one_error(project: Path) -> None:
    write(project, {"a.py": SAFE})
    targets, _ = discover(["."], Configuration())
    assert "died" in problem(engine._crashed(targets[0])[0]).message
