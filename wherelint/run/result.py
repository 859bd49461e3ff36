"""What a run found, and the same without what a framework refutes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from wherelint.finding import FileReport, Finding, FixKey, Problem

#: How often the fixes of a file are looked for again because a run refuted some.
_MOST_REFUTED = 5


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
    #: Whether a baseline has something that is found no more.
    outlived: bool = False
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

    def render(self, style: str) -> str:
        """The report in a format of ``--output-format``, by its name; KeyError for ``full``, ``concise`` and others."""
        from wherelint import rules
        from wherelint.report.formats import FORMATS
        from wherelint.version import __version__

        texts = {report.filename: report.text for report in self.reports}
        return FORMATS[style](self.findings, self.problems, rules.RULES, __version__, texts)

    @property
    def silenced(self) -> tuple[Finding, ...]:
        """The findings that comments silence."""
        return tuple(finding for report in self.reports for finding in report.silenced)

    @property
    def hidden(self) -> int:
        """How many findings were left out because they ran without gradients."""
        return sum(report.hidden for report in self.reports)


def add_problems(result: Result, problems: Sequence[Problem]) -> Result:
    """The result with problems that arose before any file was opened."""
    early = tuple(FileReport(problem.filename, problems=(problem,)) for problem in problems)
    missing = len({problem.filename for problem in problems if problem.error})
    return replace(result, reports=(*early, *result.reports), total=result.total + missing)


def unwritten(result: Result, problems: Sequence[Problem]) -> Result:
    """The result where some fixed files could not be written."""
    failed = {problem.filename: problem for problem in problems}
    reports = [
        replace(r, fixed=(), problems=(*r.problems, failed[r.filename])) if r.filename in failed else r
        for r in result.reports
    ]
    return replace(result, reports=tuple(reports))


def confirm_result(
    result: Result,
    device: str,
    *,
    only: bool = False,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[Result, list[str]]:
    """The result with a confirmation of every finding, and why a framework could not be run.

    ``only``: without the findings that were not confirmed.
    """
    from wherelint.confirm import confirm

    confirmed, problems = confirm(result.findings, device, progress=progress)
    rest = iter(confirmed)
    reports = tuple(replace(r, findings=tuple(next(rest) for _ in r.findings)) for r in result.reports)
    if not only:
        return replace(result, reports=reports), problems
    reports = tuple(replace(r, findings=tuple(f for f in r.findings if _is_confirmed(f))) for r in reports)
    return replace(result, reports=reports, unconfirmed=sum(not _is_confirmed(f) for f in confirmed)), problems


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
    why = "not written: the framework refuted the fixes each time"
    return unwritten(result, [Problem(name, why) for name in sorted(names)])


def _is_confirmed(finding: Finding) -> bool:
    return finding.confirmation is not None and finding.confirmation.verdict == "confirmed"
