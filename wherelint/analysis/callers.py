"""What the callers of a private helper do to it: which keep gradients away, and what they call it with."""

import ast
from collections.abc import Sequence
from typing import NamedTuple

from wherelint.analysis.programs import Program, programs
from wherelint.frontend import screen
from wherelint.frontend.module import Module
from wherelint.frontend.syntax import GiveUp, methods
from wherelint.graph.node import Node
from wherelint.interpret.values import Origin


def expression_id(node: Node) -> int:
    """The expression that a node was written as, whatever call it was lowered for."""
    origin = node.origin
    return id(origin.node) if isinstance(origin, Origin) else id(node)


def spot(node: Node) -> tuple[int, int]:
    """The expression that a node was written as, and the call of the checked file that led to it."""
    call = node.origin.call if isinstance(node.origin, Origin) else None
    return expression_id(node), id(call.node) if call is not None else 0


def is_private(function: str) -> bool:
    """Whether a function's name keeps it to its file or class."""
    last = function.rpartition(".")[2]
    return last.startswith("_") and not last.endswith("__")


class Caller(NamedTuple):
    """A function of the project, by its file and its qualified name."""

    filename: str
    name: tuple[str, ...]


class Callers:
    """For every helper of a file, who calls it and where a gradient flows back into it."""

    def __init__(self, module: Module, used: Sequence[str]) -> None:
        self._module = module
        self._used = used
        #: Helper -> caller -> the nodes of the helper that a gradient flowed back to.
        self._flows: dict[str, dict[Caller, list[Node]]] = {}
        self._lowered: set[Caller] = set()
        #: Functions with a derivative of their own, and those that nobody differentiates.
        self._shielded: set[Caller] = set()

    def note(self, name: tuple[str, ...], found: Sequence[Program], module: Module | None = None) -> None:
        """Record what the programs of a function inlined."""
        caller = Caller((module or self._module).filename, name)
        self._lowered.add(caller)
        if not found:
            self._shielded.add(caller)
        for program in found:
            for function, live in program.inlined:
                self._flows.setdefault(function, {}).setdefault(caller, []).extend(live)

    def sever(self, function: str, where: int, above: frozenset[str] = frozenset()) -> bool:
        """Whether no gradient ever flows back to a place in a function: private, and shielded by each caller."""
        callers, above = self._callers(function) if is_private(function) else [], above | {function}
        return bool(callers) and all(self._shields(caller, function, where, above) for caller in callers)

    def contexts(self, function: str, where: int) -> list[Node]:
        """The node written at a place in a helper, once for every call: of a public one, for those of this file.

        Empty where some caller is not known: one that hands the helper on, or is too much to follow.
        """
        callers = self._callers(function)
        flows = self._flows.get(function, {})
        if not all(caller in self._shielded or caller in flows for caller in callers):
            return []
        return [node for caller in callers for node in flows.get(caller, []) if expression_id(node) == where]

    def _callers(self, function: str) -> list[Caller]:
        """The functions that mention a helper, each lowered if that is possible: of the project, or of this file."""
        last = function.rpartition(".")[2]
        modules = [self._module]
        private = is_private(function)
        if private and last == function:  # methods of one name are too many
            modules += self._module.project.mentioning(last)
        callers = []
        for module in modules:
            for name in screen.referring(module, last):
                caller = Caller(module.filename, name)
                if caller not in self._lowered:
                    try:
                        self.note(name, programs(module, name, self._used), module)
                    except (GiveUp, RecursionError) as error:
                        why = str(error) if isinstance(error, GiveUp) else "it is nested too deeply"
                        module.budget.give_up(f"`{'.'.join(name)}`, which calls `{function}`", why)
                callers.append(caller)
        # A method that a class inherits calls the helper there, too.
        callers += [c for c in self._flows.get(function, {}) if c not in callers and self._inherits(c)]
        return callers

    def _inherits(self, caller: Caller) -> bool:
        if caller.filename != self._module.filename:
            return False
        statement = self._module.definitions[caller.name[0]].statement
        return isinstance(statement, ast.ClassDef) and all(m.name != caller.name[-1] for m in methods(statement))

    def _shields(self, caller: Caller, function: str, where: int, above: frozenset[str]) -> bool:
        """Whether nothing that one caller does lets a gradient flow back to a place in the function."""
        if caller in self._shielded:
            return True
        flows = self._flows.get(function, {}).get(caller)
        if flows is None:
            return False  # mentioned, but not called where the analysis could see it
        if all(expression_id(node) != where for node in flows):
            return True
        name = ".".join(caller.name)
        return caller.filename == self._module.filename and name not in above and self.sever(name, where, above)
