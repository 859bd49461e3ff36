"""The project around the file being checked: which of its own files an import means."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from copy import copy
from functools import lru_cache
from pathlib import Path

from wherelint.frontend.budget import Budget
from wherelint.frontend.module import Module
from wherelint.graph.work import Work
from wherelint.io.digest import digest
from wherelint.io.disk import contents, is_project_root, leads_out, project_root

#: Characters that are read at the cost of one node evaluation.
_CHARACTERS = 10
_PRIVATE = re.compile(rb"\b_[A-Za-z]\w*")


@lru_cache(maxsize=4)
def private_names(root: str) -> dict[str, list[str]]:
    """For every private name in the files below a directory, the files that speak of it."""
    names: dict[str, list[str]] = {}
    for path in sorted(Path(root).rglob("*.py")):
        try:
            text = (
                b""
                if path.is_symlink() and leads_out(path, os.path.realpath(root))
                else contents(path, Budget.file_bytes)
            )
        except OSError:
            continue
        for name in set(_PRIVATE.findall(text)):
            names.setdefault(name.decode(), []).append(str(path))
    return names


@lru_cache(maxsize=1024)
def _content(path: str, mtime: int, size: int) -> tuple[str, str]:
    """A file's text and digest; ``mtime`` and ``size`` say which version of it."""
    content = Path(path).read_bytes()
    return content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n"), digest(content)


class Project:
    """Files of the package that the checked file belongs to, read when an import leads to them. Nothing is imported."""

    def __init__(self, module: Module) -> None:
        path = Path(module.filename).absolute()
        self._top = path.parent
        names: list[str] = []
        bounded = False
        while not bounded and (self._top / "__init__.py").is_file() and self._top.parent != self._top:
            names.insert(0, self._top.name)
            bounded = is_project_root(self._top)
            self._top = self._top.parent
        self._root = os.path.realpath(project_root(path.parent) or self._top)
        #: The package of the file itself, "" for a script.
        self.package = ".".join(names)
        self._first = self.package.partition(".")[0]
        self._aliases: Mapping[str, str] = module.aliases
        self.budget = Budget()
        self._modules: dict[str, Module | None] = {}
        #: The files that were looked at, each with its digest; "" where there is none that can be read.
        self.reads: dict[str, str] = {}
        #: The private names whose files were asked for, and the directory that was searched for them.
        self.asked: set[tuple[str, str]] = set()
        dotted = ".".join([*names, *([] if path.stem == "__init__" else [path.stem])])
        if not module.filename.endswith(".ipynb"):  # nothing imports a notebook: a module beside it may have its name
            self._modules[dotted] = module
        self._checked = module
        module.project = self

    @property
    def opened(self) -> int:
        """How many files were opened so far."""
        return sum(module is not None for module in self._modules.values())

    def module(self, name: str) -> Module | None:
        """The file that a dotted name of a module means."""
        return self._load(name) if not self.package or name.split(".", 1)[0] == self._first else None

    def find(self, name: str) -> tuple[Module, list[str]] | None:
        """The file that defines a dotted name, and what is left of the name inside that file."""
        parts = name.split(".")
        if self.package and parts[0] != self._first:
            return None
        if self._load(name) is not None:
            return None  # a module of the project, not something inside one
        for length in range(len(parts) - 1, 0, -1):
            module = self._load(".".join(parts[:length]))
            if module is not None:
                return module, parts[length:]
        return None

    def revised(self, text: str) -> Module:
        """The checked file with another text, among the same other files. Raises SyntaxError."""
        Work.count(len(text) // _CHARACTERS)
        twin = copy(self)
        twin.budget = Budget()
        twin._modules = {name: module for name, module in self._modules.items() if module is not self._checked}
        old = self._checked
        made = Module(old.filename, text, old.aliases, old.package, twin, old.syntax)
        twin._modules.update({name: made for name, module in self._modules.items() if module is old})
        twin._checked = made
        if old.settled:
            made.settle()
        return made

    def mentioning(self, name: str) -> list[Module]:
        """The other files of the package that speak of a private name; none where they are too many to follow."""
        if not self.package:
            return []
        root = self._top / self._first
        self.asked.add((str(root), name))
        mentions = private_names(str(root)).get(name, [])
        if len(mentions) > self.budget.mentions:
            self.budget.give_up(f"the callers of `{name}` in other files", f"{len(mentions)} files speak of it")
            return []
        dotted = [".".join(Path(p).relative_to(self._top).with_suffix("").parts) for p in mentions]
        loaded = [self._load(d.removesuffix(".__init__")) for d in dotted]
        return [m for m in loaded if m is not None and m is not self._checked]

    def _load(self, dotted: str) -> Module | None:
        if dotted not in self._modules:
            self._modules[dotted] = None  # a cycle of imports sees no file yet
            self._modules[dotted] = self._read(dotted)
        return self._modules[dotted]

    def _read(self, dotted: str) -> Module | None:
        stem = self._top.joinpath(*dotted.split("."))
        for path, package in ((stem.with_suffix(".py"), dotted.rpartition(".")[0]), (stem / "__init__.py", dotted)):
            self.reads[str(path)] = ""
            try:
                status = path.stat()
                if not stat.S_ISREG(status.st_mode) or leads_out(path, self._root):
                    continue
                if status.st_size > self.budget.file_bytes:
                    self.budget.give_up(f"what {path.name} defines", "the file is larger than those that are followed")
                    continue
                text, self.reads[str(path)] = _content(str(path), status.st_mtime_ns, status.st_size)
                return Module(str(path), text, self._aliases, package, self)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (OSError, SyntaxError, ValueError, RecursionError):
                return None  # a helper that cannot be read is a call that cannot be followed
        return None
