"""The rewrites that are tried for one finding, and what each of them comes to."""

from collections import Counter
from functools import cached_property
from typing import Literal, NamedTuple

from wherelint.finding import Edit, Finding
from wherelint.findings.analysis import Analysis
from wherelint.fix.mask.double_where import Site
from wherelint.fix.mask.writing import Candidate
from wherelint.fix.messages import ELSEWHERE, MATRIX, TOO_LONG, TRIES, UNPROVEN
from wherelint.fix.scope import Places, around, places_of
from wherelint.fix.together import named
from wherelint.fix.verify.findings import Comparison, key
from wherelint.fix.verify.proof import Found, Proof
from wherelint.graph.node import Node, topological
from wherelint.io.edits import consistent
from wherelint.ops.traits import FINITE_TESTS, MATRICES
from wherelint.search.budget import WorkBudget

Grade = Literal["safe", "unsafe", "display"]
_GRADES: tuple[Grade, ...] = ("safe", "unsafe", "display")
_MOST_TRIED = 32
#: How many rewrites one after the other may be needed: masking a divisor can lay bare the root that it was computed by.
MOST_STEPS = 3
_MOST_DETOURS = 2
#: After how many rewrites that leave an operation failing at the witness no other such one is searched.
_MOST_FAILING = 3
#: After how many numbers that a mask of one operand fails with the others are not tried: the first is safe for it.
_MOST_NUMBERS = 2


class Proven(NamedTuple):
    """A rewrite that may be offered."""

    rank: tuple[int, int, int]
    text: str
    candidate: Candidate
    grade: Grade
    #: The findings that leave the gradient nan at the witness still.
    remaining: tuple[str, ...] = ()


class _Step(NamedTuple):
    """A rewrite that is not enough: what is found after it, what is left, and what it has to remove."""

    candidate: Candidate
    found: Found
    left: list[Finding]
    targets: list[Finding]
    sure: bool

    @property
    def grade(self) -> Grade:
        return grade_of(self.candidate, self.sure)


def rewritten(analysis: Analysis, places: Places, most: int, effort: WorkBudget) -> Proven | str:
    """The rewrites, ``most`` one after the other, that remove a finding and whatever they lay bare; why there are none.

    ``places``: the finding and the others of its cause, which have to go as well.
    """
    if any(detection.hazard.op.op in MATRICES for _, detection in places):
        return MATRIX
    return _Rewrites(analysis, places, effort).best(most)


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
        #: Rewrites that leave another finding.
        self._detours: list[_Step] = []
        #: How many numbers fail with a mask.
        self._failing = Counter[tuple[object, ...]]()
        #: What the last number of a mask has left.
        self._leaves: dict[tuple[object, ...], object] = {}
        #: Whether a rewrite is more than a search can do: so are the others.
        self._too_long = False
        #: How many were searched after which an operation fails still at the witness.
        self._steps = 0

    def best(self, most: int) -> Proven | str:
        """The best of all rewrites, ``most`` one after the other; why there is none."""
        tried = self._try_each(first=most >= MOST_STEPS)
        if self._good:
            return min(self._good, key=lambda each: each.rank)
        if most > 1 and (found := self._by_detour(most)) is not None:
            return found
        if self._shown:
            return min(self._shown, key=lambda each: each.rank)
        if self._too_long:
            return TOO_LONG
        home = self._detection.hazard.op.origin.block.module
        if tried < _MOST_TRIED and home is not self._analysis.module:
            return ELSEWHERE.format(home.named_beside(self._analysis.module.filename))
        return TRIES if tried >= _MOST_TRIED else UNPROVEN

    def _try_each(self, *, first: bool) -> int:
        """Try one rewrite after the other, and count them. ``first``: of those that are made one after the other."""
        asked, rival = set[tuple[Edit, ...]](), ""
        for candidate in self._site.candidates(several=len(self._arm) > 1, apart=self._apart()):
            if len(asked) >= _MOST_TRIED or self._effort.spent:
                break
            if (
                (rival and candidate.kind != rival)
                or candidate.edits in asked
                or self._failing[candidate.slot] >= _MOST_NUMBERS
            ):
                continue
            if not consistent(candidate.edits) or (candidate.constant and not first):
                continue
            asked.add(candidate.edits)
            compared = Comparison(self._proof.source, candidate.edits, self._proof.findings)
            passed = self._proof.passes(self._proof.source.edited(candidate.edits), compared)
            if passed is None:
                self._failing[candidate.slot] += candidate.kind == "mask"
                continue
            if passed.remains and self._steps >= _MOST_FAILING:
                continue  # a search in it costs most, and what it tells is known by others
            best = _GRADES.index(grade_of(candidate, sure=True)), *passed.flaws
            if any(each.rank <= best for each in self._good):
                continue  # it cannot be better
            targets = targets_of(candidate, self._places, self._arm)
            if (found := self._proof.searched(passed, targets)) is None:
                self._too_long = True
                break
            self._steps += bool(passed.remains)
            if not compared.gone(targets, found.after.findings):
                self._note_step(candidate, found, targets, compared)
            elif (only := self._note_end(candidate, found, targets, compared)) is None:
                break
            else:
                rival = only or rival
        return len(asked)

    def _note_end(self, candidate: Candidate, found: Found, targets: list[Finding], compared: Comparison) -> str | None:
        """Note a rewrite that leaves nothing; the kind of those that may be better: empty for any, None for none."""
        doubtful = None if found.silent else self._proof.doubts(found, targets, compared)
        if doubtful is None:
            return ""
        sure = candidate.elementwise and not found.doubtful
        shown = candidate.alone and (self._proof.exposed or self._is_asked)
        grade = grade_of(candidate, sure and not doubtful and not shown)
        rank = _GRADES.index(grade), found.lost, found.unclean
        proven = Proven(rank, found.after.module.text, candidate, grade, self._beside(found, compared))
        (self._shown if grade == "display" else self._good).append(proven)
        if doubtful or (candidate.kind == "guard" and not candidate.elementwise):
            return ""  # another may leave every nan what it was, and every argument
        if candidate.kind == "arm" and found.unclean:
            return "arm"  # another number may be one that every operation of the arm likes
        if found.lost and (candidate.kind == "guard" or self._finding.select.kind == "multiply"):
            return "guard"  # another may hold at more inputs; a product drops nothing where the mask is 1
        return None

    def _apart(self) -> list[Node]:
        """The other operations of the cause that have nothing to do with this one, but for what both read."""
        op, *ops = [made.hazard.op for _, made in self._places if made.program is self._detection.program]
        above = set(topological([op]))
        return [other for other in ops if other not in above and op not in topological([other])]

    @cached_property
    def _is_asked(self) -> bool:
        """Whether the selection drops the operation because its result is not finite, which it is after a guard."""
        hazard = self._detection.hazard
        tests = (n for n in topological(hazard.select.inputs[:1]) if n.op in FINITE_TESTS)
        return any(hazard.op in topological([test]) for test in tests)

    def _beside(self, found: Found, compared: Comparison) -> tuple[str, ...]:
        """The operations that lose the gradient at the witness still, each with a finding of its own."""
        left = self._proof.beside(found.remains, compared, found.after.module)
        others = [f for f in left if not any(f is one for one, _ in self._places)]
        return tuple(dict.fromkeys(named(f) for f in sorted(others, key=Finding.sort_key)))

    def _note_step(self, candidate: Candidate, found: Found, targets: list[Finding], compared: Comparison) -> None:
        """Note a rewrite after which something is left, unless there is one that leaves nothing."""
        if self._good:
            return
        leaves = [key(finding) for finding in found.after.findings], [node.op for node in found.remains]
        if candidate.slot and self._leaves.get(candidate.slot) == leaves:
            self._failing[candidate.slot] += _MOST_NUMBERS  # two numbers leave the same
        self._leaves[candidate.slot] = leaves
        fresh = compared.come(found.after.findings)
        stay = compared.come(found.after.findings, targets)
        sure = candidate.elementwise and not found.doubtful and not (candidate.alone and self._proof.exposed)
        another = not fresh and len(stay) == 1 and not any(compared.stays(each, stay) for each in targets)
        if another or (fresh == stay and len(fresh) == 1):  # another selection drops it, too, or it lays one bare
            self._detours.append(_Step(candidate, found, stay, targets, sure))

    def _by_detour(self, most: int) -> Proven | None:
        """A rewrite, and those of what it leaves."""
        self._detours.sort(key=lambda step: (_GRADES.index(step.grade), step.found.unclean))
        for step in self._detours[:_MOST_DETOURS]:
            after = step.found.after
            following = [place for one in step.left for place in places_of(after, one)]
            rest = rewritten(after, following, most - 1, self._effort) if following else ""
            if isinstance(rest, str):
                continue
            if (last := self._proof.of(rest.text, step.targets)) is None:
                continue
            source = self._proof.source
            compared = Comparison(source, source.difference(rest.text), self._proof.findings)
            if (doubtful := self._proof.doubts(last, step.targets, compared)) is not None:
                least: Grade = "unsafe" if doubtful else "safe"
                grade = max(step.grade, rest.grade, least, key=_GRADES.index)
                beside = self._beside(last, compared)  # the rows of others have moved
                return rest._replace(candidate=step.candidate, grade=grade, remaining=beside)
        return None


def targets_of(candidate: Candidate, places: Places, arm: list[Finding]) -> list[Finding]:
    """The findings that a rewrite has to remove: all of one cause, and those of the arm that it is made for."""
    asked = [finding for finding, _ in places]
    more = arm if candidate.kind == "arm" else []
    return [*asked, *(f for f in more if not any(f is each for each in asked))]


def site_of(analysis: Analysis, places: Places) -> tuple[Site, list[Finding]]:
    """A finding in the file that is rewritten, and every finding in the arm that drops it, or of the same cause."""
    finding, detection = places[0]
    siblings = dict.fromkeys(
        c.hazard.op
        for f, c in analysis.found
        if c is not None and (f.select.location == finding.select.location or any(f is each for each, _ in places))
    )
    site = Site(analysis.module, detection.framework, detection.hazard, list(around(detection)), siblings)
    start, end = site.arm.region if site.arm is not None else (finding.location, finding.location)
    arm = [f for f in analysis.findings if start <= f.location <= end]
    shared = site.read.values() if site.arm is None else ()
    reading = [place.region for places in shared for place in places]
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
