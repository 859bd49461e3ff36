"""What is known of the calls of a program that ran, held against what is found in its text."""

import ast
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from wherelint.evidence.pieces import Evidence, labelled, level
from wherelint.finding import FileReport, Finding
from wherelint.io.config import ConfigError, Settings
from wherelint.io.edits import Source
from wherelint.io.gradient_coverage import Coverage, Distance, MalformedError, digest_of, load
from wherelint.io.notebook import spelled
from wherelint.ops import OPERATIONS
from wherelint.report.common import a_level

#: Why one might doubt that a gradient flows, which a gradient that passed refutes.
REFUTED = frozenset(
    each.label
    for each in (
        Evidence.NOT_LEARNED,
        Evidence.NOT_CARRIED,
        Evidence.UNREACHED,
        Evidence.UNSEEN,
        Evidence.UNTRAINED_CODE,
        Evidence.SELDOM_TRAINED,
        Evidence.SHIELDED,
    )
)


#: Rules about operations that a framework may take for each other: a root is a power.
_ROOTS = frozenset({"WL101", "WL106"})
#: So many characters of an operand are shown.
_LONGEST = 50


@dataclass
class MeasuredGradients:
    """The findings of files, weighed by gradient coverage; ``changed`` and ``differentiated`` say of which."""

    settings: Callable[[Path], Settings]
    #: The files of the command line, which go before those of configurations.
    paths: tuple[Path, ...] = ()
    #: Checks a file again, for notes as well.
    again: Callable[[FileReport], FileReport] | None = None

    def __post_init__(self) -> None:
        self._known: dict[tuple[Path, ...], Coverage] = {self.paths: read(self.paths)}
        self.changed: list[str] = []
        self.differentiated = 0

    def weigh(self, report: FileReport) -> FileReport:
        """The report in which what ran counts, with gradients or without. Raises ConfigError."""
        settings = self.settings(Path(os.path.abspath(report.filename)).parent)
        paths, root = (self.paths, Path.cwd()) if self.paths else (settings.gradient_coverage, settings.root)
        if not paths:
            return report
        if paths not in self._known:
            self._known[paths] = read(paths)
        known, name = self._known[paths], Path(os.path.relpath(report.filename, root)).as_posix()
        if name not in known.digests or known.digests[name] != digest_of(report.filename):  # rows may have moved
            return report
        if self.again is not None and settings.level != "note" and known.has_near(name):
            report = self.again(report)
        shown, hidden = [], report.hidden
        for finding in report.findings:
            weighed = replace(finding, also=tuple(self._place(p, known, name, report.text) for p in finding.also))
            weighed = self._place(weighed, known, name, report.text)
            kept = weighed.only(lambda p: p.reaches(settings.level))
            shown += [] if kept is None else [kept]
            hidden += kept is None and weighed.level == "note" and finding.reaches(settings.level)
        return replace(report, findings=tuple(shown), hidden=hidden)

    def _place(self, finding: Finding, known: Coverage, name: str, text: str) -> Finding:
        begin, end = finding.location, finding.end_location
        at = begin.row, begin.column, end.row, end.column
        kind = known.kind(name, at)
        self.differentiated += kind == "gradient"
        if kind == "gradient":
            code = OPERATIONS[finding.op].code if finding.op in OPERATIONS else None
            distance = known.distance(name, at, _ROOTS if code in _ROOTS else {code})
            evidence = tuple(each for each in finding.evidence if each not in REFUTED)
            message, why = finding.message, "a gradient passed through it"
            if distance is not None:
                evidence = tuple(sorted({*evidence, (Evidence.NEAR if distance.is_near else Evidence.FAR).label}))
                why = f"a gradient passed, and {_came(distance, _operand(text, finding))}"
                message += f"; measured: {why}" if distance.is_near else ""
            changed = level(labelled(evidence)) if evidence != finding.evidence else finding.level
            weighed = replace(finding, evidence=evidence, level=changed, message=message)
        elif kind == "blocked":
            weighed, why = finding.with_evidence(Evidence.RAN_WITHOUT.label), "it ran, but never with gradients"
        else:
            return finding
        if weighed.level != finding.level:
            place = spelled(begin, finding.cells)
            told = f"{finding.filename}:{place}: {finding.code} is now {a_level(weighed.level)}: {why}"
            self.changed.append(told)
        return weighed


def _came(distance: Distance, operand: str) -> str:
    """How near an operand came to what, as a clause."""
    point = "an overflow" if distance.point is None else f"{distance.point:g}"
    return f"{operand} came within {distance.least:.1g} of {point}" if distance.least else f"{operand} reached {point}"


def _operand(text: str, finding: Finding) -> str:
    """What the operand of an operation is called in the text; of a norm, the norm."""
    operation = OPERATIONS[finding.op]
    source = Source(text).between(finding.location, finding.end_location)
    if operation.mixes:
        return _quoted(source)
    whole = f"({source})"
    try:
        node = ast.parse(whole, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _quoted("")
    which = operation.domains[0].operand if operation.domains else 0
    operands: list[ast.expr] = []
    if isinstance(node, ast.BinOp):
        operands = [node.left if isinstance(node.op, ast.Pow) else node.right] * (which + 1)
    elif isinstance(node, ast.Call):
        is_method = isinstance(node.func, ast.Attribute) and len(node.args) < len(operation.singular[0])
        operands = [*([node.func.value] if is_method else []), *node.args]  # type: ignore[attr-defined]
    return _quoted((which < len(operands) and ast.get_source_segment(whole, operands[which])) or "")


def _quoted(source: str) -> str:
    return f"`{source}`" if source.isprintable() and 0 < len(source) <= _LONGEST else "its operand"


def read(paths: tuple[Path, ...]) -> Coverage:
    """What some files of gradient coverage know together. ConfigError where one is none."""
    found = Coverage()
    for path in paths:
        try:
            found.merge(load(path))
        except OSError as error:
            raise ConfigError(f"{path}: cannot read the gradient coverage: {error.strerror}") from None
        except MalformedError as error:
            how = "wherelint run --record, or pytest --gradient-coverage"
            raise ConfigError(f"{path}: {error}; write one with {how}") from None
    return found
