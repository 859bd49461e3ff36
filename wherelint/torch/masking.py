"""Backward passes in which a dropped element receives nothing."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node

from wherelint.torch import compat
from wherelint.torch.masked import EVERY, Masked, Run, flags_of

Zeros = Literal["dead", "exact"]


def mask_gradients(*roots: Tensor | GradientEdge, zeros: Zeros = "dead") -> AbstractContextManager[None]:
    """Within the block, ``backward()`` and ``torch.autograd.grad`` hand nothing to what a selection drops.

    ``with mask_gradients(loss): loss.backward()``; with tensors only passes from these are masked, else all of them.
    Values and finite gradients stay as they are. An element is dead, and receives nothing whatever the derivative, if a
    selection, an index or a factor drops it that is exactly 0 and not differentiated. ``zeros="exact"`` also counts
    every cotangent that happens to be 0, and is wrong for ``sqrt(x) ** 2`` at 0 (0 instead of 1) or at a perfect fit.

    TypeError for what is no tensor: there is no ``mask_gradients(f)`` as in JAX.
    NotImplementedError: for ``create_graph=True``, inside the transforms of ``torch.func``, in and of what
    ``torch.compile`` compiled, and for a gradient that stays nan because an operation has no rule.
    """
    if zeros not in ("dead", "exact"):
        raise ValueError(f"zeros must be 'dead' or 'exact', not {zeros!r}")
    if wrong := [type(each).__name__ for each in roots if not isinstance(each, Tensor | GradientEdge)]:
        raise TypeError(
            "mask_gradients is a block around a backward pass, `with mask_gradients(loss): loss.backward()`, and "
            f"takes tensors, not {wrong[0]}"
        )
    return _mask_passes(roots, zeros)


@contextmanager
def _mask_passes(roots: Sequence[Any], zeros: Zeros) -> Iterator[None]:
    if torch.compiler.is_compiling():
        raise NotImplementedError("mask_gradients cannot be compiled: call backward() outside of torch.compile")
    thread = threading.get_ident()

    def mask(backward: compat.Backward, begun: Sequence[Any], seeds: Sequence[Any], *rest: Any) -> Any:
        meant = not roots or any(root is each for root in begun for each in roots)
        # A checkpoint begins a pass in a pass, on a GPU in another thread.
        within = any(isinstance(each, Masked) for each in seeds)
        # What torch.compile differentiates now is refused when it is run.
        if (not within and (not meant or threading.get_ident() != thread)) or compat.is_traced(begun):
            return backward(begun, seeds, *rest)
        return masked_pass(Run(exact=zeros == "exact"), backward, begun, seeds, *rest)

    with compat.around_backward(mask):
        yield


def masked_pass(
    run: Run, backward: compat.Backward, roots: Sequence[Any], seeds: Sequence[Any], keep: bool, create_graph: bool,
    inputs: Sequence[Any] = (), *rest: Any, strict: bool = True,
) -> tuple[Any, ...]:  # fmt: skip
    """Run a backward pass with masked cotangents; what it returns or accumulates is plain again."""
    if compat.is_transformed(seeds):
        raise NotImplementedError(
            "mask_gradients does not support the transforms of torch.func and is_grads_batched=True: use torch.autograd"
        )
    if create_graph:
        raise NotImplementedError("mask_gradients gives no second derivatives: create_graph=True is not supported")
    order = nodes(roots, run.ends)
    if any(map(compat.is_compiled, order)):
        raise NotImplementedError("mask_gradients cannot look into what torch.compile made: call the plain function")
    broken: list[str] = []

    def unwrap(cotangent: Tensor) -> Tensor:
        if not isinstance(cotangent, Masked):
            return cotangent
        lost = cotangent.run.lost
        if lost and not broken and not torch.isfinite(cotangent.value).all():
            broken.extend(sorted(lost))
        return cotangent.value  # nobody else holds it, so that a leaf need not copy it

    hooks = [leaf.register_hook(unwrap) for leaf in leaves(order)]
    try:
        masked = tuple(_seed(seed, run) for seed in seeds)
        found = backward(roots, masked, keep, create_graph, inputs, *rest)
    finally:
        run.over = True
        for hook in hooks:
            hook.remove()
    for each in inputs:  # those that are no leaves
        if isinstance(each, Tensor) and isinstance(each.grad, Masked):
            each.grad = unwrap(each.grad)
    result = tuple(unwrap(each) for each in found or ())
    if strict and broken:
        raise NotImplementedError(
            f"the gradient is not finite, and dropped elements could not be followed through {', '.join(broken)}"
        )
    return result


def _seed(seed: Any, run: Run) -> Tensor:
    """The masked cotangent of a root: where the caller's is exactly 0, nothing is asked for."""
    if seed is None or isinstance(seed, Masked):
        return seed
    seed = seed.detach()
    return Masked(seed, {EVERY: flags_of(seed != 0, seed)}, run)


def nodes(roots: Iterable[Any], ends: Collection[Node] = ()) -> dict[Node, list[Node]]:
    """The graph behind some tensors, up to some ends: each node with those that it hands cotangents to, roots first."""
    found: dict[Node, list[Node]] = {}
    todo = [root.node if isinstance(root, GradientEdge) else root.grad_fn for root in roots]
    while todo:
        node = todo.pop()
        if node is not None and node not in found and node not in ends:
            found[node] = [each for each, _ in node.next_functions if each is not None]
            todo.extend(found[node])
    return found


def leaves(graph: Iterable[Node]) -> list[Tensor]:
    """The tensors that a graph ends with."""
    return [v for v in (getattr(node, "variable", None) for node in graph) if isinstance(v, Tensor)]


def users(graph: Mapping[Node, Sequence[Node]]) -> dict[Node, list[Node]]:
    """The nodes that hand cotangents to each node of a graph."""
    found: dict[Node, list[Node]] = {}
    for node, nexts in graph.items():
        for each in nexts:
            found.setdefault(each, []).append(node)
    return found


def reach(start: Iterable[Node], edges: Mapping[Node, Sequence[Node]]) -> list[Node]:
    """The nodes and what can be reached from them, the nearest first."""
    seen = dict.fromkeys(start)
    todo = list(seen)
    for node in todo:
        new = [each for each in edges.get(node, ()) if each not in seen]
        seen |= dict.fromkeys(new)
        todo += dict.fromkeys(new)
    return todo
