"""Transposition of the linear programs that ``jax.linearize`` makes, with masks of dead elements.

A cotangent is a pair ``(ct, dead)``. ``dead`` (a boolean array of its shape, or None for nowhere) marks the elements
that a selection, an index or an undifferentiated factor of exactly 0 dropped on the way; there ``ct`` is 0, and stays 0
whatever it is multiplied by. An element that two results use is dead where it is dead in both.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from jax import lax
from jax import numpy as jnp

from wherelint.jax import _compat, _primitives
from wherelint.jax._compat import ClosedJaxpr, JaxprEqn, Path, Var
from wherelint.jax._evaluate import Notes
from wherelint.jax._primitives import active_results, needs_masks

Mode = Literal["dead", "exact", "ieee"]


class Pair(NamedTuple):
    """A cotangent and its dead elements."""

    ct: Any
    dead: Any = None


class Known(NamedTuple):
    """An operand that is not linear: its value, and whether it depends on what is differentiated."""

    value: Any
    active: bool


class Linear(NamedTuple):
    """A linear operand, and whether it matters which of its elements are dead."""

    need: bool


Operand = Known | Linear


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
    def linear(self) -> list[bool]:
        """Which operands are linear."""
        return [isinstance(each, Linear) for each in self.operands]

    @property
    def values(self) -> list[Any]:
        """The values of the operands, None for a linear one."""
        return [each.value if isinstance(each, Known) else None for each in self.operands]

    def needs(self, i: int) -> bool:
        """Whether the dead elements of that operand matter."""
        operand = self.operands[i]
        return isinstance(operand, Linear) and operand.need

    def only(self, i: int, pair: Pair | None) -> list[Pair | None]:
        """The cotangents of the operands where only one has any."""
        return [pair if k == i else None for k in range(len(self.operands))]


Rule = Callable[["Transposer", Step], "list[Pair | None]"]
#: By the names of their primitives.
RULES: dict[str, Rule] = {}


class Transposer(Notes):
    """One way of transposing: ``dead`` masks, ``exact`` (whatever is 0 stays 0), or ``ieee`` as JAX does it."""

    def __init__(self, mode: Mode, *, strict: bool = True) -> None:
        """``strict``: a primitive that is not known is refused; else all that it gives depends on all it is given."""
        super().__init__()
        self.mode, self.strict = mode, strict

    def drops(self, step: Step) -> bool:
        """Whether the elements that this equation drops are dead."""
        return self.mode == "dead"

    def watch(self, step: Step, results: list[Pair | None]) -> None:
        """Called with every equation and the cotangents of its operands."""

    def dead(self, pair: Pair) -> Any:
        """The elements that receive nothing; None for no such element."""
        return pair.ct == 0 if self.mode == "exact" else pair.dead

    def annihilated(self, pair: Pair, product: Any) -> Any:
        """A product with the cotangent, of its shape, that is 0 where the element is dead."""
        return zero_where(self.dead(pair), product)

    def run(
        self, program: ClosedJaxpr, operands: Sequence[Operand], cts: Sequence[Pair | None], path: Path = ()
    ) -> list[Pair | None]:
        """The cotangents of the linear inputs of a linear program; None for the others and for an exact zero."""
        jaxpr = program.jaxpr
        known = {v: Known(value, active=False) for v, value in zip(jaxpr.constvars, program.consts, strict=True)}
        linear: dict[Var, bool] = {}
        for variable, operand in zip(jaxpr.invars, operands, strict=True):
            if isinstance(operand, Known):
                known[variable] = operand
            else:
                linear[variable] = operand.need
        need = needs_masks(jaxpr, [linear.get(v, False) for v in jaxpr.invars])

        def read(v: Any) -> Operand:
            if isinstance(v, _compat.Literal):
                return Known(v.val, active=False)
            return Linear(need[v]) if v in linear else known[v]

        todo: list[tuple[JaxprEqn, list[Operand]]] = []
        for eqn in jaxpr.eqns:
            inputs = [read(v) for v in eqn.invars]
            if any(isinstance(each, Linear) for each in inputs):
                linear.update(dict.fromkeys(eqn.outvars, True))
                todo.append((eqn, inputs))
            else:  # what a checkpoint computes again
                residuals = [each for each in inputs if isinstance(each, Known)]
                active = active_results(eqn, [each.active for each in residuals])
                values = _compat.bind(eqn, [each.value for each in residuals])
                known.update(zip(eqn.outvars, map(Known, values, active), strict=True))

        found: dict[Var, Pair] = {}
        for variable, pair in zip(jaxpr.outvars, cts, strict=True):
            if not isinstance(variable, _compat.Literal) and variable in linear:
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
        return [found.get(v) if v in linear else None for v in jaxpr.invars]

    def equation(self, step: Step) -> list[Pair | None]:
        """The cotangents of the operands of one equation."""
        name = step.name
        if name in RULES:
            return RULES[name](self, step)
        if name in _primitives.SAME:
            return self._same(step)
        if name in _primitives.MOVES or name in _primitives.DROPS:
            return self._moves(step)
        if name in _primitives.DENSE or not self.strict:
            return self._dense(step)
        raise _primitives.refusal(name)

    def _same(self, step: Step) -> list[Pair | None]:
        new = iter(_compat.transpose(step.eqn, step.values, step.linear, instantiated(step)))
        dead = [None if pair is None else pair.dead for pair in step.cts]
        masks = dead if len(dead) == len(step.operands) else dead * len(step.operands)
        pairs = zip(step.linear, masks, strict=True)
        return [Pair(next(new), mask) if is_linear else None for is_linear, mask in pairs]

    def _moves(self, step: Step) -> list[Pair | None]:
        """Elements go where they came from; so do the marks of those that are alive."""
        eqn, linear = step.eqn, step.linear
        new = _compat.transpose(eqn, step.values, linear, instantiated(step))
        some_dead = any(pair is None or pair.dead is not None for pair in step.cts)
        drops = step.name in _primitives.DROPS and self.drops(step)
        masks: list[Any] = [None] * len(new)
        if self.mode == "dead" and any(map(step.needs, range(len(linear)))) and (some_dead or drops):
            lives = [_lives(pair, v.aval) for pair, v in zip(step.cts, eqn.outvars, strict=True)]
            masks = [live == 0 for live in _compat.transpose(eqn, step.values, linear, lives)]
            if not drops and step.name in _primitives.DROPS:  # what is left out counts as alive
                every = [jnp.ones(live.shape, live.dtype) for live in lives]
                kept = _compat.transpose(eqn, step.values, linear, every)
                masks = [mask & (live != 0) for mask, live in zip(masks, kept, strict=True)]
        rest = iter(zip(new, masks, strict=True))
        return [_needed(step, i, Pair(*next(rest))) if is_linear else None for i, is_linear in enumerate(linear)]

    def _dense(self, step: Step) -> list[Pair | None]:
        """Everything along the trailing axes depends on everything: it is dead only altogether."""
        new = iter(_compat.transpose(step.eqn, step.values, step.linear, instantiated(step)))
        axes = _primitives.DENSE.get(step.name)
        if step.name == "fft":
            axes = len(step.eqn.params["fft_lengths"])
        alone = len(step.cts) == 1 and step.cts[0] is not None
        dead = self.dead(step.cts[0]) if alone and step.cts[0] is not None else self._all_dead(step)
        if dead is not None and dead.ndim:
            trailing = tuple(range(dead.ndim))[-axes:] if axes and alone else tuple(range(dead.ndim))
            dead = jnp.all(dead, axis=trailing, keepdims=True)
        return [self._whole(step, i, next(new), dead) if linear else None for i, linear in enumerate(step.linear)]

    def _all_dead(self, step: Step) -> Any:
        """Whether all the results are dead; None where they cannot be."""
        masks = [self.dead(pair) for pair in step.cts if pair is not None]
        if any(mask is None for mask in masks):
            return None
        return jnp.all(jnp.stack([jnp.all(mask) for mask in masks]))

    def _whole(self, step: Step, i: int, ct: Any, dead: Any) -> Pair:
        if dead is None:
            return Pair(ct)
        dead = dead if dead.ndim == ct.ndim else jnp.all(dead)
        whole = jnp.broadcast_to(dead, ct.shape)
        return _needed(step, i, Pair(zero_where(whole, ct), whole if self.mode == "dead" else None))


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


def joined(a: Pair | None, b: Pair | None) -> Pair | None:
    """The sum of two cotangents of one variable."""
    if a is None or b is None:
        return a or b
    return Pair(a.ct + b.ct, None if a.dead is None or b.dead is None else a.dead & b.dead)


def _accumulate(found: dict[Var, Pair], variable: Any, pair: Pair | None) -> None:
    if pair is None or isinstance(variable, _compat.Literal):
        return
    pair = unbroadcast(pair, variable.aval.shape)
    total = joined(found.get(variable), pair)
    assert total is not None
    found[variable] = total


def unbroadcast(pair: Pair, shape: tuple[int, ...]) -> Pair:
    """The cotangent of an operand that was broadcast: a scalar, or along axes of one element."""
    if pair.ct.shape == tuple(shape):
        return pair
    axes = tuple(i for i in range(pair.ct.ndim) if not shape or shape[i] != pair.ct.shape[i])
    dead = None if pair.dead is None else jnp.all(pair.dead, axes).reshape(shape)
    return Pair(jnp.sum(pair.ct, axes).reshape(shape), dead)


def _needed(step: Step, i: int, pair: Pair) -> Pair:
    return pair if step.needs(i) else Pair(pair.ct)


def _lives(pair: Pair | None, aval: Any) -> Any:
    """1 where an element is alive, as numbers that can be transposed."""
    if pair is None:
        return jnp.zeros(aval.shape, aval.dtype)
    if pair.dead is None:
        return jnp.ones(aval.shape, aval.dtype)
    return (~pair.dead).astype(aval.dtype)


@rule("mul")
def _mul(transposer: Transposer, step: Step) -> list[Pair | None]:
    (pair,) = step.cts
    assert pair is not None
    i = step.linear.index(True)
    factor = step.operands[1 - i]
    assert isinstance(factor, Known)
    value, literal = factor.value, isinstance(step.eqn.invars[1 - i], _compat.Literal)
    if literal and np.all(np.isfinite(value)) and np.all(value):
        return step.only(i, Pair(pair.ct * value, pair.dead))
    dead = pair.dead
    if not factor.active and transposer.drops(step):  # needed or not: the cotangent may be infinite in earnest
        zero = jnp.broadcast_to(jnp.asarray(value) == 0, pair.ct.shape)
        dead = zero if dead is None else dead | zero
    return step.only(i, _needed(step, i, Pair(transposer.annihilated(Pair(pair.ct, dead), pair.ct * value), dead)))


@rule("div")
def _div(transposer: Transposer, step: Step) -> list[Pair | None]:
    (pair,) = step.cts
    assert pair is not None
    return [Pair(transposer.annihilated(pair, pair.ct / step.values[1]), pair.dead), None]


@rule("select_n")
def _select_n(transposer: Transposer, step: Step) -> list[Pair | None]:
    (pair,) = step.cts
    assert pair is not None
    which, *cases = jnp.asarray(step.values[0]), *step.operands[1:]
    marks = transposer.drops(step)
    results: list[Pair | None] = [None]
    for k, case in enumerate(cases):
        if isinstance(case, Known):
            results.append(None)
            continue
        dropped = jnp.broadcast_to(which != k, pair.ct.shape)
        dead = pair.dead
        if case.need and marks:
            dead = dropped if dead is None else dead | dropped
        results.append(Pair(zero_where(dropped, pair.ct), dead))
    return results


@rule("dot_general")
def _dot_general(transposer: Transposer, step: Step) -> list[Pair | None]:
    """A row of the known factor is left out where every cotangent that meets it is dead: it may hold inf."""
    (pair,) = step.cts
    assert pair is not None
    i = step.linear.index(True)
    known = step.operands[1 - i]
    assert isinstance(known, Known)
    contracting, batch = step.eqn.params["dimension_numbers"]
    ranks = [v.aval.ndim for v in step.eqn.invars]
    free = [[d for d in range(ranks[k]) if d not in contracting[k] and d not in batch[k]] for k in (0, 1)]
    count = len(batch[0])
    axes = [range(count, count + len(free[0])), range(count + len(free[0]), pair.ct.ndim)]
    factor, dead = jnp.asarray(known.value), transposer.dead(pair)
    if dead is not None:
        meets_nothing = jnp.all(dead, axis=tuple(axes[i]))
        factor = zero_where(_spread(meets_nothing, factor.shape, [*batch[1 - i], *free[1 - i]]), factor)
    operands = [factor if k != i else None for k in (0, 1)]
    (new,) = _compat.transpose(step.eqn, operands, step.linear, [pair.ct])
    mask = None
    if step.needs(i) and not known.active and transposer.drops(step):
        (live,) = _compat.transpose(
            step.eqn, [None if k == i else (factor != 0).astype(factor.dtype) for k in (0, 1)], step.linear,
            [_lives(pair, step.eqn.outvars[0].aval)],
        )  # fmt: skip
        mask = live == 0
    elif step.needs(i) and pair.dead is not None:
        gone = jnp.all(pair.dead, axis=tuple(axes[1 - i]))
        mask = _spread(gone, new.shape, [*batch[i], *free[i]])
    return step.only(i, Pair(new if mask is None else zero_where(mask, new), mask))


def _spread(mask: Any, shape: tuple[int, ...], axes: Sequence[int]) -> Any:
    """A mask of the (batch, free) axes over a whole operand."""
    order = [int(k) for k in np.argsort(axes)]
    return lax.broadcast_in_dim(jnp.transpose(mask, order), shape, tuple(axes[k] for k in order))


@rule("conv_general_dilated")
def _convolution(transposer: Transposer, step: Step) -> list[Pair | None]:
    """As a ``dot_general``; a kernel or an image that is not finite is left out where all cotangents are dead."""
    (pair,) = step.cts
    assert pair is not None
    i = step.linear.index(True)
    factor, dead = step.values[1 - i], transposer.dead(pair)
    if dead is not None:
        factor = zero_where(jnp.all(dead), factor)
    (new,) = _compat.transpose(step.eqn, [None if k == i else factor for k in (0, 1)], step.linear, [pair.ct])
    if pair.dead is None or not step.needs(i):
        return step.only(i, Pair(new))
    ones = [None if k == i else jnp.ones_like(factor) for k in (0, 1)]
    (live,) = _compat.transpose(step.eqn, ones, step.linear, [_lives(pair, step.eqn.outvars[0].aval)])
    return step.only(i, Pair(zero_where(live == 0, new), live == 0))
