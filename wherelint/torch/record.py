"""Gradient coverage of torch: the calls that made the nodes which a backward pass goes through."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import Node
from torch.overrides import TorchFunctionMode

from wherelint.companion.coverage import Marks
from wherelint.companion.frames import Frame
from wherelint.torch import compat
from wherelint.torch.masking import nodes
from wherelint.torch.trace import Labels, label


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

    def run(roots: Sequence[Any], inputs: Sequence[Any]) -> AbstractContextManager[object]:
        for node in _between(roots, inputs):
            marks.gradient.update(label(node))
        return seen.again()

    with seen, compat.around_backward(run):
        yield


class _Coverage(Labels):
    """Labels with the frames of the program alone; and which calls ran with gradients switched on or off."""

    def __init__(self, marks: Marks) -> None:
        super().__init__()
        self._marks = marks

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
        enabled = torch.is_grad_enabled()
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and (ours := self._marks.ours(frame.f_code.co_filename)) is False:
            frame = frame.f_back
        if frame is not None and ours and (enabled or not self.inside):
            (self._marks.ran if enabled else self._marks.blocked).add((frame.f_code, frame.f_lasti))
        if enabled:
            self.made(result, args)
        return result

    def here(self) -> tuple[Frame, ...]:
        """The calling frames of the program."""
        found: list[Frame] = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and (ours := self._marks.ours(frame.f_code.co_filename)) is not None:
            if ours:
                found.append((frame.f_code, frame.f_lasti))
            frame = frame.f_back
        return tuple(found)


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
    users: dict[Node, list[Node]] = {}
    for node, nexts in graph.items():
        for each in nexts:
            users.setdefault(each, []).append(node)
    reached = {node for node in graph if node in ends or id(getattr(node, "variable", None)) in ends}
    todo = list(reached)
    while todo:
        for node in users.get(todo.pop(), ()):
            if node not in reached:
                reached.add(node)
                todo.append(node)
    yield from (node for node in reached if node not in ends)
