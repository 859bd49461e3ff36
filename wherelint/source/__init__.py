"""Python source -> graph -> hazards -> findings of one file. LibCST lives here and in ``fix``, nowhere else."""

from __future__ import annotations

from wherelint.finding import Finding, Problem
from wherelint.source.options import DetectOptions

__all__ = ["DetectOptions", "detect"]


def detect(text: str, filename: str, options: DetectOptions) -> tuple[list[Finding], list[Problem]]:
    """The findings of one file, and the blocks that were given up.

    Raises SyntaxError where the text is not Python. A file that imports none of the frameworks costs nothing: LibCST
    and NumPy are not even loaded for it.
    """
    from wherelint.source.gate import MARKERS

    markers = (*MARKERS, *(alias.split(".", 1)[0] for alias in options.aliases))
    if not any(marker in text for marker in markers):
        compile(text, filename, "exec", flags=0x400, dont_inherit=True)  # PyCF_ONLY_AST: parse, run nothing
        return [], []
    from wherelint.source.findings import findings

    return findings(text, filename, options)
