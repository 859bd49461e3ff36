"""What a rewritten text is found to do: the functions around a finding computed as before, and searched again."""

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import NamedTuple

from wherelint.finding import Finding
from wherelint.findings.analysis import Analysis, analyse_functions
from wherelint.findings.hazards import Detection
from wherelint.fix.scope import concerned
from wherelint.fix.verify.compare import Comparison, key
from wherelint.fix.verify.difference import Numbering, part_of
from wherelint.fix.verify.inputs import names_of
from wherelint.fix.verify.record import Record, record, same
from wherelint.fix.verify.shapes import Shaped, differ
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
    #: Those of which no finding speaks.
    silent: tuple[Node, ...] = ()
    #: Whether operations fail more often than before: it may be a step to a fix, and is none.
    worse: bool = False


class Passed(NamedTuple):
    """A rewritten file whose functions compute what they did, and how they pass."""

    module: Module
    compared: Comparison
    records: Sequence[Record]
    #: Operations that lose a gradient at the witness still.
    remains: tuple[Node, ...]


class Proof:
    """What a candidate has to keep."""

    def __init__(
        self,
        analysis: Analysis,
        detection: Detection,
        whole: WorkBudget | None = None,
        beside: Collection[Detection] = (),
    ) -> None:
        """``beside``: the findings that are fixed at once with this one, each proven at its own selection."""
        self._whole = whole
        self._selections = {expression_id(each.hazard.select) for each in (detection, *beside)}
        self._analysis = analysis
        self.detection = detection
        self.findings = analysis.findings
        self._finding = next(finding for finding, made in analysis.found if made is detection)
        self.source = analysis.module.source
        self.names, self.callers = concerned(analysis, detection)
        self._read = {name for name, *_ in names_of([detection.hazard.op, detection.hazard.select]).values()}
        self._numbering = Numbering(analysis.used)
        self._records: dict[tuple[tuple[str, ...], bool], list[tuple[Program, Record]]] = {}
        #: The same of selections alone.
        self._parts: dict[tuple[bool, tuple[Node, ...]], Record] = {}
        self._at_witness: dict[Program, Record] = {}

    @property
    def exposed(self) -> bool:
        """Whether something reads what the operation gives where it is singular."""
        records = [record for known in self._records.values() for _, record in known]
        return any(record.exposed for record in (*records, *self._parts.values()))

    def of(self, text: str, targets: Sequence[Finding], compared: Comparison | None = None) -> Found | None:
        """What is found in a rewritten text; None where that computes something else, or is singular at the witness."""
        passed = self.passes(text, compared)
        return None if passed is None else self.searched(passed, targets)

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

    def searched(self, passed: Passed, targets: Sequence[Finding]) -> Found | None:
        """What is found in the selections that changed, and in those of ``targets``; None where that is too much."""
        module, compared, records, remains = passed
        used, whole = self._analysis.used, self._whole
        unchanged = self._numbering.unchanged(self._analysis.module, module, self.names)

        def asked(root: Node) -> bool:
            return self._near(root) and (root not in unchanged or compared.at(targets, *_region(root)))

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
        known = {expression_id(detection.hazard.op) for _, detection in after.found if detection is not None}
        silent = tuple(n for n in remains if expression_id(n) not in known and not self.beside([n], compared, module))
        return Found(after, doubtful, lost, unclean, remains, silent, worse)

    def beside(self, nodes: Sequence[Node], compared: Comparison, module: Module) -> list[Finding]:
        """The findings of the old text whose operations some nodes of a rewritten one are."""
        places = [_region(n) for n in nodes if n.origin.block.module is module]
        return [f for f in self.findings if any(compared.is_at(f, *place) for place in places)]

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
        shown = self.detection.program.name in {p.name for known in self._records.values() for p, _ in known} | {
            p.name for name in self.names for p in own_programs(self._analysis.module, name, self._analysis.used)
        }
        return found.doubtful or any(p.doubtful for p in [*own, *others]) or not shown

    def _pass(self, module: Module, name: tuple[str, ...], *, strict: bool = False, step: bool = False) -> list[Record]:
        """How a function passes the proof. Raises where it computes something else.

        Doubtful is also that a call that is not known has another argument, or a value, for all that is known, another
        shape.
        """
        old = own_programs(self._analysis.module, name, self._analysis.used, strict)
        new = own_programs(module, name, self._analysis.used, strict)
        if [p.name for p in old] != [p.name for p in new]:
            raise _OtherwiseError
        parts = [self._at_selection(before, after, strict) for before, after in zip(old, new, strict=True)]
        if None not in parts:
            return [record for part in parts if part is not None for record in part]
        if (name, strict) not in self._records:
            others = [made for _, made in self._analysis.found if made is not None]
            self._records[name, strict] = [(p, record(p, self.detection, others)) for p in old]
        passed: list[Record] = []
        for (old_program, before), program in zip(self._records[name, strict], new, strict=True):
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

    def _at_selection(self, old: Program, new: Program, strict: bool) -> list[Record] | None:
        """The record of the selections that alone compute otherwise, if those are beyond doubt: what reads them is
        given the same. None where the whole function has to be compared.
        """
        changed = self._numbering.changes(old, new, self._selections)
        if changed is None:
            return None
        own, framework = expression_id(self.detection.hazard.select), self.detection.framework
        shown = old.name == self.detection.program.name and not strict
        if own not in changed:
            return None if shown else []
        before, after = (part_of(p, [pair[i] for pair in changed[own]]) for i, p in enumerate((old, new)))
        if before is None or after is None:
            return None
        if (strict, before.outputs) not in self._parts:
            self._parts[strict, before.outputs] = record(before, self.detection)
        now = same(self._parts[strict, before.outputs], after, framework)
        if now is None or now.worse or now.crossed or now.doubtful or now.remains or now.unclean:
            return None
        if self.detection.hazard.select.selection == "multiply" and now.lost:
            return None  # a product drops nothing where the mask is 1
        if strict and differ(Shaped(before.outputs), Shaped(after.outputs), now.crossed) is not False:
            return None
        if not shown:
            return [now]
        if old not in self._at_witness:  # where something beside the selection may lose the gradient still
            self._at_witness[old] = record(old, self.detection, at_witness=True)
        whole = same(self._at_witness[old], new, framework)
        return None if whole is None else [now, whole]


def _region(node: Node) -> Region:
    return node.origin.block.region(node.origin.node)  # type: ignore[no-any-return]


class _OtherwiseError(Exception):
    """The rewritten program computes something else."""
