"""Whether a gradient comes back through the calls of a helper.

The model. The callers of a helper in its own file, and of a private one in all files of its package, are lowered with
the helper inlined. Their graphs say whether a gradient flows back to a node of the helper, and which values its calls
pass. What is not understood counts as a call that is differentiated, so that errors show a finding too many.
"""

import ast
from collections.abc import Sequence

from wherelint.evidence.reach import is_called_here_alone, is_used_elsewhere
from wherelint.frontend import screen
from wherelint.frontend.module import Module
from wherelint.frontend.syntax import GiveUp, methods
from wherelint.graph.node import Node
from wherelint.interpret.programs import Program, expression_id, programs

Name = tuple[str, ...]


class InlinedCalls:
    """The calls of a file's helpers that were lowered: where a gradient flows back into them, and on which values."""

    def __init__(self, module: Module, used: Sequence[str]) -> None:
        self._module = module
        self._used = used
        #: Helper -> caller, by its file and its name -> the nodes of the helper that a gradient flowed back to.
        self._flows: dict[str, dict[tuple[str, Name], list[Node]]] = {}
        self._lowered: set[tuple[str, Name]] = set()
        #: Functions with a derivative of their own, and those that nobody differentiates.
        self._shielded: set[tuple[str, Name]] = set()

    def note(self, name: Name, found: Sequence[Program], module: Module | None = None) -> None:
        """Record what the programs of a function inlined."""
        caller = (module or self._module).filename, name
        self._lowered.add(caller)
        if not found:
            self._shielded.add(caller)
        for program in found:
            for function, live in program.inlined:
                self._flows.setdefault(function, {}).setdefault(caller, []).extend(live)

    def sever(self, function: str, where: int, above: frozenset[str] = frozenset()) -> bool:
        """Whether no gradient ever flows back to a place in a function: private, and shielded by each caller."""
        return self.knows_all(function) and self.sever_here(function, where, above)

    def sever_here(self, function: str, where: int, above: frozenset[str] = frozenset()) -> bool:
        """Whether no gradient flows back to a place in a function from its callers, those in other files left out."""
        callers, above = self._callers(function), above | {function}
        return bool(callers) and all(self._shields(caller, function, where, above) for caller in callers)

    def is_used_elsewhere(self, function: str) -> bool:
        """Whether another file of the project may call a function."""
        return is_used_elsewhere(self._module, function)

    def contexts(self, function: str, where: int) -> list[Node]:
        """The node written at a place in a helper, once for every call: of a public one, for those of this file.

        Empty where some caller is not known: one that passes the helper on, or is too much to follow.
        """
        callers = self._callers(function)
        flows = self._flows.get(function, {})
        if not all(caller in self._shielded or caller in flows for caller in callers):
            return []
        return [node for caller in callers for node in flows.get(caller, []) if expression_id(node) == where]

    def knows_all(self, function: str) -> bool:
        """Whether nobody calls a function whose file, or package, does not."""
        return is_private(function) or is_called_here_alone(self._module, function)

    def _callers(self, function: str) -> list[tuple[str, Name]]:
        """The functions that mention a helper, each lowered if that is possible: of the project, or of this file."""
        last = function.rpartition(".")[2]
        is_known_by_name = is_private(function) and last == function  # methods of one name are too many
        callers = []
        for module in [self._module, *(self._module.project.mentioning(last) if is_known_by_name else ())]:
            for name in screen.referring(module, last):
                caller = module.filename, name
                if caller not in self._lowered:
                    try:
                        self.note(name, programs(module, name, self._used), module)
                    except (GiveUp, RecursionError) as error:
                        why = str(error) if isinstance(error, GiveUp) else "it is nested too deeply"
                        module.budget.give_up(f"`{'.'.join(name)}`, which calls `{function}`", why)
                callers.append(caller)
        # A method that a class inherits calls the helper there, too.
        return callers + [c for c in self._flows.get(function, {}) if c not in callers and self._inherits(*c)]

    def _inherits(self, filename: str, name: Name) -> bool:
        if filename != self._module.filename:
            return False
        statement = self._module.definitions[name[0]].statement
        return isinstance(statement, ast.ClassDef) and name[-1] not in _method_names(statement)

    def _shields(self, caller: tuple[str, Name], function: str, where: int, above: frozenset[str]) -> bool:
        """Whether nothing that one caller does lets a gradient flow back to a place in the function."""
        if caller in self._shielded:
            return True
        flows = self._flows.get(function, {}).get(caller)
        if flows is None:
            return False  # mentioned, but not called where the analysis could see it
        if all(expression_id(node) != where for node in flows):
            return True
        filename, name = caller[0], ".".join(caller[1])
        return filename == self._module.filename and name not in above and self.sever(name, where, above)


def is_private(function: str) -> bool:
    """Whether a function's name keeps it to its file or class."""
    last = function.rpartition(".")[2]
    return last.startswith("_") and not last.endswith("__")


def _method_names(statement: ast.ClassDef) -> set[str]:
    return {method.name for method in methods(statement)}
