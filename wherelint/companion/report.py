"""The findings of a running program, as plain data, and their reports."""

import linecache
import os
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from wherelint import rules
from wherelint.evidence.pieces import Level
from wherelint.finding import Finding, Location, Selection
from wherelint.ops import OPERATIONS
from wherelint.ops.traits import SELECTIONS
from wherelint.report.formats import FORMATS
from wherelint.version import __version__

#: What the linter says of an operation that is no singular one of the catalogue: it met a nan.
_UNKNOWN = "WL111"
#: What is written where a function is smooth, but not in the way that it is computed.
_ROOTS = frozenset({"sqrt", "norm", "euclidean_norm", "hypot", "distance"})
_ROOT = "write the root of s as `where(s > 0, sqrt(where(s > 0, s, 1)), 0)`"
_LIMIT = "give {op} a safe operand at this point, and select the limit of the function"
#: How much of a gradient a failure shows.
_LONGEST = 400
#: And of a clip onto a singular point.
_CLIPPED = "WL301"


@dataclass(frozen=True)
class Place:
    """Where something stands: 1-based row and column; the end is (row, column), too, where it is not known."""

    filename: str
    row: int
    column: int = 1
    end_row: int = 0
    end_column: int = 0
    function: str = ""

    def __str__(self) -> str:
        return f"{self.shown}:{self.row}:{self.column}"

    @property
    def shown(self) -> str:
        """The file's name: from the working directory, if it lies below that."""
        try:
            relative = os.path.relpath(self.filename)
        except ValueError:  # on another drive
            return self.filename
        return self.filename if relative.startswith(os.pardir) else relative

    @property
    def line(self) -> str:
        """The line as it is written; empty where the file cannot be read."""
        return linecache.getline(self.filename, self.row).strip()

    def _span(self) -> tuple[Location, Location]:
        start = Location(self.row, self.column)
        return start, Location(self.end_row, self.end_column) if self.end_row else start


#: Where something stands in the program, and where in a library, if that is further in.
Places = tuple[Place | None, Place | None]


@dataclass(frozen=True)
class Poison:
    """One operation that broke a gradient, and the selection to blame.

    ``op`` is the catalogue's name of the operation (the framework's own for one that the catalogue does not know),
    ``select`` the kind of selection that made the zero (``where``, ``index``, ``multiply``, ``maximum`` ...). ``op_at``
    and ``select_at`` are places of the user's program, or None where the framework does not say; where the operation or
    the selection stands in a library, ``op_within`` and ``select_within`` are the places in there. ``index`` is the
    first element that broke, of ``count``; ``iteration`` holds one number for each enclosing loop, the outer one first.
    No selection drops a ``genuine`` break. The selection, if there is one, is then the clip that puts its operand onto
    the singular point. ``smooth``: finite differences say that the function has a gradient there all the same.
    ``witness`` is the arguments at which it was seen (``hunt``).
    """

    op: str
    op_at: Place | None
    select: str | None = None
    select_at: Place | None = None
    index: tuple[int, ...] = ()
    iteration: tuple[int, ...] = ()
    count: int = 1
    genuine: bool = False
    #: No gradient is to blame: the operation made a number that is not finite, of finite ones.
    value: bool = False
    op_within: Place | None = None
    select_within: Place | None = None
    framework: str = "jax"
    level: Level = "error"
    witness: Any = field(default=None, compare=False)
    #: What the framework's own graph has there, and the elements that broke, for as long as the report lives.
    node: Any = field(default=None, compare=False, repr=False)
    elements: Any = field(default=None, compare=False, repr=False)
    smooth: bool = False

    @classmethod
    def of(
        cls, op: str, at: Places, indices: Any, select: str | None = None,
        select_at: Places = (None, None), **options: Any,
    ) -> "Poison":  # fmt: skip
        """What broke at some places, by the ``indices`` of its elements, one a row."""
        return cls(
            op, at[0], select, select_at[0], tuple(map(int, indices[0])), count=len(indices), op_within=at[1],
            select_within=select_at[1], **options,
        )  # fmt: skip

    @property
    def bare(self) -> bool:
        """Whether no selection has anything to do with it."""
        return self.genuine and not self.select

    @property
    def code(self) -> str:
        """The rule that the linter would report: ``WL104``."""
        if self.genuine and self.select:
            return _CLIPPED
        operation = OPERATIONS.get(self.op)
        kind = SELECTIONS.get(self.select or "")
        return (kind and kind.code) or (operation and operation.code) or _UNKNOWN

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield from _block(self.op_at, self._sentence(), self.op_at, self.op_within)
        if self.bare and not self.value:
            yield "  no selection discards the result"
            if self.smooth:
                form = _ROOT if self.op in _ROOTS else _LIMIT.format(op=rules.spoken(self.op))
                yield f"  the whole function has a finite gradient here: {form}"
        elif not self.value:
            drops = rules.selection_phrase(self.select) if self.select else "a selection discards the result"
            if self.genuine:
                drops = f"`{self.select}` moves the operand to that point"
            hint = f"-> {self.code}, wherelint explain {self.code}"
            yield from _block(self.select_at or self.op_at, f"{drops} {hint}", self.select_at, self.select_within)

    def _sentence(self) -> str:
        """What the operation does."""
        does = "returns the first value that is not finite" if self.value else "has no finite derivative"
        return f"{rules.spoken(self.op)} {does}{self._element()}"

    def _element(self) -> str:
        more = f" and {self.count - 1} more" if self.count > 1 else ""
        element = f" at element {self.index}{more}" if self.index else ""
        loops = ", iteration " + " of ".join(map(str, reversed(self.iteration))) if self.iteration else ""
        return element + loops

    def as_finding(self) -> Finding:
        """The same as the linter's own data, which its reporters print; a genuine break has a selection of no kind."""
        place = self.op_at or self.op_within or Place("<unknown>", 1)
        select = self.select_at or place
        rule = rules.get(self.code)
        # The linter's selection lies in the file of its operation.
        elsewhere = f" ({self.select_at})" if select.filename != place.filename else ""
        start, end = place._span()
        if self.value or self.bare:
            message = self._sentence() + ("" if self.value else ", and no selection discards the result")
        else:
            message = rules.message(self.code, self.op, self.select or "where", self.framework) + elsewhere
        return Finding(
            code=self.code, name=rule.name, message=message,
            filename=place.shown, location=start, end_location=end,
            select=Selection(self.select or "", *(place if elsewhere else select)._span()), function=place.function,
            framework=self.framework, op=self.op, level=self.level, witness=None, noqa_row=place.row,
        )  # fmt: skip


@dataclass(frozen=True)
class Report:
    """What ``locate`` or ``hunt`` found; its text is for people.

    ``value_finite``, ``gradient_finite`` and ``masked_finite`` (the gradient that is left when dropped elements receive
    nothing) are of the arguments themselves, and of the witness where ``hunt`` found one that poisons the gradient. If
    it found only inputs that no mask repairs, the report may have findings and be ``ok``.
    """

    value_finite: bool
    gradient_finite: bool
    masked_finite: bool
    findings: tuple[Poison, ...] = ()
    #: The gradients themselves, in the shape of the arguments that are differentiated.
    gradient: Any = field(default=None, compare=False, repr=False)
    masked: Any = field(default=None, compare=False, repr=False)
    #: How many inputs were tried, for how long, and whether the search ended before it had tried all it knows.
    tried: int = 0
    seconds: float = 0.0
    note: str = ""

    @property
    def ok(self) -> bool:
        """Whether value and gradient are finite."""
        return self.value_finite and self.gradient_finite

    @property
    def poisoned(self) -> bool:
        """Whether a selection is to blame: the value is finite, and the gradient only without what is dropped."""
        return self.value_finite and not self.gradient_finite and self.masked_finite

    @property
    def witness(self) -> Any:
        """The nearest arguments that poison the gradient; None where there are none."""
        return self.findings[0].witness if self.findings else None

    def __str__(self) -> str:
        return "\n".join([*map(str, self.findings), self.summary()])

    def summary(self) -> str:
        """One line: what is finite and what is not, and how long it was looked for."""
        if self.ok:
            text = f"The value and the gradient are finite{' at the given arguments' * bool(self.findings)}."
        elif not self.value_finite:
            text = "The value is not finite, so there is no gradient."
        elif self.masked_finite:
            text = "The value is finite, but the gradient is not. Without the discarded elements it would be finite."
        else:
            text = "The value is finite, but the gradient is not. No selection discards all operations that break it."
        inputs = f" {self.tried} input{'s' * (self.tried > 1)} in {self.seconds:.1f} s." if self.tried else ""
        return text + inputs + (f" {self.note}" if self.note else "")

    def render(self, output_format: str) -> str:
        """The findings in a format of ``wherelint check --output-format``: ``json``, ``sarif``, ``github`` ..."""
        if output_format not in FORMATS:
            raise ValueError(f"unknown format {output_format!r}; choose from {', '.join(FORMATS)}")
        findings = [each.as_finding() for each in self.findings]
        return FORMATS[output_format](findings, (), rules.RULES, __version__)

    def raise_if_poisoned(self) -> None:
        """PoisonedGradient with this report, unless value and gradient are finite."""
        __tracebackhide__ = True  # pytest shows the line of the test
        if not self.ok:
            raise PoisonedGradient(self)


class PoisonedGradient(AssertionError):
    """A gradient that is not finite; ``report`` says why."""

    def __init__(self, report: Report) -> None:
        gradients = [("gradient", report.gradient), ("masked gradient", report.masked)]
        texts = [f"{name}: {textwrap.shorten(repr(each), _LONGEST)}" for name, each in gradients if each is not None]
        super().__init__("\n".join([report.summary(), *map(str, report.findings), *texts]))
        self.report = report


def _block(at: Place | None, sentence: str, code: Place | None, within: Place | None) -> Iterator[str]:
    """A sentence at its place, the line of code, and the place in a library."""
    yield f"{at or '<unknown>'}: {sentence}"
    if code and code.line:
        yield f"    {code.line}"
    if within:
        yield f"  inside {within}"
