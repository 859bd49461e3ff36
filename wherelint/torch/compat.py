"""The private names of torch that the companion uses.

``tests/companion/test_torch_compat.py`` says which one a version of torch broke. Everything else is public:
hooks, modes, subclasses and the graph's ``next_functions``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch.autograd import graph
from torch.autograd.graph import Node
from torch.overrides import handle_torch_function, has_torch_function
from torch.utils._pytree import tree_leaves

#: A subclass that leaves ``__torch_function__`` alone.
no_torch_function = torch._C._disabled_torch_function_impl
#: Within such a block no mode is asked.
without_modes = torch._C.DisableTorchFunction


def current_node() -> Node | None:
    """The node of the graph whose backward runs in this thread; None outside of a backward pass."""
    return torch._C._current_autograd_node()


def transform_level() -> int | None:
    """How deep inside the transforms of ``torch.func`` the caller is; None outside of them."""
    level: int | None = torch._C._functorch.maybe_current_level()
    return level


def alias(cls: type[torch.Tensor], value: torch.Tensor) -> Any:
    """A tensor of the subclass with the storage of ``value``."""
    return torch.Tensor._make_subclass(cls, value)


@contextmanager
def around_backward(enter: Callable[[Sequence[Any], Sequence[Any]], AbstractContextManager[object]]) -> Iterator[None]:
    """Run every backward pass that begins in the block inside of ``enter(roots, inputs)``."""
    original = graph._engine_run_backward

    def backward(roots: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        with without_modes():
            context = enter(roots, args[3] if len(args) > 3 else kwargs.get("inputs", ()))
        with context:
            return original(roots, *args, **kwargs)

    graph._engine_run_backward = torch.autograd._engine_run_backward = backward
    try:
        yield
    finally:
        graph._engine_run_backward = torch.autograd._engine_run_backward = original


@contextmanager
def backward_asks_modes() -> Iterator[None]:
    """Let ``torch.autograd.backward`` ask the modes that are active; older versions of torch do not."""
    original = torch.autograd.backward
    if "has_torch_function" in original.__code__.co_names:
        yield
        return

    @functools.wraps(original)
    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        roots = tuple(each for each in tree_leaves(tensors) if isinstance(each, torch.Tensor))
        if has_torch_function(roots):
            return handle_torch_function(original, roots, tensors, *args, **kwargs)
        return original(tensors, *args, **kwargs)

    torch.autograd.backward = backward
    try:
        yield
    finally:
        torch.autograd.backward = original


def saved(node: Node, name: str) -> Any:
    """What a node keeps for its backward, ``self`` or ``result``; None if it keeps no such thing, or not any more."""
    try:
        return getattr(node, f"_saved_{name}", None)
    except RuntimeError:  # the graph was freed
        return None


def is_compiled(node: Node) -> bool:
    """Whether the node is a whole graph that ``torch.compile`` made."""
    return "CompiledFunction" in node.name()
