"""From the hazards of a file to its findings: name the culprit once, choose its code, say it in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wherelint.defects import describe
from wherelint.evidence import names as naming
from wherelint.evidence.gradient_flow import gradient_flow, is_marked
from wherelint.evidence.judge import Outlook
from wherelint.evidence.pieces import Evidence
from wherelint.evidence.structure import FOR
from wherelint.evidence.witness import as_shown
from wherelint.finding import Finding, Problem
from wherelint.findings import severed
from wherelint.findings.epsilon import late_epsilons
from wherelint.findings.group import one_per_bug, with_causes
from wherelint.findings.hazards import Detection, FileHazards, arithmetic
from wherelint.findings.messages import build, finding_of
from wherelint.frontend.module import Module
from wherelint.frontend.names import written
from wherelint.frontend.syntax import GiveUp
from wherelint.graph.node import Node, nearest_framework
from wherelint.interpret.programs import Program, lowered, programs
from wherelint.interpret.values import Origin
from wherelint.search.budget import WorkBudget
from wherelint.search.simplify import simplest


@dataclass(frozen=True)
class Analysis:
    """What is known of a file: its findings, each with the hazard behind it (None for a rule that searches none)."""

    module: Module
    used: Sequence[str]
    found: Sequence[tuple[Finding, Detection | None]]
    problems: Sequence[Problem]
    #: What was asked for; what cannot score enough was left out.
    outlook: Outlook = field(default_factory=Outlook)
    #: The functions that were not searched to the end.
    unfinished: frozenset[tuple[str, ...]] = frozenset()

    def with_evidence(self, *names: str) -> Analysis:
        """The same analysis, with more that is known of all its findings."""
        return replace(self, found=[(finding.with_evidence(*names), detection) for finding, detection in self.found])

    @property
    def findings(self) -> list[Finding]:
        """The findings, in the order they were made."""
        return [finding for finding, _ in self.found]

    def places(self, finding: Finding) -> list[tuple[Finding, Detection | None]]:
        """What is known of a finding, wherever it was handed on, and of the others of its cause."""
        known = {(f.sort_key(), f.elsewhere): (f, detection) for f, detection in self.found}
        return [known[key] for place in finding.places if (key := (place.sort_key(), place.elsewhere)) in known]


def analyse_functions(
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

    Not ``low``: only for errors and warnings. ``draft``: with witnesses as they were found, not simple ones.
    ``only``: which selections are searched, and which operations that a clip feeds. ``whole``: what may be spent on it.
    ``outlook``: what is asked for; the rest is left out, as far as that saves work.
    """
    filename = module.filename
    found: dict[Any, tuple[Finding, Detection | None]] = {}
    problems: list[Problem] = []
    unfinished: set[tuple[str, ...]] = set()
    outlook = outlook or Outlook()
    hazards = FileHazards(module, used, low=low, only=only, whole=whole, outlook=outlook)
    # Where its place alone keeps a finding from being shown, a function is not read, unless what it calls asks for it.
    names = list(names)
    if not opt_in and outlook.least > 0:
        names = [each for each in names if outlook.reaches(outlook.most(naming.by_surroundings(module, each) | FOR))]
    for number, name in enumerate(names):
        if hazards.spent:
            left = len(names) - number
            where = f"`{'.'.join(name)}`" + (f" and {left - 1} more functions" if left > 1 else "")
            error = GiveUp("the file has too many functions (analysis budget exceeded)")
            problems.append(_given_up(filename, where, error))
            break
        try:
            lowerings = (lowered if draft else programs)(module, name, used)
            for each in (each for program in lowerings for each in _opt_in(program, used, module, name, opt_in)):
                found.setdefault((each[0].code, each[0].location), each)
            hazards.search(name, lowerings)
        except Exception as error:
            unfinished.add(name)
            problems.append(_given_up(filename, f"`{'.'.join(name)}`", error))
    results, failed = _findings(one_per_bug(hazards.detections()), filename, draft=draft)
    problems += failed
    if not draft:
        results = with_causes(results)
        problems += (Problem(filename, why, error=False) for why in module.budget.given_up)
    return Analysis(module, used, [*found.values(), *results], problems, outlook, frozenset(unfinished))


def _findings(
    bugs: Iterable[tuple[Detection, list[Node]]], filename: str, *, draft: bool
) -> tuple[list[tuple[Finding, Detection | None]], list[Problem]]:
    """The findings of some detections, and what went wrong."""
    found: list[tuple[Finding, Detection | None]] = []
    problems: list[Problem] = []
    for detection, related in bugs:
        try:
            if not draft:
                detection = replace(detection, hazard=as_shown(simplest(detection.search, detection.hazard)))
            found.append((finding_of(detection, related, filename), detection))
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


def _opt_in(
    program: Program, used: Sequence[str], module: Module, name: tuple[str, ...], codes: frozenset[str]
) -> Iterable[tuple[Finding, Detection | None]]:
    """Findings of the rules that are off unless they are selected."""
    if "WL305" in codes:
        for hazard, search in late_epsilons(program, lambda node: arithmetic(_framework(node, used))):
            if _is_written(hazard.op, module) and _is_written(hazard.select, module):
                flow = gradient_flow(hazard, program.inputs, module, tuple(map(written, name)))
                detection = Detection(hazard.with_evidence(*flow), _framework(hazard.op, used), search, name, program)
                yield finding_of(detection, (), module.filename), detection
    for code, node, what in severed.severed(program) if codes & {"WL401", "WL402"} else ():
        if code in codes and _is_written(node, module):
            at, witness = node.origin, severed.witness(node)
            found = build(code, at, what, at, _framework(node, used), filename=module.filename, witness=witness)
            yield found.with_evidence(Evidence.NOT_DIFFERENTIATED.label) if is_marked(at) else found, None


def _is_written(node: Node, module: Module) -> bool:
    """Whether a node is an expression of this very file."""
    return isinstance(node.origin, Origin) and node.origin.block.module is module


def _framework(node: Node, used: Sequence[str]) -> str:
    return nearest_framework(node) or used[0]
