"""The findings of one file: its functions as programs, the hazards in them, and what is told of these."""

from __future__ import annotations

import sys
import unicodedata
from typing import TYPE_CHECKING

from wherelint.evidence.pieces import Evidence, labelled
from wherelint.finding import Finding, Problem, Skipped
from wherelint.frontend.options import DetectOptions
from wherelint.io.encoding import NOWHERE

if TYPE_CHECKING:
    from wherelint.findings.analysis import Analysis
    from wherelint.frontend.module import Project

__all__ = ["DetectOptions", "analyse", "detect", "forget"]


def detect(text: str, filename: str, options: DetectOptions) -> tuple[list[Finding], list[Problem]]:
    """The findings of one file, and the blocks that were given up. Raises SyntaxError where the text is not Python."""
    analysis = analyse(text, filename, options)
    return ([], []) if isinstance(analysis, str) else (analysis.findings, list(analysis.problems))


def forget() -> None:
    """Have the files around the next ones searched afresh: they may have changed."""
    sources = sys.modules.get("wherelint.frontend.sources")
    if sources is not None:
        sources.forget()


def analyse(
    text: str, filename: str, options: DetectOptions, projects: list[Project] | None = None
) -> Analysis | Skipped:
    """What is known of one file; why it was skipped where nothing in it can be a finding.

    ``projects`` gets the project of the file, which knows what was read of it: more while fixes are looked for.

    Raises SyntaxError where the text is not Python. A file in which nothing is selected costs little: NumPy is not
    even loaded for it.
    """
    from wherelint.frontend import screen

    markers = (*screen.MARKERS, *(alias.split(".", 1)[0] for alias in options.aliases))
    everything = bool(options.opt_in & screen.EVERYWHERE)
    normalized = unicodedata.normalize("NFKC", text)  # as names are read
    if not any(marker in normalized for marker in markers) and not screen.speaks(normalized):
        compile(text, NOWHERE, "exec", flags=0x400, dont_inherit=True)  # PyCF_ONLY_AST: parse, run nothing
        return "no framework"
    from wherelint.frontend.module import Module
    from wherelint.frontend.screen import inherited

    module = Module(filename, text, options.aliases)
    if projects is not None:
        projects.append(module.project)
    used = module.frameworks()
    names = [*screen.roots(module, everything=everything), *inherited(module)]
    if names and not used:
        from wherelint.frontend.namespaces import behind
        from wherelint.frontend.screen import Reach

        reach = Reach(module)
        used = reach.frameworks(names, screen.WORDS)
        if not used and (reach.spent or module.budget.given_up):
            return "too many imports"
        used = used or behind(module)
        module.settle()
    told = module.budget.given_up or "noqa" in text  # a comment that silences nothing is a finding
    if not used or not (names or told):
        return "no selection" if used else "no framework"
    from wherelint.evidence.judge import Outlook
    from wherelint.findings.analysis import analyse_functions

    stated = labelled(options.said)
    outlook = Outlook(options.least, stated, frozenset({Evidence.DIFFERENTIATED}) - stated)
    return analyse_functions(module, used, names, options.opt_in, outlook=outlook)
