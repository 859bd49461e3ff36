"""Names that a rewritten text reads and nothing binds: inputs like any other to a proof, an error to Python."""

import ast
import builtins
import symtable
from collections.abc import Iterator, Sequence

from wherelint.finding import Edit
from wherelint.frontend.module import Module
from wherelint.frontend.names import imported
from wherelint.io.edits import Source

#: How an edit begins that imports what others call.
_IMPORTS = ("import ", "from ")


def binds_all(module: Module, edits: Sequence[Edit]) -> bool:
    """Whether every name that a text reads after some edits is bound, or was not bound before either."""
    if module.stars:
        return True
    rows = {row for edit in edits for row in range(edit.location.row, edit.end_location.row + 1)}
    touched = [block for _, block in module.blocks if any(block.first <= row <= block.last for row in rows)]
    if not touched:
        return True
    first, last = min(block.first for block in touched), max(block.last for block in touched)
    rest = len(module.lines) - last
    lines = Source(module.source.edited(edits)).lines
    old, new = module.lines[first - 1 : last], lines[first - 1 : len(lines) - rest]
    known = {*module.imports, *module.definitions, *vars(builtins)}
    try:
        for edit in edits:
            for statement in ast.parse(edit.content).body if edit.content.startswith(_IMPORTS) else ():
                assert isinstance(statement, (ast.Import, ast.ImportFrom))
                known |= imported(statement, module.package).keys()
        return set(_free("".join(new))) - known <= set(_free("".join(old)))
    except (SyntaxError, ValueError, RecursionError):  # the cells of a notebook
        return True


def _free(text: str) -> Iterator[str]:
    """The names that the functions of a text read and do not bind."""
    tables = [symtable.symtable(text, "", "exec")]
    bound = {symbol.get_name() for symbol in tables[0].get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    while tables:
        table = tables.pop()
        tables += table.get_children()
        if table.get_type() != "module":
            yield from (s.get_name() for s in table.get_symbols() if s.is_global() and s.get_name() not in bound)
