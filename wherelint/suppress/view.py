"""The findings of a text that are shown: neither switched off, nor suppressed, nor of too low a confidence."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wherelint.finding import Finding, Least

if TYPE_CHECKING:
    from wherelint.analysis.findings import Analysis


@dataclass(frozen=True)
class View:
    """What is seen in a text."""

    analysis: Analysis | None = None
    #: The findings that are neither switched off nor suppressed nor of too low a confidence, in order.
    shown: tuple[Finding, ...] = ()
    #: Why the text was not searched; empty if it was.
    skipped: str = ""


def view(
    analysis: Analysis, text: str, filename: str, codes: Collection[str], least: Least, *, noqa: bool = True
) -> View:
    """What is seen of the findings of a text; without ``noqa`` also of those that comments silence."""
    from wherelint.suppress.noqa import find_suppressions

    findings = [finding for finding in analysis.findings if finding.code in codes]
    if suppressions := noqa and find_suppressions(text):
        idle: Iterable[Finding] = ()
        if "WL001" in codes and suppressions.comments and analysis.used and not analysis.problems:
            from wherelint.suppress.unused import unused

            idle = list(unused(text, filename, suppressions, findings, codes, analysis.used[0]))
        findings = [*(finding for finding in findings if not suppressions.cover(finding)), *idle]
    shown = (finding for finding in findings if finding.reaches(least))
    return View(analysis, tuple(sorted(shown, key=Finding.sort_key)))
