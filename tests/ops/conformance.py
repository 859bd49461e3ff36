"""Compare a name of the tables with the function it names: value, and gradient for several incoming cotangents."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from excepted import DOMAIN, FINITE_COTANGENTS, INFINITE, NOT_COMPARED, TOLERANCE, concerns
from points import points, rows
from runners import FRAMEWORK, Array, Call, resolve, run
from spelling import STATIC, build, kind

from wherelint.ops import OPERATIONS, SIGNATURES, Operation, Signature
from wherelint.ops.catalogue import Vjp

PREFIXES = {"jax": ("jax.",), "torch": ("torch.",), "tensorflow": ("tensorflow.", "keras.")}
BOOLEAN = {"logical_and", "logical_or", "logical_xor", "logical_not", "any", "all"}
#: The cotangents of one call, one row a lane; 1 is not constant along the lanes, because softmax has no slope then.
COTANGENTS = {"1": (1.0, 0.5, -2.0), "0": (0.0,) * 3, "inf": (np.inf,) * 3, "nan": (np.nan,) * 3}


@dataclass(frozen=True)
class Case:
    """A name and how it is called."""

    name: str
    signature: Signature

    @property
    def operation(self) -> Operation:
        return OPERATIONS[self.signature.op]


@dataclass(frozen=True)
class Mismatch:
    """One number on which catalogue and framework disagree."""

    what: str  # "value", or "d0" for the cotangent of the first operand
    cotangent: str
    operands: tuple[Any, ...]
    catalogue: list[float]
    framework: list[float]

    @property
    def sort(self) -> tuple[str, ...]:
        """What disagrees, and whether each number is nan, inf, -inf, 0 or another."""
        numbers = (*self.catalogue, *self.framework)
        return (self.what, *("number" if np.isfinite(each) and each else str(each + 0.0) for each in numbers))

    def __str__(self) -> str:
        return f"{self.what} ct={self.cotangent} at {self.operands}: {self.catalogue}, but really {self.framework}"


def cases(mode: str) -> Iterator[Case]:
    """Every name of the framework; of several names of one function, read in one way, the first."""
    seen: dict[Any, str] = {}
    for name, signature in SIGNATURES.items():
        if name.startswith(PREFIXES[FRAMEWORK[mode]]) and not concerns(NOT_COMPARED.get(name, ""), mode):
            key = (name if ".Array." in name or ".Tensor." in name else id(resolve(name)), signature)
            if seen.setdefault(key, name) == name:
                yield Case(name, signature)


def vjp_of(operation: Operation, mode: str) -> Vjp:
    """The VJP that the catalogue gives for a mode; XLA has TensorFlow's unless it has its own."""
    variants = operation.variants
    return variants.get(mode) or (variants.get("tensorflow") if mode == "xla" else None) or operation.vjp


def inputs(mode: str, case: Case, dtype: Any, without: str = "") -> tuple[list[Array], dict[int, tuple[float, ...]]]:
    """The operands as (points, lanes), and the values of the operands that are Python numbers."""
    signature, operation = case.signature, case.operation
    keywords = [each for each in signature.operands if each]
    static = {}
    for index, values in enumerate(STATIC.get(case.name) or STATIC.get(operation.name, ())):
        if values is not None and index < len(keywords):
            static[index] = values[:1] if keywords[index][0].startswith("_") else values
    free = len(keywords) - len(static)
    if kind(case.name, signature) == "row":
        arrays = rows(free)
        if operation.name == "linear":
            arrays[2] = arrays[2][:, :1]
    else:
        arrays = [each[:, None] for each in points(operation, free)]
    keep = np.ones(len(arrays[0]), dtype=bool)
    for key in {operation.name, case.name} - {without}:
        for modes, inside in DOMAIN.get(key, {}).items():
            if concerns(modes, mode):
                keep &= np.asarray(inside(*arrays)).all(axis=-1)
    return [each[keep].astype(dtype) for each in arrays], static


def mismatches(mode: str, case: Case, dtype: Any, without: str = "", *, by_keyword: bool = False) -> list[Mismatch]:
    """Where they differ; ``without`` names a restriction of the domain that is not applied."""
    arrays, numbers = inputs(mode, case, dtype, without)
    shape = kind(case.name, case.signature)
    inside = [
        test
        for key in {case.operation.name, case.name} - {without}
        for modes, test in INFINITE.get(key, {}).items()
        if concerns(modes, mode)
    ]
    tried = ["1", "0"] if concerns(FINITE_COTANGENTS.get(case.name, ""), mode) else list(COTANGENTS)
    found: list[Mismatch] = []
    for combination in itertools.product(*numbers.values()):
        static = dict(zip(numbers, combination, strict=True))
        call = build(case.name, case.signature, static, by_keyword=by_keyword)
        text = f"{case} {static} {by_keyword}"
        for each in compare(mode, case.operation, text, call, shape, arrays, static, tried):
            if each.cotangent != "inf" or all(test(*each.operands) for test in inside):
                found.append(each)
    return found


def compare(
    mode: str,
    operation: Operation,
    text: str,
    call: Call,
    shape: str,
    arrays: list[Array],
    static: dict[int, float],
    tried: Sequence[str] = tuple(COTANGENTS),
) -> list[Mismatch]:
    """Compare an operation with a call, which takes the operands that are not static, on (points, lanes) arrays.

    ``text`` says what the call is.
    """
    dtype = arrays[0].dtype
    operands = list(arrays)
    for index, number in sorted(static.items()):
        operands.insert(index, np.full((len(arrays[0]), 1), number, dtype))
    if operation.name in BOOLEAN:
        operands = [operand != 0 for operand in operands]
    if operation.name == "where":
        operands[0] = operands[0] != 0
    with np.errstate(all="ignore"):
        out = np.asarray(operation.computes(FRAMEWORK[mode])(*operands))
        ct = np.concatenate([np.broadcast_to(COTANGENTS[each][: out.shape[-1]], out.shape) for each in tried])
        ct = ct.astype(dtype)
        operands = [np.concatenate([operand] * len(tried)) for operand in operands]
        out = np.concatenate([out] * len(tried))
        mine = vjp_of(operation, mode)(ct, out, *operands) if out.dtype.kind == "f" else (None,) * len(operands)
    free = [index for index in range(len(operands)) if index not in static]
    requires_grad = [mine[index] is not None for index in free]
    by_row = shape in ("row", "single")
    given = [operands[index] if by_row else operands[index][:, 0] for index in free]
    value, grads = run(mode, text, call, given, requires_grad, ct if by_row else ct[:, 0], by_row)
    pairs = [("value", out, value)]
    chosen = [index for index, want in zip(free, requires_grad, strict=True) if want]
    pairs += [(f"d{index}", mine[index], grad) for index, grad in zip(chosen, grads, strict=True)]
    labels = np.repeat(tried, len(arrays[0]))
    found = []
    for what, expected, got in pairs:
        got = got.reshape(len(out), -1)
        expected = np.broadcast_to(expected, got.shape)
        agreed = agree(expected, got, dtype, TOLERANCE.get(operation.name, 1.0)).all(axis=-1)
        for row in np.flatnonzero(~agreed & ((labels == "1") | (what != "value"))):
            at = tuple(each[row].tolist() if each.shape[-1] > 1 else each[row, 0].item() for each in operands)
            found.append(Mismatch(what, str(labels[row]), at, expected[row].tolist(), got[row].tolist()))
    return found


def agree(expected: Array, got: Array, dtype: Any, slack: float) -> Array:
    """The same nan, the same inf, and finite numbers that are near."""
    rtol, atol = (2e-3, 1e-6) if dtype == np.float32 else (1e-6, 1e-9)
    expected, got = expected.astype(np.float64), got.astype(np.float64)
    with np.errstate(all="ignore"):
        near = np.abs(expected - got) <= slack * (atol + rtol * np.abs(expected))
    same = (expected == got) | (np.isnan(expected) & np.isnan(got))
    return np.where(np.isfinite(expected) & np.isfinite(got), near, same)
