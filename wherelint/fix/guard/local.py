"""The local guard: an operation is masked by a condition on its own operand."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import libcst as cst

from wherelint.finding import Edit
from wherelint.fix import messages, spelling
from wherelint.fix.guard.domains import Tests, tests_of
from wherelint.fix.guard.roots import Roots
from wherelint.fix.mask.writing import Candidate, Mask, Writer
from wherelint.fix.syntax import SourceNode, Spot, calls_within, moves_effects, operands, spot_before
from wherelint.fix.verify.dtypes import is_python, may_be_number
from wherelint.frontend.module import Module
from wherelint.frontend.namespaces import namespaces
from wherelint.graph.node import differentiated, topological
from wherelint.ops import OPERATIONS
from wherelint.ops.catalogue import Domain
from wherelint.ops.traits import CLIPS
from wherelint.search.witness import Hazard

#: An operand no longer than this, a variable or an element, is repeated rather than given a name.
_SHORT = 24
_NUMBER = re.compile(r"-?\d+(\.\d*)?")
#: What the other operand of an operation is called, by the name of the first.
_OTHER = {"denominator": "numerator", "base": "exponent", "x": "y"}


@dataclass
class _Operands:
    """Operands by the texts that they can be repeated with, after the lines that bind these."""

    parts: Sequence[SourceNode]
    spot: Spot | None
    texts: list[str] = field(default_factory=list)
    lines: str = ""

    def replaced(self, *contents: str) -> list[Edit]:
        """Edits that put contents in the place of the first operands, and the names of the others in theirs."""
        new = (*contents, *self.texts[len(contents) :])
        return [part.replaced(text) for part, text in zip(self.parts, new, strict=True) if text != part.atom]

    def below(self, lines: str, *edits: Edit) -> tuple[Edit, ...]:
        """Some edits below the lines that they need."""
        lines = self.lines + lines
        return (*([Edit(lines, self.spot.location, self.spot.location)] if lines and self.spot else []), *edits)


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

    @cached_property
    def _is_native(self) -> bool:
        """Whether what is called nearby is the framework's own; a project's backend may know NumPy alone."""
        return self.writer.namespace not in self.module.once(namespaces)

    def of(self, place: SourceNode) -> Iterator[Candidate]:
        """The guards, the best first; last those that leave the operation infinite, without its gradient."""
        if not isinstance(place.node, (cst.Call, cst.BinaryOperation)):
            return
        yield from Roots(self.hazard, self.writer).of(place, native=self._is_native)
        entry, found = OPERATIONS.get(self.hazard.op.op), operands(place, len(self.hazard.op.inputs))
        domains = entry.domains if entry is not None else ()  # a gradient may overflow where elements are gathered
        made = [c for each in domains if each.operand < len(found) for c in self._by_domain(place, found, each)]
        yield from sorted(made, key=lambda candidate: candidate.constant)

    def _by_domain(self, place: SourceNode, found: list[SourceNode], guard: Domain) -> Iterator[Candidate]:
        every = [found[guard.operand], *found[: guard.operand], *found[guard.operand + 1 :]]
        two = "{y}" in guard.condition
        if self.writer.framework == "torch" and is_python(self.hazard.op.inputs[guard.operand]):
            return  # torch selects by tensors alone
        if two and (len(every) != 2 or _NUMBER.fullmatch(every[1].one_line)):
            return  # a condition on two operands asks nothing of a number
        known = self._operands(place, every[: 1 + two], guard)
        tests = self._tests(place, guard, known) if known is not None else None
        if known is None or tests is None:
            return
        finite = guard.finite and not guard.outside
        if not finite:
            yield from self._masked(place, guard, tests, known)
        if not guard.reduces and self._is_native:
            stopped = [part for part in every[1:] if not finite and self._receives(found.index(part))]
            yield from self._constant(place, guard, tests, [every[0], *stopped], known)

    def _receives(self, operand: int) -> bool:
        """Whether an operand receives a cotangent; a number of Python has none, nor a method that stops it."""
        node = self.hazard.op.inputs[operand] if operand < len(self.hazard.op.inputs) else None
        if node not in differentiated(topological([self.hazard.op])):
            return False
        return self.writer.framework == "jax" or not may_be_number(node)

    def _tests(self, place: SourceNode, guard: Domain, known: _Operands) -> Tests | None:
        namespace = self.writer.namespace
        modulus = f"{namespace}.abs" if namespace else "abs"
        terms = {"x": known.texts[0], "y": known.texts[-1], "namespace": namespace, "abs": modulus}
        return tests_of(guard, self.family, place, terms)

    def _operands(self, place: SourceNode, parts: Sequence[SourceNode], guard: Domain) -> _Operands | None:
        """Operands that can be repeated; None where they would be evaluated again and again, or too early."""
        known = _Operands(parts, spot_before(place))
        for part, name in zip(parts, (guard.name, _OTHER.get(guard.name, "argument")), strict=False):
            text = part.atom
            if not part.is_atom or len(text) > _SHORT or any(calls_within(part)):
                if known.spot is None or moves_effects(part, self.module):
                    return None
                text = spelling.free_name(place, name)
                known.lines += known.spot.line(text, part.moved).content
            known.texts.append(text)
        return known

    def _named(self, place: SourceNode, guard: Domain, tests: Tests, spot: Spot | None) -> tuple[Mask, str]:
        """The condition in the shape of the result, by a name where it can have one; the line that binds that."""
        mask = Mask(tests.outer, guard.keeps)
        if spot is None or tests.outer != tests.inner:
            return mask, ""
        name = spelling.free_name(place, "is_regular" if guard.keeps else "is_singular")
        return Mask(name, guard.keeps), spot.line(name, mask.text).content

    def _masked(self, place: SourceNode, guard: Domain, tests: Tests, known: _Operands) -> Iterator[Candidate]:
        """Guards that give the operation a number where it is singular, and those that have its value there as well."""
        safe = next(iter(self.alike(guard.operand, [float(guard.safe)])), None)
        if safe is None:
            return  # no integer is
        name, writer, kept = known.texts[0], self.writer, list[Candidate]()
        inner = Mask(tests.inner, guard.keeps)
        # What was a number there is another then, which underflow may show where no probe does.
        sure = (guard.exact or self._is_bounded) and not guard.reduces and not guard.finite
        edits = known.below("", *known.replaced(writer.masked(inner, name, safe)))
        overflows = not guard.exact and not guard.outside  # what is clamped is huge still, and not infinite
        message = messages.CLAMP if overflows else messages.GUARD
        alone = Candidate(edits, message, sure, kind="guard", alone=not overflows)
        infinity = spelling.infinity(writer.namespace, writer.framework)
        for outside in guard.outside if "#" not in place.text else ():
            outer, line = self._named(place, guard, tests, known.spot)
            content = place.edited(known.replaced(writer.masked(outer if line else inner, name, safe)))
            whole = place.replaced(writer.masked(outer, content, outside.format(inf=infinity)))
            kept.append(Candidate(known.below(line, whole), messages.GUARD, guard.exact, kind="guard"))
        yield from (*kept, alone) if guard.finite else (alone, *kept)

    def _constant(
        self, place: SourceNode, guard: Domain, tests: Tests, stopped: Sequence[SourceNode], known: _Operands
    ) -> Iterator[Candidate]:
        """The operation of what it is given, without any gradient where it is singular."""
        if len(stopped) > len(known.parts):  # each receives the cotangent
            every = self._operands(place, stopped, guard)
            if every is None:
                return
            known = every
        test, line = self._named(place, guard, tests, known.spot) if len(stopped) > 1 else (Mask(tests.inner, True), "")
        contents, needs = list[str](), list[Edit]()
        for text in known.texts[: len(stopped)]:
            found = spelling.without_gradient(text, self.writer.framework, self.module, self.writer.namespace)
            if found is None:
                return
            arms = (text, found[0]) if guard.keeps else (found[0], text)
            contents.append(f"{self.writer.where}({test.text}, {', '.join(arms)})")
            needs = found[1]
        infinite = not guard.finite or bool(guard.outside)
        what = messages.STOP if infinite else messages.GUARD
        edits = (*known.below(line, *known.replaced(*contents)), *needs)
        yield Candidate(edits, what, guard.exact, kind="guard", constant=infinite)

    @property
    def _is_bounded(self) -> bool:
        """Whether the selection is a clip of the operation onto numbers, which drops whatever is nearly infinite."""
        select, op = self.hazard.select, self.hazard.op
        return select.selection in CLIPS and all(n.op == "const" or op in topological([n]) for n in select.inputs)
