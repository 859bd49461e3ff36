"""The linear term that a constant arm lacks: measured, written, and measured again in the rewritten text.

For display only: how many terms the arm needs, and how far from the point they have to hold, is the author's choice.
"""

import re
from fractions import Fraction

import libcst as cst
import numpy as np

from wherelint.analysis.callers import expression_id
from wherelint.analysis.findings import Analysis, Slope
from wherelint.analysis.programs import lowered
from wherelint.analysis.search import arithmetic
from wherelint.finding import Edit, Finding, Fix
from wherelint.fix.opaque import benign
from wherelint.fix.refusals import NO_TERM, TOO_LONG, refused
from wherelint.fix.shapes import Shaped, differ
from wherelint.fix.syntax import SourceNode, names_within, source_node
from wherelint.frontend.module import Module
from wherelint.graph.differentiate import Tape, backward
from wherelint.graph.evaluate import evaluate
from wherelint.graph.node import Node, leaves, topological
from wherelint.graph.probe import Inputs
from wherelint.graph.search import Search
from wherelint.graph.slope import MEASURING, slope_along, wrong_slope
from wherelint.graph.work import Effort, WorkBudget
from wherelint.ops import Array

_MOST_TRIED = 6
#: A number stands for a fraction if not one in a thousand others is as near to one that is as simple.
_MOST_PARTS, _CHANCE = 1000, 1e-3
_EXACT = 1e-9
_VARIABLE = re.compile(r"[\w.]+(\[[^\[\]]*\])*")
_LONGEST_DECIMAL = 5


def linear_term(analysis: Analysis, finding: Finding, whole: WorkBudget | None) -> Fix | None:
    """The rewrite that gives an arm the slope of the limit; None for any other finding. GiveUp where it is too much."""
    slope = analysis.slopes.get(finding.location) if finding.code == "WL304" else None
    if slope is None:
        return None
    effort = Effort(whole=whole)
    for arm, variable in _tries(slope):
        effort.spend(len(slope.program.order))
        if effort.spent:
            return refused(TOO_LONG)
        if (edit := _Rewriting(analysis, slope, arm).by(variable)) is not None:
            return Fix("display", "give the arm the linear term of the limit", (edit,))
    return refused(NO_TERM)


def _tries(slope: Slope) -> list[tuple[SourceNode, str]]:
    """The constant arm of a selection, with each variable that the selection may be a function of."""
    select = slope.wrong.select
    place, computed = source_node(select), source_node(select.inputs[0])
    if place is None or not isinstance(place.node, cst.Call) or len(place.node.args) != 3:
        return []
    parts = [SourceNode(place.block, arg.value) for arg in place.node.args]
    read = [name for part in (computed, *parts) if part is not None for name in names_within(part)]
    named, imports = dict.fromkeys([*read, slope.wrong.leaf.name]), place.block.module.imports
    variables = [name for name in named if _VARIABLE.fullmatch(name) and name not in imports]
    arms = [part for part, node in zip(parts[1:], select.inputs[1:], strict=True) if not leaves(node)]
    return [(arm, variable) for arm in arms for variable in variables[:_MOST_TRIED]]


class _Rewriting:
    """A selection and its constant arm."""

    def __init__(self, analysis: Analysis, slope: Slope, arm: SourceNode) -> None:
        self._analysis, self._slope, self._wrong, self._arm = analysis, slope, slope.wrong, arm

    def by(self, variable: str) -> Edit | None:
        """The term in a variable, proven: the same value at the point, the slope of the limit, and no finding."""
        arm, wrong = self._arm, self._wrong
        tried = self._measured(_sum(arm, variable, "+"))
        if tried is None or abs(rise := tried[2] - wrong.slope) < _EXACT:
            return None
        at = np.ravel(tried[1] - wrong.value)
        factor, origin = short((wrong.limit - wrong.slope) / rise, wrong.error / abs(rise)), short(at[0], _EXACT)
        if factor is None or origin is None or np.ptp(at) > _EXACT:
            return None
        edit = _sum(arm, _term(abs(factor), variable, origin), "+" if factor > 0 else "-")
        if (proof := self._measured(edit)) is None:
            return None
        root, value, slope = proof
        same = value.shape[1] == len(wrong.value) and np.allclose(value, wrong.value, rtol=_EXACT, atol=_EXACT)
        if not same or abs(slope - wrong.limit) > wrong.error + _EXACT * abs(wrong.limit):
            return None
        if differ(Shaped((wrong.select,)), Shaped((root,)), ()):
            return None
        # The other inputs have other values in the course of it: the limit must not depend on them.
        found = wrong_slope(Search(root, arithmetic(self._slope.framework), Effort(MEASURING)))
        return edit if found is None else None

    def _measured(self, edit: Edit) -> tuple[Node, Array, float] | None:
        """The selection after an edit, its value at the point and its slope there."""
        module, wrong, framework = self._analysis.module, self._wrong, arithmetic(self._slope.framework)
        try:
            after = module.project.revised(module.source.edited([edit]))
        except (SyntaxError, ValueError):
            return None
        root = self._here(after)
        if root is None:
            return None
        given = {(n.name, n.kind): wrong.inputs[n] for n in leaves(wrong.select) if n in wrong.inputs}
        read = leaves(root)
        inputs: Inputs = {n: given.get((n.name, n.kind), benign(n, i)) for i, n in enumerate(read)}
        moved = next((n for n in read if n.name == wrong.leaf.name), None)
        order = topological([root])
        values = evaluate(order, inputs, np.float64)
        gradient = backward(Tape(order), values, root, framework, symbolic=False).cotangents
        slope = slope_along(wrong.direction, None if moved is None else gradient.get(moved))
        return root, values[root], slope / wrong.direction.sum()

    def _here(self, after: Module) -> Node | None:
        """The same selection in a rewritten text, where each call of a helper has one of its own."""
        select, slope = self._wrong.select, self._slope
        mine = [n for n in slope.program.made if expression_id(n) == expression_id(select)]
        start, _ = select.origin.block.region(select.origin.node)

        def is_it(node: Node) -> bool:
            origin = node.origin
            return origin.block.module is after and origin.block.region(origin.node)[0] == start

        programs = [p for p in lowered(after, slope.name, self._analysis.used) if p.name == slope.program.name]
        there = [n for p in programs for n in p.made if n.op == "where" and n.selection is not None and is_it(n)]
        return there[mine.index(select)] if len(there) == len(mine) else None


def short(number: float, error: float) -> Fraction | None:
    """The simplest fraction that a number may be, given its error; None if it is hardly meant to be one."""
    parts = next((q for q in range(1, _MOST_PARTS) if abs(round(number * q) / q - number) <= error), None)
    if parts is None or error * parts**2 > _CHANCE:
        return None
    return Fraction(round(number * parts), parts)


def _sum(arm: SourceNode, term: str, sign: str) -> Edit:
    """An edit that adds a term to an arm, or that takes it away."""
    if re.fullmatch(r"0(\.0*)?", arm.one_line):
        return arm.replaced(term if sign == "+" else f"-{term}")
    constant = arm.one_line if isinstance(arm.node, cst.UnaryOperation) else arm.atom
    return arm.replaced(f"{constant} {sign} {term}")


def _term(factor: Fraction, variable: str, origin: Fraction) -> str:
    """A positive multiple of how far a variable is from where it begins."""
    sign, least = ("-", origin) if origin > 0 else ("+", -origin)
    moved = f"({variable} {sign} {_spelled(least)})" if origin else variable
    if factor == 1:
        return moved
    one_of_many = factor.numerator == 1 and "/" in _spelled(factor)
    return f"{moved} / {factor.denominator}" if one_of_many else f"{_spelled(factor)} * {moved}"


def _spelled(number: Fraction) -> str:
    """A number as a decimal where that is short and exact, else as a quotient."""
    decimal = str(float(number))
    exact = len(decimal) <= _LONGEST_DECIMAL and Fraction(decimal) == number
    return decimal if exact else f"{number.numerator} / {number.denominator}"
