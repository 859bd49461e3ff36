"""How a project breaks its lines: what it says of their length, and its formatter, where that is installed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from wherelint.io.disk import contents
from wherelint.io.edits import changed, physical_lines

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MOST_BYTES, _SECONDS = 1_000_000, 30
#: What Black and ruff take unless they are told, and what a project that says nothing may write all the same.
_USUAL, _SHORTEST, _LONGEST, _LENGTHS = 88, 76, 120, (79, 80, 88, 100)


class Said(NamedTuple):
    """The tables of the formatters that are nearest to a file."""

    ruff: Mapping[str, Any] | None
    black: Mapping[str, Any] | None


def line_length(path: Path, text: str) -> int:
    """How long a line of a file may be: as its project says, else the usual length that nearly all of its own keep."""
    said = said_of_lines(path.parent)
    for given in ((said.ruff or {}).get("line-length"), (said.black or {}).get("line-length")):
        if isinstance(given, int) and given > 0:
            return given
    if said.ruff is not None or said.black is not None:
        return _USUAL
    lengths = sorted(map(len, text.splitlines())) or [0]
    odd = len(lengths) // 100 or 1  # a row with a link, say
    most = lengths[max(-1 - odd, -len(lengths))]
    return next(n for n in (*_LENGTHS, _LONGEST) if n >= min(most, _LONGEST)) if lengths[-1] >= _SHORTEST else _USUAL


def formatted(before: str, after: str, path: Path) -> str | None:
    """A changed text as the formatter of the project writes it; None where none left the changed lines alone before."""
    for name in ("ruff", "black"):
        command = _command(name, path)
        clean = _run(command, before, path) if command else None
        if clean == before:
            return _run(command, after, path)
        if clean is not None and name == "ruff" and _apart(before, clean, after):
            for first, last in reversed(list(_changed(before, after))):
                after = _run([*command, f"--range={first}-{last + 1}"], after, path) or after
            return after
    return None


def _apart(before: str, clean: str, after: str) -> bool:
    """Whether what a formatter would change lies apart from what was changed."""

    def rows(other: str) -> set[int]:
        return {row for a, b in _changed(other, before) for row in range(a - 3, b + 4)}

    return rows(after).isdisjoint(rows(clean))


def _changed(before: str, after: str) -> Iterator[tuple[int, int]]:
    """The rows of a text that another does not have, from first to last."""
    for begin, end in changed(physical_lines(before), physical_lines(after)):
        yield begin + 1, max(end, begin + 1)


def _command(name: str, path: Path) -> list[str]:
    """How a formatter is called; empty where it is not installed."""
    beside = os.path.join(os.path.dirname(sys.executable), name)
    found = beside if os.access(beside, os.X_OK) else shutil.which(name)
    if found is None or not os.path.isabs(found):  # what lies in the working directory is the project's
        return []
    if name == "black":
        return [found, "-q", "--stdin-filename", str(path), "-"]
    said = said_of_lines(path.parent)
    settings = []
    if said.ruff is None and said.black is not None:
        settings.append(f"line-length={said.black.get('line-length', _USUAL)}")
        if said.black.get("skip-string-normalization"):
            settings.append('format.quote-style="preserve"')
        if said.black.get("skip-magic-trailing-comma"):
            settings.append("format.skip-magic-trailing-comma=true")
    given = [part for setting in settings for part in ("--config", setting)]
    return [found, "format", "-q", "--no-cache", *given, "--stdin-filename", str(path), "-"]


def _run(command: list[str], text: str, path: Path) -> str | None:
    try:
        done = subprocess.run(
            command, input=text.encode(), capture_output=True, timeout=_SECONDS, cwd=path.parent, check=False
        )
        return done.stdout.decode() if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def said_of_lines(directory: Path) -> Said:
    """What the files of a directory are told, there or further up."""
    ruff = black = None
    for name in (".ruff.toml", "ruff.toml", "pyproject.toml"):
        table = _table(directory / name)
        tools = table.get("tool") if name == "pyproject.toml" else {"ruff": table} if table else None
        if isinstance(tools, dict):
            ruff = ruff if ruff is not None else _dict(tools.get("ruff"))
            black = _dict(tools.get("black"))
    if (ruff is None or black is None) and directory.parent != directory:
        further = said_of_lines(directory.parent)
        return Said(further.ruff if ruff is None and black is None else ruff, further.black if black is None else black)
    return Said(ruff, black)


def _dict(value: object) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _table(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(contents(file, _MOST_BYTES).decode())
    except (OSError, ValueError, RecursionError):
        return {}
