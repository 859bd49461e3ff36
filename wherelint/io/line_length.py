"""How long the lines of a project may be, by the tables of its formatters."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from wherelint.io.disk import contents

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MOST_BYTES = 1_000_000
#: What Black and ruff take unless they are told, and what a project that says nothing may write all the same.
_USUAL, _SHORTEST, _LONGEST, _LENGTHS = 88, 76, 120, (79, 80, 88, 100)


class Tables(NamedTuple):
    """The tables of the formatters that are nearest to a file."""

    ruff: Mapping[str, Any] | None
    black: Mapping[str, Any] | None


def line_length(path: Path, text: str) -> int:
    """How long a line of a file may be: as its project says, else the usual length that nearly all of its own keep."""
    tables = tables_near(path.parent)
    for given in ((tables.ruff or {}).get("line-length"), (tables.black or {}).get("line-length")):
        if isinstance(given, int) and given > 0:
            return given
    if tables.ruff is not None or tables.black is not None:
        return _USUAL
    lengths = sorted(map(len, text.splitlines())) or [0]
    odd = len(lengths) // 100 or 1  # a row with a link, say
    most = lengths[max(-1 - odd, -len(lengths))]
    return next(n for n in (*_LENGTHS, _LONGEST) if n >= min(most, _LONGEST)) if lengths[-1] >= _SHORTEST else _USUAL


def tables_near(directory: Path) -> Tables:
    """The tables that count for the files of a directory, there or further up."""
    ruff = black = None
    for name in (".ruff.toml", "ruff.toml", "pyproject.toml"):
        table = _table(directory / name)
        tools = table.get("tool") if name == "pyproject.toml" else {"ruff": table} if table else None
        if isinstance(tools, dict):
            ruff = ruff if ruff is not None else _dict(tools.get("ruff"))
            black = _dict(tools.get("black"))
    if (ruff is None or black is None) and directory.parent != directory:
        further = tables_near(directory.parent)
        return Tables(
            further.ruff if ruff is None and black is None else ruff, further.black if black is None else black
        )
    return Tables(ruff, black)


def _dict(value: object) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _table(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(contents(file, _MOST_BYTES).decode())
    except (OSError, ValueError, RecursionError):
        return {}
