"""Which operation and which selection a gradient was lost to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import Node
from torch.utils._pytree import tree_flatten, tree_unflatten

from wherelint.companion import Poison, Report
from wherelint.companion.frames import places
from wherelint.companion.hunt import chosen_arguments
from wherelint.companion.smooth import with_smooth
from wherelint.ops import OPERATIONS
from wherelint.torch import compat
from wherelint.torch.masking import Break, Run, leaves, masked_pass, nodes, reach, users
from wherelint.torch.trace import Labels, catalogue_name, label

#: How many selections are told apart: the nearest ones to what broke.
_MOST = 64
#: What the nodes of selections begin with, and the kind of selection that this is.
_KINDS = {
    "where": "Where", "masked_fill": "MaskedFill", "multiply": "Mul", "nan_to_num": "NanToNum",
    "clip": "Clamp Hardtanh",
    "relu": "Relu Threshold", "maximum": "Maximum Max Amax Fmax", "minimum": "Minimum Min Amin Fmin",
    "assignment": "CopySlices IndexPut Fill Copy Zero MaskedScatter IndexFill IndexCopy Scatter",
    "index": "Index IndexSelect Select Slice Gather MaskedSelect Unbind Split SplitWithSizes Narrow Diagonal Take "
             "AsStrided NllLoss Unfold Tril Triu Chunk Topk Sort Kthvalue Median Mode Trace",
    "dropout": "NativeDropout", "pooling": "MaxPool2DWithIndices MaxPool3DWithIndices",
}  # fmt: skip
#: Selections that may put a value onto a singular point, and how near they are.
_BOUNDS = frozenset({"clip", "relu", "maximum", "minimum"})
_NEAR = 4
_KIND_OF = {node: kind for kind, found in _KINDS.items() for node in found.split()}


def locate(f: Callable[..., Any], *args: Any, argnums: int | Sequence[int] | None = None, **kwargs: Any) -> Report:
    """What poisons the gradient of ``f(*args)``, or of its sum, by the arguments and the parameters that it uses.

    ``f`` may be a module. Tensors of floats among the positional arguments are differentiated, in lists, tuples and
    dicts, too; with ``argnums`` only those of these arguments are, and no parameter. ``f`` is called once, and where no
    selection drops what breaks, a few times more nearby; arguments, ``.grad`` and the state of random numbers stay as
    they are.

    TypeError where there is nothing to differentiate, ValueError where there is no such argument or the result has no
    gradient. What ``torch.compile`` made cannot be looked into: pass the plain function.
    """
    with Labels():
        traced = trace(partial(f, **kwargs), args, argnums)
    report = explain(traced)
    flat, shape = tree_flatten(args)
    moving = [i for i, each in enumerate(flat) if differentiable(each)]
    is_own, masked = _is_own(args, argnums), iter(report.masked)
    lost = [next(masked) if is_own[i] else None for i in moving]

    def values(inputs: list[Any], wide: bool) -> list[Any]:
        point = list(flat)
        for i, each in zip(moving, inputs, strict=True):
            point[i] = torch.as_tensor(each).to(flat[i].device if wide else flat[i])
        found = trace(partial(f, **kwargs), tree_unflatten(point, shape), argnums).values
        return [as_array(each) for each in found if differentiable(each)]

    arrays = (None if each is None else as_array(each) for each in lost)
    return with_smooth(report, (as_array(flat[i]) for i in moving), arrays, values)


def as_array(tensor: Tensor) -> Any:
    """The elements, in single precision where they have less."""
    half = tensor.is_floating_point() and tensor.dtype.itemsize < 4
    return (tensor.float() if half else tensor).detach().cpu().numpy().copy()


def explain(traced: Traced) -> Report:
    """What poisons the gradients of a call; its nodes may be labelled."""
    plain = gradients(traced)
    own = tuple(plain[: traced.own])
    if finite(plain):
        return Report(traced.value_finite, True, True, gradient=own, masked=own)
    graph = nodes(traced.roots, traced.ends)
    run = Run(breaks=[], ends=traced.ends)
    gradients(traced, run)
    behind = reach({each.node for each in run.breaks or ()}, users(graph))
    candidates = frozenset([node for node in behind if kind(node)][:_MOST])
    run = Run(breaks=[], selections=candidates, ends=traced.ends)
    masked = gradients(traced, run)
    found = _poisons(run.breaks or [], graph, finite(masked))
    lost = "" if finite(masked) else ", ".join(sorted(run.lost))
    note = f"wherelint cannot follow discarded elements through {lost}." if lost else ""
    return Report(
        traced.value_finite, False, finite(masked), found, gradient=own, masked=tuple(masked[: traced.own]), note=note
    )


@dataclass(frozen=True)
class Traced:
    """A call: the roots of its graph, and the leaves that it is differentiated by, those of the arguments first."""

    roots: list[Tensor]
    leaves: list[Any]
    values: list[Tensor]
    #: How many leaves there are in the arguments.
    own: int
    #: The cotangents of the roots; ones if there are none.
    seeds: Sequence[Tensor] = ()
    #: Nodes that no pass goes through.
    ends: frozenset[Node] = frozenset()

    @property
    def value_finite(self) -> bool:
        """Whether nothing in the results is inf or nan."""
        return finite(self.values)


def trace(f: Callable[..., Any], args: Sequence[Any], argnums: int | Sequence[int] | None = None) -> Traced:
    """Call ``f`` on copies of its arguments; the next call draws the same random numbers."""
    flat, shape = tree_flatten(args)
    own = [each.detach().clone().requires_grad_(mine) if differentiable(each) else None
           for each, mine in zip(flat, _is_own(args, argnums), strict=True)]  # fmt: skip
    arguments = [each for each in own if each is not None and each.requires_grad]
    if argnums is not None and not arguments:
        raise TypeError("there is nothing to differentiate: no argument of argnums holds floats; write 0.0 for 0")
    devices = range(torch.cuda.device_count() if torch.cuda.is_initialized() else 0)
    # Copies of the leaves, so that `f` may write to its arguments.
    with torch.enable_grad(), torch.random.fork_rng(devices):
        copies = [each if leaf is None else leaf.clone() for each, leaf in zip(flat, own, strict=True)]
        result = f(*tree_unflatten(copies, shape))
    values = [each for each in tree_flatten(result)[0] if isinstance(each, Tensor)]
    roots = [each for each in values if each.requires_grad and differentiable(each)]
    if not any(map(differentiable, values)):
        raise TypeError("there is nothing to differentiate: the function returns no tensor of floats; return the loss")
    if not roots and not arguments:
        raise TypeError("there is nothing to differentiate: no argument is a tensor of floats; give torch.tensor(0.0)")
    if not roots:
        raise ValueError("the result has no gradient: leave out the `detach`, `item`, `no_grad` or NumPy before it")
    beside = leaves(nodes(roots)) if argnums is None else []
    others = [v for v in beside if not any(v is each for each in arguments)]
    return Traced(roots, [*arguments, *others], values, len(arguments))


def _is_own(args: Sequence[Any], argnums: int | Sequence[int] | None) -> list[bool]:
    """Which leaves of the arguments are differentiated, if they have a gradient."""
    numbers = chosen_arguments(argnums, len(args))
    return [number in numbers for number, each in enumerate(args) for _ in tree_flatten(each)[0]]


def differentiable(each: object) -> bool:
    """Whether an argument or a result has a gradient."""
    return isinstance(each, Tensor) and (each.is_floating_point() or each.is_complex())


def gradients(traced: Traced, run: Run | None = None) -> list[Tensor | None]:
    """The gradients of the sum of the results by the leaves, masked with a run."""
    if not traced.roots or not traced.leaves:
        return [None] * len(traced.leaves)
    seeds = traced.seeds or [torch.ones_like(each) for each in traced.roots]
    masked = nullcontext() if run is None else compat.around_backward(partial(masked_pass, run, strict=False))
    with masked:
        return list(torch.autograd.grad(traced.roots, traced.leaves, seeds, retain_graph=True, allow_unused=True))


def finite(found: Iterable[Any]) -> bool:
    """Whether nothing in some tensors is inf or nan; None is."""
    real = [each._values() if each.is_sparse else each for each in found if isinstance(each, Tensor)]
    real = [each for each in real if differentiable(each) and each.numel()]
    if len(real) < 2 or len({each.device for each in real}) > 1 or any(map(torch.is_complex, real)):
        return all(bool(torch.isfinite(each).all()) for each in real)
    return bool(torch.isfinite(torch.stack([each.float() for each in torch._foreach_norm(real, float("inf"))])).all())


def _poisons(breaks: list[Break], graph: dict[Node, list[Node]], masked_finite: bool) -> tuple[Poison, ...]:
    singular = {each.node for each in breaks if (known := OPERATIONS.get(operation(each.node))) and known.code}
    found: dict[tuple[Any, ...], Poison] = {}
    for each in breaks:
        if each.node not in singular and singular.intersection(reach([each.node], graph)):
            continue  # a product of what broke further up
        selection, genuine = each.selection, each.genuine
        if genuine and masked_finite:  # what it was clipped by drops it again
            selection = next((node for node in reach([each.node], graph)[1:] if kind(node)), None)
            genuine = False
        elif genuine:
            selection = next((node for node in reach([each.node], graph)[1:_NEAR] if kind(node) in _BOUNDS), None)
        select = (kind(selection), places(label(selection))) if selection else ()
        poison = Poison.of(
            operation(each.node), places(label(each.node)), each.elements.nonzero(), *select, genuine=genuine,
            framework="torch", node=each.node, elements=each.elements,
        )  # fmt: skip
        key = poison.op, poison.op_at, poison.op_within, poison.select, poison.select_at, genuine
        found.setdefault(key, poison)
    return tuple(found.values())


def _stem(node: Node) -> str:
    return re.sub(r"Backward\d*$", "", node.name().rpartition("::")[2])


def kind(node: Node) -> str | None:
    """The kind of selection that a node is, as the linter names it."""
    return _KIND_OF.get(_stem(node))


def operation(node: Node) -> str:
    """The catalogue's name of the operation that a node differentiates; torch's own if the catalogue has none."""
    name = stem(node).removeprefix("special_").removeprefix("linalg_")
    return catalogue_name(name) or name


def stem(node: Node) -> str:
    """What torch itself calls the operation that a node differentiates."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", _stem(node)).lower()
