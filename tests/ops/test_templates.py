"""The templates of the harness compute what the catalogue says, and fail where it says: nan for nan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conformance import BOOLEAN, Case, compare, inputs
from excepted import NOT_COMPILED, UNSUPPORTED
from runners import FRAMEWORK, require
from spelling import kind
from test_catalogue import arity

from wherelint.confirm import child
from wherelint.confirm.routine import Step
from wherelint.confirm.spelling import templates
from wherelint.ops import OPERATIONS, SIGNATURES, Signature

MODES = ("jax", "torch", "tensorflow", "xla")
EVERY = [(mode, op) for mode in MODES for op in templates(FRAMEWORK[mode]) if op in OPERATIONS]  # type: ignore[arg-type]
_TIED = "along an axis one of several extrema is picked"
_NAN = "what the kernel makes of nan depends on where in the array it stands, or on which of two orders it tests"
#: (mode, op): the operands that are not compared, and why. ``at`` has a number or a row for each operand.
EXCEPTED: dict[tuple[str, str], tuple[Callable[[Any], bool], str]] = {
    ("torch", "max"): (lambda at: _ties(at[0]), _TIED), ("torch", "min"): (lambda at: _ties(at[0]), _TIED),
    ("torch", "median_lower"): (lambda at: _ties(at[0]), _TIED),
    ("jax", "norminf"): (lambda at: _ties(at[0]), "the maximum of absolute values shares a tie in another way"),
    ("torch", "hard_silu"): (lambda at: _any(np.isnan, at), _NAN),
    ("tensorflow", "hardshrink"): (lambda at: _any(np.isnan, at), _NAN),
    ("tensorflow", "softshrink"): (lambda at: _any(np.isnan, at), _NAN),
    ("tensorflow", "norminf"): (lambda at: _any(np.isnan, at), _NAN),
    ("tensorflow", "allclose"): (lambda at: _any(np.isinf, at), "keras.ops.isclose goes its own way at inf"),
    ("xla", "hardshrink"): (lambda at: _any(np.isnan, at), _NAN),
    ("xla", "softshrink"): (lambda at: _any(np.isnan, at), _NAN),
    ("xla", "norminf"): (lambda at: _any(np.isnan, at), _NAN),
    ("xla", "allclose"): (lambda at: _any(np.isinf, at), "keras.ops.isclose goes its own way at inf"),
    ("xla", "cholesky"): (lambda at: at[0] == 0, "its factor of 0 is 0"),
}  # fmt: skip
#: Not compared, and why.
LEFT_OUT = {
    ("torch", "prelu"): "its weight is one number, or one a channel",
    **{(mode, SIGNATURES[name].op): why for (mode, name), why in UNSUPPORTED.items() if why == NOT_COMPILED},
}

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def _ties(row: list[float]) -> bool:
    return len(set(np.abs(row))) < len(row)


def _any(test: Callable[[Any], Any], at: Any) -> bool:
    return any(bool(np.any(test(each))) for each in at)


def _called(mode: str, op: str, static: dict[int, float], count: int) -> tuple[str, Callable[..., Any]]:
    """The program of a template with the operands that are not static for parameters, and its function."""
    integers = op == "integer_power"
    steps = [
        Step("const", kind="int" if integers else "float", data=int(static[i]) if integers else float(static[i]))
        if i in static
        else Step("leaf", kind="bool" if op in BOOLEAN or (op == "where" and i == 0) else "float", data=True)
        for i in range(count)
    ]
    steps.append(Step(op, tuple(range(count))))
    return child.text(FRAMEWORK[mode], steps), child.build(FRAMEWORK[mode], steps)  # type: ignore[arg-type]


@pytest.mark.parametrize(("mode", "op"), EVERY, ids=lambda each: each)
def test_template(mode: str, op: str) -> None:
    require(FRAMEWORK[mode])
    if (mode, op) in LEFT_OUT:
        pytest.xfail(LEFT_OUT[mode, op])
    operation = OPERATIONS[op]
    count = arity(operation)
    case = Case(op, Signature(op, tuple((letter,) for letter in "abcdef"[:count])))
    arrays, numbers = inputs(mode, case, np.float32)
    if op in ("power_static", "integer_power"):
        numbers = {1: (-2.0, -1.0, 0.0, 1.0, 2.0, 3.0) if op == "integer_power" else (-1.5, 0.5, 1.5)}
        arrays = arrays[:1]
    static = {i: values[0] for i, values in numbers.items()}
    shape = kind(op, case.signature)
    shape = "point" if shape in ("matrix", "single") else shape
    found = []
    for number in numbers.get(1, (0.0,)) if op in ("power_static", "integer_power") else (0.0,):
        static = {1: number} if op in ("power_static", "integer_power") else static
        text, call = _called(mode, op, static, count)
        found += compare(mode, operation, text, call, shape, arrays, static, ["1", "0"])
    if (mode, op) in EXCEPTED:
        outside, why = EXCEPTED[mode, op]
        assert any(outside(each.operands) for each in found), f"agrees now, though: {why}"
        found = [each for each in found if not outside(each.operands)]
    assert not found, "\n".join(map(str, found[:4]))
