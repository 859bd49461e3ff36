"""Calls of the catalogue, with the arguments that change what they compute."""

import ast

import numpy as np

from wherelint.frameworks.base import Signature
from wherelint.graph.node import Node, Static
from wherelint.interpret import indexing
from wherelint.interpret.arithmetic import as_mask, compared, multiply, power
from wherelint.interpret.attributes import FINFO
from wherelint.interpret.lowering import CallSite, Lowering, argument
from wherelint.interpret.values import Value
from wherelint.ops import lookup
from wherelint.ops.traits import ORDERINGS, SELECTS

_NORMS = {1: "norm1", np.inf: "norminf"}
_LOSSES = frozenset({"squared_error", "absolute_error", "huber", "smooth_l1", "binary_cross_entropy",
                     "sigmoid_cross_entropy", "kl_divergence", "poisson_nll"})  # fmt: skip
#: What a reduction makes of elements that its mask leaves out; of an extremum it is finite, as its result is.
_NEUTRAL = {"prod": 1.0, "max": FINFO["min"], "min": FINFO["max"],
            **dict.fromkeys(("softmax", "log_softmax", "logsumexp"), -np.inf)}  # fmt: skip
#: What is reduced by reductions that leave out nan.
_LEAVING_OUT = {"nansum": "sum", "nanmean": "sum", "nanmax": "max", "nanmin": "min"}


def operation(low: Lowering, call: CallSite) -> Value:
    """A call of the catalogue; None where it is not in the tables, or an operand is missing."""
    signature = lookup(call.name)
    if signature is None:
        return None
    op, owner, at = signature.op, call.framework, call.at
    if op == "where":
        return _where(low, call, signature)
    operands = _operands(call, signature)
    if operands is None:
        return None
    if op in ("power", "integer_power", "power_static"):
        made = power(low, operands[0], operands[1], at, owner)
        return made if owner is not None else low.stop(made, at)
    if owner is not None and (op in ORDERINGS or (op == "multiply" and len(operands) == 2)):
        x, y = (low.tensor(operand, at) for operand in operands)
        return multiply(low, x, y, at, owner) if op == "multiply" else compared(low, op, x, y, at, owner)
    if op in ("max", "min") and owner == "torch" and isinstance(other := argument(call, 1, "other"), Node):
        if other.kind == "float":  # of two tensors it is elementwise
            name = {"max": "maximum", "min": "minimum"}[op]
            return low.node(name, (operands[0], other), at, selection=name, framework=owner)
        if other.kind == "bool":
            return low.node("logical_or" if op == "max" else "logical_and", (operands[0], other), at)
    if op == "norm":
        order = argument(call, 1, "ord", "p")
        if isinstance(order, (int, float)) and order not in (*_NORMS, 2, -2):
            return None
        op = _NORMS.get(order, op) if isinstance(order, (int, float)) else op
    mask = None if call.kwargs.get("where") is None else as_condition(low, call.kwargs["where"], at)
    if mask is not None:  # of a reduction: that of a selection
        kind = None if op in ("softmax", "log_softmax") else "reduction"
        operands[0] = low.node("where", (mask, operands[0], _NEUTRAL.get(op, 0.0)), at, selection=kind)
    if op in _LEAVING_OUT and owner is not None:
        return _over_numbers(low, op, low.tensor(operands[0], at), at, owner)
    package = call.name.partition(".")[0]
    made = low.node(op, operands, at, selection=SELECTS.get(op), framework=None if package == "numpy" else package)
    if package == "numpy":
        made = low.stop(made, at, static=Static(host=op))
    if mask is not None and op == "mean":  # the mean of the elements that the mask keeps
        made = low.node("divide", (low.node("sum", operands, at), low.node("sum", (mask,), at)), at, framework=owner)
    if mask is not None and op == "softmax":
        made = low.node("where", (mask, made, 0.0), at)
    reduction = call.kwargs.get("reduction", "mean") if op in _LOSSES and owner == "torch" else None
    return low.node(reduction, (made,), at) if reduction in ("mean", "sum") else made


def _operands(call: CallSite, signature: Signature) -> list[Value] | None:
    """The operands of a call, and the defaults of those that it omits; None where one is missing."""
    required = len(signature.operands) - len(signature.defaults)
    found: list[Value] = []
    for i, keywords in enumerate(signature.operands):
        if keywords:
            value = argument(call, i, *keywords)
            if value is None and i >= required:
                value = signature.defaults[i - required]
            if value is None:
                return None
            found.append(value)
    return found


def _over_numbers(low: Lowering, op: str, operand: Node, at: ast.AST, owner: str) -> Node:
    """A reduction that leaves out nan, as the selection and the reduction that it consists of."""
    reduction = _LEAVING_OUT[op]
    missing = low.node("isnan", (operand,), at, framework=owner)
    parts = missing, _NEUTRAL.get(reduction, 0.0), operand
    numbers = low.node("where", parts, at, selection="reduction", framework=owner)
    made = low.node(reduction, (numbers,), at, framework=owner)
    if reduction != "sum":  # of nothing but nan
        return low.node("cond", (low.node("all", (missing,), at), np.nan, made), at)
    if op == "nansum":
        return made
    count = low.node("sum", (low.node("logical_not", (missing,), at),), at)
    return low.node("divide", (made, count), at, framework=owner)


def as_condition(low: Lowering, value: Value, at: ast.AST) -> Node:
    """A value used as a condition; a parameter used so is a mask."""
    tensor = low.tensor(value, at)
    mask = as_mask(low, tensor, at)
    return tensor if mask is None else mask


def _where(low: Lowering, call: CallSite, signature: Signature) -> Value:
    condition, a, b = (argument(call, i, *signature.operands[i]) for i in range(3))
    if condition is None or a is None or b is None:
        return indexing.indices(low, condition, call.at)
    kind = "select" if call.name.startswith("jax.lax") else "where"
    return selection(low, condition, a, b, call.at, kind, call.framework)


def selection(low: Lowering, condition: Value, a: Value, b: Value, at: ast.AST, kind: str, owner: str | None) -> Node:
    """A selection; of host NumPy it is not differentiated."""
    condition = as_condition(low, condition, at)
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)) and len(a) == len(b):
        a, b = (a, b) if low.static_numbers(a) is not None else (low.tensor(a, at), low.tensor(b, at))
    if owner is None:
        return low.stop(low.node("where", (condition, a, b), at), at)
    return low.select(condition, a, b, at, kind, owner)


def before_write(low: Lowering, value: Value, call: CallSite) -> Value:
    """The receiver of a method as the method reads it; one whose name ends in ``_`` writes there, too."""
    return low.overwritten(value, call.at) if call.name.endswith("_") else value
