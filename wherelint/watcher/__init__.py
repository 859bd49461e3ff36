"""Watches every gradient that an unchanged program takes, and explains the first that is not finite.

``session`` counts and decides when to stop; ``jax``, ``torch`` and ``tensorflow`` each hook into a framework, once the
program has imported it; ``report`` prints and saves; ``program`` runs a script as Python does.
"""

import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from wherelint.watcher.session import Session, activate

FRAMEWORKS = ("jax", "torch", "tensorflow")
#: What records the calls that gradients pass.
_RECORDERS = {"jax": "wherelint.jax._record", "torch": "wherelint.torch.record"}


class Imports(MetaPathFinder):
    """Calls functions once a module has been executed; at once where it has been imported already."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Callable[[], None]]] = {}

    def after(self, name: str, call: Callable[[], None]) -> None:
        """Call when the module of that name is there."""
        if name in sys.modules:
            call()
        else:
            self._waiting.setdefault(name, []).append(call)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Within the block imports are seen."""
        sys.meta_path.insert(0, self)
        try:
            yield
        finally:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders give, whose loader calls afterwards."""
        calls = self._waiting.pop(fullname, None)
        if calls is None:
            return None
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            self._waiting[fullname] = calls
            return spec
        execute = spec.loader.exec_module

        def execute_and_call(module: ModuleType) -> None:
            execute(module)
            for call in calls:
                call()

        spec.loader.exec_module = execute_and_call  # type: ignore[method-assign]
        return spec


@contextmanager
def watching(session: Session, marks: Any = None) -> Iterator[Session]:
    """Within the block every gradient is watched, and recorded if there are ``marks`` (`companion.coverage.Marks`)."""
    imports = Imports()
    with activate(session), ExitStack() as hooks, imports.installed():
        for name in FRAMEWORKS:
            if marks is not None and name in _RECORDERS:  # beneath the watcher, which may compute things again
                imports.after(name, partial(_hook, f"{name} for --record", _RECORDERS[name], session, hooks, marks))
            imports.after(name, partial(_hook, name, f"wherelint.watcher.{name}", session, hooks, session, imports))
        yield session


def _hook(what: str, module: str, session: Session, hooks: ExitStack, *given: Any) -> None:
    with session.safely(what):  # the program goes on without
        hooks.enter_context(import_module(module).hook(*given))
