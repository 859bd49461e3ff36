"""The rules: one file a code, whose docstring is what ``wherelint explain`` prints."""

import os
from collections.abc import Iterable, Sequence
from importlib import import_module

from wherelint.ops import OPERATIONS
from wherelint.ops.traits import SELECTIONS
from wherelint.rules.rule import Rule

#: Every file of a code: `wl101_unmasked_sqrt`.
_MODULES = sorted(name[:-3] for name in os.listdir(os.path.dirname(__file__)) if name.startswith("wl"))


def _rule(name: str) -> Rule:
    module = import_module(f"wherelint.rules.{name}")
    rule: Rule = module.RULE
    return rule.documented(name, module.__doc__ or "")


RULES: tuple[Rule, ...] = tuple(map(_rule, _MODULES))
_BY_CODE = {rule.code: rule for rule in RULES}

__all__ = ["RULES", "Rule", "codes", "get", "message", "previews", "selection_phrase", "spoken"]


def get(code: str) -> Rule:
    """The rule of a code; KeyError if there is none."""
    return _BY_CODE[code]


def codes() -> tuple[str, ...]:
    """Every code, in order."""
    return tuple(_BY_CODE)


def previews(chosen: Iterable[str]) -> frozenset[str]:
    """Those of some codes that are off unless they are selected."""
    return frozenset(code for code in chosen if get(code).preview)


def message(code: str, op: str, kind: str, framework: str, modes: Sequence[str] = ()) -> str:
    """The sentence of a finding.

    ``op`` and ``kind`` are the catalogue's name of the singular operation and of the selection; ``modes`` are the
    ways of running the framework in which the gradient is bad, empty where they all agree.
    """
    sentence = get(code).sentence.format(op=spoken(op), kind=kind, place=place(op), selection=selection_phrase(kind))
    under_xla = framework == "tensorflow" and tuple(modes) == ("xla",)
    return sentence + (" (under XLA)" if under_xla else "")


def spoken(op: str) -> str:
    """The operation's name in a sentence."""
    return (op in OPERATIONS and OPERATIONS[op].spoken) or op


def place(op: str) -> str:
    """Where the operation is singular."""
    return (op in OPERATIONS and OPERATIONS[op].place) or "at a singular point"


def selection_phrase(kind: str) -> str:
    """How a selection makes the zero cotangent."""
    return SELECTIONS[kind].phrase if kind in SELECTIONS else f"where the `{kind}` does not select it"
