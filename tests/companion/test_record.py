"""How near operands come to singular points: what is noted of running programs, the file, and what the linter says."""

from __future__ import annotations

import importlib.util
import json
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

from wherelint.cli import main
from wherelint.companion.nearness import edges
from wherelint.evidence import pieces
from wherelint.io.disk import digest
from wherelint.io.gradient_coverage import Coverage, Distance, MalformedError, load
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
JAX = """\
import jax
import jax.numpy as jnp


def loss(x, y):
    a = jnp.where(x > 0, jnp.sqrt(x), 0.0).sum()
    b = jnp.where(abs(y) < 1, jnp.arccos(y), 0.0).sum() + jnp.arctan2(x, y).sum()
    c = jax.vmap(lambda v: 1 / v)(x + 1).sum() + jnp.linalg.norm(x)
    d = jnp.exp(y * 20).sum() + jnp.linalg.norm(x - 3) + inner(x)
    return a + b + c + d + loop(x) + (x**2).sum() + jax.checkpoint(lambda v: jnp.log1p(v))(x).sum()


@jax.jit
def inner(x):
    return jnp.log2(x + 8).sum()


def loop(x):
    out, _ = jax.lax.scan(lambda c, a: (c + jnp.sin(1 / (a + 2)), None), 0.0, x)
    return jax.lax.cond(out > 9, lambda o: jnp.cbrt(o), lambda o: jnp.log(o), out)


def each(x):
    return jax.vmap(jax.grad(lambda v: jnp.arcsin(v / 10)))(x)
"""


def distances(text: str) -> dict[tuple[str, str, float | None], float]:
    """By the source of a call, the code and the point, how near it came, to three digits."""
    lines, known = text.splitlines(), load(Path("cover.json")).distances["model.py"]
    return {
        (lines[row - 1][column - 1 : end - 1], code, point): float(f"{distance.least:.3g}")
        for ((row, column, _, end), code, point), distance in known.items()
    }


@new_python
def test_torch(imported: Callable[[str], ModuleType]) -> None:
    require("torch")
    import torch

    from wherelint.torch import record

    model, x = imported(TORCH), torch.tensor([3e-8, 0.5, 2.0], requires_grad=True)
    with record("cover.json"):
        model.loss(x, torch.tensor([0.75, -3.0, 0.0], requires_grad=True)).backward()
        model.loss(x + 1, torch.tensor([0.0, 0.0, 4.0], requires_grad=True)).backward()
        with torch.no_grad():
            model.untouched(x)
    assert distances(TORCH) == {
        ("x.sqrt()", "WL101", 0.0): 3e-8,
        ("torch.acos(y)", "WL104", 1.0): 0.0,  # beyond
        ("torch.acos(y)", "WL104", -1.0): 0.0,
        ("torch.hypot(x, y)", "WL105", 0.0): 0.75,  # of both
        ("1 / v", "WL103", 0.0): 1.0,
        ("torch.exp(y * 20)", "WL107", None): 8.72,
        ("(x - 1).std()", "WL108", 0.0): 1.04,
        ("x.log2()", "WL102", 0.0): 3e-8,
    }


@new_python
def test_jax(imported: Callable[[str], ModuleType]) -> None:
    require("jax")
    import jax
    import jax.numpy as jnp

    from wherelint.jax import record

    model, x = imported(JAX), jnp.array([3e-8, 0.5, 2.0])
    with record("cover.json"):
        step = jax.jit(jax.grad(model.loss, (0, 1)))
        step(x, jnp.array([0.75, -3.0, 0.0]))
        step(x + 1, jnp.array([0.0, 0.0, 4.0]))
        jax.jit(model.each)(x)
        jax.grad(lambda x: jnp.log(x))(1.0)  # outside of any trace
        model.inner(x)
    found = distances(JAX)
    assert found == {
        ("jnp.sqrt(x)", "WL101", 0.0): 3e-8,
        ("jnp.arccos(y)", "WL104", 1.0): 0.0,  # beyond
        ("jnp.arccos(y)", "WL104", -1.0): 0.0,
        ("jnp.exp(y * 20)", "WL107", None): 8.72,
        ("jnp.arctan2(x, y)", "WL105", 0.0): 0.75,
        ("1 / v", "WL103", 0.0): 1.0,
        ("jnp.linalg.norm(x)", "WL108", 0.0): 2.06,  # compiled once for both
        ("jnp.linalg.norm(x - 3)", "WL108", 0.0): 2.5,
        ("jnp.log1p(v)", "WL102", -1.0): 1.0,
        ("jnp.log2(x + 8)", "WL102", 0.0): 8.0,
        ("jnp.log2(x + 8)", "WL103", 0.0): 0.693,  # JAX divides by the logarithm of 2
        ("1 / (a + 2)", "WL103", 0.0): 2.0,
        ("jnp.log(o)", "WL102", 0.0): 0.808,  # the branch that is taken
        ("jnp.arcsin(v / 10)", "WL104", 1.0): 0.8,
        ("jnp.arcsin(v / 10)", "WL104", -1.0): 1.0,
        ("v / 10", "WL103", 0.0): 10.0,
    }


@pytest.mark.rotated(2)
def test_jax_computes_the_same(imported: Callable[[str], ModuleType]) -> None:
    require("jax")
    import jax
    import numpy as np

    from wherelint.jax import record

    model, x = imported(JAX), jax.random.uniform(jax.random.key(1), (64,))

    def trained() -> Any:
        step, w = jax.jit(lambda w: w - 1e-6 * jax.grad(model.loss)(w, w)), x
        for _ in range(5):
            w = step(w)
        return np.asarray(w)

    before = trained()
    assert np.isfinite(before).all()
    rules = dict(jax.interpreters.ad.primitive_jvps)
    with record("cover.json"):
        assert (trained() == before).all()
    assert dict(jax.interpreters.ad.primitive_jvps) == rules


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


def score(x, n):
    return torch.where(n > 0, x / n, 0.0)
"""


@pytest.fixture
def scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Check a file of metrics that ran; distances by span and code."""
    monkeypatch.chdir(tmp_path)
    Path("metrics").mkdir()
    Path("metrics/score.py").write_text(SCORE)

    def checked(capsys: pytest.CaptureFixture[str], **found: Distance) -> str:
        coverage = Coverage(digests={"metrics/score.py": digest(SCORE.encode())})
        for name, span in {"root": (5, 36, 5, 54), "score": (9, 31, 9, 36)}.items():
            if name in found:
                coverage.add("metrics/score.py", "gradient", span)
                coverage.came("metrics/score.py", span, found[name])
        Path("cover.json").write_text(coverage.dumps())
        main(["check", "metrics", "--no-cache", "--output-format", "concise", "--gradient-coverage", "cover.json"])
        return capsys.readouterr().out

    return checked


@new_python
@pytest.mark.usefixtures("scored")
def test_a_program_that_a_report_stops(capsys: pytest.CaptureFixture[str]) -> None:
    require("torch")
    Path("train.py").write_text(SCRIPT)
    arguments = [sys.executable, "-m", "wherelint", "run", "--record", "cover.json", "train.py"]
    ran = subprocess.run(arguments, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 1, ran.stderr
    assert "1 report" in ran.stderr
    assert main(["check", "metrics", "--no-cache", "--output-format", "concise"]) == 0
    capsys.readouterr()
    options = ["check", "metrics", "--no-cache", "--output-format", "concise", "--gradient-coverage", "cover.json"]
    assert main(options) == 1
    out = capsys.readouterr().out
    assert "score.py:5:36: error: WL101" in out
    assert "measured: a gradient passed, and `length` reached 0\n" in out
    assert "score.py:9" not in out  # it did not run


def test_what_was_measured_outweighs_guesses(scored: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    near, far = Distance("WL101", 0.0, 3e-8, 1.5), Distance("WL103", 0.0, 0.5, 1.5)
    out = scored(capsys, root=near, score=far)
    assert "score.py:5:36: error: WL101" in out
    assert "measured: a gradient passed, and `length` came within 3e-08 of 0\n" in out
    Path("metrics/score.py").write_text(SCORE + "# changed since\n")
    assert "WL101" not in scored(capsys, root=near)


def test_an_operand_that_stays_away_is_a_little_against_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text(SCORE)
    coverage = Coverage(digests={"a.py": digest(SCORE.encode())})
    coverage.add("a.py", "gradient", (5, 36, 5, 54))
    Path("cover.json").write_text(coverage.dumps())
    options = ["check", "a.py", "--no-cache", "--output-format", "json", "--gradient-coverage", "cover.json"]
    main(options)
    before = json.loads(capsys.readouterr().out)[0]
    coverage.came("a.py", (5, 36, 5, 54), Distance("WL101", 0.0, 0.5, 1.5))
    Path("cover.json").write_text(coverage.dumps())
    main(options)
    after = json.loads(capsys.readouterr().out)[0]
    assert before.keys() == after.keys()
    assert before["score"] - 0.15 < after["score"] < before["score"]
    assert "measured" not in after["message"]
    monkeypatch.setattr(pieces, "ERROR", before["score"] - 0.01)
    main([*options, "--level", "error"])
    assert 5 not in [each["location"]["row"] for each in json.loads(capsys.readouterr().out)]


def test_files_add_up_and_old_ones_are_read(tmp_path: Path) -> None:
    path, span = tmp_path / "cover.json", (3, 5, 3, 14)
    path.write_text(
        '{"wherelint":"gradient coverage","version":1,"files":{"a.py":{"digest":"1","gradient":[[3,5,3,14]],"ran":[],'
        '"blocked":[]}}}\n'
    )
    assert load(path).kind("a.py", span) == "gradient"
    for least, mean in ((0.5, 1.0), (0.25, 0.5), (float("inf"), 1.0)):
        coverage = Coverage(digests={"a.py": "1"})
        coverage.came("a.py", span, Distance("WL107", None, least, mean))
        coverage.save(path)
    assert load(path).distance("a.py", span, {"WL107"}) == Distance("WL107", None, 0.25, 1.0)
    assert load(path).distance("a.py", span, {"WL101"}) is None
    assert load(path).kind("a.py", span) == "gradient"
    assert load(path).dumps() == path.read_text()
    assert "Infinity" not in path.read_text()
    changed = Coverage(digests={"a.py": "2"})
    changed.add("a.py", "gradient", (1, 2, 3, 4))
    changed.save(path)
    assert load(path).distance("a.py", span, {"WL107"}) is None
    path.write_text(path.read_text().replace('"distances":[]', '"distances":[[1,2,3,4,"WL101",0,"much",1]]'))
    with pytest.raises(MalformedError):
        load(path)


def test_the_file_is_looked_at_before_the_program_runs(run: Run) -> None:
    Path("other.json").write_text("[]")
    Path("train.py").write_text("raise SystemExit(7)\n")
    status, out, err = run("run", "--record", "other.json", "train.py")
    assert (status, out, err) == (2, "", "error: other.json: not a gradient coverage file\n")


def test_points_come_from_the_derivatives() -> None:
    assert [edge.targets for edge in edges("arctan2", "jax")] == [((0, 0.0), (1, 0.0))]
    assert edges("arctan2", "torch") == ()  # it has a gradient there
    (root,) = edges("sqrt", "jax")
    assert (root.targets, root.below, root.above) == (((0, 0.0),), True, False)
    (logarithm,) = edges("log", "jax")
    assert (logarithm.below, logarithm.above) == (False, False)


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
