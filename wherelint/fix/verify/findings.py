"""Which findings a rewrite leaves, which it brings, and where they stand then."""

from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np

from wherelint.finding import Edit, Finding, Location
from wherelint.io.edits import Source

Key = tuple[str, str, str, str]


def key(finding: Finding) -> Key:
    """What a finding is about, wherever in the file it stands."""
    return (finding.code, finding.op, finding.select.kind, finding.function)


def has_nan(finding: Finding) -> bool:
    """Whether the witness of a finding has a nan for an input."""
    given = finding.witness.inputs.values() if finding.witness is not None else ()
    return any(bool(np.isnan(np.asarray(value, np.float64)).any()) for value in given)


class Comparison:
    """The findings of a text, and those after some edits of it: which stayed, wherever they stand now."""

    def __init__(self, source: Source, edits: Iterable[Edit], before: Sequence[Finding]) -> None:
        self._before = before
        self._moved = cache(source.moved(edits))

    def at(self, findings: Sequence[Finding], start: Location, end: Location) -> bool:
        """Whether a region of the new text may be the selection or the operation of one of some findings."""
        places = [place for finding in findings for place in (finding, finding.select)]
        regions = [region for each in places for region in self._moved(each.location, each.end_location)]
        return any(a <= start and end <= b for a, b in regions)

    def is_at(self, old: Finding, start: Location, end: Location) -> bool:
        """Whether a region of the new text is that of the operation of a finding, which was not written anew."""
        return (start, end) in self._moved(old.location, old.end_location)

    def was_found(self, new: Finding, fixed: Sequence[Finding]) -> bool:
        """Whether there was a finding of the same operation, none of ``fixed``, though another selection drops it."""
        old = [each for each in self._before if not any(each is one for one in fixed)]
        return any(self.is_at(each, new.location, new.end_location) for each in old)

    def stays(self, old: Finding, after: Iterable[Finding]) -> bool:
        """Whether a finding is there still: what a nan that is given makes is no more than the old text made of it."""
        return any(self._is(old, new) and has_nan(new) <= has_nan(old) for new in after)

    def gone(self, fixed: Sequence[Finding], after: Iterable[Finding]) -> bool:
        """Whether some findings have gone and no other has come."""
        return not self.come(after, fixed)

    def come(self, after: Iterable[Finding], fixed: Sequence[Finding] = ()) -> list[Finding]:
        """The findings that have come, and those of ``fixed`` that are there still.

        Not that of an operation that had one before, which the mask drops as another selection did.
        """
        old = [finding for finding in self._before if not any(finding is each for each in fixed)]
        fresh = []
        for finding in after:
            same = next((each for each in old if self._is(each, finding)), None)
            if same is None:
                own = [each for each in fixed if self._is(each, finding)]
                stays = any(self.stays(each, [finding]) for each in own)
                fresh += [finding] if stays or not (own or self.was_found(finding, fixed)) else []
            else:
                old.remove(same)
        return fresh

    def _is(self, old: Finding, new: Finding) -> bool:
        if key(old) != key(new):
            return False
        pairs = (old, new), (old.select, new.select)
        return all(
            any(start <= b.location and b.end_location <= end for start, end in self._moved(a.location, a.end_location))
            for a, b in pairs
        )
