"""The texts of the files around the one that is checked, read once: of its repository, or else of its package."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from wherelint.io.digest import digest
from wherelint.io.disk import contents, leads_out, project_root

#: What is larger was not written by hand.
_LARGEST = 50_000_000
#: A repository of more files is not searched; the package is.
_MOST_FILES = 2500
#: Directories of what others wrote, or a program.
_FOREIGN = frozenset(
    {"__pycache__", "__pypackages__", "_build", "build", "buck-out", "dist", "node_modules", "site-packages"}
)


class Texts:
    """The files below a directory, and which of them speak of a name."""

    def __init__(self, root: str) -> None:
        self._contents: dict[str, bytes] = {}
        self._speaking: dict[str, list[str]] = {}
        for name in programs(root):
            path = Path(name)
            with suppress(OSError):
                if not (path.is_symlink() and leads_out(path, os.path.realpath(root))):
                    self._contents[name] = contents(path, _LARGEST)

    def speaking(self, name: str) -> list[str]:
        """The files in which a name stands."""
        if name not in self._speaking:
            word = name.encode()
            whole = re.compile(rb"(?<!\w)" + re.escape(word) + rb"(?!\w)")
            found = [path for path, text in self._contents.items() if word in text and whole.search(text)]
            self._speaking[name] = found
        return self._speaking[name]


def programs(root: str) -> list[str]:
    """The Python files below a directory, without those of environments and builds."""
    found: list[str] = []
    for at, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not _is_foreign(at, name)]
        found += [os.path.join(at, name) for name in names if name.endswith(".py")]
    return sorted(found)


def _is_foreign(directory: str, name: str) -> bool:
    return name[0] == "." or name in _FOREIGN or os.path.exists(os.path.join(directory, name, "pyvenv.cfg"))


@lru_cache(maxsize=256)
def scope(directory: str, package: str) -> str:
    """The directory whose files may speak of what is defined in one: the repository around it, if it is not too large.

    ``package``: the top directory of the package that the directory is in, which counts where there is no repository;
    "" for none.
    """
    root = project_root(Path(directory))
    if root is None:
        return package
    inside = Path(directory).relative_to(root).parts
    if any(_is_foreign(os.path.join(root, *inside[:at]), name) for at, name in enumerate(inside)):
        return package
    return str(root) if len(programs(str(root))) <= _MOST_FILES else package


@lru_cache(maxsize=4)
def texts(root: str) -> Texts:
    """The files below a directory, read once."""
    return Texts(root)


@lru_cache(maxsize=1024)
def content(path: str, mtime: int, size: int) -> tuple[str, str]:
    """A file's text and digest; ``mtime`` and ``size`` say which version of it."""
    content = Path(path).read_bytes()
    return content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n"), digest(content)
