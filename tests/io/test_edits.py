"""Edits lie in the text that they change, whatever ends its rows."""

from __future__ import annotations

import itertools
import random

import pytest

from wherelint.finding import Edit, Location
from wherelint.io.edits import Source

TEXTS = [
    "",
    "a",
    "a\n",
    "a\nb",
    "a\nb\n",
    "a\r\nb\r\n",
    "a\r\nb",
    "a\n\n",
    "a\fb\nc\x85d\u2028e\n",
    "if x:\n  y\nz",
]


@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(TEXTS, 2)))
def test_a_difference_is_edits_inside_the_text(before: str, after: str) -> None:
    source = Source(before)
    edits = source.difference(after)
    assert source.edited(edits) == after
    for edit in edits:
        assert edit.content or edit.location != edit.end_location
        assert edit.end_location.row <= len(before.splitlines()) + 1
        assert 0 <= source.offset(edit.location) <= source.offset(edit.end_location) <= len(before)


def test_no_difference_is_no_edit() -> None:
    assert [Source(text).difference(text) for text in TEXTS] == [()] * len(TEXTS)


@pytest.mark.parametrize("place", [(0, 1), (3, 1), (1, 0), (1, 4), (2, 2)])
def test_a_place_that_is_not_there(place: tuple[int, int]) -> None:
    source = Source("ab\r\n")
    there = Location(*place)
    with pytest.raises(AssertionError, match="there is no"):
        source.edited([Edit("", there, there)])


def test_edits_that_overlap() -> None:
    both = [Edit("x", Location(1, 1), Location(1, 3)), Edit("y", Location(1, 2), Location(1, 4))]
    with pytest.raises(AssertionError, match="overlap"):
        Source("abcdef").edited(both)


def test_a_region_moves_with_the_text_around_it() -> None:
    source = Source("one(two) + three\nfour\n")
    edits = [Edit("new\n", Location(1, 1), Location(1, 1)), Edit("where(two)", Location(1, 5), Location(1, 8))]

    def where(start: int, stop: int) -> list[str]:
        after = Source(source.edited(edits))
        return [after.between(*region) for region in source.moved(edits)(Location(1, start), Location(1, stop))]

    assert where(1, 9) == ["one(where(two))"]
    assert where(12, 17) == ["three"]
    assert where(5, 8) == ["new\n", "where(two)"]  # it may be in any of what was written
    assert where(6, 7) == ["new\n", "where(two)"]


def test_regions_of_texts_that_grow() -> None:
    rng = random.Random(0)
    for _ in range(200):
        text = "".join(rng.choice("ab\n") for _ in range(12))
        source, offset = Source(text), rng.randrange(9)
        edit = Edit("xy", source.place(offset), source.place(offset + 2))
        start = rng.randrange(11)
        if start + 2 > offset and start < offset + 2:
            continue
        (region,) = source.moved([edit])(source.place(start), source.place(start + 1))
        assert Source(source.edited([edit])).between(*region) == text[start]
