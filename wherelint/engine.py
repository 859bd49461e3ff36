"""A file to its report, and many files to a result. No exception of one file reaches another."""

from __future__ import annotations

import ast
import io
import os
import sys
import time
import tokenize
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wherelint import pool, rules, source
from wherelint.config import Settings
from wherelint.files import Target
from wherelint.finding import FileReport, Finding, Location, Problem
from wherelint.noqa import find_suppressions
from wherelint.source.options import DetectOptions

#: Below this many files a second process costs more than it saves.
_FILES_PER_PROCESS = 16


@dataclass(frozen=True)
class Result:
    """What a run found: the reports that say something, in the order of the files."""

    reports: tuple[FileReport, ...]
    #: How many files there were to check.
    total: int
    seconds: float

    @property
    def failed(self) -> int:
        """How many files, or paths that were to lead to some, could not be checked."""
        return len({problem.filename for problem in self.problems if problem.error})

    @property
    def files(self) -> int:
        """How many files were checked."""
        return self.total - self.failed

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of every file."""
        return tuple(finding for report in self.reports for finding in report.findings)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems of every file."""
        return tuple(problem for report in self.reports for problem in report.problems)

    @property
    def hidden(self) -> int:
        """How many findings of low confidence were left out."""
        return sum(report.hidden for report in self.reports)


def check_source(content: bytes, filename: str, settings: Settings) -> FileReport:
    """Check the bytes of one file. Nothing of it is imported or executed, and nothing is raised."""
    try:
        text = _decode(content)
    except _UndecodableError as error:
        return _failed(filename, str(error), error.location)
    try:
        return _check_text(text, filename, settings)
    except (RecursionError, MemoryError):
        return _failed(filename, "too deeply nested to analyse")
    except Exception as error:
        # Only if it is the file that does not parse: the analysis may stumble over a piece of one that does.
        return (isinstance(error, SyntaxError) and _syntax_error(text, filename)) or _internal_error(error, filename)


def check_file(target: Target) -> FileReport:
    """Check one file of the file system."""
    try:
        content = Path(target.name).read_bytes()
    except OSError as error:
        return _failed(target.name, f"cannot read the file: {error.strerror}")
    return check_source(content, target.name, target.settings)


def check_targets(
    targets: Sequence[Target], jobs: int | None = None, progress: Callable[[int], None] = lambda done: None
) -> Result:
    """Check many files. ``jobs`` processes (None: as many as seem worth it) give the same result as one."""
    start = time.perf_counter()
    if jobs is None:
        jobs = min(_cpus(), len(targets) // _FILES_PER_PROCESS)
    reports = pool.run(check_file, targets, min(jobs, len(targets)), _crashed, progress)
    said = tuple(report for report in reports if report.findings or report.problems or report.hidden)
    return Result(said, len(targets), time.perf_counter() - start)


def _check_text(text: str, filename: str, settings: Settings) -> FileReport:
    codes = settings.codes_for(Path(os.path.abspath(filename)))
    if not codes:
        return FileReport(filename)
    options = DetectOptions(settings.aliases, frozenset(code for code in codes if rules.get(code).opt_in))
    with warnings.catch_warnings():
        # Python warns about invalid escapes while it parses; that is another tool's business.
        warnings.simplefilter("ignore")
        findings, problems = source.detect(text, filename, options)
    findings = [finding for finding in findings if finding.code in codes]
    if findings:
        suppressions = find_suppressions(text)
        findings = [finding for finding in findings if not suppressions.cover(finding)]
    shown = [finding for finding in findings if finding.confidence == "high" or settings.confidence == "low"]
    return FileReport(
        filename,
        tuple(sorted(shown, key=Finding.sort_key)),
        tuple(problems),
        hidden=len(findings) - len(shown),
        text=text if shown else "",
    )


def _syntax_error(text: str, filename: str) -> FileReport | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        place = Location(error.lineno, max(error.offset or 1, 1)) if error.lineno else None
        version = ".".join(map(str, sys.version_info[:2]))
        return _failed(filename, f"does not parse as Python {version}: {error.msg}", place)
    except (RecursionError, MemoryError, ValueError):
        pass
    return None


def _internal_error(error: Exception, filename: str) -> FileReport:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    what = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(": ")
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    return _failed(filename, f"internal error, please report it: {what} ({place})")


class _UndecodableError(Exception):
    def __init__(self, message: str, location: Location | None = None) -> None:
        super().__init__(message)
        self.location = location


def _decode(content: bytes) -> str:
    """The text as Python reads it: by the byte order mark or the coding comment, UTF-8 otherwise (PEP 263)."""
    try:
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        except SyntaxError:
            # Either the coding comment is wrong, or the first lines are not UTF-8: then this says where.
            content.decode()
            raise
        text = _decode_as(encoding, content)
    except SyntaxError as error:
        raise _UndecodableError(f"cannot decode the file: {error.msg}") from None
    except UnicodeDecodeError as error:
        message = f"cannot decode the file as {error.encoding}: {error.reason}"
        raise _UndecodableError(message, _place(content.decode("latin-1"), error.start)) from None
    if "\0" in text:
        raise _UndecodableError("the file contains a null byte", _place(text, text.index("\0")))
    return text


def _decode_as(encoding: str, content: bytes) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return content.decode(encoding)
    except UnicodeDecodeError:
        raise
    except LookupError:
        # A codec from bytes to bytes, or from text to text: hex, rot13.
        raise _UndecodableError(f"cannot decode the file: {encoding!r} is not a text encoding") from None
    except Exception as error:
        # A codec may raise anything; idna, punycode and undefined do.
        raise _UndecodableError(f"cannot decode the file as {encoding}: {error}") from None


def _place(text: str, offset: int) -> Location:
    before = text[:offset].replace("\r\n", "\n").replace("\r", "\n")
    return Location(before.count("\n") + 1, offset - max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)))


def _failed(filename: str, message: str, location: Location | None = None) -> FileReport:
    return FileReport(filename, problems=(Problem(filename, message, location),))


def _crashed(target: Target) -> FileReport:
    return _failed(target.name, "internal error, please report it: the process that checked this file died")


def _cpus() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def add_problems(result: Result, problems: Sequence[Problem]) -> Result:
    """The result with problems that arose before any file was opened."""
    early = tuple(FileReport(problem.filename, problems=(problem,)) for problem in problems)
    missing = len({problem.filename for problem in problems if problem.error})
    return replace(result, reports=(*early, *result.reports), total=result.total + missing)
