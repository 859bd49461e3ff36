"""Calls that wait for an import: a framework is watched as soon as the program has imported it, and never before."""

import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


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
