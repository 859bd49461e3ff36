"""Every piece of evidence: its name, its weight, and what it tells the user.

A score is additive: log-odds that a maintainer wants to know. The weights were set by hand after fits to labelled and
judged findings. ``tests/labels/fit.py`` fits them afresh, and prints both sets side by side on findings of later draws.
"""

import math
from collections.abc import Iterable
from enum import Enum
from typing import Literal, get_args

_START = -0.2


class Evidence(Enum):
    """Something that speaks for or against a finding."""

    # Did the author guard it?
    DIRECT = "direct", 0.3, "the condition tests the operand of this operation"
    INCIDENTAL = "incidental", -0.55, "the condition tests something other than the operand"
    MISSING_DATA = "missing data", 0.1, "the condition tests for missing data (nan)"
    AT_BOUNDARY = "at the boundary", 0.45, "the condition changes at the singular point"
    LOG_RATIO = "log ratio", 1.3, "the exponent is a difference of log-probabilities, which can exceed 100"
    MASKED_ROW = "masked row", 1.6, "masked elements are -inf, and a mask may cover a whole row"
    PADDING = "padding", 1.6, "the mask marks the real data, and the padding is 0"
    FACTOR = "factor", 1.5, "in a product such as `p * log(q)`, the condition tests `p` instead of `q`"
    DISTANCE = "distance", 0.65, "a hinge loss discards a distance, which is 0 for equal points"
    TOLERANCE = "tolerance", 0.55, "the condition compares with a tolerance"
    RETURNED = "returned", 0.6, "the function returns the selection"
    ROOT = "root or angle", 0.35, "roots, norms and angles have infinite derivatives at values such as 0"
    QUOTIENT = "quotient", -0.5, "a division fails only where the divisor is exactly 0"
    NO_GUARD = "no guard", -0.8, "this kind of selection seldom guards an operation"
    OTHER_PURPOSE = "another purpose", -2.0, "the condition cannot guard against the singular point"
    # Can the input occur?
    UNRELATED_INPUT = "unrelated input", -1.5, "the condition does not read the input that makes the gradient nan"
    UNLIKELY_INPUT = "unlikely input", -0.8, "the input is unlikely: equal values, a huge number or exactly `-eps`"
    BELOW_ZERO = "below zero", -0.55, "an input must be below zero"
    SETTING = "setting", -0.65, "the nan occurs only if somebody changes a setting or a default value"
    DOUBTFUL = "doubtful", -1.4, "the input may be impossible: a negative length, complex numbers, clashing conditions"
    # Does a gradient flow there?
    NOT_LEARNED = "not learned", -2.0, "judging by names, only data, masks or settings get a nan gradient"
    NOT_CARRIED = "not carried", -1.25, "the nan gradient ends at constants, counts or detached values"
    UNREACHED = "unreached", -1.3, "all callers are known, and none of them differentiates the function"
    UNSEEN = "unseen", -0.4, "no known caller differentiates the function; unknown callers may"
    INTEGERS = "integers", -0.55, "the function computes ranks, counts or indices"
    GEOMETRY = "geometry", 0.5, "names in the function suggest lengths, angles or points"
    MUCH_GEOMETRY = "much geometry", 1.1, "most names in the function suggest lengths, angles or points"
    UNTRAINED_CODE = "untrained code", -2.4, "the code is a metric, an optimizer, a sampler, a plot or a data pipeline"
    SELDOM_TRAINED = (
        "seldom trained code",
        -0.55,
        "the code is a demo, or computes start values, targets or gradient updates",
    )
    TEST = "in a test", -9.0, "the code is a test"
    SHIELDED = "shielded by callers", -2.4, "each caller stops the gradient, or never passes a value at which it is nan"
    # What the user says, and what was measured.
    DIFFERENTIATED = "said to be differentiated", 9.0, "the configuration says that gradients matter here"
    NOT_DIFFERENTIATED = "said not to be differentiated", -99.0, "a comment or a setting says that no gradient matters"
    RAN_WITHOUT = "ran without gradients", -9.0, "the code ran, but never with gradients"
    NEAR = "came to the point", 50.0, "a gradient passed, and the operand came close to the singular point"
    FAR = "kept away from the point", -0.3, "a gradient passed, but the operand stayed away from the singular point"

    def __init__(self, label: str, weight: float, sentence: str) -> None:
        #: Its name in reports.
        self.label = label
        #: What it adds to the log-odds.
        self.weight = weight
        #: What it tells the user.
        self.sentence = sentence

    @property
    def described(self) -> str:
        """What ``explain`` says of it."""
        side = "for" if self.weight > 0 else "against"
        page = "`wherelint explain levels` lists all evidence with its weights."
        return f"# {self.label}\n\nEvidence {side} a finding ({self.weight:+g}): {self.sentence}.\n\n{page}\n"


#: What keeps a finding from being an error, unless it was measured or said that a gradient matters.
_UNSEEN = frozenset({Evidence.UNREACHED, Evidence.UNSEEN})
_SURE = frozenset({Evidence.NEAR, Evidence.DIFFERENTIATED})
#: What stands with findings that matter, and is no reason why they do.
_NO_REASONS = frozenset({Evidence.RETURNED, Evidence.GEOMETRY, Evidence.MUCH_GEOMETRY})
_BY_LABEL = {each.label: each for each in Evidence}


def labelled(labels: Iterable[str]) -> frozenset[Evidence]:
    """The pieces of evidence of some names; a name that is none counts nothing."""
    return frozenset(_BY_LABEL[label] for label in labels if label in _BY_LABEL)


def worth(evidence: Iterable[Evidence]) -> float:
    """The score of a finding with such evidence, between 0 and 1."""
    return 1 / (1 + math.exp(-_START - math.fsum(each.weight for each in frozenset(evidence))))


Level = Literal["error", "warning", "note"]
#: The surest first.
LEVELS: tuple[Level, ...] = get_args(Level)
#: The scores from which a finding is an error, and a warning.
ERROR, WARNING = 0.68, 0.41


def level(evidence: Iterable[Evidence]) -> Level:
    """How sure a finding with such evidence is."""
    known = frozenset(evidence)
    score = worth(known)
    if score >= ERROR and not known.isdisjoint(_UNSEEN) and known.isdisjoint(_SURE):
        return "warning"
    return next(each for each in LEVELS if score >= least(each))


def least(level: Level) -> float:
    """The score from which a level is reached."""
    return {"error": ERROR, "warning": WARNING, "note": 0.0}[level]


def reaches(level: Level, other: Level) -> bool:
    """Whether a level is as sure as another, or surer."""
    return LEVELS.index(level) <= LEVELS.index(other)


def why(evidence: Iterable[Evidence]) -> str:
    """What speaks for a finding, and what weighs most against it, in a sentence; empty where nothing is known of it."""
    every = frozenset(evidence)
    known = [each for each in Evidence if each in every and each not in _NO_REASONS]
    against = sorted((each for each in known if each.weight < 0), key=lambda each: each.weight)
    sides = [each for each in known if each.weight > 0][:1], against[:1]
    told = [each.sentence for side in sides for each in side]
    if known and not against and level(every) != "error":
        told.append("there is little other evidence")
    return ", but ".join(told)
