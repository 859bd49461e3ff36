"""Fixes whose edits lie in another file than their finding: made once every file has those of its own.

Each is looked for again in the texts as they are by then, so that it is proven for these, and the files that it
concerns are checked again after it. A file that was not to be checked is left alone.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from wherelint.finding import FileReport, Finding, FixKey
from wherelint.fix.refusals import refused
from wherelint.frontend.sources import reading
from wherelint.io.disk import contents
from wherelint.io.edits import Source
from wherelint.io.encoding import UndecodableError, decode, encode
from wherelint.run.check import tidied
from wherelint.run.result import Result

#: How many such fixes one file may need.
_MOST = 20
#: Checks the bytes of a file, and makes the fixes that lie in it or offers them.
Check = Callable[[str, bytes], FileReport]


def fixed_elsewhere(
    result: Result, check: Check, *, unsafe: bool, against: Callable[[Finding], str] = lambda finding: ""
) -> Result:
    """The result with every fix that lies in another of its files. ``against``: why one is not to be made, if so."""
    files = _Files(result, check)
    for _ in range(_MOST):
        before = files.state
        for path in [*files.reports]:
            files.fix(path, ("safe", "unsafe")[: 1 + unsafe], against)
        if files.state == before:
            break
    known = {report.filename for report in result.reports}
    more = [report for name, report in files.reports.items() if report.filename not in known and report.fixed]
    order = {name: i for i, name in enumerate(result.names)}
    reports = [*(files.reports[os.path.realpath(r.filename)] for r in result.reports), *more]
    return replace(result, reports=tuple(sorted(reports, key=lambda r: order.get(r.filename, -1))))


class _Files:
    """The files of a result, as they are by now."""

    def __init__(self, result: Result, check: Check) -> None:
        self._check = check
        self.reports = {os.path.realpath(name): FileReport(name) for name in result.names}
        self.reports |= {os.path.realpath(report.filename): report for report in result.reports}
        #: What had changed when each file was checked.
        self._seen: dict[str, frozenset[tuple[str, bytes]]] = {}
        self._refused: dict[str, dict[FixKey, str]] = {}

    @property
    def state(self) -> frozenset[tuple[str, bytes]]:
        """The files that were changed, and their contents."""
        return frozenset((path, report.after) for path, report in self.reports.items() if report.fixed)

    def fix(self, path: str, allowed: tuple[str, ...], against: Callable[[Finding], str]) -> None:
        """Make the fixes for a file that lie in another one."""
        for _ in range(_MOST):
            if not any(finding.elsewhere for finding in self.reports[path].findings):
                return
            if self.state != self._seen.get(path, frozenset()):
                self._again(path)  # what was changed may have removed a finding, or moved its rows
            if (chosen := self._next(path, allowed)) is None:
                return
            if why := against(chosen) or self._made(chosen):
                self._refused.setdefault(path, {})[chosen.fix_key()] = why
                self._again(path)

    def _next(self, path: str, allowed: tuple[str, ...]) -> Finding | None:
        """A finding of a file whose fix lies in other ones, all of them at hand."""
        for finding in self.reports[path].findings:
            fix, homes = finding.fix, _homes(finding)
            at_hand = bool(homes) and homes <= self.reports.keys()
            if fix is not None and at_hand and not fix.edits and fix.applicability in allowed:
                return finding
        return None

    def _made(self, finding: Finding) -> str:
        """Make a fix; why it cannot be made, if so."""
        made: dict[str, FileReport] = {}
        for other in finding.fix.elsewhere if finding.fix is not None else ():
            path = os.path.realpath(other.filename)
            report = self.reports[path]
            try:
                content = self._content(path)
                text, encoding = decode(content)
            except (OSError, UndecodableError):
                return "the other file cannot be read any more"
            edits, source = list(other.edits), Source(text)
            if "\r\n" in text:
                edits = [replace(edit, content=edit.content.replace("\n", "\r\n")) for edit in edits]
            last = max(edit.end_location.row for edit in edits)
            rows = io.StringIO("".join(source.lines[other.row - 1 : last]), newline=None).read()
            if not source.fit(edits) or rows != other.rows:
                return "the other file was changed meanwhile, or is in another encoding than UTF-8"
            new = tidied(Path(path), False)(text, source.edited(edits))
            after = encode(new, encoding, content)
            if after is None:
                return f"the other file cannot be rewritten in its encoding ({encoding})"
            made[path] = replace(
                report, fixed=(*report.fixed, finding), before=report.before if report.fixed else content, after=after
            )
        self.reports |= made
        for path in made:
            self._checked(path)
        return ""

    def _again(self, path: str) -> None:
        """Check a file again that was not changed since; what is gone was fixed with another."""
        before = self.reports[path].findings
        try:
            left = {finding.sort_key() for finding in self._checked(path)}
        except (OSError, UndecodableError):
            return  # it is reported as it was
        counted = {id(finding) for report in self.reports.values() for finding in report.fixed}
        for finding in before:
            if finding.sort_key() not in left and id(finding) not in counted:
                for home in _homes(finding) & {each for each, report in self.reports.items() if report.fixed}:
                    report = self.reports[home]
                    self.reports[home] = replace(report, fixed=(*report.fixed, finding))

    def _checked(self, path: str) -> tuple[Finding, ...]:
        """Check a file among the others as they are by now, and fix what can be fixed in it now."""
        report, refusals, content = self.reports[path], self._refused.get(path, {}), self._content(path)
        with reading(self._texts()):
            now = self._check(report.filename, content)
        findings = tuple(
            replace(finding, fix=refused(why)) if (why := refusals.get(finding.fix_key())) else finding
            for finding in now.findings
        )
        fixed, before = (*report.fixed, *now.fixed), report.before if report.fixed else content
        after = now.after if now.fixed else report.after
        self.reports[path] = replace(now, findings=findings, fixed=fixed, before=before if fixed else b"", after=after)
        self._seen[path] = self.state
        return findings

    def _texts(self) -> dict[str, str]:
        """What the files say that were changed."""
        return {path: io.StringIO(decode(content)[0], newline=None).read() for path, content in self.state}

    def _content(self, path: str) -> bytes:
        report = self.reports[path]
        return report.after if report.fixed else contents(Path(path))


def _homes(finding: Finding) -> set[str]:
    """The paths of the other files that a fix changes."""
    return {os.path.realpath(other.filename) for other in finding.fix.elsewhere} if finding.fix is not None else set()
