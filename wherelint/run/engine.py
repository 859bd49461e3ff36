"""Many files to a result: processes, the cache, the baseline, confirmations."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import wherelint.analysis
from wherelint.defects import DEFECT
from wherelint.finding import FileReport, Finding, FixKey, Problem
from wherelint.io.disk import contents, digest
from wherelint.io.files import Target
from wherelint.run.check import TOO_DEEP, check_source, failed
from wherelint.run.results import Result, unwritten

if TYPE_CHECKING:
    from wherelint.frontend.module import Project
    from wherelint.io.config import Settings
    from wherelint.run.cache import Trace

#: Where there are fewer bytes for each, a process more costs more than it saves.
_BYTES_PER_PROCESS = 100_000
#: What opening a file costs, in bytes that could be checked meanwhile.
_BYTES_PER_FILE = 1_000
#: How often the fixes of a file are looked for again because a run refuted some.
_MOST_REFUTED = 5


def check_file(target: Target) -> tuple[FileReport, Trace | None]:
    """Check one file of the file system; and what the report was made of, None where it is not to be kept."""
    try:
        content = contents(Path(target.name))
    except OSError as error:
        return failed(target.name, f"cannot read the file: {error.strerror}"), None
    around: list[Project] = []
    report = check_source(
        content, target.name, target.settings, target.fix_mode,
        snippets=target.snippets, plots=target.plots, refuted=target.refuted, around=around,
    )  # fmt: skip
    return report, None if report.fixed or _unsure(report) else _trace(content, around)


def check_targets(
    targets: Sequence[Target],
    jobs: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
    cache: Path | None = None,
) -> Result:
    """Check many files; neither ``jobs`` (None: as seems worth it) nor the directory ``cache`` changes the result."""
    start = time.perf_counter()
    wherelint.analysis.forget()
    if cache is None:
        reports = [report for report, _ in _check(targets, jobs, progress)]
    else:
        reports = _check_or_find(targets, jobs, progress, cache)
    said = tuple(r for r in reports if r.findings or r.problems or r.fixed)
    skipped = Counter(report.skipped for report in reports if report.skipped)
    names = tuple(target.name for target in targets)
    return Result(said, len(targets), time.perf_counter() - start, names, skipped=skipped)


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
    said = [problem.message for problem in report.problems]
    said += [finding.fix.message for finding in report.findings if finding.fix is not None]
    return any(DEFECT in each or each == TOO_DEEP for each in said)


def _trace(content: bytes, around: Sequence[Project]) -> Trace:
    from wherelint.run.cache import Trace

    reads = {path: known for project in around for path, known in project.reads.items()}
    asked = {asked for project in around for asked in project.asked}
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


def without_known(result: Result, settings: Callable[[Path], Settings]) -> tuple[Result, dict[Path, int]]:
    """The result without what the baselines of its files know, and how many entries of each match nothing any more.

    Only rules that are on can match. Raises ConfigError.
    """
    names = {*result.names, *(report.filename for report in result.reports)}
    of = {name: settings(Path(os.path.abspath(name)).parent) for name in names}
    paths = {each.baseline for each in of.values() if each.baseline is not None}
    if not paths:
        return result, {}
    from wherelint.suppress.baseline import Baseline

    baselines = {path: Baseline(path) for path in sorted(paths)}
    reports = tuple(
        baselines[path].without_known(r) if (path := of[r.filename].baseline) is not None else r for r in result.reports
    )
    stale = {}
    for path, baseline in baselines.items():
        checked = [name for name in result.names if of[name].baseline == path]
        stale[path] = baseline.stale(checked, {code for name in checked for code in of[name].codes})
    return replace(result, reports=reports, known=sum(each.known for each in baselines.values())), stale


def confirm_result(
    result: Result,
    device: str,
    cache: Path | None,
    *,
    only: bool = False,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[Result, list[str]]:
    """The result with a confirmation of every finding, and why a framework could not be run.

    ``only``: without the findings that were not confirmed. ``cache`` is the directory that keeps confirmations.
    """
    from wherelint.confirm import confirm
    from wherelint.confirm.cache import Cache

    made, problems = confirm(result.findings, device, Cache(cache) if cache else None, progress=progress)
    rest = iter(made)
    reports = tuple(replace(r, findings=tuple(next(rest) for _ in r.findings)) for r in result.reports)
    if not only:
        return replace(result, reports=reports), problems
    kept = tuple(replace(r, findings=tuple(f for f in r.findings if _confirmed(f))) for r in reports)
    return replace(result, reports=kept, unconfirmed=sum(not _confirmed(f) for f in made)), problems


def without_refuted(
    result: Result, again: Callable[[FileReport, Mapping[FixKey, str]], FileReport], run: Callable[[Result], Result]
) -> Result:
    """The result without the fixes that ``run``, which confirms findings, does not bear out.

    ``again`` checks the file of a report without some fixes. What shows no gradient has nothing to run.
    """
    refuted: dict[str, dict[FixKey, str]] = {}
    for _ in range(_MOST_REFUTED):
        fixed = tuple(FileReport(r.filename, tuple(f for f in r.fixed if f.witness)) for r in result.reports)
        names = set()
        for finding in run(replace(result, reports=fixed)).findings:
            if finding.confirmation is not None and (why := finding.confirmation.against_fix):
                refuted.setdefault(finding.filename, {})[finding.fix_key()] = why
                names.add(finding.filename)
        if not names:
            return result
        reports = tuple(again(r, refuted[r.filename]) if r.filename in names else r for r in result.reports)
        result = replace(result, reports=reports)
    why = "the framework refuted its fixes again and again; the file was not changed"
    return unwritten(result, [Problem(name, why) for name in sorted(names)])


def _confirmed(finding: Finding) -> bool:
    return finding.confirmation is not None and finding.confirmation.verdict == "confirmed"
