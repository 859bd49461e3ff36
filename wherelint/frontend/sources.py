"""The texts of the files around the one that is checked, read once."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from wherelint.io.digest import digest
from wherelint.io.disk import contents, leads_out

#: What is larger was not written by hand.
_LARGEST = 50_000_000


class Texts:
    """The files below a directory, and which of them speak of a name."""

    def __init__(self, root: str) -> None:
        self._contents: dict[str, bytes] = {}
        self._speaking: dict[str, list[str]] = {}
        for path in sorted(Path(root).rglob("*.py")):
            with suppress(OSError):
                if not (path.is_symlink() and leads_out(path, os.path.realpath(root))):
                    self._contents[str(path)] = contents(path, _LARGEST)

    def speaking(self, name: str) -> list[str]:
        """The files in which a name stands."""
        if name not in self._speaking:
            word = name.encode()
            whole = re.compile(rb"(?<!\w)" + re.escape(word) + rb"(?!\w)")
            found = [path for path, text in self._contents.items() if word in text and whole.search(text)]
            self._speaking[name] = found
        return self._speaking[name]


@lru_cache(maxsize=4)
def texts(root: str) -> Texts:
    """The files below a directory, read once."""
    return Texts(root)


@lru_cache(maxsize=1024)
def content(path: str, mtime: int, size: int) -> tuple[str, str]:
    """A file's text and digest; ``mtime`` and ``size`` say which version of it."""
    content = Path(path).read_bytes()
    return content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n"), digest(content)
