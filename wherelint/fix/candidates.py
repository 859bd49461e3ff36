"""Rewrites that may remove a hazard, the best first. Whether one does is for ``proof`` to say.

*The double where*: an operand of the operation, a variable of the arm, or an argument of the helper that holds the
operation, is masked with the condition under which the arm is selected. *The local guard*: where that condition cannot
be had at the operation, or reads its result, the operation is guarded by a condition on its own operand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import libcst as cst
import numpy as np

from wherelint.finding import Edit
from wherelint.fix import spelling
from wherelint.fix.domains import tests_of
from wherelint.fix.proof import is_number
from wherelint.fix.syntax import (
    SourceNode,
    Spot,
    already_named,
    calls_within,
    condition,
    has_effects,
    may_be_none,
    may_move,
    names_within,
    operands,
    part_holding,
    root_name,
    source_node,
    spot_before,
)
from wherelint.frameworks import framework_of
from wherelint.frontend.module import Module
from wherelint.graph.node import Leaf, Node, differentiable_inputs, leaves, topological
from wherelint.graph.search import Hazard
from wherelint.ops import OPERATIONS
from wherelint.ops.catalogue import Domain
from wherelint.ops.traits import CLIPS, FINITE_TESTS

_Operands = list[tuple[SourceNode, tuple[float, ...]]]
_SAFE = (1.0, 0.0, 0.5, 2.0)
_MOST_PLACES, _MOST_TOGETHER = 6, 3
#: An operand, or a condition, no longer than this is repeated rather than given a name, if the line fits.
_SHORT, _LONG, _WIDE = 16, 24, 100
_NAMES = {"multiply": "product", "index": "index", "reduction": "reduction", "assignment": "assignment"}
_EXPRESSIONS = (cst.Comparison, cst.UnaryOperation, cst.BinaryOperation, cst.Call)
#: Nodes that neither combine elements nor move them.
_PLAIN = frozenset({"where", "cond", "identity", "stop"})


@dataclass(frozen=True)
class Candidate:
    """Edits to one file, and what they do in one sentence."""

    edits: tuple[Edit, ...]
    message: str
    #: Whether everything between the masked operand and the selection is elementwise.
    elementwise: bool
    #: A mask of one operand, one of a variable that is meant to remove every finding of the "arm", or a local "guard".
    kind: Literal["mask", "arm", "guard"] = "mask"
    #: Whether the operation has another value where the guard does not hold, for whoever reads it.
    alone: bool = False


@dataclass(frozen=True)
class Mask:
    """A condition of the file, and whether the operation is selected where it holds or where it does not."""

    text: str
    keeps: bool
    #: Where it is written, if it can be replaced by a name.
    written: SourceNode | None = None
    #: Whether it may be evaluated no more than once: it has to be given a name.
    once: bool = False
    #: The expressions that it is made of.
    parts: tuple[SourceNode, ...] = ()
    #: Whether it may be a bool of Python, whose ``~`` is another number.
    python: bool = False

    def fits(self, place: SourceNode, spot: Spot | None) -> bool:
        """Whether its variables have the same values at a place, or where a line of its own can stand before that."""
        return all(may_move(part, place, spot.location if spot else place.region[0]) for part in self.parts)

    @property
    def opposite(self) -> str:
        """Its opposite: not the opposite comparison, for nan is in no order."""
        return spelling.negated(self.text)

    def named(self, name: str) -> Mask:
        """The mask by the name that it was given."""
        return Mask(name, self.keeps, python=self.python)


class Site:
    """A hazard in the file it is to be fixed in."""

    def __init__(
        self, module: Module, framework: str, hazard: Hazard, around: Sequence[Node], siblings: Sequence[Node]
    ) -> None:
        self.module = module
        self.framework = framework
        self.hazard = hazard
        #: Selections further out over the same operation.
        self.around = around
        #: The operations that the selection drops, this one among them.
        self.siblings = [place for node in siblings if (place := self._here(node)) is not None]
        self.op = self._here(hazard.op)
        self.select = self._here(hazard.select)
        #: The argument of the selection in which the operation is written, if it is.
        self.arm = part_holding(self.select, self.op) if self.select is not None and self.op is not None else None
        self.between = list(_between(hazard.select, hazard.op))

    def _here(self, node: Node) -> SourceNode | None:
        place = source_node(node)
        return place if place is not None and place.block.module is self.module else None

    def candidates(self, *, several: bool) -> Iterator[Candidate]:
        """Rewrites, the best first. ``several``: the arm holds other hazards too."""
        masks = [m for mask in self._masks() for m in (self._known(mask), mask) if m is not None]
        if len(self.siblings) > 1:
            masks.sort(key=lambda mask: mask.written is not None)  # one mask for all of them: the whole path
        together = [c for mask in masks for c in self._variables(mask)]
        yield from together if several else ()
        if self.op is not None and self._same_function:
            if self._mapped(self.op):  # the mask has the shape of the result, which an operand under vmap need not have
                yield from self._guarded(self.op)
            for mask in masks:
                yield from self._masked(self.op, mask, self._operands(self.op))
        for mask in masks[:2]:
            for call in self._helpers():
                yield from self._masked(call, mask, [(p, _SAFE) for p in operands(call)[:_MOST_PLACES]])
        yield from () if several else together
        if self.op is not None:
            yield from self._guarded(self.op)
        for mask in masks:
            yield from self._variables(mask, together=True)

    @staticmethod
    def _mapped(place: SourceNode) -> bool:
        """Whether a call is one of a function that another made: ``jax.vmap(f)(x)``."""
        return isinstance(place.node, cst.Call) and isinstance(place.node.func, cst.Call)

    @property
    def _same_function(self) -> bool:
        return bool(self.hazard.op.origin.function == self.hazard.select.origin.function)

    @cached_property
    def _wheres(self) -> list[str]:
        """How ``where`` is spelled; empty where the file has no name for it."""
        return [*spelling.wheres(self.module, self.framework, self.select, self.op)][:1]

    # -- the double where -----------------------------------------------------------------------------------------

    def _masks(self) -> Iterator[Mask]:
        """The condition as it is written at the selection, as it was computed, and with those of selections around."""
        select = self.hazard.select
        inner = self._mask_of(select, {self.hazard.op, *self.between})
        if inner is None:
            return
        yield inner
        computed = self._here(select.inputs[0]) if select.op in ("where", "compress") else None
        named = inner.written is not None and isinstance(inner.written.node, cst.Name)
        if computed is not None and named and isinstance(computed.node, _EXPRESSIONS) and self._pure(computed):
            yield Mask(computed.one_line, inner.keeps, parts=(computed,))
        path = [inner]
        for outer in self.around:
            if (mask := self._mask_of(outer, {select, *_between(outer, select)})) is not None:
                path.append(mask)
        if len(path) > 1 and not any(mask.once for mask in path):
            terms = [_atom(m.text) if m.keeps else spelling.negated(m.text, atom=True) for m in reversed(path)]
            yield Mask(" & ".join(terms), True, parts=tuple(part for m in path for part in m.parts))

    def _pure(self, place: SourceNode) -> bool:
        """Whether an expression may be evaluated again."""
        return not has_effects(place.node, self.module)

    def _known(self, mask: Mask) -> Mask | None:
        """The mask by a name that the author gave the condition before the operation."""
        name = None if self.op is None or mask.once else already_named(mask.text, self.op)
        return None if name is None else mask.named(name)

    def _mask_of(self, select: Node, below: set[Node]) -> Mask | None:
        place = condition(select)
        if place is None or place.block.module is not self.module or has_effects(place.node) or may_be_none(place):
            return None
        once = not self._pure(place)
        if select.selection == "multiply":
            return None if once else self._factor(place, select.inputs[1 - select.static.operand])
        keeps = select.op != "where" or select.inputs[2] not in below
        apart = set(leaves(self.hazard.op)).isdisjoint(leaves(select.inputs[0]))
        return Mask(place.one_line, keeps, place, once, (place,), python=apart)

    @staticmethod
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

    def _alike(self, operand: int, values: Iterable[float]) -> tuple[float, ...]:
        """Numbers that leave an operand the dtype that it has: integers for integers."""
        if self.hazard.op.inputs[operand].kind != "int":
            return tuple(values)
        return tuple(int(value) for value in values if value == int(value))

    def _operands(self, place: SourceNode) -> _Operands:
        """The operands worth masking, with the values that are safe for them."""
        entry = OPERATIONS[self.hazard.op.op]
        found = operands(place, len(self.hazard.op.inputs))
        chosen = [
            (found[i], self._alike(i, dict.fromkeys([safe, *_SAFE])))
            for i, safe in enumerate(entry.safe)
            if safe is not None and len(found) >= len(entry.safe)
        ]
        chosen += [(p, _SAFE) for p in found if not any(p is known for known, _ in chosen)]  # they stop a nan as well
        missing = {n.name for n, v in self.hazard.inputs.items() if isinstance(n, Leaf) and not np.isfinite(v).all()}
        return sorted(chosen, key=lambda pair: pair[0].one_line not in missing)

    def _masked(self, around: SourceNode, mask: Mask, places: _Operands) -> Iterator[Candidate]:
        for where in self._wheres:
            for operand, values in places:
                if not isinstance(operand.node, cst.BaseNumber) and not has_effects(operand.node):
                    for value in values:
                        sure = self._elementwise(around is self.op) and not self._mapped(around)
                        if (candidate := self._double_where(where, mask, operand, value, sure)) is not None:
                            yield candidate

    def _double_where(self, where: str, mask: Mask, operand: SourceNode, value: float, sure: bool) -> Candidate | None:
        what = f"mask the operand with the condition of the {self._selection}"
        edit = operand.replaced(self._where(where, mask, operand.text, value))
        spot = self._spot_for(operand)
        before = spot_before(mask.written) if mask.written is not None else None
        row = operand.source.lines[operand.region[0].row - 1]
        several = len(self.siblings) > 1 and len({p.region[0].row for p in self.siblings}) > 1
        long = several or mask.once or len(mask.text) > _LONG or len(row) + len(edit.content) > _WIDE
        apart = spot is None or before is None or spot.indent != before.indent
        if mask.once and apart:
            return None  # it would be evaluated again
        inline = spot is None or not long or re.fullmatch(r"[\w.]+", mask.text)
        if not mask.fits(operand, None if inline else spot):
            return None
        if spot is None or inline:
            return Candidate((edit,), what, sure)
        name = spelling.free_name("mask", operand)
        edits = [
            spot.line(name, mask.text),
            operand.replaced(self._where(where, mask.named(name), operand.text, value)),
        ]
        if mask.written is not None and not apart:
            edits.append(mask.written.replaced(name))
        return Candidate(tuple(edits), what, sure)

    def _spot_for(self, operand: SourceNode) -> Spot | None:
        """Where a mask can be bound for every operation that the selection drops, or else for this one."""
        own = spot_before(operand)
        spots = [spot_before(place) for place in self.siblings if place.block is operand.block]
        first = min((s for s in spots if s is not None), key=lambda s: s.location, default=own)
        return first if own and first and first.indent == own.indent and first.location < own.location else own

    def _variables(self, mask: Mask, *, together: bool = False) -> Iterator[Candidate]:
        """One mask for a variable wherever the arm reads it; ``together``: for every variable that the arm reads."""
        arm = self.arm
        if arm is None or mask.once or not self._wheres:
            return
        known = (*self.module.imports, *self.module.definitions)
        read = {name: places for name, places in names_within(arm).items() if name not in known}
        spot = spot_before(arm)
        if not mask.fits(arm, spot):
            return
        groups = [[name] for name in read]
        if together:
            groups = [list(read)] if spot is not None and 1 < len(read) <= _MOST_TOGETHER else []
        for names in groups:
            what = f"mask `{'`, `'.join(names)}` with the condition of the {self._selection}"
            for value in _SAFE:
                edits: list[Edit] = []
                lines = ""
                for name in names:
                    masked = self._where(self._wheres[0], mask, name, value)
                    named = spot is not None and (len(names) > 1 or len(read[name]) > 1)
                    safe = spelling.free_name(f"safe_{name}", arm) if named else masked
                    lines += spot.line(safe, masked).content if named and spot is not None else ""
                    edits += [p.replaced(safe) for p in read[name]]
                if lines and spot is not None:
                    edits.insert(0, Edit(lines, spot.location, spot.location))
                yield Candidate(tuple(edits), what, self._elementwise(True), kind="arm")

    @property
    def _selection(self) -> str:
        kind = self.hazard.select.selection or "selection"
        return _NAMES.get(kind, f"`{kind}`")

    def _where(self, where: str, mask: Mask, operand: str, value: str | float) -> str:
        if mask.keeps:
            return f"{where}({mask.text}, {operand}, {value})"
        if self.framework == "tensorflow":  # the number takes the dtype of the tensor before it
            inverted = f"{where.rpartition('.')[0]}.logical_not({mask.text})"
            return f"{where}({inverted if mask.python else mask.opposite}, {operand}, {value})"
        return f"{where}({mask.text}, {value}, {operand})"

    def _helpers(self) -> list[SourceNode]:
        """Calls in the dropped arm, or in what it was computed from, in which the operation may lie."""
        found: list[SourceNode] = []
        known = [p.node for p in (self.op, self.select) if p is not None]
        for node in (self.hazard.select, *self.between):
            place = self._here(node)
            for call in calls_within(place) if place is not None else ():
                function = call.node.func if isinstance(call.node, cst.Call) else None
                base = root_name(function) if isinstance(function, (cst.Name, cst.Attribute)) else ""
                ours = framework_of(self.module.imports.get(base, "")) is None
                if ours and not any(call.node is n for n in known):
                    known.append(call.node)
                    found.append(call)
        return found[:_MOST_PLACES]

    def _elementwise(self, with_op: bool) -> bool:
        """Whether the mask meets the selection with nothing between that changes the shape."""
        nodes = [self.hazard.op, *self.between] if with_op else self.between
        plain = (n.op in _PLAIN or (n.op in OPERATIONS and not OPERATIONS[n.op].mixes) for n in nodes)
        return all(plain) and not any(n.static.spread for n in nodes)

    # -- the local guard ------------------------------------------------------------------------------------------

    def guards(self) -> Iterator[Candidate]:
        """Local guards of the operation."""
        return self._guarded(self.op) if self.op is not None else iter(())

    def _guarded(self, place: SourceNode) -> Iterator[Candidate]:
        found = operands(place, len(self.hazard.op.inputs))
        if not self._wheres or not isinstance(place.node, (cst.Call, cst.BinaryOperation)):
            return
        if self.hazard.op.op in ("std", "std_unbiased"):
            yield from self._guarded_deviation(place)
        for guard in OPERATIONS[self.hazard.op.op].domains:
            if guard.operand < len(found):
                yield from self._by_domain(place, found, guard)

    def _by_domain(self, place: SourceNode, found: list[SourceNode], guard: Domain) -> Iterator[Candidate]:
        where, namespace = self._wheres[0], self._wheres[0].rpartition(".")[0]
        operand = found[guard.operand]
        once = not self._pure(operand)
        short = isinstance(operand.node, cst.Name) or (len(operand.one_line) <= _SHORT and not once)
        spot = None if short else spot_before(place)
        if once and spot is None:
            return  # it would be evaluated again and again
        name = operand.one_line if spot is None else spelling.free_name(guard.name, place)
        lines = [] if spot is None else [spot.line(name, operand.one_line)]
        atom = name if spot is not None else operand.atom
        terms = {"x": atom, "y": found[1 - guard.operand].atom if len(found) > 1 else "", "namespace": namespace,
                 "inf": spelling.infinity(namespace, self.framework)}  # fmt: skip
        tests = tests_of(guard, spelling.family(self.module, self.framework, self.select, self.op), place, terms)
        if tests is None:
            return
        what = "guard the operation where it is singular"
        safe = next(iter(self._alike(guard.operand, [float(guard.safe)])), None)
        if safe is None:
            return  # no integer is
        inner = self._where(where, Mask(tests.inner, guard.keeps), name, safe)
        sure = not guard.reduces and (guard.exact or self._bounded)
        alone = Candidate((*lines, operand.replaced(inner)), what, sure, kind="guard", alone=True)
        if not guard.finite or not guard.outside:
            yield alone
        # That an operation is nan is worth keeping only where something asks for it.
        asked = any(n.op in FINITE_TESTS for n in topological(self.hazard.select.inputs[:1]))
        outsides = [outside.format(**terms) for outside in guard.outside if asked or "nan" not in outside]
        stopped = spelling.without_gradient(name, self.framework, self.module, namespace)
        outsides += [_within(place, operand, stopped)] if stopped else []
        for outside in outsides:
            sure = not guard.reduces and (guard.exact or (outside is outsides[-1] and bool(stopped)))
            outer = Mask(tests.outer, guard.keeps)
            guarded = self._where(where, outer, _within(place, operand, inner), outside)
            if len(guarded) > _WIDE and tests.outer == tests.inner and (before := spot or spot_before(place)):
                mask = outer.named(spelling.free_name("regular" if guard.keeps else "singular", place))
                inside = _within(place, operand, self._where(where, mask, name, safe))
                whole = place.replaced(self._where(where, mask, inside, outside))
                line = before.line(mask.text, tests.outer)
                first = [Edit(lines[0].content + line.content, line.location, line.end_location)] if lines else [line]
                yield Candidate((*first, whole), what, sure, kind="guard")
            else:
                yield Candidate((*lines, place.replaced(guarded)), what, sure, kind="guard")
        if guard.finite and guard.outside:
            yield alone

    @property
    def _bounded(self) -> bool:
        """Whether the selection is a clip onto numbers, which drops whatever is nearly infinite."""
        select, op = self.hazard.select, self.hazard.op
        return select.selection in CLIPS and all(n.op == "const" or op in topological([n]) for n in select.inputs)

    def _guarded_deviation(self, place: SourceNode) -> Iterator[Candidate]:
        """A deviation as the square root of a variance that is not 0."""
        namespace = self._wheres[0].rpartition(".")[0]
        function = place.node.func if isinstance(place.node, cst.Call) else None
        spot = spot_before(place)
        if spot is None or not isinstance(function, cst.Attribute) or function.attr.value not in _VARIANCE:
            return
        variance = _within(place, SourceNode(place.block, function.attr), _VARIANCE[function.attr.value])
        name = spelling.free_name("variance", place)
        inner = f"{namespace}.sqrt({self._wheres[0]}({name} != 0, {name}, 1.0))"
        what = "guard the square root where the variance is 0"
        for content in (f"{self._wheres[0]}({name} != 0, {inner}, 0.0)", inner):
            edits = (spot.line(name, variance), place.replaced(content))
            yield Candidate(edits, what, True, kind="guard", alone=content is inner)


_VARIANCE = {"std": "var", "reduce_std": "reduce_variance"}


def _within(whole: SourceNode, part: SourceNode, content: str) -> str:
    """The text of an expression with something else for one part of it."""
    start, _ = whole.block.region(whole.node)
    a, b = (whole.source.offset(p) - whole.source.offset(start) for p in part.region)
    left, right = whole.text[:a], whole.text[b:]
    if "\n" not in content and "#" not in left + right:  # what was broken to fit may fit now
        left, right = re.sub(r"\(\s*\n\s*$", "(", left), re.sub(r"^,?\s*\n\s*\)", ")", right)
    return f"{left}{content}{right}"


def _atom(text: str) -> str:
    return text if text.isidentifier() or (text.startswith("~") and text[1:].isidentifier()) else f"({text})"


def _between(select: Node, op: Node) -> Iterator[Node]:
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
