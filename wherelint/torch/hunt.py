"""Inputs that poison a gradient, from inputs at which all is well."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from wherelint.companion import Report
from wherelint.companion.hunt import Array, Bounds, Search
from wherelint.companion.nearness import aims
from wherelint.ops import Operation
from wherelint.torch import compat
from wherelint.torch.locate import Traced, as_array, finite, gradients, locate, trace
from wherelint.torch.masked import Run
from wherelint.torch.trace import singular

#: How many operands are aimed at, and in how many steps.
_AIMS, _STEPS = 64, 12
#: Where a program asks for one of these, a missing number may occur.
_MISSING = frozenset("isnan isfinite nan_to_num nansum nanmean nanmedian".split())


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
    return _Search(f, args, time.monotonic(), budget, seconds, seed, positive, bounds).report()


class _Search(Search):
    most = 24

    def __init__(self, f: Callable[..., Any], args: tuple[Any, ...], *options: Any) -> None:
        self._f = f
        self._flat, self._shape = tree_flatten(args)
        owners = [number for number, each in enumerate(args) for _ in tree_flatten(each)[0]]
        self._moving = [i for i, x in enumerate(self._flat) if isinstance(x, Tensor) and x.is_floating_point()]
        if not self._moving:
            raise TypeError("hunt moves tensors of floats, and no argument is one: give some, as torch.tensor(0.5)")
        start = [as_array(self._flat[i]) for i in self._moving]
        super().__init__(f, len(args), start, [owners[i] for i in self._moving], *options)
        with Aims() as seen:
            trace(f, args)
        self._aims, self.literals = seen.found[:_AIMS], list(seen.literals)

    def _traced(self, point: list[Array]) -> Traced | None:
        """The call at an input; None where the program refuses it, in whatever way."""
        try:
            return trace(self._f, self._arguments(point))
        except Exception:
            return None

    def judge(self, points: list[list[Array]]) -> Sequence[int]:
        (point,) = points
        traced = self._traced(point)
        if traced is None or not traced.value_finite or finite(gradients(traced)):
            return [0]
        return [1 if finite(gradients(traced, Run())) else 2]

    def _arguments(self, point: list[Array]) -> tuple[Any, ...]:
        flat = list(self._flat)
        for i, each in zip(self._moving, point, strict=True):
            flat[i] = torch.as_tensor(each).to(flat[i])
        arguments: tuple[Any, ...] = tree_unflatten(flat, self._shape)
        return arguments

    def approaches(self) -> Iterator[list[Array]]:
        return chain.from_iterable(self._approach(number, aim) for number, aim in enumerate(self._aims))

    def _approach(self, number: int, aim: "Aim") -> Iterator[list[Array]]:
        """Newton steps that bring an operand to its singular point, and steps of twice the length."""
        point = self.start
        for _ in range(_STEPS):
            with Aims() as seen:
                traced = self._traced(point) if self.allows(point) else None
            found = next(islice(seen.found, number, None), None)
            step = found.step(traced.leaves[: len(point)]) if traced and found and found.op == aim.op else None
            if step is None:
                return
            yield _moved(point, step, 2.0)
            point = _moved(point, step, 1.0)
            yield point
            yield [np.round(each, 3) for each in point]

    def explain(self, point: list[Array]) -> tuple[tuple[Any, ...], Report]:
        arguments = self._arguments(point)
        return arguments, locate(self._f, *arguments)


def _moved(point: list[Array], step: list[Array], length: float) -> list[Array]:
    return [(a - length * b).astype(a.dtype) for a, b in zip(point, step, strict=True)]


@dataclass(frozen=True)
class Aim:
    """Operands of one call, and the numbers at which the operation is singular."""

    op: str
    operands: tuple[Tensor, ...]
    targets: tuple[float, ...]

    def step(self, leaves: Sequence[Tensor]) -> list[Array] | None:
        """The Newton step of the leaves, to be subtracted; None where nothing moves the operands."""
        gap = sum(((each - target) ** 2).sum() for each, target in zip(self.operands, self.targets, strict=True))
        if not isinstance(gap, Tensor) or not gap.requires_grad:
            return None
        slopes = torch.autograd.grad(gap, list(leaves), retain_graph=True, allow_unused=True)
        known = [torch.zeros_like(x) if g is None else torch.nan_to_num(g, 0.0, 0.0, 0.0)
                 for x, g in zip(leaves, slopes, strict=True)]  # fmt: skip
        square = sum(float((g.double() ** 2).sum()) for g in known)
        length = 2 * float(gap.detach()) / square if square else 0.0
        if not 0 < length < float("inf"):
            return None
        return [(length * g).detach().cpu().float().numpy() for g in known]


class Aims(TorchFunctionMode):
    """Within the block, the calls of singular operations are noted, and the program's literals."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Aim] = []
        self.literals: dict[float, None] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        for each in (*args, *(kwargs or {}).values()):
            if isinstance(each, int | float) and not isinstance(each, bool):
                self.literals[float(each)] = None
        name = getattr(func, "__name__", "")
        if name in _MISSING or (name in ("ne", "__ne__") and args[0] is args[1]):
            self.literals[math.nan] = None
        if (operation := singular(name, args)) is not None:
            with compat.without_modes():
                self._aim(operation, args)
        return func(*args, **(kwargs or {}))

    def _aim(self, operation: Operation, args: Sequence[Any]) -> None:
        for targets in aims(operation.name, "torch"):
            aimed = {args[i]: target for i, target in targets if i < len(args) and _moves(args[i])}
            operands, points = tuple(aimed), tuple(aimed.values())
            if operation.mixes and operands:
                self.found.append(Aim(operation.name, operands, points))
                continue
            size = min((operand.numel() for operand in operands), default=0)
            near = int((operands[0].detach().reshape(-1)[:size] - points[0]).abs().argmin()) if size else 0
            for element in dict.fromkeys((near, 0, size // 2, size - 1)) if size else ():
                chosen = tuple(operand.reshape(-1)[element] for operand in operands)
                self.found.append(Aim(operation.name, chosen, points))


def _moves(operand: Any) -> bool:
    return isinstance(operand, Tensor) and operand.requires_grad and operand.is_floating_point()
