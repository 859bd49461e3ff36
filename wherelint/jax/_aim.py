"""Where a program may be singular: the operands of its singular operations, and Newton steps towards their points."""

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from wherelint.jax import _compat
from wherelint.jax._compat import ClosedJaxpr, JaxprEqn, Path
from wherelint.jax._plan import replaced
from wherelint.jax._primitives import CALLS, CATALOGUE
from wherelint.jax._tags import Evaluation
from wherelint.ops import OPERATIONS

#: How many operands are aimed at, in how many steps, and which of these are tried.
_AIMS, STEPS, _TRIED = 64, 20, (0, 1, 2, 4, 9, 19)
#: Nearer to 0 than that is 0: underflow is another matter.
_ZERO = 1e-12


def literals(program: ClosedJaxpr) -> Iterator[float]:
    """The numbers in a program; nan where it asks for what is not finite."""
    for eqn in program.jaxpr.eqns:
        if eqn.primitive.name == "is_finite" or (eqn.primitive.name == "ne" and eqn.invars[0] is eqn.invars[1]):
            yield float("nan")
        for v in eqn.invars:
            if isinstance(v, _compat.Literal) and np.ndim(v.val) == 0 and np.asarray(v.val).dtype.kind == "f":
                yield float(v.val)
        for inner in _compat.programs(eqn):
            yield from literals(inner)
    for value in program.consts:
        if np.ndim(value) == 0 and jnp.issubdtype(jnp.result_type(value), jnp.floating):
            yield float(value)


class _Distances(Evaluation):
    """It notes by how much the operands miss the singular points of their operations."""

    calls = CALLS | {"custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"}

    def one(self, eqn: JaxprEqn, given: list[Any], path: Path) -> list[Any]:
        self.notes += ((None, miss) for miss in _misses(eqn, given))
        return super().one(eqn, given, path)

    def equation(self, eqn: JaxprEqn, given: list[Any], path: Path) -> list[Any]:
        # What a branch that is not taken misses, nobody can aim at.
        return self.one(eqn, given, path) if eqn.primitive.name == "cond" else super().equation(eqn, given, path)


def distances(program: ClosedJaxpr, inputs: Sequence[Any]) -> list[Any]:
    """By how much the operands miss the singular points of their operations; calls and loops are looked into."""
    run = _Distances()
    run.run(program, inputs)
    return [jnp.ravel(miss) for _, miss in run.notes]


def _misses(eqn: JaxprEqn, given: Sequence[Any]) -> Iterator[Any]:
    operation = OPERATIONS.get(CATALOGUE.get(str(eqn.primitive.name), ""))
    real = all(jnp.issubdtype(jnp.result_type(value), jnp.floating) for value in given)
    if operation is None or operation.code in (None, "WL110") or not real:
        return
    if str(eqn.primitive.name) == "integer_pow" and eqn.params["y"] >= 0:
        return
    points = [point for point in operation.singular if np.isfinite(point).all()]
    if len(given) == 1:
        misses = [given[0] - point[0] for point in points]
    else:
        # What every singular point has in common: the divisor of 0, both operands of arctan2.
        common = [i for i in range(len(given)) if len({point[i] for point in points}) == 1] or [0]
        each = [given[i] - points[0][i] for i in common]
        misses = each if len(each) == 1 else [sum(miss**2 for miss in each)]
    literal = all(isinstance(v, _compat.Literal) for v in eqn.invars)
    yield from (miss for miss in misses if not literal and jnp.size(miss))


def approaches(program: ClosedJaxpr, inputs: Sequence[Any], moving: Sequence[int], most: int) -> Iterator[list[Any]]:
    """Inputs on the way to ``most`` singular points, and beyond them: the arrays that move, in NumPy."""

    def misses(some: Sequence[Any]) -> Any:
        found = distances(program, replaced(inputs, moving, some))
        return jnp.concatenate([each.astype(jnp.float32) for each in found]) if found else jnp.zeros(0)

    start = [jnp.asarray(inputs[i]) for i in moving]
    shapes = jax.eval_shape(lambda some: distances(program, replaced(inputs, moving, some)), start)
    sizes = [int(np.prod(each.shape)) for each in shapes]
    aims = _chosen(np.asarray(jax.jit(misses)(start)), sizes)[:most] if sizes and most > 0 else []
    if not aims:
        return

    def towards(k: Any, length: Any) -> Any:
        def step(point: Any, _: None) -> tuple[Any, Any]:
            miss, slope = jax.value_and_grad(lambda some: misses(some)[k])(point)
            slope = jax.tree.map(lambda s: jnp.where(jnp.isfinite(s), s, 0), slope)
            square = sum(jnp.sum(s.astype(jnp.float32) ** 2) for s in slope)
            rate = jnp.where((square > 0) & jnp.isfinite(miss), length * miss / jnp.where(square > 0, square, 1), 0)
            point = [(p - rate * s).astype(p.dtype) for p, s in zip(point, slope, strict=True)]
            return point, point

        return lax.scan(step, start, None, STEPS)[1]

    paths = jax.jit(jax.vmap(towards))(*(jnp.asarray(column) for column in zip(*aims, strict=True)))
    arrays = [np.where(np.abs(each) < _ZERO, 0, each).astype(each.dtype) for each in map(np.asarray, paths)]
    for t in _TRIED:
        for a in range(len(aims)):
            yield [each[a, t] for each in arrays]


def _chosen(misses: Any, sizes: Sequence[int]) -> list[tuple[int, float]]:
    """Of every operand the element that misses by least, the first, and one in the middle; whole and double steps."""
    chosen: dict[int, None] = {}
    first = 0
    for size in sizes:
        part = np.abs(misses[first : first + size])
        nearest = int(np.argmin(np.where(np.isnan(part), np.inf, part)))
        chosen |= dict.fromkeys((first + nearest, first, first + size // 2))
        first += size
    return [(k, length) for k in list(chosen)[:_AIMS] for length in (1.0, 2.0)]
