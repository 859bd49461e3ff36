"""The value and the gradient of a selection along a line through the witness, before and after the fix."""

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from wherelint.confirm.fixed import after_fix
from wherelint.finding import Curve, Finding, Plot
from wherelint.findings.analysis import Analysis
from wherelint.findings.hazards import Detection, arithmetic
from wherelint.graph.differentiate import Tape, backward
from wherelint.graph.evaluate import Values, evaluate, truth
from wherelint.graph.node import LANES, Leaf, Node, Static, leaves, topological, whole
from wherelint.ops import Array
from wherelint.search.batch import rows
from wherelint.search.probes import Inputs

#: How many points lie evenly on a line, and how many ever closer to the witness on each side of it, four a decade.
_EVENLY, _CLOSER = 41, 20
#: How many inputs are moved alone to find where the gradient is finite, and at how many points it should be.
_MOST_ALONE, _ENOUGH = 5, 6


class _Line(NamedTuple):
    """Points on a line, the witness first: where they lie, the inputs there, and which elements of which move."""

    moved: dict[Leaf, Array]
    at: Array
    inputs: Inputs

    def reached(self, values: Values, conditions: Collection[Node]) -> Array:
        """The points in order, from the witness to where the function does something else on both sides."""
        allowed = np.ones(len(self.at), np.bool_)
        for condition in conditions:
            allowed &= rows(truth(values[condition]))
        order = np.argsort(self.at)
        here, gone = int(order.argmin()), np.flatnonzero(~allowed[order])
        return order[max(gone[gone < here], default=-1) + 1 : min(gone[gone > here], default=len(order))]


class _Drawn(NamedTuple):
    """An element of a selection along a line: its value, and its gradient with respect to some elements of an input."""

    value: Array
    gradient: Array
    wrt: Leaf
    elements: Array
    lane: int

    def telling(self, shown: Array) -> tuple[bool, bool]:
        """Whether the line leads from where the gradient is lost to where it is finite, and whether that varies."""
        value, gradient = self.value[shown], self.gradient[shown]
        known = gradient[np.isfinite(gradient) & np.isfinite(value)]
        return len(known) >= _ENOUGH, len(known) > 0 and bool(np.ptp(known) > 0)


def with_plot(analysis: Analysis, finding: Finding) -> Finding:
    """A finding of an analysis with its plot, where a search made it."""
    (_, detection), *_ = analysis.places(finding) or [(finding, None)]
    if detection is not None:
        with suppress(RecursionError), np.errstate(all="ignore"):
            return replace(finding, plot=_plot(analysis, finding, detection))
    return finding


def _plot(analysis: Analysis, finding: Finding, detection: Detection) -> Plot | None:
    root, framework = detection.search.root, arithmetic(detection.framework)
    conditions = detection.search.path_conditions
    found: list[tuple[tuple[bool, bool], _Line, Array, Array, _Drawn]] = []
    for line in _lines(detection):
        values = evaluate(topological([root, *conditions]), line.inputs)
        shown = line.reached(values, conditions)
        if len(shown) > 1:
            each = _drawn(root, values, framework, line, _lost(detection))
            found += [(drawn.telling(shown), line, shown, values[root], drawn) for drawn in each]
        if any(all(telling) for telling, *_ in found):
            break
    if not found:
        return None
    _, line, shown, known, before = max(found, key=lambda one: one[0])
    fixed = after_fix(analysis, finding, detection, line.inputs, known)

    def curve(value: Array, gradient: Array) -> Curve:
        return Curve(_numbers(value[shown]), _numbers(gradient[shown]))

    after = None
    if fixed is not None:
        same = [[n for n in leaves(each) if n.name == before.wrt.name] for each in (root, fixed.root)]
        if len(same[0]) == len(same[1]):
            leaf = same[1][same[0].index(before.wrt)]
            value, gradients = _element(fixed.root, before.lane, fixed.values, framework)
            after = curve(value, _summed(gradients[leaf], before.elements)) if leaf in gradients else None
    names = tuple(leaf.name for leaf in line.moved)
    witness, *_ = _numbers(line.at)
    return Plot(names, before.wrt.name, witness, _numbers(line.at[shown]), curve(before.value, before.gradient), after)


def _lost(detection: Detection) -> list[Leaf]:
    """The inputs that lose their gradient at the witness."""
    return [leaf for leaf, gradient in detection.hazard.gradient.items() if not np.isfinite(gradient).all()]


def _drawn(root: Node, values: Values, framework: str, line: _Line, lost: Collection[Leaf]) -> list[_Drawn]:
    """The first element of a selection that loses a gradient at the witness, for each input that does."""
    for index in range(values[root].shape[1]):
        value, gradients = _element(root, index, values, framework)
        bad = {n: b for n in lost if n in gradients and (b := ~np.isfinite(gradients[n][0])).any()}
        if bad:
            # What moves together is one number, as the plot shows it.
            together = line.moved if len(line.moved) == 1 else {}
            chosen = {n: together.get(n, elements) for n, elements in bad.items()}
            return [_Drawn(value, _summed(gradients[n], chosen[n]), n, chosen[n], index) for n in bad]
    return []


def _element(root: Node, index: int, values: Values, framework: str) -> tuple[Array, dict[Node, Array]]:
    """One element of a node, and its gradients."""
    element = Node("lane", (root,), Static(index=index))
    order = topological([element])
    values = evaluate([element], {}, known=values)
    points = max(map(len, values.values()))
    value = np.broadcast_to(values[element], (points, 1))[:, 0]
    found = backward(Tape(order), {**values, element: value[:, None]}, element, framework, symbolic=False).cotangents
    return value, {n: np.broadcast_to(found[n], (points, found[n].shape[1])) for n in leaves(root) if n in found}


def _summed(gradient: Array, elements: Array) -> Array:
    """The gradient of a number that is some elements of an input."""
    return np.asarray(gradient[:, elements if gradient.shape[1] == len(elements) else [0]].sum(axis=1))


def _lines(detection: Detection) -> Iterator[_Line]:
    """Lines through the witness that may lead to where all is well, those along one input first."""
    witness = detection.hazard.inputs
    start = {**witness, **(detection.search.starts[0] if detection.search.starts else {})}
    lost = [whole(leaf, witness) for leaf in _lost(detection)]
    read = dict.fromkeys([*lost, *(whole(leaf, witness) for leaf in leaves(detection.hazard.op))])
    moved = [n for n in read if n.kind == "float" and n in witness and np.isfinite(witness[n]).all()]
    for leaf in moved[:_MOST_ALONE]:
        now, usual = (np.broadcast_to(each[leaf], (1, LANES))[0] for each in (witness, start))
        bad = ~np.isfinite(np.broadcast_to(detection.hazard.gradient.get(leaf, np.zeros((1, 1))), (1, LANES))[0])
        lane = int((bad if bad.any() else now != usual).argmax())
        at = now[lane] + _steps(_round(abs(float(usual[lane] - now[lane]))))
        alike = now == now[lane]
        for elements in (alike, np.arange(LANES) == lane) if alike.sum() > 1 else (alike,):
            yield _Line({leaf: elements}, at, _along(witness, {leaf: np.where(elements, at[:, None], now)}, len(at)))
    apart = [n for n in moved if not np.array_equal(witness[n], start[n])]
    if apart:
        at = _steps(1.0)
        together: Inputs = {n: witness[n] + at[:, None] * (start[n] - witness[n]) for n in apart}
        yield _Line(dict.fromkeys(apart, np.ones(LANES, np.bool_)), at, _along(witness, together, len(at)))


def _along(witness: Inputs, moved: Inputs, points: int) -> Inputs:
    """The witness at every point of a line, but for what moves."""
    return {n: moved[n].astype(v.dtype) if n in moved else np.repeat(v, points, axis=0) for n, v in witness.items()}


def _steps(span: float) -> Array:
    """The steps of a line to both sides, 0 first."""
    closer = span * 10 ** (-np.arange(1, _CLOSER + 1) / 4)
    return np.concatenate([[0.0], np.setdiff1d([*np.linspace(-span, span, _EVENLY), *closer, *-closer], [0.0])])


def _round(distance: float) -> float:
    """A round number, a little more than a distance; 1 where there is none."""
    if not 0 < distance < np.inf:
        return 1.0
    unit = 10.0 ** np.floor(np.log10(distance))
    return float(next(n * unit for n in (1, 2, 5, 10, 20) if n * unit > 1.2 * distance))


def _numbers(array: Array) -> tuple[float, ...]:
    """Floats with as many digits as mean something in single precision."""
    return tuple(float(f"{each:.7g}") for each in array.tolist())
