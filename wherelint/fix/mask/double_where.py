"""Rewrites that may remove a hazard, the best first. Whether one does is for ``proof`` to say.

*The double where*: an operand of the operation, a variable of the arm, or an argument of the helper that holds the
operation, is masked with the condition under which the arm is selected. *The local guard*: where that condition cannot
be had at the operation, or reads its result, the operation is guarded by a condition on its own operand.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import libcst as cst
import numpy as np

from wherelint.finding import Edit
from wherelint.fix import messages, spelling
from wherelint.fix.alike import alike, in_part
from wherelint.fix.assignments import already_named, assigned, moved
from wherelint.fix.guard.local import Guards
from wherelint.fix.mask.conditions import Conditions, between
from wherelint.fix.mask.writing import Candidate, Mask, Writer, named_before
from wherelint.fix.syntax import (
    SourceNode,
    Spot,
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
from wherelint.graph.node import Leaf, Node, topological
from wherelint.io.edits import Region
from wherelint.ops import OPERATIONS
from wherelint.ops.traits import MATRICES, SINGULAR
from wherelint.search.witness import Hazard

_Operands = list[tuple[SourceNode, tuple[float | str, ...]]]
_SAFE = (1.0, 0.0, 0.5, 2.0)
_MOST_PLACES = 6
_SIMPLE = r"[\w.]+"
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
        siblings: Mapping[Node, bool],
    ) -> None:
        self.module = module
        self.framework = framework
        self.hazard = hazard
        #: The operations that the selection drops, this one among them; beside it stand those that are fixed as well.
        self._dropped = [(node, place) for node in siblings if (place := self._here(node)) is not None]
        self.siblings = [place for _, place in self._dropped]
        self._beside = [place for node, place in self._dropped if siblings[node]]
        self.op = self._here(hazard.op)
        self.select = self._here(hazard.select)
        #: The argument of the selection in which the operation is written, if it is.
        self.arm = part_holding(self.select, self.op) if self.select is not None and self.op is not None else None
        self.between = list(between(hazard.select, hazard.op))
        self._conditions = Conditions(module, hazard, self.between, around, self.op)

    def _here(self, node: Node) -> SourceNode | None:
        place = source_node(node)
        return place if place is not None and place.block.module is self.module else None

    def candidates(self, *, several: bool) -> Iterator[Candidate]:
        """Rewrites, the best first. ``several``: the arm holds other hazards too."""
        return map(self._complete, self._candidates(several=several))

    def _complete(self, candidate: Candidate) -> Candidate:
        """A rewrite with the import that it needs, if it does."""
        writer = self._writer
        if writer is None or not any(f"{writer.namespace}." in edit.content for edit in candidate.edits):
            return candidate
        return replace(candidate, edits=(*writer.needs, *candidate.edits))

    def _candidates(self, *, several: bool) -> Iterator[Candidate]:
        masks = list(self._conditions.masks())
        # A number in a variable may be one in a matrix.
        number = not any(n.op in MATRICES & SINGULAR for n in topological(self.hazard.select.inputs[1:]))
        together = [c for mask in masks if number for c in self._variables(mask)]
        if self.op is not None and self._guards is not None:
            yield from self._guards.roots.squares(self.op)
        if several:
            yield from together
            for mask in masks:
                yield from self._shared(mask) if number else ()
                yield from self._each(mask)
        if self.op is not None and self._same_function:
            if self._mapped(self.op):  # the mask has the shape of the result, which an operand under vmap need not have
                yield from self.guards()
            for mask in masks:
                yield from self._masked(self.op, mask, self._operands(self.op))
                yield from () if several else (*self._each(mask), *self._shared(mask))
        for mask in masks[:2] if number else ():
            for call in self._helpers():
                known = None if mask.once or mask.optional else named_before(mask, call)
                places = operands(call)[:_MOST_PLACES]
                yield from self._masked(call, known or mask, [(p, (*_SAFE, *mask.bounds(p))) for p in places])
        yield from () if several else together
        if self.op is not None:
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
        fills = self.framework == "torch" and spelling.fills(self.op or self.select)
        return Writer(where, self.framework, fills, needs) if where is not None else None

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

    # -- the double where -----------------------------------------------------------------------------------------

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
        sure = self._elementwise(around is self.op) and not self._mapped(around)
        for operand, values in places:
            numbers = ((value, sure and not isinstance(value, str)) for value in values)
            yield from filter(None, (self._double_where(mask, operand, *number) for number in numbers))

    def _double_where(self, mask: Mask, operand: SourceNode, value: float | str, sure: bool) -> Candidate | None:
        """A mask for an operand of an operation, and the value that stands where it is dropped."""
        writer = self._writer
        fixed = isinstance(operand.node, cst.BaseNumber) or has_effects(operand.node)
        if writer is None or fixed or mask.leaves(operand, value):
            return None

        def masked(by: Mask) -> Edit:
            known = None if operand.is_atom else already_named(operand.one_line, operand)
            text = known or (operand.text if operand.is_atom else operand.one_line)
            return operand.replaced(by.within(operand, writer.masked(by, text, value)))

        what = messages.MASK_OPERAND.format(self._selection) + messages.STRICT * mask.stricter
        edit, slot = masked(mask), (mask.text, operand.region, isinstance(value, str))
        spot = self._spot_for(operand)
        before = spot_before(mask.written) if mask.written is not None else None
        several = len({place.region for place in self.siblings}) > 1
        long = several or mask.once or spelling.is_long(mask.text, operand, len(edit.content) - len(operand.text))
        apart = spot is None or before is None or spot.indent != before.indent
        if mask.once and apart:
            return None  # it would be evaluated again
        inline = spot is None or not long or mask.optional or re.fullmatch(_SIMPLE, mask.text)
        if not mask.fits(operand, None if inline else spot):
            return None
        if spot is not None and not mask.optional and mask.later is not None and (found := moved(mask.later, spot)):
            name, (bound, gone) = found
            return Candidate((bound, masked(mask.named(name)), gone), what, sure, slot=slot)
        if spot is None or inline:
            asked = [mask.written.replaced(mask.text)] if mask.stricter and mask.written is not None else []
            return Candidate((*asked, edit), what, sure, slot=slot)
        test, line, used = self._bound(mask, operand, spot)
        return Candidate((Edit(line, spot.location, spot.location), masked(test), *used), what, sure, slot=slot)

    def _spot_for(self, operand: SourceNode) -> Spot | None:
        """Where a mask can be bound for every operation that the selection drops, or else for this one."""
        own = spot_before(operand)
        suite = suite_around(operand)
        spots = [spot_before(place) for place in self._beside if suite in place.path()]
        first = min((s for s in spots if s is not None), key=lambda s: s.location, default=own)
        return first if own and first and first.indent == own.indent and first.location < own.location else own

    @cached_property
    def sharing(self) -> dict[str, list[SourceNode]]:
        """The variables that several operations are singular in, this one among them, outside of the selection."""
        read: dict[str, dict[Region, SourceNode]] = {}
        if self.op is None or self.arm is not None:
            return {}
        own = self.op.region
        ops = {place.region: (node, place) for node, place in self._dropped if place.block is self.op.block}
        for node, place in ops.values():
            found = operands(place, len(node.inputs))
            for operand, safe in zip(found, OPERATIONS[node.op].safe, strict=False):
                names = names_within(operand) if safe is not None else {}
                if len(names) == 1 and self.module.imports.keys().isdisjoint(names):
                    (name,) = names
                    read.setdefault(name, {}).update({place.region: place for place in names[name]})
        count = len(self.hazard.op.inputs)
        for at, operand in enumerate(operands(self.op, count)):
            if isinstance(operand.node, cst.Name) and operand.one_line in read:
                beside = alike(self.op, operand, at, count)
                read[operand.one_line] |= {place.region: place for place in beside}
        within = [name for name, places in read.items() if any(own[0] <= start <= own[1] for start, _ in places)]
        return {name: [*read[name].values()] for name in within if len(read[name]) > 1}

    def _shared(self, mask: Mask) -> Iterator[Candidate]:
        """One mask for a variable in every operation that is singular in it."""
        for name, places in self.sharing.items():
            first = min(places, key=lambda place: place.region[0])
            spot = spot_before(first)
            if spot is None or self._writer is None or not all(may_move(p, p, spot.location) for p in places):
                continue
            if not mask.fits(first, spot) or any(not self._below(first, p) for p in places):
                continue
            if mask.once and (re.fullmatch(_SIMPLE, mask.text) or mask.written is None):
                continue
            test, line, used = self._bound(mask, first, spot, places)
            what = messages.MASK_VARIABLE.format(name, self._selection)
            for value in self._alike(0, list(_SAFE)):
                safe = spelling.free_safe_name(first, name)
                lines = line + spot.line(safe, self._writer.masked(test, name, value)).content
                edits = [Edit(lines, spot.location, spot.location), *(p.replaced(safe) for p in places)]
                yield Candidate((*edits, *used), what, self._elementwise(True), kind="arm", slot=(mask.text, *places))

    @staticmethod
    def _below(first: SourceNode, place: SourceNode) -> bool:
        """Whether what is bound before one expression is bound wherever another is evaluated."""
        return spot_before(place) is not None and suite_around(first) in place.path()

    def _each(self, mask: Mask) -> Iterator[Candidate]:
        """One mask for every operation that the selection drops, each in the operand that it is singular in."""
        places: dict[Region, tuple[SourceNode, float]] = {}
        for node, place in self._dropped:
            safe = () if node.op in MATRICES else OPERATIONS[node.op].safe
            for operand, value in zip(operands(place, len(node.inputs)), safe, strict=False):
                if value is not None and not isinstance(operand.node, cst.BaseNumber):
                    places[operand.region] = operand, value
        if len(places) < 2 or mask.once or self._writer is None:
            return
        first, _ = places[min(places)]
        spot = spot_before(first)
        every = [place for place, _ in places.values()]
        if spot is None or not all(mask.fits(p, spot) and self._below(first, p) for p in every):
            return
        if any(has_effects(place.node) for place in every):
            return
        what = messages.MASK_OPERANDS.format(self._selection)
        test, line, used = self._bound(mask, first, spot, every)
        bound = [Edit(line, spot.location, spot.location)] if line else []
        inner = {a: p for a, p in places.items() if not any(a[0] <= b[0] and b[1] <= a[1] for b in places if b != a)}
        groups = [{a: (p, value) for a, (p, _) in inner.items()} for value in (1.0, 0.5) if len(inner) < len(places)]
        for chosen in (*groups, places):
            edits = used
            for operand, value in sorted(chosen.values(), key=lambda each: len(each[0].text)):
                start, end = operand.region
                inside = [e for e in edits if start <= e.location and e.end_location <= end]
                content = self._writer.masked(test, operand.edited(inside), value)
                edits = [*(e for e in edits if e not in inside), operand.replaced(test.within(operand, content))]
            yield Candidate((*bound, *edits), what, self._elementwise(True), kind="arm")

    def _bound(
        self, mask: Mask, first: SourceNode, spot: Spot, beside: Sequence[SourceNode] = ()
    ) -> tuple[Mask, str, list[Edit]]:
        """A mask by a name, the line at a spot that binds it, and its uses in the statements of the mask and others."""
        if mask.optional or re.fullmatch(_SIMPLE, mask.text):
            return mask, "", []
        if mask.later is not None and (found := moved(mask.later, spot)):
            called, (line, gone) = found
            return mask.named(called), line.content, [gone]
        name, written = self._name(first, mask), mask.written
        used = [*written.again(), written] if written is not None and self._after(written, spot) else []
        used += [place for other in beside if written is not None for place in written.in_statement_of(other)]
        used = [place for place in used if not any(p.holds(place) for p in (first, *beside))]
        used = [p for i, p in enumerate(used) if not any(p.region == other.region for other in used[:i])]
        used = [place for place in used if may_move(place, place, spot.location)]
        return mask.named(name), spot.line(name, mask.text).content, [place.replaced(name) for place in used]

    def _name(self, place: SourceNode, mask: Mask) -> str:
        names = spelling.condition_names(mask.text)
        return spelling.free_name(place, *names, "mask", "selected" if mask.keeps else "dropped")

    @staticmethod
    def _after(place: SourceNode, spot: Spot) -> bool:
        """Whether what is bound at a spot is bound wherever a place is evaluated."""
        before = spot_before(place)
        return before is not None and before.indent == spot.indent and spot.location <= before.location

    def _variables(self, mask: Mask) -> Iterator[Candidate]:
        """One mask for a variable wherever the arm reads it."""
        arm = self.arm
        if arm is None or mask.once or self._writer is None:
            return
        known = (*self.module.imports, *self.module.definitions)
        spot = spot_before(arm)
        if not mask.fits(arm, spot):
            return
        for name, read in names_within(arm).items():
            places = in_part(read)
            text = places[0].one_line
            what = messages.MASK_VARIABLE.format(text, self._selection)
            test, line, used = mask, "", list[Edit]()
            more = len(places) == 1 and len(self._writer.masked(mask, "", 1.0))
            if spot is not None and spelling.is_long(mask.text, places[0], more):
                test, line, used = self._bound(mask, arm, spot)
            for value in _SAFE if name not in known else ():
                safe, lines = self._writer.masked(test, text, value), line
                if spot is not None and len(places) > 1:
                    lines += spot.line(called := spelling.free_safe_name(arm, name), safe).content
                    safe = called
                bound = [Edit(lines, spot.location, spot.location)] if spot is not None and lines else []
                edits = (*bound, *(p.replaced(test.within(p, safe)) for p in places), *used)
                yield Candidate(edits, what, self._elementwise(True), kind="arm", slot=(mask.text, *places))

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
            for name in names_within(arm):
                if (value := assigned(name, self.select)) is not None:
                    yield value

    def _elementwise(self, with_op: bool) -> bool:
        """Whether the mask meets the selection with nothing between that changes the shape."""
        nodes = [self.hazard.op, *self.between] if with_op else self.between
        plain = (n.op in _PLAIN or (n.op in OPERATIONS and not OPERATIONS[n.op].mixes) for n in nodes)
        return all(plain) and not any(n.static.spread for n in nodes)
