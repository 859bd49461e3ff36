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
            inputs = [each._replace(value=value) if isinstance(each, Known) else each for each, value in pairs]
            return by_operand(body, transposer.run(body, inputs, cts, path))

        return run

    inputs = [each.value if isinstance(each, Known) else None for each in operands]
    found = transposer.switch(which.value, [arm(body) for body in bodies], inputs, cts)
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
    """Another ``scan``, which runs backwards."""
    params = step.eqn.params
    program, (first, count) = params["jaxpr"], _compat.scan_counts(step.eqn)
    last = first + count
    operands = list(step.operands)
    for i, aval in enumerate(program.in_avals[first:last], first):
        if isinstance(operands[i], Known):  # zeros that only become linear within the loop
            if not jnp.issubdtype(aval.dtype, jnp.inexact):
                raise refusal("scan")
            operands[i] = Linear(need=False)
    operands = _stable(program.jaxpr, operands, first, last)
    linear = {i: each for i, each in enumerate(operands) if isinstance(each, Linear)}
    consts, slices = [i for i in linear if i < first], [i for i in linear if i >= last]
    known = {i: each for i, each in enumerate(operands) if i >= last and isinstance(each, Known)}

    def of_operand(i: int, pair: Pair | None) -> Pair:
        return full(transposer, pair, program.in_avals[i], linear[i].need)

    def body(state: Any, xs: Any) -> Any:
        (carry, totals), (values, each) = state, xs
        residuals = [operand._replace(value=value) for operand, value in zip(known.values(), values, strict=True)]
        path = (*step.path, step.eqn)
        found = transposer.run(program, substituted(operands, [*known], residuals), [*carry, *each], path)
        totals = [joined(total, of_operand(i, found[i])) for total, i in zip(totals, consts, strict=True)]
        carry = [of_operand(i, found[i]) for i in range(first, last)]
        return (carry, totals), [of_operand(i, found[i]) for i in slices]

    outs = step.eqn.outvars
    final = [of_operand(i, pair) for i, pair in enumerate(step.cts[:count], first)]
    start = [of_operand(i, None) for i in consts]
    each = [full(transposer, pair, v.aval) for pair, v in zip(step.cts[count:], outs[count:], strict=True)]
    (carry, totals), rows = transposer.scan(
        body, (final, start), ([operand.value for operand in known.values()], each), length=params["length"],
        reverse=not params["reverse"], unroll=params.get("unroll", 1),
    )  # fmt: skip
    found = dict(zip((*consts, *range(first, last), *slices), (*totals, *carry, *rows), strict=True))
    return [found[i] if isinstance(each, Linear) else None for i, each in enumerate(step.operands)]


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
