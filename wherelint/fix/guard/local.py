"""The local guard: an operation is masked by a condition on its own operand."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import libcst as cst

from wherelint.finding import Edit, Location
from wherelint.fix import messages, spelling
from wherelint.fix.alike import alike
from wherelint.fix.assignments import assigned
from wherelint.fix.guard.domains import Tests, tests_of
from wherelint.fix.guard.roots import Roots
from wherelint.fix.mask.writing import Candidate, Mask, Writer, named_before, within
from wherelint.fix.syntax import (
    SourceNode,
    Spot,
    calls_within,
    has_effects,
    last_name,
    operands,
    spot_before,
)
from wherelint.fix.verify.dtypes import is_python, may_be_number
from wherelint.frameworks import FRAMEWORKS
from wherelint.frontend.module import Module
from wherelint.frontend.namespaces import namespaces
from wherelint.graph.node import Const, differentiated, topological
from wherelint.ops import OPERATIONS
from wherelint.ops.catalogue import Domain
from wherelint.ops.traits import CLIPS, FINITE_TESTS
from wherelint.search.witness import Hazard

#: An operand no longer than this, a variable or an element, is repeated rather than given a name.
_SHORT = 24
_NUMBER = re.compile(r"-?\d+(\.\d*)?")
#: Data that are missing are nan, and what is computed of them is.
_MISSING = Domain("{isnan}({x})", "0.0", ('float("nan")',), finite=False)


class _Asked(NamedTuple):
    """The condition of a domain at an operand of an operation, and how the operand is called in it."""

    place: SourceNode
    operand: SourceNode
    guard: Domain
    tests: Tests
    name: str
    #: What gives it that name, and where more lines can stand.
    lines: list[Edit]
    before: Spot | None
    #: The other operand by the name that it is given with it, if it is.
    other: list[Edit]
    #: The condition, where the author has asked it before.
    known: Mask | None

    def with_operand(self, content: str) -> str:
        """The operation with something else for the operand."""
        if self.other:
            return self.place.edited([self.operand.replaced(content), *self.other])
        return within(self.place, self.operand, content)


@dataclass(frozen=True)
class Guards:
    """Guards of an operation at a place."""

    module: Module
    hazard: Hazard
    writer: Writer
    #: The namespace that calls nearby are written in.
    family: str
    #: The numbers among some that leave an operand its dtype.
    alike: Callable[[int, list[float]], tuple[float, ...]]

    @property
    def roots(self) -> Roots:
        """What can be done of a root alone, or of a norm."""
        return Roots(self.module, self.hazard, self.writer, self.family)

    def of(self, place: SourceNode) -> Iterator[Candidate]:
        """The guards, the best first."""
        found = operands(place, len(self.hazard.op.inputs))
        if not isinstance(place.node, (cst.Call, cst.BinaryOperation)):
            return
        yield from self.roots.of(place, native=self._native)
        entry, constants = OPERATIONS.get(self.hazard.op.op), list[Candidate]()
        for guard in entry.domains if entry is not None else ():  # a gradient may overflow where elements are gathered
            whole = found[guard.operand] if guard.operand < len(found) else None
            for operand in (whole, _unclipped(whole) if guard.edge else None):
                for candidate in self._by_domain(place, found, guard, operand) if operand is not None else ():
                    if candidate.constant:
                        constants.append(candidate)
                    else:
                        yield candidate
        yield from constants  # the value is what it was, infinite or not
        for number, operand in enumerate(found[: len(self.hazard.op.inputs)] if self.hazard.missing_data else ()):
            minus = isinstance(operand.node, cst.BinaryOperation) and isinstance(operand.node.operator, cst.Subtract)
            guard = replace(_MISSING, operand=number, name="difference" if minus else _MISSING.name)
            yield from self._by_domain(place, found, guard, operand)

    def _by_domain(
        self, place: SourceNode, found: list[SourceNode], guard: Domain, operand: SourceNode
    ) -> Iterator[Candidate]:
        namespace, whole = self.writer.namespace, found[guard.operand]
        if self.writer.framework == "torch" and is_python(self.hazard.op.inputs[guard.operand]):
            return  # torch selects by tensors alone
        once, before = has_effects(operand.node, self.module), spot_before(place)
        role = spelling.role(place, guard.name)
        one = operand.is_atom or isinstance(operand.node, cst.UnaryOperation) or before is None
        plain = one and not once and not list(calls_within(operand))
        # Where the value is finite and another at each edge, it is kept: the operand is a constant there.
        edges = guard.finite and not guard.outside
        often = edges and isinstance(operand.node, cst.Subscript) and before is not None
        short = plain and (isinstance(operand.node, cst.Name) or len(operand.one_line) <= _SHORT) and not often
        known = _asked_before(operand, guard)
        spot = None if short or known is not None else before
        if not short and spot is None and known is None:
            return  # it would be evaluated again and again
        name, atom, lines = operand.one_line, operand.atom, list[Edit]()
        if spot is not None:
            name = atom = spelling.free_name(place, *spelling.value_names(place, operand, role))
            again = [] if once else [p.replaced(name) for p in operand.again() if not place.holds(p)]
            lines = [spot.line(name, operand.moved), *again]
        other, second = found[1 - guard.operand] if len(found) == 2 else None, list[Edit]()
        # What is asked as well is computed once; and what acts comes in the order in which it did.
        plain_too = other is not None and (other.is_atom or isinstance(other.node, cst.UnaryOperation))
        asked_too = other is not None and "{y}" in guard.condition and (not plain_too or any(calls_within(other)))
        if other is not None and lines and once and has_effects(other.node, self.module):
            asked_too |= other.region < operand.region
        if other is not None and before is not None and asked_too:
            called = spelling.free_name(place, spelling.OTHER.get(role, "argument"))
            rows = [before.line(called, other.moved), *lines[:1]][:: 1 if guard.operand else -1]
            lines = [replace(rows[0], content="".join(row.content for row in rows)), *lines[1:]]
            second = [other.replaced(called)]
        terms = {
            "x": atom,
            "y": second[0].content if second else other.atom if other is not None else "",
            "namespace": namespace,
            "abs": "" if _has_no_floor(operand) else f"{namespace}.abs" if namespace else "abs",
            "inf": spelling.infinity(namespace, self.writer.framework),
            "isnan": FRAMEWORKS[self.writer.framework].isnan.format(namespace=namespace),
        }
        tests = tests_of(guard, self.family, place, terms)
        if tests is None or (edges and _NUMBER.fullmatch(terms["y"].strip("()"))):
            return  # a condition on two operands asks nothing of a number
        asked = _Asked(place, operand, guard, tests, name, lines, before, second, known)
        constant, arms = None, ""
        stopped, needs = self._stopped(name)
        if stopped and not guard.reduces:
            arms = f"{name}, {stopped}" if guard.keeps else f"{stopped}, {name}"
            edit = operand.replaced(f"{self.writer.where}({known.text if known else tests.inner}, {arms})")
            said = messages.GUARD if edges else messages.STOP
            changed = (*lines, edit, *second, *needs)
            constant = Candidate(changed, said, guard.exact, kind="guard", constant=not edges)
        if edges:
            content = f"{self.writer.where}({tests.inner}, {arms})"
            alone = constant is not None and not second
            below = self._where_assigned(operand, content, needs) if alone else iter(())
            if any(True for _ in alike(place, operand, guard.operand, len(found))):
                yield from below  # the first for several, the last for one
            if guard.edge and namespace and (constant is None or operand is not whole):
                content = f"{self.writer.where}({tests.inner}, {guard.edge.format(**terms)}, {name})"
                yield Candidate((*lines, whole.replaced(content)), messages.GUARD, True, kind="guard")
            elif constant is not None:
                yield constant
            yield from below
            return
        passing = differentiated(topological([self.hazard.op]))
        others = [
            part
            for part, node in zip(found, self.hazard.op.inputs, strict=False)
            if part is not whole and node in passing and not (self.writer.framework != "jax" and may_be_number(node))
        ]
        yield from self._masked(asked, others)
        if constant is not None and not others:
            yield constant

    @staticmethod
    def _where_assigned(operand: SourceNode, content: str, needs: list[Edit]) -> Iterator[Candidate]:
        """A guard below the row that gives a variable its value, for whatever else is singular in that."""
        value = assigned(operand.one_line, operand) if isinstance(operand.node, cst.Name) else None
        if value is not None and (spot := spot_before(value)) is not None:
            row = next(n for n in value.path()[::-1] if isinstance(n, cst.SimpleStatementLine))
            below = Location(value.block.place(row)[1].row + 1, 1)
            line = replace(spot.line(operand.one_line, content), location=below, end_location=below)
            yield Candidate((line, *needs), messages.GUARD, True, kind="guard")

    def _masked(self, asked: _Asked, others: Sequence[SourceNode]) -> Iterator[Candidate]:
        """Guards that give the operation a number where it is singular, and what has its place there.

        ``others``: what else it is differentiated by.
        """
        place, operand, guard, tests, name, lines, before, second, known = asked
        at_data = guard.condition == _MISSING.condition
        what, namespace = messages.GUARD_DATA if at_data else messages.GUARD, self.writer.namespace
        safe = next(iter(self.alike(guard.operand, [float(guard.safe)])), None)
        if safe is None or not (guard.exact or guard.outside or self._capped):
            return  # no integer is, or nothing drops the numbers that it changes
        whole_mask = Mask(tests.inner, guard.keeps)
        named = known or (named_before(whole_mask, operand) if tests.outer == tests.inner else None)
        inner = self.writer.masked(named or whole_mask, name, safe)
        if guard.caps and namespace and self._native:
            at_most = FRAMEWORKS[self.writer.framework].at_most
            limit = 0.0 if self.hazard.op.op == "exp" and self._most < 1 else safe
            inner = at_most.format(namespace=namespace, x=name, limit=limit)
        sure = not guard.reduces and (guard.exact or self._bounded)
        # What was a number there is another then, which underflow may show where no probe does.
        edits = (*lines, operand.replaced(inner), *second)
        alone = Candidate(edits, what, sure and not guard.finite, kind="guard", alone=True)
        kept = []
        # That an operation is nan is worth keeping only where something asks for it.
        nans = any(n.op in FINITE_TESTS for n in topological(self.hazard.select.inputs[:1]))
        infinity = spelling.infinity(namespace, self.writer.framework)
        values = [each.format(inf=infinity) for each in guard.outside if nans or "nan" not in each]
        detached = self._detached(asked, others) if others and not at_data else None
        if detached is not None and not guard.finite and self.hazard.select.selection in CLIPS:
            values.append(infinity)
        for outside, widened in product(values, tests.widened or ("",)):
            outer = named or Mask(tests.outer, guard.keeps)
            content, bound = asked.with_operand(inner), lines
            if named is None and before is not None and (tests.outer == tests.inner or widened):
                outer = outer.named(spelling.free_name(place, *_named(guard, tests.outer)))
                wide = Mask(widened.format(outer.text), guard.keeps) if widened else outer
                content = asked.with_operand(self.writer.masked(wide, name, safe))
                line = before.line(outer.text, tests.outer)
                bound = [replace(line, content=lines[0].content + line.content), *lines[1:]] if lines else [line]
            guarded = place.replaced(self.writer.masked(outer, content, outside, like=None if guard.reduces else name))
            kept.append(Candidate((*bound, guarded), what, guard.exact, kind="guard"))
        yield from (*kept, alone) if guard.finite else (alone, *kept)
        yield from filter(None, [detached])

    def _detached(self, asked: _Asked, others: Sequence[SourceNode]) -> Candidate | None:
        """The operation of what it is given, without any gradient where it is singular.

        ``others``: what else it is differentiated by, which receives the same cotangent.
        """
        _, operand, guard, tests, name, lines, before, second, known = asked
        late = any(has_effects(p.node, self.module) and p.region > operand.region for p in others)
        if second or late or tests.outer != tests.inner:
            return None
        mask = Mask(tests.inner, guard.keeps)
        test, rows, edits, needs = known or named_before(mask, operand), "", list[Edit](), list[Edit]()
        for part in (*others, operand):
            text = name if part is operand else part.one_line
            short = part.is_atom and len(text) <= _SHORT and not list(calls_within(part))
            if part is not operand and not short:
                if before is None:
                    return None
                text = spelling.free_name(part, spelling.OTHER.get(guard.name, "argument"))
                rows += before.line(text, part.moved).content
            edits.append(part.replaced(text))
        rows += "".join(edit.content for edit in lines[:1])
        if test is None and before is not None:
            test = mask.named(spelling.free_name(operand, *_named(guard, mask.text)))
            rows += before.line(test.text, mask.text).content
        for i, edit in enumerate(edits):
            stopped, needs = self._stopped(edit.content)
            if not stopped:
                return None
            by = (test or mask).text
            arms = f"{edit.content}, {stopped}" if guard.keeps else f"{stopped}, {edit.content}"
            edits[i] = replace(edit, content=f"{self.writer.where}({by}, {arms})")
        first = [Edit(rows, before.location, before.location)] if before is not None and rows else []
        made = (*first, *lines[1:], *edits, *needs)
        return Candidate(made, messages.STOP, guard.exact, kind="guard", constant=True)

    def _stopped(self, text: str) -> tuple[str, list[Edit]]:
        """A value without its gradient, and what has to be imported for that; empty where that cannot be written."""
        framework, namespace = self.writer.framework, self.writer.namespace
        found = spelling.without_gradient(text, framework, self.module, namespace) if self._native else None
        return found or ("", [])

    @property
    def _native(self) -> bool:
        """Whether what is called nearby is the framework's own; a project's backend may know NumPy alone."""
        return self.writer.namespace not in self.module.once(namespaces)

    @property
    def _bounded(self) -> bool:
        """Whether the selection is a clip onto numbers, which drops whatever is nearly infinite."""
        select, op = self.hazard.select, self.hazard.op
        return select.selection in CLIPS and all(n.op == "const" or op in topological([n]) for n in select.inputs)

    @property
    def _capped(self) -> bool:
        """Whether the selection is a number that the operation may not exceed."""
        return self._bounded and self.hazard.op in self.hazard.select.inputs and math.isfinite(self._most)

    @property
    def _most(self) -> float:
        return max((float(n.value.max()) for n in self.hazard.select.inputs if isinstance(n, Const)), default=math.inf)


def _asked_before(operand: SourceNode, guard: Domain) -> Mask | None:
    """Whether a difference is 0, where a variable says before that the two differ."""
    if guard.condition != "{x} != 0" or guard.reduces or not isinstance(operand.node, cst.BinaryOperation):
        return None
    if not isinstance(operand.node.operator, cst.Subtract):
        return None
    a, b = (part.atom for part in operands(operand))
    masks = (named_before(Mask(f"{x} != {y}", True), operand) for x, y in ((a, b), (b, a)))
    return next(filter(None, masks), None)


def _has_no_floor(operand: SourceNode) -> bool:
    """Whether an operand is bounded from above alone, or a size; a guard of one edge is refused where it meets both."""
    made = (assigned(operand.one_line, operand) if isinstance(operand.node, cst.Name) else None) or operand
    return isinstance(made.node, cst.Call) and last_name(made.node.func) in ("minimum", "abs", "absolute")


def _unclipped(place: SourceNode | None) -> SourceNode | None:
    """What is clipped onto -1 and 1, if a call does that."""
    if place is None or not isinstance(place.node, cst.Call) or not spelling.CLIP.fullmatch(last_name(place.node.func)):
        return None
    array, *bounds = operands(place, 3)
    return array if [float(p.one_line) for p in bounds if _NUMBER.fullmatch(p.one_line)] == [-1.0, 1.0] else None


def _named(guard: Domain, test: str) -> tuple[str, ...]:
    """What a condition of a guard is called."""
    if guard.reduces:
        return (*spelling.condition_names(test), "has_length")
    return spelling.condition_names(test) or ("regular" if guard.keeps else "singular",)
