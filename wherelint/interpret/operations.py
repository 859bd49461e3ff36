"""Calls of the catalogue, with the arguments that change what they compute."""

import ast

import numpy as np

from wherelint.frameworks import framework_of
from wherelint.frameworks.base import Signature
from wherelint.graph.node import Node
from wherelint.interpret import indexing
from wherelint.interpret.arithmetic import as_mask, compared, multiply, power
from wherelint.interpret.attributes import FINFO
from wherelint.interpret.lowering import Lowering
from wherelint.interpret.values import Args, Kwargs, Value
from wherelint.ops import lookup
from wherelint.ops.traits import ORDERINGS


def argument(args: Args, kwargs: Kwargs, position: int, *names: str) -> Value:
    """An argument by position or keyword; None where it is absent."""
    return args[position] if position < len(args) else next((kwargs[n] for n in names if n in kwargs), None)


def framework(name: str) -> str | None:
    """The framework of a canonical name; host NumPy is none."""
    top = name.split(".", 1)[0]
    return framework_of(name) or (None if top == "numpy" else top)


_NORMS = {1: "norm1", np.inf: "norminf"}


def adapt(low: Lowering, name: str, signature: Signature, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
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
        if isinstance(other, Node) and other.kind == "bool":
            return low.node("logical_or" if op == "max" else "logical_and", (args[0], other), at)
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
        if isinstance(order, (int, float)) and order in _NORMS:
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
    if mask is not None and op == "softmax":
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


def _over_numbers(low: Lowering, op: str, operand: Node, at: ast.AST, owner: str) -> Node:
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


def _masked_operand(low: Lowering, op: str, args: Args, mask: Value, at: ast.AST) -> Args:
    """``reduce(x, where=mask)`` as a reduction of a selection."""
    neutral = _NEUTRAL.get(op, 0.0)
    operand = low.tensor(args[0], at)
    condition = as_condition(low, mask, at)
    kind = None if op in ("softmax", "log_softmax") else "reduction"
    return [low.node("where", (condition, operand, neutral), at, selection=kind), *args[1:]]


def as_condition(low: Lowering, value: Value, at: ast.AST) -> Value:
    """A value used as a condition; a parameter used so is a mask."""
    tensor = low.tensor(value, at)
    mask = as_mask(low, tensor, at)
    return tensor if mask is None else mask


def _where(low: Lowering, name: str, signature: Signature, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    parts = [argument(args, kwargs, i, *signature.operands[i]) for i in range(3)]
    if parts[0] is None or parts[1] is None or parts[2] is None:
        return indexing.indices(low, parts[0], at)
    return selection(low, parts[0], parts[1], parts[2], at, "select" if name.startswith("jax.lax") else "where", name)


def selection(low: Lowering, condition: Value, a: Value, b: Value, at: ast.AST, kind: str, name: str) -> Node:
    """A selection; of host NumPy it is not differentiated."""
    owner = framework(name)
    condition = as_condition(low, condition, at)
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)) and len(a) == len(b):
        a, b = (a, b) if low.static_numbers(a) is not None else (low.tensor(a, at), low.tensor(b, at))
    if owner is None:
        return low.stop(low.node("where", (condition, a, b), at), at)
    return low.select(condition, a, b, at, kind, owner)


def operation(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    """A call of the catalogue, with the arguments that change what it computes; None where it is not in the tables."""
    signature = lookup(name)
    if signature is None:
        return None
    return adapt(low, name, signature, args, kwargs, at)
