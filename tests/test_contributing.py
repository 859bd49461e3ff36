"""Each addition that the recipes show is made in a copy of the package, and works."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import environment

import wherelint
from wherelint import docs

PACKAGE = Path(wherelint.__file__).parent
RECIPES = docs.page("recipes") + docs.page("extending")
JAX = "import jax\nimport jax.numpy as jnp\n\n\n"
BETA = f"{JAX}def f(a, b):\n    return jnp.where(a > 0, jax.scipy.special.betaln(a, b), 0.0)\n"
PADDED = f"{JAX}def f(x, pad):\n    return x * jnp.where(pad > 0, 1 / pad, 0.0)\n"
ROOT = f"{JAX}def f(x):\n    return jnp.where(x > 0, jnp.sqrt(x), 0.0)\n"
WALRUS = f"{JAX}def f(x):\n    return jnp.where((y := x) > 0, jnp.sqrt(y), 0.0)\n"
MLX = "import mlx.core as mx\n\n\ndef f(x):\n    return mx.where(x > 0, mx.sqrt(x), 0.0)\n"
#: By the title of its section: a program, the format of the report, and what that then says.
ADDITIONS = {
    "An operation": (BETA, "concise", "WL109 [*] gradient is nan for betaln at a pole"),
    "A rule": (BETA, "concise", "WL199 [*] gradient is nan for betaln at a pole"),
    "Evidence": (PADDED, "json", '"not learned"'),
    "The words of a fix or a finding": (ROOT, "full", "fix: mask the operand by the condition of the `where`"),
    "A construct of the language": (WALRUS, "concise", "WL101 [*] gradient is nan for sqrt at 0 or below"),
    "A report format": (BETA, "tab-separated", "a.py\t6\tWL109\tgradient is nan for betaln"),
    "A framework": (MLX, "concise", "WL101 [*] gradient is nan for sqrt at 0 or below"),
}


def edits(title: str) -> list[tuple[str, str, str]]:
    """The files that an addition changes, with the lines before and after."""
    block = re.search(rf"^### {title}$.*?^```diff\n(.*?)^```$", RECIPES, re.DOTALL | re.MULTILINE)
    assert block is not None
    found = []
    for hunk in block[1].split("+++ ")[1:]:
        path, _, *lines = hunk.splitlines()
        sides = ("".join(f"{line[1:]}\n" for line in lines if line[:1] in kept) for kept in (" -", " +"))
        found.append((path, *sides))
    return found


def change(root: Path, path: str, old: str, new: str) -> None:
    """Put lines of a file in the place of others; a new file has none."""
    file = root / path
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    assert text.count(old) == 1 if old else not text, f"{path} is not what the page shows"
    file.write_text(text.replace(old, new) if old else new, encoding="utf-8")


def test_every_addition_is_tried() -> None:
    assert re.findall(r"^### (.+)$", RECIPES, re.MULTILINE) == list(ADDITIONS)


@pytest.mark.parametrize("title", ADDITIONS)
def test_the_addition_works(title: str, tmp_path: Path) -> None:
    program, output_format, expected = ADDITIONS[title]
    shutil.copytree(PACKAGE, tmp_path / "wherelint")
    (tmp_path / "a.py").write_text(program)

    def check() -> str:
        arguments = [
            "check",
            "--isolated",
            "--no-cache",
            "--level",
            "note",
            "--output-format",
            output_format,
            "a.py",
        ]
        text = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from wherelint.cli import main; main({arguments!r})"
        ran = subprocess.run(
            [sys.executable, "-c", text], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
        )
        return ran.stdout + ran.stderr

    there = {path: path.read_text("utf-8") for path in PACKAGE.rglob("*.py")}
    shipped = [edit for edit in edits(title) if edit[2] in there.get(PACKAGE.parent / edit[0], "")]
    for path, old, new in shipped:  # the page shows how it was added
        change(tmp_path, path, new, old)
    if shipped:
        assert "No findings" in check()
    for path, old, new in edits(title):
        change(tmp_path, path, old, new)
    assert expected in check()
