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
from wherelint.companion.smooth import with_smooth
from wherelint.ops import OPERATIONS
from wherelint.torch import compat
from wherelint.torch.masked import Break, Run
from wherelint.torch.masking import leaves, masked_pass, nodes, reach, users
from wherelint.torch.trace import Labels, catalogue_name, label, tensors

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
#: What nodes remember.
_BAD, _SPREADS = "wherelint operands", "wherelint results"
#: Selections that may put a value onto a singular point, how near they are, and what their nodes keep.
_BOUNDS = frozenset({"clip", "relu", "maximum", "minimum"})
_NEAR = 8
_SAVED_ENDS = {"low": ("min", "min_val"), "high": ("max", "max_val")}
_KIND_OF = {node: kind for kind, found in _KINDS.items() for node in found.split()}


_BEGINS = (
    "the function begins a backward pass itself: pass the one that computes the loss, without `backward()` and "
    "`torch.autograd.grad`"
)
#: What a finite report says of a function that draws random numbers.
_DREW = (
    "The function draws random numbers, so this call may differ from the failing one: "
    "set torch.set_rng_state(state before that call)."
)


def locate(f: Callable[..., Any], *args: Any, argnums: int | Sequence[int] | None = None, **kwargs: Any) -> Report:
    """What poisons the gradient of ``f(*args)``, or of its sum, by the arguments and the parameters that it uses.

    ``f`` may be a module. Tensors of floats among the positional arguments are differentiated, in lists, tuples and
    dicts, too; with ``argnums`` only those of these arguments are, and no parameter. ``f`` is called once, and
    where no selection drops what breaks, a few times more nearby; arguments, ``.grad`` and the state of random numbers
    stay as they are.

    TypeError where there is nothing to differentiate, ValueError where there is no such argument, the result has no
    gradient or ``f`` begins a backward pass itself, and NotImplementedError for what ``torch.compile`` made.
    """
    with NonFiniteLabels():
        traced = trace(partial(f, **kwargs), args, argnums)
    report = explain(traced)
    flat, shape = tree_flatten(args)
    moving = [i for i, each in enumerate(flat) if differentiable(each)]
    owners, masked = _differentiated(args, argnums), iter(report.masked)

    def values(inputs: list[Any], wide: bool) -> list[Any]:
        point = list(flat)
        for i, each in zip(moving, inputs, strict=True):
            point[i] = torch.as_tensor(each).to(flat[i].device if wide else flat[i])
        found = trace(partial(f, **kwargs), tree_unflatten(point, shape), argnums).values
        return [as_array(each) for each in found if differentiable(each)]

    lost = [next(masked) if owners[i] else None for i in moving]
    arrays = (None if each is None else as_array(each) for each in lost)
    return with_smooth(report, (as_array(flat[i]) for i in moving), arrays, values)


def as_array(tensor: Tensor) -> Any:
    """The elements, in single precision where they have less."""
    half = tensor.is_floating_point() and tensor.dtype.itemsize < 4
    return (tensor.float() if half else tensor).detach().cpu().numpy().copy()


def explain(traced: Traced) -> Report:
    """What poisons the gradients of a call; its nodes may be labelled, and know which operands were inf or nan."""
    plain = gradients(traced)
    own = tuple(plain[: traced.own])
    if finite(plain):
        return Report(traced.value_finite, True, True, gradient=own, masked=own, note=_DREW if traced.drew else "")
    graph = nodes(traced.roots, traced.ends)
    run = Run(breaks=[], ends=traced.ends)
    gradients(traced, run)
    behind = reach({each.node for each in run.breaks or ()}, users(graph))
    candidates = frozenset([node for node in behind if kind(node)][:_MOST])
    run = Run(breaks=[], killers=candidates, ends=traced.ends)
    masked = gradients(traced, run)
    found = _poisons(run.breaks or [], graph, finite(masked))
    lost = "" if finite(masked) else ", ".join(sorted(run.lost))
    note = f"Dropped elements could not be followed through {lost}." if lost else ""
    return Report(
        traced.value_finite, False, finite(masked), found, gradient=own, masked=tuple(masked[: traced.own]), note=note
    )


class NonFiniteLabels(Labels):
    """Nodes also remember which elements of their operands, and whether any of their results, were inf or nan."""

    def label_new(self, result: Any, args: Sequence[Any]) -> list[Node]:
        new = super().label_new(result, args)
        with compat.without_modes(), torch.no_grad():
            operands = [each for each in tensors(args) if differentiable(each) and each is not result] if new else []
            bad = [~torch.isfinite(compat.layers(each)[-1]) for each in operands]
            spreads = bool(new) and not finite(
                compat.layers(each)[-1] for each in tensors(result) if differentiable(each)
            )
        for node in new:
            node.metadata[_BAD], node.metadata[_SPREADS] = [each for each in bad if each.any()], spreads
        return new


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
    #: Whether the call drew random numbers.
    drew: bool = False

    @property
    def value_finite(self) -> bool:
        """Whether nothing in the results is inf or nan."""
        return finite(self.values)


def trace(f: Callable[..., Any], args: Sequence[Any], argnums: int | Sequence[int] | None = None) -> Traced:
    """Call ``f`` on copies of its arguments; the next call draws the same random numbers."""
    if compat.is_gradient(f.func if isinstance(f, partial) else f):
        raise TypeError(
            "this function is a gradient already: pass the loss that it differentiates, locate(loss, x) and not "
            "locate(torch.func.grad(loss), x)"
        )
    flat, shape = tree_flatten(args)
    own = [each.detach().clone().requires_grad_(mine) if differentiable(each) else None
           for each, mine in zip(flat, _differentiated(args, argnums), strict=True)]  # fmt: skip
    arguments = [each for each in own if each is not None and each.requires_grad]
    if argnums is not None and not arguments:
        raise TypeError("there is nothing to differentiate: no argument of argnums holds floats; write 0.0 for 0")
    states, passes = _random_states(), list[bool]()

    def noted(backward: compat.Backward, *rest: Any) -> Any:
        passes.append(True)
        return backward(*rest)

    # Copies of the leaves, so that `f` may write to its arguments.
    with torch.enable_grad(), compat.around_backward(noted):
        given = [each if leaf is None else leaf.clone() for each, leaf in zip(flat, own, strict=True)]
        try:
            result = f(*tree_unflatten(given, shape))
        except Exception as error:
            if compat.is_of_the_compiler(error):
                raise NotImplementedError(
                    "locate and hunt cannot look into what torch.compile made: call the plain function"
                ) from error
            raise
        finally:
            drew = _restore(states)
    values = [each for each in tree_flatten(result)[0] if isinstance(each, Tensor)]
    roots = [each for each in values if each.requires_grad and differentiable(each)]
    if not roots:
        raise ValueError(_BEGINS) if passes else _nothing(values, arguments)
    if argnums is not None:
        return Traced(roots, arguments, values, len(arguments), drew=drew)
    others = [v for v in leaves(nodes(roots)) if not any(v is each for each in arguments)]
    return Traced(roots, [*arguments, *others], values, len(arguments), drew=drew)


def _differentiated(args: Sequence[Any], argnums: int | Sequence[int] | None) -> list[bool]:
    """Whether each leaf of the arguments is differentiated; ValueError where there is no such argument."""
    count = len(args)
    given = range(count) if argnums is None else [argnums] if isinstance(argnums, int) else argnums
    for k in given:
        if not -count <= k < count:
            raise ValueError(f"argnums has {k}, and the function is given {count} positional arguments")
    kept = {k % count for k in given}
    return [number in kept for number, each in enumerate(args) for _ in tree_flatten(each)[0]]


def _random_states() -> list[Tensor]:
    """The states of torch's random numbers: on the CPU, and on each CUDA device once CUDA is in use."""
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else ())]


def _restore(states: Sequence[Tensor]) -> bool:
    """Set the states again; whether they had changed."""
    if all(map(torch.equal, states, _random_states())):
        return False
    torch.set_rng_state(states[0])
    for device, state in enumerate(states[1:]):
        torch.cuda.set_rng_state(state, device)
    return True


def _nothing(values: Sequence[Tensor], arguments: Sequence[Tensor]) -> Exception:
    """Why a call has no gradient."""
    if not any(map(differentiable, values)):
        return TypeError("there is nothing to differentiate: the function returns no tensor of floats; return the loss")
    if not arguments:
        return TypeError("there is nothing to differentiate: no argument is a tensor of floats; give torch.tensor(0.0)")
    return ValueError(
        "the result has no gradient: leave out the `detach`, `item`, `no_grad` or NumPy between it and the arguments"
    )


def differentiable(each: object) -> bool:
    """Whether an argument or a result has a gradient."""
    return isinstance(each, Tensor) and (each.is_floating_point() or each.is_complex())


def gradients(traced: Traced, run: Run | None = None) -> list[Tensor | None]:
    """The gradients of the sum of the results by the leaves, masked with a run."""
    if not traced.roots or not traced.leaves:
        return [None] * len(traced.leaves)
    seeds = traced.seeds or [torch.ones_like(each) for each in traced.roots]
    masked = nullcontext() if run is None else compat.around_backward(partial(masked_pass, run, strict=False))
    try:
        with masked:
            return list(torch.autograd.grad(traced.roots, traced.leaves, seeds, retain_graph=True, allow_unused=True))
    except RuntimeError as error:
        if "second time" not in str(error):
            raise
        raise ValueError(_BEGINS) from error


def finite(found: Iterable[Any]) -> bool:
    """Whether nothing in some tensors is inf or nan; None is."""
    real = [each._values() if each.is_sparse else each for each in found if isinstance(each, Tensor)]
    real = [each for each in real if differentiable(each) and each.numel()]
    if len(real) < 2 or len({each.device for each in real}) > 1 or any(map(torch.is_complex, real)):
        return all(bool(torch.isfinite(each).all()) for each in real)
    return bool(torch.isfinite(torch.stack([each.float() for each in torch._foreach_norm(real, float("inf"))])).all())


def _poisons(breaks: list[Break], graph: dict[Node, list[Node]], masked_finite: bool) -> tuple[Poison, ...]:
    singular = {each.node for each in breaks if (known := OPERATIONS.get(operation(each.node))) and known.code}
    broken = {each.node for each in breaks if each.node.metadata.get(_SPREADS)}
    found: dict[tuple[Any, ...], Poison] = {}
    for each in breaks:
        if each.node not in singular and singular.intersection(reach([each.node], graph)):
            continue  # a product of what broke further up
        killer, genuine = each.killer, each.genuine
        if genuine and masked_finite:  # what it was clipped by drops it again
            killer = next((node for node in reach([each.node], graph)[1:] if kind(node)), None)
            genuine = False
        elif genuine:
            killer = next((node for node in reach([each.node], graph)[1:_NEAR] if _binds(node)), None)
        op_at, op_within = places(label(each.node))
        select_at, select_within = places(label(killer)) if killer else (None, None)
        at = (each.elements & ~_given(each, broken, graph)).nonzero()
        if not len(at):
            continue
        poison = Poison(
            operation(each.node), op_at, kind(killer) if killer else None, select_at, tuple(at[0].tolist()),
            count=len(at), genuine=genuine, op_within=op_within, select_within=select_within, framework="torch",
            node=each.node, elements=each.elements,
        )  # fmt: skip
        found.setdefault((poison.op, op_at, op_within, poison.select, select_at, genuine), poison)
    return tuple(found.values())


def _given(each: Break, broken: set[Node], graph: dict[Node, list[Node]]) -> Tensor:
    """The elements whose operand was inf or nan already, if another operation that broke made it so."""
    given = torch.zeros_like(each.elements)
    if broken.intersection(reach([each.node], graph)[1:]):
        for operand in each.node.metadata.get(_BAD, ()):
            given = given | (operand if operand.shape == given.shape else operand.any())
    return given


def _binds(node: Node) -> bool:
    """Whether the node is a clip that some element of its operand lies at or beyond."""
    if kind(node) not in _BOUNDS:
        return False
    operand, result = compat.saved(node, "self"), compat.saved(node, "result")
    if not isinstance(operand, Tensor):
        return isinstance(result, Tensor) and bool((result == 0).any())
    ends = {side: [compat.saved(node, name) for name in names] for side, names in _SAVED_ENDS.items()}
    low, high = (next((each for each in ends[side] if each is not None), None) for side in ("low", "high"))
    if low is None and high is None:
        return True
    return bool(low is not None and (operand <= low).any()) or bool(high is not None and (operand >= high).any())


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
