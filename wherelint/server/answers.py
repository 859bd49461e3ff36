"""The findings of a snapshot in the words of the protocol: diagnostics, hovers and code actions."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from lsprotocol import types

from wherelint import rules
from wherelint.finding import Edit, Finding
from wherelint.report.common import Related, a_level, message_of, related
from wherelint.report.text import witness_sentence
from wherelint.server.snapshot import Buffer, Snapshot

SOURCE = "wherelint"
FIX_ALL = f"{types.CodeActionKind.SourceFixAll.value}.{SOURCE}"
_FIX_ALL_TITLE = "Fix all safe findings"
_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Information,
}
_CAVEATS = {
    "safe": "",
    "unsafe": " (unsafe: check the shapes)",
    "display": " (it changes a value of the program)",
}
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~])")


def diagnostics(snapshot: Snapshot, cell: Buffer) -> list[types.Diagnostic]:
    """The findings in one cell of a snapshot that was checked, and why it cannot be read."""
    found = [diagnostic for _, home, diagnostic in _diagnostics(snapshot) if home is cell]
    for problem in snapshot.report.problems:
        place = snapshot.locate(problem.location, problem.location) if problem.error and problem.location else None
        if place is not None and place[0] is cell:
            severity = types.DiagnosticSeverity.Error
            found.append(types.Diagnostic(place[1], problem.message, source=SOURCE, severity=severity))
    return found


def hover(snapshot: Snapshot, uri: str, position: types.Position) -> types.Hover | None:
    """The findings at a position, with their witnesses and the documentation of their rules."""
    there = types.Range(position, position)
    found = [(i, d.range) for i, cell, d in _diagnostics(snapshot) if cell.uri == uri and _overlap(d.range, there)]
    if not found:
        return None
    text = "\n\n---\n\n".join(_explained(snapshot.report.findings[index], snapshot.change(index)) for index, _ in found)
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text), found[0][1])


def workspace_edit(snapshot: Snapshot, edits: Sequence[Edit]) -> types.WorkspaceEdit | None:
    """Some edits of the very text that the snapshot is of; None where there are none, or one spans two cells."""
    changes: dict[str, types.TextDocumentEdit] = {}
    for edit in edits:
        place = snapshot.locate(edit.location, edit.end_location)
        if place is None:
            return None
        cell, where = place
        document = types.OptionalVersionedTextDocumentIdentifier(cell.uri, cell.version)
        change = changes.setdefault(cell.uri, types.TextDocumentEdit(document, []))
        change.edits = [*change.edits, types.TextEdit(where, edit.content)]
    return types.WorkspaceEdit(document_changes=[*changes.values()]) if changes else None


def code_actions(snapshot: Snapshot, params: types.CodeActionParams) -> list[types.CodeAction]:
    """What can be done about the findings in a range, or about those whose diagnostics the editor names; fix all."""
    actions: list[types.CodeAction] = []
    only, uri = params.context.only, params.text_document.uri
    codes = {diagnostic.code for diagnostic in params.context.diagnostics if diagnostic.source == SOURCE}
    if _wanted(types.CodeActionKind.QuickFix.value, only):
        for index, cell, diagnostic in _diagnostics(snapshot):
            here = cell.uri == uri and _overlap(diagnostic.range, params.range)
            if here and (not codes or diagnostic.code in codes):
                actions += _quick_fixes(snapshot, index, diagnostic)
    if only is None and snapshot.report.findings:  # its edits are found when it is chosen
        actions.append(types.CodeAction(_FIX_ALL_TITLE, FIX_ALL, data={"uri": uri}))
    elif only is not None and _wanted(FIX_ALL, only) and (edit := workspace_edit(snapshot, snapshot.fix_all)):
        actions.append(types.CodeAction(_FIX_ALL_TITLE, FIX_ALL, edit=edit))
    return actions


def _quick_fixes(snapshot: Snapshot, index: int, diagnostic: types.Diagnostic) -> Iterator[types.CodeAction]:
    kind = types.CodeActionKind.QuickFix
    finding = snapshot.report.findings[index]
    fix, comment = snapshot.fix(index), snapshot.comment(index)
    if fix is not None and (edit := workspace_edit(snapshot, fix.edits)):
        title = f"Fix {finding.code}: {fix.message}{_CAVEATS[fix.applicability]}"
        yield types.CodeAction(title, kind, [diagnostic], is_preferred=fix.applicability == "safe", edit=edit)
    if comment is not None and (edit := workspace_edit(snapshot, [comment])):
        yield types.CodeAction(f"Silence {finding.code} with # noqa", kind, [diagnostic], edit=edit)
    said = snapshot.not_differentiated(index)
    if said is not None and (edit := workspace_edit(snapshot, [said])):
        title = f"Nobody differentiates {finding.function.rpartition('.')[2]}"
        yield types.CodeAction(title, kind, [diagnostic], edit=edit)


def _diagnostics(snapshot: Snapshot) -> Iterator[tuple[int, Buffer, types.Diagnostic]]:
    """The findings that lie within one cell, each with its number and its cell."""
    for index, finding in enumerate(snapshot.report.findings):
        if place := snapshot.locate(finding.location, finding.end_location):
            cell, where = place
            diagnostic = types.Diagnostic(where, message_of(finding), source=SOURCE, code=finding.code)
            diagnostic.code_description = types.CodeDescription(rules.url(finding.code))
            diagnostic.severity = _SEVERITIES[finding.level]
            diagnostic.related_information = list(_related(snapshot, finding, cell))
            yield index, cell, diagnostic


def _related(snapshot: Snapshot, finding: Finding, home: Buffer) -> Iterator[types.DiagnosticRelatedInformation]:
    select = finding.select
    here = Related(finding.filename, select.location, select.end_location, f"the {select.kind}")
    for each in (here, *related(finding)):
        if each.rows is not None:
            uri = Path(os.path.abspath(each.filename)).as_uri()
            file = replace(home, uri=uri, text="\n" * (each.location.row - 1) + each.rows)
            where = types.Range(file.position(each.location), file.position(each.end_location))
            yield types.DiagnosticRelatedInformation(types.Location(file.uri, where), each.message)
        elif place := snapshot.locate(each.location, each.end_location):
            cell, where = place
            yield types.DiagnosticRelatedInformation(types.Location(cell.uri, where), each.message)


def _explained(finding: Finding, change: str) -> str:
    rule = rules.get(finding.code)
    parts = [f"{finding.level}: **{finding.code}** `{finding.name}`: {finding.message}"]
    if finding.witness is not None:
        parts.append("Witness: " + _MARKDOWN.sub(r"\\\1", witness_sentence(finding.witness)))
    if finding.why:
        parts.append(f"Why {a_level(finding.level)}: {finding.why}")
    parts += [f"```diff\n{change}\n```"] if change else []
    return "\n\n".join([*parts, rule.doc])


def _overlap(a: types.Range, b: types.Range) -> bool:
    return a.start <= b.end and b.start <= a.end


def _wanted(kind: str, only: Iterable[str] | None) -> bool:
    """Whether a kind is one of those wanted, or lies below one."""
    return only is None or any(not wanted or f"{kind}.".startswith(wanted + ".") for wanted in only)
