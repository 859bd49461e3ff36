"""Patterns in the syntax of .gitignore, matched in time that grows with their length and that of the path, no faster.

A repository that is checked may be anyone's: no pattern of it may keep a regular expression busy for hours. Those of
``fnmatch`` never try a star again.
"""

import fnmatch
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

#: What one part of a path has to be; None: any number of parts.
Part = re.Pattern[str] | None
_DIRECTORIES = re.compile(r"\*\*+")
_ESCAPED = re.compile(r"\\(.)")
#: No pattern needs more characters.
_LONGEST = 1024


class Pattern(NamedTuple):
    """One line: what the parts of a path have to be, of directories only, and whether it takes a path back in."""

    parts: tuple[Part, ...]
    directory: bool
    negated: bool


class Patterns:
    """Patterns as git reads them: the last one that fits decides, and what is no pattern fits nothing."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._patterns = [pattern for line in lines if (pattern := parse(line)) is not None][::-1]

    def decide(self, path: str) -> bool | None:
        """Whether a path, a directory if it ends in a slash, is matched; None where no pattern speaks of it."""
        parts, directory = path.removesuffix("/").split("/"), path.endswith("/")
        fitting = (p for p in self._patterns if (directory or not p.directory) and _fits(p.parts, parts))
        return next((not pattern.negated for pattern in fitting), None)

    def match(self, path: str) -> bool:
        """Whether a path, or a directory that it lies in, is matched."""
        slashes = [at + 1 for at, character in enumerate(path[:-1]) if character == "/"]
        return any(self.decide(path[:end]) for end in (*slashes, len(path)))


@lru_cache(1024)
def parse(line: str) -> Pattern | None:
    """The pattern of a line; None for a comment, and for what is no pattern."""
    line = line.rstrip(" \r")
    negated = line.startswith("!")
    text = line[negated:]
    directory = text.endswith("/")
    text = text[: len(text) - directory]
    if not text or line.startswith("#") or len(text) > _LONGEST:
        return None
    names = text.removeprefix("/").split("/") if "/" in text else ["**", text]
    if _DIRECTORIES.fullmatch(names[-1]):
        names.insert(-1, "*")  # something has to be there
    try:
        return Pattern(tuple(map(_part, names)), directory, negated)
    except re.error:
        return None


def _part(name: str) -> Part:
    """What one part of a path has to be. Raises re.error where this is no pattern."""
    if _DIRECTORIES.fullmatch(name):
        return None
    name = _ESCAPED.sub(lambda match: f"[{match[1]}]" if match[1] in "*?[" else match[1], name)
    return re.compile(fnmatch.translate(name.replace("[^", "[!")))


def _fits(parts: Sequence[Part], path: Sequence[str]) -> bool:
    """Match some parts. Where they do not fit, only the last ``**`` has to take in one directory more."""
    part = at = 0
    star = taken = -1
    while at < len(path):
        if part < len(parts) and (expected := parts[part]) is None:
            star, taken, part = part, at, part + 1
        elif part < len(parts) and expected is not None and expected.match(path[at]):
            part, at = part + 1, at + 1
        elif star >= 0:
            taken += 1
            part, at = star + 1, taken
        else:
            return False
    return all(expected is None for expected in parts[part:])
