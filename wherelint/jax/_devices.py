"""A program for several devices, as a batch on one: what ``shard_map`` maps becomes ``vmap`` along its axes."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import numpy as jnp

from wherelint.jax import _compat
from wherelint.jax._compat import ClosedJaxpr, JaxprEqn
from wherelint.jax._primitives import CALLS

_MAPPED = "shard_map"
#: What says only on which devices a number differs.
_MARKS = frozenset({"pvary", "pbroadcast"})
_SUMS = frozenset({"psum_invariant", "psum2"})


def has_devices(program: ClosedJaxpr) -> bool:
    """Whether something in it runs on several devices."""
    return any(
        eqn.primitive.name in {_MAPPED, *_SUMS} or any(map(has_devices, _compat.programs(eqn)))
        for eqn in program.jaxpr.eqns
    )


def evaluate(program: ClosedJaxpr, inputs: Sequence[Any]) -> list[Any]:
    """What a program computes; every equation keeps the place in the source that it came from."""
    jaxpr = program.jaxpr
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*program.consts, *inputs), strict=True))

    def read(v: Any) -> Any:
        return v.val if isinstance(v, _compat.Literal) else values[v]

    for eqn in jaxpr.eqns:
        with _compat.placed(eqn):
            values.update(zip(eqn.outvars, _equation(eqn, [read(v) for v in eqn.invars]), strict=True))
    return [read(v) for v in jaxpr.outvars]


def _equation(eqn: JaxprEqn, given: list[Any]) -> list[Any]:
    name, inner = eqn.primitive.name, _compat.programs(eqn)
    if name == _MAPPED:
        return _mapped(eqn, inner[0], given)
    if name in CALLS and len(inner) == 1 and has_devices(inner[0]):
        return evaluate(inner[0], given)
    if name in _SUMS:
        return list(jax.lax.psum(given, eqn.params["axes"]))  # type: ignore[no-untyped-call]
    return _compat.bind(eqn, given)


def _mapped(eqn: JaxprEqn, body: ClosedJaxpr, given: list[Any]) -> list[Any]:
    unmarked, _ = _compat.without(body, lambda eqn: eqn.primitive.name in _MARKS)
    run: Callable[..., list[Any]] = lambda *blocks: evaluate(unmarked, blocks)  # noqa: E731
    for axis, size in reversed(eqn.params["mesh"].shape.items()):
        run = _along(axis, size, run, eqn.params["in_specs"], eqn.params["out_specs"])
    return run(*given)


def _along(axis: str, size: int, run: Callable[..., list[Any]], ins: Sequence[Any], outs: Sequence[Any]) -> Any:
    """A function of whole arrays that runs one of blocks along an axis of the devices."""

    def whole(*given: Any) -> list[Any]:
        at = [_dimension(spec, axis) for spec in ins]
        blocks = [x if d is None else _split(x, d, size) for x, d in zip(given, at, strict=True)]
        axes = tuple(None if d is None else 0 for d in at)
        made = jax.vmap(run, axes, axis_name=axis, axis_size=size)(*blocks)
        return [
            x[0] if (d := _dimension(spec, axis)) is None else _joined(x, d) for x, spec in zip(made, outs, strict=True)
        ]

    return whole


def _dimension(spec: Any, axis: str) -> int | None:
    """The dimension of an array that is spread along an axis. NotImplementedError where it is spread along several."""
    for d, names in enumerate(spec):
        if axis in (names if isinstance(names, tuple) else (names,)):
            if isinstance(names, tuple) and len(names) > 1:
                raise NotImplementedError("a dimension that is spread along two axes of devices is not followed")
            return d
    return None


def _split(x: Any, d: int, size: int) -> Any:
    shape = jnp.shape(x)
    return jnp.moveaxis(jnp.reshape(x, (*shape[:d], size, shape[d] // size, *shape[d + 1 :])), d, 0)


def _joined(x: Any, d: int) -> Any:
    moved = jnp.moveaxis(x, 0, d)
    return jnp.reshape(moved, (*moved.shape[:d], -1, *moved.shape[d + 2 :]))
