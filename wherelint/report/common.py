"""What the reports for other programs share: paths, levels, and names that outlive an edit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import PurePath
from typing import Literal
from unicodedata import category

from wherelint.finding import Finding, Problem


def posix(filename: str) -> str:
    """The path of a file with forward slashes."""
    return PurePath(filename).as_posix()


def printable(text: str) -> str:
    r"""The text on one line, with what a terminal would obey or not show spelled out: ``\x1b``. Tabs stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" or category(c) == "Zs" else ascii(c)[1:-1] for c in text)


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
