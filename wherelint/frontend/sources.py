"""The texts of the files around the one that is checked, read once."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

from wherelint.io.digest import digest
from wherelint.io.disk import contents, leads_out

#: What is larger is no source that anybody wrote.
_LARGEST = 50_000_000
_PRIVATE = re.compile(rb"\b_[A-Za-z]\w*")


@lru_cache(maxsize=4)
def private_names(root: str) -> dict[str, list[str]]:
    """For every private name in the files below a directory, the files that speak of it."""
    names: dict[str, list[str]] = {}
    for path in sorted(Path(root).rglob("*.py")):
        try:
            if path.is_symlink() and leads_out(path, os.path.realpath(root)):
                continue
            text = contents(path, _LARGEST)
        except OSError:
            continue
        for name in set(_PRIVATE.findall(text)):
            names.setdefault(name.decode(), []).append(str(path))
    return names


@lru_cache(maxsize=1024)
def content(path: str, mtime: int, size: int) -> tuple[str, str]:
    """A file's text and digest; ``mtime`` and ``size`` say which version of it."""
    content = Path(path).read_bytes()
    return content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n"), digest(content)
