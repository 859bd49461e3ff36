"""The plain data that every part of wherelint exchanges.

Rows and columns are 1-based and columns count code points. Nothing here computes anything: ``analysis``
builds these values, ``suppress`` filters them, ``report`` prints them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from wherelint.evidence import pieces
from wherelint.evidence.pieces import Level, labelled, worth

#: An input or a result of the witness: one number where every lane agrees, a list where the lanes differ. What comes
#: back from the cache is checked against it.
Number = float | int | bool | list[float | int | bool]
#: Why a file holds no finding, as is seen without a search.
Skipped = Literal["no framework", "no selection", "too many imports"]


@dataclass(frozen=True, order=True)
class Location:
    """A place in a file: 1-based row, 1-based column in code points."""

    row: int
    column: int


@dataclass(frozen=True)
class Selection:
    """The expression that makes the zero cotangent: a ``where``, a clip, a masked index ..."""

    kind: str
    location: Location
    end_location: Location


@dataclass(frozen=True)
class Elsewhere:
    """A place in another file that a finding is about; the finding itself shows the call that leads there."""

    filename: str
    location: Location
    end_location: Location
    message: str
    #: The rows of the place, as they stand in that file.
    rows: str


@dataclass(frozen=True)
class Witness:
    """An input, by the author's names of the leaves, at which the value is finite and the gradient is not."""

    inputs: Mapping[str, Number]
    value: Number
    gradient: Mapping[str, Number]
    #: What else holds there: "`f` is 2-D", "`mode == 'sum'`".
    conditions: tuple[str, ...] = ()
    #: Calls whose results are among the inputs.
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Edit:
    """Replace the text between two places by ``content``."""

    content: str
    location: Location
    end_location: Location


@dataclass(frozen=True)
class Fix:
    """Edits that remove a finding, and how far they may be trusted: all of them are made, or none is."""

    applicability: Literal["safe", "unsafe", "display"]
    message: str
    edits: tuple[Edit, ...]
    #: Operations until whose fix the gradient stays nan: hidden behind what it fixes, or findings of their own.
    remaining: tuple[str, ...] = ()

    @property
    def offered(self) -> bool:
        """Whether there is anything to change; otherwise the message says why not."""
        return bool(self.edits)


#: What a finding is about and what its fix writes, wherever in the file they stand.
FixKey = tuple[str, str, str, tuple[str, ...]]
#: Where a finding comes in the output.
SortKey = tuple[str, Location, str, Location, Location]
REFUTED, UNRUN = "a run under the framework refuted it", "it could not be run"


@dataclass(frozen=True)
class Outcome:
    """What a framework computed at one input: the value, and the gradient of its sum by the author's names."""

    value: Number
    gradient: Mapping[str, Number]


@dataclass(frozen=True)
class AfterFix:
    """What became of the snippet when it was fixed, at every probe."""

    value_unchanged: bool
    gradient_finite: bool


@dataclass(frozen=True)
class Confirmation:
    """What a framework made of the snippet of a finding, on a device.

    ``modes`` has an outcome for each way of running the framework ("jit", "eager", "xla"), at the input ``at``: the
    witness, unless only another probe shows the gradient. ``reason`` says why a finding is not confirmed.
    """

    verdict: Literal["confirmed", "not-reproduced", "not-runnable"]
    reason: str | None = None
    device: str | None = None
    framework_version: str | None = None
    at: Mapping[str, Number] = field(default_factory=dict)
    modes: Mapping[str, Outcome] = field(default_factory=dict)
    after_fix: AfterFix | None = None

    @property
    def refutes_fix(self) -> bool:
        """Whether the fix changed a value, or left a gradient that is not finite."""
        return self.after_fix is not None and not (self.after_fix.value_unchanged and self.after_fix.gradient_finite)

    @property
    def against_fix(self) -> str:
        """Why the fix is not written: the run refuted it, or there was none; empty where it bore the fix out."""
        if self.after_fix is None:
            unwritten = "its program cannot be written"
            return f"{UNRUN}: {self.reason if self.verdict == 'not-runnable' else unwritten}"
        what = "the gradient is not finite" if self.after_fix.value_unchanged else "the value changed"
        return f"{REFUTED}: {what}" if self.refutes_fix else ""


@dataclass(frozen=True)
class Curve:
    """What a selection computes along a line: its value, and the gradient of one input."""

    value: tuple[float, ...]
    gradient: tuple[float, ...]


@dataclass(frozen=True)
class Plot:
    """A selection along a line through the witness, before the fix and, where there is one, after it.

    ``at`` are the places on the line: the numbers that the one input in ``moved`` takes; where several move, 0 is the
    witness, and 1 an ordinary point. The gradient is that of ``wrt``.
    """

    moved: tuple[str, ...]
    wrt: str
    witness: float
    at: tuple[float, ...]
    before: Curve
    after: Curve | None = None


@dataclass(frozen=True)
class Finding:
    """One singular operation whose cotangent is a selection's zero.

    ``location`` is the singular operation, ``select`` the innermost selection that makes its zero, ``related`` the
    other selections that lie over the same operation, ``also`` what else one mask would fix. Of what stands in another
    file, the call that leads there counts, and ``elsewhere`` has the place itself. ``modes`` names the ways of running
    the framework in which the gradient is bad (``("xla",)`` for a TensorFlow finding that eager mode does not show).
    """

    code: str
    name: str
    message: str
    filename: str
    location: Location
    end_location: Location
    select: Selection
    function: str
    framework: str
    op: str
    level: Level
    witness: Witness | None
    noqa_row: int
    modes: tuple[str, ...] = ()
    related: tuple[Selection, ...] = ()
    elsewhere: tuple[Elsewhere, ...] = ()
    #: The other findings of one cause, the surest first.
    also: tuple[Finding, ...] = ()
    fix: Fix | None = None
    confirmation: Confirmation | None = None
    #: What speaks for it and against it, by the labels of ``evidence.pieces.Evidence``.
    evidence: tuple[str, ...] = ()
    #: The program that shows the finding or why there is none, see ``confirm.routine.snippet_of``; with the fix.
    snippet: object = field(default=None, compare=False, repr=False)
    #: In a notebook, for every cell the row at which it begins in the program that the cells make.
    cells: tuple[int, ...] = field(default=(), compare=False, repr=False)
    #: With the fix, where a search made the finding.
    plot: Plot | None = field(default=None, compare=False, repr=False)
    #: The reason that a comment gives for silencing it, perhaps none; None where no comment does.
    silenced: str | None = None
    #: What is the same for all findings of the file that have one cause, before they are put together or fixed.
    cause: int | None = field(default=None, compare=False, repr=False)

    @property
    def places(self) -> tuple[Finding, ...]:
        """The finding without the others of its cause, and these."""
        return (replace(self, also=()), *self.also)

    def only(self, kept: Callable[[Finding], bool]) -> Finding | None:
        """The same finding for some of its places; None where it has none of them."""
        places = [place for place in self.places if kept(place)]
        return replace(places[0], also=tuple(places[1:]), fix=self.fix) if places else None

    def with_evidence(self, *names: str) -> Finding:
        """The same finding, and more that is known of it."""
        evidence = tuple(sorted({*self.evidence, *names}))
        return replace(self, evidence=evidence, level=pieces.level(labelled(evidence)))

    @property
    def score(self) -> float:
        """How likely it is that a maintainer wants to know, by its evidence: between 0 and 1."""
        return worth(labelled(self.evidence))

    @property
    def why(self) -> str:
        """Why it has its level, in a sentence; empty where no evidence was weighed."""
        return pieces.why(labelled(self.evidence))

    def reaches(self, level: Level) -> bool:
        """Whether it is as sure as a level, or surer."""
        return pieces.reaches(self.level, level)

    @property
    def is_shown(self) -> bool:
        """Whether it is shown unless the settings ask for more or for less."""
        return self.reaches("warning")

    def sort_key(self) -> SortKey:
        """Order of the output: by file, then place, then code; what one row is divided by twice begins at one place."""
        return (self.filename, self.location, self.code, self.select.location, self.end_location)

    def fix_key(self) -> FixKey:
        """What tells its fix apart from others of the file, also when rows move."""
        fix = self.fix or Fix("display", "", ())
        return self.code, self.op, self.function, tuple(edit.content for edit in fix.edits)


@dataclass(frozen=True)
class Problem:
    """Something that kept a file, or a part of it, from being checked."""

    filename: str
    message: str
    location: Location | None = None
    #: An error makes the exit code 2; a warning (one block that was given up) does not.
    error: bool = True
    #: As that of a finding.
    cells: tuple[int, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class FileReport:
    """What is known about one file after checking it."""

    filename: str
    findings: tuple[Finding, ...] = ()
    problems: tuple[Problem, ...] = field(default=())
    #: The decoded text, kept where there is a finding to show in a code frame; after the fixes, if there are any. Of a
    #: notebook, the program that its cells make.
    text: str = ""
    #: The findings that were fixed, and the bytes of the file before and after.
    fixed: tuple[Finding, ...] = ()
    before: bytes = b""
    after: bytes = b""
    #: Why the file was not searched; empty if it was.
    skipped: str = field(default="", compare=False)
    #: How many findings were left out because they ran without gradients.
    hidden: int = 0
    #: What comments silence.
    silenced: tuple[Finding, ...] = field(default=(), compare=False, repr=False)
    #: The fixes of its findings as they are offered, before they are laid out.
    offers: tuple[Fix | None, ...] = field(default=(), compare=False, repr=False)
    #: The report after the safe fixes, where these are offered and it was found with little work more.
    diff: FileReport | None = field(default=None, compare=False, repr=False)

    @property
    def known_offers(self) -> dict[SortKey, Fix | None]:
        """The fixes as they are offered, by where the findings stand."""
        return {finding.sort_key(): fix for finding, fix in zip(self.findings, self.offers, strict=False)}
