"""Gradient coverage: what is noted of running programs, the file, and what the linter makes of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import Run
from real_gradients import require

from wherelint.cli import main
from wherelint.evidence.pieces import labelled
from wherelint.io.disk import digest
from wherelint.io.gradient_coverage import Coverage, MalformedError, load
from wherelint.run.coverage import REFUTED

TORCH = """\
import torch
from torch.utils.checkpoint import checkpoint


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 2 * ctx.saved_tensors[0] * g


def loss(x):
    y = torch.where(x > 0, x.sqrt(), 0.0)
    z = torch.log(x.detach() + 3)
    w = x.clone()
    w[x > 1] = torch.exp(x)[x > 1]
    q = Square.apply(x)
    c = checkpoint(torch.expm1, x, use_reentrant=False)
    r = checkpoint(lambda v: v.sinh(), x, use_reentrant=True)
    t = torch.func.vmap(lambda v: v.tanh())(x)
    return y.sum() + (z * w).sum() + q.sum() + c.sum() + r.sum() + t.sum()


def metric(x):
    return torch.where(x > 0, x.rsqrt(), 0.0)


def sides(x):
    a = torch.cos(x)
    b = torch.sin(x)
    return a.sum(), b.sum()


def both(x):
    return torch.where(x > 0, x.reciprocal(), 0.0)
"""
JAX = """\
import jax
import jax.numpy as jnp


def loss(x):
    y = jnp.where(x > 0, jnp.sqrt(x), 0.0)
    z = jax.lax.stop_gradient(jnp.log(x + 2))
    return (y + z).sum()


@jax.jit
def inner(x):
    return jnp.where(x > 1, jnp.log(x + 3), 0.0)


def never(x):
    return jnp.where(x > 1, jnp.tan(x), 0.0)


def loop(x):
    def body(c, a):
        return c * jnp.sin(a), None

    out, _ = jax.lax.scan(body, 1.0, x)
    return jax.lax.cond(out > 0, lambda o: jnp.exp(o), lambda o: jnp.tanh(o), out)


def remat(x):
    return jax.checkpoint(lambda y: jnp.expm1(y))(x).sum()
"""


def calls(text: str, kind: str) -> set[str]:
    """The source of everything that was marked, but for what spans several lines."""
    lines = text.splitlines()
    spans = [span for span, word in load(Path("cover.json")).calls["model.py"].items() if word == kind]
    return {lines[row - 1][column - 1 : end - 1] for row, column, end_row, end in spans if row == end_row}


new_python = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 says no columns")


@new_python
def test_torch_calls_that_gradients_pass(imported: Callable[[str], ModuleType]) -> None:
    require("torch")
    import torch

    from wherelint.torch import record

    model = imported(TORCH)
    with record("cover.json"):
        model.loss(torch.arange(3.0, requires_grad=True)).backward()
        x = torch.arange(3.0, requires_grad=True)
        a, _ = model.sides(x)
        torch.autograd.grad(a, x)
        with torch.no_grad():
            model.metric(x)
            model.both(x)
        model.both(torch.arange(3.0))
    passed = calls(TORCH, "gradient")
    assert {"x.sqrt()", "torch.exp(x)", "Square.apply(x)", "torch.cos(x)", "a.sum()", "v.sinh()", "v.tanh()"} <= passed
    assert "checkpoint(torch.expm1, x, use_reentrant=False)" in passed
    assert not {"torch.log(x.detach() + 3)", "torch.sin(x)", "b.sum()", "x > 0", "x.rsqrt()"} & passed
    assert calls(TORCH, "blocked") == {"x.rsqrt()", "x > 0", "torch.where(x > 0, x.rsqrt(), 0.0)"}
    assert "x.reciprocal()" in calls(TORCH, "ran")


@new_python
def test_torch_records_nothing_outside_and_leaves_no_hook(imported: Callable[[str], ModuleType]) -> None:
    require("torch")
    import torch

    from wherelint.torch import record

    model, x = imported(TORCH), torch.arange(3.0, requires_grad=True)
    before = torch.autograd.graph._engine_run_backward, torch.autograd.Function.__dict__["apply"]
    with pytest.raises(ValueError, match="stop"), record("cover.json"):
        raise ValueError("stop")
    assert not Path("cover.json").exists()
    with record("cover.json"):
        pass
    model.loss(x).backward()
    assert load(Path("cover.json")).calls == {}
    assert (torch.autograd.graph._engine_run_backward, torch.autograd.Function.__dict__["apply"]) == before


@new_python
def test_jax_calls_that_gradients_pass(imported: Callable[[str], ModuleType]) -> None:
    require("jax")
    import jax
    import jax.numpy as jnp

    from wherelint.jax import record

    model, x = imported(JAX), jnp.arange(3.0) + 0.5
    step = jax.jit(jax.value_and_grad(lambda x: (model.inner(x) * 2).sum()))
    step(x)  # compiled before it is recorded
    with record("cover.json"):
        jax.grad(model.loss)(x)
        step(x)
        model.never(x)
        jax.grad(model.loop)(x)
        jax.grad(model.remat)(x)
        jax.linearize(lambda x: model.never(x), x)  # no cotangents: forward only
    passed = calls(JAX, "gradient")
    assert {"jnp.sqrt(x)", "jnp.log(x + 3)", "jnp.sin(a)", "jnp.exp(o)", "jnp.expm1(y)"} <= passed
    assert not {"jnp.log(x + 2)", "jnp.tan(x)"} & passed
    assert calls(JAX, "blocked") == set()


def test_a_file_adds_up_and_forgets_what_was_changed(tmp_path: Path) -> None:
    path, span, other = tmp_path / "cover.json", (3, 5, 3, 14), (9, 1, 9, 4)
    for kind in ("blocked", "ran"):
        coverage = Coverage(digests={"a.py": "1"})
        coverage.add("a.py", kind, span)
        coverage.save(path)
    assert load(path).kind("a.py", span) == "ran"
    assert load(path).kind("a.py", (3, 1, 4, 1)) == "ran"  # lies in it
    assert load(path).kind("a.py", (3, 6, 3, 14)) is None
    assert load(path).dumps() == path.read_text()
    changed = Coverage(digests={"a.py": "2"})
    changed.add("a.py", "gradient", other)
    changed.save(path)
    assert load(path).kind("a.py", span) is None
    assert load(path).kind("a.py", other) == "gradient"


def test_a_row_alone_is_enough_where_there_are_no_columns() -> None:
    coverage = Coverage()
    coverage.add("a.py", "gradient", (3, 0, 0, 0))
    assert coverage.kind("a.py", (3, 5, 3, 14)) == "gradient"
    assert coverage.kind("a.py", (4, 5, 4, 14)) is None


BROKEN = {
    "empty": "",
    "no JSON": "{",
    "a list": "[]",
    "another file": '{"findings": []}',
    "another version": '{"wherelint": "gradient coverage", "version": 9, "files": {}}',
    "files of another kind": '{"wherelint": "gradient coverage", "version": 1, "files": [1]}',
    "a span of text": json.dumps({"wherelint": "gradient coverage", "version": 1, "files": {
        "a.py": {"digest": "", "gradient": [["1", 2, 3, 4]], "ran": [], "blocked": []}}}),
    "a huge number": json.dumps({"wherelint": "gradient coverage", "version": 1, "files": {
        "a.py": {"digest": "", "gradient": [[1 << 80, 2, 3, 4]], "ran": [], "blocked": []}}}),
    "a short span": json.dumps({"wherelint": "gradient coverage", "version": 1, "files": {
        "a.py": {"digest": "", "gradient": [[1, 2]], "ran": [], "blocked": []}}}),
    "deep": "[" * 100_000,
    "not UTF-8": "\udcff\udcfe",
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_one_line_and_exit_2(name: str, run: Run) -> None:
    path = Path("cover.json")
    path.write_text(BROKEN[name], "utf-8", "surrogateescape")
    with pytest.raises(MalformedError):
        load(path)
    Path("a.py").write_text("x = 1\n")
    status, out, err = run("check", "a.py", "--gradient-coverage", "cover.json")
    assert (status, out) == (2, "")
    assert err.startswith("error: cover.json: ")
    assert err.count("\n") == 1
    assert "pytest --gradient-coverage" in err


def test_a_file_that_is_not_there(run: Run) -> None:
    Path("a.py").write_text("x = 1\n")
    status, _, err = run("check", "a.py", "--gradient-coverage", "cover.json")
    assert (status, err) == (2, "error: cover.json: cannot read the gradient coverage: No such file or directory\n")


UNSAFE = "import torch\n\n\ndef f(x):\n    return torch.where(x > 0, torch.sqrt(x), 0.0)\n"


@pytest.fixture
def covered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text(UNSAFE)

    def cover(kind: str, text: str = UNSAFE) -> None:
        coverage = Coverage(digests={"a.py": digest(text.encode())})
        coverage.add("a.py", kind, (5, 31, 5, 44))
        Path("cover.json").write_text(coverage.dumps())

    return cover


def checked(capsys: pytest.CaptureFixture[str], *arguments: Any) -> tuple[int, str, str]:
    status = main(["check", "a.py", "--no-cache", "--output-format", "concise", *arguments])
    return (status, *capsys.readouterr())


def test_only_what_never_runs_with_gradients_is_a_note(
    covered: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    option = ("--gradient-coverage", "cover.json", "-v")
    for kind in ("gradient", "ran"):
        covered(kind)
        assert checked(capsys, *option)[0] == 1
    covered("gradient")
    assert "a gradient passed through 1 of the calls in findings" in checked(capsys, *option)[2]
    covered("blocked")
    status, out, err = checked(capsys, *option)
    assert status == 0
    assert "1 note is hidden; see it with --level note." in out
    assert "a.py:5:31: WL101 is now a note: it ran, but never with gradients\n" in err
    assert "a.py:5:31: note: WL101" in checked(capsys, *option, "--level", "note")[1]
    covered("blocked", UNSAFE + "# changed since\n")
    assert checked(capsys, *option)[0] == 1


@pytest.mark.usefixtures("covered")
def test_a_gradient_that_passed_refutes_that_none_flows(capsys: pytest.CaptureFixture[str]) -> None:
    Path("metrics").mkdir()
    Path("a.py").rename("metrics/a.py")
    options = ("check", "metrics", "--no-cache", "--output-format", "concise", "--level", "note", "-v")
    assert main([*options]) == 0
    out, err = capsys.readouterr()
    assert ": note: WL101" in out
    assert "untrained code" in err
    coverage = Coverage(digests={"metrics/a.py": digest(UNSAFE.encode())})
    coverage.add("metrics/a.py", "gradient", (5, 31, 5, 44))
    Path("cover.json").write_text(coverage.dumps())
    assert main([*options, "--gradient-coverage", "cover.json"]) == 1
    out, err = capsys.readouterr()
    assert ": error: WL101" in out
    assert "a.py:5:31: WL101 is now an error: a gradient passed through it\n" in err
    assert len(labelled(REFUTED)) == len(REFUTED)


def test_what_is_certain_stays_an_error(covered: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    text = "import torch\n\n\ndef f(x):\n    return x + 0 * 1.5 + 10 + torch.sign(x)\n"
    Path("a.py").write_text(text)
    covered("gradient", text)
    status, out, _ = checked(capsys, "--select", "WL401", "--gradient-coverage", "cover.json")
    assert status == 1
    assert "a.py:5:31: error: WL401" in out


def test_the_file_may_stand_in_the_configuration(
    covered: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    covered("blocked")
    Path("pyproject.toml").write_text('[tool.wherelint]\ngradient-coverage = ["cover.json"]\n')
    assert checked(capsys)[0] == 0
    assert checked(capsys, "--isolated")[0] == 1
    assert 'gradient-coverage = ["' in checked(capsys, "--show-settings")[1]


def test_what_fixes_is_not_judged(covered: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    covered("blocked")
    status, _, err = checked(capsys, "--fix", "--gradient-coverage", "cover.json")
    assert status == 2
    assert "--gradient-coverage cannot be combined" in err
