"""The texts of the files around the one that is checked, read once: of its repository, or else of its package."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Literal

from wherelint.io.config import DEFAULT_EXCLUDE
from wherelint.io.disk import contents, digest, is_project_root, leads_out, project_root

#: What is larger was not written by hand.
_LARGEST = 50_000_000
#: A repository of more files is not searched, nor one of so many others that to list them takes long; the package is.
_MOST_FILES, _MOST_LISTED = 2500, 100_000

#: How a name may stand in a text: anywhere, as an attribute, as one that is not just called without arguments.
How = Literal["said", "attribute"]
_HOW: dict[How, bytes] = {
    "said": rb"(?<!\w)%s(?!\w)",
    "attribute": rb"\.\s*%s(?!\w)",
}


class Texts:
    """The files below a directory, and which of them speak of a name."""

    def __init__(self, root: str) -> None:
        self._contents: dict[str, bytes] = {}
        self._speaking: dict[tuple[str, How], list[str]] = {}
        for name in programs(root):
            path = Path(name)
            with suppress(OSError):
                if not (path.is_symlink() and leads_out(path, os.path.realpath(root))):
                    self._contents[name] = contents(path, _LARGEST)

    def speaking(self, name: str, how: How = "said") -> list[str]:
        """The files in which a name stands in some way."""
        if (name, how) not in self._speaking:
            word = name.encode()
            whole = re.compile(_HOW[how] % re.escape(word))
            found = [path for path, text in self._contents.items() if word in text and whole.search(text)]
            self._speaking[name, how] = found
        return self._speaking[name, how]


@lru_cache(maxsize=4)
def programs(root: str) -> tuple[str, ...]:
    """The Python files below a directory, without those of environments and builds."""
    return tuple(sorted(path for paths, _ in _walk(root) for path in paths))


@lru_cache(maxsize=4)
def _is_small(root: str) -> bool:
    """Whether a repository has few enough files to be searched; one that has not is not listed to its end."""
    found = listed = 0
    for paths, names in _walk(root):
        found, listed = found + len(paths), listed + names
        if found > _MOST_FILES or listed > _MOST_LISTED:
            return False
    return True


def _walk(root: str) -> Iterator[tuple[list[str], int]]:
    """The Python files of each directory, and how many names there are in it."""
    for at, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not _is_foreign(at, name)]
        yield [os.path.join(at, name) for name in names if name.endswith(".py")], len(names)


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


@lru_cache(maxsize=256)
def scope(directory: str) -> str:
    """The directory whose files may speak of what is defined in one: the repository around it, if it is not too large.

    Otherwise the package that the directory is in; "" for none.
    """
    root = project_root(Path(directory))
    inside = Path(directory).relative_to(root).parts if root is not None else ()
    foreign = any(_is_foreign(os.path.join(str(root), *inside[:at]), name) for at, name in enumerate(inside))
    return package(directory)[0] if root is None or foreign or not _is_small(str(root)) else str(root)


@lru_cache(maxsize=4)
def texts(root: str) -> Texts:
    """The files below a directory, read once."""
    return Texts(root)


def forget() -> None:
    """Have directories listed and files searched afresh: they may have changed."""
    for known in (texts, scope, package, programs, _is_small):
        known.cache_clear()


@lru_cache(maxsize=1024)
def content(path: str, mtime: int, size: int) -> tuple[str, str]:
    """A file's text and digest; ``mtime`` and ``size`` say which version of it."""
    content = Path(path).read_bytes()
    return content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n"), digest(content)
