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
    from wherelint.run.cache import Trace

#: Where there are fewer bytes for each, a process more costs more than it saves.
_BYTES_PER_PROCESS = 100_000
#: What opening a file costs, in bytes that could be checked meanwhile.
_BYTES_PER_FILE = 1_000


def check_file(target: Target) -> tuple[FileReport, Trace | None]:
    """Check one file of the file system; and what the report was made of, None where it is not to be kept."""
    try:
        content = contents(Path(target.name))
    except OSError as error:
        return failed(target.name, f"cannot read the file: {error.strerror}"), None
    projects: list[Project] = []
    report = check(content, target, projects)
    return report, None if report.fixed or _unsure(report) else _trace(content, projects)


def check_targets(
    targets: Sequence[Target],
    jobs: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
    cache: Path | None = None,
) -> Result:
    """Check many files; neither ``jobs`` (None: as seems worth it) nor the directory ``cache`` changes the result."""
    start = time.perf_counter()
    wherelint.findings.forget()
    if cache is None:
        reports = [report for report, _ in _check(targets, jobs, progress)]
    else:
        reports = _check_or_find(targets, jobs, progress, cache)
    telling = tuple(r for r in reports if r.findings or r.problems or r.fixed)
    skipped = Counter(report.skipped for report in reports if report.skipped)
    names = tuple(target.name for target in targets)
    return Result(telling, len(targets), time.perf_counter() - start, names, skipped=skipped)


def _check_or_find(
    targets: Sequence[Target], jobs: int | None, progress: Callable[[int], None], directory: Path
) -> list[FileReport]:
    from wherelint.run.cache import Cache

    cache = Cache(directory)
    reports: dict[int, FileReport] = {}
    for index, target in enumerate(targets):
        report = cache.find(target)
        if report is not None:
            reports[index] = report
            progress(len(reports))
    found = len(reports)
    missing = [index for index in range(len(targets)) if index not in reports]
    checked = _check([targets[index] for index in missing], jobs, lambda done: progress(found + done))
    for index, (report, trace) in zip(missing, checked, strict=True):
        reports[index] = report
        if trace is not None:
            cache.keep(targets[index], report, trace)
    cache.save()
    return [reports[index] for index in range(len(targets))]


def _check(
    targets: Sequence[Target], jobs: int | None, progress: Callable[[int], None]
) -> list[tuple[FileReport, Trace | None]]:
    if not targets:
        return []
    from wherelint.run import pool

    sizes = [_BYTES_PER_FILE + _size(target.name) for target in targets]
    if jobs is None:
        jobs = min(_cpus(), sum(sizes) // _BYTES_PER_PROCESS)
    return pool.run(check_file, targets, min(jobs, len(targets)), _crashed, progress, sizes=sizes)


def _size(name: str) -> int:
    try:
        return os.stat(name).st_size
    except OSError:
        return 0


def _unsure(report: FileReport) -> bool:
    """Whether another run may say something else: there is a defect, or memory was short."""
    messages = [problem.message for problem in report.problems]
    messages += [finding.fix.message for finding in report.findings if finding.fix is not None]
    return any(DEFECT in each or each == TOO_DEEP for each in messages)


def _trace(content: bytes, projects: Sequence[Project]) -> Trace:
    from wherelint.run.cache import Trace

    reads = {path: known for project in projects for path, known in project.reads.items()}
    asked = {asked for project in projects for asked in project.asked}
    if not asked:
        return Trace(digest(content), reads)
    from wherelint.frontend.sources import texts

    ((root, _), *_) = asked
    return Trace(digest(content), reads, root, {name: texts(root).speaking(name) for _, name in sorted(asked)})


def _crashed(target: Target) -> tuple[FileReport, None]:
    return failed(target.name, f"{DEFECT}: the process that checked this file died"), None


def _cpus() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
