"""From the hazards of a file to its findings: name the culprit once, choose its code, say it in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from wherelint import rules
from wherelint.analysis import severed
from wherelint.analysis.causes import with_causes
from wherelint.analysis.search import Detection, FileSearch
from wherelint.defects import describe
from wherelint.evidence import names as naming
from wherelint.evidence.judge import Outlook
from wherelint.evidence.pieces import Evidence
from wherelint.finding import Elsewhere, Finding, Problem, Selection, Witness
from wherelint.frontend import screen
from wherelint.frontend.module import Module
from wherelint.frontend.syntax import GiveUp
from wherelint.graph.evaluate import evaluate
from wherelint.graph.node import Leaf, Node, leaves, nearest_framework, rounded_away, topological
from wherelint.interpret.programs import Program, lowered, programs, spot
from wherelint.interpret.values import Origin
from wherelint.ops import OPERATIONS, Array
from wherelint.ops.numeric import shortest
from wherelint.ops.traits import CLIPS, SELECTIONS
from wherelint.search.budget import WorkBudget
from wherelint.search.simplify import simplest
from wherelint.search.witness import Hazard, Search

_MOST_INPUTS = 6


@dataclass(frozen=True)
class Analysis:
    """What is known of a file: its findings, each with the hazard behind it (None for a rule that searches none)."""

    module: Module
    used: Sequence[str]
    found: Sequence[tuple[Finding, Detection | None]]
    problems: Sequence[Problem]
    #: What was asked for; what cannot score enough was left out.
    outlook: Outlook = field(default_factory=Outlook)

    def with_evidence(self, *names: str) -> Analysis:
        """The same analysis, with more that is known of all its findings."""
        return replace(self, found=[(finding.with_evidence(*names), made) for finding, made in self.found])

    @property
    def findings(self) -> list[Finding]:
        """The findings, in the order they were made."""
        return [finding for finding, _ in self.found]

    def places(self, finding: Finding) -> list[tuple[Finding, Detection | None]]:
        """What is known of a finding, wherever it was handed on, and of the others of its cause."""
        known = {(f.sort_key(), f.elsewhere): (f, made) for f, made in self.found}
        return [known[key] for place in finding.places if (key := (place.sort_key(), place.elsewhere)) in known]


def analyse(
    module: Module,
    used: Sequence[str],
    names: Iterable[tuple[str, ...]],
    opt_in: frozenset[str],
    *,
    low: bool = True,
    draft: bool = False,
    only: Callable[[Node], bool] | None = None,
    whole: WorkBudget | None = None,
    outlook: Outlook | None = None,
) -> Analysis:
    """Search some functions of a file that uses some frameworks; functions that are too much are given up.

    Not ``low``: only for what is of high confidence. ``draft``: with witnesses as they were found, not simple ones.
    ``only``: which selections are searched, and which operations that a clip feeds. ``whole``: what may be spent on it.
    ``outlook``: what is asked for; the rest is left out, as far as that saves work.
    """
    filename = module.filename
    found: dict[Any, tuple[Finding, Detection | None]] = {}
    problems: list[Problem] = []
    outlook = outlook or Outlook()
    searches = FileSearch(module, used, low=low, only=only, whole=whole, outlook=outlook)
    # Where its place alone keeps a finding from being shown, a function is not read, unless what it calls asks for it.
    names = list(names)
    if not opt_in and outlook.least > 0:
        names = [each for each in names if outlook.reaches(outlook.most(naming.standing(module, each)))]
    for number, name in enumerate(names):
        if searches.spent:
            left = len(names) - number
            where = f"`{'.'.join(name)}`" + (f" and {left - 1} more functions" if left > 1 else "")
            error = GiveUp("the file has more of them than the analysis follows, or longer ones")
            problems.append(_given_up(filename, where, error))
            break
        try:
            made = (lowered if draft else programs)(module, name, used)
            for finding in (f for program in made for f in _opt_in(program, used, filename, opt_in)):
                found.setdefault((finding.code, finding.location), (finding, None))
            searches.search(name, made)
        except Exception as error:
            problems.append(_given_up(filename, f"`{'.'.join(name)}`", error))
    found_now, failed = _made(_one_per_bug(searches.detections()), filename, draft=draft)
    problems += failed
    if not draft:
        found_now = with_causes(found_now)
        problems += (Problem(filename, said, error=False) for said in module.budget.given_up)
    return Analysis(module, used, [*found.values(), *found_now], problems, outlook)


def _made(
    bugs: Iterable[tuple[Detection, list[Node]]], filename: str, *, draft: bool
) -> tuple[list[tuple[Finding, Detection | None]], list[Problem]]:
    """The findings of some detections, and what went wrong."""
    found: list[tuple[Finding, Detection | None]] = []
    problems: list[Problem] = []
    for detection, related in bugs:
        try:
            made = detection
            if not draft:
                made = replace(detection, hazard=simplest(detection.search, detection.hazard))
            found.append((_finding(made, related, filename), made))
        except Exception as error:
            what = f"a finding in `{detection.hazard.select.origin.function}`"
            problems.append(_given_up(filename, what, error))
    return found, problems


def _given_up(filename: str, what: str, error: Exception) -> Problem:
    """What is said of a function or a finding that could not be followed."""
    if isinstance(error, GiveUp):
        why = str(error)
    elif isinstance(error, RecursionError):
        why = "it is nested too deeply"
    else:  # a defect of ours; the other functions are checked all the same
        why = describe(error)
    defect = not isinstance(error, (GiveUp, RecursionError))
    return Problem(filename, f"gave up on {what}: {why}", error=defect)


def _opt_in(program: Program, used: Sequence[str], filename: str, codes: frozenset[str]) -> Iterable[Finding]:
    """Findings of the rules that are off unless they are selected."""
    if codes & screen.CUTS:
        for code, node, what in severed.severed(program):
            if code in codes and _written(node, filename):
                framework = nearest_framework(node) or used[0]
                at = node.origin
                yield _build(code, at, what, at, framework, filename=filename, witness=severed.witness(node))


def _written(node: Node, filename: str) -> bool:
    return isinstance(node.origin, Origin) and node.origin.block.module.filename == filename


def _one_per_bug(detections: Iterable[Detection]) -> list[tuple[Detection, list[Node]]]:
    """One finding a singular operation and selection; selections further out over the same operation are related."""
    by_op: dict[object, list[Detection]] = {}
    for item in detections:
        by_op.setdefault(spot(item.hazard.op), []).append(item)
    kept: list[tuple[Detection, list[Node]]] = []
    for items in by_op.values():
        items = [i for i in items if not _onto(i.hazard)] or items
        reads = {id(i): {spot(n) for n in topological([i.hazard.select])} for i in items}
        for item in items:
            inner = [o for o in items if o is not item and spot(o.hazard.select) in reads[id(item)]]
            around = [o for o in items if o is not item and spot(item.hazard.select) in reads[id(o)]]
            unsure = item.hazard.confidence == "low"
            if any(unsure or o.hazard.confidence == "high" for o in inner):
                continue
            if not (unsure and any(o.hazard.confidence == "high" for o in around)):
                kept.append((item, [o.hazard.select for o in around]))
    kept.sort(key=lambda pair: pair[0].hazard.confidence)  # "high" before "low"
    said: set[object] = set()
    bugs = []
    for item, outer in kept:
        if item.hazard.missing_data:  # everything computed with missing data is poisoned: one operation says it all
            if spot(item.hazard.select) in said:
                continue
            said.add(spot(item.hazard.select))
        bugs.append((item, outer))
    return bugs


def _onto(hazard: Hazard) -> bool:
    """Whether the selection is a clip below the operation rather than a selection above it."""
    return hazard.select.selection in CLIPS and hazard.select in set(topological([hazard.op]))


def _code(hazard: Hazard) -> str:
    if _onto(hazard):
        return "WL303" if _epsilon_lost(hazard) else "WL301"
    kind = hazard.select.selection
    if kind is not None and (code := SELECTIONS[kind].code) is not None:
        return code
    if hazard.missing_data:
        return "WL111"
    if _epsilon_lost(hazard):
        return "WL303"
    entry = OPERATIONS.get(hazard.op.op)
    return (entry.code if entry is not None else None) or "WL111"


def _epsilon_lost(hazard: Hazard) -> bool:
    """Whether float32 rounded a guarding constant away: it is 0 or 1 only there, and float64 is regular."""
    order = topological([hazard.op])
    if not any(map(rounded_away, order)):
        return False
    double = {n: v.astype(np.float64) if v.dtype.kind == "f" else v for n, v in hazard.inputs.items()}
    search = Search(hazard.op, "jax")
    values = evaluate(search.order, double, np.float64)
    operands = [values[i] for i in hazard.op.inputs]
    with np.errstate(all="ignore"):
        parts = OPERATIONS[hazard.op.op].vjp(np.ones_like(values[hazard.op]), values[hazard.op], *operands)
    return all(bool(np.isfinite(p).all()) for p in parts if p is not None)


def _finding(detection: Detection, related: Sequence[Node], filename: str) -> Finding:
    hazard, code = detection.hazard, _code(detection.hazard)
    if code == "WL303":
        hazard = hazard.with_evidence(Evidence.EPSILON_LOST)
    modes: tuple[str, ...] = ()
    if detection.framework == "tensorflow":
        modes = ("eager", "xla") if Search(hazard.select, "tensorflow").shows(hazard) else ("xla",)
    shown, elsewhere = _shown(hazard, filename)
    return _build(
        code, shown[0], hazard.op.op, shown[1], detection.framework, kind=hazard.select.selection or "",
        filename=filename, witness=_witness(hazard), confidence=hazard.confidence, modes=modes, elsewhere=elsewhere,
        evidence=tuple(sorted(each.label for each in hazard.evidence)),
        related=tuple(
            _selection(n.origin, n.selection or "") for n in related if n.origin.block.module.filename == filename
        ),
    )  # fmt: skip


def _shown(hazard: Hazard, filename: str) -> tuple[list[Origin], tuple[Elsewhere, ...]]:
    """Where a file shows the operation and the selection: there, or at the call that leads to it; and the others."""
    places = [hazard.op.origin, hazard.select.origin]
    away = [origin for origin in dict.fromkeys(places) if origin.block.module.filename != filename]
    words = {hazard.select.origin: hazard.select.selection, hazard.op.origin: rules.spoken(hazard.op.op)}
    shown = [origin.call if origin in away else origin for origin in places]
    known = [origin for origin in shown if origin is not None]
    return [origin or known[0] for origin in shown], tuple(_elsewhere(o, f"the {words[o]}", filename) for o in away)


def _elsewhere(origin: Origin, what: str, filename: str) -> Elsewhere:
    start, end = origin.block.region(origin.node)
    module = origin.block.module
    rows = "\n".join(module.text.split("\n")[start.row - 1 : end.row])
    return Elsewhere(module.named_beside(filename), start, end, what, rows)


def _build(code: str, at: Origin, op: str, select: Origin, framework: Any, kind: str = "", **more: Any) -> Finding:
    start, end = at.block.region(at.node)
    selection = _selection(select, kind)
    places = (f"; {e.message} stands at {e.filename}:{e.location.row}" for e in more.get("elsewhere", ()))
    return Finding(
        code=code,
        name=rules.get(code).name,
        message=rules.message(code, op, selection.kind, framework, more.get("modes", ())) + "".join(places),
        location=start,
        end_location=end,
        select=selection,
        function=select.function,
        framework=framework,
        op=op,
        noqa_row=start.row,
        **{"confidence": "high", **more},
    )


def _selection(origin: Origin, kind: str) -> Selection:
    return Selection(kind, *origin.block.region(origin.node))


def _is_as_ever(leaf: Leaf, value: Array | None) -> bool:
    """Whether a truth of the Python program is what it nearly always is: ``axis is None``, ``isinstance(x, Array)``."""
    if "(" in leaf.name and leaf.kind == "bool" and not leaf.array:
        return True
    return leaf.preferred is not None and value is not None and bool((value == leaf.preferred).all())


def _witness(hazard: Hazard) -> Witness:
    """The inputs that the operation or the condition reads, the value, and the gradients that are not finite."""
    read = leaves(hazard.op, hazard.select)
    bad = {n for n, g in hazard.gradient.items() if not np.isfinite(g).all()}
    told = [n for n in read if not n.name.startswith("(") and not _is_as_ever(n, hazard.inputs.get(n))]
    shown = [n for n in told if n in hazard.inputs or n in bad]
    passed = {n: v for n, v in hazard.inputs.items() if isinstance(n, Leaf) and n not in shown and n.usual is not None}
    shown += [n for n, v in passed.items() if (v != n.usual).any()]
    named = sorted(shown, key=lambda n: n not in bad)
    inputs = {n.name: shortest(hazard.inputs[n], n.kind) for n in named[:_MOST_INPUTS] if n in hazard.inputs}
    gradient = {n.name: shortest(hazard.gradient[n]) for n in named[:_MOST_INPUTS] if n in bad}
    return Witness(inputs, shortest(hazard.value), gradient)
