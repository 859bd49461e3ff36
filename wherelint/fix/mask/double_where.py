"""Rewrites that may remove a hazard, the best first. Whether one does is for ``proof`` to say.

*The double where*: an operand of the operation, a variable of the arm, or an argument of the helper that holds the
operation, is masked with the condition under which the arm is selected. *The local guard*: where that condition cannot
be had at the operation, or reads its result, the operation is guarded by a condition on its own operand.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain

import libcst as cst

from wherelint.finding import Edit
from wherelint.fix import messages, spelling
from wherelint.fix.guard.local import Guards
from wherelint.fix.mask.conditions import Conditions, between
from wherelint.fix.mask.writing import Candidate, Mask, Writer
from wherelint.fix.syntax import (
    SourceNode,
    Spot,
    assigned,
    calls_within,
    condition,
    has_effects,
    may_move,
    names_within,
    operands,
    part_holding,
    root_name,
    source_node,
    spot_before,
    suite_around,
)
from wherelint.frameworks import framework_of
from wherelint.frontend.module import Module
from wherelint.graph.node import Node, topological
from wherelint.io.edits import Region
from wherelint.ops import OPERATIONS
from wherelint.ops.traits import MATRICES, SINGULAR
from wherelint.search.witness import Hazard

_Operands = list[tuple[SourceNode, tuple[float, ...]]]
_SAFE = (1.0, 0.0, 0.5, 2.0)
_MOST_PLACES = 6
_NAMES = {"multiply": "product", "index": "index", "reduction": "reduction", "assignment": "assignment"}
#: Nodes that neither combine elements nor move them.
_PLAIN = frozenset({"where", "cond", "identity", "stop"})


class Site:
    """A hazard in the file it is to be fixed in."""

    def __init__(
        self,
        module: Module,
        framework: str,
        hazard: Hazard,
        around: Sequence[Node],
        siblings: Iterable[Node],
    ) -> None:
        self.module = module
        self.framework = framework
        self.hazard = hazard
        #: The operations that the selection drops, this one among them.
        self._dropped = [(node, place) for node in siblings if (place := self._here(node)) is not None]
        self.op = self._here(hazard.op)
        self.select = self._here(hazard.select)
        #: The argument of the selection in which the operation is written, if it is.
        self.arm = part_holding(self.select, self.op) if self.select is not None and self.op is not None else None
        self.between = list(between(hazard.select, hazard.op))
        self._conditions = Conditions(module, hazard, self.between, around, self.op)

    def _here(self, node: Node) -> SourceNode | None:
        place = source_node(node)
        return place if place is not None and place.block.module is self.module else None

    def candidates(self, *, several: bool, apart: Sequence[Node] = ()) -> Iterator[Candidate]:
        """Rewrites, the best first.

        ``several``: the arm holds other hazards too. ``apart``: operations that have to go as well, and are neither
        computed from this one nor the other way: what is written at this one alone does not remove them.
        """
        return map(self._complete, self._candidates(several, apart))

    def _complete(self, candidate: Candidate) -> Candidate:
        """A rewrite with the import that it needs, if it does."""
        writer = self._writer
        if writer is None or not any(f"{writer.namespace}." in edit.content for edit in candidate.edits):
            return candidate
        return replace(candidate, edits=(*writer.needs, *candidate.edits))

    def _candidates(self, several: bool, apart: Sequence[Node]) -> Iterator[Candidate]:
        masks = list(self._conditions.masks())
        # A number in a variable may be one in a matrix.
        number = not any(n.op in MATRICES & SINGULAR for n in topological(self.hazard.select.inputs[1:]))
        places = [self._here(node) for node in apart]
        beyond = self.arm is not None and not all(place is not None and self.arm.holds(place) for place in places)
        variables = (c for mask in masks if number and not beyond for c in self._variables(mask))
        each = (c for mask in masks if number for c in self._each(mask))
        if several:
            yield from chain(variables, each)
        if self.op is not None and self._same_function and not apart:
            if self._mapped(self.op):  # the mask has the shape of the result, which an operand under vmap need not have
                yield from self.guards()
            for mask in masks:
                yield from self._masked(self.op, mask, self._operands(self.op))
            yield from each
        for mask in masks[:2] if number else ():
            for call in self._helpers():
                yield from self._masked(call, mask, [(p, _SAFE) for p in operands(call)[:_MOST_PLACES]])
        yield from variables
        if not apart:
            yield from self.guards()

    @staticmethod
    def _mapped(place: SourceNode) -> bool:
        """Whether a call is one of a function that another made: ``jax.vmap(f)(x)``."""
        return isinstance(place.node, cst.Call) and isinstance(place.node.func, cst.Call)

    @property
    def _same_function(self) -> bool:
        return bool(self.hazard.op.origin.function == self.hazard.select.origin.function)

    @cached_property
    def _writer(self) -> Writer | None:
        """How ``where`` is written; None where the file has no name for it, nor can have one."""
        where = next(spelling.wheres(self.module, self.framework, self.select, self.op), None)
        needs: tuple[Edit, ...] = ()
        if where is None and (missing := spelling.missing(self.module, self.framework)) is not None:
            where, needs = missing[0], (missing[1],)
        return Writer(where, self.framework, needs) if where is not None else None

    def guards(self) -> Iterator[Candidate]:
        """Local guards of the operation."""
        if self.op is not None and self._guards is not None:
            yield from self._guards.of(self.op)

    @cached_property
    def _guards(self) -> Guards | None:
        if self._writer is None:
            return None
        family = spelling.family(self.module, self.framework, self.select, self.op)
        return Guards(self.module, self.hazard, self._writer, family, self._alike)

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
        return chosen + [(p, _SAFE) for p in found if not any(p is known for known, _ in chosen)]  # they stop a nan too

    def _masked(self, around: SourceNode, mask: Mask, places: _Operands) -> Iterator[Candidate]:
        sure = self._elementwise(around is self.op) and not self._mapped(around)
        for operand, values in places:
            yield from filter(None, (self._double_where(mask, operand, value, sure) for value in values))

    def _double_where(self, mask: Mask, operand: SourceNode, value: float, sure: bool) -> Candidate | None:
        """A mask for an operand of an operation, and the value that stands where it is dropped."""
        if self._writer is None or isinstance(operand.node, cst.BaseNumber) or has_effects(operand.node):
            return None
        text = operand.text if operand.is_atom else operand.one_line
        spot = spot_before(operand) if mask.once or spelling.is_long(mask.text) else None
        bound = self._bound(mask, [operand], spot, named=True)
        if bound is None:
            return None
        test, lines, used = bound
        edits = (*_inserted(spot, lines), operand.replaced(self._writer.masked(test, text, value)), *used)
        what = messages.MASK_OPERAND.format(self._selection)
        return Candidate(edits, what, sure, slot=(mask.text, operand.region))

    def _bound(
        self, mask: Mask, places: Sequence[SourceNode], spot: Spot | None, *, named: bool
    ) -> tuple[Mask, str, list[Edit]] | None:
        """A mask for some places as it is, or by a name, the line at a spot that binds that, and the edit that reads it
        where it was written; None where its variables are others at the spot, or without one at the places.
        """
        if not all(mask.fits(place, spot) for place in places):
            return self._bound(mask.computed, places, spot, named=True) if mask.computed is not None else None
        if spot is None or not named or mask.text.replace(".", "").isidentifier():
            return None if mask.once else (mask, "", [])
        name = spelling.free_name(places[0], "valid" if mask.keeps else "invalid")
        written, used = mask.written, list[Edit]()
        before = spot_before(written) if written is not None else None
        if written is not None and before is not None and before.indent == spot.indent:
            inside = any(place.holds(written) for place in places)
            if not inside and spot.location <= before.location and may_move(written, written, spot.location):
                used = [written.replaced(name)]
        if mask.once and not used:
            return None  # it would be evaluated again
        return mask.named(name), spot.line(name, mask.text).content, used

    def _together(
        self, mask: Mask, places: Sequence[SourceNode], *, often: bool
    ) -> tuple[Spot | None, Mask, str, list[Edit]] | None:
        """Where a mask can be bound for several places, if lines can stand there, and as ``_bound`` has it."""
        first = min(places, key=lambda place: place.region)
        spot, suite = spot_before(first), suite_around(first)
        if spot is not None:
            below = all(spot_before(place) is not None and suite in place.path() for place in places)
            if not below:
                return None
        named = often or mask.once or spelling.is_long(mask.text)
        bound = self._bound(mask, places, spot, named=named)
        return None if bound is None else (spot, *bound)

    def _variables(self, mask: Mask) -> Iterator[Candidate]:
        """One mask for a variable wherever the arm, or the operations that are singular in it, read it."""
        for name, places in self.read.items():
            found = self._together(mask, places, often=False)
            if found is None or self._writer is None:
                continue
            spot, test, line, used = found
            if spot is not None and not all(may_move(place, place, spot.location) for place in places):
                continue  # it has another value there
            what = messages.MASK_VARIABLE.format(name, self._selection)
            for value in _SAFE:
                masked, lines = self._writer.masked(test, name, value), line
                if len(places) > 1 and spot is not None:
                    called = spelling.free_name(places[0], f"safe_{name}", f"masked_{name}")
                    lines += spot.line(called, masked).content
                    masked = called
                edits = (*_inserted(spot, lines), *(place.replaced(masked) for place in places), *used)
                yield Candidate(edits, what, self._elementwise(True), kind="arm", slot=(mask.text, *places))

    @cached_property
    def read(self) -> dict[str, list[SourceNode]]:
        """Where the arm reads each variable; if it is not written in the selection, where several operations that are
        dropped, this one among them, are singular in it.
        """
        known = {*self.module.imports, *self.module.definitions}
        if self.op is None:
            return {}
        if self.arm is not None:
            return {name: places for name, places in names_within(self.arm).items() if name not in known}
        found: dict[str, dict[Region, SourceNode]] = {}
        for operand, _ in self._singular():
            for name, places in names_within(operand).items() if operand.block is self.op.block else ():
                found.setdefault(name, {}).update({place.region: place for place in places})
        several = {name: [*places.values()] for name, places in found.items() if len(places) > 1 and name not in known}
        return {name: places for name, places in several.items() if any(map(self.op.holds, places))}

    def _singular(self) -> Iterator[tuple[SourceNode, float]]:
        """The operands that the dropped operations are singular in, each with a number that is safe for it."""
        for node, place in self._dropped:
            safe = () if node.op in MATRICES else OPERATIONS[node.op].safe
            for operand, value in zip(operands(place, len(node.inputs)), safe, strict=False):
                if value is not None and not isinstance(operand.node, cst.BaseNumber):
                    yield operand, value

    def _each(self, mask: Mask) -> Iterator[Candidate]:
        """One mask for every operation that the selection drops, each in the operand that it is singular in."""
        found = {operand.region: (operand, value) for operand, value in self._singular()}
        inner = [(o, v) for o, v in found.values() if not any(o is not p and o.holds(p) for p, _ in found.values())]
        places = [operand for operand, _ in found.values()]
        if len(places) < 2 or any(has_effects(place.node) for place in places) or self._writer is None:
            return
        bound = self._together(mask, places, often=True)
        if bound is None:
            return
        spot, test, line, used = bound
        for chosen in (inner, [*found.values()]) if len(inner) < len(found) else (inner,):
            edits = list[Edit]()
            for operand, value in sorted(chosen, key=lambda pair: len(pair[0].text)):
                start, end = operand.region
                inside = [edit for edit in edits if start <= edit.location and edit.end_location <= end]
                content = self._writer.masked(test, operand.edited(inside), value)
                edits = [*(edit for edit in edits if edit not in inside), operand.replaced(content)]
            what = messages.MASK_OPERANDS.format(self._selection)
            yield Candidate((*_inserted(spot, line), *edits, *used), what, self._elementwise(True), kind="arm")

    @property
    def _selection(self) -> str:
        kind = self.hazard.select.selection or "selection"
        return _NAMES.get(kind, f"`{kind}`")

    def _helpers(self) -> list[SourceNode]:
        """Calls in the dropped arm, or in what it was computed from, in which the operation may lie."""
        found: list[SourceNode] = []
        known = [p.node for p in (self.op, self.select) if p is not None]
        test = condition(self.hazard.select)
        tested = test.region if test is not None and test.block.module is self.module else None
        places = [self._here(node) for node in (self.hazard.select, *self.between)]
        for place in [*places, *self._assigned_before()]:
            for call in calls_within(place) if place is not None else ():
                if tested is not None and tested[0] <= call.region[0] <= tested[1]:
                    continue
                function = call.node.func if isinstance(call.node, cst.Call) else None
                base = root_name(function) if isinstance(function, (cst.Name, cst.Attribute)) else ""
                ours = framework_of(self.module.imports.get(base, "")) is None
                if ours and not any(call.node is n for n in known):
                    known.append(call.node)
                    found.append(call)
        return found[:_MOST_PLACES]

    def _assigned_before(self) -> Iterator[SourceNode]:
        """What the variables of the selection were given, where the operation lies in another function."""
        if self.select is None or self._same_function:
            return
        below = {self.hazard.op, *self.between}
        values = self.hazard.select.inputs[1:]
        arms = operands(self.select, len(values) + 1)[1:] if self.hazard.select.op == "where" else []
        for arm in (arm for arm, node in zip(arms, values, strict=False) if node in below):
            yield from filter(None, (assigned(name, self.select) for name in names_within(arm)))

    def _elementwise(self, with_op: bool) -> bool:
        """Whether the mask meets the selection with nothing between that changes the shape."""
        nodes = [self.hazard.op, *self.between] if with_op else self.between
        plain = (n.op in _PLAIN or (n.op in OPERATIONS and not OPERATIONS[n.op].mixes) for n in nodes)
        return all(plain) and not any(n.static.spread for n in nodes)


def _inserted(spot: Spot | None, lines: str) -> list[Edit]:
    return [Edit(lines, spot.location, spot.location)] if spot is not None and lines else []
