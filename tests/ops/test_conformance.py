"""Every name of the tables does in the installed framework what the catalogue says, in reverse mode, nan for nan."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from conformance import PREFIXES, Case, cases, compare, inputs, mismatches, vjp_of
from excepted import DOMAIN, INFINITE, UNSUPPORTED, UNSUPPORTED_FLOAT64, concerns
from points import points, rows
from runners import FRAMEWORK, require, resolve, run
from spelling import OWN, POSITIONAL, build, kind

from wherelint.ops import OPERATIONS, SIGNATURES

MODES = ("jax", "torch", "tensorflow", "xla")
DTYPES = (np.float32, np.float64)
NAMESPACES = sorted({name.rpartition(".")[0] for name in SIGNATURES if not name.startswith("numpy.")})
#: A mode and some names of a namespace: all of torch at once would take minutes to ask.
HERE = {
    f"{mode}-{space}-{first}": (mode, names[first : first + 25])
    for mode in MODES
    for space in NAMESPACES
    if f"{space}.".startswith(PREFIXES[FRAMEWORK[mode]])
    for names in [[name for name in SIGNATURES if name.rpartition(".")[0] == space]]
    for first in range(0, len(names), 25)
}

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # the frameworks warn of the points that the test is about
]


@cache
def _cases(mode: str) -> tuple[Case, ...]:
    return tuple(cases(mode))


def _unsupported(mode: str, name: str, dtype: Any) -> str | None:
    return UNSUPPORTED.get((mode, name)) or (UNSUPPORTED_FLOAT64.get((mode, name)) if dtype is np.float64 else None)


@pytest.mark.parametrize("space", NAMESPACES)
def test_every_name_exists(space: str) -> None:
    """A name that the framework lacks, or a keyword that its function lacks, is an error of the table."""
    require("jax" if space.startswith("jax") else "torch" if space.startswith("torch") else "tensorflow")
    lacking = []
    for name, signature in SIGNATURES.items():
        if name.rpartition(".")[0] != space:
            continue
        receiver = _receiver(space)
        if receiver is not None:
            if not hasattr(receiver, name.rpartition(".")[2]):
                lacking.append(name)
            continue
        try:
            parameters = inspect.signature(resolve(name)).parameters
        except ValueError:  # a builtin of torch: its keywords are tested below
            continue
        except AttributeError:
            lacking.append(name)
            continue
        if isinstance(resolve(name), _ufunc_type(space)):
            continue  # takes its operands by position
        if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
            continue
        positional = [each.kind is each.POSITIONAL_ONLY for each in parameters.values()]
        for index, keywords in enumerate(signature.operands):
            if not keywords or keywords[0].startswith("_") or positional[index : index + 1] == [True]:
                continue
            if not set(keywords) & set(parameters):
                lacking.append(f"{name}({'|'.join(keywords)}=)")
    assert not lacking


def _ufunc_type(space: str) -> Any:
    return resolve("jax.numpy.ufunc") if space.startswith("jax") else ()


def _receiver(space: str) -> Any:
    if space == "jax.Array":
        return resolve("jax.numpy.zeros")((2, 2))
    return resolve("torch.Tensor") if space == "torch.Tensor" else None


def test_torch_takes_the_keywords() -> None:
    """The builtins of torch have no signature to read, so they are called by keyword."""
    require("torch")
    refused = []
    for case in _cases("torch"):
        if case.name in POSITIONAL or case.name in OWN or ".atleast_" in case.name:
            continue
        try:
            mismatches("torch", case, np.float32, by_keyword=True)
        except TypeError as error:
            refused.append(f"{case.name}: {error}")
        except Exception as error:
            if not _unsupported("torch", case.name, np.float32):
                refused.append(f"{case.name}: {error}")
    assert not refused, "\n".join(refused)


@pytest.mark.rotated(3)
@pytest.mark.slow
@pytest.mark.parametrize(("mode", "names"), HERE.values(), ids=HERE)
def test_conformance(mode: str, names: list[str]) -> None:
    """Value and gradient agree: where they are nan, where they are inf, and what they are otherwise."""
    require(FRAMEWORK[mode])
    problems = []
    for case in _cases(mode):
        if case.name not in names:
            continue
        print(case.name, flush=True)  # with -s: which of them a framework never answers
        for dtype in DTYPES:
            expected = _unsupported(mode, case.name, dtype)
            try:
                found = mismatches(mode, case, dtype)
            except Exception as error:
                if expected is None or expected not in str(error):
                    problems.append(
                        f"{case.name} {dtype.__name__} raised {type(error).__name__}: {error}"[:300]
                        + "\n  (what cannot be run, compiled or differentiated there stands in UNSUPPORTED)"
                    )
                continue
            if expected is not None:
                problems.append(f"{case.name} {dtype.__name__} does work in {mode}: drop it from UNSUPPORTED")
            if found:
                kinds = {each.sort: each for each in reversed(found)}
                some = "\n  ".join(map(str, [*kinds.values()][::-1][:8]))
                problems.append(f"{case.name} ({case.signature.op}, {dtype.__name__}): {len(found)}, such as\n  {some}")
    assert not problems, "\n".join(problems)


@pytest.mark.rotated(3)
@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_every_exception_is_needed(mode: str) -> None:
    """Outside the domain that is compared, catalogue and framework still disagree, or the framework still raises."""
    require(FRAMEWORK[mode])
    needless = []
    for key in dict.fromkeys([*DOMAIN, *INFINITE]):
        if not any(concerns(each, mode) for each in [*DOMAIN.get(key, ()), *INFINITE.get(key, ())]):
            continue
        matching = [case for case in _cases(mode) if key in (case.name, case.signature.op)]
        if not any(_differs(mode, case, key) for case in matching):
            needless.append(key)
    assert not needless


def _differs(mode: str, case: Case, without: str) -> bool:
    try:
        return any(mismatches(mode, case, dtype, without) for dtype in DTYPES)
    except Exception:
        return True


#: The zeros that these hand on are of a kind that torch knows to be zero, and does not multiply.
SYMBOLIC_ZEROS = {"torch.sgn", "torch.Tensor.sgn", "torch.Tensor.sgn_"}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["jax", "torch", "tensorflow"])
def test_nothing_is_handed_on(mode: str) -> None:
    """None in the catalogue is nothing in the framework; zeros would make nan of an infinite slope before them."""
    require(FRAMEWORK[mode])
    problems = []
    for case in _cases(mode):
        operation = case.operation
        arrays, static = inputs(mode, case, np.float32)
        if static or operation.mixes or operation.name == "where" or case.name in SYMBOLIC_ZEROS:
            continue
        operands = [each[:1] for each in arrays]
        out = np.asarray(operation.forward(*operands))
        if out.dtype.kind != "f":
            continue
        vjps = [operation.vjp, *operation.variants.values()]
        found = [[each is None for each in vjp(out, out, *operands)] for vjp in vjps]
        nothing = [each is None for each in vjp_of(operation, mode)(out, out, *operands)]
        for index in np.flatnonzero(np.any(found, axis=0)):
            reached = _is_reached(mode, case, operands, index)
            if reached is not None and reached == nothing[index]:
                problems.append(f"{case.name}: {'something' if reached else 'nothing'} comes to operand {index}")
    assert not problems, "\n".join(problems)


def _is_reached(mode: str, case: Case, operands: list[Any], index: int) -> bool | None:
    """Whether a root of 0 that is added to the operand gets a cotangent; None if the framework has no derivative."""
    plain = build(case.name, case.signature, {}, by_keyword=False)

    def call(t: Any, *operands: Any) -> Any:
        return plain(*(each + t**0.5 if i == index else each for i, each in enumerate(operands)))

    by_row = kind(case.name, case.signature) in ("row", "single")
    given = [each if by_row else each[:, 0] for each in (np.zeros_like(operands[0]), *operands)]
    try:
        requires_grad = [True] + [False] * len(operands)
        _, (grad,) = run(
            mode, f"{case} and a root of 0 at {index}", call, given, requires_grad, np.ones_like(given[0]), by_row
        )
    except RuntimeError as error:
        if "is not implemented" in str(error) or "not implemented: " in str(error):
            return None
        raise
    return not np.isfinite(grad).all()


#: Spellings that are no name of a table: operators, and functions that the lowering reads by hand.
BY_HAND: list[tuple[str, str, str, Callable[..., Any], tuple[float | None, ...]]] = [
    *(("jax torch tensorflow xla", f"x ** {n}", "integer_power", lambda x, n=n: x**n, (None, n))
      for n in (-2, -1, 0, 1, 2, 3)),
    *(("jax torch tensorflow xla", f"x ** {n}", "power_static", lambda x, n=n: x**n, (None, n))
      for n in (0.5, 1.5, -0.5, -1.0, 1.0, 2.0, 0.0, 3.0)),
    ("jax", "clamp(lo, x, hi)", "clamp", lambda x, lo, hi: resolve("jax.lax.clamp")(lo, x, hi), (None, None, None)),
    ("jax", "norm(x, 1)", "norm1", lambda x: resolve("jax.numpy.linalg.norm")(x, 1), (None,)),
    ("jax", "norm(x, inf)", "norminf", lambda x: resolve("jax.numpy.linalg.norm")(x, np.inf), (None,)),
    ("torch", "norm(x, 1)", "norm1", lambda x: resolve("torch.linalg.norm")(x, 1), (None,)),
    ("torch", "norm(x, inf)", "norminf", lambda x: resolve("torch.linalg.norm")(x, np.inf), (None,)),
    ("jax torch tensorflow xla", "a * b + c", "fma", lambda a, b, c: a * b + c, (None, None, None)),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_spelled_by_hand(mode: str) -> None:
    """Static exponents, jax.lax.clamp, the other norms."""
    require(FRAMEWORK[mode])
    problems = []
    for modes, spelling, op, call, static in BY_HAND:
        if mode in modes.split():
            for dtype in DTYPES:
                found = _by_hand(mode, op, spelling, call, static, dtype)
                if found:
                    problems.append(f"{spelling} ({op}, {dtype.__name__}): {len(found)}, first {found[:2]}")
    assert not problems, "\n".join(problems)


def _by_hand(
    mode: str, op: str, spelling: str, call: Callable[..., Any], static: tuple[float | None, ...], dtype: Any
) -> list[Any]:
    operation = OPERATIONS[op]
    free = static.count(None)
    arrays = rows(free) if operation.mixes else [each[:, None] for each in points(operation, free)]
    numbers = {index: number for index, number in enumerate(static) if number is not None}
    if mode == "jax" and op == "norminf":  # at 0 all lanes tie, and with the initial value of the reduction too
        arrays = [each[np.any(each != 0, axis=-1)] for each in arrays]
    shape = "row" if operation.mixes else "point"
    return compare(mode, operation, spelling, call, shape, [each.astype(dtype) for each in arrays], numbers)
