"""The code is formatted, linted and typed."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    "command",
    [("ruff", "check", "."), ("ruff", "format", "--check", "."), ("mypy",)],
    ids=["lint", "format", "types"],
)
def test_style(command: tuple[str, ...]) -> None:
    ran = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


#: Where objects are told apart that are there as long as their identities are used.
_HELD = {"lowering.py", "values.py", "findings.py", "resolve.py", "roots.py", "callers.py"}


def test_no_identity_of_an_object_that_may_be_gone_becomes_a_key() -> None:
    # Two inputs of a program became one where the second object lay at the place of the first: now and then.
    for path in sorted((ROOT / "wherelint" / "source").glob("*.py")):
        bare = [n for n in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(n, ast.Name) and n.id == "id"]
        assert not bare or path.name in _HELD, f"{path.name}:{bare[0].lineno}: use Lowering.identity"
