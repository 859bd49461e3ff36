"""The value and the gradient of a selection along a line through the witness, before and after the fix."""

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from wherelint.confirm.after_fix import after_fix
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
#: At how many points the gradient should be finite.
_ENOUGH = 6


class _Line(NamedTuple):
    """Points on a line, the witness first: where they lie, the inputs there, and which elements of which move."""

    moved: dict[Leaf, Array]
    at: Array
    inputs: Inputs


class _Drawn(NamedTuple):
    """An element of a selection along a line: its value, and its gradient with respect to some elements of an input."""

    value: Array
    gradient: Array
    wrt: Leaf
    elements: Array
    lane: int

    def quality(self, shown: Array) -> tuple[bool, bool]:
        """Whether the gradient is finite at enough of some points, and whether it varies there."""
        known = self.gradient[shown][np.isfinite(self.gradient[shown])]
        return len(known) >= _ENOUGH, len(known) > 0 and bool(np.ptp(known) > 0)


def with_plot(analysis: Analysis, finding: Finding) -> Finding:
    """A finding of an analysis with its plot, where a search made it."""
    (_, detection), *_ = analysis.places(finding) or [(finding, None)]
    if detection is not None:
        with suppress(RecursionError), np.errstate(all="ignore"):
            return replace(finding, plot=_plot(analysis, finding, detection))
    return finding


def _plot(analysis: Analysis, finding: Finding, detection: Detection) -> Plot | None:
    """The first line on which the gradient is finite at enough points and varies; without one the next best."""
    root, conditions = detection.search.root, detection.search.path_conditions
    lost = [leaf for leaf, gradient in detection.hazard.gradient.items() if not np.isfinite(gradient).all()]
    found: list[tuple[tuple[bool, bool], _Line, Array, Array, _Drawn]] = []
    for line in _lines(detection, lost):
        values = evaluate(topological([root, *conditions]), line.inputs)
        order = np.argsort(line.at)
        for condition in conditions:
            order = order[np.broadcast_to(rows(truth(values[condition])), len(line.at))[order]]
        if len(order) > 1:
            each = _drawn(root, values, detection, line, lost)
            found += [(drawn.quality(order), line, order, values[root], drawn) for drawn in each]
        if any(quality == (True, True) for quality, *_ in found):
            break
    if not found:
        return None
    _, line, order, known, before = max(found, key=lambda one: one[0])

    def curve(drawn: _Drawn) -> Curve:
        return Curve(_numbers(drawn.value[order]), _numbers(drawn.gradient[order]))

    after = None
    fixed = after_fix(analysis, finding, detection, line.inputs, known)
    if fixed is not None:
        same = [[n for n in leaves(each) if n.name == before.wrt.name] for each in (root, fixed.root)]
        if len(same[0]) == len(same[1]):
            wrt = same[1][same[0].index(before.wrt)]
            after = _element(fixed.root, before.lane, fixed.values, detection, wrt, before.elements)
    names = tuple(leaf.name for leaf in line.moved)
    witness, *_ = _numbers(line.at)
    return Plot(names, before.wrt.name, witness, _numbers(line.at[order]), curve(before), after and curve(after))


def _drawn(root: Node, values: Values, detection: Detection, line: _Line, lost: Collection[Leaf]) -> list[_Drawn]:
    """The first element of a selection that loses a gradient at the witness, for each input where it does."""
    for lane in range(values[root].shape[1]):
        found = []
        for leaf in lost:
            elements = line.moved[leaf] if list(line.moved) == [leaf] else np.ones(LANES, np.bool_)
            drawn = _element(root, lane, values, detection, leaf, elements)
            if drawn is not None and not np.isfinite(drawn.gradient[0]):
                found.append(drawn)
        if found:
            return found
    return []


def _element(root: Node, lane: int, values: Values, detection: Detection, wrt: Leaf, elements: Array) -> _Drawn | None:
    """One element of a node, and its gradient with respect to a number that is some elements of an input."""
    element = Node("lane", (root,), Static(index=lane))
    values = evaluate([element], {}, known=values)
    points = max(map(len, values.values()))
    value = np.broadcast_to(values[element], (points, 1))
    tape, framework = Tape(topological([element])), arithmetic(detection.framework)
    found = backward(tape, {**values, element: value}, element, framework, symbolic=False).cotangents
    if wrt not in found:
        return None
    gradient = np.broadcast_to(found[wrt], (points, found[wrt].shape[1]))
    gradient = gradient[:, elements if gradient.shape[1] == len(elements) else [0]]
    return _Drawn(value[:, 0], gradient.sum(axis=1), wrt, elements, lane)


def _lines(detection: Detection, lost: Collection[Leaf]) -> Iterator[_Line]:
    """Lines through the witness: along each input that loses its gradient or is read there, then along all at once."""
    witness = detection.hazard.inputs
    start = {**witness, **(detection.search.starts[0] if detection.search.starts else {})}
    read = dict.fromkeys(whole(leaf, witness) for leaf in (*lost, *leaves(detection.hazard.op)))
    movable = [n for n in read if n.kind == "float" and n in witness and np.isfinite(witness[n]).all()]
    for leaf in movable:
        now, usual = (np.broadcast_to(each[leaf], (1, LANES))[0] for each in (witness, start))
        bad = ~np.isfinite(np.broadcast_to(detection.hazard.gradient.get(leaf, np.zeros((1, 1))), (1, LANES))[0])
        lane = int((bad if bad.any() else now != usual).argmax())
        at = now[lane] + _steps(_round(abs(float(usual[lane] - now[lane]))))
        elements = now == now[lane]
        yield _Line({leaf: elements}, at, _along(witness, {leaf: np.where(elements, at[:, None], now)}, len(at)))
    if apart := [n for n in movable if not np.array_equal(witness[n], start[n])]:
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
    """The power of ten above a distance; 1 where there is none."""
    return float(10 ** np.ceil(np.log10(1.2 * distance))) if 0 < distance < np.inf else 1.0


def _numbers(array: Array) -> tuple[float, ...]:
    """Floats with as many digits as mean something in single precision."""
    return tuple(float(f"{each:.7g}") for each in array.tolist())
