"""What is left out of a search because it cannot score enough changes nothing of what is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from wherelint.evidence.pieces import Level
from wherelint.io.config import Settings
from wherelint.run.check import check_source

ROOT = Path(__file__).parents[1]
#: Another one each day.
SHOWN: tuple[Level, ...] = ("warning", "error")
FILES = sorted([*ROOT.glob("cases/*/*.py"), *ROOT.glob("fixtures/*.py")])


@pytest.mark.rotated(3)
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_shown_is_what_all_of_it_holds(path: Path, pytestconfig: pytest.Config) -> None:
    turn = FILES.index(path) + pytestconfig.option.turn
    # As a script of its own: the folder of the tests speaks against everything in it.
    content, name = path.read_bytes(), f"{path.parent.name}_{path.name}".replace("test", "t")
    every = check_source(content, name, Settings(level="note")).findings
    for level in SHOWN if pytestconfig.option.all else SHOWN[turn % len(SHOWN) :][:1]:
        shown = check_source(content, name, Settings(level=level)).findings
        kept = (finding.only(lambda place: place.reaches(level)) for finding in every)  # noqa: B023
        expected = tuple(finding for finding in kept if finding is not None)
        assert repr(shown) == repr(expected)  # a nan is not equal to itself
