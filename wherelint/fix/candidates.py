"""Rewrites that may remove a hazard, the best first. Whether one does is for ``proof`` to say.

*The double where*: an operand of the operation, or an argument of the helper that holds it, is masked with the
selection's own condition. *The local guard*: where that condition cannot be had at the operation, or reads its result,
the operation is guarded by a condition on its own operand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from wherelint.finding import Edit
from wherelint.fix import spelling
from wherelint.fix.guards import GUARDS, Guard
from wherelint.fix.syntax import Place, Spot, calls_within, condition, operands, place_of, spot_before
from wherelint.graph.node import Node, differentiable_inputs
from wherelint.graph.search import Hazard
from wherelint.ops import OPERATIONS
from wherelint.source.module import Module

_SAFE = (1.0, 0.0, 0.5, 2.0)
_MOST_ARGUMENTS = 6
#: An expression no longer than this is repeated rather than given a name.
_SHORT = 16


@dataclass(frozen=True)
class Candidate:
    """Edits to one file, and what they do in one sentence."""

    edits: tuple[Edit, ...]
    message: str
    #: Whether everything between the masked operand and the selection is elementwise.
    elementwise: bool


@dataclass(frozen=True)
class Mask:
    """A condition of the file, and whether what it holds for is kept or dropped."""

    text: str
    keeps: bool
    place: Place


class Site:
    """A hazard in the file it is to be mended in."""

    def __init__(self, module: Module, framework: str, hazard: Hazard) -> None:
        self.module = module
        self.framework = framework
        self.hazard = hazard
        self.op = place_of(hazard.op)
        self.select = place_of(hazard.select)
        self.between = list(_between(hazard.select, hazard.op))

    def here(self, place: Place | None) -> bool:
        """Whether a place lies in the file."""
        return place is not None and place.block.module is self.module

    def candidates(self) -> Iterator[Candidate]:
        """Rewrites, the best first."""
        masks = list(self._masks())
        if self.op is not None and self.here(self.op):
            for mask in masks:
                yield from self._masked(self.op, mask, self._operands(self.op))
        for mask in masks:
            for call in self._helpers():
                yield from self._masked(call, mask, [(p, _SAFE) for p in operands(call, self.module)[:_MOST_ARGUMENTS]])
        if self.op is not None and self.here(self.op):
            yield from self._guarded(self.op)

    # -- the double where -----------------------------------------------------------------------------------------

    def _masks(self) -> Iterator[Mask]:
        """The selection's condition as it is written there, and as it was computed."""
        written = condition(self.hazard.select)
        if written is None or not self.here(written) or _has_effects(written.node):
            return
        keeps = self._keeps()
        text = written.one_line
        select = self.hazard.select
        if select.selection == "multiply":
            mask = select.inputs[1 - select.params["operand"]]
            text = text if mask.kind == "bool" else f"{written.one_line if written.is_atom else f'({text})'} != 0"
        yield Mask(text, keeps, written)
        computed = place_of(select.inputs[0]) if select.op in ("where", "compress") else None
        if computed is not None and self.here(computed) and isinstance(written.node, cst.Name):
            if isinstance(computed.node, (cst.Comparison, cst.UnaryOperation, cst.BinaryOperation, cst.Call)):
                yield Mask(computed.one_line, keeps, computed)

    def _keeps(self) -> bool:
        """Whether what the condition holds for is what the selection takes of the operation's arm."""
        select = self.hazard.select
        if select.op == "where":
            return not any(n is select.inputs[2] for n in (*self.between, self.hazard.op))
        return True

    def _operands(self, place: Place) -> list[tuple[Place, tuple[float, ...]]]:
        """The operands worth masking, with the values that are safe for them."""
        entry = OPERATIONS[self.hazard.op.op]
        found = operands(place, self.module)
        wanted = [i for i, safe in enumerate(entry.safe) if safe is not None]
        if len(found) < len(entry.safe):  # written as something else, such as a loss
            return [(p, _SAFE) for p in found]
        chosen = [(found[i], tuple(dict.fromkeys([entry.safe[i], *_SAFE]))) for i in wanted]
        return chosen or [(p, _SAFE) for p in found]  # type: ignore[return-value]

    def _masked(self, around: Place, mask: Mask, places: list[tuple[Place, tuple[float, ...]]]) -> Iterator[Candidate]:
        what = f"mask the operand with the condition of the `{self._select_name()}`"
        for where in [*spelling.wheres(self.module, self.framework, self.select, self.op)][:2]:
            for operand, values in places:
                if isinstance(operand.node, cst.BaseNumber) or _has_walrus(operand.node):
                    continue
                for value in values:
                    edit = operand.replaced(self._where(where, mask, operand, f"{value!r}"))
                    yield Candidate((edit,), what, self._elementwise(around))

    def _select_name(self) -> str:
        kind = self.hazard.select.selection or "selection"
        return {"multiply": "product", "index": "index", "reduction": "reduction"}.get(kind, kind)

    def _where(self, where: str, mask: Mask, operand: Place, safe: str) -> str:
        if mask.keeps:
            return f"{where}({mask.text}, {operand.text}, {safe})"
        if self.framework == "tensorflow":  # it takes the dtype of the second argument
            return f"{where}({spelling.negated(mask.place)}, {operand.text}, {safe})"
        return f"{where}({mask.text}, {safe}, {operand.text})"

    def _helpers(self) -> list[Place]:
        """Calls in the dropped arm, or in what it was computed from, in which the operation may lie."""
        found: list[Place] = []
        for node in (self.hazard.select, *self.between):
            place = place_of(node)
            if place is not None and self.here(place):
                for call in calls_within(place):
                    if self.op is None or not any(call.node is p.node for p in [self.op, self.select, *found] if p):
                        found.append(call)
        return found[:_MOST_ARGUMENTS]

    def _elementwise(self, around: Place) -> bool:
        """Whether the mask meets the selection with nothing between that changes the shape."""
        nodes = [self.hazard.op, *self.between] if around is self.op else self.between
        return all(
            n.op in ("where", "cond", "identity", "stop") or (n.op in OPERATIONS and not OPERATIONS[n.op].mixes)
            for n in nodes
        ) and not any(n.params.get("spread") for n in nodes)

    # -- the local guard ------------------------------------------------------------------------------------------

    def _guarded(self, place: Place) -> Iterator[Candidate]:
        found = operands(place, self.module)
        select = self.select if self.here(self.select) else None
        for where in [*spelling.wheres(self.module, self.framework, select, self.op)][:1]:
            namespace = where.rpartition(".")[0]
            for guard in GUARDS.get(self.hazard.op.op, ()):
                if guard.operand < len(found) and isinstance(place.node, (cst.Call, cst.BinaryOperation)):
                    yield from self._guard(place, found, guard, where, namespace)

    def _guard(self, place: Place, found: list[Place], guard: Guard, where: str, namespace: str) -> Iterator[Candidate]:
        operand = found[guard.operand]
        others = [p.one_line if p.is_atom else f"({p.one_line})" for p in found]
        spot = spot_before(place)
        named = len(operand.one_line) > _SHORT and spot is not None
        name = spelling.free_name(guard.name, self.module) if named else operand.one_line
        atom = name if named or operand.is_atom else f"({name})"
        terms = dict(x=atom, y=others[1 - guard.operand] if len(others) > 1 else "", namespace=namespace)
        regular = guard.regular(self.framework, place, terms)
        if regular is None:
            return
        lines = self._line(spot, name, operand) if named and spot is not None else ()
        inner = f"{where}({regular.inner}, {name}, {guard.safe})"
        start = self.select.source.offset(place.region[0]) if self.select else 0
        source = place.source
        a, b = (source.offset(p) - source.offset(place.region[0]) for p in operand.region)
        whole = source.between(*place.region)
        del start
        operation = f"{whole[:a]}{inner}{whole[b:]}"
        stripped = operation[1:-1] if getattr(place.node, "lpar", ()) else operation
        what = "guard the operation where it is singular"
        yield Candidate((*lines, place.replaced(operation)), what, self._elementwise(place))
        for outside in guard.outside:
            value = outside.format(inf=_infinity(namespace, self.framework), **terms)
            guarded = f"{where}({regular.outer}, {stripped}, {value})"
            yield Candidate((*lines, place.replaced(guarded)), what, self._elementwise(place))

    def _line(self, spot: Spot, name: str, operand: Place) -> tuple[Edit, ...]:
        return (spot.line(name, operand.one_line),)


def _infinity(namespace: str, framework: str) -> str:
    return 'float("inf")' if framework == "tensorflow" or not namespace else f"{namespace}.inf"


def _between(select: Node, op: Node) -> Iterator[Node]:
    """The nodes on the ways from an operation to the selection that drops it."""
    reads: dict[Node, bool] = {op: True}

    def reach(node: Node) -> bool:
        stack = [(node, False)]
        while stack:
            current, done = stack.pop()
            if done:
                reads[current] = any(reads.get(current.inputs[i], False) for i in differentiable_inputs(current))
            elif current not in reads:
                reads[current] = False
                stack.append((current, True))
                stack += [(current.inputs[i], False) for i in differentiable_inputs(current)]
        return reads[node]

    reach(select)
    for node, reading in reads.items():
        if reading and node is not op and node is not select:
            yield node


_PURE = frozenset(
    """where isnan isfinite isinf isneginf isposinf logical_and logical_or logical_not abs fabs absolute any all sum
    eq ne lt le gt ge less greater equal not_equal less_equal greater_equal isclose allclose squeeze expand_dims
    unsqueeze broadcast_to reshape astype bool view to detach stop_gradient norm sqrt square max min amax amin size
    shape dim is_nan is_finite reduce_any reduce_all reduce_sum cast""".split()
)


def _has_effects(node: cst.CSTNode) -> bool:
    """Whether evaluating a condition twice may do something twice, or give something else the second time."""
    todo = [node]
    while todo:
        current = todo.pop()
        if isinstance(current, (cst.NamedExpr, cst.Await, cst.Yield)):
            return True
        if isinstance(current, cst.Call):
            function = current.func.attr if isinstance(current.func, cst.Attribute) else current.func
            if not isinstance(function, cst.Name) or function.value not in _PURE:
                return True
        todo += current.children
    return False


def _has_walrus(node: cst.CSTNode) -> bool:
    todo = [node]
    while todo:
        current = todo.pop()
        if isinstance(current, (cst.NamedExpr, cst.Await, cst.Yield)):
            return True
        todo += current.children
    return False
