"""The frameworks' functions: calls of the catalogue with what changes their meaning, and the selections."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst
import numpy as np

from wherelint.graph.node import Node
from wherelint.interpret import indexing
from wherelint.interpret.attributes import FINFO
from wherelint.interpret.calls import Args, Kwargs
from wherelint.interpret.comparisons import compared
from wherelint.interpret.expressions import as_mask, multiply, power
from wherelint.interpret.lowering import Lowering
from wherelint.interpret.values import Value
from wherelint.ops import Signature
from wherelint.ops.facts import INDEXING, ORDERINGS

Handle = Callable[[Lowering, str, Args, Kwargs, cst.CSTNode], Value]
HANDLERS: dict[str, Handle] = {}


def handles(*names: str) -> Callable[[Handle], Handle]:
    """Register a handler for canonical names; ``{a,b}.c`` stands for ``a.c`` and ``b.c``."""

    def register(handle: Handle) -> Handle:
        for name in names:
            for expanded in _expand(name):
                HANDLERS[expanded] = handle
        return handle

    return register


def _expand(name: str) -> list[str]:
    if "{" not in name:
        return [name]
    before, _, rest = name.partition("{")
    choices, _, after = rest.partition("}")
    return [e for c in choices.split(",") for e in _expand(before + c + after)]


def argument(args: Args, kwargs: Kwargs, position: int, *names: str) -> Value:
    """An argument by position or keyword; None where it is absent."""
    return args[position] if position < len(args) else next((kwargs[n] for n in names if n in kwargs), None)


def framework(name: str) -> str | None:
    """The framework of a canonical name; host NumPy is none."""
    top = name.split(".", 1)[0]
    return {"numpy": None, "keras": "tensorflow"}.get(top, top)


_NORMS = {1: "norm1", np.inf: "norminf"}


def adapt(low: Lowering, name: str, signature: Signature, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    """A call of the catalogue."""
    op = signature.op
    owner = framework(name)
    if op in ("power", "integer_power", "power_static"):
        base, exponent = (argument(args, kwargs, i, *signature.operands[i]) for i in range(2))
        if base is None or exponent is None:
            return None
        made = power(low, base, exponent, at, owner)
        return made if owner is not None else low.stop(made, at)
    if op == "multiply" and owner is not None and len(signature.operands) == 2:
        x, y = (argument(args, kwargs, i, *signature.operands[i]) for i in range(2))
        return None if x is None or y is None else multiply(low, low.tensor(x, at), low.tensor(y, at), at, owner)
    if op in ("max", "min") and owner == "torch":
        other = argument(args, kwargs, 1, "other")
        if isinstance(other, Node) and other.kind == "float":  # of two tensors it is elementwise
            extremum = op + "imum"
            return low.node(extremum, (args[0], other), at, selection=extremum, framework=owner)
    if op in ORDERINGS and owner is not None:
        x, y = (argument(args, kwargs, i, *signature.operands[i]) for i in range(2))
        return None if x is None or y is None else compared(low, op, low.tensor(x, at), low.tensor(y, at), at, owner)
    if op == "where":
        return _where(low, name, signature, args, kwargs, at)
    if op == "identity" and not args and not kwargs:
        return None
    mask = kwargs.get("where")
    if mask is not None and args:
        args = _masked_operand(low, op, args, mask, at)
    if op == "norm":
        order = argument(args, kwargs, 1, "ord", "p")
        if order in _NORMS if isinstance(order, (int, float)) else False:
            signature = Signature(_NORMS[order], signature.operands, signature.defaults)
        elif isinstance(order, (int, float)) and order not in (2, -2):
            return None
    if op in _LEAVING_OUT and owner is not None and (operand := argument(args, kwargs, 0, *signature.operands[0])):
        return _over_numbers(low, op, low.tensor(operand, at), at, owner)
    called = low.call_operation(name, signature, args, kwargs, at)
    if called is None:
        return None
    made = called
    if mask is not None and op == "mean":  # the mean of the elements that the mask keeps
        kept = as_condition(low, mask, at)
        made = low.node("divide", (low.node("sum", (args[0],), at), low.node("sum", (kept,), at)), at, framework=owner)
    if mask is not None and op in ("softmax", "log_softmax") and op == "softmax":
        made = low.node("where", (mask, made, 0.0), at)
    reduction = kwargs.get("reduction", "mean") if op in _LOSSES and owner == "torch" else None
    if reduction in ("mean", "sum"):
        return low.node(reduction, (made,), at)
    return made


_LOSSES = frozenset({"squared_error", "absolute_error", "huber", "smooth_l1", "binary_cross_entropy",
                     "sigmoid_cross_entropy", "kl_divergence", "poisson_nll"})  # fmt: skip
#: What a reduction makes of elements that its mask leaves out; of an extremum it is finite, as its result is.
_NEUTRAL = {"prod": 1.0, "max": FINFO["min"], "min": FINFO["max"],
            **dict.fromkeys(("softmax", "log_softmax", "logsumexp"), -np.inf)}  # fmt: skip


#: What is reduced by reductions that leave out nan.
_LEAVING_OUT = {"nansum": "sum", "nanmean": "sum", "nanmax": "max", "nanmin": "min"}


def _over_numbers(low: Lowering, op: str, operand: Node, at: cst.CSTNode, owner: str) -> Node:
    """A reduction that leaves out nan, as the selection and the reduction that it consists of."""
    reduction = _LEAVING_OUT[op]
    missing = low.node("isnan", (operand,), at, framework=owner)
    parts = missing, _NEUTRAL.get(reduction, 0.0), operand
    kept = low.node("where", parts, at, selection="reduction", framework=owner)
    made = low.node(reduction, (kept,), at, framework=owner)
    if reduction != "sum":  # of nothing but nan
        return low.node("cond", (low.node("all", (missing,), at), np.nan, made), at)
    if op == "nansum":
        return made
    count = low.node("sum", (low.node("logical_not", (missing,), at),), at)
    return low.node("divide", (made, count), at, framework=owner)


def _masked_operand(low: Lowering, op: str, args: Args, mask: Value, at: cst.CSTNode) -> Args:
    """``reduce(x, where=mask)`` as a reduction of a selection."""
    neutral = _NEUTRAL.get(op, 0.0)
    operand = low.tensor(args[0], at)
    condition = as_condition(low, mask, at)
    kind = None if op in ("softmax", "log_softmax") else "reduction"
    return [low.node("where", (condition, operand, neutral), at, selection=kind), *args[1:]]


def as_condition(low: Lowering, value: Value, at: cst.CSTNode) -> Value:
    """A value used as a condition; a parameter used so is a mask."""
    tensor = low.tensor(value, at)
    mask = as_mask(low, tensor, at)
    return tensor if mask is None else mask


def _where(low: Lowering, name: str, signature: Signature, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    parts = [argument(args, kwargs, i, *signature.operands[i]) for i in range(3)]
    if parts[0] is None or parts[1] is None or parts[2] is None:
        return indexing.indices(low, parts[0], at)
    return selection(low, parts[0], parts[1], parts[2], at, "select" if name.startswith("jax.lax") else "where", name)


def selection(low: Lowering, condition: Value, a: Value, b: Value, at: cst.CSTNode, kind: str, name: str) -> Node:
    """A selection; of host NumPy it is not differentiated."""
    owner = framework(name)
    condition = as_condition(low, condition, at)
    lists = isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)) and len(a) == len(b)
    if lists and low.static_numbers(a) is None:
        a, b = low.tensor(a, at), low.tensor(b, at)
    if owner is None:
        return low.stop(low.node("where", (condition, a, b), at), at)
    return low.select(condition, a, b, at, kind, owner)


@handles("jax.lax.select_n")
def _select_n(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    if len(args) != 3:
        return NotImplemented
    return selection(low, args[0], args[2], args[1], at, "select", name)


@handles("{jax.numpy,numpy}.select")
def _select(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    conditions, choices = argument(args, kwargs, 0, "condlist"), argument(args, kwargs, 1, "choicelist")
    result = argument(args, kwargs, 2, "default")
    if not isinstance(conditions, (list, tuple)) or not isinstance(choices, (list, tuple)):
        return NotImplemented
    result = 0 if result is None else result
    for condition, choice in reversed(list(zip(conditions, choices, strict=False))):
        result = selection(low, condition, choice, result, at, "select", name)
        result.params["listed"] = True
    return result


@handles("jax.lax.clamp")
def _lax_clamp(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    if len(args) != 3:
        return NotImplemented
    return low.node("clamp", (args[1], args[0], args[2]), at, selection="clip", framework="jax")


@handles("{jax.numpy,numpy,torch}.nan_to_num")
def _nan_to_num(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    value = argument(args, kwargs, 0, "x", "input")
    if value is None:
        return NotImplemented
    fills = args[1 if name.startswith("torch") else 2 :]  # NumPy has `copy` there
    return nan_to_num(low, value, fills, kwargs, at, framework(name))


def nan_to_num(low: Lowering, value: Value, args: Args, kwargs: Kwargs, at: cst.CSTNode, owner: str | None) -> Value:
    """``nan_to_num`` as the selection that it is; ``args``: what stands for nan, inf and -inf."""
    tensor = low.tensor(value, at)
    fills: dict[str, Value] = {"nan": 0.0, "posinf": FINFO["max"], "neginf": FINFO["min"]}
    for i, name in enumerate(fills):
        given = argument(args, kwargs, i, name)
        if given is not None:
            fills[name] = given
    positive = low.node("greater", (tensor, 0), at)
    infinite = low.node("where", (positive, fills["posinf"], fills["neginf"]), at)
    filled = low.node("where", (low.node("isnan", (tensor,), at), fills["nan"], infinite), at)
    finite = low.node("isfinite", (tensor,), at)
    made = low.node("where", (finite, tensor, filled), at, selection="nan_to_num" if owner else None, framework=owner)
    return made if owner else low.stop(made, at)


@handles("tensorflow.boolean_mask", "torch.masked_select")
def boolean_mask(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    """``x[mask]`` as a function."""
    value, mask = argument(args, kwargs, 0, "tensor", "input"), argument(args, kwargs, 1, "mask")
    if value is None or mask is None:
        return NotImplemented
    return low.node("compress", (as_condition(low, mask, at), value), at, selection="index", framework=framework(name))


@handles("torch.masked_fill")
def _masked_fill(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    value, mask, fill = (argument(args, kwargs, i, n) for i, n in enumerate(("input", "mask", "value")))
    if value is None or mask is None or fill is None:
        return NotImplemented
    return selection(low, mask, fill, value, at, "masked_fill", name)


@handles(f"{{jax.numpy,numpy,jax.lax,torch,tensorflow}}.{{{','.join(INDEXING)}}}")
def _gather(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    if not args:
        return NotImplemented
    index = argument(args, kwargs, 2 if name.startswith("torch.") else 1, "index", "indices", "start_indices")
    return indexing.gathered(low, low.tensor(args[0], at), [index], at)
