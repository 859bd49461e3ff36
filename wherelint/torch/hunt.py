"""Inputs that poison a gradient, from inputs at which all is well."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, zip_longest
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from wherelint.companion import Report
from wherelint.companion.points import TIME, Array, Bounds, Domain, Explained, Hits, combined_points, special_points
from wherelint.torch.aims import Aim, Aims
from wherelint.torch.locate import Traced, finite, gradients, locate, trace
from wherelint.torch.masked import Run

#: How many inputs are explained; how many operands are aimed at, and in how many steps.
_EXPLAINED, _AIMS, _STEPS = 24, 64, 12


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

    At most ``budget`` inputs are tried, none after three quarters of the ``seconds``; the rest is for what they have in
    common. Tensors of floats move and keep type and shape, all other arguments stay; an input at which ``f`` raises is
    none. ``positive`` names arguments that are above 0, by number or parameter, ``bounds`` the least and the greatest
    element of others. A finding has the nearest ``witness``, a tuple of arguments; it is of low confidence if that
    moves an element by more than 1000. Where no selection drops what breaks, the nearest input is the witness of
    ``genuine`` findings, the last ones; ``ok`` is about ``args``. Raises what ``locate`` raises.
    """
    began = time.monotonic()
    search = _Search(f, args, Domain.of(f, len(args), bounds, positive), budget, began + 0.75 * seconds)
    note = search.run(seed)
    report = search.hits.report(search.explain, _EXPLAINED, began + seconds, note)
    return replace(report, tried=search.tried, seconds=time.monotonic() - began)


class _Over(Exception):
    """Budget or time is used up; the message says which."""


@dataclass
class _Search:
    """The inputs that were tried, and those that poison the gradient."""

    f: Callable[..., Any]
    args: tuple[Any, ...]
    domain: Domain
    budget: int
    deadline: float
    tried: int = 0

    def __post_init__(self) -> None:
        self._flat, self._shape = tree_flatten(self.args)
        owners = [number for number, each in enumerate(self.args) for _ in tree_flatten(each)[0]]
        moving = [i for i, each in enumerate(self._flat) if isinstance(each, Tensor) and each.is_floating_point()]
        if not moving:
            raise TypeError("hunt moves tensors of floats, and no argument is one: give some, as torch.tensor(0.5)")
        self._moving, self._owners = moving, [owners[i] for i in moving]
        self.start = [_array(self._flat[i]) for i in moving]
        self.hits = Hits(self.start, self._owners)
        #: Where the steps towards singular points have led.
        self._reached: list[list[Array]] = []

    def run(self, seed: int) -> str:
        """Try everything; a sentence about what was left out, if anything was."""
        with Aims() as aims:
            trace(self.f, self.args)
        try:
            self._try(self.start)
            special = special_points(self.start, aims.literals, seed)
            aimed = chain.from_iterable(self._approach(i, aim) for i, aim in enumerate(islice(aims.found, _AIMS)))
            for point in chain.from_iterable(zip_longest(special, aimed)):
                if point is not None:
                    self._try(point)
            for point in combined_points(self.start, aims.literals, self._reached, seed):
                self._try(point)
        except _Over as over:
            return str(over)
        return ""

    def _try(self, point: list[Array]) -> tuple[Traced, Aims] | None:
        """The call at an input, and what can be aimed at from there; None if it cannot occur."""
        if not all(map(self.domain.allows, self._owners, point)):
            return None
        if self.tried >= self.budget:
            raise _Over(f"The budget of {self.budget} inputs was used up.")
        if time.monotonic() > self.deadline:
            raise _Over(TIME)
        self.tried += 1
        try:
            with Aims() as aims:
                traced = trace(self.f, self._arguments(point))
        except Exception:  # the program refuses that input, in whatever way
            return None
        if traced.value_finite and not finite(gradients(traced)):
            self.hits.add(point, poisoned=finite(gradients(traced, Run())))
        return traced, aims

    def _arguments(self, point: list[Array]) -> tuple[Any, ...]:
        flat = list(self._flat)
        for i, each in zip(self._moving, point, strict=True):
            flat[i] = torch.as_tensor(each).to(flat[i])
        arguments: tuple[Any, ...] = tree_unflatten(flat, self._shape)
        return arguments

    def _approach(self, number: int, aim: Aim) -> Iterator[list[Array]]:
        """Newton steps that bring an operand to its singular point, and steps of twice the length."""
        point = self.start
        for _ in range(_STEPS):
            seen = self._try(point)
            found = seen and next(islice(seen[1].found, number, None), None)
            step = found.step(seen[0].leaves[: len(point)]) if seen and found and found.op == aim.op else None
            if step is None:
                break
            yield _moved(point, step, 2.0)
            point = _moved(point, step, 1.0)
            yield point
            yield [np.round(each, 3) for each in point]
        if point is not self.start:
            self._reached.append(point)

    def explain(self, point: list[Array]) -> Explained:
        """An input as arguments, and what `locate` says of it."""
        arguments = self._arguments(point)
        return arguments, locate(self.f, *arguments)


def _moved(point: list[Array], step: list[Array], length: float) -> list[Array]:
    return [(a - length * b).astype(a.dtype) for a, b in zip(point, step, strict=True)]


def _array(tensor: Tensor) -> Array:
    """The elements, in single precision where NumPy has no such type."""
    known = tensor.dtype in (torch.float32, torch.float64)
    array: Array = tensor.detach().cpu().to(tensor.dtype if known else torch.float32).numpy().copy()
    return array
