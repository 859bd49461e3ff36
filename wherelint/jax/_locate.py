"""``locate``: which operation breaks a gradient, and which selection is to blame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax import numpy as jnp

from wherelint.companion import Poison, Report
from wherelint.jax._activity import is_inexact, is_risky
from wherelint.jax._compat import JaxprEqn
from wherelint.jax._mask import Flat
from wherelint.jax._plan import Plan, plan
from wherelint.jax._primitives import DROPS
from wherelint.jax._tags import Origin, Tags, in_jax
from wherelint.jax._transpose import Mode, Pair, Path, Step, Transposer

#: Equations that hold others, which are looked at one by one; a custom rule is looked at as a whole.
_AROUND = frozenset("jit pjit closed_call core_call call remat2 checkpoint remat scan cond".split())
_WHOLE = frozenset({"custom_lin", "custom_linear_solve"})
_CLIPS = frozenset({"clip", "maximum", "minimum", "relu", "relu6"})
_SELECTIONS = DROPS | {"select_n", "mul", "dot_general"}

#: An equation, whatever the iteration.
Site = tuple[int, ...]


def locate(f: Callable[..., Any], *args: Any, argnums: int | Sequence[int] | None = None, **kwargs: Any) -> Report:
    """Why the gradient of ``f`` is not finite at these arguments: operations, selections to blame, and their places.

    ``f`` takes and returns pytrees; what it returns is summed. ``argnums`` are the positional arguments that are
    differentiated (None: all real ones). Everything runs operation by operation, loops round by round, so that it takes
    longer than a gradient; where value and gradient are finite, it takes as long as one.

    The report has ``.ok``, ``.findings`` and a text. A finding is one operation that turned a finite cotangent into nan
    or inf, together with the selection without which it would not have: the one that, if it were the only one to drop
    anything, would keep the operation from doing so. ``genuine`` findings are singular in earnest. Raises what ``f``
    raises when it is traced, and NotImplementedError for what ``mask_gradients`` refuses.
    """
    program = Program(f, args, kwargs, argnums)
    return program.explain(program.flat.inputs)


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
        self.closed, _ = self.flat.trace()
        given = [argnums] if isinstance(argnums, int) else argnums
        beyond = set() if given is None else self.flat.leaves_beyond([k % len(args) for k in given])
        inputs = [jnp.asarray(value) for value in self.flat.inputs]
        self.perturbed = [
            i for i, value in enumerate(inputs) if jnp.issubdtype(value.dtype, jnp.inexact) and i not in beyond
        ]
        self._tags = Tags(self.closed)
        self.plan = plan(self._tags.run, inputs, self.perturbed)

    def explain(self, inputs: Sequence[Any]) -> Report:
        """The report of one input."""
        values, residuals = self.plan.run_forward([jnp.asarray(value) for value in inputs])
        plain = gradient(self.plan, residuals, Transposer("ieee"))
        masked = plain if all_finite(plain) else gradient(self.plan, residuals, Transposer("dead"))
        finite = all_finite(plain), all_finite(masked)
        search = _Search(self.plan, residuals, self._tags)
        findings = () if finite[0] else tuple(search.findings(genuine=not finite[1]))
        shaped = [self.flat.gradient(dict(zip(self.perturbed, each, strict=True))) for each in (plain, masked)]
        return Report(all_finite(values), *finite, findings, gradient=shaped[0], masked=shaped[1])


def gradient(program: Plan, residuals: Sequence[Any], transposer: Transposer) -> list[Any]:
    """The gradient of the sum of all results."""
    outs = program.linear.jaxpr.outvars
    cts = [jnp.ones(v.aval.shape, v.aval.dtype) if is_inexact(v) else None for v in outs]
    found = program.run_backward(transposer, residuals, cts)
    inputs = program.linear.jaxpr.invars[len(residuals) :]
    return [
        jnp.zeros(v.aval.shape, v.aval.dtype) if pair is None else pair.ct
        for pair, v in zip(found, inputs, strict=True)
    ]


def _finite(array: Any) -> bool:
    return not jnp.issubdtype(array.dtype, jnp.inexact) or bool(jnp.all(jnp.isfinite(array)))


def all_finite(arrays: Sequence[Any]) -> bool:
    """Whether no element is nan or inf."""
    return all(map(_finite, arrays))


@dataclass(eq=False)
class _Break:
    """Elements of an operand's cotangent that an equation made nan or inf of finite ones."""

    site: Site
    eqn: JaxprEqn
    path: Path
    operand: int
    elements: Any
    genuine: bool
    #: The clip that put the operand onto the singular point.
    onto: Origin | None = None

    @property
    def rounds(self) -> tuple[int, ...]:
        """The iteration of every loop around it."""
        return tuple(t for eqn, t in self.path if t is not None and eqn.primitive.name == "scan")


def _site(eqn: JaxprEqn, path: Path) -> Site:
    return (*(id(around) for around, _ in path), id(eqn))


class _Watcher(Transposer):
    """Masks, by all selections or by one only, except at one equation; it sees every equation on the way."""

    def __init__(
        self,
        seen: Callable[[Step, list[Pair | None]], None],
        *,
        only: frozenset[Site] | None = None,
        bare: Site | None = None,
    ) -> None:
        super().__init__("dead", unroll=True)
        self._seen, self._only, self._bare = seen, only, bare

    def drops(self, step: Step) -> bool:
        return self._only is None or _site(step.eqn, step.path) in self._only

    def equation(self, step: Step) -> list[Pair | None]:
        if self._bare is not None and _site(step.eqn, step.path) == self._bare:
            return bare(step)
        return super().equation(step)

    def watch(self, step: Step, results: list[Pair | None]) -> None:
        if step.name not in _AROUND and not any(eqn.primitive.name in _WHOLE for eqn, _ in step.path):
            self._seen(step, results)


def bare(step: Step, mode: Mode = "ieee") -> list[Pair | None]:
    """What the equation makes of cotangents of which nothing was dropped yet, by default as JAX does: without masks."""
    cts = [None if pair is None else Pair(pair.ct) for pair in step.cts]
    return Transposer(mode, unroll=True).equation(step._replace(cts=cts))


class _Search:
    """The breaks of one gradient, and who is to blame."""

    def __init__(self, program: Plan, residuals: Sequence[Any], tags: Tags) -> None:
        self._program, self._residuals, self._tags = program, residuals, tags
        self._breaks: list[_Break] = []
        self._selections: dict[Site, Origin] = {}
        self._indices: set[Site] = set()
        self._kept: dict[frozenset[Site], list[_Break]] = {}

    def findings(self, *, genuine: bool) -> list[Poison]:
        """One for each operation and selection, in the order in which the program runs."""
        gradient(self._program, self._residuals, _Watcher(self._look))
        found: dict[tuple[object, ...], Poison] = {}
        for each in reversed(self._breaks):
            # An inner selection may drop what is singular, and also what would come of an operation without its mask.
            if not (genuine if each.genuine else self._matters(each)):
                continue
            select = each.onto if each.genuine else self._blamed(each)
            poison = _poison(each, self._tags.origin(each.eqn, [eqn for eqn, _ in each.path]), select)
            key = poison.op, poison.op_at, poison.select, poison.select_at, poison.genuine
            old = found.setdefault(key, poison)
            if (poison.iteration, poison.index) < (old.iteration, old.index):
                found[key] = poison
        return list(found.values())

    def _look(self, step: Step, results: list[Pair | None]) -> None:
        self._breaks += _breaks(step, results)
        if step.name not in _SELECTIONS:
            return
        site, origin = _site(step.eqn, step.path), self._tags.origin(step.eqn, [eqn for eqn, _ in step.path])
        # Also what an outer selection dropped already: the nearer one is to blame.
        if any(pair is not None and pair.dead is not None and bool(jnp.any(pair.dead)) for pair in bare(step, "dead")):
            self._selections[site] = origin
            self._indices |= {site} if step.name in DROPS else set()
        if origin.kind in _CLIPS and not all_finite([pair.ct for pair in step.cts if pair is not None]):
            last = next((each for each in reversed(self._breaks) if each.genuine), None)
            if last is not None and last.onto is None:
                last.onto = origin

    def _matters(self, each: _Break) -> bool:
        """Whether the gradient is lost if only this operation is left without a mask: a selection may lie below it."""
        watcher = _Watcher(lambda step, results: None, bare=each.site)
        return not all_finite(gradient(self._program, self._residuals, watcher))

    def _blamed(self, each: _Break) -> Origin | None:
        """The nearest selection that suffices alone, or together with the indices, through which others are seen."""
        nearest = list(reversed(self._selections))
        indices = frozenset(self._indices)
        for others in (frozenset[Site](), indices):
            for site in nearest:
                if self._suffices(others | {site}, each):
                    return self._selections[site]
        return self._selections[nearest[0]] if nearest else None

    def _suffices(self, sites: frozenset[Site], each: _Break) -> bool:
        """Whether these selections alone keep an equation from breaking."""
        if sites not in self._kept:
            kept: list[_Break] = []
            watcher = _Watcher(lambda step, results: kept.extend(_breaks(step, results)), only=sites)
            gradient(self._program, self._residuals, watcher)
            self._kept[sites] = [other for other in kept if not other.genuine]
        return any(
            (other.site, other.rounds, other.operand) == (each.site, each.rounds, each.operand)
            and bool(jnp.all(other.elements | ~each.elements))
            for other in self._kept[sites]
        )


def _breaks(step: Step, results: list[Pair | None]) -> list[_Break]:
    """What the equation makes of finite cotangents: kept from breaking by a mask, or (genuine) not."""
    if not is_risky(step.eqn):
        return []
    arrived = [pair.ct for pair in step.cts if pair is not None]
    found = []
    for i, (raw, masked) in enumerate(zip(bare(step), results, strict=True)):
        if raw is None or masked is None or _finite(raw.ct):
            continue
        bad = ~jnp.isfinite(raw.ct)
        if len(arrived) == 1 and arrived[0].shape == bad.shape:
            bad = bad & jnp.isfinite(arrived[0])
        elif not all_finite(arrived):
            continue
        alive = ~jnp.isfinite(masked.ct)
        for elements, genuine in ((bad & ~alive, False), (bad & alive, True)):
            if bool(jnp.any(elements)):
                found.append(_Break(_site(step.eqn, step.path), step.eqn, step.path, i, elements, genuine))
    return found


def _poison(each: _Break, origin: Origin, select: Origin | None) -> Poison:
    op_at, op_within = origin.places()
    select_at, select_within = select.places() if select else (None, None)
    if not (op_within and select_within):  # of JAX's own functions it is the caller who combines them
        op_within, select_within = (None if p and in_jax(p) else p for p in (op_within, select_within))
    elements = np.argwhere(np.asarray(each.elements))
    return Poison(
        op=origin.op, op_at=op_at, op_within=op_within, select=select.kind if select else None, select_at=select_at,
        select_within=select_within, index=tuple(int(k) for k in elements[0]), iteration=each.rounds,
        count=len(elements), genuine=each.genuine, framework="jax",
    )  # fmt: skip
