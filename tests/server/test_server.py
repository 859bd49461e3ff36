"""The language server, as an editor sees it: over stdio, with the client of pygls."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from conftest import SAFE, UNSAFE, environment, write
from hypothesis import given
from hypothesis import strategies as st

from wherelint import rules
from wherelint.evidence.pieces import LEVELS
from wherelint.finding import Location
from wherelint.io.config import Settings
from wherelint.io.edits import Source
from wherelint.run.check import check_source

pytest.importorskip("pygls.lsp.client")

from cattrs import Converter
from lsprotocol import types
from pygls.lsp.client import LanguageClient
from pygls.protocol import default_converter
from pygls.workspace import PositionCodec

from wherelint.server.answers import diagnostics
from wherelint.server.snapshot import Buffer, Snapshot
from wherelint.suppress.noqa import silence

Result = TypeVar("Result")
COMMAND = "import sys; from wherelint.server import main; sys.exit(main())"
PATIENCE = 120.0
FIXED = UNSAFE.replace("jnp.sqrt(x)", "jnp.sqrt(jnp.where(x > 0, x, 1.0))")
#: A reduction lies between mask and operand.
LOOK = """\
import jax.numpy as jnp


def f(x):
    return jnp.where(x.sum() > 0, jnp.sum(jnp.sqrt(x)), 0.0)
"""
BOTH = UNSAFE + UNSAFE[26:].replace("def f", "def g").replace("sqrt", "log")
#: What the server is to do first: to check some texts slowly.
SLOW = """
import time
from wherelint.server import snapshot
def slowly(content, *rest, check=snapshot.check_source):
    time.sleep(2 * (b"slow" in content))
    print("something that is no message")
    return check(content, *rest)
snapshot.check_source = slowly
"""


def fix_of(actions: dict[str, types.CodeAction]) -> types.CodeAction:
    """The fix of WL101 among some actions."""
    (title,) = (title for title in actions if title.startswith("Fix WL101: mask the operand"))
    return actions[title]


class Editor:
    """An editor with open documents, whose texts it changes as it is told to."""

    def __init__(
        self, root: Path, encodings: list[str] | None = None, *, before: str = "", **capabilities: Any
    ) -> None:
        self.root = root
        self.loop = asyncio.new_event_loop()
        self.texts: dict[str, str] = {}
        self.versions: dict[str, int] = {}
        self.published: dict[str, list[types.PublishDiagnosticsParams]] = {}
        self.messages: list[str] = []
        self.logged: list[str] = []
        self.registered: list[types.Registration] = []
        self.client = LanguageClient("editor", "1", converter_factory=converter)
        self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(
            lambda params: self.published.setdefault(params.uri, []).append(params)
        )
        self.client.feature(types.WINDOW_SHOW_MESSAGE)(lambda params: self.messages.append(params.message))
        self.client.feature(types.WINDOW_LOG_MESSAGE)(lambda params: self.logged.append(params.message))
        self.client.feature(types.CLIENT_REGISTER_CAPABILITY)(
            lambda params: self.registered.extend(params.registrations)
        )
        self.run(self.client.start_io(sys.executable, "-c", before + COMMAND, env=environment(), cwd=root))
        general = types.GeneralClientCapabilities(position_encodings=encodings)
        initialize = types.InitializeParams(
            types.ClientCapabilities(general=general, **(capabilities or modern())),
            workspace_folders=[types.WorkspaceFolder(root.as_uri(), root.name)],
        )
        self.capabilities = self.run(self.client.initialize_async(initialize)).capabilities
        self.codec = PositionCodec(self.capabilities.position_encoding)
        self.client.initialized(types.InitializedParams())

    def run(self, what: Coroutine[Any, Any, Result]) -> Result:
        return self.loop.run_until_complete(asyncio.wait_for(what, PATIENCE))

    def until(self, condition: Any) -> None:
        async def wait() -> None:
            while not condition():
                await asyncio.sleep(0.005)

        self.run(wait())

    def leave(self, *, politely: bool = True) -> int | None:
        """The exit status of the server after it was told to go."""
        if politely:
            self.run(self.client.shutdown_async(None))
        self.client.exit(None)
        self.run(self.client.stop())
        process = self.client._server
        assert process is not None
        self.loop.close()
        return process.returncode

    def open(self, name: str, text: str, language: str = "python") -> str:
        uri = name if ":" in name else (self.root / name).as_uri()
        self.texts[uri], self.versions[uri] = text, 1
        item = types.TextDocumentItem(uri, language, 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return uri

    def write(self, uri: str, text: str) -> None:
        """Change the whole text."""
        self._change(uri, text, types.TextDocumentContentChangeWholeDocument(text))

    def replace(self, uri: str, old: str, new: str) -> None:
        """Change the first of some words."""
        before = self.texts[uri]
        start = before.index(old)
        where = types.Range(self.position(uri, start), self.position(uri, start + len(old)))
        text = before[:start] + new + before[start + len(old) :]
        self._change(uri, text, types.TextDocumentContentChangePartial(where, new))

    def _change(self, uri: str, text: str, change: types.TextDocumentContentChangeEvent) -> None:
        self.texts[uri] = text
        self.versions[uri] += 1
        document = types.VersionedTextDocumentIdentifier(uri=uri, version=self.versions[uri])
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))

    def save(self, uri: str) -> None:
        self.client.text_document_did_save(types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(uri)))

    def close(self, uri: str) -> None:
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))

    def position(self, uri: str, offset: int) -> types.Position:
        lines = re.split(r"\r\n|\r|\n", self.texts[uri][:offset])
        return types.Position(len(lines) - 1, self.codec.client_num_units(lines[-1]))

    def offset(self, uri: str, position: types.Position) -> int:
        return max(i for i in range(len(self.texts[uri]) + 1) if self.position(uri, i) == position)

    def diagnostics(self, uri: str) -> list[types.Diagnostic]:
        """What is said of the text as it is now."""
        self.until(lambda: any(p.version == self.versions[uri] for p in self.published.get(uri, ())))
        return list(self.published[uri][-1].diagnostics)

    def text_of(self, uri: str, where: types.Range) -> str:
        return self.texts[uri][self.offset(uri, where.start) : self.offset(uri, where.end)]

    def hover(self, uri: str, word: str) -> types.Hover | None:
        where = self.position(uri, self.texts[uri].index(word))
        return self.run(self.client.text_document_hover_async(
            types.HoverParams(types.TextDocumentIdentifier(uri), where)
        ))  # fmt: skip

    def actions(self, uri: str, word: str = "sqrt", **context: Any) -> dict[str, types.CodeAction]:
        """The code actions by title, at a word."""
        where = self.position(uri, self.texts[uri].index(word))
        asked = types.CodeActionContext(context.pop("diagnostics", []), **context)
        params = types.CodeActionParams(types.TextDocumentIdentifier(uri), types.Range(where, where), asked)
        found = self.run(self.client.text_document_code_action_async(params))
        return {action.title: action for action in found or () if isinstance(action, types.CodeAction)}

    def apply(self, action: types.CodeAction) -> None:
        """Make the edits of a code action, each of the version that it is for, and tell the server."""
        assert action.edit is not None
        for change in action.edit.document_changes or ():
            assert isinstance(change, types.TextDocumentEdit)
            uri = change.text_document.uri
            assert change.text_document.version == self.versions[uri]
            self.write(uri, self.edited(change))

    def edited(self, change: types.TextDocumentEdit) -> str:
        """A text after some edits, of which no two touch each other."""
        uri = change.text_document.uri
        text = self.texts[uri]
        for edit in sorted(change.edits, key=lambda e: e.range.start, reverse=True):
            assert isinstance(edit, types.TextEdit)
            start, end = self.offset(uri, edit.range.start), self.offset(uri, edit.range.end)
            text = text[:start] + edit.new_text + text[end:]
        return text


def converter() -> Converter:
    """lsprotocol's, which cannot read what a server says about notebooks."""
    made = default_converter()
    made.register_structure_hook(types.NotebookDocumentSyncOptions, lambda data, _: data)
    return made


def modern() -> dict[str, Any]:
    """What the editors of today can do."""
    resolve = types.ClientCodeActionResolveOptions(properties=["edit"])
    return {
        "text_document": types.TextDocumentClientCapabilities(
            code_action=types.CodeActionClientCapabilities(data_support=True, resolve_support=resolve)
        ),
        "workspace": types.WorkspaceClientCapabilities(
            workspace_edit=types.WorkspaceEditClientCapabilities(document_changes=True),
            did_change_watched_files=types.DidChangeWatchedFilesClientCapabilities(dynamic_registration=True),
        ),
        "notebook_document": types.NotebookDocumentClientCapabilities(types.NotebookDocumentSyncClientCapabilities()),
    }


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    editor = Editor(tmp_path_factory.mktemp("project"))
    yield editor
    assert editor.leave() == 0


@pytest.fixture
def editor(shared: Editor) -> Iterator[Editor]:
    """An editor whose server outlives the test, without open documents."""
    yield shared
    for uri in shared.texts:
        shared.close(uri)
    shared.hover(shared.open("last.py", SAFE), "def")  # once this is answered, everything before it was dealt with
    shared.close((shared.root / "last.py").as_uri())
    for kept in (shared.texts, shared.versions, shared.published, shared.messages, shared.logged):
        kept.clear()


def codes(diagnostics: Sequence[types.Diagnostic]) -> list[object]:
    return [diagnostic.code for diagnostic in diagnostics]


class TestDiagnostics:
    def test_what_stands_in_another_file_is_related(self, editor: Editor) -> None:
        helper = "import jax.numpy as jnp\n\n\ndef root(x):\n    return '\N{SNAKE}' and jnp.sqrt(x)\n"
        (editor.root / "helper.py").write_text(helper, "utf-8")
        uri = editor.open("a.py", "from helper import root\n" + UNSAFE.replace("jnp.sqrt(x)", "root(x)"))
        (found,) = editor.diagnostics(uri)
        assert editor.text_of(uri, found.range) == "root(x)"
        _, place = found.related_information or ()
        assert place.location.uri == (editor.root / "helper.py").as_uri()
        assert place.location.range == types.Range(types.Position(4, 20), types.Position(4, 31))  # UTF-16
        assert place.message == "the sqrt"

    def test_a_finding_comes_and_goes(self, editor: Editor) -> None:
        uri = editor.open("a.py", UNSAFE)
        (found,) = editor.diagnostics(uri)
        assert (found.code, found.source, found.severity) == ("WL101", "wherelint", types.DiagnosticSeverity.Error)
        assert found.message.startswith("gradient is nan for sqrt at 0 or below")
        assert editor.text_of(uri, found.range) == "jnp.sqrt(x)"
        (selection,) = found.related_information or ()
        assert (selection.message, selection.location.uri) == ("the where", uri)
        assert editor.text_of(uri, selection.location.range) == "jnp.where(x > 0, jnp.sqrt(x), 0.0)"
        editor.replace(uri, "jnp.sqrt(x)", "x")
        assert editor.diagnostics(uri) == []
        editor.replace(uri, ", x,", ", jnp.log(x),")
        assert codes(editor.diagnostics(uri)) == ["WL102"]
        editor.write(uri, SAFE)
        assert editor.diagnostics(uri) == []

    def test_only_the_last_of_some_quick_changes_is_checked(self, editor: Editor) -> None:
        uri = editor.open("a.py", UNSAFE)
        editor.diagnostics(uri)
        for digit in "123456789":
            editor.replace(uri, "0.0)", f"0.0{digit})")
            editor.replace(uri, f"0.0{digit})", "0.0)")
        assert len(editor.diagnostics(uri)) == 1
        assert [params.version for params in editor.published[uri]] == [1, 19]

    def test_what_cannot_be_read_is_said_where(self, editor: Editor) -> None:
        uri = editor.open("a.py", UNSAFE)
        editor.diagnostics(uri)
        editor.replace(uri, "0.0)", "0.0")
        (found,) = editor.diagnostics(uri)
        assert (found.code, found.severity) == (None, types.DiagnosticSeverity.Error)
        assert "'(' was never closed" in found.message
        assert found.range.start.line == 4
        assert editor.hover(uri, "sqrt") is None
        assert editor.actions(uri) == {}
        editor.replace(uri, "0.0", "0.0)")
        assert len(editor.diagnostics(uri)) == 1
        assert (editor.messages, editor.logged) == ([], [])

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
    def test_wide_characters(self, editor: Editor, end: str) -> None:
        text = UNSAFE.replace("return", "y = '\U0001f600é数'; z = '\U0001f600'; return")
        uri = editor.open("a.py", text.replace("\n", end))
        (found,) = editor.diagnostics(uri)
        assert editor.text_of(uri, found.range) == "jnp.sqrt(x)"
        assert found.range.start.character == text.splitlines()[4].index("jnp.sqrt") + 2
        editor.apply(fix_of(editor.actions(uri)))
        assert editor.texts[uri] == text.replace("\n", end).replace("sqrt(x)", "sqrt(jnp.where(x > 0, x, 1.0))")
        assert editor.diagnostics(uri) == []

    def test_a_form_feed_ends_no_line(self, editor: Editor) -> None:
        uri = editor.open("a.py", UNSAFE.replace("\n\ndef", "\n\x0c\ndef").replace("import", "'\u2028'\nimport"))
        editor.diagnostics(uri)
        editor.replace(uri, "jnp.sqrt(x)", "x")
        assert editor.diagnostics(uri) == []
        editor.replace(uri, "x,", "jnp.log(x),")
        (found,) = editor.diagnostics(uri)
        assert editor.text_of(uri, found.range) == "jnp.log(x)"
        (fix,) = (action for title, action in editor.actions(uri, "log").items() if title.startswith("Fix WL102: mask"))
        editor.apply(fix)
        assert "jnp.where(x > 0, jnp.log(jnp.where(x > 0, x, 1.0)), 0.0)" in editor.texts[uri]
        assert editor.diagnostics(uri) == []

    def test_a_declared_encoding(self, editor: Editor) -> None:
        text = f"# coding: latin-1\n{UNSAFE}".replace("return", "z = 'é'; return")
        uri = editor.open("a.py", text)
        (found,) = editor.diagnostics(uri)
        assert editor.text_of(uri, found.range) == "jnp.sqrt(x)"
        editor.write(uri, SAFE)
        assert editor.diagnostics(uri) == []

    def test_two_documents(self, editor: Editor) -> None:
        a, b = editor.open("a.py", UNSAFE), editor.open("b.py", UNSAFE.replace("sqrt", "log"))
        assert codes(editor.diagnostics(a)) == ["WL101"]
        assert codes(editor.diagnostics(b)) == ["WL102"]
        editor.write(a, SAFE)
        assert editor.diagnostics(a) == []
        assert codes(editor.diagnostics(b)) == ["WL102"]
        editor.close(b)
        editor.until(lambda: not editor.published[b][-1].diagnostics)
        assert editor.hover(b, "log") is None
        assert editor.actions(b, "log") == {}

    def test_saving_checks_what_imports_the_file(self, editor: Editor) -> None:
        package = editor.root / "package"
        write(package, {"__init__.py": "", "b.py": "import jax.numpy as jnp\n\n\ndef g(x):\n    return x\n"})
        text = UNSAFE.replace("import jax.numpy as jnp", "import jax.numpy as jnp\nfrom package.b import g")
        uri = editor.open("package/a.py", text.replace("jnp.sqrt", "g"))
        assert editor.diagnostics(uri) == []
        write(package, {"b.py": "import jax.numpy as jnp\n\n\ndef g(x):\n    return jnp.sqrt(x)\n"})
        editor.save(uri)
        editor.until(lambda: editor.published[uri][-1].diagnostics)

    @pytest.mark.parametrize(
        ("name", "language"),
        [
            ("a.jl", "julia"),
            ("build/a.py", "python"),
            ("file:///elsewhere/site-packages/a.py", "python"),
            ("git:/a.py?HEAD", "python"),
        ],
    )
    def test_what_is_not_checked(self, editor: Editor, name: str, language: str) -> None:
        uri = editor.open(name, UNSAFE, language)
        editor.diagnostics(editor.open("a.py", UNSAFE))
        assert not any(params.diagnostics for params in editor.published.get(uri, ()))
        assert editor.actions(uri) == {}

    def test_a_document_without_a_file(self, editor: Editor) -> None:
        assert len(editor.diagnostics(editor.open("untitled:Untitled-1", UNSAFE))) == 1


class TestSettings:
    @pytest.fixture
    def table(self, editor: Editor) -> Iterator[Callable[[str], None]]:
        file = editor.root / "pyproject.toml"
        editor.until(lambda: editor.registered)
        assert [registration.method for registration in editor.registered] == ["workspace/didChangeWatchedFiles"]

        def table(text: str) -> None:
            file.write_text(f"[tool.wherelint]\n{text}\n")
            change = types.FileEvent(file.as_uri(), types.FileChangeType.Changed)
            editor.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([change]))

        yield table
        file.unlink()

    def test_the_nearest_table_counts(self, editor: Editor, table: Callable[[str], None]) -> None:
        uri = editor.open("a.py", UNSAFE)
        assert len(editor.diagnostics(uri)) == 1
        for settings, found in (
            ('ignore = ["WL101"]', False),
            ("", True),
            ('extend-exclude = ["a.py"]', False),
            ('per-file-ignores = { "b.py" = ["WL1"] }', True),
            ('per-file-ignores = { "a.py" = ["WL1"] }', False),
        ):
            table(settings)
            editor.until(lambda found=found: bool(editor.published[uri][-1].diagnostics) is found)

    def test_a_note(self, editor: Editor, table: Callable[[str], None]) -> None:
        table('level = "note"')
        text = UNSAFE.replace("f(x)", "f(x, y)").replace("sqrt(x)", "sqrt(y)")
        uri = editor.open("a.py", text)
        (found,) = editor.diagnostics(uri)
        assert found.severity == types.DiagnosticSeverity.Information
        hover = editor.hover(uri, "sqrt")
        assert hover is not None
        assert value(hover).startswith("note: **WL101**")
        assert "Why a note: " in value(hover)

    def test_a_broken_table_is_said_once(self, editor: Editor, table: Callable[[str], None]) -> None:
        uri = editor.open("a.py", UNSAFE)
        assert len(editor.diagnostics(uri)) == 1
        table('selct = ["WL1"]')
        editor.until(lambda: not editor.published[uri][-1].diagnostics)
        editor.replace(uri, "0.0", "0.5")
        assert editor.diagnostics(uri) == []
        (message,) = editor.messages
        assert message.endswith("has no key 'selct'; did you mean 'select'?")
        table('select = ["WL1"]')
        editor.until(lambda: editor.published[uri][-1].diagnostics)


def value(hover: types.Hover) -> str:
    assert isinstance(hover.contents, types.MarkupContent)
    assert hover.contents.kind == types.MarkupKind.Markdown
    return hover.contents.value


def test_the_severity_is_the_level(tmp_path: Path) -> None:
    buffer = Buffer((tmp_path / "a.py").as_uri(), 1, UNSAFE, PositionCodec())
    snapshot = Snapshot(buffer.uri, tmp_path / "a.py", tmp_path, [buffer], notebook=False)
    report = snapshot.report
    for number, level in enumerate(LEVELS, 1):
        snapshot.report = replace(report, findings=(replace(report.findings[0], level=level),))
        assert [each.severity for each in diagnostics(snapshot, buffer)] == [types.DiagnosticSeverity(number)]


def test_hover(editor: Editor) -> None:
    uri = editor.open("a.py", UNSAFE.replace("x", "x_1"))
    editor.diagnostics(uri)
    hover = editor.hover(uri, "sqrt")
    assert hover is not None
    assert hover.range is not None
    assert editor.text_of(uri, hover.range) == "jnp.sqrt(x_1)"
    rule = rules.get("WL101")
    said = value(hover)
    assert said.startswith("error: **WL101** `unmasked-sqrt`: gradient is nan for sqrt")
    assert r"Witness: at x\_1 = 0.0 the value is 0.0 and the gradient with respect to x\_1 is nan" in said
    assert rule.summary in said
    assert "## Why is this bad?" in said
    assert editor.hover(uri, "def f") is None


class TestActions:
    def test_a_fix(self, editor: Editor) -> None:
        uri = editor.open("a.py", UNSAFE)
        (found,) = editor.diagnostics(uri)
        fix = fix_of(editor.actions(uri))
        assert (fix.kind, fix.is_preferred, *(fix.diagnostics or ())) == (types.CodeActionKind.QuickFix, True, found)
        editor.apply(fix)
        assert editor.texts[uri] == FIXED
        assert editor.diagnostics(uri) == []
        assert editor.actions(uri) == {}

    def test_before_the_diagnostics_are_there(self, editor: Editor) -> None:
        uri = editor.open("a.py", SAFE)
        editor.write(uri, UNSAFE)
        editor.apply(fix_of(editor.actions(uri)))
        assert editor.texts[uri] == FIXED

    def test_a_fix_that_needs_a_look(self, editor: Editor) -> None:
        uri = editor.open("a.py", LOOK)
        title, fix = next(iter(editor.actions(uri).items()))
        assert title.endswith(" (unsafe: check the shapes)")
        assert not fix.is_preferred
        editor.apply(fix)
        assert editor.diagnostics(uri) == []

    def test_those_of_one_diagnostic(self, editor: Editor) -> None:
        uri = editor.open("a.py", BOTH)
        found = editor.diagnostics(uri)
        assert codes(found) == ["WL101", "WL102"]
        assert "Silence WL101 with # noqa" in editor.actions(uri)
        only = [types.CodeActionKind.QuickFix]
        assert all("WL102" in title for title in editor.actions(uri, diagnostics=found[1:], only=only))
        editor.write(uri, f"\n{BOTH}")
        assert editor.actions(uri, diagnostics=found[1:], only=only) == {}

    def test_silence(self, editor: Editor) -> None:
        uri = editor.open("a.py", UNSAFE)
        editor.apply(editor.actions(uri)["Silence WL101 with # noqa"])
        assert editor.texts[uri] == UNSAFE.replace("0.0)", "0.0)  # noqa: WL101")
        assert editor.diagnostics(uri) == []

    def test_nobody_differentiates_it(self, editor: Editor) -> None:
        uri = editor.open("a.py", UNSAFE)
        editor.apply(editor.actions(uri)["Nobody differentiates f"])
        assert editor.texts[uri] == UNSAFE.replace("def f(x):", "def f(x):  # wherelint: not-differentiated")
        assert editor.diagnostics(uri) == []

    def test_a_title_is_short_and_the_hover_has_the_change(self, editor: Editor) -> None:
        uri = editor.open("a.py", UNSAFE)
        (title, *_) = editor.actions(uri)
        assert title == "Fix WL101: mask the operand with the condition of the `where`"
        said = value(editor.hover(uri, "sqrt"))
        assert "```diff\n-    return jnp.where(x > 0, jnp.sqrt(x), 0.0)\n+ " in said

    def test_fix_all_when_it_is_asked_for(self, editor: Editor) -> None:
        uri = editor.open("a.py", BOTH)
        (fix,) = editor.actions(uri, only=[types.CodeActionKind.SourceFixAll]).values()
        assert (fix.kind, fix.title) == ("source.fixAll.wherelint", "Fix all safe findings")
        editor.apply(fix)
        assert editor.diagnostics(uri) == []
        assert check_source(editor.texts[uri].encode(), "a.py", Settings()).findings == ()
        assert editor.actions(uri, only=["source.fixAll.wherelint"]) == {}
        assert editor.actions(uri, only=["source.organizeImports"]) == {}

    def test_fix_all_when_it_is_chosen(self, editor: Editor) -> None:
        uri = editor.open("a.py", BOTH)
        fix = editor.actions(uri)["Fix all safe findings"]
        assert fix.edit is None
        editor.replace(uri, "import", "# changed meanwhile\nimport")
        editor.apply(editor.run(editor.client.code_action_resolve_async(fix)))
        assert editor.diagnostics(uri) == []
        assert "Fix all safe findings" not in editor.actions(uri)


class TestNotebooks:
    CELLS = ("import jax.numpy as jnp\n%matplotlib inline", "# Title", "def f(x):\n    return g(x", UNSAFE[24:].strip())

    def test_the_cells_are_one_program(self, editor: Editor) -> None:
        uri = (editor.root / "a.ipynb").as_uri()
        names = [f"vscode-notebook-cell:/a.ipynb#{number}" for number in range(4)]
        kinds = [types.NotebookCellKind.Code, types.NotebookCellKind.Markup, *[types.NotebookCellKind.Code] * 2]
        cells = list(map(types.NotebookCell, kinds, names))
        for name, text in zip(names, self.CELLS, strict=True):
            editor.texts[name], editor.versions[name] = text, 1
        code = [name for name in names if name != names[1]]
        items = [types.TextDocumentItem(name, "python", 1, editor.texts[name]) for name in code]
        document = types.NotebookDocument(uri, "jupyter-notebook", 1, cells)
        editor.client.notebook_document_did_open(types.DidOpenNotebookDocumentParams(document, items))
        (found,) = editor.diagnostics(names[3])
        assert editor.text_of(names[3], found.range) == "jnp.sqrt(x)"
        assert editor.diagnostics(names[0]) == []
        assert editor.hover(names[3], "sqrt") is not None
        assert editor.hover(names[0], "numpy") is None
        actions = editor.actions(names[3])
        (all_of_them,) = editor.actions(names[3], only=["source.fixAll"]).values()
        fix = fix_of(actions)
        assert fix.edit is not None
        assert all_of_them.edit is not None
        for edit in (fix.edit, all_of_them.edit):
            (change,) = edit.document_changes or ()
            assert isinstance(change, types.TextDocumentEdit)
            assert (change.text_document.uri, change.text_document.version) == (names[3], 1)
            assert editor.edited(change) == FIXED[24:].strip()
        # The first cell goes: nothing is known of jnp any more.
        gone = types.NotebookCellArrayChange(0, 1)
        closed = [types.TextDocumentIdentifier(names[0])]
        structure = types.NotebookDocumentCellChangeStructure(gone, did_close=closed)
        self.change(editor, uri, types.NotebookDocumentCellChanges(structure))
        editor.until(lambda: editor.published[names[3]][-1].diagnostics == ())
        # It is written into the broken one.
        content = types.NotebookDocumentCellContentChanges(
            types.VersionedTextDocumentIdentifier(version=2, uri=names[2]),
            [types.TextDocumentContentChangeWholeDocument(self.CELLS[0])],
        )
        self.change(editor, uri, types.NotebookDocumentCellChanges(text_content=[content]))
        editor.until(lambda: editor.published[names[3]][-1].diagnostics)
        editor.client.notebook_document_did_close(
            types.DidCloseNotebookDocumentParams(
                types.NotebookDocumentIdentifier(uri), [types.TextDocumentIdentifier(name) for name in names[2:]]
            )
        )
        editor.until(lambda: not editor.published[names[3]][-1].diagnostics)
        assert (editor.messages, editor.logged) == ([], [])

    def change(self, editor: Editor, uri: str, cells: types.NotebookDocumentCellChanges) -> None:
        document = types.VersionedNotebookDocumentIdentifier(2, uri)
        change = types.NotebookDocumentChangeEvent(cells=cells)
        editor.client.notebook_document_did_change(types.DidChangeNotebookDocumentParams(document, change))


class TestProcess:
    def test_an_editor_of_another_kind(self, tmp_path: Path) -> None:
        """Columns in bytes, and no registrations; it goes without taking its leave."""
        editor = Editor(tmp_path, ["utf-8"], text_document=types.TextDocumentClientCapabilities())
        assert editor.capabilities.position_encoding == "utf-8"
        uri = editor.open("a.py", UNSAFE.replace("return", "z = '\U0001f600é'; return"))
        (found,) = editor.diagnostics(uri)
        assert editor.text_of(uri, found.range) == "jnp.sqrt(x)"
        fix = fix_of(editor.actions(uri))
        assert fix.edit is not None
        assert (editor.registered, editor.leave(politely=False)) == ([], 1)

    @pytest.mark.parametrize("place", ["wherelint.findings.analyse", "wherelint.server.snapshot.check_source"])
    def test_an_unexpected_exception_is_logged(self, tmp_path: Path, place: str) -> None:
        module, _, name = place.rpartition(".")
        before = f"import {module}\ndef broken(*_): raise ValueError('broken')\n{module}.{name} = broken\n"
        editor = Editor(tmp_path, before=before)
        uri = editor.open("a.py", UNSAFE)
        assert editor.diagnostics(uri) == []
        editor.until(lambda: editor.logged)
        assert "internal error, please report it: ValueError: broken" in editor.logged[0]
        assert editor.actions(uri) == {}
        assert editor.messages == []
        assert editor.leave() == 0

    def test_what_takes_long_keeps_nobody_waiting(self, tmp_path: Path) -> None:
        editor = Editor(tmp_path, before=SLOW)
        uri = editor.open("a.py", f"# slow\n{UNSAFE}")
        start = time.monotonic()
        time.sleep(0.2)
        editor.replace(uri, "0.0", "1.0")
        assert editor.hover(uri, "sqrt") is None
        editor.write(uri, UNSAFE)
        assert editor.hover(uri, "sqrt") is None
        assert time.monotonic() - start < 2
        assert len(editor.diagnostics(uri)) == 1
        assert [params.version for params in editor.published[uri]] == [3]
        assert time.monotonic() - start > 2
        assert editor.leave() == 0

    def test_an_editor_that_dies(self, tmp_path: Path) -> None:
        command = [sys.executable, "-c", COMMAND]
        ran = subprocess.run(command, input=b"", capture_output=True, env=environment(), timeout=PATIENCE)
        assert (ran.returncode, ran.stdout) == (1, b"")

    def test_without_pygls(self) -> None:
        program = f"import sys; sys.modules['pygls'] = None; {COMMAND}"
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment())
        assert ran.returncode == 1
        last = ran.stderr.splitlines()[-1]
        assert last.endswith('the language server needs pygls: pip install "pygls>=2"')


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("return {}", "return {}  # noqa: WL101"),
        ("return {}  # it is never 0 ", "return {}  # it is never 0  # noqa: WL101"),
        ("return {}  # noqa: E501", "return {}  # noqa: E501, WL101"),
        ("return {}  # NOQA:E501 as it is long", "return {}  # NOQA:E501, WL101 as it is long"),
        ("return {}  # noqa: because", "return {}  # noqa: because  # noqa: WL101"),
        ("return g({}, '# noqa: E501')", "return g({}, '# noqa: E501')  # noqa: WL101"),
        ("y = {} + \\\n        1\n    return y", "y = {} + \\\n        1  # noqa: WL101\n    return y"),
        ('y = {} + """\n    """\n    return y', 'y = {} + """\n    """  # noqa: WL101\n    return y'),
        ("return (\n        {}\n    )", "return (\n        {}  # noqa: WL101\n    )"),
        ('return f"""\n    {{{}}}\n    """', 'return f"""\n    {{{}}}\n    """  # noqa: WL101'),
    ],
)
def test_where_a_comment_goes(before: str, after: str) -> None:
    where = "jnp.where(x > 0, jnp.sqrt(x), 0.0)"
    frame = UNSAFE.replace(f"return {where}", "{}").replace("{}", "%s")
    text = frame % before.format(where)
    place = Source(text).place(text.index("jnp.sqrt"))
    (finding,) = check_source(UNSAFE.encode(), "a.py", Settings()).findings
    end, select = replace(place, column=place.column + 11), replace(finding.select, location=place)
    finding = replace(finding, location=place, end_location=end, noqa_row=place.row, select=select)
    edit = silence(text, finding)
    assert edit is not None
    assert Source(text).edited([edit]) == frame % after.format(where)


def test_no_comment_where_none_can_stand() -> None:
    (finding,) = check_source(UNSAFE.encode(), "a.py", Settings()).findings
    assert silence(UNSAFE.replace("0.0)", "0.0"), finding) is None


@given(
    st.text("a\n\r\x0c\u2028é\U0001f600", max_size=30),
    st.sampled_from([types.PositionEncodingKind(kind) for kind in ("utf-8", "utf-16", "utf-32")]),
)
def test_positions(text: str, encoding: types.PositionEncodingKind) -> None:
    """Places as a program that walks through the text sees them."""
    codec = PositionCodec(encoding)
    buffer = Buffer("a", 1, text, codec)
    row, column, units = 1, 1, 0
    for offset, character in enumerate([*text, ""]):
        there = buffer.position(Location(row, column))
        assert (there.line, there.character) == (row - 1, units)
        column, units = column + 1, units + codec.client_num_units(character)
        if character == "\n" or (character == "\r" and text[offset + 1 : offset + 2] != "\n"):
            row, column, units = row + 1, 1, 0
