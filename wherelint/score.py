"""What a finding is worth: the evidence for and against it, each piece by its name and its weight.

The score is additive: log-odds that a maintainer wants to know. The weights are set by hand after a logistic fit over
labelled and judged findings, so that a plain guard of a plain operand is shown (``tests/labels/fit.py`` prints the fit
and its figures, each package left out in turn). Counts: findings with that evidence that were right, arguable, wrong
in 107 packages when that was done; evidence without counts was met twice at most, or came later.
"""

import math
from collections.abc import Iterable
from typing import Literal

_START = 0.5
#: Evidence that a run gives once a finding is there; no search can hope for it.
NEAR, FAR = "came to the point", "kept away from the point"

WEIGHTS: dict[str, float] = {
    # Did the author guard it? What the condition has to do with the operand that is singular.
    "direct": 0.6,  # 133 right, 75 arguable, 96 wrong
    "same variable": 0.0,  # 17, 30, 35
    "incidental": -0.3,  # 12, 8, 30
    "by the result": -0.05,  # 10, 21, 25
    "missing data": 2.0,  # 6, 1, 4
    "at the boundary": 0.2,  # 118, 76, 83
    "past the boundary": -0.6,  # 13, 8, 20
    "beyond the boundary": -3.0,  # the guard is on the safe side
    "an epsilon is lost": 0.5,  # the author guarded the operand; float32 rounded it away
    "compares a nan": -1.5,  # 3, 4, 9
    "in units of the limit": -2.0,
    "far from the operation": -2.0,
    "limits a result": -1.0,  # 6, 5, 1
    "not by a where": -1.2,  # 22, 10, 44, in fifteen draws
    "by place": -3.0,
    "random": -2.0,
    # Can the input occur?
    "moves what the condition does not read": -1.2,  # 9, 11, 24
    "coincidence": -1.0,  # 3, 8, 8
    "neighbours out of order": -0.6,  # 1, 4, 3
    "looked up": -0.3,  # 5, 7, 5
    "saves an overflow": -1.0,  # 0, 3, 4
    "overflows": 0.0,  # 13, 14, 11, and 16, 13, 21 in fifteen draws
    "moves below zero": -0.15,  # 9, 11, 13, and 15, 7, 25 in fifteen draws
    "a size below zero": -1.5,
    "extreme data": -1.0,
    "moves an integer": -0.6,  # 1, 2, 5
    "moves an optional input": -0.8,  # 0, 2, 3
    "moves a setting": -1.2,  # 2, 4, 15
    "cancels an epsilon": -1.0,  # 0, 1, 2
    "leaves a default": -1.0,
    "late": -2.0,
    "doubtful": -2.0,
    "complex numbers": -2.0,  # the model has real ones
    "no caller": -2.0,  # 1, 0, 5
    "no known caller": -1.2,  # 3, 1, 5, with later draws
    # Does a gradient flow there?
    "the operand reads no gradient": -0.4,  # 4, 3, 16
    "the operation reads no gradient": -1.2,  # 0, 0, 3
    "arithmetic on settings": -2.0,
    "NumPy computes with it": -2.0,  # no framework hands a gradient to what NumPy is given
    "poisons data": -1.5,  # 4, 6, 12
    "poisons a mask": -4.0,
    "poisons settings": -0.8,  # 3, 0, 1
    "poisons a configuration": -2.0,
    "in a test": -5.0,
    "in a metric": -1.5,  # 1, 3, 3
    "in an environment": -2.0,  # 0, 2, 4
    "in a data pipeline": -1.5,  # 0, 4, 7
    "in an optimizer": -1.5,  # 1, 8, 5
    "in an update": -1.1,  # of a gradient transformation, through which some differentiate
    "in a constraint": -1.5,
    "in a sampler": -1.5,
    "in a picture": -2.0,
    "in a postprocessing step": -2.0,
    "in a demonstration": -1.0,
    "in an example": 0.0,  # 3, 1, 5; others see it there; people train in examples, too
    "at the start of a run": -0.6,  # 1, 2, 0
    "makes data": -1.0,  # 0, 5, 2
    "used without gradients": -2.6,  # 2, 6, 12, with later draws
    "in a backward pass": -2.0,  # 0, 1, 2
    # What the user says, which goes before everything.
    "said to be differentiated": 9.0,
    "said not to be differentiated": -99.0,
    # Measured: it ran, and never with gradients; a gradient passed, and the operand came next to the point, or did not.
    "ran without gradients": -9.0,
    NEAR: 50.0,  # no guess outweighs it
    FAR: -0.3,  # another run may come there
}

#: What the shape of the program says counts nothing against a guard of the operand itself: its author met the input.
_SHAPE = frozenset({"looked up", "neighbours out of order"})
#: But what ``nan_to_num`` and the like replace, it may have met by another input.
_ORDER = frozenset({"not by a where", "neighbours out of order"})


def worth(evidence: Iterable[str]) -> float:
    """The score of a finding with such evidence, between 0 and 1; what is no evidence counts nothing."""
    names = frozenset(evidence)
    counted = names - _SHAPE if "direct" in names and not names >= _ORDER else names
    return 1 / (1 + math.exp(-_START - math.fsum(WEIGHTS.get(name, 0.0) for name in counted)))


def least(shown: float | str) -> float:
    """The score that is asked for with a confidence or a score: the least to show."""
    return {"high": 0.5, "low": 0.0}[shown] if isinstance(shown, str) else shown


def confidence(evidence: Iterable[str]) -> Literal["high", "low"]:
    """Whether a finding is shown unless everything is asked for."""
    return "high" if worth(evidence) >= 0.5 else "low"
