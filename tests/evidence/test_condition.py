"""How closely a condition speaks of the operand that is singular."""

from __future__ import annotations

from programs import hazards, op, positive, where

from wherelint.evidence.pieces import Evidence
from wherelint.graph.node import leaf

X = leaf("x")


def test_a_long_chain_is_no_recursion() -> None:
    value = X
    for _ in range(3000):
        value = op("add", value, 0.0)
    (hazard,) = hazards(where(positive(value), op("sqrt", value), 0.0))
    assert Evidence.DIRECT in hazard.evidence


def test_a_condition_too_far_from_the_operand_is_about_the_variable() -> None:
    value = X
    for _ in range(60):
        value = op("multiply", value, 1.0)
    (hazard,) = hazards(where(positive(X), op("sqrt", value), 0.0))
    assert Evidence.DIRECT not in hazard.evidence


def test_the_same_computation_written_twice_is_one() -> None:
    def squares() -> object:
        return op("sum", op("multiply", X, X))

    (hazard,) = hazards(where(positive(squares()), op("sqrt", squares()), 0.0))
    assert Evidence.DIRECT in hazard.evidence
