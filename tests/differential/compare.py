"""The same question to both: where is the value finite and the gradient not, only because of a dropped arm?"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from executing import Outcome

from differential.model import Answer, Model
from differential.programs import INPUTS, generate, write
from differential.truth import Framework
from wherelint.finding import FileReport, Finding
from wherelint.graph.node import LANES
from wherelint.io.config import Settings
from wherelint.io.files import FixMode
from wherelint.ops import Array
from wherelint.run.check import check_source

Point = tuple[Array, ...]
_GENERIC = np.float32([[0.63, 0.37, 0.91, 0.23], [0.71, 0.47, 0.61, 0.83]])
#: The exactly telling values that the search tries; in between, a missed alarm is a matter of luck.
_TELLING = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 100.0, -100.0, 1e-3, 1e-4, 1e4, -1e4)
_PAIRED = (0.0, 1.0, -1.0, 100.0)
_MOST_LAZY = 6


def points() -> Iterator[Point]:
    """A generic point, each input moved alone (all of it, its first element), both moved, both equal."""
    generic = tuple(_GENERIC)
    yield generic
    for i, value, lanes in itertools.product(range(len(INPUTS)), _TELLING, (slice(None), slice(1))):
        yield tuple(_moved(a, value, lanes) if i == k else a for k, a in enumerate(generic))
    for a, b in itertools.product(_PAIRED, _PAIRED):
        yield _moved(generic[0], a), _moved(generic[1], b)
    yield generic[0], generic[0]
    yield generic[0], -generic[0]


def _moved(array: Array, value: float, lanes: slice = slice(None)) -> Array:
    made = array.copy()
    made[lanes] = value
    return made


POINTS = tuple(points())


@dataclass(frozen=True)
class Disagreement:
    """A question that wherelint and the framework answer differently."""

    kind: str
    text: str
    point: Point
    says: str

    def __str__(self) -> str:
        return f"{self.kind} at {[p.tolist() for p in self.point]}: {self.says}\n{self.text}"


@dataclass
class Tally:
    """Counts over many programs, and every disagreement."""

    counts: Counter[str] = field(default_factory=Counter)
    disagreements: list[Disagreement] = field(default_factory=list)


def ask(seed: int, framework: str, tally: Tally) -> None:
    """One program."""
    rng = random.Random(f"{framework} {seed}")
    program = generate(rng, framework)
    text = write(program, rng)
    real = Framework(program, text)
    model = Model(text, framework)
    answer, double = model.at(POINTS), model.at(POINTS, np.float64)
    count = tally.counts
    count["programs"] += 1

    def disagree(kind: str, point: Point, says: str) -> None:
        tally.disagreements.append(Disagreement(kind, text, point, says))

    report = findings_of(text)
    count["findings"] += len(report.findings)
    for problem in report.problems:
        disagree("problem", POINTS[0], problem.message)
    for finding in report.findings:
        asked = [(point, outcome) for point in witnesses(finding) for outcome in tried(finding, point, real)]
        if any(np.isfinite(outcome.value).all() and not outcome.regular for _, outcome in asked):
            continue
        limits = model.at(witnesses(finding)).limits
        if any(off_by_a_little(model, point, real.at(point), "ieee") for point in witnesses(finding)):
            count["rounding"] += 1
        elif known := [limit for limit, met in limits.items() if met.any()]:
            count[known[0]] += 1
        else:
            point, outcome = asked[0]
            disagree("finding", point, f"{finding.code} in {finding.function}: {told(outcome)}")

    def agrees(i: int, outcome: Outcome, arithmetic: str) -> bool:
        """Whether both say the same, or it is known why they do not; else that is noted."""
        if same(answer, outcome, i, arithmetic):
            return True
        if same(double, outcome, i, arithmetic) or off_by_a_little(model, POINTS[i], outcome, arithmetic):
            count["rounding"] += 1
        elif known := [limit for limit, met in answer.limits.items() if met[i]]:
            count[known[0]] += 1
        elif framework == "jax" and same(answer, other_way(real, POINTS[i], arithmetic), i, arithmetic):
            count["compiler"] += 1
        else:
            disagree(arithmetic, POINTS[i], f"{told(outcome)}; in the model {told(answer.outcome(i, arithmetic))}")
        return False

    written, asked = real.at(POINTS[0]), real.lazily(POINTS[0])
    if np.isfinite(written.value).all() and not alike(written, asked):
        if framework == "jax" and alike(other_way(real, POINTS[0], "ieee"), asked):
            count["compiler"] += 1  # it rounds otherwise, and something compares the results
        else:
            disagree("harness", POINTS[0], f"{told(written)}; {told(asked)}")  # it is not the program that is asked

    broken = []
    for i, point in enumerate(POINTS):
        outcome = real.at(point)
        count["points"] += 1
        if agrees(i, outcome, "ieee") and np.isfinite(outcome.value).all() and not outcome.regular:
            broken.append((i, outcome))
    poisoned = []
    for i, outcome in broken[:_MOST_LAZY]:
        truth = real.lazily(POINTS[i])
        count["asked lazily"] += 1
        if agrees(i, truth, "symbolic") and heals(truth, outcome):
            poisoned.append(POINTS[i])
    count["poisoned"] += bool(poisoned)
    if poisoned and not report.findings:
        benign = real.at(POINTS[0])
        if not (np.isfinite(benign.value).all() and benign.regular):
            count["missed: no benign point"] += 1
        elif findings_of(write(program, None)).findings:
            count["missed: the mask, its product and the operation are in different functions"] += 1
        elif from_more_points(text):
            count["missed: found from more starting points"] += 1
        elif all(reasons := [model.unblamed(point) for point in poisoned]):
            count[f"missed: {reasons[0]}"] += 1
        else:
            disagree("missed", poisoned[0], f"{len(poisoned)} points")


def findings_of(text: str, fix_mode: FixMode = "no") -> FileReport:
    """What wherelint says, of any level."""
    return check_source(text.encode(), "a.py", Settings(level="note", root=Path("/")), fix_mode)


def from_more_points(text: str) -> bool:
    """Whether something is found if the search departs from many benign points instead of a few."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wherelint.search.witness._BASES", 16)
        return bool(findings_of(text).findings)


def other_way(real: Framework, point: Point, arithmetic: str) -> Outcome:
    """What JAX says without compilation; of a program that is asked without, with it."""
    return real.uncompiled(point) if arithmetic == "ieee" else real.lazily_compiled(point)


def heals(truth: Outcome, outcome: Outcome) -> bool:
    """Whether some element of a gradient is finite in one and not in the other."""
    pairs = zip(truth.gradients, outcome.gradients, strict=True)
    return any((np.isfinite(a) & ~np.isfinite(b)).any() for a, b in pairs)


def off_by_a_little(model: Model, point: Point, outcome: Outcome, arithmetic: str) -> bool:
    """Whether the outcome is one that the model gives, too, if its operations are off by a little."""
    answer = model.rounded(point)
    return any(same(answer, outcome, i, arithmetic) for i in range(len(answer.value)))


def same(answer: Answer, outcome: Outcome, i: int, arithmetic: str) -> bool:
    """Whether the answer at point ``i`` is finite exactly where the framework is."""
    mine = answer.outcome(i, arithmetic)
    pairs = zip([mine.value, *mine.gradients], [outcome.value, *outcome.gradients], strict=True)
    return all((np.isfinite(a) == np.isfinite(b)).all() for a, b in pairs)


def alike(one: Outcome, other: Outcome) -> bool:
    """Whether two values are the same but for rounding."""
    return bool(np.allclose(one.value, other.value, rtol=1e-4, atol=1e-5))


def told(outcome: Outcome) -> str:
    """A value and gradients in words."""
    return f"{outcome.mode} {outcome.value.tolist()} {[g.tolist() for g in outcome.gradients]}"


def witnesses(finding: Finding) -> list[Point]:
    """The inputs of a finding; one that it does not speak of may be anything, if only something regular."""
    assert finding.witness is not None
    shown = finding.witness.inputs
    return [
        tuple(np.resize(np.float32(shown.get(name, other)), LANES) for name, other in zip(INPUTS, others, strict=True))
        for others in (_GENERIC, (0.1, 0.1), (1.5, 1.5))
    ]


def tried(finding: Finding, point: Point, real: Framework) -> list[Outcome]:
    """What the framework says at the witness of a finding, which may be one of the helper alone."""
    assert finding.witness is not None
    found = list(real.helper(finding.witness.inputs)) if finding.function == "part" else []
    return [*found, real.at(point), real.uncompiled(point)]
