"""Transposition of the linear programs that ``jax.linearize`` makes, with masks of dead elements.

A cotangent is a pair ``(ct, dead)``. ``dead`` (a boolean array of its shape, or None for nowhere) marks the elements
that a selection, an index or an undifferentiated factor of exactly 0 dropped on the way; there ``ct`` is 0, and stays 0
whatever it is multiplied by. An element that two results use is dead where it is dead in both.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax import lax
from jax import numpy as jnp

from wherelint.jax import _compat
from wherelint.jax._compat import ClosedJaxpr, JaxprEqn, Path, Var
from wherelint.jax._evaluate import Notes
from wherelint.jax._primitives import DENSE, DROPS, MOVES, SAME, is_inexact, refusal


class Pair(NamedTuple):
    """A cotangent and its dead elements."""

    ct: Any
    dead: Any = None


class Known(NamedTuple):
    """An operand that is not linear: its value, and whether it depends on what is differentiated."""

    value: Any
    active: bool


#: None for a linear operand.
Operand = Known | None


class Step(NamedTuple):
    """One equation to transpose: its operands, and the cotangents of its results (None: exactly zero)."""

    eqn: JaxprEqn
    operands: Sequence[Operand]
    cts: Sequence[Pair | None]
    path: Path

    @property
    def name(self) -> str:
        """The name of the primitive."""
        return str(self.eqn.primitive.name)

    @property
    def inside(self) -> Path:
        """The equation and those that it lies in."""
        return (*self.path, self.eqn)

    @property
    def linear(self) -> list[bool]:
        """Which operands are linear."""
        return [each is None for each in self.operands]

    @property
    def values(self) -> list[Any]:
        """The values of the operands, None for a linear one."""
        return [each and each.value for each in self.operands]

    @property
    def pair(self) -> Pair:
        """The cotangent of the only result."""
        (pair,) = self.cts
        assert pair is not None
        return pair

    def factor(self) -> tuple[int, Known]:
        """Of a product, the number of the linear operand, and the other one."""
        i = self.linear.index(True)
        known = self.operands[1 - i]
        assert known is not None
        return i, known

    def only(self, i: int, value: Any) -> list[Any]:
        """By operand: a value for one of them, None for the others."""
        return [value if k == i else None for k in range(len(self.operands))]

    def transposed(self, cts: Sequence[Any]) -> list[Any]:
        """The cotangents of the linear operands, as JAX computes them."""
        return _compat.transpose(self.eqn, self.values, self.linear, cts)


Rule = Callable[["Transposer", Step], "list[Pair | None]"]
#: By the names of their primitives.
RULES: dict[str, Rule] = {}


class Transposer(Notes):
    """Transposes with masks, or without as JAX does."""

    def __init__(self, *, masks: bool = True, strict: bool = True) -> None:
        """``strict``: a primitive that is not known is refused; else all its operands depend on all its results."""
        super().__init__()
        self.masks, self.strict = masks, strict

    def drops(self, step: Step) -> bool:
        """Whether the elements that this equation drops are dead."""
        return self.masks

    def watch(self, step: Step, results: list[Pair | None]) -> None:
        """Called with every equation and the cotangents of its operands."""

    def annihilated(self, pair: Pair, product: Any) -> Any:
        """A product with the cotangent, of its shape, that is 0 where the element is dead."""
        return zero_where(pair.dead, product)

    def run(
        self, program: ClosedJaxpr, operands: Sequence[Operand], cts: Sequence[Pair | None], path: Path = ()
    ) -> list[Pair | None]:
        """The cotangents of the linear inputs of a linear program; None for the others and for an exact zero."""
        jaxpr = program.jaxpr
        known: dict[Var, Operand] = dict(zip(jaxpr.invars, operands, strict=True))
        known |= {v: Known(value, active=False) for v, value in zip(jaxpr.constvars, program.consts, strict=True)}

        def read(v: Any) -> Operand:
            return Known(v.val, active=False) if isinstance(v, _compat.Literal) else known[v]

        todo: list[tuple[JaxprEqn, list[Operand]]] = []
        for eqn in jaxpr.eqns:
            inputs = [read(v) for v in eqn.invars]
            residuals = [each for each in inputs if each is not None]
            if len(residuals) < len(inputs):
                known.update(dict.fromkeys(eqn.outvars))
                todo.append((eqn, inputs))
            else:  # what a checkpoint computes again
                active = any(each.active for each in residuals)
                values = _compat.bind(eqn, [each.value for each in residuals])
                pairs = zip(eqn.outvars, values, strict=True)
                known.update((v, Known(value, active and is_inexact(v))) for v, value in pairs)

        found: dict[Var, Pair] = {}
        for variable, pair in zip(jaxpr.outvars, cts, strict=True):
            if read(variable) is None:
                _accumulate(found, variable, pair)
        while todo:
            eqn, inputs = todo.pop()
            arrived = [found.pop(v, None) for v in eqn.outvars]
            if any(pair is not None for pair in arrived):
                step = Step(eqn, inputs, arrived, path)
                results = self.equation(step)
                self.watch(step, results)
                for v, pair in zip(eqn.invars, results, strict=True):
                    _accumulate(found, v, pair)
        return [found.get(v) if known[v] is None else None for v in jaxpr.invars]

    def equation(self, step: Step) -> list[Pair | None]:
        """The cotangents of the operands of one equation."""
        name = step.name
        if name in RULES:
            return RULES[name](self, step)
        if name in SAME:
            return self._same(step)
        if name in MOVES or name in DROPS:
            return self._moves(step)
        if name in DENSE or not self.strict:
            return self._dense(step)
        raise refusal(name)

    def _same(self, step: Step) -> list[Pair | None]:
        new = iter(step.transposed(instantiated(step)))
        dead = [None if pair is None else pair.dead for pair in step.cts]
        masks = dead if len(dead) == len(step.operands) else dead * len(step.operands)
        pairs = zip(step.linear, masks, strict=True)
        return [Pair(next(new), mask) if is_linear else None for is_linear, mask in pairs]

    def _moves(self, step: Step) -> list[Pair | None]:
        """Elements go where they came from; so do the marks of those that are alive."""
        new = step.transposed(instantiated(step))
        drops = step.name in DROPS and self.drops(step)
        masks: list[Any] = [None] * len(new)
        if self.masks and (drops or any(pair is None or pair.dead is not None for pair in step.cts)):
            lives = [_lives(pair, v.aval) for pair, v in zip(step.cts, step.eqn.outvars, strict=True)]
            masks = [live == 0 for live in step.transposed(lives)]
            if not drops and step.name in DROPS:  # what is left out counts as alive
                every = step.transposed([jnp.ones(live.shape, live.dtype) for live in lives])
                masks = [mask & (live != 0) for mask, live in zip(masks, every, strict=True)]
        rest = iter(map(Pair, new, masks))
        return [next(rest) if is_linear else None for is_linear in step.linear]

    def _dense(self, step: Step) -> list[Pair | None]:
        """Everything along the trailing axes depends on everything: it is dead only altogether."""
        new = iter(step.transposed(instantiated(step)))
        masks = [pair.dead for pair in step.cts if pair is not None]
        if any(mask is None for mask in masks):
            return [Pair(next(new)) if is_linear else None for is_linear in step.linear]
        axes = DENSE.get(step.name)
        if len(step.cts) == 1 and axes and masks[0].ndim:
            dead = jnp.all(masks[0], axis=tuple(range(masks[0].ndim))[-axes:], keepdims=True)
        else:
            dead = jnp.all(jnp.array([jnp.all(mask) for mask in masks]))
        return [_all_or_none(next(new), dead) if is_linear else None for is_linear in step.linear]


def _all_or_none(ct: Any, dead: Any) -> Pair:
    mask = jnp.broadcast_to(dead if dead.ndim == ct.ndim else jnp.all(dead), ct.shape)
    return Pair(zero_where(mask, ct), mask)


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register the rule of the primitives of these names."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def zero_where(dead: Any, ct: Any) -> Any:
    """The cotangent without the dead elements."""
    return ct if dead is None else jnp.where(dead, jnp.zeros((), ct.dtype), ct)


def instantiated(step: Step) -> list[Any]:
    """The cotangents of the results, exact zeros as arrays."""
    pairs = zip(step.cts, step.eqn.outvars, strict=True)
    return [jnp.zeros(v.aval.shape, v.aval.dtype) if pair is None else pair.ct for pair, v in pairs]


def joined(a: Pair, b: Pair) -> Pair:
    """The sum of two cotangents of one variable."""
    return Pair(a.ct + b.ct, None if a.dead is None or b.dead is None else a.dead & b.dead)


def _either(a: Any, b: Any) -> Any:
    """The elements that are dead in one of two masks."""
    return b if a is None else a | b


def _accumulate(found: dict[Var, Pair], variable: Any, pair: Pair | None) -> None:
    if pair is not None and not isinstance(variable, _compat.Literal):
        pair = _unbroadcast(pair, variable.aval.shape)
        found[variable] = joined(found[variable], pair) if variable in found else pair


def _unbroadcast(pair: Pair, shape: tuple[int, ...]) -> Pair:
    """The cotangent of an operand that was broadcast: a scalar, or along axes of one element."""
    if pair.ct.shape == tuple(shape):
        return pair
    axes = tuple(i for i in range(pair.ct.ndim) if not shape or shape[i] != pair.ct.shape[i])
    dead = None if pair.dead is None else jnp.all(pair.dead, axes).reshape(shape)
    return Pair(jnp.sum(pair.ct, axes).reshape(shape), dead)


def _lives(pair: Pair | None, aval: Any) -> Any:
    """1 where an element is alive, as numbers that can be transposed."""
    if pair is None:
        return jnp.zeros(aval.shape, aval.dtype)
    if pair.dead is None:
        return jnp.ones(aval.shape, aval.dtype)
    return (~pair.dead).astype(aval.dtype)


@rule("mul")
def _mul(transposer: Transposer, step: Step) -> list[Pair | None]:
    pair, (i, factor) = step.pair, step.factor()
    value, dead = factor.value, pair.dead
    if isinstance(step.eqn.invars[1 - i], _compat.Literal) and np.all(np.isfinite(value)) and np.all(value):
        return step.only(i, Pair(pair.ct * value, dead))
    if not factor.active and transposer.drops(step):
        dead = _either(dead, jnp.broadcast_to(jnp.asarray(value) == 0, pair.ct.shape))
    return step.only(i, Pair(transposer.annihilated(Pair(pair.ct, dead), pair.ct * value), dead))


@rule("div")
def _div(transposer: Transposer, step: Step) -> list[Pair | None]:
    return [Pair(transposer.annihilated(step.pair, step.pair.ct / step.values[1]), step.pair.dead), None]


@rule("select_n")
def _select_n(transposer: Transposer, step: Step) -> list[Pair | None]:
    pair, which = step.pair, jnp.asarray(step.values[0])
    results: list[Pair | None] = [None] * len(step.operands)
    for k, case in enumerate(step.operands[1:]):
        if case is None:
            dropped = jnp.broadcast_to(which != k, pair.ct.shape)
            dead = _either(pair.dead, dropped) if transposer.drops(step) else pair.dead
            results[1 + k] = Pair(zero_where(dropped, pair.ct), dead)
    return results


@rule("dot_general")
def _dot_general(transposer: Transposer, step: Step) -> list[Pair | None]:
    """A row of the known factor is left out where every cotangent that meets it is dead: it may hold inf."""
    pair, (i, known) = step.pair, step.factor()
    contracting, batch = step.eqn.params["dimension_numbers"]
    ranks = [v.aval.ndim for v in step.eqn.invars]
    free = [[d for d in range(ranks[k]) if d not in contracting[k] and d not in batch[k]] for k in (0, 1)]
    count = len(batch[0])
    axes = [range(count, count + len(free[0])), range(count + len(free[0]), pair.ct.ndim)]
    factor, dead = jnp.asarray(known.value), pair.dead
    counts: Any = jnp.ones(factor.shape, bool)
    if not known.active and transposer.drops(step):
        counts = factor != 0
    elif dead is None:
        counts = None
    if dead is not None:
        meets_nothing = jnp.all(dead, axis=tuple(axes[i]))
        factor = zero_where(_spread(meets_nothing, factor.shape, [*batch[1 - i], *free[1 - i]]), factor)
    return _bilinear(step, i, factor, counts)


def _spread(mask: Any, shape: tuple[int, ...], axes: Sequence[int]) -> Any:
    """A mask of the (batch, free) axes over a whole operand."""
    order = [int(k) for k in np.argsort(axes)]
    return lax.broadcast_in_dim(jnp.transpose(mask, order), shape, tuple(axes[k] for k in order))


@rule("conv_general_dilated")
def _convolution(transposer: Transposer, step: Step) -> list[Pair | None]:
    """A kernel or an image that is not finite is left out where all cotangents are dead."""
    i, known = step.factor()
    if step.pair.dead is None:
        return _bilinear(step, i, known.value, None)
    factor = zero_where(jnp.all(step.pair.dead), known.value)
    return _bilinear(step, i, factor, jnp.ones(factor.shape, bool))


def _bilinear(step: Step, i: int, factor: Any, counts: Any) -> list[Pair | None]:
    """The cotangent of one operand, dead where all that it meets by a factor that ``counts`` is dead; None: nowhere."""

    def along(factor: Any, ct: Any) -> Any:
        return _compat.transpose(step.eqn, step.only(1 - i, factor), step.linear, [ct])[0]

    new = along(factor, step.pair.ct)
    if counts is None:
        return step.only(i, Pair(new))
    mask = along(counts.astype(factor.dtype), _lives(step.pair, step.eqn.outvars[0].aval)) == 0
    return step.only(i, Pair(zero_where(mask, new), mask))
