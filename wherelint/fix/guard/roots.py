"""Roots and norms: what they are the root of is bounded or masked, which says more than a guard of the value."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import libcst as cst

from wherelint.fix import messages, spelling
from wherelint.fix.assignments import next_value, plain, without_rows
from wherelint.fix.guard.domains import options_of, sum_of
from wherelint.fix.mask.writing import Candidate, Mask, Writer, within
from wherelint.fix.syntax import SourceNode, calls_within, last_name, operands, source_node, spot_before
from wherelint.frontend.module import Module
from wherelint.ops.traits import CLIPS
from wherelint.search.witness import Hazard

_OPTIONS, _TORCH = ("dim", "keepdim"), {"axis": "dim", "keepdims": "keepdim"}
_SMALL = re.compile(r"[\d.]+e-\d+")
_NORMS = frozenset({"norm", "euclidean_norm"})
#: What a file with complex numbers speaks of, whose squares are no norms.
_COMPLEX = re.compile(r"\bcomplex\d*\b|\bconj|\.imag\b|\bi?fftn?2?\b|\d[jJ]\b")
_TWO = frozenset({"2", "2.0", "2."})
_VARIANCE = {"std": "var", "reduce_std": "reduce_variance"}


@dataclass(frozen=True)
class Roots:
    """Rewrites of a root, a norm or an exponential at a place."""

    module: Module
    hazard: Hazard
    writer: Writer
    #: The namespace that calls nearby are written in.
    family: str

    def of(self, place: SourceNode, *, native: bool) -> Iterator[Candidate]:
        """The rewrites, the best first. ``native``: what is called nearby is the framework's own."""
        yield from self._inside(place)
        yield from self._of_one(place)
        if self.hazard.op.op in ("std", "std_unbiased"):
            yield from self._deviation(place)
        if self._is_root and self.writer.framework == "torch" and native:
            yield from self._norm(place)

    @property
    def _is_root(self) -> bool:
        op = self.hazard.op
        return op.op == "sqrt" or (op.op == "power_static" and getattr(op.inputs[1], "value", 0) == 0.5)

    def _inside(self, place: SourceNode) -> Iterator[Candidate]:
        """A bound of the value as one of the operand: ``exp(minimum(x, 0.0))`` for ``minimum(exp(x), 1.0)``."""
        select, op = self.hazard.select, self.hazard.op
        whole = source_node(select) if select.selection in CLIPS and op in select.inputs else None
        bounds = [p for p in operands(whole) if isinstance(p.node, cst.BaseNumber)] if whole is not None else []
        total = self._sum_of_squares(place)
        root = self._is_root or bool(total)
        if whole is None or not whole.holds(place) or "#" in whole.text or not (root or op.op == "exp"):
            return
        bound = _of_operand(bounds[0].text, root=root) if len(operands(whole)) == 2 and len(bounds) == 1 else ""
        if bound and total:
            inside = whole.edited([place.replaced(total), bounds[0].replaced(bound)])
            edit = whole.replaced(f"{self.writer.namespace}.sqrt({inside})")
            yield Candidate((edit,), messages.BOUND_SQUARE, True, kind="guard")
        elif bound:
            operand = operands(place)[0]
            text = operand.one_line if isinstance(place.path()[-2], cst.Arg) else operand.atom
            content = within(place, operand, whole.edited([place.replaced(text), bounds[0].replaced(bound)]))
            edit = whole.replaced(content if place.is_atom else f"({content})")
            yield Candidate((edit,), messages.BOUND_OPERAND, True, kind="guard")

    def _of_one(self, place: SourceNode) -> Iterator[Candidate]:
        """The root of 1 where a square is 0, for a root or a norm of which the row below makes 1 where that is 0."""
        total = self._sum_of_squares(place) if self.writer.framework == "jax" else ""
        operand = operands(place, 1)[0].one_line if self._is_root else total
        found, spot = next_value(place), spot_before(place)
        if not operand or found is None or spot is None or not self.writer.namespace:
            return
        name, value, row = found
        asked = re.fullmatch(rf"[\w.]*where\({name}(==0,1,{name}|(!=|>)0,{name},1)\)", plain(value.one_line))
        start, end = place.block.place(row)
        above = place.source.lines[place.region[0].row - 1 : start.row - 1]
        note = row.trailing_whitespace.comment.value if row.trailing_whitespace.comment is not None else ""
        if asked is None or start.row != end.row or any("#" in line for line in above):
            return  # what a comment speaks of
        square = spelling.free_name(place, f"{name}_squared", "radicand")
        mask = Mask(f"{square} {asked[2] or '=='} 0", asked[2] is not None)
        line = spot.line(square, operand)
        line = replace(line, content=f"{spot.indent}{note}{spot.newline}" * bool(note) + line.content)
        root = place.replaced(f"{self.writer.namespace}.sqrt({self.writer.masked(mask, square, 1.0)})")
        edits = (line, root, without_rows((start, end)))
        yield Candidate(edits, messages.RADICAND, True, kind="guard")

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
        text = ", ".join([SourceNode(place.block, base).one_line, *options])
        norm = place.replaced(f"{self.writer.namespace}.linalg.vector_norm({text})")
        yield Candidate((norm,), messages.NORM, True, kind="guard")

    def squares(self, place: SourceNode) -> Iterator[Candidate]:
        """The square of a norm as the sum of squares that it is, whose gradient at 0 is 0."""
        total = self._sum_of_squares(place)
        power = place.path()[-2] if total else None
        if not isinstance(power, cst.BinaryOperation) or not isinstance(power.operator, cst.Power):
            return
        whole = SourceNode(place.block, power)
        if power.left is place.node and operands(whole)[1].one_line in _TWO:
            edit = whole.replaced(total)
            yield Candidate((edit,), messages.SQUARES, True, kind="guard")

    def _sum_of_squares(self, place: SourceNode) -> str:
        """The square of a norm; empty where it cannot be written, or it is no norm."""
        options = options_of(place, self.family) if self.hazard.op.op in _NORMS else None
        if options is None or not self.writer.namespace or _COMPLEX.search(self.module.text):
            return ""
        array = operands(place, 1)[0]
        named = isinstance(array.node, (cst.Name, cst.Attribute))
        square = f"{array.one_line}**2" if named else f"{array.atom} ** 2"
        given = ", ".join([square, *(f"{name}={value}" for name, value in options.items())])
        return f"{self.writer.namespace}.{sum_of(self.family)}({given})"

    def _deviation(self, place: SourceNode) -> Iterator[Candidate]:
        """A deviation as the square root of a variance that is not 0."""
        function = place.node.func if isinstance(place.node, cst.Call) else None
        spot = spot_before(place)
        if spot is None or not isinstance(function, cst.Attribute) or function.attr.value not in _VARIANCE:
            return
        variance = within(place, SourceNode(place.block, function.attr), _VARIANCE[function.attr.value])
        of = [p.node.value for p in operands(place, 1)[:1] if isinstance(p.node, cst.Name)]
        name = spelling.free_name(place, "variance", *(f"{name}_variance" for name in of))
        mask = Mask(f"{name} != 0", True)
        inner = f"{self.writer.namespace}.sqrt({self.writer.masked(mask, name, 1.0)})"
        what = "guard the square root where the variance is 0"
        for content in (self.writer.masked(mask, inner, 0.0), inner):
            edits = (spot.line(name, variance), place.replaced(content))
            yield Candidate(edits, what, True, kind="guard", alone=content is inner)


def _of_operand(bound: str, *, root: bool) -> str:
    """A bound of a root, or of an exponential, as one of its operand; nothing where it is not the same number.

    The square of a small bound is 0 in float16, where the bound itself has to be 0 as well, and is none in float32.
    """
    if re.fullmatch(r"1(\.0?)?", bound):
        return bound if root else bound.replace("1", "0")
    small = float(bound) if root and _SMALL.fullmatch(bound) else 0.0
    return f"{small * small:g}" if 1e-18 <= small < 2e-8 else ""


def _squared(place: SourceNode) -> cst.BaseExpression | None:
    """What is squared: ``x**2``, ``x * x``, ``x.pow(2)``, ``torch.square(x)``."""
    node, found = place.node, operands(place)
    texts = [each.one_line for each in found]
    if isinstance(node, cst.BinaryOperation):
        power = isinstance(node.operator, cst.Power) and texts[1] in _TWO
        same = isinstance(node.operator, cst.Multiply) and texts[0] == texts[1] and not list(calls_within(place))
        return node.left if power or same else None
    name = last_name(node.func) if isinstance(node, cst.Call) else ""
    squares = (name == "square" and len(found) == 1) or (name == "pow" and set(texts[1:]) <= _TWO and len(texts) == 2)
    return found[0].node if squares else None  # type: ignore[return-value]
