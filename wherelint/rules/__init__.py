"""The rules: one page a code, ``WL101.md``. Its head describes the rule, the rest is the documentation.

A page begins with lines ``key: value`` between two ``---``, each value in JSON: the fields of ``Rule`` below.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wherelint.ops import OPERATIONS
from wherelint.ops.traits import SELECTIONS

#: Where the documentation is; a mirror, or a project's own pages, by the environment.
SITE = os.environ.get("WHERELINT_DOCS_URL", "https://wherelint.readthedocs.io/en/stable").rstrip("/")

#: Why a result that is discarded matters.
STILL = "but reverse mode still differentiates it"


@dataclass(frozen=True)
class Rule:
    """One code: its names, the words of its findings, and its documentation."""

    code: str
    #: The documentation: the summary, then the sections of the page.
    doc: str
    name: str
    summary: str
    #: What to do about it, in one line.
    help: str
    #: The sentence of a finding; may use ``{op}``, ``{place}``, ``{selection}`` and ``{kind}``.
    sentence: str = "gradient is nan for {op} {place}: {selection}, " + STILL
    #: Arguments of ``f`` at which the example fails and its replacement does not.
    example_at: Sequence[Any] = (0.0,)
    #: Off unless selected, and still open to change.
    preview: bool = False

    @property
    def default(self) -> bool:
        """Whether the rule is on without being selected."""
        return not self.preview

    @property
    def url(self) -> str:
        """Its page, see ``url``."""
        return url(self.code)

    def sections(self) -> dict[str, str]:
        """The documentation by section title."""
        _, *rest = re.split(r"^## (.+)$", self.doc, flags=re.MULTILINE)
        return {title: body.strip() for title, body in zip(rest[::2], rest[1::2], strict=True)}


def _rule(page: Path) -> Rule:
    """The rule of a page."""
    _, head, body = page.read_text(encoding="utf-8").split("---\n", 2)
    fields = {key: json.loads(value) for key, _, value in (line.partition(": ") for line in head.splitlines())}
    return Rule(page.stem, f"{fields['summary']}.\n\n{body.strip()}", **fields)


RULES: tuple[Rule, ...] = tuple(map(_rule, sorted(Path(__file__).parent.glob("WL*.md"))))
_BY_CODE = {rule.code: rule for rule in RULES}


def url(code: str) -> str:
    """The page of a code in the documentation."""
    return f"{SITE}/rules/{code}/"


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
    return f"under XLA, {sentence}" if under_xla else sentence


def spoken(op: str) -> str:
    """The operation's name in a sentence."""
    return (op in OPERATIONS and OPERATIONS[op].spoken) or op


def place(op: str) -> str:
    """Where the operation is singular."""
    return (op in OPERATIONS and OPERATIONS[op].place) or "at a singular point"


def selection_phrase(kind: str) -> str:
    """What a selection does to the result of the operation."""
    return SELECTIONS[kind].phrase if kind in SELECTIONS else f"`{kind}` discards the result"
