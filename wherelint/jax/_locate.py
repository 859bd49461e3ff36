"""``locate``: which operation breaks a gradient, and which selection is to blame."""

import contextlib
import functools
import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from jax import numpy as jnp

from wherelint.companion import Poison, Report
from wherelint.companion.smooth import with_smooth
from wherelint.jax import _compat, _evaluate
from wherelint.jax._compat import ClosedJaxpr, JaxprEqn, Path
from wherelint.jax._mask import Flat, Plan, plan
from wherelint.jax._primitives import CALLS, DROPS, is_inexact, is_risky
from wherelint.jax._tags import Origin, Site, Tags, in_jax, site_of
from wherelint.jax._transpose import Mode, Pair, Step, Transposer, zero_where

#: Equations that hold others, which are looked at one by one; a custom rule is looked at as a whole.
_HOLDERS = CALLS | {"scan", "cond"}
_OPAQUE = frozenset({"custom_lin", "custom_linear_solve"})
_CLIPS = frozenset({"clip", "maximum", "minimum", "relu", "relu6"})
#: So many operations are looked at that make such numbers; of most nothing is left at the end.
_MAKERS = 50
_SELECTIONS = DROPS | {"select_n", "mul", "dot_general"}


def locate(f: Callable[..., Any], *args: Any, argnums: int | Sequence[int] | None = None, **kwargs: Any) -> Report:
    """Why the gradient of ``f`` is not finite at these arguments: operations, selections to blame, and their places.

    ``f`` takes and returns pytrees; what it returns is summed. ``argnums`` are the positional arguments that are
    differentiated (None: all real ones). Where value and gradient are finite, it takes as long as a gradient that runs
    operation by operation; where not, as long as one for each operation that breaks and each selection.

    The report has ``.ok``, ``.findings`` and a text. A finding is one operation that turned a finite cotangent into nan
    or inf, together with the selection without which it would not have: the one that, if it were the only one to drop
    anything, would keep the operation from doing so. ``genuine`` findings are singular in earnest. Raises what ``f``
    raises when it is traced, NotImplementedError for what ``mask_gradients`` refuses, and TypeError where ``jax.grad``
    has nothing to differentiate, or where ``f`` is a gradient itself.
    """
    refuse_gradient(f)
    program = Program(f, args, kwargs, argnums)
    return program.explain(program.flat.inputs)


def refuse_gradient(f: Callable[..., Any]) -> None:
    """TypeError if ``f`` is not what is differentiated, but the result of that."""
    if _compat.is_gradient(f):
        raise TypeError(
            "this function is a gradient already: pass the loss that it differentiates, locate(loss, x) and not "
            "locate(jax.grad(loss), x). A loss that contains a gradient is fine; to differentiate a gradient once "
            "more, pass lambda x: jax.grad(loss)(x)"
        )


class Program:
    """A call, ready to be explained at other arguments of the same shapes."""

    def __init__(
        self,
        f: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        argnums: int | Sequence[int] | None = None,
    ) -> None:
        self.flat = Flat(f, args, kwargs)
        given = [argnums] if isinstance(argnums, int) else argnums
        beyond = set() if given is None else self.flat.leaves_beyond(given, len(args))
        inputs = [jnp.asarray(value) for value in self.flat.inputs]
        self.perturbed = [
            i for i, value in enumerate(inputs) if jnp.issubdtype(value.dtype, jnp.inexact) and i not in beyond
        ]
        if not self.perturbed:
            of_those = "" if given is None else " of argnums"
            raise TypeError(f"there is nothing to differentiate: no argument{of_those} holds floats; write 0.0 for 0")
        self.closed, _ = self.flat.trace()
        if not any(jnp.issubdtype(each.dtype, jnp.inexact) for each in self.closed.out_avals):
            raise TypeError("there is nothing to differentiate: the function returns no floats; return its value")
        self._tags = Tags(self.closed)
        self.plan = plan(self._tags, inputs, self.perturbed)

    def explain(self, inputs: Sequence[Any], deadline: float = math.inf, cts: Sequence[Any] | None = None) -> Report:
        """The report of one input; after the deadline, no selection is looked for any more.

        ``cts`` are the cotangents of the results. None: ones, and what is not known is a NotImplementedError.
        """
        inputs = [jnp.asarray(value) for value in inputs]
        for by_numpy in (True, False):
            out = (_evaluate.evaluate if by_numpy else _compat.evaluate)(self.plan.forward, inputs)
            values, residuals = out[: self.plan.results], out[self.plan.results :]
            backward = functools.partial(self._backward, residuals, cts, by_numpy)
            plain = backward(Transposer("ieee", strict=cts is None))
            if not finite(plain):  # else what is compiled may round or flush differently
                break
        masked = plain if finite(plain) else backward(Transposer("dead", strict=cts is None))
        flags = bool(finite(plain)), bool(finite(masked))
        search = _Search(backward, inputs, self._tags, deadline)
        findings = () if flags[0] else tuple(search.findings(genuine=not flags[1]))
        late = any(each.select is None and not each.genuine for each in findings) and search.late
        note = "The time was used up: locate(f, *witness) names the selections." if late else ""
        gradients = [self.flat.gradient(dict(zip(self.perturbed, each, strict=True))) for each in (plain, masked)]
        report = Report(bool(finite(values)), *flags, findings, gradient=gradients[0], masked=gradients[1], note=note)
        if search.late:
            return report
        by_number = dict(zip(self.perturbed, map(np.asarray, masked), strict=True))
        by_input = [by_number.get(i) for i in range(len(inputs))]
        return with_smooth(report, inputs, by_input, self._values)

    def _backward(self, residuals: list[Any], cts: Sequence[Any] | None, by_numpy: bool, how: Transposer) -> list[Any]:
        def run(*residuals: Any) -> list[Any]:
            return gradient(self.plan, residuals, how, cts)

        found: list[Any] = _evaluate.evaluate_with_notes(how, run, *residuals) if by_numpy else run(*residuals)
        return found

    def _values(self, inputs: list[Any], wide: bool) -> list[Any]:
        with _compat.double_precision() if wide else contextlib.nullcontext():
            found = jax.jit(self.flat.values)(inputs)
            return [np.asarray(each) for each in found if jnp.issubdtype(each.dtype, jnp.inexact)]


def gradient(
    program: Plan, residuals: Sequence[Any], transposer: Transposer, cts: Sequence[Any] | None = None
) -> list[Any]:
    """The gradient of the sum of all results, or of their products with cotangents."""
    outs = program.linear.jaxpr.outvars
    ones = [jnp.ones(v.aval.shape, v.aval.dtype) for v in outs] if cts is None else cts
    cts = [ct if is_inexact(v) else None for v, ct in zip(outs, ones, strict=True)]
    found = program.run_backward(transposer, residuals, cts)
    inputs = program.linear.jaxpr.invars[len(residuals) :]
    pairs = zip(found, inputs, strict=True)
    return [jnp.zeros(v.aval.shape, v.aval.dtype) if pair is None else pair.ct for pair, v in pairs]


def finite(arrays: Sequence[Any]) -> Any:
    """Whether no element is nan or inf, as a boolean of JAX for its arrays."""
    real = [array for array in arrays if jnp.issubdtype(array.dtype, jnp.inexact)]
    library = np if all(isinstance(array, np.ndarray) for array in real) else jnp
    return library.all(library.array([library.all(library.isfinite(array)) for array in real]))


_What = int | Literal["drops", "spreads", "stops"]


class _Key(NamedTuple):
    """What a note is about: an equation in its programs, and the operand that broke or what happened otherwise."""

    path: Path
    what: _What
    genuine: bool = False

    @property
    def site(self) -> Site:
        return site_of(self.path)

    @property
    def loops(self) -> int:
        """How many axes of the note are rounds."""
        return sum(eqn.primitive.name == "scan" for eqn in self.path[:-1])


@dataclass(eq=False)
class _Break:
    """Elements of an operand's cotangent that an equation made nan or inf of finite ones, in all rounds."""

    key: _Key
    elements: Any
    #: How many selections come later in the program.
    later: int
    #: The clip that put the operand onto the singular point, and whether that drops what came of it.
    onto: Origin | None = None
    stopped: bool = False


class _Watcher(Transposer):
    """Masks, by all selections or by some only, except at one equation; it notes what breaks and what is dropped."""

    watches = True

    def __init__(
        self, *, only: frozenset[Site] | None = None, bare: Site | None = None, at: Site | None = None
    ) -> None:
        super().__init__("dead", strict=False)  # what is not known was refused before, if it is to be
        self._only, self._bare, self._at = only, bare, at

    def drops(self, step: Step) -> bool:
        return self._only is None or _key(step).site in self._only

    def annihilated(self, pair: Pair, product: Any) -> Any:
        dead = self.dead(pair)
        if dead is not None and self._bare is not None:  # what left that equation as nan, no product drops
            dead = dead & jnp.isfinite(pair.ct)
        return zero_where(dead, product)

    def equation(self, step: Step) -> list[Pair | None]:
        if self._bare is not None and _key(step).site == self._bare:
            return bare(step)
        return super().equation(step)

    def watch(self, step: Step, results: list[Pair | None]) -> None:
        if step.name == "cond" and self._only is None:  # an arm reads an operand altogether, or not at all
            unread = [jnp.all(pair.dead) for pair in results if pair and pair.dead is not None]
            self.notes.append((_key(step, "drops"), _some(unread)))
        if step.name in _HOLDERS or any(eqn.primitive.name in _OPAQUE for eqn in step.path):
            return
        if self._bare is not None or (self._at is not None and _key(step).site != self._at):
            return  # nobody reads them
        self.notes += _breaks(step, results)
        if step.name in _SELECTIONS and self._only is None:
            # Also what an outer selection dropped already: the nearer one is to blame.
            dead = [jnp.any(pair.dead) for pair in bare(step, "dead") if pair and pair.dead is not None]
            bad = [~jnp.all(jnp.isfinite(pair.ct)) for pair in step.cts if pair]
            self.notes += [(_key(step, "drops"), _some(dead)), (_key(step, "spreads"), _some(bad))]


def _key(step: Step, what: _What = "drops", genuine: bool = False) -> _Key:
    return _Key((*step.path, step.eqn), what, genuine)


def _some(flags: list[Any]) -> Any:
    return functools.reduce(jnp.logical_or, flags, jnp.array(False))


def bare(step: Step, mode: Mode = "ieee") -> list[Pair | None]:
    """What the equation makes of cotangents of which nothing was dropped yet, by default as JAX does: without masks."""
    cts = [None if pair is None else Pair(pair.ct) for pair in step.cts]
    return Transposer(mode, strict=False).equation(step._replace(cts=cts))


def _breaks(step: Step, results: list[Pair | None]) -> Iterator[tuple[_Key, Any]]:
    """What the equation breaks: kept from it by a mask, or (genuine) not; and what it drops that was broken already."""
    if not is_risky(step.eqn):
        return
    arrived = [jnp.isfinite(pair.ct) for pair in step.cts if pair is not None]
    for i, (raw, masked) in enumerate(zip(bare(step), results, strict=True)):
        if raw is None or masked is None:
            continue
        one_by_one = len(arrived) == 1 and arrived[0].shape == raw.ct.shape
        whole = arrived[0] if one_by_one else jnp.all(jnp.array([*map(jnp.all, arrived)]))
        bad, alive = ~jnp.isfinite(raw.ct), ~jnp.isfinite(masked.ct)
        yield _key(step, i), bad & whole & ~alive
        yield _key(step, i, genuine=True), bad & whole & alive
        if one_by_one:
            yield _key(step, "stops"), bad & ~whole & ~alive


class _Search:
    """The breaks of one gradient, and who is to blame."""

    def __init__(
        self, backward: Callable[[Transposer], list[Any]], inputs: Sequence[Any], tags: Tags, deadline: float
    ) -> None:
        self._backward, self._inputs, self._tags, self._deadline = backward, inputs, tags, deadline
        self._selections: dict[Site, Origin] = {}
        self._indices: set[Site] = set()
        self._matters, self._elements_kept = functools.cache(self._matters_at), functools.cache(self._elements_kept_by)

    @property
    def late(self) -> bool:
        """Whether the time is used up: then no selection is looked for any more."""
        return time.monotonic() > self._deadline

    def findings(self, *, genuine: bool) -> list[Poison]:
        """One for each operation and selection, in the order in which the program runs."""
        found: dict[tuple[object, ...], Poison] = {}
        parts = [(each, *part) for each in reversed(self._breaks()) for part in self._parts(each, genuine=genuine)]
        origins = [self._origin(each.key) for each, _, _ in parts]
        spread = {} if self.late else self._tags.spread(self._inputs, origins)
        for (each, select, elements), origin in zip(parts, origins, strict=True):
            for operand in spread.get(origin.site, ()):
                elements = elements & ~_as_elements(operand, elements, each.key.loops)
            if not np.any(elements):
                continue  # it was given nan or inf by another one that is reported
            poison = _poison(each.key, elements, origin, select)
            key = poison.op, poison.op_at, poison.select, poison.select_at, poison.genuine
            old = found.setdefault(key, poison)
            if (poison.iteration, poison.index) < (old.iteration, old.index):
                found[key] = poison
        return list(found.values())

    def _origin(self, key: _Key) -> Origin:
        return self._tags.origin(key.path[-1], key.path[:-1])

    def _notes(self, watcher: _Watcher) -> Iterator[tuple[_Key, Any]]:
        """What happened in the gradient's backward pass, in its order."""
        self._backward(watcher)
        return ((key, array) for key, array in watcher.notes if np.any(array))

    def _breaks(self) -> list[_Break]:
        breaks: list[_Break] = []
        for key, array in self._notes(_Watcher()):
            if key.what == "drops":
                self._selections[key.site] = self._origin(key)
                self._indices |= {key.site} if key.path[-1].primitive.name in DROPS else set()
            elif isinstance(key.what, int):
                breaks.append(_Break(key, np.asarray(array), len(self._selections)))
            elif key.what == "stops" or self._origin(key).kind in _CLIPS:
                last = next((each for each in reversed(breaks) if each.key.genuine and not each.stopped), None)
                if last is not None:
                    origin = self._origin(key)
                    onto = None if origin.site == self._origin(last.key).site else origin  # its own factor of 0
                    last.onto, last.stopped = last.onto or onto, key.what == "stops"
        return breaks

    def _parts(self, each: _Break, *, genuine: bool) -> Iterator[tuple[Origin | None, Any]]:
        """The elements of a break that are to be reported, by the selection to blame."""
        if each.key.genuine:
            yield from [(each.onto, each.elements)] if genuine or each.stopped else []
        # An inner selection may drop what is singular, and also what would come of an operation without its mask.
        elif self._matters(each.key.site):
            yield from self._blamed(each)

    def _matters_at(self, site: Site) -> bool:
        """Whether the gradient is lost if only this operation is left without a mask: a selection may lie below it."""
        return self.late or not finite(self._backward(_Watcher(bare=site)))

    def _blamed(self, each: _Break) -> Iterator[tuple[Origin | None, Any]]:
        """The nearest selection that suffices alone, or together with the indices, through which others are seen."""
        every, left = list(self._selections), each.elements
        nearest = every[: each.later][::-1]
        if each.key.loops:  # of a later round
            nearest += every[each.later :][::-1]
        for others in (frozenset[Site](), frozenset(self._indices)):
            for site in nearest:
                if self.late:
                    yield None, left
                    return
                kept = left & self._elements_kept(others | {site}, each.key.site).get(each.key.what, False)
                if np.any(kept):
                    yield self._selections[site], kept
                    left = left & ~kept
                if not np.any(left):
                    return
        yield self._selections[nearest[0]] if nearest else None, left

    def _elements_kept_by(self, sites: frozenset[Site], at: Site) -> dict[object, Any]:
        """The elements that these selections alone keep from breaking at an equation, by operand."""
        notes = self._notes(_Watcher(only=sites, at=at))
        return {key.what: np.asarray(array) for key, array in notes if not key.genuine}


def _as_elements(operand: Any, elements: Any, loops: int) -> Any:
    """Which elements an operation may have broken because of these of an operand: the same, or all of the round."""
    if operand.shape == elements.shape:
        return operand
    rounds = elements.shape[:loops] if operand.shape[:loops] == elements.shape[:loops] else ()
    some = operand.any(axis=tuple(range(len(rounds), operand.ndim)))
    return some.reshape(*rounds, *[1] * (elements.ndim - len(rounds)))


def _poison(key: _Key, elements: Any, origin: Origin, select: Origin | None) -> Poison:
    op_at, op_within = origin.places()
    select_at, select_within = select.places() if select else (None, None)
    if not (op_within and select_within):  # of JAX's own functions it is the caller who combines them
        op_within, select_within = (None if p and in_jax(p) else p for p in (op_within, select_within))
    every = np.argwhere(elements)
    iteration = tuple(map(int, every[0][: key.loops]))
    first = [tuple(map(int, index[key.loops :])) for index in every if tuple(index[: key.loops]) == iteration]
    return Poison(
        op=origin.op, op_at=op_at, op_within=op_within, select=select.kind if select else None, select_at=select_at,
        select_within=select_within, index=first[0], iteration=iteration, count=len(first), genuine=key.genuine,
        framework="jax",
    )  # fmt: skip


def explain_value(f: Callable[..., Sequence[Any]], inputs: Sequence[Any]) -> Report:
    """The report on results that are not finite: the first operation that made them so, of finite numbers.

    Without a finding where the inputs are not finite.
    """
    program = jax.make_jaxpr(f)(*inputs)
    for test in (np.isfinite, lambda x: ~np.isnan(x)):  # a nan may be made of infinities that are meant
        makers = _Makers(test)
        makers.of(program, inputs)
        for site, made in list(makers.made.items())[:_MAKERS]:
            if not _Makers(test, makers.made.keys() - {site}).of(program, inputs):
                return Report(False, False, False, (made,))
    return Report(False, False, False)


class _Makers(_evaluate.Host):
    """Notes the operations whose results do not pass a test although their operands do; some are given 1 instead."""

    def __init__(self, passes: Callable[[Any], Any], instead: Collection[Site] = ()) -> None:
        super().__init__()
        self._passes, self._instead = passes, instead
        self.made: dict[Site, Poison] = {}

    def of(self, program: ClosedJaxpr, inputs: Sequence[Any]) -> bool:
        """Whether the results are finite."""
        with np.errstate(all="ignore"):
            return all(np.isfinite(each).all() for each in self.run(program, inputs) if _is_real(each))

    def one(self, eqn: JaxprEqn, given: list[Any], path: Path) -> list[Any]:
        results, operands = super().one(eqn, given, path), [each for each in given if _is_real(each)]
        for i, result in enumerate(results):
            if not _is_real(result):
                continue
            bad = ~self._passes(np.asarray(result))
            for each in operands:
                passed = self._passes(each)
                bad &= passed if each.shape == bad.shape else passed.all()
            if bad.any():
                site = site_of((*path, eqn))
                if site not in self.made:
                    self.made[site] = self._poison(Origin(path, eqn, None), np.argwhere(bad))
                if site in self._instead:
                    results[i] = np.where(bad, 1, result)
        return results

    def _poison(self, origin: Origin, elements: Any) -> Poison:
        at, within = origin.places()
        first = tuple(map(int, elements[0]))
        return Poison(
            origin.op, at, index=first, iteration=tuple(self.rounds), count=len(elements), op_within=within, value=True
        )


def _is_real(array: Any) -> bool:
    return bool(jnp.issubdtype(array.dtype, jnp.inexact))
