"""Backward passes in which a dropped element receives nothing.

A pass that begins with a `Masked` cotangent hands every operation on cotangents to ``__torch_dispatch__``, whichever
thread runs it, whereas what an operation multiplies them by arrives as a plain tensor. An operation on cotangents is
linear in them: it is run again on flags, which are 0 where a cotangent is dead, and what becomes 0 is dead. Views of
flags are views and writes are writes, as they are of the cotangents.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node
from torch.utils._pytree import tree_map_only

from wherelint.torch import compat
from wherelint.torch.trace import tensors

#: Flags in the shape of a cotangent by what drops: every selection together, or one node of the graph alone.
Flags = dict[Node | None, Tensor]
#: The key of every selection together; every cotangent has flags for it.
EVERY = None
#: Operations by what they multiply cotangents by. Moves and sums of elements have no factors: their plain
#: tensors are zeros for missing cotangents. Where elements are selected by value, the plain tensors are as they are.
_LINEAR = """alias as_strided detach diagonal expand permute select slice split split_with_sizes squeeze t transpose
    unbind unfold unsqueeze view _reshape_alias _unsafe_view view_as_real view_as_complex cat clone flip gather index
    index_select masked_select repeat reshape roll stack take rot90 movedim contiguous lift_fresh _to_copy neg conj
    _conj sum mean cumsum nansum avg_pool2d_backward where masked_fill select_backward slice_backward diagonal_backward
    index_put _index_put_impl index_add index_copy index_fill scatter scatter_add masked_scatter select_scatter
    slice_scatter diagonal_scatter as_strided_scatter copy fill zero put tril triu constant_pad_nd diag_embed
    trace_backward unfold_backward native_dropout_backward embedding_dense_backward"""
_BY_VALUE = """threshold_backward hardtanh_backward max_pool2d_with_indices_backward nll_loss_backward
    nll_loss2d_backward hardshrink_backward softshrink_backward max_pool3d_with_indices_backward
    masked_select_backward"""
_PRODUCTS = """mul div sgn ldexp tanh_backward sigmoid_backward gelu_backward silu_backward elu_backward
    softplus_backward leaky_relu_backward mish_backward logit_backward log_sigmoid_backward hardsigmoid_backward
    hardswish_backward mse_loss_backward smooth_l1_loss_backward huber_loss_backward binary_cross_entropy_backward
    _prelu_kernel_backward polar sinc rrelu_with_noise_backward"""
_CONTRACTIONS = "mm bmm mv dot vdot addmm baddbmm addmv convolution_backward outer ger linear matmul"
_KINDS = {
    name: kind
    for kind, names in {
        "linear": _LINEAR, "by value": _BY_VALUE, "product": _PRODUCTS, "contraction": _CONTRACTIONS,
        "sum": "add sub rsub", "row": "_softmax_backward_data _log_softmax_backward_data",
        "buffer": "new_zeros new_empty_strided new_empty zeros_like empty_like",
    }.items()
    for name in names.split()
}  # fmt: skip
#: What stands for the plain operands where an operation is run on flags.
_PLAIN: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda t: (t != 0).to(t.dtype) if _is_number(t) else t, "contraction": torch.ones_like,
    "by value": lambda t: t, "buffer": lambda t: t,
}  # fmt: skip


@dataclass(frozen=True)
class Break:
    """Where a backward pass multiplied a dead or finite cotangent by something that is not finite.

    ``elements`` is a mask in the shape of the result; ``selection`` is the innermost one that would drop them alone.
    """

    node: Node
    elements: Tensor
    selection: Node | None
    genuine: bool


@dataclass
class Run:
    """One backward pass: what it is to note, and what it could not follow."""

    #: The selections whose dead elements are told apart, and those of them that the pass has met, in this order.
    selections: frozenset[Node] = frozenset()
    met: dict[Node, None] = field(default_factory=dict)
    breaks: list[Break] | None = None
    #: Operations through which dead elements could not be followed.
    lost: dict[str, None] = field(default_factory=dict)
    over: bool = False
    #: Nodes that the pass does not go through.
    ends: frozenset[Node] = frozenset()


class Masked(Tensor):
    """A cotangent, and which elements of it are dead; outside of its backward pass an ordinary tensor."""

    value: Tensor
    flags: Flags
    run: Run

    @staticmethod
    def __new__(cls, value: Tensor, flags: Flags, run: Run) -> Masked:
        """The same elements."""
        result: Masked = compat.alias(cls, value)
        result.value, result.flags, result.run = value, flags, run
        return result

    __torch_function__ = compat.no_torch_function

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        call = _Call(func, args, kwargs or {})
        plain = call.run.over or call.node is None
        return call.on(lambda cotangent: cotangent.value) if plain else call.result()

    def by(self, key: Node | None) -> Tensor:
        """The flags of a key; nothing is dead by a key that there are none for."""
        found = self.flags.get(key)
        return torch.full_like(self.value, 1 + 1j if self.value.is_complex() else 1) if found is None else found


class _Call:
    """One operation of a backward pass on cotangents."""

    def __init__(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs
        self.node: Any = compat.current_node()  # None outside of a backward pass
        self.name, self.in_place = _named(func)
        self.kind = _KINDS.get(self.name, "unknown")
        operands = list(tensors((*args, *kwargs.values())))
        self.cotangents = [each for each in operands if isinstance(each, Masked)]
        self.plain = [each for each in operands if not isinstance(each, Masked)]
        self.run = self.cotangents[0].run

    def on(self, cotangent: Callable[[Masked], Tensor], plain: Callable[[Tensor], Tensor] = lambda t: t) -> Any:
        """What the operation makes of other operands."""

        def instead(each: Tensor) -> Tensor:
            return cotangent(each) if isinstance(each, Masked) else plain(each)

        args, kwargs = tree_map_only(Tensor, instead, (self.args, self.kwargs))
        return self.func(*args, **kwargs)

    def result(self) -> Any:
        """The result with its flags, or the operand that the operation has written."""
        run = self.run
        if self.node in run.selections:
            run.met[self.node] = None
        keys = dict.fromkeys(key for each in self.cotangents for key in each.flags)
        if self.kind == "buffer":
            keys |= {EVERY: None, **run.met}
        elif self.node in run.selections:
            keys[self.node] = None
        before = [torch.isfinite(each.value) for each in self.cotangents] if run.breaks is not None else []
        target = self.args[0] if self.in_place else None
        if isinstance(target, Masked):
            target.flags = {key: target.by(key) for key in keys}
        value = self.on(lambda each: each.value)
        if target is not None and not isinstance(target, Masked):
            self._lose()  # a plain buffer: its zeros are no news, what they stand for is lost
            return target
        flags = {key: self._follow(key, value) for key in keys}
        if self.kind == "contraction":
            value = self._contract(value)
        elif self.kind in ("product", "row", "unknown"):
            if before:
                self._look(value, before, flags)
            for each, alive in zip(tensors(value), tensors(flags[EVERY]), strict=True):
                each.masked_fill_(alive == 0, 0)
        return self._wrap(value, flags) if target is None else target

    def _look(self, value: Any, before: list[Tensor], flags: Flags) -> None:
        """Note what is not finite of a product, where the cotangents were."""
        if self.kind == "unknown":
            for each in tensors(value) if all(bool(each.all()) for each in before) else ():
                self._note(~torch.isfinite(each), {})
            return
        whole = functools.reduce(torch.logical_and, before)
        whole = whole.all(self.args[2], keepdim=True) if self.kind == "row" else whole
        self._note(~torch.isfinite(value) & whole, flags)

    def _wrap(self, value: Any, flags: dict[Any, Any]) -> Any:
        if isinstance(value, list | tuple):
            parts = enumerate(value)
            return type(value)([self._wrap(each, {key: found[i] for key, found in flags.items()}) for i, each in parts])
        if not isinstance(value, Tensor) or value.layout != torch.strided or not _is_number(value):
            return value
        return Masked(value, flags, self.run)

    def _follow(self, key: Any, value: Any) -> Any:
        """The flags of the result by a key; where the operation writes, its operand's are written."""
        if self.kind in ("product", "sum", "row"):
            alive = [each.by(key) != 0 for each in self.cotangents]
            if self.kind == "sum":
                alive += [each != 0 for each in self.plain]
            found = functools.reduce(torch.logical_or if self.kind == "sum" else torch.logical_and, alive)
            if self.kind == "row":  # an element reaches its whole row
                found = found.any(self.args[2], keepdim=True)
            if (factor := self._undifferentiated()) is not None:
                found = found & (factor != 0)
            return self.args[0].flags[key].copy_(found) if self.in_place else _flags(found, value)
        try:
            if self.kind in _PLAIN:
                found = self.on(lambda each: each.by(key), _PLAIN[self.kind])
                return found.zero_() if self.kind == "buffer" else found
        except RuntimeError:
            pass
        dead = all(not bool(each.by(key).any()) for each in self.cotangents)
        if key is EVERY and not dead:
            self._lose()
        return tree_map_only(Tensor, lambda t: _flags(torch.full_like(t, not dead, dtype=torch.bool), t), value)

    def _lose(self) -> None:
        if any(bool((each.by(EVERY) == 0).any()) for each in self.cotangents):
            self.run.lost[self.name] = None

    def _undifferentiated(self) -> Tensor | None:
        """The other factor of a product, if no gradient flows to it: where that is exactly 0, it drops."""
        if self.name != "mul" or not self.plain:
            return None
        product = self.node.name().startswith("MulBackward")
        if _is_number(self.plain[0]) and not (product and any(edge is None for edge, _ in self.node.next_functions)):
            return None
        return self.plain[0]

    def _contract(self, value: Any) -> Any:
        """Sums of products without the terms of dead elements; a term that is alive and not finite makes a nan."""
        if all(bool(torch.isfinite(each).all()) for each in self.plain) or len(self.cotangents) > 1 or self.in_place:
            return value
        value = self.on(lambda each: each.value, lambda t: torch.nan_to_num(t, 0.0, 0.0, 0.0))

        def meets(flags: Callable[[Masked], Tensor]) -> Any:
            return tree_map_only(Tensor, lambda t: t != 0, self.on(flags, lambda t: (~torch.isfinite(t)).to(t.dtype)))

        alive = meets(lambda each: each.by(EVERY))
        for each, nans in zip(tensors(value), tensors(alive), strict=True):
            each.masked_fill_(nans, torch.nan)
        if self.run.breaks is not None and isinstance(value, Tensor):

            def survive(key: Any) -> Tensor:
                dropped: Tensor = meets(lambda each: _flags(each.by(key) == 0, each.value))
                return ~dropped | alive

            flags = {key: survive(key) for key in self.cotangents[0].flags}
            self._note(~flags[EVERY] | alive, flags)
        return value

    def _note(self, broken: Tensor, flags: Mapping[Any, Tensor]) -> None:
        """Remember where the operation broke: what is dead there, and what is alive."""
        rest = broken & (flags[EVERY] == 0) if flags else torch.zeros_like(broken)
        genuine = broken & ~rest
        # The innermost selection that drops an element alone: the last one that the backward pass met.
        for key in (*reversed(self.run.met), None):
            found = rest & (flags[key] == 0) if key in flags else rest & False
            if bool(found.any()):
                self.run.breaks.append(Break(self.node, found, key, False))  # type: ignore[union-attr]
                rest = rest & ~found
        if bool(genuine.any()):
            self.run.breaks.append(Break(self.node, genuine, None, True))  # type: ignore[union-attr]


@functools.cache
def _named(func: Any) -> tuple[str, bool]:
    """The name of an operation, and whether it writes its first operand."""
    name = str(func.name()).partition("::")[2].partition(".")[0]
    return name.rstrip("_"), name.endswith("_") and not name.endswith("__")


def _is_number(tensor: Tensor) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())


def _flags(alive: Tensor, like: Tensor) -> Tensor:
    """Flags that lie in memory as a cotangent does; both parts of a complex number are alive."""
    flags = torch.empty_like(like)
    return flags.copy_(alive.to(like.dtype) * (1 + 1j) if like.is_complex() else alive)


def mask_gradients(*roots: Tensor | GradientEdge) -> AbstractContextManager[None]:
    """Within the block, ``backward()`` and ``torch.autograd.grad`` hand nothing to what a selection drops.

    ``with mask_gradients(loss): loss.backward()``; with tensors only passes from these are masked, else all of them.
    Values and finite gradients stay as they are. An element is dead, and receives nothing whatever the derivative, if a
    selection, an index or a factor drops it that is exactly 0 and not differentiated.

    TypeError for what is no tensor: there is no ``mask_gradients(f)`` as in JAX.
    NotImplementedError: for ``create_graph=True``, inside the transforms of ``torch.func``, in and of what
    ``torch.compile`` compiled, and for a gradient that stays nan because an operation has no rule.
    """
    if wrong := [type(each).__name__ for each in roots if not isinstance(each, Tensor | GradientEdge)]:
        raise TypeError(
            "mask_gradients is a block around a backward pass, `with mask_gradients(loss): loss.backward()`, and "
            f"takes tensors, not {wrong[0]}"
        )
    return _mask_passes(roots)


@contextmanager
def _mask_passes(roots: Sequence[Any]) -> Iterator[None]:
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
        return masked_pass(Run(), backward, begun, seeds, *rest)

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
        raise NotImplementedError("mask_gradients does not support second derivatives (create_graph=True)")
    order = nodes(roots, run.ends)
    if any(map(compat.is_compiled, order)):
        raise NotImplementedError("mask_gradients cannot read a function from torch.compile: call the plain function")
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
        # Where the caller's cotangent is exactly 0, nothing is asked for.
        masked = tuple(
            seed if seed is None or isinstance(seed, Masked)
            else Masked(seed.detach(), {EVERY: _flags(seed.detach() != 0, seed.detach())}, run)
            for seed in seeds
        )  # fmt: skip
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
            f"the gradient is not finite: mask_gradients cannot follow discarded elements through {', '.join(broken)}"
        )
    return result


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
