"""What the reports for other programs share: paths, levels, and names that outlive an edit."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import PurePath
from typing import NamedTuple
from unicodedata import category

from wherelint.evidence.pieces import Level
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


def place_of(item: Finding | Problem) -> str:
    """``path:row:column``, with the cell in a notebook; the path alone for a problem of the whole file."""
    return item.filename if item.location is None else f"{item.filename}:{spelled(item.location, item.cells)}"


def message_of(finding: Finding) -> str:
    """The message of a finding, and where else its cause shows."""
    places = list(other_places(finding))
    if len(places) > _MOST_PLACES + 1:
        places = [*places[:_MOST_PLACES], f"{len(places) - _MOST_PLACES} more places"]
    return f"{finding.message}; also at {join_and(places)}" if places else finding.message


def fixable_mark(finding: Finding) -> str:
    """`` [*]`` for what ``--fix`` fixes, as ruff has it."""
    fix = finding.fix
    return " [*]" if fix is not None and fix.edits and fix.applicability == "safe" else ""


def other_places(finding: Finding) -> dict[str, str]:
    """Where else the cause of a finding shows, and by which rule: another operation, or another selection over it."""
    codes: dict[str, str] = {}
    known = {finding.location, finding.select.location}
    for other in finding.also:
        if new := [at for at in (other.location, other.select.location) if at not in known]:
            known.add(new[0])
            codes[spelled(new[0], other.cells)] = other.code
    return codes


def join_and(parts: Sequence[str]) -> str:
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
                message = f"same cause: the {each.kind}"
                yield Related(here, each.location, each.end_location, message, each.kind, place.code)
    for other in finding.elsewhere:
        yield Related(other.filename, other.location, other.end_location, other.message, rows=other.rows)


def level(item: Finding | Problem) -> Level:
    """How bad it is: a part of a file that was given up is a warning."""
    if isinstance(item, Finding):
        return item.level
    return "error" if item.error else "warning"


def a_level(level: Level) -> str:
    """``an error``, ``a warning``, ``a note``."""
    return f"{'an' if level == 'error' else 'a'} {level}"


def fingerprints(items: Iterable[Finding | Problem]) -> Iterator[str]:
    """A unique name for each that stays when its lines move; items with the same description are numbered."""
    counts: Counter[tuple[str, ...]] = Counter()
    for item in items:
        if isinstance(item, Finding):
            parts: tuple[str, ...] = (item.code, posix(item.filename), item.function, item.op, item.select.kind)
        else:
            parts = ("", posix(item.filename), item.message)
        key = "\0".join((*parts, str(counts[parts])))
        counts[parts] += 1
        yield sha256(key.encode("utf-8", "backslashreplace")).hexdigest()[:32]
