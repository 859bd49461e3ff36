"""Random programs: wherelint and the framework answer the same question alike. ``python -m differential`` asks more."""

from __future__ import annotations

import ast
import random
from dataclasses import replace

import numpy as np
import pytest
from differential.compare import POINTS, Tally, ask
from differential.programs import Program, Step, generate, write
from differential.truth import Framework
from real_gradients import require

from wherelint.ops import OPERATIONS
from wherelint.ops.entries import slopes

_PROGRAMS = {"jax": 60, "torch": 500}


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


@pytest.mark.parametrize("framework", ["jax", "torch"])
def test_programs_are_written_in_several_ways(framework: str) -> None:
    texts = set()
    for seed in range(40):
        program = generate(random.Random(seed), framework)
        assert program.steps[-1].reads
        texts |= {write(program, random.Random(i)) for i in range(5)}
    assert len({ast.dump(ast.parse(text)) for text in texts}) > 100
    assert sum("def part(" in text for text in texts) > 20


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
    for seed in range(60):
        ask(seed, "torch", tally)
    assert tally.disagreements
