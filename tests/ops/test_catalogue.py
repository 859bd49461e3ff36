"""What the catalogue must satisfy by itself: no framework is needed here."""

from __future__ import annotations

import inspect
import subprocess
import sys
from functools import cache
from typing import Any

import numpy as np
import pytest

from wherelint.frameworks import FRAMEWORKS
from wherelint.frameworks.base import names
from wherelint.ops import OPERATIONS, SIGNATURES, Operation, lookup
from wherelint.ops.entries import MODES, entry, no_vjp, table, unary
from wherelint.ops.numeric import shortest
from wherelint.rules import codes

EVERY = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=list(OPERATIONS))
#: One operand tuple (two lanes each) inside the domain, for the operations that neither 0.3 and 0.7 nor what is near
#: their safe values suits.
INSIDE: dict[str, tuple[Any, ...]] = {
    "integer_power": ([1.5, -2.5], [3.0, 3.0]), "polygamma": ([1.0, 1.0], [0.5, 2.5]),
    "round": ([0.2, 0.8],), "huber": ([0.3, 4.0], [0.5, 0.5], [1.0, 1.0]),
    "softplus_threshold": ([0.3, 0.7], [2.0, 2.0], [20.0, 20.0]), "threshold": ([0.3, 0.7], [0.5, 0.5], [0.2, 0.2]),
    "hardshrink": ([0.3, 0.7], [0.5, 0.5]), "softshrink": ([0.3, 0.7], [0.5, 0.5]),
    "clip": ([0.3, 0.7], [0.0, 0.0], [1.0, 1.0]), "clamp": ([0.3, 0.7], [0.0, 0.0], [1.0, 1.0]),
    "hard_tanh": ([0.3, 0.7], [-1.0, -1.0], [1.0, 1.0]), "where": ([1.0, 0.0], [0.3, 0.7], [0.4, 0.9]),
    "full_like": ([0.3, 0.7], [2.0, 2.0]), "pairwise_distance": ([0.3, 0.7], [0.5, 0.2], [1e-6]),
    "normalize": ([0.3, 0.7], [1e-12]), "l2_normalize": ([0.3, 0.7], [1e-12]),
    "cosine_similarity": ([0.3, 0.7], [0.5, 0.2], [1e-8]),
}  # fmt: skip
#: The VJP is deliberately not the derivative.
CUT = {"stop_gradient"}
STEP = 1e-6


def arity(operation: Operation) -> int:
    """How many operands an operation has: its forward says so, or else its signatures, or its singular points."""
    if operation.singular:
        return len(operation.singular[0])
    counts = {len([each for each in s.operands if each]) for s in SIGNATURES.values() if s.op == operation.name}
    if counts:
        assert len(counts) == 1, operation.name
        return counts.pop()
    return len(inspect.signature(operation.forward).parameters)


def inside(operation: Operation) -> list[np.ndarray]:
    usual = tuple([0.3 + 0.05 * k, 0.7 - 0.1 * k] for k in range(arity(operation)))
    chosen = [np.array([each]) for each in INSIDE.get(operation.name, usual)]
    with np.errstate(invalid="ignore"):
        regular = np.isfinite(operation.forward(*chosen)).all()
    if not regular:
        chosen = [np.array([[value - 0.2, value + 0.3]]) for value in operation.safe if value is not None]
    return chosen


@EVERY
def test_vjp_is_the_derivative(operation: Operation) -> None:
    """At an ordinary point every VJP, of every framework, agrees with central differences in float64."""
    operands = inside(operation)
    out = np.asarray(operation.forward(*operands))
    if out.dtype.kind != "f" or operation.name in CUT:
        return
    ct = np.array([[0.7, -1.3]])[:, : out.shape[-1]]
    for mode, vjp in {"": operation.vjp, **operation.variants}.items():
        for index, found in enumerate(vjp(ct, out, *operands)):
            if found is None:
                continue
            for lane in range(operands[index].shape[-1]):
                shifted = []
                for sign in (1, -1):
                    moved = [each.copy() for each in operands]
                    moved[index][0, lane] += sign * STEP
                    shifted.append(np.sum(ct * operation.forward(*moved)))
                expected = (shifted[0] - shifted[1]) / (2 * STEP)
                got = np.broadcast_to(found, np.broadcast_shapes(found.shape, operands[index].shape))[0, lane]
                assert got == pytest.approx(expected, rel=1e-4, abs=1e-6), (mode, index, lane)


@EVERY
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
def test_dtype_and_shape(operation: Operation, dtype: Any) -> None:
    """Nothing is computed in another precision than the operands', and a cotangent has the shape of its operand."""
    operands = [each.astype(dtype) for each in inside(operation)]
    out = np.asarray(operation.forward(*operands))
    assert out.shape in ((1, 2), (1, 1))
    if out.dtype.kind == "f":
        assert out.dtype == dtype
        for vjp in (operation.vjp, *operation.variants.values()):
            found = vjp(np.ones_like(out), out, *operands)
            assert len(found) == len(operands)
            for each, operand in zip(found, operands, strict=True):
                assert each is None or each.dtype == dtype
                assert each is None or np.broadcast_shapes(each.shape, operand.shape) == (1, 2)


def _at(operation: Operation, point: tuple[float, ...]) -> tuple[np.ndarray, list[np.ndarray]]:
    operands = [np.full((1, 2), value, np.float32) for value in point]
    with np.errstate(all="ignore"):
        out = np.asarray(operation.forward(*operands))
        found = [
            each
            for vjp in (operation.vjp, *operation.variants.values())
            for each in vjp(np.ones_like(out), out, *operands)
            if each is not None
        ]
    return out, found


SINGULAR = [each for each in OPERATIONS.values() if each.code]


@pytest.mark.parametrize("operation", SINGULAR, ids=lambda each: each.name)
def test_singular_points_are_singular(operation: Operation) -> None:
    """An operation with a code is singular or overflows somewhere, under at least one framework."""
    assert operation.singular
    assert any(not np.all(np.isfinite(each)) for point in operation.singular for each in _at(operation, point)[1])


@pytest.mark.parametrize("operation", SINGULAR, ids=lambda each: each.name)
def test_safe_values_are_safe(operation: Operation) -> None:
    """With the safe value in place of a singular operand, value and slope are finite for every framework."""
    if not operation.safe:
        assert operation.name in {"std", "std_unbiased"}, "only a reduction of differences has no safe constant"
        return
    assert len(operation.safe) == arity(operation)
    for point in operation.singular:
        safe = tuple(value if value is not None else old for value, old in zip(operation.safe, point, strict=True))
        out, found = _at(operation, safe)
        assert np.all(np.isfinite(out)), safe
        assert all(np.all(np.isfinite(each)) for each in found), safe


def test_codes() -> None:
    ours = {code for code in codes() if code.startswith("WL1")}
    assert {each.code for each in SINGULAR} == ours - {"WL111"}  # what the witness alone shows


def test_unselected_matches_the_selection() -> None:
    """An operand that is not selected does not change the value."""
    rng = np.random.default_rng(0)
    for operation in OPERATIONS.values():
        if operation.unselected is None or operation.name in ("power", "power_static", "integer_power"):
            continue
        operands = [rng.normal(size=(50, 2)) for _ in range(arity(operation))]
        if operation.name in ("clip", "clamp", "hard_tanh"):
            operands[1:] = [np.full((50, 2), -0.5), np.full((50, 2), 0.5)]
        if operation.name == "where":
            operands[0] = (operands[0] > 0).astype(float)
        out = operation.forward(*operands)
        for index, mask in enumerate(operation.unselected(*operands)):
            if mask is not None:
                moved = list(operands)
                moved[index] = moved[index] + np.where(mask, 1e-3 * np.sign(moved[index]), 0)
                assert np.array_equal(np.where(mask, operation.forward(*moved), out), out), operation.name


_arity = cache(lambda op: arity(OPERATIONS[op]))


@pytest.mark.parametrize("space", sorted({name.rpartition(".")[0] for name in SIGNATURES}))
def test_every_name_has_an_operation(space: str) -> None:
    for name in SIGNATURES:
        if name.rpartition(".")[0] != space:
            continue
        signature = lookup(name)
        assert signature is not None, name
        assert signature.op in OPERATIONS, name
        assert len([each for each in signature.operands if each]) == _arity(signature.op), name
        assert len(signature.defaults) <= len(signature.operands), name


def test_unknown_names() -> None:
    assert lookup("jax.numpy.no_such_function") is None


def test_host_numpy_reads_like_jax_numpy() -> None:
    assert lookup("numpy.sqrt") == lookup("jax.numpy.sqrt")


def test_table_text() -> None:
    found = names("[m]\nx|a y=2: f g=h\n- x: k\n")
    assert found["m.f"].operands == (("x", "a"), ("y",))
    assert found["m.f"].defaults == (2.0,)
    assert found["m.g"].op == "h"
    assert found["m.k"].operands == ((), ("x",))
    with pytest.raises(ValueError, match="listed twice"):
        names("[m]\nx: f f")


def test_two_entries_of_one_name() -> None:
    one = unary("f", np.abs, lambda y, x: x)
    with pytest.raises(ValueError, match="two entries"):
        table(one, one)


def test_import_is_cheap() -> None:
    """Neither a framework nor SciPy is imported with the catalogue; SciPy is when a special function is evaluated."""
    program = (
        "import sys, wherelint.ops as ops\n"
        "heavy = {'jax', 'torch', 'tensorflow', 'keras', 'scipy', 'libcst'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "ops.OPERATIONS['erf'].forward(0.5)\n"
        "assert 'scipy' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("name", ["nanmax", "nanmin", "nanmean", "nansum"])
def test_nothing_but_nan_is_no_reason_to_warn(name: str) -> None:
    # Warnings are errors here.
    assert OPERATIONS[name].forward(np.full((1, 4), np.nan, np.float32)).shape == (1, 1)


def test_what_float32_does_not_hold_is_no_reason_to_warn() -> None:
    assert shortest(np.full((1, 4), 1e300)) == np.inf


def test_every_framework_may_have_a_derivative_of_its_own() -> None:
    made = entry("half", lambda x: x / 2, no_vjp, **dict.fromkeys(MODES, no_vjp))
    assert made.variants.keys() == {*FRAMEWORKS, "xla"}
