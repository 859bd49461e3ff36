"""``locate``: which operation breaks a gradient, and which selection is to blame."""

import contextlib
import functools
import math
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import numpy as jnp

from wherelint.companion import Poison, Report
from wherelint.companion.frames import is_library
from wherelint.companion.hunt import TIME, chosen_arguments
from wherelint.companion.smooth import with_smooth
from wherelint.jax import _compat, _evaluate
from wherelint.jax._compat import ClosedJaxpr, JaxprEqn, Path
from wherelint.jax._mask import Flat, plan
from wherelint.jax._primitives import CALLS, DROPS, MOVES, SAME
from wherelint.jax._tags import Origin, Tags, in_jax
from wherelint.jax._transpose import Pair, Step, Transposer, zero_where

#: Equations that hold others, which are looked at one by one; a custom rule is looked at as a whole.
_HOLDERS = CALLS | {"scan", "cond"}
_OPAQUE = frozenset({"custom_lin", "custom_linear_solve"})
_CLIPS = frozenset({"clip", "maximum", "minimum", "relu", "relu6"})
#: So many operations are looked at that make such numbers; of most nothing is left at the end.
_MAKERS = 50
#: The names by which code takes a gradient.
_TAKES_GRADIENTS = re.compile(r"grad|linearize|\w*(vjp|value_and_grad)").fullmatch
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


def refuse_gradient(f: Any) -> None:
    """TypeError if ``f`` is a gradient that a library made, as ``jax.grad`` does; also below ``jit`` and ``vmap``.

    Its code, or that of what it closes over, takes one by name. The program's own functions may be losses.
    """
    todo, seen = [f], list[Any]()
    while todo:
        each = todo.pop()
        code = getattr(each, "__code__", None) or getattr(type(each).__call__, "__code__", None)
        if any(each is one for one in seen) or (code is not None and not is_library(code.co_filename)):
            continue
        seen.append(each)
        if code is not None and any(map(_TAKES_GRADIENTS, (code.co_name, *code.co_names))):
            raise TypeError(
                "this function is already a gradient: write locate(loss, x) instead of locate(jax.grad(loss), x). "
                "A loss that contains a gradient is fine. To differentiate a gradient once more, pass "
                "lambda x: jax.grad(loss)(x)"
            )
        inside = [getattr(each, name, None) for name in ("__wrapped__", "func", "__func__")]
        inside += [cell.cell_contents for cell in getattr(each, "__closure__", None) or ()]
        todo += filter(callable, inside)


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
        chosen = chosen_arguments(argnums, len(args)) | ({-1} if argnums is None else set())
        inputs = [jnp.asarray(value) for value in self.flat.inputs]
        is_real = [jnp.issubdtype(value.dtype, jnp.inexact) for value in inputs]
        self.perturbed = [i for i, owner in enumerate(self.flat.owners) if is_real[i] and owner in chosen]
        if not self.perturbed:
            of_those = "" if argnums is None else " of argnums"
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
        out = _evaluate.evaluate(self.plan.forward, [jnp.asarray(value) for value in inputs])
        values, residuals = out[: self.plan.results], out[self.plan.results :]

        def backward(how: Transposer) -> list[Any]:
            run = functools.partial(self.plan.gradient, how, cts)
            gradient: list[Any] = _evaluate.evaluate_with_notes(how, run, residuals)
            return gradient

        plain = backward(Transposer(masks=False, strict=cts is None))
        masked = plain if finite(plain) else backward(Transposer(strict=cts is None))
        flags = bool(finite(plain)), bool(finite(masked))
        search = _Search(backward, self._tags, deadline)
        findings = () if flags[0] else tuple(search.findings(genuine=not flags[1]))
        note = TIME if search.late and any(not each.select and not each.genuine for each in findings) else ""
        gradients = [self.flat.gradient(dict(zip(self.perturbed, each, strict=True))) for each in (plain, masked)]
        report = Report(bool(finite(values)), *flags, findings, gradient=gradients[0], masked=gradients[1], note=note)
        by_number = dict(zip(self.perturbed, map(np.asarray, masked), strict=True))
        lost = [None if search.late else by_number.get(i) for i in range(len(inputs))]
        return with_smooth(report, inputs, lost, self._values)

    def _values(self, inputs: list[Any], wide: bool) -> list[Any]:
        with _compat.double_precision() if wide else contextlib.nullcontext():
            found = jax.jit(self.flat.values)(inputs)
            return [np.asarray(each) for each in found if jnp.issubdtype(each.dtype, jnp.inexact)]


def finite(arrays: Sequence[Any]) -> Any:
    """Whether no element is nan or inf, as a boolean of JAX for its arrays."""
    real = [array for array in arrays if jnp.issubdtype(array.dtype, jnp.inexact)]
    library = np if all(isinstance(array, np.ndarray) for array in real) else jnp
    return library.all(library.array([library.all(library.isfinite(array)) for array in real]))


class _Key(NamedTuple):
    """What a note is about: an equation below those that it lies in, and the operand that broke; None: if it drops."""

    path: Path
    operand: int | None = None
    genuine: bool = False
    #: Of a selection: "arrives" or "dropped", of a cotangent that is not finite.
    broken: str = ""

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
    #: The clip that put the operand onto the singular point.
    onto: Origin | None = None


class _Watcher(Transposer):
    """Masks, by all selections or by some only, except at one equation; it notes what breaks and what is dropped."""

    watches = True

    def __init__(self, *, only: frozenset[Path] | None = None, bare: Path | None = None) -> None:
        super().__init__(strict=False)  # what is not known was refused before, if it is to be
        self._only, self._bare = only, bare

    def drops(self, step: Step) -> bool:
        return self._only is None or step.inside in self._only

    def annihilated(self, pair: Pair, product: Any) -> Any:
        dead = pair.dead
        if dead is not None and self._bare is not None:  # what left that equation as nan, no product drops
            dead = dead & jnp.isfinite(pair.ct)
        return zero_where(dead, product)

    def equation(self, step: Step) -> list[Pair | None]:
        return bare(step) if step.inside == self._bare else super().equation(step)

    def watch(self, step: Step, results: list[Pair | None]) -> None:
        if step.name == "cond" and self._only is None:  # an arm reads an operand altogether, or not at all
            unread = [jnp.all(pair.dead) for pair in results if pair and pair.dead is not None]
            self.notes.append((_Key(step.inside), _some(unread)))
        is_inside = any(eqn.primitive.name in _OPAQUE for eqn in step.path)
        if step.name in _HOLDERS or is_inside or self._bare is not None:  # whose notes nobody reads
            return
        self.notes += _breaks(step, results)
        if step.name in _SELECTIONS and self._only is None:
            # Also what an outer selection dropped already: the nearer one is to blame.
            dead = [pair.dead for pair in bare(step, masks=True) if pair and pair.dead is not None]
            bad = [~jnp.isfinite(pair.ct) for pair in step.cts if pair]
            dropped = [each & bad[0] for each in dead if each.shape == bad[0].shape]
            flags = {"": dead, "arrives": bad, "dropped": dropped}
            self.notes += [(_Key(step.inside, broken=name), _some(map(jnp.any, each))) for name, each in flags.items()]


def _some(flags: Iterable[Any]) -> Any:
    return functools.reduce(jnp.logical_or, flags, jnp.array(False))


def bare(step: Step, *, masks: bool = False) -> list[Pair | None]:
    """What the equation makes of cotangents of which nothing was dropped yet, by default as JAX does: without masks."""
    cts = [None if pair is None else Pair(pair.ct) for pair in step.cts]
    return Transposer(masks=masks, strict=False).equation(step._replace(cts=cts))


def _breaks(step: Step, results: list[Pair | None]) -> Iterator[tuple[_Key, Any]]:
    """What the equation breaks: kept from it by a mask, or (genuine) not."""
    if step.name in {*SAME, *MOVES, *DROPS, "select_n"}:
        return
    arrived = [jnp.isfinite(pair.ct) for pair in step.cts if pair is not None]
    for i, (raw, masked) in enumerate(zip(bare(step), results, strict=True)):
        if raw is None or masked is None:
            continue
        one_by_one = len(arrived) == 1 and arrived[0].shape == raw.ct.shape
        whole = arrived[0] if one_by_one else jnp.all(jnp.array([*map(jnp.all, arrived)]))
        bad, alive = ~jnp.isfinite(raw.ct), ~jnp.isfinite(masked.ct)
        yield _Key(step.inside, i), bad & whole & ~alive
        yield _Key(step.inside, i, genuine=True), bad & whole & alive


class _Search:
    """The breaks of one gradient, and who is to blame."""

    def __init__(self, backward: Callable[[Transposer], list[Any]], tags: Tags, deadline: float) -> None:
        self._backward, self._tags, self._deadline = backward, tags, deadline
        self._selections: dict[Path, Origin] = {}
        self._indices: set[Path] = set()
        self._matters = functools.cache(self._matters_at)
        self._elements_saved = functools.cache(self._elements_saved_by)

    @property
    def late(self) -> bool:
        """Whether the time is used up."""
        return time.monotonic() > self._deadline

    def findings(self, *, genuine: bool) -> list[Poison]:
        """One for each operation and selection, in the order in which the program runs."""
        found: dict[tuple[object, ...], Poison] = {}
        for each in reversed(self._breaks()):
            for select, elements in self._parts(each, genuine=genuine):
                poison = _poison(each.key, elements, self._origin(each.key), select)
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
            if key.broken:
                last = next((each for each in reversed(breaks) if each.key.genuine), None)
                origin = self._origin(key)
                is_clip = key.broken == "dropped" or origin.kind in _CLIPS
                if last and is_clip and origin != self._origin(last.key):
                    last.onto = last.onto or origin
            elif key.operand is None:
                self._selections[key.path] = self._origin(key)
                self._indices |= {key.path} if key.path[-1].primitive.name in DROPS else set()
            else:
                breaks.append(_Break(key, np.asarray(array), len(self._selections)))
        return breaks

    def _parts(self, each: _Break, *, genuine: bool) -> Iterator[tuple[Origin | None, Any]]:
        """The elements of a break that are to be reported, by the selection to blame."""
        if each.key.genuine:
            yield from [(each.onto, each.elements)] if genuine or each.onto else []
        # An inner selection may drop what is singular, and also what would come of an operation without its mask.
        elif self._matters(each.key.path):
            yield from self._blamed(each)

    def _matters_at(self, path: Path) -> bool:
        """Whether the gradient is lost if only this operation is left without a mask: a selection may lie below it."""
        return self.late or not finite(self._backward(_Watcher(bare=path)))

    def _blamed(self, each: _Break) -> Iterator[tuple[Origin | None, Any]]:
        """The nearest selection that suffices alone, or together with the indices, through which others are seen."""
        every, left = list(self._selections), each.elements
        nearest = every[: each.later][::-1]
        if each.key.loops:  # of a later round
            nearest += every[each.later :][::-1]
        for others in (frozenset[Path](), frozenset(self._indices)):
            for path in nearest:
                if self.late:
                    yield None, left
                    return
                saved = left & self._elements_saved(others | {path}).get((each.key.path, each.key.operand), False)
                if np.any(saved):
                    yield self._selections[path], saved
                    left = left & ~saved
                if not np.any(left):
                    return
        yield self._selections[nearest[0]] if nearest else None, left

    def _elements_saved_by(self, selections: frozenset[Path]) -> dict[tuple[Path, int | None], Any]:
        """The elements that these selections alone keep from breaking, by equation and operand."""
        notes = self._notes(_Watcher(only=selections))
        return {(key.path, key.operand): np.asarray(array) for key, array in notes if not key.genuine}


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
    for passes in (np.isfinite, lambda x: ~np.isnan(x)):  # a nan may be made of infinities that are meant
        first = _Makers(passes)
        first.is_finite(program, inputs)
        for path, poison in list(first.found.items())[:_MAKERS]:
            if not _Makers(passes, first.found.keys() - {path}).is_finite(program, inputs):
                return Report(False, False, False, (poison,))
    return Report(False, False, False)


class _Makers(_evaluate.Host):
    """Finds the operations whose results do not pass a test although their operands do; some ``repaired`` give 1."""

    def __init__(self, passes: Callable[[Any], Any], repaired: Collection[Path] = ()) -> None:
        super().__init__()
        self._passes, self._repaired = passes, repaired
        self.found: dict[Path, Poison] = {}

    def is_finite(self, program: ClosedJaxpr, inputs: Sequence[Any]) -> bool:
        """Whether the results are finite."""
        with np.errstate(all="ignore"):
            return bool(finite(self.run(program, inputs)))

    def one(self, eqn: JaxprEqn, operands: list[Any], path: Path) -> list[Any]:
        results, inside = super().one(eqn, operands, path), (*path, eqn)
        passed = [self._passes(x) for x in operands if jnp.issubdtype(x.dtype, jnp.inexact)]
        for i, result in enumerate(results):
            if jnp.issubdtype(result.dtype, jnp.inexact):
                bad = ~self._passes(np.asarray(result))
                for each in passed:
                    bad &= each if each.shape == bad.shape else each.all()
                if bad.any() and inside not in self.found:
                    self.found[inside] = self._poison(Origin(path, eqn, None), np.argwhere(bad))
                if inside in self._repaired:
                    results[i] = np.where(bad, 1, result)
        return results

    def _poison(self, origin: Origin, elements: Any) -> Poison:
        at, within = origin.places()
        return Poison(
            origin.op, at, index=tuple(map(int, elements[0])), iteration=tuple(self.rounds), count=len(elements),
            op_within=within, value=True,
        )  # fmt: skip
