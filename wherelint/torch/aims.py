"""What a search can aim at: the operands of the singular operations of a program, as it runs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from wherelint.companion.points import Array
from wherelint.ops import OPERATIONS, Operation
from wherelint.torch import compat
from wherelint.torch.trace import catalogued

#: What operators are, by the names of their methods.
_OPERATORS = {"__truediv__": "div", "__rtruediv__": "reciprocal", "__rdiv__": "reciprocal", "__pow__": "pow"}
#: Where a program asks for one of these, a missing number may occur.
_MISSING = frozenset("isnan isfinite nan_to_num nansum nanmean nanmedian".split())


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
        self._note(name, args)
        return func(*args, **(kwargs or {}))

    def _note(self, name: str, args: Sequence[Any]) -> None:
        operation = singular(name, args)
        if operation is None:
            return
        for targets in _targets(operation):
            aimed = {i: t for i, t in targets.items() if i < len(args) and _moves(args[i])}
            if aimed:
                with compat.without_modes():
                    self._aim(operation, {args[i]: target for i, target in aimed.items()})

    def _aim(self, operation: Operation, aimed: Mapping[Tensor, float]) -> None:
        operands, targets = tuple(aimed), tuple(aimed.values())
        if operation.mixes:
            self.found.append(Aim(operation.name, operands, targets))
            return
        size = min(each.numel() for each in operands)
        near = int((operands[0].detach().reshape(-1)[:size] - targets[0]).abs().argmin()) if size else 0
        for element in dict.fromkeys((near, 0, size // 2, size - 1)) if size else ():
            chosen = tuple(each.reshape(-1)[element] for each in operands)
            self.found.append(Aim(operation.name, chosen, targets))


def singular(name: str, args: Sequence[Any]) -> Operation | None:
    """The operation of the catalogue that a function of torch computes, if it is singular anywhere."""
    name = _OPERATORS.get(name, name).rstrip("_")
    operation = OPERATIONS.get(catalogued(name) or "")
    if not operation or not operation.code or (name == "pow" and _is_tame(args[1:])):
        return None
    return operation


def _moves(operand: Any) -> bool:
    return isinstance(operand, Tensor) and operand.requires_grad and operand.is_floating_point()


def _is_tame(exponent: Sequence[Any]) -> bool:
    """A power with a whole exponent from 1 on is singular nowhere."""
    return (
        bool(exponent) and isinstance(exponent[0], int | float) and exponent[0] >= 1 and exponent[0] == int(exponent[0])
    )


def _targets(operation: Operation) -> list[dict[int, float]]:
    """The operands that matter at each singular point: the others take several values there, or all do."""
    points = [point for point in operation.singular if all(abs(each) < 1e9 for each in point)]
    found: list[dict[int, float]] = []
    for point in points:
        free = {
            i for i in range(len(point)) for other in points
            if len(other) == len(point) and [j for j in range(len(point)) if other[j] != point[j]] == [i]
        }  # fmt: skip
        matter = {i: each for i, each in enumerate(point) if i not in free} or {0: point[0]}
        if matter not in found:
            found.append(matter)
    return found
