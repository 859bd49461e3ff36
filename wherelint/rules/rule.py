"""What a rule is: constants beside a docstring that documents it, in a file of its name."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, replace
from typing import Any

#: The sections of every rule's documentation, in this order.
SECTIONS = ("What it does", "Why is this bad?", "Example", "Use instead", "Fix safety", "Known problems")
#: The section of a rule that says nothing else of its fix: the double where.
_FIX_SAFETY = """\
## Fix safety

The double where changes no value that is selected: it only replaces operands whose result is dropped. The fix
is safe when mask and operand are elementwise, unsafe when a reduction or an unknown call lies between them.

"""


@dataclass(frozen=True)
class Rule:
    """One code: its names, the words of its findings, and its documentation."""

    #: What to do about it, in one line.
    help: str
    #: Arguments of ``f`` at which the example fails and its replacement does not.
    example_at: tuple[Any, ...] = (0.0,)
    #: The sentence of a finding; may use ``{op}``, ``{place}``, ``{selection}`` and ``{kind}``.
    sentence: str = "{op} is differentiated {place}, {selection}: the gradient is nan"
    #: Off unless selected, and still open to change.
    preview: bool = False
    #: From the name of the file and its docstring, whose first sentence is the summary.
    code: str = ""
    name: str = ""
    summary: str = ""
    doc: str = ""

    @property
    def default(self) -> bool:
        """Whether the rule is on without being selected."""
        return not self.preview

    def documented(self, module: str, doc: str) -> Rule:
        """The rule with what the name of its file (``wl101_unmasked_sqrt``) and the docstring there say."""
        code, _, words = module.partition("_")
        before, last, after = doc.partition("## Known problems")
        doc = doc if "## Fix safety" in before else before + _FIX_SAFETY + last + after
        summary = doc.partition(".\n")[0]
        return replace(self, code=code.upper(), name=words.replace("_", "-"), summary=summary, doc=doc)

    def sections(self) -> dict[str, str]:
        """The documentation by section title."""
        _, *rest = re.split(r"^## (.+)$", inspect.cleandoc(self.doc), flags=re.MULTILINE)
        return {title.strip(): body.strip() for title, body in zip(rest[::2], rest[1::2], strict=True)}
