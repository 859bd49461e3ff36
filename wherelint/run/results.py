"""What a run found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from wherelint.finding import FileReport, Finding, Problem


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
        """How many findings were left out because they ran without gradients."""
        return sum(report.hidden for report in self.reports)


def add_problems(result: Result, problems: Sequence[Problem]) -> Result:
    """The result with problems that arose before any file was opened."""
    early = tuple(FileReport(problem.filename, problems=(problem,)) for problem in problems)
    missing = len({problem.filename for problem in problems if problem.error})
    return replace(result, reports=(*early, *result.reports), total=result.total + missing)


def unwritten(result: Result, problems: Sequence[Problem]) -> Result:
    """The result where some fixed files could not be written: the fixes that lie there do not count."""
    failed = {problem.filename: problem for problem in problems}
    stay = [f for r in result.reports if r.filename in failed for f in r.fixed if f.filename != r.filename]
    reports = []
    for report in result.reports:
        if report.filename in failed:
            report = replace(report, fixed=(), problems=(*report.problems, failed[report.filename]))
        own = [finding for finding in stay if finding.filename == report.filename]
        findings = sorted((*report.findings, *own), key=Finding.sort_key) if own else report.findings
        reports.append(replace(report, findings=tuple(findings)))
    return replace(result, reports=tuple(reports))
