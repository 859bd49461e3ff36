"""Random programs: wherelint and the framework answer the same question alike. ``python -m differential`` asks more."""

from __future__ import annotations

import ast
import random
from dataclasses import replace

import numpy as np
import pytest
from differential import fixes
from differential.compare import POINTS, Tally, ask
from differential.programs import Program, Step, generate, write
from differential.truth import Framework
from real_gradients import require

from wherelint.ops import OPERATIONS
from wherelint.ops.entries import slopes

_PROGRAMS = {"jax": 60, "torch": 500}


@pytest.mark.rotated(3)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.tensor:UserWarning")
@pytest.mark.parametrize("framework", _PROGRAMS)
def test_nothing_unexplained(framework: str) -> None:
    require(framework)
    tally = Tally()
    for seed in range(_PROGRAMS[framework]):
        ask(seed, framework, tally)
    assert not tally.disagreements, "\n\n".join(map(str, tally.disagreements[:5]))
    # It is not for want of bugs, of findings or of answers.
    assert tally.counts["poisoned"] > _PROGRAMS[framework] / 8
    assert tally.counts["findings"] > _PROGRAMS[framework] / 8
    excused = tally.counts["points"] / 50
    assert sum(n for what, n in tally.counts.items() if what not in _COUNTED) < excused


_COUNTED = {"programs", "points", "poisoned", "findings", "asked lazily"}


_WILD = {"jax": 50, "torch": 150, "tensorflow": 40}


@pytest.mark.rotated(3)
@pytest.mark.slow
@pytest.mark.parametrize("framework", _WILD)
def test_a_safe_fix_changes_nothing(framework: str) -> None:
    require(framework)
    tally = Tally()
    for seed in range(_WILD[framework]):
        fixes.ask(seed, framework, tally)
    assert not tally.disagreements, "\n\n".join(map(str, tally.disagreements[:5]))
    assert tally.counts["fixed"] > _WILD[framework] / 8  # it is not for want of fixes
    assert tally.counts["witnesses"]


@pytest.mark.parametrize("framework", ["jax", "torch", "tensorflow"])
def test_programs_are_written_in_several_ways(framework: str) -> None:
    texts = set()
    for seed in range(40):
        program = generate(random.Random(seed), framework, wild=bool(seed % 2))
        assert program.steps[-1].reads
        texts |= {write(program, random.Random(i)) for i in range(5)}
    assert len({ast.dump(ast.parse(text)) for text in texts}) > 100
    assert sum("def part(" in text for text in texts) > 20
    assert any("elsewhere." in text for text in texts)
    assert any("rand" in text or "bernoulli" in text for text in texts)


def test_steps_that_nothing_reads_are_left_out() -> None:
    for seed in range(100):
        program = generate(random.Random(seed), "torch")
        read = {v for step in program.steps for v in step.reads}
        assert set(range(2, 1 + len(program.steps))) <= read


_PROTECTED = Program("torch", (Step("compare", ">", (0, 0.0)), Step("apply", "torch.sqrt", (0,)),
                               Step("where", "where", (2, 3, 0.0))))  # fmt: skip
_ZERO = (np.zeros(4, np.float32), np.ones(4, np.float32))


def test_a_selection_that_computes_one_arm_only_has_the_gradient_of_symbolic_zeros() -> None:
    require("torch")
    real = Framework(_PROTECTED, write(_PROTECTED, None))
    assert not real.at(_ZERO).regular
    assert real.lazily(_ZERO).gradients[0].tolist() == [0.0] * 4
    assert real.lazily(POINTS[0]).gradients[0].tolist() == real.at(POINTS[0]).gradients[0].tolist()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.tensor:UserWarning")
def test_a_wrong_derivative_does_not_go_unnoticed(monkeypatch: pytest.MonkeyPatch) -> None:
    require("torch")
    right = OPERATIONS["sqrt"]
    wrong = replace(right, vjp=slopes(lambda y, x: 0.5 / (y + 1e-3)), variants={})
    monkeypatch.setitem(OPERATIONS, "sqrt", wrong)  # type: ignore[arg-type]
    tally = Tally()
    for seed in range(400):
        if not tally.disagreements:
            ask(seed, "torch", tally)
    assert tally.disagreements


_WRONG = {
    "a value that depends on a default": ("value", "torch.where(x > 0, x, v0)", "torch.where(x > 0, x, 1.0)"),
    "a draw too many": ("value", "torch.where(torch.bernoulli(torch.full_like(x, 0.6)) > 0.0, y, 0.0)",
                        "torch.where(torch.bernoulli(torch.full_like(x, 0.6)) > 0.0 * torch.rand_like(x), "
                        "torch.where(torch.bernoulli(torch.full_like(x, 0.6)) > 0.0, y, 1.0), 0.0)"),
    "an unknown call too many": ("value", "elsewhere.tick(x)", "elsewhere.tick(elsewhere.tick(x) * 0.0 + x)"),
    "an unknown constant": ("value", "torch.where(x > elsewhere.BOUND, x, y)", "torch.where(x > 0.5, x, y)"),
    "nan": ("swallows nan", "torch.where(x <= 0, 1.0, x)", "torch.where(x > 0, x, 1.0)"),
    "an infinity": ("infinite value", "x * 1.0", "torch.where(x < 1e30, x, 1.0 * x.nan_to_num())"),
    "a gradient": ("loses a gradient", "x * 1.0", "torch.where(x != 1, x, torch.where(x != 1, x, 2.0).sqrt())"),
    "another gradient": ("gradient", "x * 1.0", "torch.where(x == 1, x.detach(), x)"),
    "a shape": ("shape or type", "x * 1.0", "torch.where(torch.arange(4) >= 0, x, 1.0)"),
    "shapes": ("raises", "x * 1.0", "torch.where(torch.arange(4) >= 0, x, 1.0)"),
    "a type": ("shape or type", "x * 1.0", "torch.where(x != 0, x, torch.zeros((), dtype=torch.float32)).float()"),
    "a name": ("raises", "x * 1.0", "x * unknown"),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "before", "after"), _WRONG.values(), ids=_WRONG)
def test_a_wrong_fix_does_not_go_unnoticed(kind: str, before: str, after: str) -> None:
    require("torch")
    program, tally = Program("torch", (Step("parameter", "1.0", ()),)), Tally()
    one, other = (f"import torch\nimport elsewhere\ndef f(x, y, v0=1.0):\n return {text}\n" for text in (before, after))
    fixes.hold(program, one, one, [], tally, "fix")
    assert not tally.disagreements
    fixes.hold(program, one, other, [], tally, "fix")
    assert f"fix: {kind}" in {each.kind for each in tally.disagreements}, tally


@pytest.mark.parametrize("framework", ["jax", "tensorflow"])
def test_random_numbers_are_the_same_each_time(framework: str) -> None:
    require(framework)
    text = {
        "jax": "import jax\ndef f(x, y, key):\n return jax.random.uniform(key, x.shape) * x\n",
        "tensorflow": "import tensorflow as tf\ndef f(x, y):\n return tf.random.uniform(tf.shape(x)) * x\n",
    }[framework]
    runner, situation = fixes.Runner(framework, text), fixes.Situation(fixes.MANY)
    one, other = runner.attempt(situation), runner.attempt(situation)
    assert not isinstance(one, str), one
    assert not list(fixes.differences(one, other))
    assert fixes.regular(one)


def test_a_product_that_xla_makes_a_select_is_no_nan() -> None:
    """``0 * inf`` is nan in eager JAX; a nan that stays one when compiled is one."""
    require("jax")
    given = "import jax.numpy as jnp\n\n\ndef f(x, y):\n    return "
    runner = fixes.Runner("jax", f"{given}(y <= 0.0).astype(jnp.float32) * jnp.exp(x)\n")
    fixed = fixes.Runner("jax", f"{given}(y <= 0.0).astype(jnp.float32) * jnp.exp(jnp.where(y <= 0.0, x, 0.0))\n")
    at = fixes.Situation((np.full(4, 100, np.float32), np.ones(4, np.float32)))
    old, new = runner.attempt(at), fixed.attempt(at)
    assert isinstance(old, fixes.Ran)
    assert isinstance(new, fixes.Ran)
    assert [kind for kind, _, _ in fixes.differences(old, new)][:1] == ["swallows nan"]
    assert runner.drops(at, old, new)
    assert not runner.drops(at, old, new._replace(value=new.value + 1))


def test_a_gradient_that_is_all_rounding_is_no_difference() -> None:
    """Of ``y / y`` it is 0 in theory; that other elements are nan says nothing of it."""
    require("jax")
    given = "import jax.numpy as jnp\n\n\ndef f(x, y):\n    off = jnp.eye(4) != 0\n    return jnp.where(off, 0.0, y / "
    runners = [fixes.Runner("jax", f"{given}{divisor})\n") for divisor in ("y", "jnp.where(off, 1.0, y)", "2.0")]
    at = fixes.Situation(fixes.MANY)
    old, fixed, other = (runner.attempt(at) for runner in runners)
    assert isinstance(old, fixes.Ran)
    assert isinstance(fixed, fixes.Ran)
    assert isinstance(other, fixes.Ran)
    assert [kind for kind, _, _ in fixes.differences(old, fixed)] == ["gradient"]
    assert runners[0].wavers(at, old, fixed)
    assert not runners[0].wavers(at, old, other)
