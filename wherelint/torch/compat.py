"""The private names of torch that the companion uses.

``tests/companion/test_torch_compat.py`` says which one a version of torch broke. Everything else is public:
hooks, modes, subclasses and the graph's ``next_functions``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.graph import Node

#: A subclass that leaves ``__torch_function__`` alone.
no_torch_function = torch._C._disabled_torch_function_impl


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


def saved(node: Node, name: str) -> Any:
    """What a node keeps for its backward, ``self`` or ``result``; None if it keeps no such thing, or not any more."""
    try:
        return getattr(node, f"_saved_{name}", None)
    except RuntimeError:  # the graph was freed
        return None


def is_compiled(node: Node) -> bool:
    """Whether the node is a whole graph that ``torch.compile`` made."""
    return "CompiledFunction" in node.name()
