"""The conditions that a hazard can be masked with, as the file has them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import libcst as cst
import numpy as np

from wherelint.fix import spelling
from wherelint.fix.assignments import already_named
from wherelint.fix.mask.writing import Mask, atom
from wherelint.fix.syntax import SourceNode, condition, has_effects, operands, optional_names, source_node
from wherelint.fix.verify.dtypes import is_number
from wherelint.fix.verify.shapes import misplaced
from wherelint.frontend.module import Module
from wherelint.graph.differentiate import fails
from wherelint.graph.evaluate import evaluate
from wherelint.graph.node import Const, Node, differentiable_inputs, leaves
from wherelint.search.witness import Hazard

#: An order of two variables, and the opposite of one that may hold of equal ones.
_COMPARED, _OPPOSITE = re.compile(r"\(([\w.]+) ([<>]) ([\w.]+)\)"), re.compile(r"~\(([\w.]+) ([<>])=? ([\w.]+)\)")
#: By whether it keeps the operation: the orders that admit a bound, each as what drops it with the rest.
_STRICT: dict[bool, dict[type[cst.CSTNode], str]] = {
    True: {cst.GreaterThanEqual: ">", cst.LessThanEqual: "<"},
    False: {cst.GreaterThan: ">=", cst.LessThan: "<="},
}
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
        """The masks, each by the name that the author gave it before the operation, and as it is written."""
        for mask in self._written():
            name = None if self.op is None or mask.once else already_named(mask.text, self.op)
            yield from (mask,) if name is None else (mask.named(name), mask)

    def _written(self) -> Iterator[Mask]:
        """The condition as it is written at the selection, as it was computed, and with those of selections around."""
        drops = self.hazard.select
        inner = self.innermost
        if inner is None:
            return
        yield from filter(None, [self._strict(inner)])
        yield inner
        place = source_node(drops.inputs[0]) if drops.op in ("where", "compress", "cond") else None
        computed = place if place is not None and place.block.module is self.module else None
        named = inner.written is not None and isinstance(inner.written.node, cst.Name) and not inner.optional
        if computed is not None and named and isinstance(computed.node, _EXPRESSIONS) and self._pure(computed):
            later = next((n for n in computed.path()[::-1] if isinstance(n, (cst.Assign, cst.AnnAssign))), None)
            whole = later is not None and later.value is computed.node
            named_later = SourceNode(computed.block, later) if later is not None and whole else None
            yield Mask(computed.one_line, inner.keeps, parts=(computed,), later=named_later)
        inside = [n for n in self.between if n.op == "where" and n.selection is not None]
        ways = [(n, {self.hazard.op, *between(n, self.hazard.op)}) for n in inside]
        for select, below in sorted(ways, key=lambda way: len(way[1])):
            yield from filter(None, [self._of(select, below)])  # it drops the operation, too
        path = [inner]
        for outer in self.around:
            if (mask := self._of(outer, {drops, *between(outer, drops)})) is not None:
                path.append(mask)
        given = [atom(m.text) if m.keeps else spelling.negated(m.text, atom=True) for m in reversed(path)]
        terms = dict.fromkeys(term for term in given if not any(_implies(other, term) for other in given))
        if len(terms) > 1 and not any(mask.once or mask.optional for mask in path):
            yield Mask(" & ".join(terms), True, parts=tuple(part for m in path for part in m.parts))

    def _strict(self, mask: Mask) -> Mask | None:
        """The order of the operand and a bound that admits it, without the bound, where the operation is singular."""
        written = mask.written
        if self.op is None or mask.optional or written is None or not isinstance(written.node, cst.Comparison):
            return None
        left, (first, *others) = written.node.left, written.node.comparisons
        strict = _STRICT[mask.keeps].get(type(first.operator))
        operand = operands(self.op, len(self.hazard.op.inputs))[:1]
        if strict is None or others or not any(part.node.deep_equals(left) for part in operand):
            return None
        bounds = [n for n in self.hazard.select.inputs[0].inputs if isinstance(n, Const)]
        if not bounds or not _breaks_at(self.hazard.op, bounds[-1]):
            return None
        sides = [SourceNode(written.block, side).one_line for side in (left, first.comparator)]
        return replace(mask, text=f" {strict} ".join(sides), stricter=True)

    @property
    def innermost(self) -> Mask | None:
        """The mask of the selection that drops the operation."""
        return self._of(self.hazard.select, {self.hazard.op, *self.between})

    def _pure(self, place: SourceNode) -> bool:
        """Whether an expression may be evaluated again."""
        return not has_effects(place.node, self.module)

    def _of(self, select: Node, below: set[Node]) -> Mask | None:
        place = condition(select)
        if place is None or place.block.module is not self.module or has_effects(place.node):
            return None
        optional = optional_names(place, self.op, takes_none=select.selection == "reduction")
        once, product = not self._pure(place), select.selection == "multiply"
        if len(optional) > 1 or misplaced(
            select.inputs[1 - select.static.operand if product else 0], self.hazard.op, below
        ):
            return None
        mask: Mask | None
        if product:
            mask = None if once else _factor(place, select.inputs[1 - select.static.operand])
        else:
            keeps = select.op != "where" or select.inputs[2] not in below
            if select.op == "cond":
                keeps = not below.isdisjoint([select.inputs[1], *select.inputs[3 : 3 + select.static.index]])
            apart = set(leaves(self.hazard.op)).isdisjoint(leaves(select.inputs[0]))
            mask = Mask(place.one_line, keeps, place, once, (place,), python=apart)
        return replace(mask, optional=optional[0]) if optional and mask is not None else mask


def _breaks_at(op: Node, bound: Const) -> bool:
    """Whether an operation is singular in its first operand at a number, whatever else it reads."""
    first, *others = op.inputs
    if not all(isinstance(n, Const) for n in others):
        return False
    values = evaluate([*others, op], {}, known={first: bound.value.astype(np.float32)})
    return bool(fails(op, values, "", {op, first}).any())


def _implies(term: str, other: str) -> bool:
    """Whether a comparison makes the opposite of another one hold: ``x < y`` that of ``x > y``."""
    one, opposite = _COMPARED.fullmatch(term), _OPPOSITE.fullmatch(other)
    return bool(one and opposite and one.group(1, 3) == opposite.group(1, 3) and one[2] != opposite[2])


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
