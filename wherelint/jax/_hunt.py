"""``hunt``: inputs that poison a gradient, from inputs at which all is well."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, zip_longest
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

from wherelint.companion import Report
from wherelint.companion.points import TIME, Array, Bounds, Domain, Explained, Hits, combined_points, special_points
from wherelint.jax._aim import STEPS, approaches, literals
from wherelint.jax._locate import Program, finite, gradient, refuse_gradient
from wherelint.jax._plan import replaced
from wherelint.jax._transpose import Transposer

#: How many inputs are explained; how many are tried at once, if they are not too large together.
_EXPLAINED, _BATCH, _ELEMENTS = 12, 64, 2_000_000
#: How many of the last aimed points are combined with special values.
_AIMED = 64


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
    is of low confidence if that moves an element by more than 1000. At every witness the value is finite, and the
    gradient is not, compiled or operation by operation; the masked gradient is. Where no selection drops what breaks,
    the nearest input is the witness of ``genuine`` findings, the last ones; ``ok`` is about ``args``. Raises what
    ``locate`` raises.
    """
    refuse_gradient(f)
    began = time.monotonic()
    search = _Search(f, args, Domain.of(f, len(args), bounds, positive), budget, began + 0.75 * seconds)
    note = search.run(seed)
    report = search.hits.report(partial(search.explain, began + seconds), _EXPLAINED, began + seconds, note)
    return replace(report, tried=search.tried, seconds=time.monotonic() - began)


class _Search:
    """The inputs that were tried, and those that poison the gradient."""

    def __init__(
        self, f: Callable[..., Any], args: tuple[Any, ...], domain: Domain, budget: int, deadline: float
    ) -> None:
        self._program = Program(f, args, {})
        self._domain, self._budget, self._deadline = domain, budget, deadline
        self._inputs = [jnp.asarray(value) for value in self._program.flat.inputs]
        self._moving = [i for i in self._program.perturbed if jnp.issubdtype(self._inputs[i].dtype, jnp.floating)]
        if not self._moving:
            raise TypeError("hunt moves real arguments, and there are none: give floats, as 0.5, or arrays of floats")
        self._owners = [self._program.flat.owner(i) for i in self._moving]
        self._start = [np.asarray(self._inputs[i]) for i in self._moving]
        self.hits = Hits(self._start, self._owners)
        self.tried = 0

    def run(self, seed: int) -> str:
        """Try everything; a sentence about what was left out, if anything was."""
        oracle = jax.jit(self._oracle)
        self._try(oracle, [self._start])
        spent = time.monotonic()
        bool(oracle(self._start))
        one = time.monotonic() - spent
        points = self._allowed(self._points(one, seed))
        size = sum(each.size for each in self._start)
        batch = max(1, min(_BATCH, _ELEMENTS // max(size, 1)))
        if one * batch > (self._deadline - time.monotonic()) / 4:
            batch = 1
        many = jax.jit(jax.vmap(self._oracle)) if batch > 1 else oracle
        while some := list(islice(points, min(batch, self._budget - self.tried))):
            if time.monotonic() > self._deadline:
                return TIME
            self._try(many, some, pad=batch)
        return f"The budget of {self._budget} inputs was used up." if self.tried >= self._budget else ""

    def _points(self, one: float, seed: int) -> Iterator[list[Array]]:
        """Special and aimed points, and then their combinations."""
        numbers = list(literals(self._program.closed))
        aimed: list[list[Array]] = []
        for special, near in zip_longest(special_points(self._start, numbers, seed), self._approaches(one)):
            if special is not None:
                yield special
            if near is not None:
                aimed.append(near)
                yield near
        yield from combined_points(self._start, numbers, aimed[: -_AIMED - 1 : -1], seed)

    def _approaches(self, one: float) -> Iterator[list[Array]]:
        """Steps towards singular points, as many as a part of the time allows at so many seconds for one input."""
        most = int((self._deadline - time.monotonic()) / 4 / max(one * STEPS, 1e-6))
        try:
            yield from approaches(self._program.closed, self._inputs, self._moving, most)
        except (NotImplementedError, TypeError, ValueError):  # an operand lies behind what has no gradient
            return

    def _allowed(self, points: Iterator[list[Array]]) -> Iterator[list[Array]]:
        """What may occur, once."""
        seen = {b"".join(each.tobytes() for each in self._start)}
        for point in map(_flushed, points):
            key = b"".join(each.tobytes() for each in point)
            if key not in seen and all(map(self._domain.allows, self._owners, point)):
                seen.add(key)
                yield point

    def _oracle(self, some: list[Any]) -> Any:
        """Where the value is finite and the gradient is not: 1 if the masked one is, else 2."""
        values, residuals = self._program.plan.run_forward(replaced(self._inputs, self._moving, some))
        plain, masked = (gradient(self._program.plan, residuals, Transposer(mode)) for mode in ("ieee", "dead"))
        return jnp.where(finite(values) & ~finite(plain), jnp.where(finite(masked), 1, 2), 0)

    def _try(self, oracle: Callable[..., Any], points: list[list[Array]], pad: int = 0) -> None:
        if not points:
            return
        self.tried += len(points)
        if pad > 1:
            padded = [*points, *[points[-1]] * (pad - len(points))]
            hits = np.asarray(oracle([np.stack(column) for column in zip(*padded, strict=True)]))
        else:
            hits = np.asarray([oracle(point) for point in points])
        for point, hit in zip(points, hits, strict=False):
            if hit:
                self.hits.add(point, poisoned=hit == 1)

    def explain(self, deadline: float, point: list[Array]) -> Explained:
        """An input as arguments, and what `locate` says of it."""
        filled = replaced(self._inputs, self._moving, point)
        return self._program.flat.arguments(filled)[0], self._program.explain(filled, deadline)


def _flushed(point: list[Array]) -> list[Array]:
    """Without subnormal numbers, which XLA takes for 0."""
    finfo: Any = jnp.finfo
    return [np.where(np.abs(each) < finfo(each.dtype).tiny, 0, each).astype(each.dtype) for each in point]
