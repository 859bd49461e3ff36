"""Inputs that poison a gradient, from inputs at which all is well."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from wherelint.companion import Report
from wherelint.companion.hunt import Array, Bounds, Search
from wherelint.torch.locate import as_array, finite, gradients, locate, trace
from wherelint.torch.masking import Run

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
    element of others. A finding has the nearest ``witness``, a tuple of arguments; it is a warning if that
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
            raise TypeError("hunt needs an argument to change: pass a tensor of floats such as torch.tensor(0.5)")
        start = [as_array(self._flat[i]) for i in self._moving]
        super().__init__(f, len(args), start, [owners[i] for i in self._moving], *options)
        with _Literals() as seen:
            trace(f, args)
        self.literals = list(seen.found)

    def judge(self, points: list[list[Array]]) -> Sequence[int]:
        (point,) = points
        try:
            traced = trace(self._f, self._arguments(point))
        except Exception:  # the program refuses the input, in whatever way
            return [0]
        if not traced.value_finite or finite(gradients(traced)):
            return [0]
        return [1 if finite(gradients(traced, Run())) else 2]

    def _arguments(self, point: list[Array]) -> tuple[Any, ...]:
        flat = list(self._flat)
        for i, each in zip(self._moving, point, strict=True):
            flat[i] = torch.as_tensor(each).to(flat[i])
        arguments: tuple[Any, ...] = tree_unflatten(flat, self._shape)
        return arguments

    def explain(self, point: list[Array]) -> tuple[tuple[Any, ...], Report]:
        arguments = self._arguments(point)
        return arguments, locate(self._f, *arguments)


class _Literals(TorchFunctionMode):
    """Within the block, the program's literals are noted; nan where it asks for missing numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[float, None] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        for each in (*args, *(kwargs or {}).values()):
            if isinstance(each, int | float) and not isinstance(each, bool):
                self.found[float(each)] = None
        name = getattr(func, "__name__", "")
        if name in _MISSING or (name in ("ne", "__ne__") and args[0] is args[1]):
            self.found[math.nan] = None
        return func(*args, **(kwargs or {}))
