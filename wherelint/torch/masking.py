"""Backward passes in which a dropped element receives nothing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node
from torch.overrides import TorchFunctionMode

from wherelint.torch import compat, linear  # noqa: F401  (linear has the rules of Masked)
from wherelint.torch.masked import Ghost, Masked, Run

Zeros = Literal["dead", "exact"]


class mask_gradients(TorchFunctionMode):  # noqa: N801
    """Within the block, ``backward()`` and ``torch.autograd.grad`` hand nothing to what a selection drops.

    ``with mask_gradients(loss): loss.backward()``; with tensors only passes from these are masked, else all of them.
    Values and finite gradients stay as they are. An element is dead, and receives nothing whatever the derivative, if a
    selection, an index or a factor drops it that is exactly 0 and not differentiated. ``zeros="exact"`` also counts
    every cotangent that happens to be 0, and is wrong for ``sqrt(x) ** 2`` at 0 (0 instead of 1) or at a perfect fit.

    NotImplementedError: for ``create_graph=True``, inside the transforms of ``torch.func``, in and of what
    ``torch.compile`` compiled, and for a gradient that stays nan because an operation has no rule.
    """

    def __init__(self, *roots: Tensor, zeros: Zeros = "dead") -> None:
        if zeros not in ("dead", "exact"):
            raise ValueError(f"zeros must be 'dead' or 'exact', not {zeros!r}")
        super().__init__()
        self._roots, self._exact = roots, zeros == "exact"

    def __enter__(self) -> mask_gradients:
        if torch.compiler.is_compiling():
            raise NotImplementedError("mask_gradients cannot be compiled: call backward() outside of torch.compile")
        self._patch = compat.backward_asks_modes()
        self._patch.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._patch.__exit__(*error)

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        entry = _ENTRIES.get(func)
        if entry is None:
            return func(*args, **(kwargs or {}))
        given = inspect.signature(func).bind(*args, **(kwargs or {}))
        roots = _sequence(given.arguments[entry[0]])
        if self._roots and not any(root is each for root in roots for each in self._roots):
            return func(*args, **(kwargs or {}))
        run = Run(exact=self._exact)
        return masked_pass(func, given, *entry, run)


#: The functions that begin a backward pass: the names of their roots and cotangents.
_ENTRIES: dict[Callable[..., Any], tuple[str, str]] = {
    torch.Tensor.backward: ("self", "gradient"),
    torch.autograd.backward: ("tensors", "grad_tensors"),
    torch.autograd.grad: ("outputs", "grad_outputs"),
}


def masked_pass(
    func: Any, given: inspect.BoundArguments, roots_name: str, seeds_name: str, run: Run, *, strict: bool = True
) -> Any:
    """Run one of the entries with masked cotangents; what it returns or accumulates is plain again."""
    arguments = given.arguments
    if compat.transform_level() is not None:
        raise NotImplementedError("mask_gradients does not support the transforms of torch.func: use torch.autograd")
    if arguments.get("create_graph"):
        raise NotImplementedError("mask_gradients gives no second derivatives: create_graph=True is not supported")
    if arguments.get("is_grads_batched"):
        raise NotImplementedError("mask_gradients does not support is_grads_batched=True")
    roots = _sequence(arguments[roots_name])
    seeds = _sequence(arguments.get(seeds_name))
    arguments[roots_name] = roots[0] if roots_name == "self" else roots
    cotangents = [_seed(root, seed, run) for root, seed in zip(roots, seeds or [None] * len(roots), strict=True)]
    arguments[seeds_name] = cotangents[0] if roots_name == "self" else cotangents
    order = nodes(roots)
    if any(map(compat.is_compiled, order)):
        raise NotImplementedError("mask_gradients cannot look into what torch.compile made: call the plain function")
    lost: list[Tensor] = []

    def unwrap(cotangent: Tensor) -> Tensor:
        if not isinstance(cotangent, Masked):
            return cotangent
        lost.append(cotangent.value)
        return cotangent.value

    leaves = [v for v in (getattr(node, "variable", None) for node in order) if isinstance(v, Tensor)]
    hooks = [leaf.register_hook(unwrap) for leaf in leaves]
    try:
        result = func(*given.args, **given.kwargs)
    finally:
        run.over = True
        for hook in hooks:
            hook.remove()
    for each in _sequence(arguments.get("inputs")):  # those that are no leaves
        if isinstance(each, Tensor) and isinstance(each.grad, Masked):
            each.grad = unwrap(each.grad)
    if isinstance(result, tuple):
        result = tuple(unwrap(each) if isinstance(each, Tensor) else each for each in result)
    if strict and run.lost and not all(bool(torch.isfinite(each).all()) for each in lost):
        names = ", ".join(sorted(run.lost))
        raise NotImplementedError(
            f"the gradient is not finite, and dropped elements could not be followed through {names}"
        )
    return result


def masked_grad(roots: list[Tensor], leaves: list[Tensor], seeds: list[Tensor], run: Run) -> list[Tensor | None]:
    """The masked gradients of the roots by the leaves; the graph is kept."""
    given = inspect.signature(torch.autograd.grad).bind(roots, leaves, seeds, retain_graph=True, allow_unused=True)
    return list(masked_pass(torch.autograd.grad, given, *_ENTRIES[torch.autograd.grad], run, strict=False))


def _seed(root: Any, seed: Any, run: Run) -> Tensor:
    """The masked cotangent of a root: where the caller's is exactly 0, nothing is asked for."""
    if seed is None:
        if not isinstance(root, Tensor) or root.numel() != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        seed = torch.ones_like(root, memory_format=torch.preserve_format)
    seed = seed.detach()
    return Masked(seed, Ghost(seed, {None: seed == 0} if bool((seed == 0).any()) else {}, run))


def _sequence(given: Any) -> list[Any]:
    if given is None:
        return []
    return [given] if isinstance(given, Tensor | GradientEdge) else list(given)


def nodes(roots: Iterable[Any]) -> dict[Node, list[Node]]:
    """The graph behind some tensors: each node with those that it hands cotangents to, roots first."""
    found: dict[Node, list[Node]] = {}
    todo = [root.node if isinstance(root, GradientEdge) else root.grad_fn for root in roots]
    while todo:
        node = todo.pop()
        if node is not None and node not in found:
            found[node] = [each for each, _ in node.next_functions if each is not None]
            todo.extend(found[node])
    return found


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
