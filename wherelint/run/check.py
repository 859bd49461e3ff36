"""A file to its report, in stages. No exception of one file reaches another.

    text -> View -> Applied -> findings -> FileReport

A ``View`` is what ``wherelint.findings`` finds in a text and no comment silences; ``Applied`` is the text after its
fixes, with the view of that. Where fixes are offered, each finding gets its fix, the program that shows it, and its
plot: all that any command shows of it.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import wherelint.findings
from wherelint import rules
from wherelint.defects import DEFECT, describe
from wherelint.evidence import pieces
from wherelint.finding import FileReport, Finding, Fix, FixKey, Location, Problem
from wherelint.frontend.options import Budget, DetectOptions
from wherelint.io.config import Settings, line_length
from wherelint.io.encoding import UndecodableError, decode, encode, parsed
from wherelint.io.files import FixMode, Target
from wherelint.suppress.view import View, view

if TYPE_CHECKING:
    from wherelint.findings.analysis import Analysis
    from wherelint.frontend.module import Project

TOO_DEEP = "too deeply nested to analyse"


def check_source(
    content: bytes,
    filename: str,
    settings: Settings,
    fix_mode: FixMode = "no",
    *,
    refuted: Mapping[FixKey, str] | None = None,
) -> FileReport:
    """Check, and perhaps fix, the bytes of one file. Nothing of it is imported or executed, and nothing is raised.

    ``refuted``: fixes that are not applied, and why.
    """
    return check(content, Target(filename, settings, fix_mode, refuted or {}))


def check(content: bytes, target: Target, projects: list[Project] | None = None) -> FileReport:
    """``check_source`` of a target; ``projects`` gets the projects that were looked at."""
    text, filename = "", target.name
    try:
        text, encoding = decode(content)
        with warnings.catch_warnings():
            # Python warns about invalid escapes while it parses; that is another tool's business.
            warnings.simplefilter("ignore")
            if not target.settings.codes_for(Path(os.path.abspath(filename))):
                return FileReport(filename)
            reports = [
                _rewritten(report, content, after, encoding) if report.fixed else report
                for report, after in _Stages(target, text, projects).report()
            ]
        return replace(reports[0], diff=next(iter(reports[1:]), None))
    except UndecodableError as error:
        return failed(filename, str(error), error.location)
    except (RecursionError, MemoryError):
        return failed(filename, TOO_DEEP)
    except Exception as error:
        # Only if it is the file that does not parse: the analysis may stumble over a piece of one that does.
        return (isinstance(error, SyntaxError) and _syntax_error(text, filename)) or failed(filename, describe(error))


def _rewritten(report: FileReport, before: bytes, text: str, encoding: str) -> FileReport:
    """The report with the bytes of the file before and after."""
    after = encode(text, encoding, before)
    if after is None:
        return failed(report.filename, f"cannot be rewritten in its encoding ({encoding})")
    return replace(report, before=before, after=after)


class Applied(NamedTuple):
    """A text after its fixes, what is seen in it, and the findings that were fixed."""

    text: str
    seen: View
    fixed: tuple[Finding, ...] = ()


class _Stages:
    """The stages of the check of one text."""

    def __init__(self, target: Target, text: str, projects: list[Project] | None) -> None:
        self._target, self._settings, self._projects = target, target.settings, projects
        self._path = Path(os.path.abspath(target.name))
        self._notebook = None
        if target.name.endswith(".ipynb"):
            from wherelint.io.notebook import Notebook

            self._notebook = Notebook(text, target.name)
        self._text = self._notebook.program if self._notebook else text
        self._codes = self._settings.codes_for(self._path)
        # Comments silence findings of any level. What is an error does not depend on whether warnings are shown.
        every = "WL001" in self._codes and "noqa" in self._text and "WL" in self._text
        least = pieces.least("note" if every or self._settings.level == "note" else "warning")
        said = self._settings.evidence_for(self._path)
        self._options = DetectOptions(self._settings.aliases, rules.previews(self._codes), least, said)

    def report(self) -> Iterator[tuple[FileReport, str]]:
        """The report on the text, and the text after the fixes; where these are offered and shown, then the diff."""
        if len(self._text) > Budget.characters:
            why = f"gave up on the file: it has more than {Budget.characters:,} characters"
            yield FileReport(self._target.name, problems=(Problem(self._target.name, why, error=False),)), self._text
            return
        before = Applied(self._text, self._look(self._text))
        applied = self._fix(before, self._look)
        findings, offers = self._annotate(applied)
        report, text = self._report(applied, findings)
        yield replace(report, offers=() if self._notebook else offers), text
        if self._target.only_shown and (diff := self._diff(before, offers)):
            yield self._report(diff, diff.seen.shown)

    def _diff(self, before: Applied, offers: Sequence[Fix | None]) -> Applied | None:
        """The text after the safe fixes that were offered; None without any, and where it takes more than one look."""
        if not any(fix and fix.edits and fix.applicability == "safe" for fix in offers):
            return None
        shown = {finding.sort_key(): fix for finding, fix in zip(before.seen.shown, offers, strict=True)}
        self._target, once = replace(self._target, fix_mode="safe", offers=shown), iter([self._look])
        with suppress(Exception):  # a defect is told where it is asked for
            return self._fix(before, lambda text: next(once)(text))
        return None

    def _look(self, text: str) -> View:
        """What is found in a text and shown of it."""
        analysis = wherelint.findings.analyse(text, self._target.name, self._options, self._projects)
        if isinstance(analysis, str):
            return View(skipped=analysis)
        analysis = analysis.with_evidence(*self._options.said) if self._options.said else analysis
        analysis = _in_cells(analysis, self._notebook.cells(text)) if self._notebook else analysis
        level, noqa = self._settings.level, not self._settings.ignore_noqa
        return view(analysis, text, self._target.name, self._codes, level, noqa=noqa)

    def _fix(self, before: Applied, look: Callable[[str], View]) -> Applied:
        """The fixes that may be applied, or the comments that silence findings."""
        mode = self._target.fix_mode
        if before.seen.shown and mode == "silence":
            text, fixed = _silenced(before.text, before.seen.shown)
            return Applied(text, look(text), fixed)
        if before.seen.shown and mode in ("safe", "unsafe"):
            from wherelint.confirm.snippet import with_snippets
            from wherelint.fix.apply import Allowed, fixpoint

            codes, width = self._settings.fixed_codes, line_length(self._path.parent)
            comment, refuted = self._settings.fix_comment, self._target.refuted
            allowed = Allowed(mode == "unsafe", refuted, with_snippets, width, codes, comment, self._target.offers)
            text, seen, fixed = fixpoint(before.text, before.seen, look, allowed)
            return Applied(text, seen, tuple(_with_causes(before.seen.shown, fixed)))
        return before

    def _annotate(self, applied: Applied) -> tuple[tuple[Finding, ...], tuple[Fix | None, ...]]:
        """The findings that are left, each with its fix, its program and its plot, unless nobody will see them.

        And the fixes as they were offered, before they were laid out.
        """
        shown, analysis, mode = applied.seen.shown, applied.seen.analysis, self._target.fix_mode
        offered: list[Fix | None] = []
        if not shown or analysis is None or mode in ("no", "silence") or (self._target.only_shown and mode != "offer"):
            return shown, ()
        if mode == "offer":
            from wherelint.fix import offered_for, work_budget

            codes, comment = self._settings.fixed_codes, self._settings.fix_comment
            offered = offered_for(analysis, shown, codes, work_budget(), comment=comment)
            shown = tuple(replace(finding, fix=fix) for finding, fix in zip(shown, offered, strict=True))
        if any(finding.fix is not None and finding.fix.edits for finding in shown):
            from wherelint.fix.layout import laid_out

            text, width = applied.text, line_length(self._path.parent)
            shown = tuple(replace(f, fix=f.fix and laid_out(text, f.fix, width)) for f in shown)
        from wherelint.confirm.plots import with_plot
        from wherelint.confirm.snippet import with_snippets

        return tuple(with_plot(analysis, with_snippets(analysis, finding)) for finding in shown), tuple(offered)

    def _report(self, applied: Applied, findings: tuple[Finding, ...]) -> tuple[FileReport, str]:
        name, (text, seen, fixed) = self._target.name, applied
        problems = tuple(seen.analysis.problems) if seen.analysis else ()
        if seen.skipped == "too many imports":
            why = "gave up on the file: it imports too many other files, or too large ones"
            problems = (Problem(name, why, error=False),)
        problems = (*problems, *_unfinished(findings), *self._unknown_directives(text))
        shown = text if findings or fixed else ""
        report = FileReport(name, findings, problems, shown, fixed, skipped=seen.skipped, silenced=seen.silenced)
        if self._notebook is None:
            return report, text
        return self._notebook.report(report), self._notebook.rewritten(text) if fixed else text

    def _unknown_directives(self, text: str) -> Iterator[Problem]:
        """Warnings about comments that silence nothing, since they are misspelt."""
        from wherelint.suppress.noqa import unknown_directives

        cells = self._notebook.cells(text) if self._notebook else ()
        for place, why in unknown_directives(text):
            yield Problem(self._target.name, why, place, error=False, cells=cells)


def _unfinished(findings: Sequence[Finding]) -> Iterator[Problem]:
    """A warning for each reason why fixes were not looked for to the end, and an error for each defect of ours."""
    refusals = Counter(f.fix.message for f in findings if f.fix is not None and not f.fix.offered)
    if not refusals:
        return
    from wherelint.fix.messages import GIVEN_UP

    for message, count in refusals.items():
        why = message.partition(": ")[2]
        if message.startswith(GIVEN_UP) or DEFECT in message:
            number = f"{count} of {len(findings)} finding{'s' * (len(findings) > 1)}"
            yield Problem(findings[0].filename, f"gave up on fixes for {number}: {why}", error=DEFECT in message)


def _with_causes(shown: Iterable[Finding], fixed: Iterable[Finding]) -> Iterator[Finding]:
    """The fixed findings; what was shown as a place of another one, and came up alone, has the cause of that."""
    from wherelint.fix.verify.findings import key

    left, causes = Counter(map(key, shown)), dict[object, int]()
    for index, finding in enumerate(fixed):
        cause = index if left[key(finding)] > 0 else causes.get(key(finding), index)
        left[key(finding)] -= 1
        causes |= dict.fromkeys(map(key, finding.also), cause)
        yield replace(finding, cause=cause)


def _silenced(text: str, findings: Iterable[Finding]) -> tuple[str, tuple[Finding, ...]]:
    """The text with a comment for every finding that one can silence, and these findings."""
    from wherelint.io.edits import Source
    from wherelint.suppress.noqa import silence

    silenced = []
    for finding in findings:
        edit = silence(text, finding) if finding.code != "WL001" else None
        if edit is not None:  # no row moves
            text = Source(text).edited([edit])
            silenced.append(finding)
    return text, tuple(silenced)


def _in_cells(analysis: Analysis, cells: tuple[int, ...]) -> Analysis:
    found = [(replace(finding, cells=cells), detection) for finding, detection in analysis.found]
    return replace(analysis, found=found, problems=[replace(problem, cells=cells) for problem in analysis.problems])


def _syntax_error(text: str, filename: str) -> FileReport | None:
    try:
        parsed(text)
    except SyntaxError as error:
        place = Location(error.lineno, max(error.offset or 1, 1)) if error.lineno else None
        why = f"does not parse as Python {sys.version_info[0]}.{sys.version_info[1]}: {error.msg}"
        return failed(filename, why, place)
    except (RecursionError, MemoryError, ValueError):
        pass
    return None


def failed(filename: str, message: str, location: Location | None = None) -> FileReport:
    """The report on a file that could not be checked."""
    return FileReport(filename, problems=(Problem(filename, message, location),))
