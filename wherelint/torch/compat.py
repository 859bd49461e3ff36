"""The private names of torch that the companion uses.

``tests/companion/test_torch_compat.py`` says which one a version of torch broke. Everything else is public:
hooks, modes, subclasses and the graph's ``next_functions``.
"""

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.autograd import graph
from torch.autograd.graph import Node

from wherelint.companion.patching import override, wrap

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

    with override(graph, _engine_run_backward=backward), override(torch.autograd, _engine_run_backward=backward):
        yield


def is_traced(roots: Iterable[Any]) -> bool:
    """Whether ``torch.compile`` differentiates what it is about to compile: there are no numbers."""
    return any(isinstance(root, FakeTensor | FunctionalTensor) for root in roots)


def is_compiled(node: Node) -> bool:
    """Whether the node is a whole graph that ``torch.compile`` made."""
    return "CompiledFunction" in node.name()


def all_saved(node: Node) -> Iterator[tuple[str, Any]]:
    """What a node keeps for its backward, by name; nothing where the graph was freed."""
    if hasattr(node, "saved_tensors"):  # of a custom function
        try:
            yield from ((str(i), each) for i, each in enumerate(node.saved_tensors))
        except RuntimeError:
            return
    for name in dir(type(node)):
        if name.startswith("_saved_"):
            with suppress(RuntimeError):  # the graph was freed
                yield name.removeprefix("_saved_"), getattr(node, name)


def order(node: Node) -> int:
    """The place of a node in the order in which its thread made nodes."""
    number: int = node._sequence_nr()
    return number


_hooks = torch._C._autograd
#: Push a pair of hooks for saved tensors in this thread, and pop the last pair, whatever `around_saving` does.
push_hooks, pop_hooks = _hooks._push_saved_tensors_default_hooks, _hooks._pop_saved_tensors_default_hooks


@contextmanager
def around_saving(hooks: Any) -> Iterator[None]:
    """Within the block every pair of hooks for saved tensors passes ``hooks``.

    ``hooks.pushed(pack, unpack)`` gives the pair to be pushed, ``hooks.popped()`` is told; before a transform refuses
    hooks, ``hooks.refused()`` may pop its own, and ``hooks.allowed()`` pushes them again.
    """
    disable, enable = _hooks._saved_tensors_hooks_disable, _hooks._saved_tensors_hooks_enable

    def pushed(pack: Any, unpack: Any) -> None:
        push_hooks(*hooks.pushed(pack, unpack))

    def popped() -> None:
        hooks.popped()
        pop_hooks()

    def refused(message: str, *rest: Any) -> None:
        if not rest or rest[0]:  # else those that are pushed may stay
            hooks.refused()
        disable(message, *rest)

    def allowed() -> None:
        enable()
        hooks.allowed()

    with override(
        _hooks, _push_saved_tensors_default_hooks=pushed, _pop_saved_tensors_default_hooks=popped,
        _saved_tensors_hooks_disable=refused, _saved_tensors_hooks_enable=allowed,
    ):  # fmt: skip
        yield


def not_compiling() -> AbstractContextManager[Any]:
    """Within the block, what ``torch.compile`` made runs as plain Python."""
    stance = getattr(torch.compiler, "set_stance", None)  # since torch 2.6
    return nullcontext() if stance is None else stance("force_eager")


@contextmanager
def around_compiled(instead: Callable[..., Any]) -> Iterator[None]:
    """Within the block a call of what ``torch.compile`` made is ``instead(run, model, args, kwargs)``.

    ``run(*args, **kwargs)`` calls what was made of the ``model``. A call that is being compiled itself is not seen, nor
    is one of a function (a module is) that was compiled before.
    """
    original = torch.compile
    patches = ExitStack()

    def around(run: Callable[..., Any], model: Any, args: Any, kwargs: Any) -> Any:
        return run(*args, **kwargs) if torch.compiler.is_compiling() else instead(run, model, args, kwargs)

    @functools.cache
    def modules(kind: type) -> None:
        run: Any = kind.__call__

        def called(self: Any, *args: Any, **kwargs: Any) -> Any:
            return around(functools.partial(run, self), self._orig_mod, args, kwargs)

        patches.enter_context(override(kind, __call__=called))

    @functools.wraps(original)
    def compile(model: Any = None, **options: Any) -> Any:  # noqa: A001
        if model is None:
            return lambda model: compile(model, **options)
        compiled = original(model, **options)
        if isinstance(compiled, torch.nn.Module):
            kind: Any = type(compiled)
            modules(kind)
            return compiled
        return functools.wraps(compiled)(lambda *args, **kwargs: around(compiled, model, args, kwargs))

    if dynamo := sys.modules.get("torch._dynamo.eval_frame"):  # imported when the first one is compiled
        compiled_module: Any = dynamo.OptimizedModule
        modules(compiled_module)
    with patches, override(torch, compile=compile):
        yield


def without_donated_buffers() -> AbstractContextManager[Any]:
    """Within the block, what is compiled lets its graph be kept."""
    import torch._functorch.config as config

    return config.patch(donated_buffer=False) if hasattr(config, "donated_buffer") else nullcontext()  # since torch 2.6


@contextmanager
def around_transforms(gradient: Callable[..., Any], other: Callable[[str], None]) -> Iterator[None]:
    """Within the block ``gradient(original, f, argnums, has_aux, args, kwargs)`` does what ``torch.func.grad`` and
    ``grad_and_value`` do: the gradient and the rest; ``other`` is called with the name of each other transform in
    reverse mode."""
    from torch._functorch import eager_transforms as transforms

    def noted(original: Any, *args: Any, **options: Any) -> Any:
        other("torch.func.vjp, jacrev and hessian")
        return original(*args, **options)

    with wrap(transforms, "grad_and_value_impl", gradient), wrap(transforms, "_vjp_with_argnums", noted):
        yield
