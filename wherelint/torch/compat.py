"""The private names of torch that the companion uses.

``tests/companion/test_torch_compat.py`` says which one a version of torch broke. Everything else is public:
hooks, modes, subclasses and the graph's ``next_functions``.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.autograd import graph
from torch.autograd.graph import Node

#: A subclass that leaves ``__torch_function__`` alone.
no_torch_function = torch._C._disabled_torch_function_impl
#: Within such a block no mode is asked.
without_modes = torch._C.DisableTorchFunction


def current_node() -> Node | None:
    """The node of the graph whose backward runs in this thread; None outside of a backward pass."""
    return torch._C._current_autograd_node()


def is_transformed(tensors: Iterable[Any]) -> bool:
    """Whether the caller is inside a transform of ``torch.func``, or a tensor is a batch of ``is_grads_batched``."""
    functorch = torch._C._functorch
    level: int | None = functorch.maybe_current_level()
    return level is not None or any(isinstance(t, Tensor) and functorch.is_legacy_batchedtensor(t) for t in tensors)


def layers(tensor: Tensor) -> list[Tensor]:
    """A tensor, and those inside it that the transforms of ``torch.func`` have wrapped."""
    found, functorch = [tensor], torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(found[-1]):
        found.append(functorch.get_unwrapped(found[-1]))
    return found


def alias(cls: type[Tensor], value: Tensor) -> Any:
    """A tensor of the subclass with the storage of ``value``."""
    return Tensor._make_subclass(cls, value)


#: The function that runs every backward pass: roots, their cotangents, whether the graph is kept, whether one is
#: made of the pass, inputs if not all leaves, and more; the gradients by the inputs.
Backward = Callable[..., Sequence[Any]]


@contextmanager
def around_backward(instead: Callable[..., Any]) -> Iterator[None]:
    """Within the block a backward pass is ``instead(backward, *arguments)``."""
    original = graph._engine_run_backward

    @functools.wraps(original)
    def backward(
        roots: Any, seeds: Any, keep: bool, create_graph: bool, inputs: Any = (), allow_unreachable: bool = False,
        accumulate_grad: bool = False,
    ) -> Any:  # fmt: skip
        return instead(original, roots, seeds, keep, create_graph, inputs, allow_unreachable, accumulate_grad)

    graph._engine_run_backward = torch.autograd._engine_run_backward = backward
    try:
        yield
    finally:
        graph._engine_run_backward = torch.autograd._engine_run_backward = original


def saved(node: Node, name: str) -> Any:
    """What a node keeps for its backward, ``self`` or ``result``; None if it keeps no such thing, or not any more."""
    try:
        return getattr(node, f"_saved_{name}", None)
    except RuntimeError:  # the graph was freed
        return None


def is_traced(roots: Iterable[Any]) -> bool:
    """Whether ``torch.compile`` differentiates what it is about to compile: there are no numbers."""
    return any(isinstance(root, FakeTensor | FunctionalTensor) for root in roots)


def is_of_the_compiler(error: Exception) -> bool:
    """Whether ``torch.compile`` could not trace a program."""
    return type(error).__module__.startswith(("torch._dynamo.", "torch._subclasses."))


def is_compiled(node: Node) -> bool:
    """Whether the node is a whole graph that ``torch.compile`` made."""
    return "CompiledFunction" in node.name()


def random_states() -> list[Tensor]:
    """The states of torch's random numbers: on the CPU, and on each CUDA device once CUDA is in use."""
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else ())]


def restore_random(states: Sequence[Tensor]) -> bool:
    """Set the states again; whether they had changed."""
    changed = not all(map(torch.equal, states, random_states()))
    if changed:
        torch.set_rng_state(states[0])
        for device, state in enumerate(states[1:]):
            torch.cuda.set_rng_state(state, device)
    return changed
