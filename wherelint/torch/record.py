"""Gradient coverage of torch: the calls that made the nodes which a backward pass goes through."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import Node
from torch.overrides import TorchFunctionMode

from wherelint.companion.coverage import Marks
from wherelint.companion.frames import Frame
from wherelint.torch import compat
from wherelint.torch.masking import nodes, reach, users
from wherelint.torch.trace import Labels, label

#: What a program asks a tensor for, an operation does not make.
_ASKED = (bool, int, float, torch.Size, torch.dtype, torch.device, torch.layout)


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
            seen.passed.update({id(stack): stack for stack in map(label, _between(roots, rest[3]))})
        with seen.again():
            return backward(roots, *rest)

    with seen, compat.around_backward(run):
        yield
    marks.gradient.update(*seen.passed.values())
    for known, stacks in ((marks.ran, seen.ran), (marks.blocked, seen.blocked)):
        known.update(stack[0] for stack in stacks.values() if stack)


class _Coverage(Labels):
    """Labels with the frames of the program alone; and which calls ran with gradients switched on or off."""

    def __init__(self, marks: Marks) -> None:
        super().__init__()
        self._marks = marks
        #: Every stack once, by the identities of its codes: to hash a code takes longer than the operation.
        self._stacks: dict[tuple[int, ...], tuple[Frame, ...]] = {}
        #: Of these, by identity: those that a gradient passed, and those that ran with gradients switched on or off.
        self.passed, self.ran, self.blocked = (dict[int, tuple[Frame, ...]]() for _ in range(3))

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

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, _ASKED):
            return result
        if torch.is_grad_enabled():
            stack = self.here()
            self.ran[id(stack)] = stack
            self.made(result, args, stack)
        elif not self.inside:
            stack = self.here(1)
            self.blocked[id(stack)] = stack
        return result

    def here(self, most: int = sys.maxsize) -> tuple[Frame, ...]:
        """The calling frames of the program, the innermost first."""
        ours, codes, offsets = self._marks.ours, list[CodeType](), list[int]()
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and len(codes) < most:
            code = frame.f_code
            if kind := ours[code.co_filename]:
                codes.append(code)
                offsets.append(frame.f_lasti)
            elif kind is None:
                break
            frame = frame.f_back
        key = (*map(id, codes), *offsets)
        return self._stacks.get(key) or self._stacks.setdefault(key, tuple(zip(codes, offsets, strict=True)))


def _between(roots: Sequence[Any], inputs: Sequence[Any]) -> Iterator[Node]:
    """The nodes that a backward pass goes through: all, or those on the way to some inputs."""
    graph = nodes(roots)
    if not inputs:
        yield from graph
        return
    ends: set[Any] = set()
    for each in inputs:
        node = each.grad_fn if isinstance(each, Tensor) else each.node
        ends.add(id(each) if node is None else node)
    begin = [node for node in graph if node in ends or id(getattr(node, "variable", None)) in ends]
    yield from (node for node in reach(begin, users(graph)) if node not in ends)
