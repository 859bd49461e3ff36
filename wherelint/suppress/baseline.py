"""Findings that are known: kept in a file, and left out of the report until they change.

An entry is what a place of a finding is about and the text of its line, not its row: lines may move, and places may
be put together otherwise. Several places of one entry are counted. The names of files are relative to the directory of
the baseline, wherever a run starts.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from wherelint.finding import FileReport, Finding
from wherelint.io import disk
from wherelint.io.config import ConfigError, Settings
from wherelint.io.edits import physical_lines
from wherelint.io.files import display_name

_VERSION = 1


class Entry(NamedTuple):
    """What is known of one place of a finding."""

    filename: str
    code: str
    function: str
    op: str
    select: str
    line: str


def _named(filename: str, baseline: Path) -> str:
    return os.path.relpath(filename, baseline.parent).replace(os.sep, "/")


def _entries(report: FileReport, baseline: Path) -> Callable[[Finding], Entry]:
    """What makes an entry of a place in a report."""
    lines, name = physical_lines(report.text), _named(report.filename, baseline)
    return lambda f: Entry(name, f.code, f.function, f.op, f.select.kind, lines[f.location.row - 1].strip())


def write(path: Path, reports: Iterable[FileReport]) -> int:
    """Write the findings of some reports as a baseline; how many there are."""
    findings = [(finding, _entries(report, path)) for report in reports for finding in report.findings]
    counts = Counter(entry(place) for finding, entry in findings for place in finding.places)
    known = [{**entry._asdict(), "count": count} for entry, count in sorted(counts.items())]
    disk.write(path, (json.dumps({"version": _VERSION, "findings": known}, indent=1) + "\n").encode())
    return len(findings)


class Baseline:
    """The known findings of a file. Raises ConfigError where it cannot be read."""

    def __init__(self, path: Path) -> None:
        self._path, name = path, display_name(path)
        try:
            read = json.loads(disk.contents(path))
            if read["version"] != _VERSION:
                raise ConfigError(f"{name}: another version wrote it; write it again with --write-baseline")
            self._left = Counter({Entry(*(e[k] for k in Entry._fields)): int(e["count"]) for e in read["findings"]})
        except OSError as error:
            raise ConfigError(f"{name}: cannot read the baseline: {error.strerror}") from None
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            raise ConfigError(f"{name}: not a baseline; write one with --write-baseline") from None
        #: How many findings were left out.
        self.known = 0
        self._rules: dict[str, Collection[str]] = {}

    @property
    def outlived(self) -> bool:
        """Whether something in it is found no more, in a file that was checked by the same rule."""
        return any(left > 0 and entry.code in self._rules.get(entry.filename, ()) for entry, left in self._left.items())

    def without_known(self, report: FileReport, codes: Collection[str] = ()) -> FileReport:
        """The report with the findings that are new, each at its places that are; ``codes`` were looked for."""
        if not report.problems and not report.hidden:
            self._rules[_named(report.filename, self._path)] = codes
        if not report.findings:
            return report
        entry = _entries(report, self._path)

        def new(place: Finding) -> bool:
            self._left[entry(place)] -= 1
            return self._left[entry(place)] < 0

        findings = tuple(rest for finding in report.findings if (rest := finding.only(new)) is not None)
        self.known += len(report.findings) - len(findings)
        return replace(report, findings=findings)


class Baselines:
    """The baselines that files have by their settings, each read once. Raises ConfigError where one cannot be read."""

    def __init__(self, settings: Callable[[Path], Settings]) -> None:
        self._settings = settings
        self._read: dict[Path, Baseline] = {}
        self.without_known(FileReport("_"))  # that of the working directory is read even where nothing is found

    def without_known(self, report: FileReport) -> FileReport:
        """The report without what its baseline knows."""
        file = Path(os.path.abspath(report.filename))
        settings = self._settings(file.parent)
        if settings.baseline is None:
            return report
        if settings.baseline not in self._read:
            self._read[settings.baseline] = Baseline(settings.baseline)
        return self._read[settings.baseline].without_known(report, settings.codes_for(file))

    @property
    def known(self) -> int:
        """How many findings were left out."""
        return sum(each.known for each in self._read.values())

    @property
    def outlived(self) -> bool:
        """Whether one of them should be written again."""
        return any(each.outlived for each in self._read.values())
