"""The files of the package around the one that is checked, read once."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from wherelint.io.config import DEFAULT_EXCLUDE
from wherelint.io.disk import contents, digest, is_project_root, leads_out

#: What is larger was not written by hand.
_LARGEST = 50_000_000


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
        """The files that have a word in them."""
        if name not in self._speaking:
            word = name.encode()
            whole = re.compile(rb"(?<!\w)%s(?!\w)" % re.escape(word))
            found = [path for path, text in self._contents.items() if word in text and whole.search(text)]
            self._speaking[name] = found
        return self._speaking[name]


@lru_cache(maxsize=4)
def programs(root: str) -> tuple[str, ...]:
    """The Python files below a directory, without those of environments and builds."""
    return tuple(sorted(_walk(root)))


def _walk(root: str) -> Iterator[str]:
    for at, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not _is_foreign(at, name)]
        yield from (os.path.join(at, name) for name in names if name.endswith(".py"))


def _is_foreign(directory: str, name: str) -> bool:
    """Whether others, or a program, write what is in a folder."""
    hidden = name[0] == "." or f"{name}/" in DEFAULT_EXCLUDE
    return hidden or os.path.exists(os.path.join(directory, name, "pyvenv.cfg"))


@lru_cache(maxsize=1024)
def package(directory: str) -> tuple[str, str]:
    """The top directory of the package that a directory is, and its dotted name; empty where it is none."""
    parent, name = os.path.split(directory)
    if not name or not os.path.isfile(os.path.join(directory, "__init__.py")):
        return "", ""
    top, dotted = ("", "") if is_project_root(Path(directory)) else package(parent)
    return (top, f"{dotted}.{name}") if top else (directory, name)


@lru_cache(maxsize=4)
def texts(root: str) -> Texts:
    """The files below a directory, read once."""
    return Texts(root)


def forget() -> None:
    """Have directories listed and files searched afresh: they may have changed."""
    for known in (texts, package, programs):
        known.cache_clear()


@lru_cache(maxsize=1024)
def content(path: str, mtime: int, size: int) -> tuple[str, str]:
    """A file's text and digest; ``mtime`` and ``size`` say which version of it."""
    content = Path(path).read_bytes()
    return content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n"), digest(content)
