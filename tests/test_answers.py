"""Kept answers: what is asked again, what fails, and that a wrong derivative fails against a kept answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import answers
import numpy as np
import pytest
from answers import TURNS, Answer, Answers

from wherelint.ops import OPERATIONS
from wherelint.ops.entries import slopes


class Asked:
    """An answer, and how often it was asked for."""

    def __init__(self, number: float = 1.0, error: Exception | None = None) -> None:
        self.number, self.error, self.times = number, error, 0

    def __call__(self) -> Answer:
        self.times += 1
        if self.error is not None:
            raise self.error
        return {"value": np.full((2, 3), self.number), "0": np.array([np.nan, np.inf], np.float32)}


@pytest.fixture(autouse=True)
def _version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "version", lambda framework: "jax 1")


def kept(folder: Path, *questions: tuple[Any, ...], ask: Asked | None = None) -> None:
    first = Answers(folder, live=True)
    for question in questions:
        first.to("jax", question, ask or Asked())
    first.write(".main.part")
    first.collect(".part", whole=False)


def test_what_is_kept_is_not_asked_but_for_a_tenth(tmp_path: Path) -> None:
    questions = [("f", i, np.arange(3.0), [np.float32(i)]) for i in range(40)]
    kept(tmp_path, *questions)
    ask = Asked()
    for turn in range(TURNS):
        session = Answers(tmp_path, turn=turn)
        before = ask.times
        for question in questions:
            found = session.to("jax", question, ask)
            assert found["value"].tolist() == [[1.0] * 3] * 2
            np.testing.assert_array_equal(found["0"], np.array([np.nan, np.inf], np.float32))
        assert ask.times - before < len(questions) / 3
    assert ask.times == len(questions)


def test_it_is_told_how_many_are_new(tmp_path: Path) -> None:
    questions = [("f", i) for i in range(40)]
    kept(tmp_path, *questions)
    session = Answers(tmp_path)
    for question in [*questions, ("g",)]:
        session.to("jax", question, Asked())
    assert session.counts["new"] == 1
    assert session.counts["asked again"] + session.counts["kept"] == 40


def test_a_question_depends_on_what_runs_and_not_on_comments(tmp_path: Path) -> None:
    texts = [
        "def f(x):\n    return x\n",
        '"""A."""\n\ndef f(x):\n    """B."""\n    return x  # C\n',
        "def f(x):\n    return -x\n",
    ]
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.py").write_text(text)
    plain, told, other = (answers.how(tmp_path / f"{number}.py") for number in range(3))
    assert plain == told != other


@pytest.mark.parametrize("question", [("g",), ("f", 1), ("f", [1.0]), (["f"],), (np.zeros(2),), (np.zeros(2, "f4"),)])
def test_another_question_is_asked(tmp_path: Path, question: tuple[Any, ...]) -> None:
    kept(tmp_path, ("f",), (np.ones(2),))
    ask = Asked(2.0)
    assert Answers(tmp_path).to("jax", question, ask)["value"][0, 0] == 2.0
    assert ask.times == 1


def test_another_version_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(tmp_path, *((i,) for i in range(20)))
    monkeypatch.setattr(answers, "version", lambda framework: "jax 2")
    ask = Asked()
    session = Answers(tmp_path)
    for i in range(20):
        session.to("jax", (i,), ask)
    assert ask.times == 20


def test_all_are_asked_when_live_and_a_difference_fails(tmp_path: Path) -> None:
    kept(tmp_path, ("f",))
    same, other = Asked(1.0 + 1e-9), Asked(1.1)
    Answers(tmp_path, live=True).to("jax", ("f",), same)
    assert same.times == 1
    with pytest.raises(AssertionError, match="jax answers"):
        Answers(tmp_path, live=True).to("jax", ("f",), other)
    with pytest.raises(AssertionError, match="jax answers"):
        Answers(tmp_path, live=True).to("jax", ("f",), Asked(error=ValueError("no")))


def test_an_exception_is_an_answer(tmp_path: Path) -> None:
    class ShapeError(TypeError):
        pass

    questions = [(i,) for i in range(20)]
    kept_ = Answers(tmp_path, live=True)
    for question in questions:
        with pytest.raises(TypeError, match="shapes: 3 and 4"):
            kept_.to("jax", question, Asked(error=ShapeError("shapes: 3 and 4")))
    kept_.write(".main.part")
    kept_.collect(".part", whole=False)
    ask = Asked(error=ShapeError("shapes: 3 and 4"))
    for question in questions:
        with pytest.raises(TypeError, match="shapes: 3 and 4"):
            Answers(tmp_path).to("jax", question, ask)
    assert ask.times < 20


def test_a_whole_run_keeps_what_it_asked_and_a_part_drops_nothing(tmp_path: Path) -> None:
    kept(tmp_path, ("f",), ("g",))
    for whole, left in ((False, 2), (True, 1)):
        session = Answers(tmp_path, live=True)
        session.to("jax", ("f",), Asked())
        for worker in ("gw0", "gw1"):
            session.write(f".{worker}.part")
        session.collect(".part", whole=whole)
        assert len(answers.read(tmp_path / "jax.xz", "jax 1")) == left
        assert [path.name for path in tmp_path.iterdir()] == ["jax.xz"]


def test_a_wrong_derivative_differs_from_a_kept_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The framework is not there at all, and the conformance test fails."""
    monkeypatch.syspath_prepend(Path(__file__).parent / "ops")
    import conformance
    import runners

    session = Answers(tmp_path, live=True)
    monkeypatch.setattr(answers, "session", session)

    def true(call: Any, operands: list[np.ndarray], expected: Any, ct: np.ndarray, rows: bool) -> Any:
        with np.errstate(all="ignore"):
            return np.sin(operands[0]), [ct * np.cos(operands[0])]

    monkeypatch.setattr(runners, "_torch", true)
    x = np.array([[0.5], [2.0]], np.float32)
    question = (OPERATIONS["sin"], "sin", lambda x: x, "point", [x], {}, ["1"])
    assert conformance.compare("torch", *question) == []
    session.write(".main.part")
    session.collect(".part", whole=True)

    def absent(*_: Any) -> Any:
        raise AssertionError("asked")

    monkeypatch.setattr(runners, "_torch", absent)
    turn = next(t for t in range(TURNS) if int(next(iter(session.asked["torch"])), 16) % TURNS != t)
    monkeypatch.setattr(answers, "session", Answers(tmp_path, turn=turn))
    assert conformance.compare("torch", *question) == []
    wrong = replace(OPERATIONS["sin"], vjp=slopes(lambda y, x: np.sin(x)))
    assert conformance.compare("torch", wrong, *question[1:])
