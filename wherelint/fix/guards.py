"""The local guard: an operation is masked by a condition on its own operand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import libcst as cst

from wherelint.fix import spelling
from wherelint.fix.domains import tests_of
from wherelint.fix.masks import Candidate, Mask, Writer, within
from wherelint.fix.syntax import SourceNode, calls_within, has_effects, operands, spot_before
from wherelint.frontend.module import Module
from wherelint.graph.node import topological
from wherelint.graph.search import Hazard
from wherelint.ops import OPERATIONS
from wherelint.ops.catalogue import Domain
from wherelint.ops.traits import CLIPS, FINITE_TESTS

#: An operand no longer than this is repeated rather than given a name.
_SHORT = 16
_VARIANCE = {"std": "var", "reduce_std": "reduce_variance"}


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

    def of(self, place: SourceNode) -> Iterator[Candidate]:
        """The guards, the best first."""
        found = operands(place, len(self.hazard.op.inputs))
        if not isinstance(place.node, (cst.Call, cst.BinaryOperation)):
            return
        if self.hazard.op.op in ("std", "std_unbiased"):
            yield from self._deviation(place)
        guards = [guard for guard in OPERATIONS[self.hazard.op.op].domains if guard.operand < len(found)]
        for constant in (True, False):  # a number is simpler than what the operation would give
            for guard in guards:
                yield from self._by_domain(place, found, guard, constant=constant)

    def _by_domain(
        self, place: SourceNode, found: list[SourceNode], guard: Domain, *, constant: bool
    ) -> Iterator[Candidate]:
        namespace, operand = self.writer.namespace, found[guard.operand]
        once = has_effects(operand.node, self.module)
        simple = isinstance(operand.node, cst.Name)
        short = simple or (len(operand.one_line) <= _SHORT and not once and not list(calls_within(operand)))
        before = spot_before(place)
        spot = None if short else before
        if once and spot is None:
            return  # it would be evaluated again and again
        name = operand.one_line if spot is None else spelling.free_name(place, guard.name)
        lines = [] if spot is None else [spot.line(name, operand.text if operand.is_atom else operand.one_line)]
        atom = name if spot is not None else operand.atom
        terms = {"x": atom, "y": found[1 - guard.operand].atom if len(found) > 1 else "", "namespace": namespace,
                 "inf": spelling.infinity(namespace, self.writer.framework)}  # fmt: skip
        tests = tests_of(guard, self.family, place, terms)
        if tests is None:
            return
        what = "guard the operation where it is singular"
        safe = next(iter(self.alike(guard.operand, [float(guard.safe)])), None)
        if safe is None:
            return  # no integer is
        inner = self.writer.masked(Mask(tests.inner, guard.keeps), name, safe)
        sure = not guard.reduces and (guard.exact or self._bounded)
        alone = Candidate((*lines, operand.replaced(inner)), what, sure, kind="guard", alone=True)
        if constant and (not guard.finite or not guard.outside):
            yield alone
        # That an operation is nan is worth keeping only where something asks for it.
        asked = any(n.op in FINITE_TESTS for n in topological(self.hazard.select.inputs[:1]))
        outsides = [outside.format(**terms) for outside in guard.outside if asked or "nan" not in outside]
        if not constant:
            stopped = spelling.without_gradient(name, self.writer.framework, self.module, namespace)
            outsides = [within(place, operand, stopped)] if stopped else []
        for outside in outsides:
            sure = not guard.reduces and (guard.exact or not constant)
            outer = Mask(tests.outer, guard.keeps)
            content = within(place, operand, inner)
            edits = lines
            if before is not None and tests.outer == tests.inner:
                outer = outer.named(spelling.free_name(place, *_named(guard, tests.outer)))
                content = within(place, operand, self.writer.masked(outer, name, safe))
                line = before.line(outer.text, tests.outer)
                edits = [replace(line, content=lines[0].content + line.content)] if lines else [line]
            whole = place.replaced(self.writer.masked(outer, content, outside, like=None if guard.reduces else name))
            yield Candidate((*edits, whole), what, sure, kind="guard")
        if constant and guard.finite and guard.outside:
            yield alone

    @property
    def _bounded(self) -> bool:
        """Whether the selection is a clip onto numbers, which drops whatever is nearly infinite."""
        select, op = self.hazard.select, self.hazard.op
        return select.selection in CLIPS and all(n.op == "const" or op in topological([n]) for n in select.inputs)

    def _deviation(self, place: SourceNode) -> Iterator[Candidate]:
        """A deviation as the square root of a variance that is not 0."""
        function = place.node.func if isinstance(place.node, cst.Call) else None
        spot = spot_before(place)
        if spot is None or not isinstance(function, cst.Attribute) or function.attr.value not in _VARIANCE:
            return
        variance = within(place, SourceNode(place.block, function.attr), _VARIANCE[function.attr.value])
        name = spelling.free_name(place, "variance")
        mask = Mask(f"{name} != 0", True)
        inner = f"{self.writer.namespace}.sqrt({self.writer.masked(mask, name, 1.0)})"
        what = "guard the square root where the variance is 0"
        for content in (self.writer.masked(mask, inner, 0.0), inner):
            edits = (spot.line(name, variance), place.replaced(content))
            yield Candidate(edits, what, True, kind="guard", alone=content is inner)


def _named(guard: Domain, test: str) -> tuple[str, ...]:
    """What a condition of a guard is called."""
    if not guard.keeps:
        return ("singular",)
    return ("has_length",) if guard.reduces else (*spelling.condition_names(test), "regular")
