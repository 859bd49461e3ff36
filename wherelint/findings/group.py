"""Which findings have one cause: one mask would fix them all.

They are in one function, the same input makes each operation singular, and one selection drops them, one condition
decides about them, or they are one operation that several selections drop.
"""

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from wherelint.finding import Finding, Witness
from wherelint.findings.hazards import Detection
from wherelint.findings.messages import feeds_operation
from wherelint.graph.differentiate import fails
from wherelint.graph.evaluate import evaluate
from wherelint.graph.node import Const, Leaf, Node, leaves, topological, whole
from wherelint.interpret.programs import spot
from wherelint.search.batch import any_lane

Found = tuple[Finding, Detection | None]


def with_causes(found: Sequence[Found]) -> list[Found]:
    """The same findings, each with the number of its cause, and a witness that begins with the inputs that matter.

    The surest come first, so that less sure ones never come between them.
    """
    numbers: dict[Hashable, int] = {}
    #: For each cause its function, the inputs one of which has to be masked, and where a mask would stand.
    causes: list[tuple[str, frozenset[Node], set[Hashable]]] = []
    grouped = [finding for finding, _ in found]
    for index in sorted(range(len(found)), key=lambda i: (-found[i][0].score, found[i][0].sort_key())):
        finding, detection = found[index]
        if detection is None:
            continue
        masked, spots = fixing(detection), _spots(detection, numbers)
        for number, (function, inputs, known) in enumerate(causes):
            if function == finding.function and inputs & masked and known & spots:
                causes[number] = function, inputs & masked, known | spots
                break
        else:
            number = len(causes)
            causes.append((finding.function, masked, spots))
        grouped[index] = replace(
            finding,
            cause=number,
            witness=_ordered(finding.witness, {each for n in masked for each in (n.name, n.called)}),
        )
    return list(zip(grouped, (detection for _, detection in found), strict=True))


def _ordered(witness: Witness | None, first: Collection[str]) -> Witness | None:
    """A witness with some inputs before the others."""
    if witness is None:
        return None
    return replace(witness, inputs=dict(sorted(witness.inputs.items(), key=lambda item: item[0] not in first)))


def fixing(detection: Detection) -> frozenset[Leaf]:
    """The inputs that each alone, where the search departed from, keep the operation of a hazard regular."""
    hazard, starts = detection.hazard, detection.search.starts
    read = dict.fromkeys(whole(n, hazard.inputs) for n in leaves(hazard.op))
    tried = [(n, start[n]) for n in read for start in starts if not np.array_equal(start[n], hazard.inputs[n])]
    batch = {n: np.repeat(v, len(tried) + 1, axis=0) for n, v in hazard.inputs.items()}
    for row, (node, value) in enumerate(tried, 1):
        batch[node] = np.repeat(batch[node], value.shape[1] // batch[node].shape[1], axis=1)
        batch[node][row] = value
    values = evaluate(topological([hazard.op]), batch)
    singular = any_lane(fails(hazard.op, values, detection.framework))
    singular = np.broadcast_to(singular, len(tried) + 1)
    return frozenset(node for (node, _), bad in zip(tried, singular[1:], strict=True) if singular[0] and not bad)


def _spots(detection: Detection, numbers: dict[Hashable, int]) -> set[Hashable]:
    """Where a mask of a hazard would stand: its operation, its selection, and the condition of that."""
    hazard = detection.hazard
    condition = hazard.select.inputs[:1] if hazard.select.op == "where" else ()
    return {spot(hazard.op), spot(hazard.select), *(_computed(c, numbers) for c in condition)}


def _computed(node: Node, numbers: dict[Hashable, int]) -> int:
    """A number for what a node computes, the same wherever that is written again."""
    known: dict[Node, int] = {}
    for each in topological([node]):
        own = (each.value.shape, each.value.tobytes()) if isinstance(each, Const) else each if not each.inputs else 0
        computed = each.op, each.static, own, tuple(known[i] for i in each.inputs)
        known[each] = numbers.setdefault(computed, len(numbers))
    return known[node]


def one_per_bug(detections: Iterable[Detection]) -> list[tuple[Detection, list[Node]]]:
    """One finding a singular operation and selection; selections further out over the same operation are related."""
    by_op: dict[object, list[Detection]] = {}
    for item in detections:
        by_op.setdefault(spot(item.hazard.op), []).append(item)
    chosen: list[tuple[Detection, list[Node]]] = []
    for items in by_op.values():
        items = [i for i in items if not feeds_operation(i.hazard)] or items
        reads = {id(i): {spot(n) for n in topological([i.hazard.select])} for i in items}
        for item in items:
            inner = [o for o in items if o is not item and spot(o.hazard.select) in reads[id(item)]]
            outer = [o for o in items if o is not item and spot(item.hazard.select) in reads[id(o)]]
            unsure = not item.hazard.is_shown
            if any(unsure or o.hazard.is_shown for o in inner):
                continue
            if not (unsure and any(o.hazard.is_shown for o in outer)):
                chosen.append((item, [o.hazard.select for o in outer]))
    chosen.sort(key=lambda pair: not pair[0].hazard.is_shown)
    explained: set[object] = set()
    bugs = []
    for item, related in chosen:
        if item.hazard.missing_data:  # everything computed with missing data is poisoned: one operation says it all
            if spot(item.hazard.select) in explained:
                continue
            explained.add(spot(item.hazard.select))
        bugs.append((item, related))
    return bugs
