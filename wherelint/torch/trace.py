"""Which line made which node of an autograd graph."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import Node
from torch.overrides import TorchFunctionMode

from wherelint.companion import Place

#: A frame of the stack: its code, and the offset of the instruction that it executes.
Frame = tuple[CodeType, int]
_KEY = "wherelint"
_OWN = tuple(os.path.dirname(os.path.abspath(each)) + os.sep for each in (torch.__file__, __file__))
_LIBRARIES = tuple({os.path.abspath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "purelib", "platlib")})


@cache
def is_library(filename: str) -> bool:
    """Whether a file belongs to an installed package or to Python."""
    return filename.startswith(("<frozen", *_LIBRARIES)) or f"{os.sep}site-packages{os.sep}" in filename


def frames() -> tuple[Frame, ...]:
    """The calling frames, the innermost first, without those of torch and of this package."""
    found: list[Frame] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_OWN):
            found.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(found)


@cache
def place(frame: Frame) -> Place:
    """Where a frame is: the span of the call where Python says it (3.11), else its line."""
    code, offset = frame
    name = getattr(code, "co_qualname", code.co_name).replace(".<locals>", "")
    if sys.version_info < (3, 11):
        row = next((row for begin, end, row in code.co_lines() if begin <= offset < end and row), code.co_firstlineno)
        return Place(code.co_filename, row, function=name)
    row, end_row, column, end_column = next(islice(code.co_positions(), offset // 2, None))
    if row is None or end_row is None or column is None or end_column is None:
        return Place(code.co_filename, row or code.co_firstlineno, function=name)
    begin, end = _points(code.co_filename, row, column), _points(code.co_filename, end_row, end_column)
    return Place(code.co_filename, row, begin + 1, end_row, end + 1, name)


def _points(filename: str, row: int, column: int) -> int:
    """The column in code points; Python counts bytes."""
    return len(linecache.getline(filename, row).encode()[:column].decode(errors="ignore")) or column


class Labels(TorchFunctionMode):
    """Within the block, every node that is added to a graph remembers the frames that made it."""

    def __enter__(self) -> Labels:
        super().__enter__()
        self._apply = torch.autograd.Function.__dict__["apply"]
        original = torch.autograd.Function.apply.__func__

        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:  # it does not ask the modes
            result = original(cls, *args, **kwargs)
            self.made(result, args)
            return result

        torch.autograd.Function.apply = classmethod(apply)
        return self

    def __exit__(self, *error: Any) -> None:
        torch.autograd.Function.apply = self._apply
        super().__exit__(*error)

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.made(result, args)
        return result

    def made(self, result: Any, args: Sequence[Any]) -> None:
        """Label what a call has added to the graph: behind its result, or behind the operand that it wrote."""
        with torch._C.DisableTorchFunction():
            todo = [each.grad_fn for each in _tensors([result, *args[:1]])]
        here: tuple[Frame, ...] | None = None
        while todo:
            node = todo.pop()
            if node is None or _KEY in node.metadata:
                continue
            here = frames() if here is None else here
            node.metadata[_KEY] = here
            todo.extend(each for each, _ in node.next_functions)


def _tensors(tree: Any, depth: int = 3) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, list | tuple) and depth:
        for each in tree:
            yield from _tensors(each, depth - 1)


def label(node: Node) -> tuple[Frame, ...]:
    """The frames that made a node, the innermost first; none if it was made outside of `Labels`."""
    found: tuple[Frame, ...] = node.metadata.get(_KEY, ())
    return found


def places(node: Node) -> tuple[Place | None, Place | None]:
    """Where the user's program made a node, and where in a library if it was made there."""
    made = label(node)
    user = next((each for each in made if not is_library(each[0].co_filename)), None)
    if user is None:
        return None, place(made[0]) if made else None
    return place(user), None if user is made[0] else place(made[0])
