"""``hunt``: inputs that poison a gradient, from inputs at which all is well."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from wherelint.companion import Report
from wherelint.companion.hunt import Array, Bounds, Search
from wherelint.companion.nearness import aims
from wherelint.jax import _compat
from wherelint.jax._compat import ClosedJaxpr, JaxprEqn, Path, substituted
from wherelint.jax._evaluate import RULED_CALLS, Evaluation
from wherelint.jax._locate import Program, finite, gradient, refuse_gradient
from wherelint.jax._primitives import CATALOGUE
from wherelint.jax._transpose import Transposer
from wherelint.ops import OPERATIONS

#: How many inputs are tried at once, if they are not too large together.
_BATCH, _ELEMENTS = 64, 2_000_000
#: How many operands are aimed at, in how many steps, and which of these are tried.
_AIMS, _STEPS, _TRIED = 64, 20, (0, 1, 2, 4, 9, 19)
#: Nearer to 0 than that is 0: underflow is another matter.
_ZERO = 1e-12


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
    return _Search(f, args, time.monotonic(), budget, seconds, seed, positive, bounds).report()


class _Search(Search):
    def __init__(self, f: Callable[..., Any], args: tuple[Any, ...], began: float, *options: Any) -> None:
        self._program = Program(f, args, {})
        self._inputs = [jnp.asarray(value) for value in self._program.flat.inputs]
        self._moving = [i for i in self._program.perturbed if jnp.issubdtype(self._inputs[i].dtype, jnp.floating)]
        if not self._moving:
            raise TypeError("hunt moves real arguments, and there are none: give floats, as 0.5, or arrays of floats")
        start = [np.asarray(self._inputs[i]) for i in self._moving]
        owners = [self._program.flat.owner(i) for i in self._moving]
        super().__init__(f, len(args), start, owners, began, *options)
        self.literals = list(_literals(self._program.closed))
        self._single, self._many = jax.jit(self._oracle), jax.jit(jax.vmap(self._oracle))
        self._single(start).block_until_ready()
        compiled = time.monotonic()
        self._single(start).block_until_ready()
        now = time.monotonic()
        #: How many seconds one input takes.
        self._each = now - compiled
        batch = max(1, min(_BATCH, _ELEMENTS // max(sum(each.size for each in start), 1)))
        self.batch = 1 if self._each * batch > (self.deadline - now) / 4 else batch

    def _oracle(self, some: list[Any]) -> Any:
        values, residuals = self._program.plan.run_forward(substituted(self._inputs, self._moving, some))
        plain, masked = (gradient(self._program.plan, residuals, Transposer(mode)) for mode in ("ieee", "dead"))
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

    def approaches(self) -> Iterator[list[Array]]:
        """Newton steps towards as many singular points as a part of the time allows, and steps of twice the length."""
        most = int((self.deadline - time.monotonic()) / 4 / max(self._each * _STEPS, 1e-6))
        try:
            yield from self._approaches(most)
        except (NotImplementedError, TypeError, ValueError):  # an operand lies behind what has no gradient
            return

    def _misses(self, some: Sequence[Any]) -> list[Any]:
        """By how much the operands miss the singular points of their operations; calls and loops are looked into."""
        run = _Misses()
        run.run(self._program.closed, substituted(self._inputs, self._moving, some))
        return [jnp.ravel(miss).astype(jnp.float32) for _, miss in run.notes]

    def _approaches(self, most: int) -> Iterator[list[Array]]:
        def misses(some: Sequence[Any]) -> Any:
            return jnp.concatenate([*self._misses(some), jnp.zeros(0)])

        start = [jnp.asarray(each) for each in self.start]
        sizes = [int(each.size) for each in jax.eval_shape(self._misses, start)]
        chosen = _chosen(np.asarray(jax.jit(misses)(start)), sizes)[:most] if sizes and most > 0 else []
        if not chosen:
            return

        def towards(k: Any, length: Any) -> Any:
            def step(point: Any, _: None) -> tuple[Any, Any]:
                miss, slope = jax.value_and_grad(lambda some: misses(some)[k])(point)
                slope = jax.tree.map(lambda s: jnp.where(jnp.isfinite(s), s, 0), slope)
                square = sum(jnp.sum(s.astype(jnp.float32) ** 2) for s in slope)
                rate = jnp.where((square > 0) & jnp.isfinite(miss), length * miss / jnp.where(square > 0, square, 1), 0)
                point = [(p - rate * s).astype(p.dtype) for p, s in zip(point, slope, strict=True)]
                return point, point

            return lax.scan(step, start, None, _STEPS)[1]

        paths = jax.jit(jax.vmap(towards))(*(jnp.asarray(column) for column in zip(*chosen, strict=True)))
        arrays = [np.where(np.abs(each) < _ZERO, 0, each).astype(each.dtype) for each in map(np.asarray, paths)]
        for t in _TRIED:
            for a in range(len(chosen)):
                yield [each[a, t] for each in arrays]

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


class _Misses(Evaluation):
    """It notes by how much the operands miss the singular points of their operations."""

    calls = RULED_CALLS

    def one(self, eqn: JaxprEqn, operands: list[Any], path: Path) -> list[Any]:
        name, real = str(eqn.primitive.name), [jnp.issubdtype(jnp.result_type(x), jnp.floating) for x in operands]
        literal = all(isinstance(v, _compat.Literal) for v in eqn.invars)
        if name in CATALOGUE and all(real) and not literal and not (name == "integer_pow" and eqn.params["y"] >= 0):
            known = OPERATIONS[CATALOGUE[name]].code not in (None, "WL110")
            for targets in aims(CATALOGUE[name], "jax") if known else ():
                gaps = [operands[i] - target for i, target in targets]
                self.notes.append((None, gaps[0] if len(gaps) == 1 else sum(gap**2 for gap in gaps)))
        return super().one(eqn, operands, path)

    def equation(self, eqn: JaxprEqn, operands: list[Any], path: Path) -> list[Any]:
        # What a branch that is not taken misses, nobody can aim at.
        return self.one(eqn, operands, path) if eqn.primitive.name == "cond" else super().equation(eqn, operands, path)


def _chosen(misses: Any, sizes: Sequence[int]) -> list[tuple[int, float]]:
    """Of every operand the element that misses by least, the first, and one in the middle; whole and double steps."""
    chosen: dict[int, None] = {}
    first = 0
    for size in sizes:
        if size:
            part = np.abs(misses[first : first + size])
            nearest = int(np.argmin(np.where(np.isnan(part), np.inf, part)))
            chosen |= dict.fromkeys((first + nearest, first, first + size // 2))
        first += size
    return [(k, length) for k in list(chosen)[:_AIMS] for length in (1.0, 2.0)]
