"""The findings of a snapshot in the words of the protocol: diagnostics, hovers and code actions."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lsprotocol import types
from pygls.capabilities import get_capability

from wherelint import rules
from wherelint.finding import Edit, Finding
from wherelint.report.common import Related, message_of, related
from wherelint.report.text import why_fixed, witness_sentence
from wherelint.server.snapshot import Buffer, Snapshot

SOURCE = "wherelint"
FIX_ALL = f"{types.CodeActionKind.SourceFixAll.value}.{SOURCE}"
_SEVERITIES = {"high": types.DiagnosticSeverity.Warning, "low": types.DiagnosticSeverity.Information}
_CAVEATS = {
    "safe": "",
    "unsafe": " (unsafe: look at the shapes)",
    "display": " (look at it: it changes values that are read)",
}
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~])")


def diagnostics(snapshot: Snapshot, cell: Buffer) -> list[types.Diagnostic]:
    """The findings in one cell of a snapshot that was checked."""
    return [diagnostic for _, home, diagnostic in _diagnostics(snapshot) if home is cell]


def hover(snapshot: Snapshot, uri: str, position: types.Position) -> types.Hover | None:
    """The findings at a position, with their witnesses and the documentation of their rules."""
    there = types.Range(position, position)
    found = [(i, d.range) for i, cell, d in _diagnostics(snapshot) if cell.uri == uri and _overlap(d.range, there)]
    if not found:
        return None
    text = "\n\n---\n\n".join(_explained(snapshot.report.findings[index]) for index, _ in found)
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text), found[0][1])


@dataclass(frozen=True)
class Editor:
    """What the editor takes."""

    capabilities: types.ClientCapabilities

    @property
    def resolves(self) -> bool:
        """Whether it asks for the edit of a code action when it is chosen."""
        support = get_capability(self.capabilities, "text_document.code_action.resolve_support")
        return support is not None and "edit" in support.properties

    @property
    def watches(self) -> bool:
        """Whether it tells of files that change, if it is asked to."""
        return bool(get_capability(self.capabilities, "workspace.did_change_watched_files.dynamic_registration"))

    def edit(self, snapshot: Snapshot, edits: Sequence[Edit]) -> types.WorkspaceEdit | None:
        """Some edits of the very text that the snapshot is of; None where there are none, or one spans two cells."""
        changes_by_uri: dict[str, list[types.TextEdit]] = {}
        versions = {cell.uri: cell.version for cell in snapshot.cells}
        for edit in edits:
            place = snapshot.locate(edit.location, edit.end_location)
            if place is None:
                return None
            cell, where = place
            changes_by_uri.setdefault(cell.uri, []).append(types.TextEdit(where, edit.content))
        if not changes_by_uri:
            return None
        if not get_capability(self.capabilities, "workspace.workspace_edit.document_changes"):
            return types.WorkspaceEdit(changes=changes_by_uri)
        changes = [
            types.TextDocumentEdit(types.OptionalVersionedTextDocumentIdentifier(uri, versions.get(uri)), those)
            for uri, those in changes_by_uri.items()
        ]
        return types.WorkspaceEdit(document_changes=changes)


def code_actions(snapshot: Snapshot, params: types.CodeActionParams, editor: Editor) -> list[types.CodeAction]:
    """What can be done about the findings in the request, and all at once."""
    actions: list[types.CodeAction] = []
    only = params.context.only
    if _wanted(types.CodeActionKind.QuickFix.value, only):
        for index, diagnostic in _requested(snapshot, params):
            actions += _quick_fixes(snapshot, index, diagnostic, editor)
    if only is not None and _wanted(FIX_ALL, only):
        if edit := editor.edit(snapshot, snapshot.fix_all):
            actions.append(_fix_all(edit=edit))
    elif only is None and editor.resolves and snapshot.report.findings:
        actions.append(_fix_all(data={"uri": params.text_document.uri}))
    return actions


def _quick_fixes(
    snapshot: Snapshot, index: int, diagnostic: types.Diagnostic, editor: Editor
) -> Iterator[types.CodeAction]:
    kind = types.CodeActionKind.QuickFix
    finding = snapshot.report.findings[index]
    code = finding.code
    fix, comment = snapshot.fix(index), snapshot.comment(index)
    if fix is not None and (edit := editor.edit(snapshot, fix.edits)):
        title = f"{code}: {why_fixed(finding, fix)}{_CAVEATS[fix.applicability]}"
        yield types.CodeAction(title, kind, [diagnostic], is_preferred=fix.applicability == "safe", edit=edit)
    if comment is not None and (edit := editor.edit(snapshot, [comment])):
        yield types.CodeAction(f"Silence {code} with # noqa", kind, [diagnostic], edit=edit)


def _fix_all(edit: types.WorkspaceEdit | None = None, data: dict[str, str] | None = None) -> types.CodeAction:
    return types.CodeAction("Fix all safe findings", FIX_ALL, edit=edit, data=data)


def _requested(snapshot: Snapshot, params: types.CodeActionParams) -> list[tuple[int, types.Diagnostic]]:
    """The findings whose diagnostics the request names; where these are older than the text, those in the range."""
    data = [diagnostic.data for diagnostic in params.context.diagnostics if diagnostic.source == SOURCE]
    meant = [one["finding"] for one in data if isinstance(one, dict) and one.get("snapshot") == snapshot.number]
    return [
        (index, diagnostic)
        for index, cell, diagnostic in _diagnostics(snapshot)
        if cell.uri == params.text_document.uri
        and (index in meant if meant else _overlap(diagnostic.range, params.range))
    ]


def _diagnostics(snapshot: Snapshot) -> Iterator[tuple[int, Buffer, types.Diagnostic]]:
    """The findings that lie within one cell, each with its number and its cell."""
    for index, finding in enumerate(snapshot.report.findings):
        if place := snapshot.locate(finding.location, finding.end_location):
            cell, where = place
            diagnostic = types.Diagnostic(where, message_of(finding), source=SOURCE, code=finding.code)
            diagnostic.severity = _SEVERITIES[finding.confidence]
            diagnostic.related_information = list(_related(snapshot, finding, cell))
            diagnostic.data = {"snapshot": snapshot.number, "finding": index}
            yield index, cell, diagnostic


def _related(snapshot: Snapshot, finding: Finding, home: Buffer) -> Iterator[types.DiagnosticRelatedInformation]:
    select = Related(
        finding.filename, finding.select.location, finding.select.end_location, f"the {finding.select.kind}"
    )
    for each in (select, *related(finding)):
        if each.rows is not None:
            file = _file(home, each.filename, each.location.row, each.rows)
            where = types.Range(file.position(each.location), file.position(each.end_location))
            yield types.DiagnosticRelatedInformation(types.Location(file.uri, where), each.message)
        elif place := snapshot.locate(each.location, each.end_location):
            cell, where = place
            yield types.DiagnosticRelatedInformation(types.Location(cell.uri, where), each.message)


def _file(home: Buffer, filename: str, row: int, rows: str) -> Buffer:
    """Some rows of another file, for places in them."""
    uri = Path(os.path.abspath(filename)).as_uri()
    return replace(home, uri=uri, text="\n" * (row - 1) + rows)


def _explained(finding: Finding) -> str:
    rule = rules.get(finding.code)
    low = " (low confidence)" if finding.confidence == "low" else ""
    parts = [f"**{finding.code}** `{finding.name}`{low}: {finding.message}"]
    if finding.witness is not None:
        parts.append("Witness: " + _MARKDOWN.sub(r"\\\1", witness_sentence(finding.witness)))
    return "\n\n".join([*parts, rule.doc])


def _overlap(a: types.Range, b: types.Range) -> bool:
    return a.start <= b.end and b.start <= a.end


def _wanted(kind: str, only: Iterable[str] | None) -> bool:
    """Whether a kind is one of those wanted, or lies below one."""
    return only is None or any(not wanted or f"{kind}.".startswith(wanted + ".") for wanted in only)
