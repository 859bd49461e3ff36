"""What the reports for other programs share: paths, levels, and names that outlive an edit."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import PurePath
from typing import Literal, NamedTuple
from unicodedata import category

from wherelint.finding import Finding, Location, Problem
from wherelint.io.notebook import spelled

_MOST_PLACES = 3


class Related(NamedTuple):
    """A place, and what stands there: a selection of some kind, or a finding of a code."""

    filename: str
    location: Location
    end_location: Location
    message: str
    kind: str | None = None
    code: str | None = None
    #: The rows of a place in another file.
    rows: str | None = None


def posix(filename: str) -> str:
    """The path of a file with forward slashes."""
    return PurePath(filename).as_posix()


def printable(text: str) -> str:
    r"""The text on one line, with what a terminal would obey or not show spelled out: ``\x1b``. Tabs stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" or category(c) == "Zs" else ascii(c)[1:-1] for c in text)


def told(finding: Finding) -> str:
    """The message of a finding, and where else its cause shows."""
    places = list(also_at(finding))
    if len(places) > _MOST_PLACES + 1:
        places = [*places[:_MOST_PLACES], f"{len(places) - _MOST_PLACES} more places"]
    return f"{finding.message}; also at {listed(places)}" if places else finding.message


def also_at(finding: Finding) -> dict[str, str]:
    """Where else the cause of a finding shows, and by which rule: another operation, or another selection over it."""
    places: dict[str, str] = {}
    known = {finding.location, finding.select.location}
    for place in finding.also:
        new = [at for at in (place.location, place.select.location) if at not in known][:1]
        known.update(new)
        places |= {spelled(at, place.cells): place.code for at in new}
    return places


def listed(parts: Sequence[str]) -> str:
    """``a, b and c``."""
    return ", ".join(parts[:-1]) + " and " + parts[-1] if len(parts) > 1 else "".join(parts)


def related(finding: Finding) -> Iterator[Related]:
    """The places that a finding is about besides its own, without its selection."""
    here = finding.filename
    known = {finding.select.location, *(place.location for place in finding.places)}
    for each in finding.related:
        yield Related(here, each.location, each.end_location, f"the {each.kind}", each.kind)
        known.add(each.location)
    for place in finding.also:
        yield Related(here, place.location, place.end_location, f"same cause: {place.message}", code=place.code)
        for each in (place.select, *place.related):
            if each.location not in known:
                known.add(each.location)
                said = f"same cause: the {each.kind}"
                yield Related(here, each.location, each.end_location, said, each.kind, place.code)
    for other in finding.elsewhere:
        yield Related(other.filename, other.location, other.end_location, other.message, rows=other.rows)


def level(said: Finding | Problem) -> Literal["error", "warning"]:
    """How bad it is: what is of low confidence, or left the rest of the file checked, is a warning."""
    return "error" if (said.confidence == "high" if isinstance(said, Finding) else said.error) else "warning"


def fingerprints(said: Iterable[Finding | Problem]) -> Iterator[str]:
    """A name for each that no other has, and that stays when its lines move: what is alike is counted."""
    seen: Counter[tuple[str, ...]] = Counter()
    for one in said:
        alike = _alike(one)
        key = "\0".join((*alike, str(seen[alike])))
        seen[alike] += 1
        yield sha256(key.encode("utf-8", "backslashreplace")).hexdigest()[:32]


def _alike(said: Finding | Problem) -> tuple[str, ...]:
    if isinstance(said, Finding):
        return said.code, posix(said.filename), said.function, said.op, said.select.kind
    return "", posix(said.filename), said.message
