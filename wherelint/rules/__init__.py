"""The rules: one file a code, whose docstring is what ``wherelint explain`` prints."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from wherelint.rules.rule import Rule
from wherelint.rules.words import place, selection_phrase, spoken

_MODULES = (
    "wl001_unused_noqa",
    "wl101_unmasked_sqrt",
    "wl102_unmasked_log",
    "wl103_unmasked_division",
    "wl104_unmasked_arccos",
    "wl105_unmasked_arctan2",
    "wl106_unmasked_power",
    "wl107_unmasked_overflow",
    "wl108_unmasked_norm",
    "wl109_unmasked_special",
    "wl110_unmasked_linalg",
    "wl111_unmasked_nan",
    "wl201_unmasked_index",
    "wl202_mask_multiply",
    "wl203_nan_to_num",
    "wl204_unmasked_extremum",
    "wl205_masked_reduction",
    "wl206_masked_assignment",
    "wl301_clip_onto_singularity",
    "wl302_guard_admits_singularity",
    "wl303_epsilon_lost",
    "wl401_piecewise_constant",
    "wl402_host_numpy",
)

RULES: tuple[Rule, ...] = tuple(import_module(f"wherelint.rules.{name}").RULE for name in _MODULES)
_BY_CODE = {rule.code: rule for rule in RULES}

__all__ = ["RULES", "Rule", "codes", "get", "message", "spoken"]


def get(code: str) -> Rule:
    """The rule of a code; KeyError if there is none."""
    return _BY_CODE[code]


def codes() -> tuple[str, ...]:
    """Every code, in order."""
    return tuple(_BY_CODE)


def message(code: str, op: str, kind: str, framework: str, modes: Sequence[str] = ()) -> str:
    """The sentence of a finding.

    ``op`` and ``kind`` are the catalogue's name of the singular operation and of the selection; ``modes`` are the
    ways of running the framework in which the gradient is bad, empty where they all agree.
    """
    sentence = get(code).sentence.format(op=spoken(op), kind=kind, place=place(op), selection=selection_phrase(kind))
    under_xla = framework == "tensorflow" and tuple(modes) == ("xla",)
    return sentence + (" (under XLA)" if under_xla else "")
