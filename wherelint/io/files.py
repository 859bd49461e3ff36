"""Which files are checked: what is named, and the Python files and notebooks below the directories that are named."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from wherelint.finding import Fix, FixKey, Problem, SortKey
from wherelint.io.config import Configuration, Settings, relative_to
from wherelint.io.disk import ChangedError, contents, leads_out, project_root, replace
from wherelint.io.patterns import Patterns

#: What is done about findings: nothing; they come with all that is shown of them, a fix, a program and a plot; fixes
#: are applied (the safe ones only, or all of them); or a comment silences them.
FixMode = Literal["no", "offer", "safe", "unsafe", "silence"]
_SUFFIXES = (".py", ".ipynb")
#: A larger .gitignore does not count.
_MOST_BYTES = 1_000_000


@dataclass(frozen=True)
class Target:
    """A file to check: its name in the output, and its settings."""

    name: str
    settings: Settings
    fix_mode: FixMode = "no"
    #: Fixes that a run of the framework refuted, and why.
    refuted: Mapping[FixKey, str] = field(default_factory=dict)
    #: Whether what fixes change is shown, and no file is written.
    only_shown: bool = False
    #: The fixes that are offered for findings, by where these stand: what is only shown need not look for them again.
    offers: Mapping[SortKey, Fix | None] = field(default_factory=dict)


def discover(
    paths: Iterable[str],
    configuration: Configuration,
    fix_mode: FixMode = "no",
    *,
    force_exclude: bool = False,
    only_shown: bool = False,
) -> tuple[list[Target], list[Problem]]:
    """The files to check in a stable order, each once, and what could not be read.

    A file that is named is checked whatever its name and the excludes say, unless ``force_exclude``.
    """
    targets: dict[Path, Target] = {}
    problems: list[Problem] = []
    for name in paths:
        path = Path(os.path.abspath(name))
        found: Iterable[Path] = ()
        if path.is_dir():
            found = _walk(path, configuration, problems)
        elif not path.exists():
            problems.append(Problem(name, "no such file or directory"))
        elif not path.is_file():  # to read a pipe or a device may take for ever
            problems.append(Problem(name, "not a regular file; use - for standard input"))
        elif not (force_exclude and excluded(path, configuration.settings(path.parent))):
            found = [path]
        for file in found:
            if file not in targets:
                settings = configuration.settings(file.parent)
                targets[file] = Target(display_name(file), settings, fix_mode, only_shown=only_shown)
    real = cache(os.path.realpath)
    once: dict[str, Path] = {}  # a link counts where the file that it leads to was not found itself
    for path in sorted(targets, key=lambda path: (os.path.islink(path), path)):
        once.setdefault(real(path) if os.path.islink(path) else os.path.join(real(path.parent), path.name), path)
    return [targets[path] for path in sorted(once.values())], problems


def display_name(path: Path) -> str:
    """The path as it is printed: relative to the working directory where it lies below it."""
    return (path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path).as_posix()


def rewrite(name: str, before: bytes, after: bytes) -> Problem | None:
    """Replace the contents of a file in one step, or not at all; what kept it from that.

    A symbolic link stays one, and permissions are kept. A file that is not ``before`` any more is left alone, and so is
    one outside of the project to which a link leads: whoever wrote the link may not be whoever runs this.
    """
    path = Path(os.path.realpath(name))
    beside = Path(os.path.realpath(os.path.dirname(name)))
    if os.path.islink(name) and leads_out(path, project_root(beside) or beside):
        return Problem(name, "not written: it is a link to a file outside the project")
    try:
        if not os.access(path, os.W_OK):
            return Problem(name, "not written: the file is read-only")
        replace(path, after, before=before)
    except ChangedError:
        return Problem(name, "not written: the file changed during the run; run again")
    except OSError as error:
        return Problem(name, f"not written: {error.strerror}")
    return None


def _walk(top: Path, configuration: Configuration, problems: list[Problem]) -> Iterator[Path]:
    """The files below a directory that was named."""
    excludes: dict[Path, Patterns] = {}
    stack = [(top, [each for parent in _above(top) if (each := _gitignore(parent))])]
    while stack:
        directory, ignores = stack.pop()
        try:
            with os.scandir(directory) as scanned:
                entries = list(scanned)
        except OSError as error:
            problems.append(Problem(display_name(directory), f"cannot read the directory: {error.strerror}"))
            continue
        settings = configuration.settings(directory)
        if settings.root not in excludes:
            excludes[settings.root] = Patterns((*settings.exclude, *settings.extend_exclude))
        if settings.respect_gitignore and (own := _gitignore(directory)):
            ignores = [*ignores, own]
        prefix = _prefix(directory, settings.root)
        ignoring = [(_prefix(directory, at), each) for at, each in ignores] if settings.respect_gitignore else []
        for entry in entries:
            is_directory = entry.is_dir(follow_symlinks=False)
            if not is_directory and os.path.splitext(entry.name)[1] not in _SUFFIXES:
                continue
            name = entry.name + "/" * is_directory
            if excludes[settings.root].decide(prefix + name) or _ignored(name, ignoring):
                continue
            path = directory / entry.name
            if is_directory:
                stack.append((path, ignores))
            elif entry.is_file(follow_symlinks=False) or path.is_file():
                yield path


def excluded(path: Path, settings: Settings) -> bool:
    return Patterns((*settings.exclude, *settings.extend_exclude)).match(relative_to(path, settings.root))


def _above(directory: Path) -> list[Path]:
    """The directories above this one that lie in its git repository, the root first; none outside a repository."""
    chain = [directory, *directory.parents]
    roots = (index for index, parent in enumerate(chain) if (parent / ".git").exists())
    return chain[1 : next(roots, 0) + 1][::-1]


def _gitignore(directory: Path) -> tuple[Path, Patterns] | None:
    try:
        text = contents(directory / ".gitignore", _MOST_BYTES).decode("utf-8-sig", "surrogateescape")
    except OSError:
        return None
    return directory, Patterns(text.split("\n"))


def _prefix(directory: Path, root: Path) -> str:
    """What stands before a name in the directory, as patterns that are relative to the root see it."""
    return relative_to(directory / "_", root).removesuffix("_")


def _ignored(name: str, ignores: Iterable[tuple[str, Patterns]]) -> bool:
    """The last file with an opinion wins, so that a nested .gitignore can take a file back in."""
    decisions = [each for prefix, spec in ignores if (each := spec.decide(prefix + name)) is not None]
    return decisions[-1:] == [True]
