"""Reports of ``check`` on disk, each valid while the file, the settings and every other file it was made of stay so.

They lie in one file, an entry a line, and only the lines that are asked for are parsed. Contents are compared, never
times. Whoever wrote the file is not trusted: a line that is not what it should be is not there.
"""

import json
import os
import stat
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import Any, get_args

from wherelint import isolated, rules
from wherelint.finding import FileReport, Finding, Location, Plot, Problem, Skipped
from wherelint.frontend.sources import package, programs, texts
from wherelint.io import cachedir, disk
from wherelint.io.disk import digest
from wherelint.io.edits import Source
from wherelint.io.encoding import UndecodableError, decode
from wherelint.io.files import Target
from wherelint.io.line_length import tables_near
from wherelint.io.plain import decoder, plain
from wherelint.version import __version__

#: The layout of an entry, see ``Cache._report``.
_SCHEMA = 2
#: The least recently written entries go where there would be more than this.
_MOST_BYTES = 64 << 20
#: A key is so many characters, the first thing on its line after the bracket and the quote.
_KEY = slice(2, 34)
_PACKAGES = ("numpy", "scipy", "libcst")
_MALFORMED = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError, UndecodableError)
_DECODER = json.JSONDecoder()
_SKIPPED = {reason: reason for reason in ("", *get_args(Skipped))}


@dataclass(frozen=True)
class Trace:
    """What a report was made of."""

    #: The digest of the file itself.
    content: str
    #: The other files that were looked at, each with its digest; "" where there was none that could be read.
    reads: Mapping[str, str]
    #: The directory that was searched, and for every name that was asked for the files below it that speak of it.
    root: str = ""
    asked: Mapping[str, Sequence[str]] = field(default_factory=dict)


class Cache:
    """The reports that a directory keeps. What cannot be read is not there; what cannot be written is not kept."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "check" / "wherelint.jsonl"
        self._lines = self._read()
        #: What this run found again, and what it adds.
        self._used: dict[str, bytes] = {}
        self._new: dict[str, bytes] = {}
        self._files = _Files()
        words = [(rule.name, rule.sentence) for rule in rules.RULES]
        self._about = json.dumps([_SCHEMA, __version__, sys.version, _code(), words, list(_libraries())])
        self._settings: dict[tuple[int, frozenset[str], frozenset[str]], str] = {}
        self._here = os.getcwd()

    def find(self, target: Target) -> FileReport | None:
        """The report that checking a file would give, if it is known."""
        path = os.path.join(self._here, target.name)
        content = self._files.content(path)
        if content is None:
            return None
        codes = _codes(target, path)
        for fix_mode in self._fix_modes(target):
            key = self._key(target, path, codes, fix_mode)
            line = self._lines.get(key)
            if line is None:
                continue
            try:
                report = self._report(line, key, target, path, content, codes)
            except _MALFORMED:
                continue
            if report is not None:
                self._used.setdefault(key, line)
                return report
        return None

    def keep(self, target: Target, report: FileReport, trace: Trace) -> None:
        """Remember a report, which has to be the one that checking the file gives."""
        path = os.path.join(self._here, target.name)
        silent = not report.findings and not report.problems
        if not silent and (target.snippets or target.fix_mode not in ("no", "offer")):
            return
        root = package(os.path.dirname(path))[0]
        if self._files.digest(path) != trace.content or (trace.asked and trace.root != root):
            return  # it changed meanwhile, or is no plain file
        key = self._key(target, path, _codes(target, path), "" if silent else target.fix_mode)
        asked = [self._files.below(root), plain(trace.asked)] if trace.asked else []
        said = [plain(report.findings), plain(report.problems), report.skipped]
        self._add(key, [key, path, trace.content, dict(trace.reads), asked, *said])

    def save(self) -> None:
        """Write what is new beside what other runs have written meanwhile."""
        if not self._new:
            return
        lines = self._read()
        ours = {**{key: lines[key] for key in self._used if key in lines}, **self._new}
        others = {key: line for key, line in lines.items() if key not in ours and _is_there(line)}
        kept: list[bytes] = []
        room = _MOST_BYTES
        for line in reversed([*others.values(), *ours.values()]):
            room -= len(line) + 1
            if room < 0:
                break
            kept.append(line + b"\n")
        cachedir.keep(self._path, b"".join(reversed(kept)))

    def _add(self, key: str, entry: list[Any]) -> None:
        self._new[key] = json.dumps(entry, separators=(",", ":")).encode()

    def _read(self) -> dict[str, bytes]:
        try:
            content = disk.contents(self._path, 2 * _MOST_BYTES)
        except OSError:
            return {}
        lines = content.split(b"\n")
        return {line[_KEY].decode("latin-1"): line for line in lines if line.startswith(b'["')}

    def _fix_modes(self, target: Target) -> tuple[str, ...]:
        """Under what the report may be known: what says nothing says nothing whatever is done about findings."""
        return ("", target.fix_mode) if target.fix_mode in ("no", "offer") and not target.snippets else ("",)

    def _key(self, target: Target, path: str, codes: frozenset[str], fix_mode: str) -> str:
        settings = target.settings
        judged = codes if settings.unselected is None else settings.judged_for(Path(path))
        known = (id(settings), codes, judged)
        if known not in self._settings:
            about = [sorted(codes), sorted(judged), sorted(settings.aliases.items()), settings.confidence]
            about += [settings.differentiated, settings.not_differentiated, str(settings.root), settings.ignore_noqa]
            about += [sorted(settings.fixed_codes), settings.fix_comment, str(tables_near(settings.root))]
            self._settings[known] = json.dumps([self._about, about])
        mode = fix_mode + ", plots" * (target.plots and bool(fix_mode))
        about_file = "\0".join((self._settings[known], mode, target.name, path, *package(os.path.dirname(path))))
        return digest(about_file.encode("utf-8", "surrogatepass"))

    def _report(
        self, line: bytes, key: str, target: Target, path: str, content: bytes, codes: frozenset[str]
    ) -> FileReport | None:
        """The report of an entry that is still valid. Raises one of _MALFORMED for what is no entry."""
        entry = json.loads(line)
        written, file, checked, reads, asked, findings, problems, skipped = entry
        if [written, file, checked] != [key, path, self._files.digest(path)] or not self._files.are(reads):
            return None
        now = self._asked(path, asked)
        if now is None:
            return None
        report = replace(_decoded(target.name, findings, problems), skipped=_SKIPPED[skipped])
        if report.findings:
            report = replace(report, text=_text(content, target.name))
            if not _fits(report, codes):
                return None
        if now != asked:
            self._add(key, [*entry[:4], now, *entry[5:]])
        return report

    def _asked(self, path: str, asked: list[Any]) -> list[Any] | None:
        """What an entry says of names as it is now, None where other files speak of one than did.

        First what tells all files below the directory from others: while that is the same, none of them is searched.
        """
        if not asked:
            return asked
        known, names = asked
        root = package(os.path.dirname(path))[0]
        below = self._files.below(root)
        same = known == below or (root and all(texts(root).speaking(name) == files for name, files in names.items()))
        return [below, names] if root and same else None


class _Files:
    """Other files as they are now, each read once at most."""

    def __init__(self) -> None:
        self._digests: dict[str, str] = {}
        self._trees: dict[str, str] = {}

    def content(self, path: str) -> bytes | None:
        """What a plain file contains; None where there is none that can be read."""
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):
                return None
            with open(path, "rb", buffering=0) as file:
                content = file.read()
        except (OSError, ValueError):
            return None
        self._digests[path] = digest(content)
        return content

    def digest(self, path: str) -> str:
        """The digest of a plain file; "" where there is none that can be read."""
        if path not in self._digests and self.content(path) is None:
            self._digests[path] = ""
        return self._digests[path]

    def are(self, reads: dict[str, str]) -> bool:
        """Whether files that an import may lead to are what they were."""
        return all(self._is(path, known) for path, known in reads.items())

    def below(self, root: str) -> str:
        """What tells the Python files below a directory, as they are now, from others."""
        if root not in self._trees:
            found = [[path, self.digest(path)] for path in programs(root)]
            self._trees[root] = digest(json.dumps(found).encode())
        return self._trees[root]

    def _is(self, path: str, known: str) -> bool:
        if not path.endswith(".py"):
            raise ValueError("this is nothing that can be imported")
        return self.digest(path) == known or (not known and not _is_module(path))


def _is_module(path: str) -> bool:
    """Whether a file that is there would be followed."""
    from wherelint.frontend.options import Budget

    try:
        with open(path, "rb") as file:
            content = file.read(Budget.file_bytes + 1)
        content.decode()
    except (OSError, ValueError):
        return False
    return len(content) <= Budget.file_bytes


def _decoded(name: str, findings: Any, problems: Any) -> FileReport:
    """A report without the text. Raises ValueError for what is none."""
    if not findings and not problems:
        return FileReport(name)
    report = FileReport(name, decoder(tuple[Finding, ...])(findings), decoder(tuple[Problem, ...])(problems))
    places = {place.filename for finding in report.findings for place in finding.places}
    if {name} != places | {each.filename for each in report.problems}:
        raise ValueError("this is about another file")
    return report


def _text(content: bytes, name: str) -> str:
    """The text that belongs to the findings of a file."""
    text, _ = decode(content)
    if not name.endswith(".ipynb"):
        return text
    from wherelint.io.notebook import Notebook

    notebook = Notebook(text, name)
    return notebook.report(FileReport(name, text=notebook.program)).text


def _fits(report: FileReport, codes: Collection[str]) -> bool:
    """Whether findings could be of this text: their places lie in it, and their rules are on."""
    source = Source(report.text)
    rows = range(1, len(source.lines) + 2)
    findings = [place for finding in report.findings for place in finding.places]
    places = [place for finding in findings for place in _places(finding)]
    return all(place.row in rows and place.column > 0 for place in places) and all(
        finding.code in codes
        and finding.snippet is None
        and finding.confirmation is None
        and (finding.fix is None or source.fit(finding.fix.edits))
        and (finding.plot is None or _is_plot(finding.plot))
        for finding in findings
    )


def _is_plot(plot: Plot) -> bool:
    """Whether a plot has a line, and every curve as many points as that."""
    curves = [plot.before] if plot.after is None else [plot.before, plot.after]
    lengths = {len(numbers) for curve in curves for numbers in (curve.value, curve.gradient)}
    return bool(plot.moved) and lengths == {len(plot.at)} and plot.at[:1] < plot.at[-1:] and all(map(isfinite, plot.at))


def _places(finding: Finding) -> Iterator[Location]:
    yield from (finding.location, finding.end_location)
    for selection in (finding.select, *finding.related):
        yield from (selection.location, selection.end_location)


def _codes(target: Target, path: str) -> frozenset[str]:
    """The rules that are on in a file."""
    settings = target.settings
    return settings.codes_for(Path(path)) if settings.per_file_ignores else settings.codes


def _is_there(line: bytes) -> bool:
    """Whether the file that an entry is about exists."""
    try:
        path, _ = _DECODER.raw_decode(line.decode(), _KEY.stop + 2)
        return os.path.exists(path)
    except _MALFORMED:
        return False


def _code() -> str:
    """What tells this code from any other: a checkout changes more often than its version."""
    return _Files().below(os.path.join(isolated.HOME, "wherelint"))


def _libraries() -> Iterator[str]:
    """The names that installers give to the versions of what computes the numbers. Nothing is imported."""
    for name in _PACKAGES:
        with suppress(ImportError, ValueError, OSError):
            spec = find_spec(name)
            if spec is not None and spec.origin is not None:
                installed = os.listdir(os.path.dirname(os.path.dirname(spec.origin)))
                yield from sorted(each for each in installed if each.startswith(f"{name}-"))
