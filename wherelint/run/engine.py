"""A file to its report, and many files to a result. No exception of one file reaches another."""

from __future__ import annotations

import ast
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import wherelint.analysis
from wherelint import rules
from wherelint.defects import DEFECT, describe
from wherelint.finding import FileReport, Finding, FixKey, Framework, Location, Problem
from wherelint.frontend.options import DetectOptions
from wherelint.io.config import Settings
from wherelint.io.digest import digest
from wherelint.io.disk import contents
from wherelint.io.encoding import NOWHERE, UndecodableError, decode, encode
from wherelint.io.files import Mend, Target

if TYPE_CHECKING:
    from wherelint.analysis.findings import Analysis
    from wherelint.frontend.project import Project
    from wherelint.run.cache import Trace

#: Where there are fewer bytes for each, a process more costs more than it saves.
_BYTES_PER_PROCESS = 100_000
#: What opening a file costs, in bytes that could be checked meanwhile.
_BYTES_PER_FILE = 1_000
#: How often the fixes of a file are looked for again because a run refuted some.
_MOST_REFUTED = 5
_TOO_DEEP = "too deeply nested to analyse"


@dataclass(frozen=True)
class Look:
    """What is seen in a text."""

    analysis: Analysis | None
    #: The findings that are neither switched off nor suppressed nor of too low a confidence, in order.
    shown: tuple[Finding, ...]
    hidden: int
    #: Why the text was not searched; empty if it was.
    skipped: str = ""


@dataclass(frozen=True)
class Result:
    """What a run found: the reports that say something, in the order of the files."""

    reports: tuple[FileReport, ...]
    #: How many files there were to check.
    total: int
    seconds: float
    #: The names of the files, whether anything is to be said of them or not.
    names: tuple[str, ...] = ()
    #: How many findings were left out because no run confirmed them, and because they are in the baseline.
    unconfirmed: int = 0
    known: int = 0
    #: How many files were not searched, by the reason.
    skipped: Mapping[str, int] = field(default_factory=dict)

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
    def fixed(self) -> tuple[Finding, ...]:
        """The findings that were fixed."""
        return tuple(finding for report in self.reports for finding in report.fixed)

    @property
    def hidden(self) -> int:
        """How many findings of low confidence were left out."""
        return sum(report.hidden for report in self.reports)


def check_source(
    content: bytes,
    filename: str,
    settings: Settings,
    mend: Mend = "no",
    *,
    snippets: bool = False,
    refuted: Collection[FixKey] = (),
    around: list[Project] | None = None,
) -> FileReport:
    """Check, and perhaps mend, the bytes of one file. Nothing of it is imported or executed, and nothing is raised.

    ``snippets``: each finding comes with the program that shows it. ``refuted``: fixes that are not applied. ``around``
    gets the projects that were looked at.
    """
    text = ""
    try:
        text, encoding = decode(content)
        report, after = _check_text(text, filename, settings, mend, snippets, refuted, around)
        if not report.fixed:
            return report
        mended = encode(after, encoding, content)
        if mended is None:
            return _failed(filename, f"cannot be rewritten in its encoding ({encoding})")
        return replace(report, before=content, after=mended)
    except UndecodableError as error:
        return _failed(filename, str(error), error.location)
    except (RecursionError, MemoryError):
        return _failed(filename, _TOO_DEEP)
    except Exception as error:
        # Only if it is the file that does not parse: the analysis may stumble over a piece of one that does.
        return (isinstance(error, SyntaxError) and _syntax_error(text, filename)) or _internal_error(error, filename)


def check_file(target: Target) -> tuple[FileReport, Trace | None]:
    """Check one file of the file system; and what the report was made of, None where it is not to be kept."""
    try:
        content = contents(Path(target.name))
    except OSError as error:
        return _failed(target.name, f"cannot read the file: {error.strerror}"), None
    around: list[Project] = []
    settings, mend = target.settings, target.mend
    report = check_source(
        content, target.name, settings, mend, snippets=target.snippets, refuted=target.refuted, around=around
    )
    return report, None if report.fixed or _unsure(report) else _trace(content, around)


def check_targets(
    targets: Sequence[Target],
    jobs: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
    cache: Path | None = None,
) -> Result:
    """Check many files. ``jobs`` processes (None: as many as seem worth it) give the same result as one.

    ``cache``: the directory that keeps reports from one run to the next. It makes no difference to the result.
    """
    start = time.perf_counter()
    if cache is None:
        reports = [report for report, _ in _check(targets, jobs, progress)]
    else:
        reports = _check_or_find(targets, jobs, progress, cache)
    said = tuple(r for r in reports if r.findings or r.problems or r.hidden or r.fixed)
    skipped = Counter(report.skipped for report in reports if report.skipped)
    names = tuple(target.name for target in targets)
    return Result(said, len(targets), time.perf_counter() - start, names, skipped=skipped)


def _check_or_find(
    targets: Sequence[Target], jobs: int | None, progress: Callable[[int], None], directory: Path
) -> list[FileReport]:
    from wherelint.run.cache import Cache

    wherelint.analysis.forget()
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
    return any(DEFECT in each or each == _TOO_DEEP for each in said)


def _trace(content: bytes, around: Sequence[Project]) -> Trace:
    from wherelint.run.cache import Trace

    reads = {path: known for project in around for path, known in project.reads.items()}
    asked = {asked for project in around for asked in project.asked}
    if not asked:
        return Trace(digest(content), reads)
    from wherelint.frontend.project import private_names

    ((root, _), *_) = asked
    known = private_names(root)
    return Trace(digest(content), reads, root, {name: known.get(name, []) for _, name in sorted(asked)})


def _check_text(
    text: str,
    filename: str,
    settings: Settings,
    mend: Mend,
    snippets: bool,
    refuted: Collection[FixKey],
    around: list[Project] | None,
) -> tuple[FileReport, str]:
    """The report on a text, and the text after the fixes."""
    codes = settings.codes_for(Path(os.path.abspath(filename)))
    if not codes:
        return FileReport(filename), text
    notebook = None
    if filename.endswith(".ipynb"):
        from wherelint.io.notebook import Notebook

        notebook = Notebook(text, filename)
        text = notebook.program
    from wherelint.suppress.noqa import find_suppressions

    options = DetectOptions(settings.aliases, frozenset(code for code in codes if rules.get(code).opt_in))

    def look(text: str) -> Look:
        with warnings.catch_warnings():
            # Python warns about invalid escapes while it parses; that is another tool's business.
            warnings.simplefilter("ignore")
            made = wherelint.analysis.analyse(text, filename, options, around)
        analysis, skipped = (None, made) if isinstance(made, str) else (made, "")
        if analysis and notebook:
            analysis = _in_cells(analysis, notebook.cells(text))
        findings = [f for f in (analysis.findings if analysis else []) if f.code in codes]
        suppressions = find_suppressions(text) if analysis else None
        if suppressions:
            idle: Iterable[Finding] = ()
            if "WL001" in codes and suppressions.comments and analysis and analysis.used and not analysis.problems:
                from wherelint.suppress.unused import unused

                framework = cast(Framework, analysis.used[0])
                idle = list(unused(text, filename, suppressions, findings, codes, framework))
            findings = [*(finding for finding in findings if not suppressions.cover(finding)), *idle]
        shown = [finding for finding in findings if finding.confidence == "high" or settings.confidence == "low"]
        return Look(analysis, tuple(sorted(shown, key=Finding.sort_key)), len(findings) - len(shown), skipped)

    seen = look(text)
    fixed: tuple[Finding, ...] = ()
    if seen.shown and mend in ("safe", "unsafe"):
        from wherelint.fix.rounds import Allowed, fixpoint

        allowed = Allowed(unsafe=mend == "unsafe", refuted=refuted, snippets=snippets)
        text, seen, fixed = fixpoint(text, seen, look, allowed)
    if seen.shown and mend == "silence":
        text, fixed = _silenced(text, seen.shown)
        seen = look(text)
    shown = seen.shown
    if shown and mend == "offer" and seen.analysis is not None:
        from wherelint.fix import patience, propose_all

        offered = propose_all(seen.analysis, shown, patience())
        shown = tuple(replace(finding, fix=fix) for finding, fix in zip(shown, offered, strict=True))
    if shown and snippets and seen.analysis is not None:
        from wherelint.confirm.snippet import snippet

        shown = tuple(replace(finding, snippet=snippet(seen.analysis, finding)) for finding in shown)
    problems = tuple(seen.analysis.problems) if seen.analysis else ()
    if seen.skipped == "too many imports":
        why = "gave up on the file: its imports lead to too many others, or too large ones"
        problems = (Problem(filename, why, error=False),)
    problems = (*problems, *_given_up(shown))
    report = FileReport(
        filename, shown, problems, seen.hidden, text if shown or fixed else "", fixed, skipped=seen.skipped
    )
    if notebook is None:
        return report, text
    return notebook.report(report), notebook.rewritten(text) if fixed else text


def _given_up(findings: Sequence[Finding]) -> Iterator[Problem]:
    """A warning for each reason why fixes were not looked for to the end, and an error for each defect of ours."""
    refusals = Counter(f.fix.message for f in findings if f.fix is not None and not f.fix.edits)
    if not refusals:
        return
    from wherelint.fix import GIVEN_UP

    for message, count in refusals.items():
        why = message.partition(": ")[2]
        if message in GIVEN_UP or DEFECT in message:
            number = f"{count} of {len(findings)} finding{'s' * (len(findings) > 1)}"
            yield Problem(findings[0].filename, f"gave up on fixes for {number}: {why}", error=DEFECT in message)


def _silenced(text: str, findings: Iterable[Finding]) -> tuple[str, tuple[Finding, ...]]:
    """The text with a comment for every finding that one can silence, and these findings."""
    from wherelint.io.edits import Source
    from wherelint.suppress.silence import silence

    silenced = []
    for finding in findings:
        edit = silence(text, finding) if finding.code != "WL001" else None
        if edit is not None:  # no row moves
            text = Source(text).edited([edit])
            silenced.append(finding)
    return text, tuple(silenced)


def _in_cells(analysis: Analysis, cells: tuple[int, ...]) -> Analysis:
    found = [(replace(finding, cells=cells), catch) for finding, catch in analysis.found]
    return replace(analysis, found=found, problems=[replace(problem, cells=cells) for problem in analysis.problems])


def _syntax_error(text: str, filename: str) -> FileReport | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text, NOWHERE)
    except SyntaxError as error:
        place = Location(error.lineno, max(error.offset or 1, 1)) if error.lineno else None
        version = ".".join(map(str, sys.version_info[:2]))
        return _failed(filename, f"does not parse as Python {version}: {error.msg}", place)
    except (RecursionError, MemoryError, ValueError):
        pass
    return None


def _internal_error(error: Exception, filename: str) -> FileReport:
    return _failed(filename, describe(error))


def _failed(filename: str, message: str, location: Location | None = None) -> FileReport:
    return FileReport(filename, problems=(Problem(filename, message, location),))


def _crashed(target: Target) -> tuple[FileReport, None]:
    return _failed(target.name, f"{DEFECT}: the process that checked this file died"), None


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


def unwritten(result: Result, problems: Sequence[Problem]) -> Result:
    """The result where some fixed files could not be written: their fixes do not count."""
    failed = {problem.filename: problem for problem in problems}
    reports = tuple(
        replace(r, fixed=(), problems=(*r.problems, failed[r.filename])) if r.filename in failed else r
        for r in result.reports
    )
    return replace(result, reports=reports)


def without_known(result: Result, path: Path, codes: Collection[str]) -> tuple[Result, int]:
    """The result without what the baseline at ``path`` knows, and how many entries of it match nothing any more.

    Only rules that are on (``codes``) can match. Raises ConfigError.
    """
    from wherelint.suppress.baseline import Baseline

    baseline = Baseline(path)
    reports = tuple(map(baseline.without_known, result.reports))
    return replace(result, reports=reports, known=baseline.known), baseline.stale(result.names, codes)


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
    result: Result, again: Callable[[FileReport, frozenset[FixKey]], FileReport], run: Callable[[Result], Result]
) -> Result:
    """The result without the fixes that ``run`` refutes, which confirms findings: it runs every fix before it counts.

    ``again`` checks the file of a report without some fixes.
    """
    refuted: dict[str, frozenset[FixKey]] = {}
    for _ in range(_MOST_REFUTED):
        fixed = tuple(FileReport(r.filename, r.fixed) for r in result.reports if r.fixed)
        failed = [
            f for f in run(replace(result, reports=fixed)).findings if f.confirmation and f.confirmation.refutes_fix
        ]
        if not failed:
            return result
        names = {finding.filename for finding in failed}
        for finding in failed:
            refuted[finding.filename] = refuted.get(finding.filename, frozenset()) | {finding.fix_key()}
        reports = tuple(again(r, refuted[r.filename]) if r.filename in names else r for r in result.reports)
        result = replace(result, reports=reports)
    why = "its fixes were refuted again and again under the framework; it was not changed"
    return unwritten(result, [Problem(name, why) for name in sorted(names)])


def _confirmed(finding: Finding) -> bool:
    return finding.confirmation is not None and finding.confirmation.verdict == "confirmed"
