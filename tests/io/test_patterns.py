"""Patterns mean what they mean to git, and none takes long."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from conftest import SAFE, write

from wherelint.cli import main
from wherelint.io.patterns import Patterns

NAMES = ["a", "b", "ab", "abc", "a.py", "-", "]", "x y", "a*b", "!a", "#a", "]a", "A", "1"]
PATHS = NAMES + [
    f"{top}/{name}{below}" for top in ("d", "dd") for name in NAMES for below in ("", "_/a", "_/a.py/b", "_/d/ab")
]
LINES = [
    line
    for row in (
        "a|a*|*a|/a|d/a|d/|d/*|d/**|/d/**/|**/a|**/d|d/**/ab|**/d/**|**|/**|**/|***/a|[ab]|[!a]|[^a]|[a-c]|[]a]|[!]]",
        "[a|a?|?|??|\\a|\\*|a\\*b|\\!a|\\#a|#a|!a|x\\ y|x y|a |/|!",
        "*.py|/*.py|d/*.py|[a-]|*a*b|*b*|a**|**b|d/**b|*/a|*/*/a|d_/|*_/a|[!-~]|d//a|",
    )
    for line in row.split("|")
]


def by_git(lines: list[str]) -> set[str]:
    Path(".gitignore").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    ran = subprocess.run(
        ["git", "check-ignore", "--no-index", "--stdin", "-z"], input="\0".join(PATHS).encode(), capture_output=True,
        check=False,
    )  # fmt: skip
    assert not ran.stderr
    return set(filter(None, ran.stdout.decode().split("\0")))


@pytest.mark.skipif(not shutil.which("git"), reason="compares with git")
def test_patterns_mean_what_they_mean_to_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q"], check=True)
    for path in PATHS:
        write(tmp_path, {path: ""})
    rng = random.Random(0)
    several = [[*rng.sample(LINES, 2), f"!{rng.choice(LINES)}", rng.choice(LINES)] for _ in range(100)]
    told = set()
    for lines in [*([line] for line in LINES), *several]:
        found = by_git(lines)
        assert {path for path in PATHS if Patterns(lines).match(path)} == found, lines
        told |= found
    assert told == set(PATHS)


def test_the_last_pattern_decides() -> None:
    patterns = Patterns(["*.py", "!a.py", "", "# *", "b/"])
    assert [patterns.decide(path) for path in ("a.py", "b.py", "b", "b/", "c")] == [False, True, None, True, None]
    assert patterns.match("b/a.py")  # nothing is taken back in below what is left out
    assert not patterns.match("c/a.py")


SLOW = ["*a" * 20 + "b", "**/a/" * 20 + "b", "*" * 5000 + "b", "?*" * 100 + "b", "*a" * 400_000, "[a" * 400_000,
        "[[:a" * 400_000, "a?" * 400_000, "\\" * 400_001, "[" * 400_000, "**/" * 400_000]  # fmt: skip


@pytest.mark.parametrize("pattern", SLOW, ids=lambda pattern: pattern[:8])
@pytest.mark.parametrize("place", ["gitignore", "exclude", "per-file-ignores"])
def test_no_pattern_takes_long(project: Path, pattern: str, place: str) -> None:
    quoted = f"'{pattern}'"
    write(project, {f"{'a/' * 60}{'a' * 200}.py": SAFE})
    if place == "gitignore":
        write(project, {".gitignore": pattern})
    else:
        value = f"[{quoted}]" if place == "exclude" else f"{{{quoted} = ['WL1']}}"
        write(project, {"pyproject.toml": f"[tool.wherelint]\n{place} = {value}\n"})
    start = time.monotonic()
    assert main(["check", "--no-cache"]) == 0
    assert time.monotonic() - start < 20  # it was minutes
