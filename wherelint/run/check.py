"""A file to its report. No exception of one file reaches another."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import wherelint.analysis
from wherelint import rules, score
from wherelint.defects import DEFECT, describe
from wherelint.finding import FileReport, Finding, FixKey, Location, Problem
from wherelint.frontend.options import Budget, DetectOptions
from wherelint.io.config import Settings
from wherelint.io.encoding import UndecodableError, decode, encode, parsed
from wherelint.io.files import FixMode, Target
from wherelint.io.formatter import formatted, line_length
from wherelint.suppress.view import View, view

if TYPE_CHECKING:
    from wherelint.analysis.findings import Analysis
    from wherelint.frontend.module import Project

TOO_DEEP = "too deeply nested to analyse"
#: Type parameters, of Python 3.12: what is written today and does not parse under what many still run.
_LATER = re.compile(r"\s*((async\s+)?def|class)\s+\w+\s*\[|\s*type\s+\w+\s*(\[.*\]\s*)?=[^=]")


def check_source(
    content: bytes,
    filename: str,
    settings: Settings,
    fix_mode: FixMode = "no",
    *,
    snippets: bool = False,
    plots: bool = False,
    refuted: Mapping[FixKey, str] | None = None,
    around: list[Project] | None = None,
) -> FileReport:
    """Check, and perhaps fix, the bytes of one file. Nothing of it is imported or executed, and nothing is raised.

    ``snippets``, ``plots``: each finding comes with the program that shows it, with its plot. ``refuted``: fixes that
    are not applied, and why. ``around`` gets the projects that were looked at.
    """
    text = ""
    try:
        text, encoding = decode(content)
        target = Target(filename, settings, fix_mode, snippets, plots, refuted or {})
        with warnings.catch_warnings():
            # Python warns about invalid escapes while it parses; that is another tool's business.
            warnings.simplefilter("ignore")
            report, after = _check_text(text, target, around)
        if not report.fixed:
            return report
        repaired = encode(after, encoding, content)
        if repaired is None:
            return failed(filename, f"cannot be rewritten in its encoding ({encoding})")
        return replace(report, before=content, after=repaired)
    except UndecodableError as error:
        return failed(filename, str(error), error.location)
    except (RecursionError, MemoryError):
        return failed(filename, TOO_DEEP)
    except Exception as error:
        # Only if it is the file that does not parse: the analysis may stumble over a piece of one that does.
        return (isinstance(error, SyntaxError) and _syntax_error(text, filename)) or failed(filename, describe(error))


def _check_text(text: str, target: Target, around: list[Project] | None) -> tuple[FileReport, str]:
    """The report on a text, and the text after the fixes."""
    filename, settings, fix_mode = target.name, target.settings, target.fix_mode
    path = Path(os.path.abspath(filename))
    codes = settings.codes_for(path)
    if not codes:
        return FileReport(filename), text
    notebook = None
    if filename.endswith(".ipynb"):
        from wherelint.io.notebook import Notebook

        notebook = Notebook(text, filename)
        text = notebook.program
    if len(text) > Budget.characters:
        why = f"gave up on the file: it has more than {Budget.characters:,} characters"
        return FileReport(filename, problems=(Problem(filename, why, error=False),)), text
    said = settings.evidence_for(path)
    every = "WL001" in codes and "noqa" in text and "WL" in text  # a comment silences findings of any confidence
    judged = settings.judged_for(path) if every else codes
    least = 0.0 if every else score.least(settings.confidence)
    options = DetectOptions(settings.aliases, rules.previews(judged), least, said)

    def analysed(text: str) -> View:
        made = wherelint.analysis.analyse(text, filename, options, around)
        if isinstance(made, str):
            return View(skipped=made)
        made = made.with_evidence(*said) if said else made
        made = _in_cells(made, notebook.cells(text)) if notebook else made
        return view(made, text, filename, codes, judged, settings.confidence, noqa=not settings.ignore_noqa)

    seen = analysed(text)
    snippet: Callable[[Analysis, Finding], Finding] | None = None
    if target.snippets and seen.shown:
        from wherelint.confirm.snippet import with_snippets as snippet
    fixed: tuple[Finding, ...] = ()
    if seen.shown and fix_mode in ("safe", "unsafe"):
        from wherelint.fix.rounds import Allowed, fixpoint

        tidy = tidied(path, notebook is not None)
        allowed = Allowed(
            fix_mode == "unsafe", target.refuted, snippet, tidy, settings.fixed_codes, settings.fix_comment
        )
        text, seen, fixed = fixpoint(text, seen, analysed, allowed)
    if seen.shown and fix_mode == "silence":
        text, fixed = _silenced(text, seen.shown)
        seen = analysed(text)
    shown = seen.shown
    if shown and fix_mode == "offer" and seen.analysis is not None:
        from wherelint.fix import offered_for, work_budget

        offered = offered_for(seen.analysis, shown, settings.fixed_codes, work_budget(), comment=settings.fix_comment)
        shown = tuple(replace(finding, fix=fix) for finding, fix in zip(shown, offered, strict=True))
    if any(finding.fix is not None and finding.fix.edits for finding in shown):
        from wherelint.fix.layout import laid_out

        width = line_length(path, text)
        shown = tuple(replace(f, fix=laid_out(text, f.fix, width) if f.fix is not None else None) for f in shown)
    if shown and snippet is not None and seen.analysis is not None:
        shown = tuple(snippet(seen.analysis, finding) for finding in shown)
    if shown and target.plots and seen.analysis is not None:
        from wherelint.confirm.plots import with_plot

        shown = tuple(with_plot(seen.analysis, finding) for finding in shown)
    problems = tuple(seen.analysis.problems) if seen.analysis else ()
    if seen.skipped == "too many imports":
        why = "gave up on the file: it imports too many other files, or too large ones"
        problems = (Problem(filename, why, error=False),)
    problems = (*problems, *_given_up(shown))
    report = FileReport(filename, shown, problems, text if shown or fixed else "", fixed, skipped=seen.skipped)
    if notebook is None:
        return report, text
    return notebook.report(report), notebook.rewritten(text) if fixed else text


def tidied(path: Path, is_notebook: bool) -> Callable[[str, str], str]:
    """Breaks the lines of a changed text as the formatter of its project does, or at the length that this has."""
    from wherelint.fix.layout import wrapped

    def tidy(before: str, after: str) -> str:
        new = None if is_notebook else formatted(before, after, path)
        return wrapped(before, after, line_length(path, before)) if new is None else new

    return tidy


def _given_up(findings: Sequence[Finding]) -> Iterator[Problem]:
    """A warning for each reason why fixes were not looked for to the end, and an error for each defect of ours."""
    refusals = Counter(f.fix.message for f in findings if f.fix is not None and not f.fix.offered)
    if not refusals:
        return
    from wherelint.fix.refusals import GIVEN_UP

    for message, count in refusals.items():
        why = message.partition(": ")[2]
        if message.startswith(GIVEN_UP) or DEFECT in message:
            number = f"{count} of {len(findings)} finding{'s' * (len(findings) > 1)}"
            yield Problem(findings[0].filename, f"gave up on fixes for {number}: {why}", error=DEFECT in message)


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
        version = ".".join(map(str, sys.version_info[:2]))
        why = f"does not parse as Python {version}: {error.msg}"
        if sys.version_info < (3, 12) and _LATER.match(error.text or ""):
            why = f"is written for a later Python than {version}; run wherelint with the one that the project uses"
        return failed(filename, why, place)
    except (RecursionError, MemoryError, ValueError):
        pass
    return None


def failed(filename: str, message: str, location: Location | None = None) -> FileReport:
    """The report on a file that could not be checked."""
    return FileReport(filename, problems=(Problem(filename, message, location),))
