"""The file of gradient coverage, and the programs that write it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import Run
from real_gradients import require

from wherelint.io.gradient_coverage import Coverage, load
from wherelint.watcher import Imports

new_python = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 says no columns")

TORCH = """\
import torch


def loss(x, y):
    a = torch.where(x > 0, x.sqrt(), 0.0).sum()
    b = torch.where(y.abs() < 1, torch.acos(y), 0.0).sum() + torch.hypot(x, y).sum()
    c = torch.func.vmap(lambda v: 1 / v)(x + 1).sum()
    d = torch.exp(y * 20).sum() + (x - 1).std() + x.log2()[1:].sum()
    return a + b + c + d + (x**2).sum() + (y / 3).sum()


def untouched(x):
    return x.rsqrt()
"""


@pytest.mark.rotated(2)
def test_torch_computes_the_same(imported: Callable[[str], ModuleType]) -> None:
    require("torch")
    import torch

    from wherelint.torch import record

    model = imported(TORCH)
    compiled = torch.compile(torch.nn.Softplus(), backend="eager")

    def trained(around: AbstractContextManager[Any]) -> list[Any]:
        torch.manual_seed(0)
        w = torch.rand(64, requires_grad=True)
        with around:
            later = torch.compile(lambda x: x.sqrt().sum(), backend="eager", fullgraph=True)
            for _ in range(3):
                (model.loss(w, torch.rand(64)) + later(w) + torch.nn.functional.dropout(w).sum()).backward()
                with torch.no_grad():
                    w -= 1e-9 * w.grad
        return [w.detach(), compiled(w).detach(), torch.rand(3)]

    for one, other in zip(trained(nullcontext()), trained(record("cover.json")), strict=True):
        assert torch.equal(one, other)


SCRIPT = """\
import os, torch
from metrics.score import root

os.mkdir("elsewhere")
os.chdir("elsewhere")
x = torch.tensor([0.0, 1.0], requires_grad=True)
root(x).sum().backward()
"""
SCORE = """\
import torch


def root(length):
    return torch.where(length > 0, torch.sqrt(length), 0.0)
"""


@new_python
def test_a_program_that_a_report_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("torch")
    monkeypatch.chdir(tmp_path)
    Path("metrics").mkdir()
    Path("metrics/score.py").write_text(SCORE)
    Path("train.py").write_text(SCRIPT)
    arguments = [sys.executable, "-m", "wherelint", "run", "--record", "cover.json", "train.py"]
    ran = subprocess.run(arguments, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 1, ran.stderr
    assert "1 report" in ran.stderr
    assert load(Path("cover.json")).kind("metrics/score.py", (5, 36, 5, 54)) == "gradient"


def test_files_add_up_and_old_ones_are_read(tmp_path: Path) -> None:
    path, span = tmp_path / "cover.json", (3, 5, 3, 14)
    path.write_text(
        '{"wherelint":"gradient coverage","version":1,"files":{"a.py":{"digest":"1","gradient":[[3,5,3,14]],"ran":[],'
        '"blocked":[],"distances":[[3,5,3,14,"WL101",0,0.5,1]]}}}\n'
    )
    assert load(path).kind("a.py", span) == "gradient"
    coverage = Coverage(digests={"a.py": "1"})
    coverage.add("a.py", "ran", span)
    coverage.save(path)
    assert load(path).kind("a.py", span) == "gradient"
    assert load(path).dumps() == path.read_text()
    changed = Coverage(digests={"a.py": "2"})
    changed.add("a.py", "gradient", (1, 2, 3, 4))
    changed.save(path)
    assert load(path).kind("a.py", span) is None


def test_the_file_is_looked_at_before_the_program_runs(run: Run) -> None:
    Path("other.json").write_text("[]")
    Path("train.py").write_text("raise SystemExit(7)\n")
    status, out, err = run("run", "--record", "other.json", "train.py")
    assert (status, out, err) == (2, "", "error: other.json: this is no gradient coverage\n")


def test_several_wait_for_one_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "waited_for.py").write_text("ready = True\n")
    imports, seen = Imports(), list[str]()
    with imports.installed():
        for name in ("first", "second"):
            imports.after("waited_for", lambda name=name: seen.append(name))  # type: ignore[misc]
        assert seen == []
        importlib.import_module("waited_for")
        assert seen == ["first", "second"]
    monkeypatch.delitem(sys.modules, "waited_for")
