"""Short ways to write the entries of the catalogue.

Most derivatives are a *slope*, ``slope(out, *operands)``, that multiplies the cotangent. ``times`` keeps what
IEEE arithmetic makes of that product, ``drop`` lets a slope of zero annihilate (frameworks that select instead
of multiplying), and ``lazy`` lets a zero cotangent annihilate (kernels that test for it).
"""

from collections.abc import Callable
from typing import Any

from wherelint.frameworks import FRAMEWORKS
from wherelint.ops.catalogue import Array, Domain, Operation, Vjp
from wherelint.ops.numeric import np

#: The arithmetics whose VJPs may differ.
MODES = (*FRAMEWORKS, *(framework.compiled for framework in FRAMEWORKS.values() if framework.compiled))
Slope = Callable[..., Any]
#: ``pull(ct, out, *operands)`` gives the cotangent of one operand; None: the operand is not differentiated.
Pull = Callable[..., Array]


def _like(ct: Array, slope: Any) -> Any:
    """The slope in the precision of the cotangent: a slope that is a choice of Python numbers has none of its own."""
    if getattr(slope, "dtype", None) == ct.dtype:
        return slope
    return np.asarray(slope).astype(ct.dtype)


def times(slope: Slope) -> Pull:
    """The cotangent times the slope."""
    if slope is one:
        return lambda ct, out, *operands: ct
    if slope is minus_one:
        return lambda ct, out, *operands: -ct
    return lambda ct, out, *operands: ct * _like(ct, slope(out, *operands))


def drop(slope: Slope) -> Pull:
    """The cotangent times the slope, and zero where the slope is zero, whatever the cotangent."""

    def pull(ct: Array, out: Array, *operands: Array) -> Array:
        value = _like(ct, slope(out, *operands))
        return np.where(value == 0, 0, ct * value)

    return pull


def lazy(slope: Slope) -> Pull:
    """The cotangent times the slope, and zero where the cotangent is zero, whatever the slope."""

    def pull(ct: Array, out: Array, *operands: Array) -> Array:
        return np.where(ct == 0, 0, ct * _like(ct, slope(out, *operands)))

    return pull


def paths(first: Slope, *others: Slope) -> Pull:
    """Where the operand is used several times, the sum of the cotangents: an inf of either sign makes a nan of it."""

    def pull(ct: Array, out: Array, *operands: Array) -> Array:
        found = ct * _like(ct, first(out, *operands))
        for slope in others:
            found = found + ct * _like(ct, slope(out, *operands))
        return np.asarray(found)

    return pull


def zeros(ct: Array, out: Array, *operands: Array) -> Array:
    """The cotangent of a piecewise constant operation: zeros, whatever arrives; what comes before multiplies them."""
    return np.zeros_like(ct)


class Pullback:
    """A VJP from one pull an operand, so that only the cotangents that are wanted need be computed."""

    def __init__(self, pulls: tuple[Pull | None, ...]) -> None:
        self.pulls = pulls

    def __call__(self, ct: Array, out: Array, *operands: Array) -> tuple[Array | None, ...]:
        """One cotangent an operand."""
        return tuple(None if pull is None else pull(ct, out, *operands) for pull in self.pulls)


def pullback(*pulls: Pull | None) -> Vjp:
    """A VJP from one pull an operand."""
    return Pullback(pulls)


def slopes(*each: Slope | None) -> Vjp:
    """A VJP from one slope an operand."""
    return pullback(*(None if slope is None else times(slope) for slope in each))


def no_vjp(ct: Array, out: Array, *operands: Array) -> tuple[Array | None, ...]:
    """The VJP of an operation that has no gradient: a comparison, an index, what a framework calls constant."""
    return (None,) * len(operands)


def one(out: Array, *operands: Array) -> Array:
    """The slope of a sum; ``times`` knows it, and passes the cotangent on."""
    return np.ones_like(out)


def minus_one(out: Array, *operands: Array) -> Array:
    """The slope of what a difference subtracts."""
    return -np.ones_like(out)


def entry(
    name: str,
    forward: Callable[..., Any],
    vjp: Vjp,
    singular: tuple[float | tuple[float, ...], ...] = (),
    safe: tuple[float | None, ...] | float | None = None,
    **others: Any,
) -> Operation:
    """An Operation; singular points and the safe value of a single operand may be written without a tuple.

    ``others`` are VJPs that differ, by framework, and fields of the operation.
    """
    points = tuple(point if isinstance(point, tuple) else (point,) for point in singular)
    regular = safe if isinstance(safe, tuple) else () if safe is None else (safe,)
    variants = {key: others.pop(key) for key in MODES if key in others}
    return Operation(name, forward, vjp, variants, singular=points, safe=regular, **others)


def unary(
    name: str,
    forward: Callable[..., Any],
    slope: Slope,
    singular: tuple[float | tuple[float, ...], ...] = (),
    safe: float | None = None,
    **others: Any,
) -> Operation:
    """An operation of one operand from the slope that every framework multiplies by."""
    named = {key: slopes(other) if key in MODES else other for key, other in others.items()}
    return entry(name, forward, slopes(slope), singular, safe, **named)


def both(singular: str, boundary: str, *rest: Any, **named: Any) -> tuple[Domain, Domain]:
    """Guards where the operation has no value either, and at the edge of its domain alone."""
    return Domain(singular, *rest, **named), Domain(boundary, *rest, **named)


def table(*entries: Operation) -> dict[str, Operation]:
    """Entries by name."""
    found = {operation.name: operation for operation in entries}
    if len(found) != len(entries):
        raise ValueError("two entries of one name")
    return found
