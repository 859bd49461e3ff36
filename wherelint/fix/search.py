"""The rewrites that are tried for one finding, and what each of them comes to."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Literal, NamedTuple

from wherelint.finding import Edit, Finding
from wherelint.findings.analysis import Analysis
from wherelint.fix.guard.domains import has_epsilon
from wherelint.fix.mask.double_where import Site
from wherelint.fix.mask.writing import Candidate, masked_twice
from wherelint.fix.messages import ELSEWHERE, EPSILON, LOST, MATRIX, TRIES, UNPROVEN
from wherelint.fix.scope import Places, around, laid_bare, places_of
from wherelint.fix.together import named
from wherelint.fix.verify.findings import Comparison, key
from wherelint.fix.verify.proof import Found, Proof
from wherelint.graph.node import topological
from wherelint.io.edits import Source, consistent, rebased, without
from wherelint.ops import OPERATIONS
from wherelint.ops.traits import FINITE_TESTS, MATRICES
from wherelint.search.budget import WorkBudget

Grade = Literal["safe", "unsafe", "display"]
_GRADES: tuple[Grade, ...] = ("safe", "unsafe", "display")
_MOST_TRIED = 32
#: How many rewrites one after the other may be needed: masking a divisor can lay bare the root that it was computed by.
MOST_STEPS = 3
_MOST_DETOURS = 2
#: After how many rewrites that leave an operation failing at the witness no other such one is searched.
_MOST_FAILING = 4
#: After how many numbers that a mask of one operand fails with the others are not tried: the first is safe for it.
_MOST_NUMBERS = 2


class Proven(NamedTuple):
    """A rewrite that may be offered."""

    rank: tuple[int, int, int]
    text: str
    candidate: Candidate
    grade: Grade
    #: What leaves the gradient nan at the witness still.
    remaining: tuple[str, ...] = ()


class _Step(NamedTuple):
    """A rewrite that is not enough: what is found after it, what is left, and what it has to remove."""

    candidate: Candidate
    found: Found
    left: list[Finding]
    targets: list[Finding]
    sure: bool
    #: What it lays bare besides: the old text has hidden it.
    bare: Sequence[Finding] = ()

    @property
    def grade(self) -> Grade:
        return grade_of(self.candidate, self.sure)


def rewritten(analysis: Analysis, places: Places, most: int, effort: WorkBudget) -> Proven | str:
    """The rewrites, ``most`` one after the other, that remove a finding and whatever they lay bare; why there are none.

    ``places``: the finding and the others of its cause, which have to go as well.
    """
    return hopeless(places) or _Rewrites(analysis, places, effort).best(most)


class _Rewrites:
    """Everything that is tried for one finding."""

    def __init__(self, analysis: Analysis, places: Places, effort: WorkBudget) -> None:
        self._analysis, self._places, self._effort = analysis, places, effort
        self._finding, self._detection = places[0]
        self._proof = Proof(analysis, [detection for _, detection in places], effort)
        self._site, self._arm = site_of(analysis, places)
        self._good: list[Proven] = []
        #: Rewrites that are only shown: better than nothing.
        self._shown: list[Proven] = []
        #: Rewrites that leave another finding, that lay one bare, and that leave an operation without a finding.
        self._detours: list[_Step] = []
        self._bare: list[_Step] = []
        self._unfinished: list[_Step] = []
        self._idle: set[tuple[object, ...]] = set()
        #: How many were searched after which an operation fails still at the witness.
        self._steps = 0
        #: What the last number of a mask has left.
        self._leaves: dict[tuple[object, ...], object] = {}

    def best(self, most: int) -> Proven | str:
        """The best of all rewrites, ``most`` one after the other; why there is none."""
        tried = self._try_each(first=most >= MOST_STEPS)
        if self._good:
            return _first(self._good)
        if most > 1 and (found := self._by_detour(most)) is not None:
            return found
        for step in self._unfinished[:_MOST_DETOURS]:
            if (found := _finished(self._proof, step, most - 1)) is not None:
                return found
        if most == MOST_STEPS and (found := self._laying_bare()) is not None:
            return found
        if self._shown:
            return _first(self._shown)
        return TRIES if tried >= _MOST_TRIED else self._why_not()

    def _try_each(self, *, first: bool) -> int:
        """Try one rewrite after the other, and count them. ``first``: of those that are made one after the other."""
        tried, asked, rival = 0, set[tuple[Edit, ...]](), ""
        failing = Counter[tuple[object, ...]]()
        for tried, candidate in enumerate(self._site.candidates(several=len(self._arm) > 1)):
            if tried >= _MOST_TRIED or self._effort.spent:
                break
            if (rival and candidate.kind != rival) or candidate.edits in asked or candidate.slot in self._idle:
                continue
            if not consistent(candidate.edits) or (candidate.constant and not first):
                continue
            asked.add(candidate.edits)
            compared = Comparison(self._proof.source, candidate.edits, self._proof.findings)
            passed = self._proof.passes(self._proof.source.edited(candidate.edits), compared)
            if passed is not None and passed.remains and self._steps >= _MOST_FAILING:
                continue  # a search in it costs most, and what it tells is known by others
            targets = targets_of(candidate, self._places, self._arm)
            if passed is None or (found := self._proof.searched(passed, targets)) is None:
                failing[candidate.slot] += bool(candidate.slot) and candidate.kind == "mask"
                self._idle |= {slot for slot, count in failing.items() if count >= _MOST_NUMBERS}
                continue
            self._steps += bool(passed.remains)
            if not compared.gone(targets, found.after.findings):
                self._note_step(candidate, found, targets, compared)
            elif (only := self._note_end(candidate, found, targets, compared)) is None:
                break
            else:
                rival = only or rival
        return tried

    def _note_end(self, candidate: Candidate, found: Found, targets: list[Finding], compared: Comparison) -> str | None:
        """Note a rewrite that leaves nothing; the kind of those that may be better: empty for any, None for none."""
        sure = candidate.elementwise and not found.doubtful
        if found.silent:
            self._unfinished.append(_Step(candidate, found, [], targets, sure))
            return ""
        doubtful = self._proof.doubts(found, targets, compared)
        if doubtful is None:
            return ""
        shown = candidate.alone and (self._proof.exposed or self._is_asked)
        grade = grade_of(candidate, sure and not doubtful and not shown)
        rank = _rank(grade, found)
        reduced = candidate.kind == "mask" and self._reduces  # a mask of the result may not fit what is reduced
        if grade == "unsafe" and (reduced or candidate.alone):  # and a value that is kept is sure to be
            rank = (rank[0], rank[1] + 1, rank[2])
        proven = Proven(rank, found.after.module.text, candidate, grade, self._beside(found, compared))
        (self._shown if grade == "display" else self._good).append(proven)
        if doubtful or (candidate.kind == "guard" and not candidate.elementwise):
            return ""  # another may leave every nan what it was, and every argument
        if candidate.kind == "arm" and found.unclean:
            return "arm"  # another number may be one that every operation of the arm likes
        if found.lost and self._finding.select.kind == "multiply":
            return "guard"  # a product drops nothing where the mask is 1
        return None

    @cached_property
    def _is_asked(self) -> bool:
        """Whether the selection drops the operation because its result is not finite, which it is after a guard.

        Missing data are tried as an input: what a number in their place changes is seen.
        """
        hazard = self._detection.hazard
        if hazard.missing_data:
            return False
        tests = (n for n in topological(hazard.select.inputs[:1]) if n.op in FINITE_TESTS)
        return any(hazard.op in topological([test]) for test in tests)

    @property
    def _reduces(self) -> bool:
        return any(domain.reduces for domain in OPERATIONS[self._detection.hazard.op.op].domains)

    def _beside(self, found: Found, compared: Comparison) -> tuple[str, ...]:
        """The operations that lose the gradient at the witness still, each with a finding of its own."""
        left = self._proof.beside(found.remains, compared, found.after.module)
        others = [f for f in left if not any(f is one for one, _ in self._places)]
        return tuple(dict.fromkeys(named(f) for f in sorted(others, key=Finding.sort_key)))

    def _note_step(self, candidate: Candidate, found: Found, targets: list[Finding], compared: Comparison) -> None:
        """Note a rewrite after which something is left, unless there is one that leaves nothing."""
        if self._good:
            return
        if candidate.slot and compared.stays(self._finding, found.after.findings):
            # It is another input that goes wrong, and no number of the mask is its value.
            self._idle.add(candidate.slot)
        leaves = [key(finding) for finding in found.after.findings], [node.op for node in found.remains]
        if candidate.slot and self._leaves.get(candidate.slot) == leaves:
            self._idle.add(candidate.slot)  # two numbers leave the same
        self._leaves[candidate.slot] = leaves
        fresh = compared.come(found.after.findings)
        stay = compared.come(found.after.findings, targets)
        sure = candidate.elementwise and not found.doubtful and not (candidate.alone and self._proof.exposed)
        if len(stay) - len(fresh) < len(targets) and fresh != stay and not found.silent:
            bare = [each for each in fresh if laid_bare(self._analysis, found.after, each)]
            if bare == fresh:
                left = [each for each in stay if not any(each is one for one in fresh)]
                self._detours.append(_Step(candidate, found, left, targets, sure, bare))
        elif not fresh and len(stay) == 1 and not any(compared.stays(each, stay) for each in targets):
            self._detours.append(_Step(candidate, found, stay, targets, sure))  # another selection drops it, too
        elif fresh == stay:
            step = _Step(candidate, found, fresh, targets, sure)
            self._bare.append(step)
            if len(fresh) == 1:
                self._detours.append(step)
                if candidate.slot:
                    self._idle.add(candidate.slot)  # what it lays bare, another number does too

    def _by_detour(self, most: int) -> Proven | None:
        """A rewrite, and those of what it leaves."""
        self._detours.sort(key=lambda step: (_GRADES.index(step.grade), step.found.unclean))
        for step in self._detours[:_MOST_DETOURS]:
            after = step.found.after
            following = [place for one in step.left for place in places_of(after, one)]
            rest = rewritten(after, following, most - 1, self._effort) if following else ""
            if isinstance(rest, str) or masked_twice(rest.text) > masked_twice(self._proof.source.text):
                continue
            if (last := self._proof.of(rest.text, step.targets)) is None:
                continue
            compared = self._compared(rest.text)
            if (doubtful := self._proof.doubts(last, step.targets, compared, step.bare)) is not None:
                least: Grade = "unsafe" if doubtful else "safe"
                grade = max(step.grade, rest.grade, least, key=_GRADES.index)
                hidden = [name for name in rest.remaining if " at " not in name]  # the rows of others have moved
                ops = dict.fromkeys([*(each.op for each in step.bare), *hidden, *self._beside(last, compared)])
                both = rest._replace(candidate=step.candidate, grade=grade, remaining=tuple(ops))
                return self._shorter(both, rest, step.targets) or both
        return None

    def _shorter(self, both: Proven, last: Proven, targets: list[Finding]) -> Proven | None:
        """The last of two rewrites alone, if it does what both do: what it masks reaches what the first one masked."""
        source, edits = self._proof.source, both.candidate.edits
        text = without(source, edits, both.text)
        if text is None:  # the last one gave its name to what the first one wrote
            more = Source(source.edited(edits)).difference(both.text)
            text = source.edited(rebased(source, edits, more))
        if text == source.text or (found := self._proof.of(text, targets)) is None or found.silent:
            return None
        if found.unclean and not both.rank[2]:
            return None  # a selection drops what is not finite still, which is better not there
        compared = self._compared(text)
        if not compared.gone(targets, found.after.findings):
            return None
        doubtful = self._proof.doubts(found, targets, compared)
        kept = doubtful is not None and (both.grade != "safe" or not (doubtful or found.doubtful))
        candidate = replace(last.candidate, edits=source.difference(text))
        return last._replace(text=text, grade=both.grade, candidate=candidate) if kept else None

    def _laying_bare(self) -> Proven | None:
        """A rewrite that makes way for findings which the old text has hidden, and which say so."""
        for step in self._bare[:_MOST_DETOURS]:
            found = step.found
            if found.silent or not all(laid_bare(self._analysis, found.after, each) for each in step.left):
                continue
            compared = Comparison(self._proof.source, step.candidate.edits, self._proof.findings)
            if (doubtful := self._proof.doubts(found, step.targets, compared, step.left)) is not None:
                grade, ops = (
                    grade_of(step.candidate, step.sure and not doubtful),
                    dict.fromkeys(f.op for f in step.left),
                )
                rank = _GRADES.index(grade), found.lost, found.unclean
                return Proven(rank, found.after.module.text, step.candidate, grade, tuple(ops))
        return None

    def _compared(self, text: str) -> Comparison:
        source = self._proof.source
        return Comparison(source, source.difference(text), self._proof.findings)

    def _why_not(self) -> str:
        home = self._detection.hazard.op.origin.block.module
        if home is not self._analysis.module:
            return ELSEWHERE.format(home.named_beside(self._analysis.module.filename))
        if self._unfinished:
            op = self._unfinished[0].found.silent[0]
            what = f"`{op.op}` in `{op.origin.function}` is singular, too" if op.op in OPERATIONS else "it overflows"
            return LOST.format(what)
        return UNPROVEN


def _finished(proof: Proof, step: _Step, most: int) -> Proven | None:
    """A rewrite, and guards for the operations that lose a gradient at the witness still, with no finding of theirs."""
    candidate, found, targets = step.candidate, step.found, step.targets
    op = found.silent[0]
    hazard = replace(proof.detection.hazard, op=op, select=op)
    source = found.after.module.source
    for guard in Site(found.after.module, proof.detection.framework, hazard, (), {}).guards() if most else ():
        text = source.edited(guard.edits) if consistent(guard.edits) else ""
        if not text or (last := proof.of(text, targets)) is None:
            continue
        both = replace(candidate, elementwise=candidate.elementwise and guard.elementwise, alone=guard.alone)
        compared = Comparison(proof.source, proof.source.difference(text), proof.findings)
        if not compared.gone(targets, last.after.findings):
            continue
        following = step._replace(candidate=both, found=last)
        if len(found.silent) > len(last.silent) > 0 and (rest := _finished(proof, following, most - 1)):
            return rest
        doubtful = None if last.silent else proof.doubts(last, targets, compared)
        if doubtful is not None:
            grade = grade_of(both, both.elementwise and not doubtful and not both.alone)
            return Proven(_rank(grade, last), text, both, grade)
    return None


def _first(proven: Iterable[Proven]) -> Proven:
    """The first of the best."""
    return min(proven, key=lambda each: each.rank)


def _rank(grade: Grade, found: Found) -> tuple[int, int, int]:
    return _GRADES.index(grade), found.lost, found.unclean


def hopeless(places: Places) -> str:
    """Why no rewrite need be tried."""
    hazards = [detection.hazard for _, detection in places]
    return EPSILON if has_epsilon(hazards[0]) else MATRIX if any(h.op.op in MATRICES for h in hazards) else ""


def targets_of(candidate: Candidate, places: Places, arm: list[Finding]) -> list[Finding]:
    """The findings that a rewrite has to remove: all of one cause, and those of the arm that it is made for."""
    asked = [finding for finding, _ in places]
    more = arm if candidate.kind == "arm" else []
    return [*asked, *(f for f in more if not any(f is each for each in asked))]


def site_of(analysis: Analysis, places: Places) -> tuple[Site, list[Finding]]:
    """A finding in the file that is rewritten, and every finding in the arm that drops it, or of the same cause."""
    finding, detection = places[0]
    siblings = {
        c.hazard.op: f.confidence in ("high", finding.confidence)
        for f, c in analysis.found
        if c is not None and (f.select.location == finding.select.location or any(f is each for each, _ in places))
    }
    site = Site(analysis.module, detection.framework, detection.hazard, list(around(detection)), siblings)
    start, end = site.arm.region if site.arm is not None else (finding.location, finding.location)
    arm = [f for f in analysis.findings if start <= f.location <= end]
    reading = [place.region for places in site.sharing.values() for place in places]
    arm += [
        f
        for f in analysis.findings
        if f.select.location == finding.select.location
        and not any(f is each for each in arm)
        and any(f.location <= start and end <= f.end_location for start, end in reading)
    ]
    return site, [*arm, *(f for f, _ in places if not any(f is each for each in arm))]


def grade_of(candidate: Candidate, sure: bool) -> Grade:
    """How a rewrite is offered; one that changes what an operand is for everybody has to be sure."""
    return "safe" if sure else "display" if candidate.alone else "unsafe"
