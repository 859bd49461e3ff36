"""The conditions that a hazard can be masked with, as the file has them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from wherelint.fix import spelling
from wherelint.fix.mask.writing import Mask
from wherelint.fix.syntax import SourceNode, condition, has_effects, may_be_none, source_node
from wherelint.fix.verify.dtypes import is_number
from wherelint.fix.verify.shapes import Shapes
from wherelint.frontend.module import Module
from wherelint.graph.node import Node, differentiable_inputs, leaves
from wherelint.search.witness import Hazard

_NAMED, _CALLED = re.compile(r"~?[^\W\d]\w*"), re.compile(r"~?[^\W\d][\w.]*\([^()]*\)")
_EXPRESSIONS = (cst.Comparison, cst.UnaryOperation, cst.BinaryOperation, cst.Call)


@dataclass(frozen=True)
class Conditions:
    """The conditions around a hazard."""

    module: Module
    hazard: Hazard
    #: The nodes between the operation and the selection.
    between: Sequence[Node]
    #: Selections further out over the same operation.
    around: Sequence[Node]
    #: Where the operation is written, if in this file.
    op: SourceNode | None

    def masks(self) -> Iterator[Mask]:
        """The condition as it is written at the selection, those of selections inside, and all of them together."""
        drops = self.hazard.select
        inner = self._of(drops, {self.hazard.op, *self.between})
        if inner is None:
            return
        place = source_node(drops.inputs[0]) if drops.op in ("where", "compress", "cond") else None
        computed = place if place is not None and place.block.module is self.module else None
        named = inner.written is not None and isinstance(inner.written.node, cst.Name)
        expression = computed is not None and isinstance(computed.node, _EXPRESSIONS)
        if computed is not None and named and expression and not has_effects(computed.node, self.module):
            inner = replace(inner, computed=Mask(computed.one_line, inner.keeps, parts=(computed,)))
        yield inner
        if drops.op == "compress" and inner.computed is not None:
            yield inner.computed  # the name may be one of positions
        inside = [n for n in self.between if n.op == "where" and n.selection is not None]
        ways = [(n, {self.hazard.op, *between(n, self.hazard.op)}) for n in inside]
        for select, below in sorted(ways, key=lambda way: len(way[1])):
            yield from filter(None, [self._of(select, below)])  # it drops the operation, too
        path = [inner]
        for outer in self.around:
            if (mask := self._of(outer, {drops, *between(outer, drops)})) is not None:
                path.append(mask)
        terms = dict.fromkeys(_atom(m.text) if m.keeps else spelling.negated(m.text, atom=True) for m in reversed(path))
        if len(terms) > 1 and not any(mask.once for mask in path):
            yield Mask(" & ".join(terms), True, parts=tuple(part for m in path for part in m.parts))

    def _of(self, select: Node, below: set[Node]) -> Mask | None:
        place = condition(select)
        if place is None or place.block.module is not self.module or has_effects(place.node):
            return None
        once, product = has_effects(place.node, self.module), select.selection == "multiply"
        test = select.inputs[1 - select.static.operand if product else 0]
        reduced = select.selection == "reduction"
        if Shapes().misplaced(test, self.hazard.op, below) or may_be_none(place, self.op, asked=reduced):
            return None
        if product:
            return None if once else _factor(place, test)
        keeps = select.op != "where" or select.inputs[2] not in below
        if select.op == "cond":
            keeps = not below.isdisjoint([select.inputs[1], *select.inputs[3 : 3 + select.static.index]])
        apart = set(leaves(self.hazard.op)).isdisjoint(leaves(test))
        return Mask(place.one_line, keeps, place, once, (place,), python=apart)


def between(select: Node, op: Node) -> Iterator[Node]:
    """The nodes on the ways from an operation to the selection that drops it, without these two."""
    reads: dict[Node, bool] = {op: True}
    stack = [(select, False)]
    while stack:
        node, done = stack.pop()
        operands = [node.inputs[i] for i in differentiable_inputs(node)]
        if done:
            reads[node] = any(reads.get(o, False) for o in operands)
        elif node not in reads:
            reads[node] = False
            stack.append((node, True))
            stack += [(o, False) for o in operands]
    return (node for node, reading in reads.items() if reading and node is not op and node is not select)


def _factor(place: SourceNode, factor: Node) -> Mask:
    """The mask of a product: its booleans, if need be those that were converted; numbers are compared with 0."""
    mask = factor
    while mask.static.number:
        mask = mask.inputs[0]
    if not is_number(mask):
        if mask is factor:
            return Mask(place.one_line, True, place, parts=(place,))
        within = source_node(mask)
        if within is not None and within.block is place.block and any(n is place.node for n in within.path()):
            return Mask(within.one_line, True, parts=(within,))
    return Mask(f"{place.atom} != 0", True, parts=(place,))


def _atom(text: str) -> str:
    """A condition as it can stand beside an operator: in parentheses, unless it is a name or a plain call."""
    return text if _NAMED.fullmatch(text) or _CALLED.fullmatch(text) else f"({text})"
