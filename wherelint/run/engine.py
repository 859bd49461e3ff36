"""Many files to a result, in processes, and with the cache."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import wherelint.findings
from wherelint.defects import DEFECT
from wherelint.finding import FileReport
from wherelint.io.disk import contents, digest
from wherelint.io.files import Target
from wherelint.run.check import TOO_DEEP, check, failed
from wherelint.run.result import Result

if TYPE_CHECKING:
    from wherelint.frontend.module import Project
    from wherelint.run.cache import Cache, Trace

#: Where there are fewer bytes for each, a process more costs more than it saves.
_BYTES_PER_PROCESS = 100_000
#: What opening a file costs, in bytes that could be checked meanwhile.
_BYTES_PER_FILE = 1_000
#: How many times as much a file with findings costs.
_PER_FINDING = 10
#: A process gets a share of neighbours, which read the same other files: so many shares each, of so many files at most.
_SHARES, _MOST_FILES = 8, 32


def check_file(target: Target) -> tuple[FileReport, Trace | None]:
    """Check one file of the file system; and what the report was made of, None where it is not to be kept."""
    try:
        content = contents(Path(target.name))
    except OSError as error:
        return failed(target.name, f"cannot read the file: {error.strerror}"), None
    projects: list[Project] = []
    report = check(content, target, projects)
    messages = [problem.message for problem in report.problems]
    messages += [finding.fix.message for finding in report.findings if finding.fix is not None]
    if (report.fixed and not target.only_shown) or any(DEFECT in each or each == TOO_DEEP for each in messages):
        return report, None  # another run may say something else
    from wherelint.run.cache import Trace

    reads = {path: known for project in projects for path, known in project.reads.items()}
    return report, Trace(digest(content), reads, frozenset().union(*(project.asked for project in projects)))


def check_targets(
    targets: Sequence[Target],
    jobs: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
    cache: Path | None = None,
    seen: Callable[[FileReport], FileReport] = lambda report: report,
) -> Result:
    """Check many files; neither ``jobs`` (None: as seems worth it) nor the directory ``cache`` changes the result.

    ``seen`` gets each report, in the order of the files, as soon as it is there; what it returns is in the result.
    """
    start = time.perf_counter()
    wherelint.findings.forget()
    reports: dict[int, FileReport] = {}
    ordered: list[FileReport] = []
    known: Cache | None = None

    def add(index: int, report: FileReport) -> None:
        reports[index] = report
        progress(len(reports))
        while len(ordered) in reports:
            ordered.append(seen(reports[len(ordered)]))

    def checked(number: int, output: tuple[FileReport, Trace | None]) -> None:
        index, (report, trace) = missing[number], output
        if known is not None and trace is not None:
            known.keep(targets[index], report, trace)
        add(index, report)

    if cache is not None:
        from wherelint.run.cache import Cache

        known = Cache(cache)
        for index, target in enumerate(targets):
            if (report := known.find(target)) is not None:
                add(index, report)
    missing = [index for index in range(len(targets)) if index not in reports]
    left = [targets[index] if known is None else known.prepared(targets[index]) for index in missing]
    try:
        _check(left, jobs, checked)
    finally:  # whoever reads the output may have seen enough
        if known is not None:
            known.save()
    telling = tuple(r for r in ordered if r.findings or r.problems or r.fixed or r.hidden or r.silenced)
    skipped = Counter(report.skipped for report in ordered if report.skipped)
    names = tuple(target.name for target in targets)
    return Result(telling, len(targets), time.perf_counter() - start, names, skipped=skipped)


def _check(
    targets: Sequence[Target], jobs: int | None, done: Callable[[int, tuple[FileReport, Trace | None]], None]
) -> None:
    if not targets:
        return
    from wherelint.run import pool

    if jobs is None:
        sizes = sum(os.path.getsize(target.name) for target in targets if os.path.isfile(target.name))
        if any(target.fix_mode in ("safe", "unsafe") for target in targets):  # most have findings
            sizes *= _PER_FINDING
        jobs = min(_cpus(), (sizes + _BYTES_PER_FILE * len(targets)) // _BYTES_PER_PROCESS)
    jobs = max(1, min(jobs, len(targets)))
    share = max(1, min(_MOST_FILES, len(targets) // (jobs * _SHARES)))
    pool.run(check_file, targets, jobs, _crashed, done, share=share)


def _crashed(target: Target) -> tuple[FileReport, None]:
    return failed(target.name, f"{DEFECT}: the process that checked this file died"), None


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
