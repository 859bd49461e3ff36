"""What the command imports: no framework, and nothing heavy for a short answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import SAFE, UNSAFE, environment

FRAMEWORKS = ("jax", "torch", "tensorflow", "keras")
HEAVY = ("libcst", "numpy", "scipy", "rich")


def imported(root: Path, *arguments: str, before: str = "") -> set[str]:
    """The top-level modules that a run of the command has imported at its end."""
    program = (
        f"import sys\n{before}\nfrom wherelint.cli import main\nmain(sys.argv[1:])\n"
        "print('\\nMODULES', *{name.split('.')[0] for name in sys.modules})"
    )
    command = [sys.executable, "-c", program, *arguments]
    output = subprocess.run(
        command, cwd=root, capture_output=True, text=True, check=True, env=environment(measured=False)
    ).stdout
    return set(output.rpartition("MODULES")[2].split())


@pytest.mark.parametrize("output_format", ["full", "concise", "json"])
def test_check_imports_no_framework(tmp_path: Path, output_format: str) -> None:
    (tmp_path / "a.py").write_text(UNSAFE + "import torch, tensorflow\n")
    modules = imported(tmp_path, "check", "a.py", "--output-format", output_format)
    assert not modules & {*FRAMEWORKS, "rich"}
    assert "a" not in modules


def test_confirming_imports_no_framework_here(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(UNSAFE)
    modules = imported(tmp_path, "check", "a.py", "--confirm", "--no-cache")
    assert not modules & {*FRAMEWORKS, "rich", "a"}


@pytest.mark.parametrize(("text", "rewrites"), [(SAFE, False), (UNSAFE, True)])
def test_libcst_reads_what_is_rewritten_alone(tmp_path: Path, text: str, rewrites: bool) -> None:
    (tmp_path / "a.py").write_text(text)
    modules = imported(tmp_path, "check", "a.py", "--no-cache", "--exit-zero")
    assert ("libcst" in modules) == rewrites


def test_this_test_can_fail(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(UNSAFE)
    (tmp_path / "jax.py").write_text("")
    before = "sys.path.insert(0, ''); import jax"
    assert "jax" in imported(tmp_path, "check", "a.py", before=before)


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("rules",), ("explain", "WL101")], ids=str)
def test_short_answers_import_little(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    modules = imported(tmp_path, *arguments)
    assert not modules & {*FRAMEWORKS, *HEAVY}
