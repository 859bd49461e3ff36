"""What is released: its version, what it depends on, what it says of itself, and that it is ours."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection
from pathlib import Path

import pytest

from wherelint import __version__
from wherelint.io.config import tomllib

ROOT = Path(__file__).parent.parent
FILE = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = FILE["project"]
#: What names a licence: of the schema of SARIF it is the page beside it.
NOTICES = {"LICENSE", "tests/report/README.md"}
_NOTICE = re.compile(r"copyright (?:\(c\)|©|\d{4})|SPDX-License|all rights reserved|licensed under", re.IGNORECASE)


def git(*arguments: str) -> list[str]:
    """What git prints, by lines; nothing outside of a repository."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split(
        "\n"
    )[:-1]


def disagreements(version: str, changelog: str, tags: Collection[str], here: Collection[str]) -> list[str]:
    """What does not fit together of a version, a changelog, and the tags of the repository and of this commit."""
    released = [tag.removeprefix("v") for tag in tags]
    headings = re.findall(r"^## (\S+)", changelog, re.MULTILINE)
    numbers = [heading for heading in headings if heading != "Unreleased"]
    found = [f"{tag} is not in the changelog" for tag in released if tag not in numbers]
    found += [f"{number} has no tag" for number in numbers if number not in released and number != version]
    if "Unreleased" in headings[1:]:
        found.append("Unreleased does not come first")
    if here:
        found += [f"the version of {tag} is {version}" for tag in here if tag != f"v{version}"]
        found += ["Unreleased is in what is released"] * ("Unreleased" in headings)
    elif version in released:
        found.append(f"{version} was released already")
    return found


def test_version_tags_and_changelog_agree() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert disagreements(__version__, changelog, git("tag", "--list", "v*"), git("tag", "--points-at", "HEAD")) == []


@pytest.mark.parametrize(
    ("version", "headings", "tags", "here", "wrong"),
    [
        ("1.0", "Unreleased", [], [], []),
        ("1.0", "1.0", [], [], []),  # about to be tagged
        ("1.0", "1.0", ["v1.0"], ["v1.0"], []),
        ("1.1", "Unreleased 1.0", ["v1.0"], [], []),
        ("1.0", "Unreleased 1.0", ["v1.0"], [], ["1.0 was released already"]),
        ("1.0", "Unreleased", ["v1.0"], ["v1.0"], ["1.0 is not in the changelog", "Unreleased is in what is released"]),
        ("1.1", "1.0", ["v1.0"], ["v1.0"], ["the version of v1.0 is 1.1"]),
        ("1.1", "1.0 Unreleased", ["v1.0"], [], ["Unreleased does not come first"]),
        ("1.1", "Unreleased 1.0", [], [], ["1.0 has no tag"]),
    ],
)
def test_what_does_not_agree(version: str, headings: str, tags: list[str], here: list[str], wrong: list[str]) -> None:
    changelog = "".join(f"## {each} (2026-01-01)\n\n- a\n" for each in headings.split())
    assert disagreements(version, changelog, tags, here) == wrong


def test_every_dependency_has_its_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = [*FILE["build-system"]["requires"], *PROJECT["dependencies"]]
    listed += [each for extra in PROJECT["optional-dependencies"].values() for each in extra]
    reasons = dict(re.findall(r'^ +"([^"]+)", # (.+)$', text, re.MULTILINE))
    assert {each for each in listed if len(reasons.get(each, "").split()) < 3} == set()


def test_what_is_anybody_elses_is_named() -> None:
    files = git("ls-files") or [
        path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if path.is_file() and path.suffix != ".pyc"
    ]
    texts = ((name, (ROOT / name).read_text(encoding="utf-8", errors="replace")) for name in files)
    assert {name for name, text in texts if _NOTICE.search(text)} - {
        Path(__file__).relative_to(ROOT).as_posix()
    } == NOTICES
    assert _NOTICE.search("# Copyright 2020 Somebody")


def test_what_the_package_says_of_itself() -> None:
    minors = [each.rpartition(" :: ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)]
    assert PROJECT["requires-python"] == f">={minors[0]}"
    assert minors == [f"3.{minor}" for minor in range(10, 10 + len(minors))]
    assert f"VERSIONS:-{' '.join(minors)}}}" in (ROOT / ".ci" / "release").read_text("utf-8")
    assert "urls" not in PROJECT  # there is no public repository yet: an address that leads nowhere is worse than none
