"""Watches every gradient that an unchanged program takes, and explains the first that is not finite.

``session`` counts and decides when to stop; ``jax``, ``torch`` and ``tensorflow`` each hook into a framework, once the
program has imported it; ``report`` prints and saves; ``program`` runs a script as Python does.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from typing import Any

from wherelint.watcher.imports import Imports
from wherelint.watcher.session import Session, begun

FRAMEWORKS = ("jax", "torch", "tensorflow")
#: What records the calls that gradients pass.
_RECORDERS = {"jax": "wherelint.jax._record", "torch": "wherelint.torch.record"}


@contextmanager
def watching(session: Session, marks: Any = None) -> Iterator[Session]:
    """Within the block every gradient is watched, and recorded if there are ``marks`` (`companion.coverage.Marks`)."""
    imports = Imports()
    with begun(session), ExitStack() as hooks, imports.installed():
        for name in FRAMEWORKS:
            if marks is not None and name in _RECORDERS:  # beneath the watcher, which may compute things again
                imports.after(name, partial(_hook, f"{name} for --record", _RECORDERS[name], session, hooks, marks))
            imports.after(name, partial(_hook, name, f"wherelint.watcher.{name}", session, hooks, session, imports))
        yield session


def _hook(what: str, module: str, session: Session, hooks: ExitStack, *given: Any) -> None:
    try:
        hooks.enter_context(import_module(module).hook(*given))
    except Exception as error:  # the program goes on without
        session.unwatched[what] = f"{type(error).__name__}: {error}"
