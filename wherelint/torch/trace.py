"""Which line made which node of an autograd graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import Node
from torch.overrides import TorchFunctionMode

from wherelint.companion.frames import Frame, calling, directories
from wherelint.companion.patching import override
from wherelint.ops import lookup
from wherelint.torch import compat

_KEY = "wherelint"
_MODULES = ("torch", "torch.linalg", "torch.special", "torch.nn.functional")
_OWN = directories(torch.__file__, __file__)


@cache
def catalogue_name(name: str) -> str | None:
    """The catalogue's name of a function of torch, by the last part of its own."""
    signatures = (lookup(f"{module}.{name}") for module in _MODULES)
    return next((signature.op for signature in signatures if signature), None)


class Labels(TorchFunctionMode):
    """Within the block, every node that is added to a graph remembers the frames that made it."""

    #: How many custom functions and backward passes are being run: gradients are switched off there, and that means
    #: nothing.
    inside = 0

    def __enter__(self) -> Labels:
        super().__enter__()
        self._apply = original = torch.autograd.Function.__dict__["apply"]

        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:  # it does not ask the modes
            with override(self, inside=self.inside + 1):
                result = original.__get__(None, cls)(*args, **kwargs)
            self.label_new(result, args)
            return result

        self._patch = override(torch.autograd.Function, apply=classmethod(apply))
        self._patch.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._patch.__exit__(None, None, None)
        super().__exit__(*error)

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.label_new(result, args)
        return result

    def label_new(self, result: Any, args: Sequence[Any]) -> list[Node]:
        """Label what a call has added to the graph: behind its result, or behind the operand that it wrote."""
        here: tuple[Frame, ...] = ()
        with compat.without_modes():
            first = [result] if isinstance(result, Tensor) else list(tensors(result)) or list(tensors(args[:1]))
            todo = [_node(layer) for each in first for layer in compat.layers(each)]
        new: list[Node] = []
        while todo:
            node = todo.pop()
            if node is not None and _KEY not in (metadata := node.metadata):
                metadata[_KEY] = here = here or self.here()
                new.append(node)
                todo += [each for each, _ in node.next_functions]
        return new

    def here(self) -> tuple[Frame, ...]:
        """The frames that new nodes are labelled with."""
        return calling(_OWN)


def _node(tensor: Tensor) -> Node | None:
    """The node that a tensor comes from."""
    try:
        return tensor.grad_fn
    except RuntimeError:  # a view that was made under ``no_grad`` and written since has none
        return None


def tensors(tree: Any, depth: int = 3) -> Iterator[Tensor]:
    """The tensors in lists and tuples."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, list | tuple) and depth:
        for each in tree:
            yield from tensors(each, depth - 1)


def label(node: Node) -> tuple[Frame, ...]:
    """The frames that made a node, the innermost first; none if it was made outside of `Labels`."""
    found: tuple[Frame, ...] = node.metadata.get(_KEY, ())
    return found
