"""What ruff and mypy do not see; they run beside the tests (.ci/run)."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "wherelint"


_READING = ("frontend", "interpret", "analysis")
#: Where objects are told apart that are there as long as their identities are used.
_HELD = {"builder.py", "values.py", "findings.py", "resolve.py", "programs.py", "callers.py", "objects.py"}


def test_no_identity_of_an_object_that_may_be_gone_becomes_a_key() -> None:
    # Two inputs of a program became one where the second object lay at the place of the first: now and then.
    for path in [p for folder in _READING for p in sorted((PACKAGE / folder).rglob("*.py"))]:
        bare = [n for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Name) and n.id == "id"]
        assert not bare or path.name in _HELD, f"{path.name}:{bare[0].lineno}: use Lowering.identity"
