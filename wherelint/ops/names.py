"""How the name tables are written.

A line is ``operands: names``. An operand is its accepted keywords joined by ``|``, with ``=default`` where the call
may omit it and ``-`` for a positional argument that is no operand; a name is ``name`` or ``name=operation``. The
receiver of a method is its first operand, written ``self``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Signature:
    """How a framework spells an operation: ``operands`` are the accepted keyword names, in positional order."""

    op: str
    operands: tuple[tuple[str, ...], ...]
    #: Values of the trailing operands when the call omits them.
    defaults: tuple[float, ...] = ()


def names(prefix: str, text: str) -> dict[str, Signature]:
    """The signatures of one namespace."""
    found: dict[str, Signature] = {}
    for line in text.splitlines():
        left, colon, right = line.partition(":")
        if not colon:
            continue
        operands: list[tuple[str, ...]] = []
        defaults: list[float] = []
        for operand in left.split():
            keywords, equals, default = operand.partition("=")
            operands.append(() if keywords == "-" else tuple(keywords.split("|")))
            if equals:
                defaults.append(float(default))
        for word in right.split():
            name, _, op = word.partition("=")
            dotted = f"{prefix}.{name}"
            if dotted in found:
                raise ValueError(f"{dotted} is listed twice")
            found[dotted] = Signature(op or name, tuple(operands), tuple(defaults))
    return found
