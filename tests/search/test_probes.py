"""Which inputs are tried: benign bases, telling perturbations, the same ones in every run."""

from __future__ import annotations

import numpy as np
import pytest
from programs import op, positive, where

from wherelint.graph.node import LANES, Node, const, leaf, topological
from wherelint.search.probes import Inputs, Pool, bases, perturbations

X, Y = leaf("x"), leaf("y")
FLAG, N = leaf("flag", kind="bool"), leaf("n", kind="int")


def anything(inputs: Inputs) -> np.ndarray:
    return np.ones(len(next(iter(inputs.values()))))


def pool(*roots: Node) -> Pool:
    return Pool(topological(roots))


def start(*leaves: Node, path_conditions: tuple[Node, ...] = ()) -> Inputs:
    return bases(leaves, path_conditions, pool(*path_conditions), anything, 1)[0]


def test_the_simplest_values_come_first() -> None:
    values = pool().values(X)
    assert values[:2] == (0.0, 1.0)
    assert pool().values(FLAG) == (0.0, 1.0)
    assert all(v == int(v) for v in pool().values(N))


def test_constants_of_the_program_and_their_neighbours_are_tried() -> None:
    values = pool(op("less", X, 3.25)).values(X)
    near = np.float32(3.25)
    assert {3.25, -3.25, float(np.nextafter(near, np.float32(9))), float(np.nextafter(near, np.float32(0)))} <= {
        *values
    }


@pytest.mark.parametrize("test", ["isnan", "isfinite"])
def test_only_data_that_is_tested_for_it_is_missing(test: str) -> None:
    tested = pool(op(test, op("subtract", X, 1.0)))
    assert any(np.isnan(v) for v in tested.values(X))
    assert np.isfinite(tested.values(Y)).all()
    # What is tested here is the logarithm's result, not the data.
    assert np.isfinite(pool(op(test, op("log", X))).values(X)).all()


def test_a_base_is_positive_and_moderate_with_lanes_that_differ() -> None:
    base = start(X, Y)
    for column in base.values():
        assert column.shape == (1, LANES)
        assert ((column > 0) & (column < 4)).all()
        assert len(set(column[0].tolist())) == LANES


def test_a_base_satisfies_what_the_control_flow_says() -> None:
    not_flag, three = op("logical_not", FLAG), op("equal", N, 3)
    both = op("logical_and", not_flag, three)
    base = start(X, FLAG, N, path_conditions=(both,))
    assert not base[FLAG].any()
    assert (base[N] == 3).all()


def test_a_base_wanders_until_the_control_flow_is_satisfied() -> None:
    condition = op("less", X, -1.5)

    def satisfied(inputs: Inputs) -> np.ndarray:
        return (inputs[X] < -1.5).all(axis=1).astype(float)

    found = bases([X], [condition], pool(condition), satisfied, 1)
    assert found
    assert (found[0][X] < -1.5).all()


def test_there_is_no_base_where_the_control_flow_contradicts_itself() -> None:
    condition = op("less", X, X)
    assert bases([X], [condition], pool(condition), lambda inputs: np.zeros(len(inputs[X])), 3) == []


def test_a_departure_moves_only_what_may_move() -> None:
    base = start(X, Y)
    batch = perturbations(base, [X], pool(), thorough=True, joint=2)
    assert (batch[Y] == base[Y]).all()
    assert (batch[X][0] == base[X][0]).all()
    assert len(np.unique(batch[X], axis=0)) > 10


def test_a_departure_moves_a_whole_array_or_one_element() -> None:
    base = start(X)
    batch = perturbations(base, [X], pool(), thorough=False, joint=1)[X]
    zeros = (batch == 0).sum(axis=1)
    assert LANES in zeros
    assert 1 in zeros


def test_two_arrays_are_tried_equal() -> None:
    batch = perturbations(start(X, Y), [X, Y], pool(), thorough=True, joint=2)
    assert ((batch[X] == batch[Y]).all(axis=1) & (batch[X][:, 0] != batch[X][:, 1])).any()


def test_all_leaves_have_as_many_probes() -> None:
    batch = perturbations(start(X, Y, FLAG), [X, FLAG], pool(), thorough=True, joint=2)
    assert len({len(column) for column in batch.values()}) == 1


def test_the_same_questions_are_asked_in_every_run() -> None:
    root = where(positive(X), op("divide", Y, X), const([1.0, 2.0]))
    runs = []
    for _ in range(2):
        base = start(X, Y)
        runs.append(perturbations(base, [X, Y], pool(root), thorough=True, joint=99))
    for node in (X, Y):
        np.testing.assert_array_equal(runs[0][node], runs[1][node])
