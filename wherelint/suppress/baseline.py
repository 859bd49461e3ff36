"""Findings that are known: kept in a file, and left out of the report until they change.

An entry is what a finding is about and the text of its line, not its row: lines may move. Several findings of one
entry are counted. The names of files are those that are printed: relative to the working directory.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from wherelint.finding import FileReport
from wherelint.io import disk
from wherelint.io.config import ConfigError
from wherelint.io.edits import physical_lines

_VERSION = 1


class Entry(NamedTuple):
    """What is known of one finding."""

    filename: str
    code: str
    function: str
    op: str
    select: str
    line: str


def entries(report: FileReport) -> list[Entry]:
    """An entry for each finding of a report, in order."""
    lines = physical_lines(report.text)
    return [
        Entry(f.filename, f.code, f.function, f.op, f.select.kind, lines[f.location.row - 1].strip())
        for f in report.findings
    ]


def write(path: Path, reports: Iterable[FileReport]) -> int:
    """Write the findings of some reports as a baseline; how many there are."""
    counts = Counter(entry for report in reports for entry in entries(report))
    known = [{**entry._asdict(), "count": count} for entry, count in sorted(counts.items())]
    disk.write(path, (json.dumps({"version": _VERSION, "findings": known}, indent=1) + "\n").encode())
    return counts.total()


class Baseline:
    """The known findings of a file. Raises ConfigError where it cannot be read."""

    def __init__(self, path: Path) -> None:
        try:
            read = json.loads(disk.contents(path))
            if read["version"] != _VERSION:
                raise ConfigError(f"{path}: it was written by another version; write it again with --write-baseline")
            self._left = Counter({Entry(*(e[k] for k in Entry._fields)): int(e["count"]) for e in read["findings"]})
        except OSError as error:
            raise ConfigError(f"{path}: cannot read the baseline: {error.strerror}") from None
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            raise ConfigError(f"{path}: this is no baseline; write one with --write-baseline") from None
        #: How many findings were left out.
        self.known = 0

    def without_known(self, report: FileReport) -> FileReport:
        """The report with the findings that are new."""
        if not report.findings:
            return report
        new = []
        for finding, entry in zip(report.findings, entries(report), strict=True):
            if self._left[entry] > 0:
                self._left[entry] -= 1
                self.known += 1
            else:
                new.append(finding)
        return replace(report, findings=tuple(new))

    def stale(self, checked: Iterable[str], codes: Collection[str]) -> int:
        """How many entries of rules that are on matched nothing: of files that were checked, or that are gone."""
        names = set(checked)
        left = [(entry, count) for entry, count in (+self._left).items() if entry.code in codes]
        return sum(count for entry, count in left if entry.filename in names or not os.path.exists(entry.filename))
