"""The findings of a text that are shown: neither switched off, nor suppressed, nor below the level to show.

A cause is shown once, at its surest place. A comment there silences it; one at another of its places only that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wherelint.evidence.pieces import Level
from wherelint.finding import Finding

if TYPE_CHECKING:
    from wherelint.findings.analysis import Analysis


@dataclass(frozen=True)
class View:
    """What is seen in a text."""

    analysis: Analysis | None = None
    #: The findings that are neither switched off nor suppressed nor below the level to show, in order.
    shown: tuple[Finding, ...] = ()
    #: Why the text was not searched; empty if it was.
    skipped: str = ""
    #: What comments silence, each finding with the reason that its comment gives.
    silenced: tuple[Finding, ...] = ()


def view(
    analysis: Analysis,
    text: str,
    filename: str,
    codes: Collection[str],
    least: Level,
    *,
    noqa: bool = True,
) -> View:
    """What is seen of the findings of a text; without ``noqa`` also of those that comments silence."""
    from wherelint.suppress.noqa import find_suppressions, unused

    every = [finding for finding in analysis.findings if finding.code in codes]
    findings = together(finding for finding in every if finding.reaches(least))
    silenced: list[Finding] = []
    if noqa and (suppressions := find_suppressions(text)).comments:
        idle: Iterable[Finding] = ()
        if "WL001" in codes and analysis.used and not analysis.problems:
            idle = list(unused(text, filename, suppressions, every, codes, analysis.used[0]))
        said = [(finding, suppressions.covering(finding)) for finding in findings]
        silenced = [replace(finding, silenced=comment.reason) for finding, comment in said if comment is not None]
        heard = (f.only(lambda place: suppressions.covering(place) is None) for f, comment in said if comment is None)
        findings = [*(finding for finding in heard if finding is not None), *idle]
    shown, silent = (tuple(sorted(each, key=Finding.sort_key)) for each in (findings, silenced))
    return View(analysis, shown, silenced=silent)


def together(findings: Iterable[Finding]) -> list[Finding]:
    """One finding for each cause, at the surest of its places."""
    causes: dict[object, list[Finding]] = {}
    for finding in findings:
        causes.setdefault(id(finding) if finding.cause is None else finding.cause, []).append(finding)
    ranked = (sorted(places, key=lambda f: (-f.score, f.sort_key())) for places in causes.values())
    return [replace(places[0], also=tuple(places[1:])) for places in ranked]
