"""What a rule is: constants beside a docstring that documents it."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any

#: The sections of every rule's documentation, in this order.
SECTIONS = ("What it does", "Why is this bad?", "Example", "Use instead", "Fix safety", "Known problems")


@dataclass(frozen=True)
class Rule:
    """One code: its names, the words of its findings, and its documentation."""

    code: str
    name: str
    #: One line for the table of rules.
    summary: str
    #: The sentence of a finding; may use ``{op}``, ``{place}`` and ``{selection}``.
    sentence: str
    #: What to do about it, in one line.
    help: str
    #: The docstring of the rule's module.
    doc: str
    #: Arguments of ``f`` at which the example fails and its replacement does not.
    example_at: tuple[Any, ...]
    #: Off unless selected.
    opt_in: bool = False

    @property
    def default(self) -> bool:
        """Whether the rule is on without being selected."""
        return not self.opt_in

    def sections(self) -> dict[str, str]:
        """The documentation by section title."""
        _, *rest = re.split(r"^## (.+)$", inspect.cleandoc(self.doc), flags=re.MULTILINE)
        return {title.strip(): body.strip() for title, body in zip(rest[::2], rest[1::2], strict=True)}

    def code_block(self, section: str) -> str:
        """The Python of a section's code block."""
        match = re.search(r"```python\n(.*?)```", self.sections()[section], re.DOTALL)
        if match is None:
            raise ValueError(f"{self.code}: the section {section!r} has no code block")
        return match[1]
