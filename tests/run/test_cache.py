"""The cache of ``check``: the same output with and without, and no report that a change has made wrong."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import NOTEBOOK, SAFE, UNSAFE, environment, write
from test_imports import HEAVY, imported

from wherelint import check_paths
from wherelint.cli import main
from wherelint.confirm.routine import Snippet, snippet_of
from wherelint.confirm.script import script
from wherelint.finding import FileReport
from wherelint.fix import apply
from wherelint.io import disk
from wherelint.io.config import Configuration, Overrides, Settings
from wherelint.io.files import FixMode, Target
from wherelint.run import cache, engine, pool
from wherelint.run.result import Result
from wherelint.suppress.view import View

EXAMPLES = Path(__file__).parents[2] / "examples"
BROKEN = "def f(:\n"
#: What is fixed only with ``--unsafe-fixes``.
UNSURE = "import torch\n\n\ndef f(x):\n    n = 1 / x\n    return torch.where((x > 0).all(), n.mean(), 0.0)\n"
#: A note: the mask has nothing to do with the divisor.
LOW = "import jax.numpy as jnp\n\n\ndef f(x, y, k):\n    return jnp.where(k, x / y, 0.0)\n"
#: A package whose helper has what its caller guards.
CALLER = (
    "import jax.numpy as jnp\nfrom pack.help import root\n\n\ndef f(x):\n    return jnp.where(x > 0, root(x), 0.0)\n"
)
ROOT = "import jax.numpy as jnp\n\n\ndef root(x):\n    return jnp.sqrt(x)\n"
#: A private helper that poisons what its callers differentiate, whoever they are.
PRIVATE = """\
import jax.numpy as jnp


def _safe_root(x, k):
    return jnp.where(x > k, jnp.sqrt(x - k), 0.0)


def f(x):
    return _safe_root(1.0 + x * x, x)
"""
PACK = Path(".wherelint_cache") / "check" / "wherelint.jsonl"


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[str]]]:
    """The names of the files that were checked since it was last asked."""
    names: list[str] = []
    check = engine.check

    def checking(content: bytes, target: Target, *more: Any) -> Any:
        names.append(target.name)
        return check(content, target, *more)

    def since() -> list[str]:
        seen = sorted(names)
        names.clear()
        return seen

    monkeypatch.setattr(engine, "check", checking)
    return since


def wherelint(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def check(*paths: str, **options: Any) -> Result:
    """What is found, as ``check_paths`` finds it with a cache in the working directory."""
    result = check_paths(paths or ["."], cache=".wherelint_cache", **options)
    without = check_paths(paths or ["."], **options)
    assert repr(result.reports) == repr(without.reports)
    assert [r.text for r in result.reports] == [r.text for r in without.reports]
    assert [[f.cells for f in r.findings] for r in result.reports] == [
        [f.cells for f in r.findings] for r in without.reports
    ]
    return result


def entries() -> list[Any]:
    return [json.loads(line) for line in PACK.read_bytes().splitlines()]


class TestTheSame:
    @pytest.mark.rotated(3)
    @pytest.mark.parametrize("style", ["full", "concise", "json", "sarif", "junit"])
    def test_the_output_is_that_of_a_run_without(
        self, project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, style: str
    ) -> None:
        for name in ("angle.py", "two_disks.py"):
            shutil.copy(EXAMPLES / name, project)
        write(project, {"broken.py": BROKEN, "low.py": LOW, "a/b.py": UNSAFE, "c.py": SAFE, "n.ipynb": NOTEBOOK})
        (project / "latin.py").write_bytes(b"# coding: latin-1\r\n# \xe9\r\n" + UNSAFE.replace("\n", "\r\n").encode())
        (project / "undecodable.py").write_bytes(b"x = '\xff'\n")
        arguments = ("check", "--output-format", style)
        without = wherelint(capsys, *arguments, "--no-cache", "-j1")
        assert not PACK.exists()
        assert wherelint(capsys, *arguments, "--no-cache", "-j2") == without
        assert wherelint(capsys, *arguments, "-j2") == without
        written = PACK.read_bytes()

        def unexpected(*_: object, **__: object) -> None:
            raise AssertionError("it is known")

        monkeypatch.setattr(engine, "check", unexpected)
        monkeypatch.setattr(pool, "run", unexpected)
        assert wherelint(capsys, *arguments, "-j2") == without
        assert wherelint(capsys, *arguments) == without
        assert PACK.read_bytes() == written
        assert without[0] == 2
        assert "é" not in written.decode()
        assert b"return jnp.where" not in written.replace(b'"    return', b"")  # the fixes have it, the texts are left

    @pytest.mark.parametrize(
        "content",
        [
            b"\xef\xbb\xbf" + UNSAFE.encode(),
            UNSAFE.replace("\n", "\r").encode(),
            UNSAFE.rstrip("\n").encode(),
            ("# 数値 \U0001f600\n" + UNSAFE.replace("x", "α")).encode(),
            ("x = 1  # noqa: WL102\n" + UNSAFE).encode(),
            b"",
            UNSAFE.replace("f(x)", "f(x, n: int, flag: bool)").replace("0.0)", "n if flag else x.shape[0])").encode(),
        ],
        ids=["utf-8 mark", "cr", "no newline at the end", "wide", "unused noqa", "empty", "integers and truths"],
    )
    def test_reports_come_back_as_they_were(
        self, project: Path, checked: Callable[[], list[str]], content: bytes
    ) -> None:
        (project / "a.py").write_bytes(content)
        for fix_mode in ("no", "offer"):
            check(fix_mode=fix_mode)
            checked()
            check_paths(["."], fix_mode=fix_mode, cache=".wherelint_cache")
            assert checked() == []

    def test_a_name_that_is_no_text(self, project: Path, checked: Callable[[], list[str]]) -> None:
        name = os.fsdecode(b"\xff.py")
        try:
            (project / name).write_text(UNSAFE)
        except OSError:
            pytest.skip("this file system has no such names")
        check()
        checked()
        assert len(check_paths(["."], cache=".wherelint_cache").findings) == 1
        assert checked() == []

    def test_progress_counts_what_was_found_again(self, project: Path) -> None:
        write(project, {"a.py": UNSAFE, "b.py": SAFE})
        check()
        write(project, {"c.py": SAFE})
        seen: list[tuple[int, int]] = []
        check_paths(["."], cache=".wherelint_cache", progress=lambda done, total: seen.append((done, total)))
        assert seen == [(1, 3), (2, 3), (3, 3)]

    def test_notes_are_kept_apart(
        self, project: Path, capsys: pytest.CaptureFixture[str], checked: Callable[[], list[str]]
    ) -> None:
        write(project, {"a.py": LOW})
        cold = wherelint(capsys, "check")
        assert "finding" not in cold[1].removeprefix("No findings")
        checked()
        assert wherelint(capsys, "check") == cold
        assert wherelint(capsys, "check", "--fix") == cold
        assert checked() == []
        assert "Found 1 note" in wherelint(capsys, "check", "--level", "note")[1]
        assert checked() == ["a.py"]


class TestWhatChanges:
    def test_a_file(self, project: Path, checked: Callable[[], list[str]]) -> None:
        other = SAFE.replace("def f", "def g")
        write(project, {"a.py": UNSAFE, "b.py": other})
        check()
        status = (project / "b.py").stat()
        (project / "b.py").write_text(other.replace("sin", "cos"))  # of the same length, and at the same time
        os.utime(project / "b.py", ns=(status.st_atime_ns, status.st_mtime_ns))
        checked()
        check_paths(["."], cache=".wherelint_cache")
        assert checked() == ["b.py"]
        os.utime(project / "a.py", (1, 1))
        check_paths(["."], cache=".wherelint_cache")
        assert checked() == []

    @pytest.mark.parametrize(
        "table",
        [
            'ignore = ["WL101"]',
            'extend-select = ["WL401"]',
            'level = "note"',
            'per-file-ignores = {"a.py" = ["WL101"]}',
            'aliases = {"mine" = "jax.numpy"}',
        ],
    )
    def test_the_settings(self, project: Path, checked: Callable[[], list[str]], table: str) -> None:
        write(project, {"a.py": UNSAFE, "pyproject.toml": "[tool.wherelint]\n"})
        check()
        checked()
        (project / "pyproject.toml").write_text(f"[tool.wherelint]\n{table}\n")
        check_paths(["."], cache=".wherelint_cache")
        assert checked() == ["a.py"]

    def test_fixes_that_are_offered(self, project: Path, checked: Callable[[], list[str]]) -> None:
        write(project, {"a.py": UNSAFE, "b.py": SAFE})
        check()
        assert check(fix_mode="offer").findings[0].fix is not None
        checked()
        check_paths(["."], cache=".wherelint_cache")
        check_paths(["."], cache=".wherelint_cache", fix_mode="offer")
        assert checked() == []

    @pytest.mark.parametrize(
        ("fix_mode", "again"), [("safe", ["a.py"]), ("unsafe", ["a.py", "d.py"]), ("silence", ["a.py", "c.py", "d.py"])]
    )
    def test_what_is_written_is_found_anew(
        self, project: Path, checked: Callable[[], list[str]], fix_mode: FixMode, again: list[str]
    ) -> None:
        write(project, {"a.py": UNSAFE, "b.py": SAFE, "c.py": BROKEN, "d.py": UNSURE})
        check(fix_mode="offer")
        for _ in range(2):
            checked()
            assert check_paths(["."], cache=".wherelint_cache", fix_mode=fix_mode).fixed
            assert checked() == again

    def test_what_is_only_shown_is_kept(self, project: Path, checked: Callable[[], list[str]]) -> None:
        write(project, {"a.py": UNSAFE, "b.py": SAFE, "c.py": BROKEN, "d.py": UNSURE})
        check(fix_mode="offer")
        for fix_mode in ("safe", "unsafe"):
            fresh = check(fix_mode=fix_mode, only_shown=True)
            checked()
            kept = check_paths(["."], cache=".wherelint_cache", fix_mode=fix_mode, only_shown=True)
            assert checked() == []
            assert repr(kept.reports) == repr(fresh.reports)

    def test_a_check_keeps_what_the_safe_fixes_change(
        self, project: Path, checked: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(project, {"a.py": UNSAFE, "b.py": SAFE, "c.py": BROKEN, "d.py": UNSURE})
        check(fix_mode="offer")
        checked()
        kept = check_paths(["."], cache=".wherelint_cache", fix_mode="safe", only_shown=True)
        assert checked() == []
        assert repr(kept.reports) == repr(check_paths(["."], fix_mode="safe", only_shown=True).reports)
        checked()
        read: list[str] = []
        _report = cache.Cache._report

        def spied(self: cache.Cache, line: bytes, key: str, target: Target, path: str) -> FileReport | None:
            read.append(target.name)
            return _report(self, line, key, target, path)

        monkeypatch.setattr(cache.Cache, "_report", spied)
        check_paths(["d.py"], cache=".wherelint_cache", fix_mode="unsafe", only_shown=True)
        assert (read, checked()) == (["d.py"], ["d.py"])  # once, though it is fixed

    def test_what_takes_long_is_not_done_before_it_is_asked_for(
        self, project: Path, checked: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(project, {"a.py": UNSAFE})
        fixpoint = apply.fixpoint

        def twice(text: str, seen: View, analysed: Callable[[str], View], allowed: apply.Allowed) -> object:
            analysed(text)
            return fixpoint(text, seen, analysed, allowed)

        monkeypatch.setattr(apply, "fixpoint", twice)
        assert check(fix_mode="offer").findings
        checked()
        assert check_paths(["."], cache=".wherelint_cache", fix_mode="safe", only_shown=True).fixed
        assert checked() == ["a.py"]

    def test_what_was_done_before_the_reader_left_is_kept(
        self, project: Path, checked: Callable[[], list[str]]
    ) -> None:
        write(project, {"a.py": UNSAFE, "b.py": SAFE})

        def leaves(report: FileReport) -> FileReport:
            raise BrokenPipeError

        with pytest.raises(BrokenPipeError):
            check_paths(["."], cache=".wherelint_cache", seen=leaves)
        assert checked() == ["a.py"]
        check_paths(["."], cache=".wherelint_cache")
        assert checked() == ["b.py"]

    def test_the_programs_of_findings(self, project: Path) -> None:
        write(project, {"a.py": UNSAFE, "d.py": UNSURE})
        for fresh, kept in zip(check(fix_mode="offer").findings, check(fix_mode="offer").findings, strict=True):
            programs = snippet_of(fresh), snippet_of(kept)
            assert isinstance(programs[0], Snippet)
            assert isinstance(programs[1], Snippet)
            assert script(programs[0], fresh) == script(programs[1], kept)

    @pytest.mark.parametrize("data", [None, "", [], ["jax", "f", None, None, [], [], False], ["jax", "f", []]])
    def test_a_program_that_is_none(self, project: Path, data: object) -> None:
        write(project, {"a.py": UNSAFE})
        (finding,) = check(fix_mode="offer").findings
        assert isinstance(snippet_of(replace(finding, snippet=data)), str)

    def test_a_clean_report_of_a_run_that_fixes_is_kept(self, project: Path, checked: Callable[[], list[str]]) -> None:
        write(project, {"a.py": SAFE, "b.py": UNSAFE})
        check_paths(["."], cache=".wherelint_cache", fix_mode="safe")
        checked()
        check_paths(["."], cache=".wherelint_cache")
        assert checked() == ["b.py"]

    @pytest.mark.parametrize("name", ["__version__", "_SCHEMA"])
    def test_the_version(
        self, project: Path, checked: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        write(project, {"a.py": SAFE})
        check()
        checked()
        monkeypatch.setattr(cache, name, "next")
        check_paths(["."], cache=".wherelint_cache")
        assert checked() == ["a.py"]

    def test_another_name_in_the_output(
        self, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write(project, {"sub/a.py": UNSAFE})
        kept = str(project / "kept")
        assert wherelint(capsys, "check", "--cache-dir", kept)[1].startswith("sub/a.py:5")
        monkeypatch.chdir(project / "sub")
        assert wherelint(capsys, "check", "--cache-dir", kept)[1].startswith("a.py:5")


class TestOtherFiles:
    def test_a_helper_that_was_followed(self, project: Path, checked: Callable[[], list[str]]) -> None:
        write(project, {"pack/__init__.py": "", "pack/a.py": CALLER, "pack/help.py": ROOT, "pack/other.py": ""})
        assert [finding.code for finding in check().findings] == ["WL101"]
        write(project, {"pack/help.py": ROOT.replace("jnp.sqrt(x)", "jnp.sin(x)"), "pack/other.py": "x = 1\n"})
        checked()
        assert check_paths(["."], cache=".wherelint_cache").findings == ()
        assert checked() == ["pack/a.py", "pack/help.py", "pack/other.py"]
        write(project, {"pack/other.py": "x = 2\n"})
        check_paths(["."], cache=".wherelint_cache")
        assert checked() == ["pack/other.py"]
        (project / "pack" / "help.py").unlink()
        check_paths(["pack/a.py"], cache=".wherelint_cache")
        assert checked() == ["pack/a.py"]
        check()

    def test_a_file_where_none_was(self, project: Path, checked: Callable[[], list[str]]) -> None:
        write(project, {"pack/__init__.py": "", "pack/a.py": CALLER})
        assert check().findings == ()
        checked()
        check_paths(["."], cache=".wherelint_cache")
        assert checked() == []
        write(project, {"pack/help.py": ROOT})
        assert [finding.code for finding in check("pack/a.py").findings] == ["WL101"]

    @pytest.mark.parametrize(
        "content", [b"x = '\xff'\n", b"#" * 400_001, b"def f(:\n"], ids=["bytes", "large", "broken"]
    )
    def test_a_file_that_cannot_be_followed(
        self, project: Path, checked: Callable[[], list[str]], content: bytes
    ) -> None:
        write(project, {"pack/__init__.py": "", "pack/a.py": CALLER})
        (project / "pack" / "help.py").write_bytes(content)
        check("pack/a.py")
        checked()
        check_paths(["pack/a.py"], cache=".wherelint_cache")
        assert checked() == []
        write(project, {"pack/help.py": ROOT})
        assert [finding.code for finding in check("pack/a.py").findings] == ["WL101"]

    def test_the_package(self, project: Path, checked: Callable[[], list[str]]) -> None:
        write(project, {"pack/__init__.py": "", "pack/a.py": CALLER, "pack/help.py": ROOT})
        check("pack/a.py")
        checked()
        (project / "pack" / "__init__.py").unlink()
        check_paths(["pack/a.py"], cache=".wherelint_cache")
        assert checked() == ["pack/a.py"]

    def test_a_caller_of_a_private_helper_elsewhere(self, project: Path, checked: Callable[[], list[str]]) -> None:
        other = SAFE.replace("def f", "def other")
        write(project, {"pack/__init__.py": "", "pack/a.py": PRIVATE, "pack/sub/b.py": other})
        check("pack/a.py")
        checked()
        write(project, {"pack/new.py": ""})
        check_paths(["pack/a.py"], cache=".wherelint_cache")
        assert checked() == []
        write(project, {"pack/new.py": "from pack.a import _safe_root\n"})  # any file of the package may call it
        check_paths(["pack/a.py"], cache=".wherelint_cache")
        assert checked() == ["pack/a.py"]
        write(project, {"pack/sub/b.py": "from pack.a import _safe_root\n\n\ndef g(x):\n    return _safe_root(x, x)\n"})
        check("pack/a.py")
        assert "pack/a.py" in checked()
        check_paths(["pack/a.py"], cache=".wherelint_cache")
        assert checked() == []
        (project / "pack" / "sub" / "b.py").unlink()
        check("pack/a.py")
        assert "pack/a.py" in checked()


def damaged(good: bytes) -> dict[str, bytes]:
    entry = json.loads(good.splitlines()[0])
    return {
        "empty": b"",
        "no text": b"\0\xff" * 100,
        "no JSON": good.replace(b"[", b"{"),
        "half a line": good[: len(good) // 2],
        "another document": b'{"version": 1}',
        "numbers": b"[1, 2, 3]\n[1]\n",
        "only the key": json.dumps(entry[:1]).encode(),
        "nesting": json.dumps(entry[:1]).encode()[:-1] + b"," + b"[" * 100_000,
        "a huge number": good.replace(b",0,", b"," + b"9" * 5000 + b",", 1),
        "a line too many": b'["\n' + good,
    }


class TestDamage:
    @pytest.mark.parametrize("name", damaged(b"[]"))
    def test_a_spoilt_file_is_built_again(
        self, project: Path, capsys: pytest.CaptureFixture[str], checked: Callable[[], list[str]], name: str
    ) -> None:
        write(project, {"a.py": UNSAFE, "b.py": SAFE})
        cold = wherelint(capsys, "check")
        PACK.write_bytes(damaged(PACK.read_bytes())[name])
        assert wherelint(capsys, "check") == cold
        checked()
        assert wherelint(capsys, "check") == cold
        assert checked() == []

    @pytest.mark.slow
    def test_no_dependency_is_trusted(self, project: Path) -> None:
        caller = "\n\nfrom pack.help import root\n\n\ndef g(x):\n    return jnp.where(x > 0, root(x), 0.0)\n"
        write(project, {"pack/__init__.py": "", "pack/a.py": PRIVATE + caller, "pack/help.py": ROOT})
        found = check("pack/a.py")
        good = PACK.read_bytes()
        entry = json.loads(good)
        assert len(entry[3]) == 8
        for place in (place for place in places(entry) if place[0] == 3):
            for value in (None, 1, "", "/dev/zero", [], [[]], ["", ""], {"": ""}, {"/dev/zero": ""}, {"\0.py": ""}):
                spoilt = json.loads(good)
                put(spoilt, place, value)
                PACK.write_bytes(json.dumps(spoilt).encode() + b"\n")
                again = check_paths(["pack/a.py"], cache=".wherelint_cache")
                assert repr(again.reports) == repr(found.reports)

    def test_a_finding_of_another_file_or_rule_is_refused(
        self, project: Path, checked: Callable[[], list[str]]
    ) -> None:
        write(project, {"a.py": UNSAFE})
        check()
        good = PACK.read_bytes()
        for old, new in ((b'"a.py"', b'"b.py"'), (b'"WL101"', b'"WL401"'), (b'"WL101"', b'"XX101"')):
            checked()
            PACK.write_bytes(good.replace(old, new))
            check_paths(["."], cache=".wherelint_cache")
            assert checked() == ["a.py"]

    def test_a_defect_is_not_kept(
        self, project: Path, checked: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object) -> None:
            raise ValueError("a defect")

        write(project, {"a.py": UNSAFE})
        for error in (fail, lambda *_: (_ for _ in ()).throw(MemoryError)):
            with monkeypatch.context() as patch:
                patch.setattr("wherelint.findings.analyse", error)
                assert len(check_paths(["."], cache=".wherelint_cache").problems) == 1
            assert not PACK.exists()
        assert len(check().findings) == 1


class TestTheDirectory:
    def test_it_is_left_alone_by_git_and_backups(self, project: Path) -> None:
        write(project, {"a.py": SAFE})
        check()
        assert (project / ".wherelint_cache" / ".gitignore").read_text() == "*\n"
        tag = (project / ".wherelint_cache" / "CACHEDIR.TAG").read_text()
        assert tag.startswith("Signature: 8a477f597d28d172789f06886806bc55\n")

    def test_a_directory_with_other_things_is_not_marked(self, project: Path) -> None:
        write(project, {"a.py": SAFE})
        check_paths(["."], cache=project)
        assert (project / "check" / "wherelint.jsonl").exists()
        assert not (project / ".gitignore").exists()

    @pytest.mark.parametrize("name", ["a file", "a file within", "nowhere", "no place", "a directory", "a device"])
    def test_what_cannot_be_written_is_not_kept(
        self, project: Path, capsys: pytest.CaptureFixture[str], name: str
    ) -> None:
        write(project, {"a.py": UNSAFE})
        without = wherelint(capsys, "check", "--no-cache")
        top = project / ".wherelint_cache"
        if name == "a file":
            top.write_text("")
        elif name == "a file within":
            write(top, {"check": ""})
        elif name == "nowhere":
            top.symlink_to("/proc/nowhere/at/all")
        elif name == "no place":
            top.symlink_to("/proc")
        elif name == "a directory":
            (project / PACK).mkdir(parents=True)
        else:
            (top / "check").mkdir(parents=True)
            (project / PACK).symlink_to("/dev/zero")
        for _ in range(2):
            assert wherelint(capsys, "check") == without

    def test_a_directory_that_is_read_only(
        self, project: Path, capsys: pytest.CaptureFixture[str], checked: Callable[[], list[str]]
    ) -> None:
        write(project, {"a.py": UNSAFE})
        known = wherelint(capsys, "check")
        write(project, {"b.py": SAFE.replace("def f", "def g")})
        (project / PACK.parent).chmod(0o500)
        checked()
        output = wherelint(capsys, "check")[1]
        (project / PACK.parent).chmod(0o700)
        assert checked() == ["b.py"]
        assert output == known[1].replace("1 file checked", "2 files checked")

    @pytest.mark.parametrize(("owner", "function"), [(Path, "mkdir"), (os, "replace")])
    def test_a_full_disk(
        self,
        project: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        owner: object,
        function: str,
    ) -> None:
        def full(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        write(project, {"a.py": UNSAFE})
        without = wherelint(capsys, "check", "--no-cache")
        with monkeypatch.context() as patch:
            patch.setattr(owner, function, full)
            assert wherelint(capsys, "check") == without
        assert not PACK.exists()
        assert not list((project / ".wherelint_cache").glob("check/*"))

    def test_what_was_used_last_stays(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(project, {f"{name}.py": SAFE for name in "abcd"})
        check("a.py", "b.py", "c.py")
        monkeypatch.setattr(cache, "_MOST_BYTES", PACK.stat().st_size + 1)
        check("a.py", "d.py")
        assert sorted(Path(entry[1]).name for entry in entries()) == ["a.py", "c.py", "d.py"]

    def test_a_changed_file_has_one_entry(self, project: Path) -> None:
        for text in (SAFE, UNSAFE, SAFE + "\n", UNSAFE + "\n"):
            write(project, {"a.py": text})
            check()
        assert len(entries()) == 2  # one for when nothing is found, one for when something is

    def test_standard_input_is_not_kept(self, project: Path) -> None:
        ran = subprocess.run(
            [sys.executable, "-m", "wherelint", "check", "-"],
            cwd=project, env=environment(), input=UNSAFE, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ran.returncode == 1
        assert not (project / ".wherelint_cache").exists()

    def test_other_programs_keep_nothing_unless_they_ask(self, project: Path) -> None:
        write(project, {"a.py": UNSAFE})
        check_paths(["."])
        assert not (project / ".wherelint_cache").exists()


class TestRunsAtOnce:
    def test_they_keep_what_each_found(self, project: Path) -> None:
        write(project, {"a.py": UNSAFE, "b.py": UNSAFE, "c.py": SAFE})
        first = cache.Cache(disk.CACHE)
        check("b.py", "c.py")  # while the first is under way
        (target,) = engine_targets("a.py")
        report, trace = engine.check_file(target)
        assert trace is not None
        first.keep(target, report, trace)
        first.save()
        assert sorted(Path(entry[1]).name for entry in entries()) == ["a.py", "b.py", "c.py"]

    @pytest.mark.slow
    def test_processes(self, project: Path, checked: Callable[[], list[str]]) -> None:
        """They start at once and write at about the same time; what is read afterwards is whole."""
        names = [f"{name}.py" for name in "abcd"]
        write(project, dict.fromkeys(names, UNSAFE))
        command = [sys.executable, "-m", "wherelint", "check", "-j1", "--output-format", "concise"]
        for _ in range(3):
            runs = [
                subprocess.Popen([*command, name], cwd=project, env=environment(), stdout=-1, stderr=-1)
                for name in names
            ]
            for name, ran in zip(names, runs, strict=True):
                output, errors = ran.communicate(timeout=60)
                assert (ran.returncode, errors) == (1, b"")
                assert output.startswith(name.encode())
            assert {len(entry) for entry in entries()} == {11}
            (project / PACK.parent).chmod(0o700)
        assert not list((project / PACK.parent).glob("*.tmp"))
        check(*names)
        checked()
        check_paths(names, cache=".wherelint_cache")
        assert checked() == []


def test_a_warm_run_imports_little(project: Path) -> None:
    shutil.copytree(EXAMPLES, project / "examples")
    write(project, {"n.ipynb": NOTEBOOK, "pack/__init__.py": "", "pack/a.py": CALLER, "pack/help.py": ROOT})
    write(project, {"pack/b.py": PRIVATE})
    assert {"numpy", "libcst"} <= imported(project, "check")
    for style in ("full", "json"):
        modules = imported(project, "check", ".", "--output-format", style)
        assert not modules & {*HEAVY, "multiprocessing", "concurrent", "tempfile"}


@pytest.mark.slow
def test_a_warm_run_is_quick(project: Path) -> None:
    write(project, {f"p{i}/a{j}.py": SAFE + f"# {i} {j}\n" * 100 for i in range(20) for j in range(50)})
    overrides = Configuration(Overrides())
    check_paths(["."], overrides, cache=".wherelint_cache")
    start = time.perf_counter()
    assert check_paths(["."], overrides, cache=".wherelint_cache").files == 1000
    assert time.perf_counter() - start < 2


def engine_targets(*names: str) -> list[Any]:
    from wherelint.io.files import discover

    return discover(names, Configuration())[0]


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value inside of a JSON document."""
    for key, each in enumerate(value) if isinstance(value, list) else value.items():
        yield (*above, key)
        if isinstance(each, (list, dict)):
            yield from places(each, (*above, key))


def put(document: Any, place: tuple[Any, ...], value: Any) -> None:
    for key in place[:-1]:
        document = document[key]
    document[place[-1]] = value


def test_the_files_that_a_wrapper_was_followed_to_are_in_the_key(
    project: Path, checked: Callable[[], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    main_file = "from pack.backend import np\n\n\ndef f(x):\n    return np.where(x > 0, np.sqrt(x), 0.0)\n"
    write(project, {"pack/__init__.py": "", "pack/backend.py": "import numpy as np\n", "pack/main.py": main_file})
    for backend, status in (("numpy", 0), ("jax.numpy", 1)):
        write(project, {"pack/backend.py": f"import {backend} as np\n"})
        assert main(["check", "pack/main.py"]) == status
        assert checked() == ["pack/main.py"]
        assert main(["check", "pack/main.py", "-v"]) == status
        assert checked() == []
    assert "1 file skipped: 1 with no framework." in capsys.readouterr().err


def test_a_script_that_begins_to_train_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    root = "import torch\n\n\ndef root(x):\n    return torch.where(x > 0, torch.sqrt(x), 0.0)\n"
    write(tmp_path, {".git/HEAD": "", "a.py": root, "b.py": "from a import root\n\nprint(root(1.0))\n"})

    def found() -> str:
        result = engine.check_targets([Target("a.py", Settings(level="note"))], cache=tmp_path / ".wherelint_cache")
        return result.reports[0].findings[0].level

    before = found()
    assert (found(), before) == ("warning", "warning")
    write(tmp_path, {"b.py": "from a import root\n\nroot(1.0).backward()\n"})
    assert found() == "error"
