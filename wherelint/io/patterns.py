"""Patterns in the syntax of .gitignore, matched in time that grows with their length and that of the path, no faster.

A repository that is checked may be anyone's: no pattern of it may keep a regular expression busy for hours.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

_CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f", "digit": "0-9",
    "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r" \t-\r", "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}  # fmt: skip

#: A star, a question mark, a set of characters, what is no pattern, and a character, which may be escaped.
_MEMBER = r"\[:[a-z]+:\]|\\.|(?!\[:[a-z]+:\])[^\]\\]"
_PIECE = re.compile(
    rf"(?P<star>\*)|(?P<any>\?)|\[(?P<negated>[!^]|(?![!^]))(?P<set>(?:\]|{_MEMBER})(?:{_MEMBER})*)\]"
    r"|(?P<invalid>\[|\\\Z)|\\?(?P<one>.)",
    re.DOTALL,
)
#: A class, a range or a character of a set.
_RANGE = re.compile(r"\[:([a-z]+):\]|(\\.|[^\\])-(\\.|[^\\])|(\\.|[^\\])", re.DOTALL)
#: What one part of a path has to be: a text, or what fits a regular expression. None: any number of parts.
Part = str | re.Pattern[str] | None
_DIRECTORIES = re.compile(r"\*\*+")
#: No name of a file has more characters, and no pattern needs more.
_LONGEST_NAME, _LONGEST = 255, 4096


class Pattern(NamedTuple):
    """One line: what the parts of a path have to be, of directories only, and whether it takes a path back in."""

    parts: tuple[Part, ...]
    directory: bool
    negated: bool

    def fits(self, path: Sequence[str], directory: bool) -> bool:
        """Whether the pattern speaks of a path, given in parts, that is a directory or not."""
        return (directory or not self.directory) and _fits(self.parts, path)


class Patterns:
    """Patterns, as git reads them: the last one that fits decides, and what is no pattern fits nothing."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._patterns = [pattern for line in lines if (pattern := parse(line)) is not None][::-1]

    def decide(self, path: str) -> bool | None:
        """Whether a path, a directory if it ends in a slash, is matched; None where no pattern speaks of it."""
        parts, directory = path.removesuffix("/").split("/"), path.endswith("/")
        return next((not pattern.negated for pattern in self._patterns if pattern.fits(parts, directory)), None)

    def match(self, path: str) -> bool:
        """Whether a path, or a directory that it lies in, is matched."""
        slashes = [at + 1 for at, character in enumerate(path[:-1]) if character == "/"]
        return any(self.decide(path[:end]) for end in (*slashes, len(path)))


@lru_cache(1024)
def parse(line: str) -> Pattern | None:
    """The pattern of a line; None for a comment, and for what is no pattern."""
    text = line.removesuffix("\r")
    bare = text.rstrip(" ")
    if (len(bare) - len(bare.rstrip("\\"))) % 2 and bare != text:
        bare += " "  # it is escaped
    negated = bare.startswith("!")
    text = bare[negated:]
    directory = text.endswith("/")
    text = text[: len(text) - directory]
    if not text or bare.startswith("#") or len(text) > _LONGEST:
        return None
    names = text.removeprefix("/").split("/") if "/" in text else ["**", text]
    if _DIRECTORIES.fullmatch(names[-1]):
        names.insert(-1, "*")  # something has to be there
    try:
        parts = tuple(None if _DIRECTORIES.fullmatch(name) else _part(name) for name in names)
    except (ValueError, KeyError):
        return None
    return Pattern(parts, directory, negated)


def _fits(parts: Sequence[Part], path: Sequence[str]) -> bool:
    """Match some parts. Where they do not fit, only the last ``**`` has to take in one directory more."""
    part = at = 0
    star = taken = -1
    while at < len(path):
        expected = parts[part] if part < len(parts) else ""  # which no part of a path is
        if expected is None:
            star, taken, part = part, at, part + 1
        elif expected == path[at] if isinstance(expected, str) else expected.match(path[at]):
            part, at = part + 1, at + 1
        elif star >= 0:
            taken += 1
            part, at = star + 1, taken
        else:
            return False
    return all(expected is None for expected in parts[part:])


def _part(text: str) -> Part:
    """What one part of a path has to be. Raises ValueError or KeyError where this is no pattern."""
    if not set(text) & set("*?[\\"):
        return text
    pieces, needed = [""], 0  # pieces stand between the stars
    for match in _PIECE.finditer(text):
        if match["invalid"]:
            raise ValueError(text)
        if match["star"]:
            pieces.append("")
            continue
        one = "." if match["any"] else _set(match["set"], match["negated"]) if match["set"] else re.escape(match["one"])
        pieces[-1] += one
        needed += 1
    if needed > _LONGEST_NAME:
        raise ValueError(text)
    first, *middle = pieces
    last = [f".*{middle.pop()}"] if middle else []
    # After a star the first place that fits will do: a lookahead, which is never tried again, finds it.
    found = [f"(?=(?P<g{number}>.*?{piece}))(?P=g{number})" for number, piece in enumerate(middle) if piece]
    return re.compile("".join([first, *found, *last, r"\Z"]), re.DOTALL)


def _set(text: str, negated: str) -> str:
    """The regular expression of a set of characters. Raises KeyError for an unknown class."""
    found = ""
    for name, first, last, one in _RANGE.findall(text):
        low, high = (first or one)[-1:], (last or one)[-1:]
        found += _CLASSES[name] if name else f"{re.escape(low)}-{re.escape(high)}" if low <= high else ""
    if not found:
        return "." if negated else "(?!)"
    return f"[{'^' if negated else ''}{found}]"
