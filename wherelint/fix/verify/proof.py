"""What a rewritten text is found to do: the functions around a finding computed as before, and searched again."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from wherelint.finding import Finding
from wherelint.findings.analysis import Analysis, analyse_functions
from wherelint.findings.hazards import Detection
from wherelint.fix.scope import Function, concerned
from wherelint.fix.verify.compare import Behavior, observe_rewrite, observe_witness
from wherelint.fix.verify.difference import Baseline, Pair, part_of
from wherelint.fix.verify.findings import Comparison, key
from wherelint.fix.verify.shapes import Shaped
from wherelint.frontend.module import Module
from wherelint.frontend.syntax import GiveUp
from wherelint.graph.node import Node
from wherelint.interpret.programs import Program, expression_id, own_programs
from wherelint.io.edits import Region
from wherelint.search.budget import WorkBudget


class Found(NamedTuple):
    """What a rewrite leads to."""

    after: Analysis
    #: Whether calls that are not known had their arguments changed, or what was nan is a number.
    doubtful: bool
    #: At how many probes the gradient is still lost.
    lost: int
    #: How much of what is computed is not finite at the witness.
    unclean: int
    #: Operations that lose a gradient at the witness still.
    remains: tuple[Node, ...]
    #: Those of which no finding speaks.
    silent: tuple[Node, ...] = ()


class Passed(NamedTuple):
    """A rewritten file whose functions compute what they did, and how they pass."""

    module: Module
    compared: Comparison
    behaviors: Sequence[Behavior]
    #: Operations that lose a gradient at the witness still.
    remains: tuple[Node, ...]

    @property
    def flaws(self) -> tuple[int, int]:
        """At how many probes the gradient is still lost, and how much is not finite at the witness."""
        return sum(each.lost for each in self.behaviors), sum(each.unclean for each in self.behaviors)


class ValueChangedError(Exception):
    """The rewritten program computes something else."""


class Proof:
    """What a candidate has to keep."""

    def __init__(self, analysis: Analysis, detections: Sequence[Detection], whole: WorkBudget | None = None) -> None:
        """``detections``: the hazards that are removed at once, each proven at its own selection."""
        self._analysis, self._detections, self._whole = analysis, detections, whole
        self._selections = {expression_id(each.hazard.select) for each in detections}
        self.detection = detections[0]
        self.findings = analysis.findings
        self.source = analysis.module.source
        self._fixed = [f for f, made in analysis.found if any(made is each for each in detections)]
        self._baseline = analysis.module.once(Baseline, tuple(analysis.used))
        scopes = [concerned(analysis, each) for each in detections]
        self.names = list(dict.fromkeys(name for names, _ in scopes for name in names))
        self.callers = list(dict.fromkeys(c for _, callers in scopes for c in callers if c not in self.names))
        #: The hazards whose witness was tried.
        self._shown: set[object] = set()
        #: Whether something reads what the operation gives where it is singular.
        self.exposed = False

    def of(self, text: str, targets: Sequence[Finding], compared: Comparison | None = None) -> Found | None:
        """What is found in a rewritten text; None where that computes something else, or is singular at the witness."""
        passed = self.passes(text, compared)
        return None if passed is None else self.searched(passed, targets)

    def passes(self, text: str, compared: Comparison | None = None) -> Passed | None:
        """How a rewritten text computes the same; None where it does not, or the finding's operation fails still."""
        try:
            module = self._analysis.module.project.revised(text)
        except (SyntaxError, RecursionError):
            return None
        if compared is not None and self._fails(module, compared):
            return None
        behaviors = self._passed(module, self.names, (False,))
        if behaviors is None:
            return None
        remains = tuple(dict.fromkeys(node for each in behaviors for node in each.remains))
        if compared is not None and any(self._is_still(node, module, compared) for node in remains):
            return None
        compared = compared or Comparison(self.source, self.source.difference(module.text), self.findings)
        return Passed(module, compared, behaviors, remains)

    def _fails(self, module: Module, compared: Comparison) -> bool:
        """Whether the finding's operation fails at its witness still: asked first, since one probe tells."""
        detection, used = self.detection, self._analysis.used
        try:
            old, new = (own_programs(m, detection.name, used, False) for m in (self._analysis.module, module))
        except (SyntaxError, GiveUp, RecursionError):
            return True
        for before, after in zip(old, new, strict=False):
            given = self._baseline.at_witness(before, detection) if before.name == detection.program.name else None
            now = given and observe_witness(given, after, detection.framework, given.dropped)
            if now and any(self._is_still(node, module, compared) for node in now.remains):
                return True
        return False

    def searched(self, passed: Passed, targets: Sequence[Finding]) -> Found | None:
        """What is found in the selections that changed, and in those of ``targets``; None where that is too much."""
        module, compared, behaviors, remains = passed
        unchanged = self._baseline.unchanged(module, self.names)

        def is_concerned(root: Node) -> bool:
            return root not in unchanged or compared.at(targets, *_region(root))

        low = not all(finding.is_shown for finding in targets)
        after = analyse_functions(
            module, self._analysis.used, self.names, frozenset(), low=low, draft=True, only=is_concerned,
            whole=self._whole, outlook=self._analysis.outlook,
        )  # fmt: skip
        if after.problems:
            return None
        known = {expression_id(detection.hazard.op) for _, detection in after.found if detection is not None}
        silent = tuple(n for n in remains if expression_id(n) not in known and not self.beside([n], compared, module))
        return Found(after, any(each.doubtful for each in behaviors), *passed.flaws, remains, silent)

    def beside(self, nodes: Sequence[Node], compared: Comparison, module: Module) -> list[Finding]:
        """The findings of the old text whose operations some nodes of a rewritten one are."""
        places = [_region(n) for n in nodes if n.origin.block.module is module]
        return [f for f in self.findings if any(compared.is_at(f, *place) for place in places)]

    def _is_still(self, node: Node, module: Module, compared: Comparison) -> bool:
        """Whether an operation is that of the finding, in the function of the selection: no search need ask for it."""
        hazard = self.detection.hazard
        if hazard.op.origin.function != hazard.select.origin.function or node.origin.block.module is not module:
            return False
        return any(compared.is_at(finding, *_region(node)) for finding in self._fixed)

    def doubts(
        self, found: Found, targets: list[Finding], compared: Comparison, bare: Sequence[Finding] = ()
    ) -> bool | None:
        """Whether a call that is not known, or a nan, may tell a rewrite from the original, in callers too.

        None where the finding is not gone, or a value is another. ``bare``: what the rewrite uncovers.
        """
        fixed, uncovered = set(map(key, targets)), {each.location for each in bare}
        left = [f for f in found.after.findings if key(f) in fixed and f.location not in uncovered]
        if not compared.gone(targets, left):
            return None
        own = self._passed(found.after.module, self.names, (True,))  # the other mode was passed before
        others = self._passed(found.after.module, self.callers, (False, True)) if own is not None else None
        if own is None or others is None:
            return None
        return found.doubtful or any(each.doubtful for each in (*own, *others)) or self.detection.key not in self._shown

    def everywhere(self, module: Module, names: Iterable[Function] | None = None) -> list[Behavior] | None:
        """How functions pass, by default those around the operation and those that call them; None where one fails."""
        return self._passed(module, [*self.names, *self.callers] if names is None else names, (False, True))

    def _passed(self, module: Module, names: Iterable[Function], modes: Sequence[bool]) -> list[Behavior] | None:
        """How functions pass the proof, with their defaults or whatever else is given; None where one does not."""
        found: list[Behavior] = []
        try:
            for name in names:
                own = self._baseline.modes(name)
                for strict in modes:
                    if strict in own:
                        found += self._pass(module, name, strict=strict, last=strict is own[-1])
        except (SyntaxError, GiveUp, RecursionError, ValueChangedError):
            return None
        return found

    def _pass(self, module: Module, name: Function, *, strict: bool, last: bool) -> list[Behavior]:
        """How a function passes the proof. ``last``: shapes are compared as well."""
        used = self._analysis.used
        old, new = (own_programs(each, name, used, strict) for each in (self._analysis.module, module))
        if [p.name for p in old] != [p.name for p in new]:
            raise ValueChangedError
        found: list[Behavior] = []
        for before, after in zip(old, new, strict=True):
            shown = [] if strict else [d for d in self._detections if d.program.name == before.name]
            self._shown.update(each.key for each in shown)
            parts = self._by_selections(before, after, shown, last=last)
            found += parts if parts is not None else self._by_function(before, after, shown, last=last)
        return found

    def _by_function(self, old: Program, new: Program, shown: Sequence[Detection], *, last: bool) -> list[Behavior]:
        """What a function computes now, around every witness that it has. Raises where that is something else."""
        found: list[Behavior] = []
        outlets: dict[int, None] = {}
        for detection in shown or self._detections[:1]:
            before = self._baseline.behavior(old, detection)
            now = observe_rewrite(before, new, detection.framework)
            if now is None:
                raise ValueChangedError
            self.exposed |= before.exposed
            found.append(now)
            outlets.update(dict.fromkeys(before.scope.outlets))
        if last and self._baseline.shapes.differ(
            *(Shaped(tuple(p.outputs[i] for i in outlets), p.measured) for p in (old, new))
        ):
            raise ValueChangedError
        return found

    def _by_selections(
        self, old: Program, new: Program, shown: Sequence[Detection], *, last: bool
    ) -> list[Behavior] | None:
        """What the selections compute that alone changed, if that is beyond doubt: what reads them is given the same.

        None where the whole function has to be compared.
        """
        changed = self._baseline.changes(old, new, self._selections)
        if changed is None:
            return None
        found: list[Behavior] = []
        witnesses = {each.key for each in shown}
        for detection in self._detections:
            pairs, dropped = changed.get(expression_id(detection.hazard.select)), np.ones(1, np.bool_)
            if pairs is not None:
                now = self._at_selection(old, new, pairs, detection, last=last)
                if now is None:
                    return None
                found.append(now)
                dropped = now.dropped
            if detection.key in witnesses:  # where something beside the selection may lose the gradient still
                before = self._baseline.at_witness(old, detection)
                whole = before and observe_witness(before, new, detection.framework, dropped)
                if whole is None:
                    return None
                found.append(whole)
        return found

    def _at_selection(
        self, old: Program, new: Program, pairs: Sequence[Pair], detection: Detection, *, last: bool
    ) -> Behavior | None:
        """What some selections compute now; known for all functions and proofs in which they compute the same."""
        key = detection.key, last, *self._baseline.numbered(old, new, pairs)
        if key not in self._baseline.selections:
            self._baseline.selections[key] = self._compared(old, new, pairs, detection, last=last)
        now = self._baseline.selections[key]
        self.exposed |= now is not None and now.exposed
        return now

    def _compared(
        self, old: Program, new: Program, pairs: Sequence[Pair], detection: Detection, *, last: bool
    ) -> Behavior | None:
        before, after = (part_of(p, [pair[i] for pair in pairs]) for i, p in enumerate((old, new)))
        if before is None or after is None:
            return None
        known = self._baseline.behavior(before, detection)
        now = observe_rewrite(known, after, detection.framework)
        if now is None or now.doubtful or now.remains:
            return None
        if detection.hazard.select.selection == "multiply" and now.lost:
            return None  # a product drops nothing where the mask is 1
        if last and self._baseline.shapes.differ(Shaped(before.outputs), Shaped(after.outputs)):
            return None
        now.dropped, now.exposed = known.dropped, known.exposed
        return now


def _region(node: Node) -> Region:
    return node.origin.block.region(node.origin.node)  # type: ignore[no-any-return]
