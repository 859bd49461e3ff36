"""Reports of ``check`` on disk, each valid while the file, the settings and every other file it was made of stay so.

They lie in one file, an entry a line, and only the lines that are needed are parsed. Contents are compared, never
times. Whoever wrote the file is not trusted: a line that is not what it should be is not there.
"""

import json
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, get_args

from wherelint import isolated, rules
from wherelint.finding import Edit, FileReport, Finding, Fix, Problem, Skipped
from wherelint.frontend.options import Budget
from wherelint.frontend.sources import package, programs, texts
from wherelint.io import disk
from wherelint.io.config import Settings, line_length
from wherelint.io.disk import digest
from wherelint.io.edits import Source
from wherelint.io.encoding import UndecodableError, decode
from wherelint.io.files import Target
from wherelint.io.plain import decoder, plain
from wherelint.version import __version__

#: The layout of an entry, see ``Cache.keep``.
_SCHEMA = 5
#: The entries that were not used for longest go where there would be more than this.
_MOST_BYTES = 64 << 20
#: A key is so many characters, the first thing on its line after the bracket and the quote.
_KEY = slice(2, 34)
_MALFORMED = (
    ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError, AssertionError, UndecodableError,
)  # fmt: skip
_SKIPPED = {reason: reason for reason in ("", *get_args(Skipped))}


class Trace(NamedTuple):
    """What a report was made of: the digest of the file, those of other files ("" for none that can be read).

    ``searched``: and the directories, its package and its project, whose files were searched for names, with these.
    """

    content: str
    reads: Mapping[str, str]
    searched: frozenset[tuple[str, str]]


class Cache:
    """The reports that a directory keeps. What cannot be read is not there; what cannot be written is not kept."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "check" / "wherelint.jsonl"
        self._lines = self._read()
        #: The entries that this run used or adds, and whether it adds any.
        self._ours: dict[str, bytes] = {}
        self._changed = False
        self._files = _Files()
        code = self._files.below(os.path.join(isolated.HOME, "wherelint"))  # which changes more often than its version
        self._about = [_SCHEMA, __version__, sys.version, code, [(rule.name, rule.sentence) for rule in rules.RULES]]
        self._settings: dict[int, tuple[Settings, str]] = {}
        self._here = os.getcwd()
        #: What is offered in the files of which some fixes are to be shown.
        self._offers: dict[str, FileReport] = {}

    def find(self, target: Target) -> FileReport | None:
        """The report that checking a file would give, if it is known."""
        path = os.path.join(self._here, target.name)
        for fix_mode in _fix_modes(target):
            key = self._key(target, path, fix_mode)
            line = self._lines.get(key)
            try:
                report = None if line is None else self._report(line, key, target, path)
            except _MALFORMED:
                continue
            if line is None or report is None:
                continue
            self._ours[key] = line
            if fix_mode == target.fix_mode or not _fixes(target, report):
                return report
            self._offers[target.name] = report
        return None

    def prepared(self, target: Target) -> Target:
        """A target of which fixes are only shown, with those that are offered, if they are known."""
        if target.fix_mode == "offer":  # what they change is kept for who asks
            return replace(target, only_shown=True)
        report = self._offers.get(target.name) if target.only_shown else None
        return target if report is None else replace(target, offers=report.known_offers)

    def keep(self, target: Target, report: FileReport, trace: Trace) -> None:
        """Remember a report, which has to be the one that checking the file gives."""
        path = os.path.join(self._here, target.name)
        fix_mode = target.fix_mode if report.findings or report.problems or report.fixed else ""
        if fix_mode not in _fix_modes(target) or self._files.digest(path) != trace.content:
            return  # another run would do more; or the file changed meanwhile, or is no plain file
        key, reads = self._key(target, path, fix_mode), dict(trace.reads)
        roots = _roots(path)
        reads.update({f"{root}\0{name}": _speaking(root, name) for root, name in trace.searched if root in roots})
        about = [
            _written(report.findings),
            plain(report.problems),
            _written(report.fixed),
            plain(Source(report.before.decode("latin-1")).difference(report.after.decode("latin-1"))),
            plain(report.offers),
            _written(report.silenced),
        ]
        entry = [key, path, trace.content, reads, report.skipped, *(about if any(about) else [])]
        self._ours[key] = json.dumps(entry, separators=(",", ":")).encode()
        self._changed = True
        if report.diff is not None:
            self.keep(replace(target, fix_mode="safe", only_shown=True), report.diff, trace)

    def save(self) -> None:
        """Write what is new beside what other runs have written meanwhile."""
        if self._changed:
            others = [line for key, line in self._read().items() if key not in self._ours]
            last = [line + b"\n" for line in reversed([*others, *self._ours.values()])]
            room = sum(size <= _MOST_BYTES for size in accumulate(map(len, last)))
            disk.keep(self._path, b"".join(reversed(last[:room])))

    def _read(self) -> dict[str, bytes]:
        try:
            content = disk.contents(self._path, 2 * _MOST_BYTES)
        except OSError:
            return {}
        lines = content.split(b"\n")
        return {line[_KEY].decode("latin-1"): line for line in lines if line.startswith(b'["')}

    def _key(self, target: Target, path: str, fix_mode: str) -> str:
        settings = target.settings
        if id(settings) not in self._settings:
            everything = [*self._about, plain(settings), line_length(settings.root)]
            self._settings[id(settings)] = settings, json.dumps(everything, default=str)
        about = self._settings[id(settings)][1]
        about_file = "\0".join((about, fix_mode, target.name, path, *package(os.path.dirname(path))))
        return digest(about_file.encode("utf-8", "surrogatepass"))

    def _report(self, line: bytes, key: str, target: Target, path: str) -> FileReport | None:
        """The report of an entry that is still valid. Raises one of _MALFORMED for what is no entry."""
        written, file, checked, reads, skipped, *about = json.loads(line)
        name, roots = target.name, _roots(path)
        if [written, file, checked] != [key, path, self._files.digest(path)]:
            return None
        if not all(self._files.is_still(each, known, roots) for each, known in reads.items()):
            return None
        if not about:
            return FileReport(name, skipped=_SKIPPED[skipped])
        found, problems, fixed = _read(about[0]), decoder(tuple[Problem, ...])(about[1]), _read(about[2])
        offers, silenced = decoder(tuple[Fix | None, ...])(about[4]), _read(about[5])
        codes, places = (
            target.settings.codes_for(Path(path)),
            [p for f in (*found, *fixed, *silenced) for p in f.places],
        )
        names = {each.filename for each in (*places, *problems)}
        if names != {name} or not codes.issuperset(place.code for place in places):
            return None  # it is about something else
        skip = _SKIPPED[skipped]
        report = FileReport(name, found, problems, "", fixed, skipped=skip, silenced=silenced, offers=offers)
        if fixed:
            before, edits = disk.contents(Path(path)), decoder(tuple[Edit, ...])(about[3])
            after = Source(before.decode("latin-1")).edited(edits).encode("latin-1")
            return replace(report, before=before, after=after, text=_text(after, name))
        return replace(report, text=_text(disk.contents(Path(path)), name)) if report.findings else report


class _Files:
    """Other files as they are now, each read once at most."""

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}
        self._trees: dict[str, str] = {}

    def digest(self, path: str) -> str:
        """The digest of a plain file; "" where there is none that can be read."""
        if path not in self._digests:
            self._digests[path] = ""
            try:
                if stat.S_ISREG(os.stat(path).st_mode):
                    with open(path, "rb", buffering=0) as file:
                        self._digests[path] = digest(file.read())
            except (OSError, ValueError):
                pass
        return self._digests[path]

    def below(self, root: str) -> str:
        """What tells the Python files below a directory, as they are now, from others."""
        if root not in self._trees:
            found = [[path, self.digest(path)] for path in programs(root)]
            self._trees[root] = digest(json.dumps(found).encode())
        return self._trees[root]

    def is_still(self, path: str, known: str, roots: frozenset[str]) -> bool:
        """Whether a file that an import may lead to, or the files of a directory with a name in them, are the same."""
        root, is_search, name = path.partition("\0")
        if is_search and root in roots:
            return _speaking(root, name) == known
        if not path.endswith(".py"):
            raise ValueError("this is nothing that can be imported")
        return self.digest(path) == known or (not known and not _is_module(path))


def _roots(path: str) -> frozenset[str]:
    """The package and the project of a file, as far as it has them."""
    top, root = package(os.path.dirname(path))[0], disk.project_root(Path(path).parent)
    return frozenset(each for each in (top, str(root or "")) if each)


def _speaking(root: str, name: str) -> str:
    """What tells the files of a directory that speak of a name from others."""
    return digest(json.dumps(texts(root).speaking(name)).encode())


def _is_module(path: str) -> bool:
    """Whether a file that is there would be followed."""
    try:
        content = disk.contents(Path(path), Budget.file_bytes)
        content.decode()
    except (OSError, ValueError):
        return False
    return True


def _fix_modes(target: Target) -> tuple[str, ...]:
    """Under what the report may be known: what says nothing says nothing whatever is done about findings.

    What is written into files is never what a cache says, which may be anybody's.
    """
    if target.fix_mode in ("safe", "unsafe"):
        return ("", target.fix_mode, "offer") if target.only_shown else ("", "offer")
    return ("", target.fix_mode) if target.fix_mode != "silence" else ("",)


def _fixes(target: Target, report: FileReport) -> bool:
    """Whether findings of a report that offers fixes have one that is to be applied."""
    grades = ("safe", "unsafe") if target.fix_mode == "unsafe" else ("safe",)
    offered = (f.fix for f in report.findings if f.fix is not None)
    return target.fix_mode in ("safe", "unsafe") and any(fix.edits and fix.applicability in grades for fix in offered)


def _written(findings: Sequence[Finding]) -> list[object]:
    """Findings, and the programs that show them at each of their places."""
    from wherelint.confirm.routine import packed

    bare = [replace(f, snippet=None, also=tuple(replace(p, snippet=None) for p in f.also)) for f in findings]
    programs = [[packed(place.snippet) for place in finding.places] for finding in findings]
    return [[plain(finding), each] for finding, each in zip(bare, programs, strict=True)]


def _read(written: list[list[Any]]) -> tuple[Finding, ...]:
    """The findings of an entry. Raises one of _MALFORMED."""
    found = []
    for finding, snippets in written:
        bare = decoder(Finding)(finding)
        first, *others = (replace(p, snippet=each) for p, each in zip(bare.places, snippets, strict=True))
        found.append(replace(first, also=tuple(others)))
    return tuple(found)


def _text(content: bytes, name: str) -> str:
    """The text that belongs to the findings of a file."""
    text, _ = decode(content)
    if not name.endswith(".ipynb"):
        return text
    from wherelint.io.notebook import Notebook

    notebook = Notebook(text, name)
    return notebook.report(FileReport(name, text=notebook.program)).text
