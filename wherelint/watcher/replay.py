"""Calls that a graph of torch shows as one node: what `torch.compile` made, and reentrant checkpoints.

A pass notes which cotangents reach such a node and leave it. If a gradient is not finite, the parts between these nodes
are looked at one by one, and the call is run again as plain Python, with the random state and the autocast of the time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node
from torch.utils._pytree import tree_leaves

from wherelint.companion import Report
from wherelint.companion.patching import override
from wherelint.torch import compat
from wherelint.torch.locate import NonFiniteLabels, Traced, explain, finite
from wherelint.torch.masking import leaves as leaves_of
from wherelint.torch.masking import nodes
from wherelint.watcher import Imports

_CALL = "wherelint call"


@dataclass(eq=False)
class Call:
    """One call; it holds none of its nodes, which hold it.

    ``again`` runs it, given one of its nodes; ``outputs`` says of each differentiable result which of these made it.
    """

    again: Callable[[Node], Any]
    outputs: list[tuple[int, int]] = field(default_factory=list)
    #: By node, what reached it in the current pass, and what it handed on.
    arrived: dict[int, Sequence[Tensor | None]] = field(default_factory=dict)
    left: dict[int, Sequence[Tensor | None]] = field(default_factory=dict)

    def forget(self) -> None:
        """Let go of the cotangents of a pass."""
        self.arrived, self.left = {}, {}


class Calls:
    """The calls that the current pass goes through."""

    def __init__(self) -> None:
        self.seen: dict[Call, None] = {}

    def note(self, again: Callable[[Node], Any], results: Any) -> None:
        """Note a call that has been made."""
        call, numbers = Call(again), dict[Node, int]()
        for each in tree_leaves(results):
            if isinstance(each, Tensor) and each.requires_grad and (node := each.grad_fn) is not None:
                if node not in numbers:
                    if _CALL in node.metadata:  # of an inner call
                        return
                    numbers[node] = len(numbers)
                call.outputs.append((numbers[node], each.output_nr))
        for node, number in numbers.items():
            node.metadata[_CALL] = call, number
            node.register_prehook(functools.partial(self._arrive, call, number))
            node.register_hook(functools.partial(self._leave, call, number))

    def _arrive(self, call: Call, number: int, cotangents: Sequence[Tensor | None]) -> None:
        self.seen[call] = None
        call.arrived[number] = cotangents

    def _leave(
        self, call: Call, number: int, made: Sequence[Tensor | None], cotangents: Sequence[Tensor | None]
    ) -> None:
        call.left[number] = made

    def forget(self) -> None:
        """The pass is over."""
        for call in self.seen:
            call.forget()
        self.seen = {}

    def explain(
        self, roots: Sequence[Any], seeds: Sequence[Any], leaves: Sequence[Any], label: Callable[[Sequence[Any]], Any],
        cut: Collection[Node],
    ) -> Report | None:  # fmt: skip
        """The report on the part of a graph that breaks its gradient; None where none of them does.

        ``label`` is called with the roots of what is run again; no part goes through the nodes of ``cut``.
        """
        graph = nodes(roots)
        calls = {node: node.metadata[_CALL] for node in graph if _CALL in node.metadata}
        ends = frozenset(calls).union(cut).intersection(graph)
        if not ends:
            return _broken(Traced(list(roots), list(leaves), _tensors(roots), len(leaves), list(seeds)))
        before = nodes(roots, ends)
        beyond = {id(each) for each in _variables(_after(ends))}
        here = [each for each in _variables(roots, ends) if id(each) not in beyond]
        # What hands a cotangent to a leaf that is also reached from beyond is where this part ends.
        last = {
            node for node, after in before.items() if any(id(getattr(n, "variable", None)) in beyond for n in after)
        }
        edges = dict.fromkeys(
            GradientEdge(n, i) for node in before for n, i in node.next_functions if n in ends or n in last
        )
        own = [(root, seed) for root, seed in zip(roots, seeds, strict=True) if _node(root) not in ends]
        if own:
            some, cotangents = zip(*own, strict=True)
            traced = Traced(list(some), [*edges, *here], _tensors(some), 0, list(cotangents), ends)
            if report := _broken(traced):
                return report
        for node, (call, _) in calls.items():
            if report := self._inside(call, node, label):
                return report
        for node, (call, number) in calls.items():
            left = call.left.get(number, ())
            pairs = [
                (GradientEdge(n, i), ct) for (n, i), ct in zip(node.next_functions, left, strict=False)
                if n is not None and ct is not None
            ]  # fmt: skip
            if pairs and finite(ct for _, ct in pairs):
                after, cotangents = zip(*pairs, strict=True)
                if report := self.explain(after, cotangents, _variables(after), label, cut):
                    return report
        return None

    def _inside(self, call: Call, node: Node, label: Any) -> Report | None:
        arrived = [call.arrived.get(number, ()) for number, _ in call.outputs]
        if not all(map(finite, arrived)):
            return None
        with NonFiniteLabels():  # for what saves nothing
            made = tree_leaves(call.again(node))
        made = [each for each in made if isinstance(each, Tensor) and each.requires_grad and each.grad_fn is not None]
        cotangents = [
            every[at] if at < len(every) else None for every, (_, at) in zip(arrived, call.outputs, strict=True)
        ]
        pairs = [(root, ct) for root, ct in zip(made, cotangents, strict=False) if ct is not None]
        if len(made) != len(cotangents) or not pairs:
            return None
        roots, seeds = zip(*pairs, strict=True)
        label(roots)
        return _broken(Traced(list(roots), _variables(roots), list(roots), 0, list(seeds)))


def _broken(traced: Traced) -> Report | None:
    if not traced.leaves:
        return None
    report = explain(traced)
    return None if report.gradient_finite else report


def _node(root: Any) -> Node | None:
    return root.node if isinstance(root, GradientEdge) else root.grad_fn


def _tensors(roots: Sequence[Any]) -> list[Tensor]:
    return [each for each in roots if isinstance(each, Tensor)]


def _after(ends: Iterable[Node]) -> list[GradientEdge]:
    return [GradientEdge(n, i) for node in ends for n, i in node.next_functions if n is not None]


def _variables(roots: Sequence[Any], ends: Collection[Node] = ()) -> list[Tensor]:
    return leaves_of(nodes(roots, ends))


@contextmanager
def note_calls(calls: Calls, imports: Imports) -> Iterator[None]:
    """Within the block, such calls are noted as they are made."""

    def compiled(run: Callable[..., Any], model: Any, args: Any, kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return run(*args, **kwargs)
        again = _replayed(model, args, kwargs)
        results = run(*args, **kwargs)
        calls.note(again, results)
        return results

    with ExitStack() as undo, compat.around_compiled(compiled):
        imports.after("torch.utils.checkpoint", lambda: undo.enter_context(_checkpoints(calls)))
        yield


def _checkpoints(calls: Calls) -> AbstractContextManager[None]:
    function = torch.utils.checkpoint.CheckpointFunction
    original = function.apply

    def apply(*args: Any) -> Any:
        results = original(*args)
        if torch.is_grad_enabled():
            calls.note(_checkpoint_again, results)
        return results

    return override(function, apply=staticmethod(apply))


def _checkpoint_again(node: Any) -> Any:
    """Run the function of a reentrant checkpoint as its backward does."""
    inputs = list(node.inputs)
    for i, tensor in zip(node.tensor_indices, node.saved_tensors, strict=True):
        inputs[i] = tensor.detach().requires_grad_(tensor.requires_grad)
    state = node.fwd_cpu_state if node.preserve_rng_state else torch.get_rng_state()
    with torch.random.fork_rng(devices=[]), torch.enable_grad(), torch.autocast("cpu", **node.cpu_autocast_kwargs):
        torch.set_rng_state(state)
        return node.run_function(*inputs)


def _replayed(function: Callable[..., Any], args: Any, kwargs: Any) -> Callable[[Node], Any]:
    """Runs a call again, as plain Python, in the random state and under the autocast of now."""
    state = torch.get_rng_state()
    cast = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    def again(_: Node) -> Any:
        kept = [(each, each.clone()) for each in _buffers(function)]
        with torch.random.fork_rng(devices=[]), torch.enable_grad(), torch.autocast("cpu", cast[1], enabled=cast[0]):
            torch.set_rng_state(state)
            try:
                with compat.not_compiling():
                    return function(*args, **kwargs)
            finally:
                with torch.no_grad():
                    for each, value in kept:
                        each.copy_(value)

    return again


def _buffers(function: Any) -> list[Tensor]:
    owner = getattr(function, "__self__", function)
    return list(owner.buffers()) if isinstance(owner, torch.nn.Module) else []
