"""``hunt``: inputs that poison a gradient, from inputs at which all is well."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

from wherelint.companion import Report
from wherelint.companion.hunt import Array, Bounds, Search
from wherelint.jax import _compat
from wherelint.jax._compat import ClosedJaxpr, substituted
from wherelint.jax._locate import Program, finite, refuse_gradient
from wherelint.jax._transpose import Transposer

#: How many inputs are tried at once, if they are not too large together.
_BATCH, _ELEMENTS = 64, 2_000_000


def hunt(
    f: Callable[..., Any],
    *args: Any,
    budget: int = 2048,
    seconds: float = 30.0,
    seed: int = 0,
    positive: Sequence[int | str] = (),
    bounds: Bounds | None = None,
) -> Report:
    """Look for inputs near ``args`` at which the value of ``f`` is finite and its gradient is lost to a selection.

    ``f`` takes and returns pytrees; what it returns is summed. Real arrays move and keep type and shape, all other
    arguments stay. At most ``budget`` inputs are tried, none after three quarters of the ``seconds``; the rest is for
    what they have in common (compiling is not interrupted). Without time, a finding names no selection. ``positive``
    names arguments that are above 0, by number or parameter, ``bounds`` the least and the greatest element of others:
    ``bounds={1: (0, None)}``.

    The report's findings are as those of ``locate``, each with the nearest ``witness``, a tuple of arguments; a finding
    is a warning if that moves an element by more than 1000. At every witness the value is finite, and the
    gradient is not, compiled or operation by operation; the masked gradient is. Where no selection drops what breaks,
    the nearest input is the witness of ``genuine`` findings, the last ones; ``ok`` is about ``args``. Raises what
    ``locate`` raises.
    """
    refuse_gradient(f)
    return _Search(f, args, time.monotonic(), budget, seconds, seed, positive, bounds).report()


class _Search(Search):
    def __init__(self, f: Callable[..., Any], args: tuple[Any, ...], began: float, *options: Any) -> None:
        self._program = Program(f, args, {})
        self._inputs = [jnp.asarray(value) for value in self._program.flat.inputs]
        self._moving = [i for i in self._program.perturbed if jnp.issubdtype(self._inputs[i].dtype, jnp.floating)]
        if not self._moving:
            raise TypeError("hunt needs an argument to change: pass a float such as 0.5, or an array of floats")
        start = [np.asarray(self._inputs[i]) for i in self._moving]
        owners = self._program.flat.owners
        super().__init__(f, len(args), start, [owners[i] for i in self._moving], began, *options)
        self.literals = list(_literals(self._program.closed))
        self._single, self._many = jax.jit(self._oracle), jax.jit(jax.vmap(self._oracle))
        self._single(start).block_until_ready()
        compiled = time.monotonic()
        self._single(start).block_until_ready()
        now = time.monotonic()
        batch = max(1, min(_BATCH, _ELEMENTS // max(sum(each.size for each in start), 1)))
        self.batch = 1 if (now - compiled) * batch > (self.deadline - now) / 4 else batch

    def _oracle(self, some: list[Any]) -> Any:
        values, residuals = self._program.plan.run_forward(substituted(self._inputs, self._moving, some))
        plain, masked = (self._program.plan.gradient(Transposer(masks=m), None, residuals) for m in (False, True))
        return jnp.where(finite(values) & ~finite(plain), jnp.where(finite(masked), 1, 2), 0)

    def judge(self, points: list[list[Array]]) -> Sequence[int]:
        if self.batch == 1 or points[0] is self.start:
            return [int(self._single(point)) for point in points]
        padded = [*points, *[points[-1]] * (self.batch - len(points))]
        hits = np.asarray(self._many([np.stack(column) for column in zip(*padded, strict=True)]))
        return [int(hit) for hit in hits[: len(points)]]

    def explain(self, point: list[Array]) -> tuple[tuple[Any, ...], Report]:
        filled = substituted(self._inputs, self._moving, point)
        return self._program.flat.arguments(filled)[0], self._program.explain(filled, self.end)

    def points(self) -> Iterator[list[Array]]:
        return map(_flushed, super().points())


def _flushed(point: list[Array]) -> list[Array]:
    """Without subnormal numbers, which XLA takes for 0."""
    finfo: Any = jnp.finfo
    return [np.where(np.abs(each) < finfo(each.dtype).tiny, 0, each).astype(each.dtype) for each in point]


def _literals(program: ClosedJaxpr) -> Iterator[float]:
    """The numbers in a program; nan where it asks for what is not finite."""
    for eqn in program.jaxpr.eqns:
        if eqn.primitive.name == "is_finite" or (eqn.primitive.name == "ne" and eqn.invars[0] is eqn.invars[1]):
            yield float("nan")
        for v in eqn.invars:
            if isinstance(v, _compat.Literal) and np.ndim(v.val) == 0 and np.asarray(v.val).dtype.kind == "f":
                yield float(v.val)
        for inner in _compat.programs(eqn):
            yield from _literals(inner)
    for value in program.consts:
        if np.ndim(value) == 0 and jnp.issubdtype(jnp.result_type(value), jnp.floating):
            yield float(value)
