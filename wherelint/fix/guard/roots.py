"""Roots and norms: what they are the root of is masked, which says more than a guard of the value."""

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from wherelint.fix import messages, spelling
from wherelint.fix.mask.writing import Candidate, Mask, Writer
from wherelint.fix.syntax import SourceNode, calls_within, last_name, operands, spot_before
from wherelint.search.witness import Hazard

_OPTIONS, _TORCH = ("dim", "keepdim"), {"axis": "dim", "keepdims": "keepdim"}
_TWO = frozenset({"2", "2.0", "2."})
_VARIANCE = {"std": "var", "reduce_std": "reduce_variance"}


@dataclass(frozen=True)
class Roots:
    """Rewrites of a root or of a deviation at a place."""

    hazard: Hazard
    writer: Writer

    def of(self, place: SourceNode, *, native: bool) -> Iterator[Candidate]:
        """The rewrites, the best first. ``native``: what is called nearby is the framework's own."""
        op = self.hazard.op
        if op.op in ("std", "std_unbiased"):
            yield from self._deviation(place)
        root = op.op == "sqrt" or (op.op == "power_static" and getattr(op.inputs[1], "value", 0) == 0.5)
        if root and self.writer.framework == "torch" and native:
            yield from self._norm(place)

    def _norm(self, place: SourceNode) -> Iterator[Candidate]:
        """The root of a sum of squares as the norm that it is: PyTorch gives that a gradient of 0 at 0."""
        total = operands(place)[0]
        if not isinstance(total.node, cst.Call) or last_name(total.node.func) != "sum" or not self.writer.namespace:
            return
        array = operands(total)[0]
        base, given = _squared(array), [a for a in total.node.args if a.value is not array.node]
        names = [a.keyword.value if a.keyword is not None else name for a, name in zip(given, _OPTIONS, strict=False)]
        names = [_TORCH.get(name, name) for name in names]
        if base is None or len(names) != len(given) or any(a.star for a in given) or not set(names) <= {*_OPTIONS}:
            return
        options = [f"{name}={place.block.concrete.code(a.value)}" for name, a in zip(names, given, strict=True)]
        text = ", ".join([base.one_line, *options])
        norm = place.replaced(f"{self.writer.namespace}.linalg.vector_norm({text})")
        yield Candidate((norm,), messages.NORM, True, kind="guard")

    def _deviation(self, place: SourceNode) -> Iterator[Candidate]:
        """A deviation as the square root of a variance that is not 0."""
        function = place.node.func if isinstance(place.node, cst.Call) else None
        spot = spot_before(place)
        if spot is None or not isinstance(function, cst.Attribute) or function.attr.value not in _VARIANCE:
            return
        variance = place.edited([SourceNode(place.block, function.attr).replaced(_VARIANCE[function.attr.value])])
        name = spelling.free_name(place, "variance")
        mask = Mask(f"{name} != 0", True)
        inner = f"{self.writer.namespace}.sqrt({self.writer.masked(mask, name, 1.0)})"
        for content in (self.writer.masked(mask, inner, 0.0), inner):
            edits = (spot.line(name, variance), place.replaced(content))
            yield Candidate(edits, messages.VARIANCE, True, kind="guard", alone=content is inner)


def _squared(place: SourceNode) -> SourceNode | None:
    """What is squared: ``x**2``, ``x * x``, ``x.pow(2)``, ``torch.square(x)``."""
    node, found = place.node, operands(place)
    texts = [each.one_line for each in found]
    if isinstance(node, cst.BinaryOperation):
        power = isinstance(node.operator, cst.Power) and texts[1:] and texts[1] in _TWO
        same = isinstance(node.operator, cst.Multiply) and texts[:1] == texts[1:] and not any(calls_within(place))
        return found[0] if power or same else None
    name = last_name(node.func) if isinstance(node, cst.Call) else ""
    squares = (name == "square" and len(found) == 1) or (name == "pow" and set(texts[1:]) <= _TWO and len(texts) == 2)
    return found[0] if squares else None
