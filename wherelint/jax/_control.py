"""Rules of the equations that hold other programs: calls, loops, branches, and custom reverse rules."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import numpy as jnp
from jax.custom_derivatives import SymbolicZero

from wherelint.jax import _compat
from wherelint.jax._compat import ClosedJaxpr, Jaxpr, substituted
from wherelint.jax._primitives import active_outputs, needs_masks, refusal
from wherelint.jax._transpose import Known, Linear, Pair, Step, Transposer, instantiated, joined, rule, zero_where

_Operands = list[Known | Linear]


@rule("jit", "pjit", "closed_call", "core_call", "call", "program_order")
def _call(transposer: Transposer, step: Step) -> list[Pair | None]:
    (body,) = _compat.programs(step.eqn)
    return transposer.run(body, step.operands, step.cts, (*step.path, step.eqn))


@rule("remat2", "checkpoint", "remat")
def _checkpoint(transposer: Transposer, step: Step) -> list[Pair | None]:
    """What is computed again must not be merged with the first time, or nothing is saved."""
    (program,) = _compat.programs(step.eqn)
    again, body, of_body = _compat.split(program, step.linear)
    known = [each for each in step.operands if isinstance(each, Known)]
    values, cts = [each.value for each in known], list(step.cts)
    if step.eqn.params.get("prevent_cse") and values and _compat.barrier:
        values, cts = _compat.barrier((values, cts))
    start = len(of_body) - sum(of_body)
    residuals = _compat.evaluate(again, values)[start:]
    active = active_outputs(again.jaxpr, [each.active for each in known])[start:]
    linear = [each for each in step.operands if isinstance(each, Linear)]
    operands: _Operands = [*map(Known, residuals, active), *linear]
    arrived = [pair for pair, is_linear in zip(cts, of_body, strict=True) if is_linear]
    found = iter(transposer.run(body, operands, arrived, (*step.path, step.eqn))[len(residuals) :])
    return [next(found) if is_linear else None for is_linear in step.linear]


@rule("cond")
def _cond(transposer: Transposer, step: Step) -> list[Pair | None]:
    which, *operands = step.operands
    assert isinstance(which, Known)
    bodies = step.eqn.params["branches"]
    path = (*step.path, step.eqn)
    linear = [i for i, each in enumerate(operands) if isinstance(each, Linear)]

    def by_operand(body: ClosedJaxpr, found: list[Pair | None]) -> list[Pair]:
        """The cotangents of the linear operands; what the arm does not read receives a zero in earnest."""
        pairs = [(found[i], body.in_avals[i]) for i in linear]
        zeros = [None if transposer.drops(step) else Pair(jnp.zeros(aval.shape, aval.dtype)) for _, aval in pairs]
        return [full(transposer, pair or zero, aval) for (pair, aval), zero in zip(pairs, zeros, strict=True)]

    if not isinstance(which.value, jax.core.Tracer):
        taken = min(max(int(which.value), 0), len(bodies) - 1)
        found = by_operand(bodies[taken], transposer.run(bodies[taken], operands, step.cts, path))
        return [None, *substituted([None] * len(operands), linear, found)]
    cts = [full(transposer, pair, v.aval) for pair, v in zip(step.cts, step.eqn.outvars, strict=True)]

    def arm(body: ClosedJaxpr) -> Any:
        def run(values: Sequence[Any], cts: list[Pair]) -> list[Pair]:
            pairs = zip(operands, values, strict=True)
            given = [each._replace(value=value) if isinstance(each, Known) else each for each, value in pairs]
            return by_operand(body, transposer.run(body, given, cts, path))

        return run

    given = [each.value if isinstance(each, Known) else None for each in operands]
    found = transposer.switch(which.value, [arm(body) for body in bodies], given, cts)
    return [None, *substituted([None] * len(operands), linear, found)]


def full(transposer: Transposer, pair: Pair | None, aval: Any, masked: bool = True) -> Pair:
    """A cotangent as arrays: where programs meet, their types have to be the same."""
    masked = masked and transposer.mode == "dead"
    if pair is None:
        return Pair(jnp.zeros(aval.shape, aval.dtype), jnp.ones(aval.shape, bool) if masked else None)
    dead = pair.dead if pair.dead is not None else jnp.zeros(aval.shape, bool)
    return Pair(pair.ct, dead if masked else None)


@rule("scan")
def _scan(transposer: Transposer, step: Step) -> list[Pair | None]:
    params = step.eqn.params
    body, (first, count) = params["jaxpr"], _compat.scan_counts(step.eqn)
    last = first + count
    operands = list(step.operands)
    for i, aval in enumerate(body.in_avals[first:last], first):
        if isinstance(operands[i], Known):  # zeros that only become linear within the loop
            if not jnp.issubdtype(aval.dtype, jnp.inexact):
                raise refusal("scan")
            operands[i] = Linear(need=False)
    operands = _stable(body.jaxpr, operands, first, last)
    loop = _Loop(transposer, step, body, operands, first, last)
    return [pair if isinstance(each, Linear) else None for pair, each in zip(loop.run(), step.operands, strict=True)]


def _stable(body: Jaxpr, operands: _Operands, first: int, last: int) -> _Operands:
    """The operands of a loop's body, with what each round needs of the next."""
    while True:
        need = needs_masks(body, [isinstance(each, Linear) and each.need for each in operands])
        carried = [not isinstance(v, _compat.Literal) and need.get(v, False) for v in body.outvars[: last - first]]
        merged = [
            Linear(b or (isinstance(a, Linear) and a.need)) for a, b in zip(operands[first:last], carried, strict=True)
        ]
        if merged == operands[first:last]:
            return operands
        operands = [*operands[:first], *merged, *operands[last:]]


class _Loop:
    """One linear ``scan``, run backwards."""

    def __init__(
        self, transposer: Transposer, step: Step, body: ClosedJaxpr, operands: _Operands, first: int, last: int
    ) -> None:
        self.transposer, self.step, self.body, self.operands = transposer, step, body, operands
        linear = [i for i, each in enumerate(operands) if isinstance(each, Linear)]
        self.consts = [i for i in linear if i < first]
        self.carry = [i for i in linear if first <= i < last]
        self.slices = [i for i in linear if i >= last]
        self.known_slices = {i: each for i, each in enumerate(operands) if i >= last and isinstance(each, Known)}
        params = step.eqn.params
        self.length, self.reverse, self.unroll = params["length"], params["reverse"], params.get("unroll", 1)
        count = last - first
        outs = step.eqn.outvars
        self.final = [
            self._full(pair, v.aval, i) for pair, v, i in zip(step.cts[:count], outs[:count], self.carry, strict=True)
        ]
        self.each = [full(transposer, pair, v.aval) for pair, v in zip(step.cts[count:], outs[count:], strict=True)]

    def _full(self, pair: Pair | None, aval: Any, i: int) -> Pair:
        operand = self.operands[i]
        return full(self.transposer, pair, aval, isinstance(operand, Linear) and operand.need)

    def _round(self, known: Sequence[Any], carry: Sequence[Pair], each: Sequence[Pair]) -> list[Pair]:
        """The cotangents of the body's linear inputs, as arrays."""
        operands = list(self.operands)
        for i, value in zip(self.known_slices, known, strict=True):
            operands[i] = self.known_slices[i]._replace(value=value)
        found = self.transposer.run(self.body, operands, [*carry, *each], (*self.step.path, self.step.eqn))
        return [self._full(found[i], self.body.in_avals[i], i) for i in (*self.consts, *self.carry, *self.slices)]

    def run(self) -> list[Pair | None]:
        """As another ``scan``."""
        first, last = len(self.consts), len(self.consts) + len(self.carry)

        def body(state: Any, given: Any) -> Any:
            (carry, totals), (known, each) = state, given
            found = self._round(known, carry, each)
            totals = [joined(a, b) for a, b in zip(totals, found[:first], strict=True)]
            return (found[first:last], totals), found[last:]

        known = [operand.value for operand in self.known_slices.values()]
        start = [self._full(None, self.body.in_avals[i], i) for i in self.consts]
        (carry, totals), slices = self.transposer.scan(
            body, (self.final, start), (known, self.each), length=self.length, reverse=not self.reverse,
            unroll=self.unroll,
        )  # fmt: skip
        places = (*self.consts, *self.carry, *self.slices)
        return substituted([None] * len(self.operands), places, (*totals, *carry, *slices))


@rule("custom_lin")
def _custom_reverse_rule(transposer: Transposer, step: Step) -> list[Pair | None]:
    """A ``custom_vjp`` rule is a linear program from cotangents to cotangents: transposed twice, it can be masked."""
    count = step.eqn.params["num_res"]
    avals = [v.aval for v in step.eqn.invars[count:]]
    zeros = step.eqn.params.get("in_zeros", [False] * len(avals))  # jax before 0.4.36 makes arrays of them

    def pull(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        found = [
            ct for ct, is_zero in zip(_compat.pull_back(step.eqn, residuals, cts), zeros, strict=True) if not is_zero
        ]
        return [
            ct if hasattr(ct, "dtype") and not isinstance(ct, SymbolicZero) else jnp.zeros(aval.shape, aval.dtype)
            for ct, aval in zip(found, avals, strict=True)
        ]

    return [*[None] * count, *_pull_back(transposer, step, count, pull)]


@rule("custom_linear_solve")
def _linear_solve(transposer: Transposer, step: Step) -> list[Pair | None]:
    """The solution with the transposed matrix is a linear program, too."""
    lengths, programs = step.eqn.params["const_lengths"], step.eqn.params["jaxprs"]
    count = sum(lengths)
    if programs.transpose_solve is None or not all(step.linear[count:]):
        raise refusal("custom_linear_solve")
    first = count - lengths.transpose_solve

    def pull(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        program = programs.transpose_solve
        return _compat.evaluate(program, [*residuals[first:], *cts])

    return [*[None] * count, *_pull_back(transposer, step, count, pull)]


def _pull_back(
    transposer: Transposer, step: Step, count: int, pull: Callable[[Sequence[Any], Sequence[Any]], list[Any]]
) -> list[Pair | None]:
    """What a linear function of the cotangents makes of them and of their dead elements."""
    residuals, cts = [jnp.asarray(value) for value in step.values[:count]], instantiated(step)
    new = pull(residuals, cts)
    if transposer.mode == "ieee":
        return [Pair(ct) for ct in new]

    def transposed(residuals: Sequence[Any], tangents: list[Any]) -> Any:
        return jax.linear_transpose(lambda *cts: pull(residuals, cts), *cts)(tangents)

    try:
        program = jax.make_jaxpr(transposed)(residuals, new)
    except (AssertionError, NotImplementedError, TypeError, ValueError):  # the rule clips, say: it is not linear
        masks = [transposer.dead(pair) for pair in step.cts if pair is not None]
        gone = functools.reduce(jnp.logical_and, [False if mask is None else jnp.all(mask) for mask in masks])
        return [Pair(zero_where(gone, ct)) for ct in new]
    operands: _Operands = [each for each in step.operands[:count] if isinstance(each, Known)]
    operands += [Linear(step.needs(count + i)) for i in range(len(new))]
    consts = [Known(value, active=True) for value in program.consts]
    program, path = _compat.open_constants(program), (*step.path, step.eqn)
    return transposer.run(program, [*consts, *operands], step.cts, path)[len(consts) + count :]
