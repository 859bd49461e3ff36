"""Rules of the equations that hold other programs: calls, loops, branches, and custom reverse rules."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import numpy as jnp
from jax.custom_derivatives import SymbolicZero

from wherelint.jax import _compat
from wherelint.jax._compat import ClosedJaxpr, substituted
from wherelint.jax._primitives import refusal
from wherelint.jax._transpose import Known, Operand, Pair, Step, Transposer, instantiated, joined, rule, zero_where


@rule("jit", "pjit", "closed_call", "core_call", "call", "program_order")
def _call(transposer: Transposer, step: Step) -> list[Pair | None]:
    (body,) = _compat.programs(step.eqn)
    return transposer.run(body, step.operands, step.cts, step.inside)


@rule("remat2", "checkpoint", "remat")
def _checkpoint(transposer: Transposer, step: Step) -> list[Pair | None]:
    """What is computed again must not be merged with the first time, or nothing is saved."""
    (program,) = _compat.programs(step.eqn)
    again, body, of_body = _compat.split(program, step.linear)
    known = [each for each in step.operands if each is not None]
    values, cts = [each.value for each in known], list(step.cts)
    if step.eqn.params.get("prevent_cse") and values:
        barrier: Any = jax.lax.optimization_barrier
        values, cts = barrier((values, cts))
    start = len(of_body) - sum(of_body)
    residuals = _compat.evaluate(again, values)[start:]
    active = _compat.active_outputs(again, [each.active for each in known])[start:]
    operands: list[Operand] = [*map(Known, residuals, active), *[None] * sum(step.linear)]
    arrived = [pair for pair, is_linear in zip(cts, of_body, strict=True) if is_linear]
    found = iter(transposer.run(body, operands, arrived, step.inside)[len(residuals) :])
    return [next(found) if is_linear else None for is_linear in step.linear]


@rule("cond")
def _cond(transposer: Transposer, step: Step) -> list[Pair | None]:
    which, *operands = step.operands
    assert which is not None
    linear = [i for i, each in enumerate(operands) if each is None]

    def arm(body: ClosedJaxpr) -> Any:
        def run(values: Sequence[Any], cts: list[Pair]) -> list[Pair]:
            pairs = zip(operands, values, strict=True)
            inputs = [each and each._replace(value=value) for each, value in pairs]
            found = transposer.run(body, inputs, cts, step.inside)
            dead = transposer.drops(step)  # what the arm does not read
            return [full(found[i], body.in_avals[i], dead=dead) for i in linear]

        return run

    cts = [full(pair, v.aval) for pair, v in zip(step.cts, step.eqn.outvars, strict=True)]
    arms, inputs = [arm(body) for body in step.eqn.params["branches"]], [each and each.value for each in operands]
    if isinstance(which.value, jax.core.Tracer):
        found = transposer.switch(which.value, arms, inputs, cts)
    else:
        found = arms[min(max(int(which.value), 0), len(arms) - 1)](inputs, cts)
    return [None, *substituted([None] * len(operands), linear, found)]


def full(pair: Pair | None, aval: Any, *, dead: bool = True) -> Pair:
    """A cotangent as arrays: where programs meet, their types have to be the same. An exact zero may be ``dead``."""
    if pair is None:
        return Pair(jnp.zeros(aval.shape, aval.dtype), jnp.full(aval.shape, dead))
    return pair if pair.dead is not None else Pair(pair.ct, jnp.zeros(aval.shape, bool))


@rule("scan")
def _scan(transposer: Transposer, step: Step) -> list[Pair | None]:
    """Another ``scan``, which runs backwards."""
    params = step.eqn.params
    program, (first, count) = params["jaxpr"], _compat.scan_counts(step.eqn)
    last = first + count
    if not all(jnp.issubdtype(aval.dtype, jnp.inexact) for aval in program.in_avals[first:last]):
        raise refusal("scan")
    operands = substituted(step.operands, range(first, last), [None] * count)  # zeros may become linear in the loop
    consts = [i for i in range(first) if operands[i] is None]
    slices = [i for i in range(last, len(operands)) if operands[i] is None]
    known = [i for i in range(last, len(operands)) if operands[i] is not None]

    def of_operand(i: int, pair: Pair | None) -> Pair:
        return full(pair, program.in_avals[i])

    def body(state: Any, xs: Any) -> Any:
        (carry, totals), (values, each) = state, xs
        residuals = [operands[i]._replace(value=value) for i, value in zip(known, values, strict=True)]
        found = transposer.run(program, substituted(operands, known, residuals), [*carry, *each], step.inside)
        totals = [joined(total, of_operand(i, found[i])) for total, i in zip(totals, consts, strict=True)]
        carry = [of_operand(i, found[i]) for i in range(first, last)]
        return (carry, totals), [of_operand(i, found[i]) for i in slices]

    final = [of_operand(i, pair) for i, pair in enumerate(step.cts[:count], first)]
    start = [of_operand(i, None) for i in consts]
    outs = step.eqn.outvars[count:]
    each = [full(pair, v.aval) for pair, v in zip(step.cts[count:], outs, strict=True)]
    (carry, totals), rows = transposer.scan(
        body, (final, start), ([operands[i].value for i in known], each), length=params["length"],
        reverse=not params["reverse"], unroll=params.get("unroll", 1),
    )  # fmt: skip
    found = dict(zip((*consts, *range(first, last), *slices), (*totals, *carry, *rows), strict=True))
    return [found[i] if is_linear else None for i, is_linear in enumerate(step.linear)]


@rule("custom_lin")
def _custom_reverse_rule(transposer: Transposer, step: Step) -> list[Pair | None]:
    """A ``custom_vjp`` rule is a linear program from cotangents to cotangents: transposed twice, it can be masked."""
    count = step.eqn.params["num_res"]
    avals = [v.aval for v in step.eqn.invars[count:]]
    zeros = step.eqn.params.get("in_zeros", [False] * len(avals))  # an older JAX makes arrays of them

    def pull(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        every = zip(_compat.pull_back(step.eqn, residuals, cts), zeros, strict=True)
        found = [ct for ct, is_zero in every if not is_zero]
        return [
            ct if hasattr(ct, "dtype") and not isinstance(ct, SymbolicZero) else jnp.zeros(aval.shape, aval.dtype)
            for ct, aval in zip(found, avals, strict=True)
        ]

    return _pull_back(transposer, step, count, pull)


@rule("custom_linear_solve")
def _linear_solve(transposer: Transposer, step: Step) -> list[Pair | None]:
    """The solution with the transposed matrix is a linear program, too."""
    lengths, program = step.eqn.params["const_lengths"], step.eqn.params["jaxprs"].transpose_solve
    count = sum(lengths)
    if program is None or not all(step.linear[count:]):
        raise refusal("custom_linear_solve")

    def pull(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        return _compat.evaluate(program, [*residuals[count - lengths.transpose_solve :], *cts])

    return _pull_back(transposer, step, count, pull)


def _pull_back(
    transposer: Transposer, step: Step, count: int, pull: Callable[[Sequence[Any], Sequence[Any]], list[Any]]
) -> list[Pair | None]:
    """What a linear function of ``count`` residuals and the cotangents makes of these and of their dead elements."""

    def transposed(residuals: Sequence[Any], tangents: list[Any]) -> Any:
        return jax.linear_transpose(lambda *cts: pull(residuals, cts), *cts)(tangents)

    residuals, cts = [jnp.asarray(value) for value in step.values[:count]], instantiated(step)
    new = pull(residuals, cts)
    if not transposer.masks:
        return [*[None] * count, *map(Pair, new)]
    try:
        program = jax.make_jaxpr(transposed)(residuals, new)
    except (AssertionError, NotImplementedError, TypeError, ValueError):  # the rule clips, say: it is not linear
        masks = [pair.dead for pair in step.cts if pair is not None]
        gone = functools.reduce(jnp.logical_and, [False if mask is None else jnp.all(mask) for mask in masks])
        return [*[None] * count, *(Pair(zero_where(gone, ct)) for ct in new)]
    known = [Known(value, active=True) for value in program.consts]
    operands = [*known, *step.operands[:count], *[None] * len(new)]
    found = transposer.run(_compat.open_constants(program), operands, step.cts, step.inside)
    return found[len(known) :]
