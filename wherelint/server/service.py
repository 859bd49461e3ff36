"""The server: when documents are checked, and who answers.

The event loop reads and writes messages and nothing else. One thread, the worker, does what takes time, one job after
the other; what it is to do about a text that was changed meanwhile is dropped.
"""

import asyncio
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from lsprotocol import types
from pygls.capabilities import get_capability
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path, uri_scheme
from pygls.workspace import TextDocument

from wherelint.defects import describe
from wherelint.io.config import ConfigError
from wherelint.io.edits import split_lines
from wherelint.server import answers
from wherelint.server.snapshot import Buffer, Snapshot
from wherelint.version import __version__

Answer = TypeVar("Answer")

# pygls ends a line at a form feed or a Unicode separator as well, which neither Python nor the protocol does.
TextDocument.lines = property(lambda document: split_lines(document.source))  # type: ignore[assignment,method-assign]

#: How long a text has to rest before it is checked, in seconds.
_REST = 0.2
_CELLS = types.NotebookDocumentFilterWithCells([types.NotebookCellLanguage("python")])
_ACTIONS = types.CodeActionOptions([types.CodeActionKind.QuickFix, answers.FIX_ALL], resolve_provider=True)


class Server(LanguageServer):
    """The documents that are open in one editor."""

    def __init__(self) -> None:
        notebooks = types.NotebookDocumentSyncOptions([_CELLS], save=True)
        super().__init__("wherelint", __version__, notebook_document_sync=notebooks)
        #: Every document as it is now.
        self.snapshots: dict[str, Snapshot] = {}
        self.worker = ThreadPoolExecutor(1, "wherelint")
        self.shut_down = False
        self._waiting: dict[str, asyncio.Task[None]] = {}
        self._shown_error = ""

    def refresh(self, uri: str, rest: float = _REST) -> None:
        """Check a document as it is now, when it has rested."""
        if uri in self._waiting:
            self._waiting.pop(uri).cancel()
        self.snapshots.pop(uri, None)
        notebook = self.workspace.get_notebook_document(notebook_uri=uri)
        names = [cell.document for cell in notebook.cells] if notebook else [uri]
        texts = [text for name in names if (text := self.workspace.text_documents.get(unquote(name)))]
        cells = [
            Buffer(text.uri, text.version, text.source, text.position_codec)
            for text in texts
            if text.language_id == "python"
        ]
        if cells and (path := self._path(uri)):
            snapshot = Snapshot(uri, path, self._root(path), cells, notebook=notebook is not None)
            self.snapshots[uri] = snapshot
            self._waiting[uri] = asyncio.get_running_loop().create_task(self._check(snapshot, rest))

    def refresh_all(self) -> None:
        """Check every document, as one may import what another defines; show again what is wrong with the settings."""
        self._shown_error = ""
        for uri in list(self.snapshots):
            self.refresh(uri)

    def forget(self, uris: Sequence[str]) -> None:
        """Have the editor forget the findings of texts that were closed."""
        for uri in uris:
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    def snapshot(self, uri: str) -> Snapshot | None:
        """The document that a text is, or is a cell of."""
        notebook = self.workspace.get_notebook_document(cell_uri=uri)
        return self.snapshots.get(notebook.uri if notebook else uri)

    async def ask(self, snapshot: Snapshot, question: Callable[[], Answer]) -> Answer | None:
        """The worker's answer to a question about a snapshot; None where there is none, or the text was changed."""

        def answer() -> Answer | None:
            return question() if self.snapshots.get(snapshot.uri) is snapshot else None

        try:
            return await asyncio.get_running_loop().run_in_executor(self.worker, answer)
        except ConfigError as error:
            if str(error) != self._shown_error:
                self._shown_error = str(error)
                self.window_show_message(types.ShowMessageParams(types.MessageType.Error, f"wherelint: {error}"))
        except Exception as error:
            self._log(f"{snapshot.uri}: {describe(error)}")
            traceback.print_exc()
        return None

    def report_server_error(self, error: Exception, source: object) -> None:
        """Log an error of the protocol; pygls would interrupt the author with it."""
        self._log(str(error))

    async def _check(self, snapshot: Snapshot, rest: float) -> None:
        await asyncio.sleep(rest)
        report = await self.ask(snapshot, lambda: snapshot.report)
        if self.snapshots.get(snapshot.uri) is not snapshot:
            return
        problems = [problem.message for problem in report.problems if problem.error] if report else []
        defects = [message for message in problems if "internal error" in message]
        for message in defects:
            self._log(f"{snapshot.uri}: {message}")
        snapshot.shown = report is not None
        for cell in snapshot.cells:
            found = answers.diagnostics(snapshot, cell) if snapshot.shown else []
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(cell.uri, found, cell.version))

    def _log(self, message: str) -> None:
        self.window_log_message(types.LogMessageParams(types.MessageType.Error, message))

    def _path(self, uri: str) -> Path | None:
        """Where a document lies, or would lie if it was saved; None for what is no file (the other half of a diff)."""
        if uri_scheme(uri) == "untitled":
            return next(iter(self._folders()), Path.cwd()) / uri.rpartition("/")[2].removeprefix("untitled:")
        path = to_fs_path(uri)
        return Path(path) if path else None

    def _root(self, path: Path) -> Path:
        """What patterns are relative to where no file says so."""
        folders = [folder for folder in self._folders() if path.is_relative_to(folder)]
        return max(folders or [Path.cwd()], key=lambda folder: len(folder.parts))

    def _folders(self) -> list[Path]:
        names = [to_fs_path(folder.uri) for folder in self.workspace.folders.values()]
        return [Path(name) for name in (*names, self.workspace.root_path) if name]


def did_open(ls: Server, params: types.DidOpenTextDocumentParams) -> None:
    """Check a text at once."""
    ls.refresh(params.text_document.uri, 0)


def did_change(ls: Server, params: types.DidChangeTextDocumentParams) -> None:
    """Check a text some time after it was changed."""
    ls.refresh(params.text_document.uri)


def did_close(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
    """Forget a text."""
    ls.forget([params.text_document.uri])
    ls.refresh(params.text_document.uri)


def did_open_notebook(ls: Server, params: types.DidOpenNotebookDocumentParams) -> None:
    """Check a notebook at once."""
    ls.refresh(params.notebook_document.uri, 0)


def did_change_notebook(ls: Server, params: types.DidChangeNotebookDocumentParams) -> None:
    """Check a notebook some time after it was changed."""
    structure = params.change.cells and params.change.cells.structure
    ls.forget([cell.uri for cell in (structure and structure.did_close) or ()])
    ls.refresh(params.notebook_document.uri)


def did_close_notebook(ls: Server, params: types.DidCloseNotebookDocumentParams) -> None:
    """Forget a notebook."""
    ls.forget([cell.uri for cell in params.cell_text_documents])
    ls.refresh(params.notebook_document.uri)


def refresh_all(ls: Server, _: object) -> None:
    """Check everything: what was saved may be imported elsewhere, or be the settings."""
    ls.refresh_all()


def initialized(ls: Server, _: types.InitializedParams) -> None:
    """Have the editor send a message when a configuration file changes."""
    if get_capability(ls.client_capabilities, "workspace.did_change_watched_files.dynamic_registration"):
        method = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
        options = types.DidChangeWatchedFilesRegistrationOptions([types.FileSystemWatcher("**/pyproject.toml")])
        ls.client_register_capability(types.RegistrationParams([types.Registration(method, method, options)]))


def shutdown(ls: Server, _: None) -> None:
    """Remember that the editor took its leave, for the exit status."""
    ls.shut_down = True


def hover(ls: Server, params: types.HoverParams) -> types.Hover | None:
    """Explain the findings below the pointer."""
    uri = params.text_document.uri
    snapshot = ls.snapshot(uri)
    return answers.hover(snapshot, uri, params.position) if snapshot is not None and snapshot.shown else None


async def code_action(ls: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
    """Offer fixes and comments; the fixes are searched now."""
    snapshot = ls.snapshot(params.text_document.uri)
    if snapshot is None:
        return []
    return await ls.ask(snapshot, lambda: answers.code_actions(snapshot, params)) or []


async def code_action_resolve(ls: Server, action: types.CodeAction) -> types.CodeAction:
    """Find the edits of a code action that was chosen."""
    snapshot = ls.snapshot(action.data["uri"]) if isinstance(action.data, dict) else None
    if snapshot is not None:
        action.edit = answers.workspace_edit(snapshot, await ls.ask(snapshot, lambda: snapshot.fix_all) or [])
    return action


_FEATURES: dict[str, Callable[..., Any]] = {
    types.INITIALIZED: initialized,
    types.SHUTDOWN: shutdown,
    types.TEXT_DOCUMENT_DID_OPEN: did_open,
    types.TEXT_DOCUMENT_DID_CHANGE: did_change,
    types.TEXT_DOCUMENT_DID_CLOSE: did_close,
    types.TEXT_DOCUMENT_DID_SAVE: refresh_all,
    types.NOTEBOOK_DOCUMENT_DID_OPEN: did_open_notebook,
    types.NOTEBOOK_DOCUMENT_DID_CHANGE: did_change_notebook,
    types.NOTEBOOK_DOCUMENT_DID_CLOSE: did_close_notebook,
    types.NOTEBOOK_DOCUMENT_DID_SAVE: refresh_all,
    types.WORKSPACE_DID_CHANGE_WATCHED_FILES: refresh_all,
    types.TEXT_DOCUMENT_HOVER: hover,
    types.CODE_ACTION_RESOLVE: code_action_resolve,
}


def serve() -> int:
    """Serve until the editor takes its leave; 1 if it goes without."""
    server = Server()
    for method, handler in _FEATURES.items():
        server.feature(method)(handler)
    server.feature(types.TEXT_DOCUMENT_CODE_ACTION, _ACTIONS)(code_action)
    # What prints by accident is not to get between the messages; pygls closes what it writes to.
    with open(os.dup(sys.stdout.fileno()), "wb") as output, redirect_stdout(sys.stderr):
        server.start_io(stdout=output)
    server.worker.shutdown(wait=False, cancel_futures=True)
    return 0 if server.shut_down else 1
