"""Gradient coverage of torch: the calls that made the nodes which a backward pass goes through."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from wherelint.companion.coverage import Marks
from wherelint.companion.frames import Frame
from wherelint.companion.nearness import nearest
from wherelint.companion.patching import override
from wherelint.io.gradient_coverage import Distance
from wherelint.ops import OPERATIONS, Operation
from wherelint.torch import compat
from wherelint.torch.masking import nodes
from wherelint.torch.trace import _KEY, Labels, catalogue_name, label

#: What a program asks a tensor for, an operation does not make.
_ASKED = (bool, int, float, torch.Size, torch.dtype, torch.device, torch.layout)
#: What operators are, by the names of their methods.
_OPERATORS = {"__truediv__": "div", "__rtruediv__": "reciprocal", "__rdiv__": "reciprocal", "__pow__": "pow"}


@contextmanager
def record(path: str | os.PathLike[str], root: str | os.PathLike[str] = ".") -> Iterator[None]:
    """Note which calls gradients pass in the block, and write them to a file, beside what it says already.

    Only files below ``root`` count; forward and backward have to run in the block, on the thread that entered it. What
    ``torch.compile`` or ``torch.jit`` runs is not seen.
    """
    marks = Marks(os.path.abspath(root))
    with hook(marks):
        yield
    marks.coverage().save(Path(path))


@contextmanager
def hook(marks: Marks) -> Iterator[None]:
    """Mark what is recorded and differentiated in the block."""
    seen = _Coverage(marks)

    def run(backward: compat.Backward, roots: Sequence[Any], *rest: Any) -> Any:
        with compat.without_modes():
            seen.passed.update({id(stack): stack for stack in map(label, nodes(roots))})
        with seen.again():
            return backward(roots, *rest)

    with seen, compat.around_backward(run), compat.around_compiled(seen.aside):
        yield
    marks.gradient.update(*seen.passed.values())
    marks.ran.update(seen.ran, (stack[0] for stack in seen.stacks.values() if stack))
    marks.blocked.update(seen.blocked)
    for (_, _, code, point, _), (frame, numbers) in seen.distances.items():
        with suppress(Exception):  # the program may have lost the device
            least, mean = numbers.tolist()
            marks.came(frame, Distance(code, point, least, -mean))


class _Coverage(Labels):
    """Labels with the frames of the program alone; and which calls ran with gradients switched on or off."""

    def __init__(self, marks: Marks) -> None:
        super().__init__()
        self._ours = marks.ours
        #: Every stack that made a node, once; those that a gradient passed, by identity.
        self.stacks: dict[tuple[Frame, ...], tuple[Frame, ...]] = {}
        self.passed: dict[int, tuple[Frame, ...]] = {}
        #: What else ran with gradients switched on or off.
        self.ran, self.blocked = set[Frame](), set[Frame]()
        #: Of singular operations, how near an operand came to each point, on the device that it is on.
        self.distances: dict[tuple[Any, ...], tuple[Frame, Tensor]] = {}

    @contextmanager
    def again(self) -> Iterator[None]:
        """See what a backward pass computes again: the call that began it is no longer looked into."""
        TorchFunctionMode.__enter__(self)
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1
            TorchFunctionMode.__exit__(self, None, None, None)

    def aside(self, run: Any, model: Any, args: Any, kwargs: Any) -> Any:
        """Call what ``torch.compile`` made, and be out of the way: it would compile this, too."""
        with override(torch.autograd.Function, apply=self._apply), compat.without_modes():
            return run(*args, **kwargs)

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **kwargs) if kwargs else func(*args)
        if isinstance(result, _ASKED):
            return result
        if torch.is_grad_enabled():
            new = self.label_new(result, args)
            if not new:
                self.ran.update(self.here()[:1])
            elif isinstance(result, Tensor) and new[0].metadata[_KEY]:
                with suppress(Exception):  # never the program's business
                    self._measure(func.__name__, args, result, new[0].metadata[_KEY][0])
        elif not self.inside:
            self.blocked.update(self.here()[:1])
        return result

    def _measure(self, name: str, args: Sequence[Any], result: Tensor, frame: Frame) -> None:
        """Note how near the operands of a call came to its singular points."""
        operation = _singular(name, args)
        if operation is None or operation.code is None or torch.compiler.is_compiling():
            return
        if name.endswith("_") and not name.startswith("__"):  # the operand is overwritten
            return
        if result.is_cuda and torch.cuda.is_current_stream_capturing():
            return
        op = "integer_power" if operation.name == "power" and isinstance(args[1], int) else operation.name
        with compat.without_modes(), torch.no_grad():
            for point, near in nearest(op, "torch", [*map(_plain, args)], _plain(result), torch):
                key = id(frame[0]), frame[1], operation.code, point, near.device
                known = self.distances.get(key)
                self.distances[key] = frame, near if known is None else torch.minimum(known[1], near)

    def here(self) -> tuple[Frame, ...]:
        """The calling frames of the program, the innermost first."""
        found = list[Frame]()
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and (ours := self._ours(frame.f_code.co_filename)) is not None:
            if ours:
                found.append((frame.f_code, frame.f_lasti))
            frame = frame.f_back
        stack = tuple(found)
        return self.stacks.setdefault(stack, stack) if torch.is_grad_enabled() else stack


def _singular(name: str, args: Sequence[Any]) -> Operation | None:
    """The operation of the catalogue that a function of torch computes, if it is singular anywhere."""
    name = _OPERATORS.get(name, name).rstrip("_")
    operation = OPERATIONS.get(catalogue_name(name) or "")
    whole = name == "pow" and len(args) > 1 and isinstance(args[1], int | float) and args[1] == int(args[1])
    if not operation or not operation.code or (whole and args[1] >= 1):  # such a power is singular nowhere
        return None
    return operation


def _plain(operand: Any) -> Any:
    """The numbers of an operand; None for what has none."""
    inner = compat.layers(operand)[-1] if isinstance(operand, Tensor) else None
    if inner is None or type(inner) not in (Tensor, torch.nn.Parameter) or not inner.is_floating_point():
        return None
    return inner.detach()
