"""Where else a function has the same operation of the same operand, and where it reads the same part of a variable."""

from collections.abc import Iterator, Sequence

import libcst as cst

from wherelint.fix.syntax import LAZY, SourceNode, operands, walk


def alike(place: SourceNode, operand: SourceNode, at: int, count: int) -> Iterator[SourceNode]:
    """The same operand of the same operation elsewhere in a function."""
    function = next((n for n in place.path()[::-1] if isinstance(n, cst.FunctionDef)), None)
    for node in walk(function, *LAZY) if function is not None else ():
        if node is not place.node and _same_operation(node, place.node):
            found = operands(SourceNode(place.block, node), count)
            if at < len(found) and found[at].one_line.replace(" ", "") == operand.one_line.replace(" ", ""):
                yield found[at]


def _same_operation(node: cst.CSTNode, other: cst.CSTNode) -> bool:
    if isinstance(node, cst.BinaryOperation) and isinstance(other, cst.BinaryOperation):
        return type(node.operator) is type(other.operator)
    return isinstance(node, cst.Call) and isinstance(other, cst.Call) and node.func.deep_equals(other.func)


def in_part(places: Sequence[SourceNode]) -> list[SourceNode]:
    """Where a variable is read; if only one part of it is, where that is: a mask has the shape of the part."""
    around = [SourceNode(place.block, place.path()[-2]) for place in places]
    parts = [a for a, place in zip(around, places, strict=True) if getattr(a.node, "value", None) is place.node]
    same = all(isinstance(part.node, cst.Subscript) and part.one_line == parts[0].one_line for part in parts)
    return parts if same and len(parts) == len(places) else [*places]
