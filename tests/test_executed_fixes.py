"""The tool that executes the fixes of real packages: what it says of fixes that are right, wrong, and out of reach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import executed_fixes
import pytest
from executed_slices import changed_rows, slices
from real_gradients import require

_FUNCTION = """\
import torch
from nowhere import settings, traced


@traced
def root(x, eps: float = 0.0):
    return torch.where(x > eps, torch.sqrt(x), 0.0)


class Layer(torch.nn.Module):
    def forward(self, x):
        scale = settings.scale(x)
        y = x * scale
        return torch.where(y > 0, torch.log(y), self.floor)
"""
_RIGHT = {
    "torch.sqrt(x)": "torch.sqrt(torch.where(x > eps, x, 1.0))",
    "torch.log(y)": "torch.log(torch.where(y > 0, y, 1.0))",
}


def finding(old: str, new: str, function: str, witness: dict[str, Any]) -> dict[str, Any]:
    """A finding with a fix of one edit."""
    row, line = next((i, text) for i, text in enumerate(_FUNCTION.splitlines(), 1) if old in text)
    start = {"row": row, "column": line.index(old) + 1}
    edit = {"content": new, "location": start, "end_location": {**start, "column": start["column"] + len(old)}}
    return {
        "filename": "package/model.py", "code": "WL101", "function": function, "framework": "torch",
        "location": start, "witness": {"inputs": witness}, "fix": {"applicability": "safe", "edits": [edit]},
    }  # fmt: skip


@pytest.mark.rotated(3)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "function", "result", "says"),
    [
        ("torch.sqrt(x)", _RIGHT["torch.sqrt(x)"], "root", "same", "gradient fixed at"),
        ("torch.sqrt(x)", "torch.sqrt(torch.where(x > 0.5, x, 1.0))", "root", "changed", "value"),
        ("torch.sqrt(x)", "torch.sqrt(torch.where(torch.arange(4) > 1, x, x))", "root", "changed", "shape"),
        ("torch.sqrt(x)", "torch.sqrt(unknown)", "root", "changed", "raises NameError"),
        ("torch.log(y)", _RIGHT["torch.log(y)"], "Layer.forward", "same", "rows 13 to 14"),
        ("torch.log(y)", "torch.log(y).nan_to_num(0.0, 3.0)", "Layer.forward", "changed", "value"),
    ],
    ids=["right", "value", "shape", "raises", "statements", "nan"],
)  # fmt: skip
def test_a_fix_is_executed(tmp_path: Path, old: str, new: str, function: str, result: str, says: str) -> None:
    require("torch")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "model.py").write_text(_FUNCTION)
    row = executed_fixes.execute(tmp_path, finding(old, new, function, {"x": 0.0}))
    assert (row.result, says in row.why) == (result, True), row


def test_safe_fixes_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import torch\n\n\ndef f(x):\n    return torch.where(x == 0, 0.0, 1.0 / x)\n")
    (found,) = executed_fixes.safe_fixes(tmp_path, tmp_path / "kept.json")
    assert "torch.where(x == 0, 0.0, 1.0 / torch.where(" in executed_fixes.fixed(
        (tmp_path / "a.py").read_text(), found["fix"]
    )
    assert executed_fixes.safe_fixes(tmp_path, tmp_path / "kept.json") == [found]


def test_statements_become_functions_of_what_they_read() -> None:
    before = "def f(self, a, n):\n    b = self.g(a)\n    if n:\n        c = b / a\n    return c\n"
    after = before.replace("b / a", "b / (a + 1)")
    made = list(slices((before, after), (changed_rows(before, after), changed_rows(after, before))))
    assert made[0][0][0].startswith("def sliced(a, n, self):")
    assert made[-1][0] == (
        "def sliced(a, b):\n    c = b / a\n    return (c, )",
        "def sliced(a, b):\n    c = b / (a + 1)\n    return (c, )",
    )
