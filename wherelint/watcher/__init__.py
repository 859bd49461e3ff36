"""Watches every gradient that an unchanged program takes, and explains the first that is not finite.

``session`` counts and decides when to stop; ``jax``, ``torch`` and ``tensorflow`` each hook into a framework, once the
program has imported it; ``report`` prints and saves; ``program`` runs a script as Python does.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module

from wherelint.watcher.imports import Imports
from wherelint.watcher.session import Session, begun

FRAMEWORKS = ("jax", "torch", "tensorflow")


@contextmanager
def watching(session: Session) -> Iterator[Session]:
    """Within the block every gradient is watched."""
    imports = Imports()
    with begun(session), ExitStack() as hooks, imports.installed():
        for name in FRAMEWORKS:
            imports.after(name, partial(_hook, name, session, imports, hooks))
        yield session


def _hook(name: str, session: Session, imports: Imports, hooks: ExitStack) -> None:
    try:
        hooks.enter_context(import_module(f"wherelint.watcher.{name}").hook(session, imports))
    except Exception as error:  # the program goes on without
        session.unwatched[name] = f"{type(error).__name__}: {error}"
