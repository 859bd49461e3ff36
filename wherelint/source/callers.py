"""Which private helpers are never differentiated, because no caller in the file lets a gradient through."""

from __future__ import annotations

from collections.abc import Sequence

from wherelint.graph.node import Node
from wherelint.source import gate
from wherelint.source.module import GiveUp, Module
from wherelint.source.roots import Program, programs
from wherelint.source.values import Origin


def place(node: Node) -> int:
    """The expression that a node was written as, whatever call it was lowered for."""
    origin = node.origin
    return id(origin.node) if isinstance(origin, Origin) else id(node)


class Callers:
    """For every helper of a file, who calls it and where a gradient flows back into it."""

    def __init__(self, module: Module, used: Sequence[str]) -> None:
        self._module = module
        self._used = used
        #: Helper -> caller -> the places in the helper that a gradient flowed back to.
        self._flows: dict[str, dict[tuple[str, ...], set[int]]] = {}
        self._lowered: set[tuple[str, ...]] = set()
        #: Functions with a derivative of their own, and those that nobody differentiates.
        self._shielded: set[tuple[str, ...]] = set()

    def note(self, name: tuple[str, ...], found: Sequence[Program]) -> None:
        """Record what the programs of a function inlined."""
        self._lowered.add(name)
        if not found:
            self._shielded.add(name)
        for program in found:
            for function, live in program.inlined:
                self._flows.setdefault(function, {}).setdefault(name, set()).update(map(place, live))

    def sever(self, function: str, where: int) -> bool:
        """Whether no gradient ever flows back to a place in a function: private, and shielded by each caller."""
        return self._sever(function, where, {function})

    def _sever(self, function: str, where: int, above: set[str]) -> bool:
        last = function.rpartition(".")[2]
        if not last.startswith("_") or last.endswith("__"):
            return False
        callers = gate.referring(self._module, last)
        return bool(callers) and all(self._shields(caller, function, where, above) for caller in callers)

    def _shields(self, caller: tuple[str, ...], function: str, where: int, above: set[str]) -> bool:
        """Whether nothing that one caller does lets a gradient flow back to a place in the function."""
        if caller not in self._lowered:
            try:
                self.note(caller, programs(self._module, caller, self._used))
            except (GiveUp, RecursionError):
                return False
        if caller in self._shielded:
            return True
        flows = self._flows.get(function, {}).get(caller)
        if flows is None:
            return False  # mentioned, but not called where the analysis could see it
        name = ".".join(caller)
        return where not in flows or (name not in above and self._sever(name, where, above | {name}))
