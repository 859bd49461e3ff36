"""What a rewritten text is found to do: the functions around a finding computed as before, and searched again."""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from wherelint.finding import Finding
from wherelint.findings.analysis import Analysis, analyse_functions
from wherelint.findings.hazards import Detection
from wherelint.fix.comparison import Comparison, key
from wherelint.fix.groups import Unchanged, concerned
from wherelint.fix.opaque import names_of
from wherelint.fix.proof import Record, record, same
from wherelint.fix.shapes import Shaped, differ
from wherelint.frontend.module import Module
from wherelint.frontend.syntax import GiveUp
from wherelint.graph.node import Node
from wherelint.interpret.programs import Program, expression_id, lowered, own_programs
from wherelint.io.edits import Region
from wherelint.search.budget import WorkBudget

#: Functions that compute more values are searched for what is asked for alone.
_LONG = 300


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
    #: Whether operations fail more often than before: it may be a step to a fix, and is none.
    worse: bool = False

    @property
    def silent(self) -> list[Node]:
        """Those of which no finding speaks."""
        known = {expression_id(detection.hazard.op) for _, detection in self.after.found if detection is not None}
        return [node for node in self.remains if expression_id(node) not in known]


class Passed(NamedTuple):
    """A rewritten file whose functions compute what they did, and how they pass."""

    module: Module
    compared: Comparison
    records: Sequence[Record]
    #: Operations that lose a gradient at the witness still.
    remains: tuple[Node, ...]


class Proof:
    """What a candidate has to keep."""

    def __init__(self, analysis: Analysis, detection: Detection, whole: WorkBudget | None = None) -> None:
        self._whole = whole
        self._analysis = analysis
        self.detection = detection
        self.findings = analysis.findings
        self._finding = next(finding for finding, made in analysis.found if made is detection)
        self.source = analysis.module.source
        self.names, self.callers = concerned(analysis, detection)
        self._read = {name for name, *_ in names_of([detection.hazard.op, detection.hazard.select]).values()}
        self._unchanged = Unchanged(analysis, self.names)
        self._records: dict[tuple[tuple[str, ...], bool], list[tuple[Program, Record]]] = {}

    @property
    def exposed(self) -> bool:
        """Whether something reads what the operation gives where it is singular."""
        return any(record.exposed for known in self._records.values() for _, record in known)

    def of(self, text: str, compared: Comparison | None = None) -> Found | None:
        """What is found in a rewritten text; None where that computes something else, or is singular at the witness."""
        passed = self.passes(text, compared)
        return None if passed is None else self.searched(passed)

    def within(self, module: Module, compared: Comparison | None = None) -> Found | None:
        """What is found in another module for the file: with another text, or with others around it."""
        passed = self._passes(module, compared)
        return None if passed is None else self.searched(passed)

    def passes(self, text: str, compared: Comparison | None = None) -> Passed | None:
        """How a rewritten text computes the same; None where it does not, or the finding's operation fails still."""
        try:
            return self._passes(self._analysis.module.project.revised(text), compared)
        except (SyntaxError, RecursionError):
            return None

    def _passes(self, module: Module, compared: Comparison | None) -> Passed | None:
        records = self._passed(module, self.names, (False,), step=True)
        if records is None:
            return None
        remains = tuple(node for record in records for node in record.remains)
        if compared is not None and any(self._is_still(node, module, compared) for node in remains):
            return None
        compared = compared or Comparison(self.source, self.source.difference(module.text), self.findings)
        return Passed(module, compared, records, remains)

    def searched(self, passed: Passed) -> Found | None:
        """What is found in a text that computes the same; None where that is too much."""
        module, compared, records, remains = passed
        used, whole = self._analysis.used, self._whole
        unchanged = self._unchanged.within(module)

        def asked(root: Node) -> bool:
            return self._near(root) and (root not in unchanged or compared.at(self.findings, *_region(root)))

        length = sum(len(p.order) for name in self.names for p in lowered(module, name, used))
        outlook = self._analysis.outlook if length > _LONG else None
        after = analyse_functions(
            module, used, self.names, frozenset(), low=False, draft=True, only=asked, whole=whole, outlook=outlook
        )
        if after.problems:
            return None
        if compared.come(after.findings) and not remains:
            compared.know(self._hidden)
        doubtful, worse = any(p.doubtful for p in records), any(p.worse for p in records)
        lost, unclean = sum(p.lost for p in records), sum(p.unclean for p in records)
        return Found(after, doubtful, lost, unclean, remains, worse)

    @cached_property
    def _hidden(self) -> list[Finding]:
        """Findings of the old text that nobody asked for, near this one: no rewrite need remove them."""
        if self._analysis.outlook.least <= 0:
            return []
        old, used = self._analysis.module, self._analysis.used
        known = analyse_functions(
            old, used, self.names, frozenset(), low=False, draft=True, only=self._near, whole=self._whole
        )
        told = {(key(f), f.location, f.select.location) for f in self.findings}
        return [f for f in known.findings if (key(f), f.location, f.select.location) not in told]

    def _is_still(self, node: Node, module: Module, compared: Comparison) -> bool:
        """Whether an operation is that of the finding, in the function of the selection: no search need ask for it."""
        origin, hazard = node.origin, self.detection.hazard
        if origin.block.module is not module:
            return False
        if hazard.op.origin.function != hazard.select.origin.function and not self._has_twin:
            return False
        return compared.is_at(self._finding, *origin.block.region(origin.node))

    @cached_property
    def _has_twin(self) -> bool:
        """Whether two findings are told apart by their witnesses alone: then none says which of them is gone."""
        own = self._finding
        alike = [f for f in self.findings if (f.location, f.select.location) == (own.location, own.select.location)]
        return len([f for f in alike if key(f) == key(own)]) > 1

    def _near(self, root: Node) -> bool:
        """Whether a selection reads an input that the finding's does: only then a rewrite can change it."""
        return not self._read or any(name in self._read for name, *_ in names_of([root]).values())

    def holds(self, module: Module, names: list[tuple[str, ...]], *, sure: bool) -> bool:
        """Whether some functions compute the same in another text, beyond doubt where it has to be ``sure``."""
        passed = self._passed(module, names, (False, True))
        return passed is not None and not (sure and any(p.doubtful for p in passed))

    def everywhere(self, module: Module) -> list[Record] | None:
        """How the functions around the operation and those that call them pass; None where one does not."""
        return self._passed(module, [*self.names, *self.callers], (False, True))

    def _passed(
        self, module: Module, names: list[tuple[str, ...]], modes: tuple[bool, ...], *, step: bool = False
    ) -> list[Record] | None:
        """How functions pass the proof, with their defaults or whatever else is given; None where one does not."""
        try:
            return [p for strict in modes for name in names for p in self._pass(module, name, strict=strict, step=step)]
        except (SyntaxError, GiveUp, RecursionError, _OtherwiseError):
            return None

    def doubts(
        self, found: Found, targets: list[Finding], compared: Comparison, bare: Sequence[Finding] = ()
    ) -> bool | None:
        """Whether a call that is not known, or a nan, may tell a rewrite from the original, in callers too.

        None where the finding is not gone for good, or a value is another. ``bare``: what the rewrite lays bare.
        """
        module = found.after.module

        def concerned(root: Node) -> bool:
            origin = root.origin
            return origin.block.module is not module or compared.at(targets, *origin.block.region(origin.node))

        sure = analyse_functions(
            module, found.after.used, self.names, frozenset(), draft=True, only=concerned, whole=self._whole
        )
        fixed = set(map(key, targets))
        laid = {each.location for each in bare}
        # What is hardly worth showing is no objection to a fix of what is.
        lowest = {f.confidence for f in targets} | {"high"}
        asked = [f for f in sure.findings if key(f) in fixed and f.location not in laid and f.confidence in lowest]
        if not found.remains and not compared.gone(targets, asked):
            compared.know(self._hidden)
        if sure.problems or not compared.gone(targets, asked):
            return None
        own = self._passed(module, self.names, (True,))  # the other mode was passed before
        others = self._passed(module, self.callers, (False, True)) if own is not None else None
        if own is None or others is None:
            return None
        # That it is gone at the witness is computed where the function that shows it is one of these.
        shown = any(p.name == self.detection.program.name for known in self._records.values() for p, _ in known)
        return found.doubtful or any(p.doubtful for p in [*own, *others]) or not shown

    def _pass(self, module: Module, name: tuple[str, ...], *, strict: bool = False, step: bool = False) -> list[Record]:
        """How a function passes the proof. Raises where it computes something else.

        Doubtful is also that a call that is not known has another argument, or a value, for all that is known, another
        shape.
        """
        if (name, strict) not in self._records:
            old = own_programs(self._analysis.module, name, self._analysis.used, strict)
            others = [made for _, made in self._analysis.found if made is not None]
            self._records[name, strict] = [(p, record(p, self.detection, others)) for p in old]
        known = self._records[name, strict]
        new = own_programs(module, name, self._analysis.used, strict)
        if [p.name for p, _ in known] != [p.name for p in new]:
            raise _OtherwiseError
        passed: list[Record] = []
        for (old_program, before), program in zip(known, new, strict=True):
            now = same(before, program, self.detection.framework)
            if now is None or (now.worse and not step):
                raise _OtherwiseError
            reshaped: bool | None = False
            if strict:
                pairs = (old_program, before), (program, now)
                shaped = [Shaped(tuple(r.outlets[i] for i in before.told.outlets), p.measured) for p, r in pairs]
                reshaped = differ(shaped[0], shaped[1], now.crossed)
            if reshaped:
                raise _OtherwiseError
            now.doubtful |= bool(now.crossed) or reshaped is None
            passed.append(now)
        return passed


def _region(node: Node) -> Region:
    return node.origin.block.region(node.origin.node)  # type: ignore[no-any-return]


class _OtherwiseError(Exception):
    """The rewritten program computes something else."""
