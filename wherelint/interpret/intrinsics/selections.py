"""Selections that are no plain call of the catalogue."""

from dataclasses import replace

from wherelint.graph.node import Node
from wherelint.interpret.arithmetic import power
from wherelint.interpret.attributes import FINFO
from wherelint.interpret.lowering import CallSite, Lowering, argument, handles
from wherelint.interpret.operations import as_condition, before_write, selection
from wherelint.interpret.values import MISSING, Method, Value


@handles("jax.lax.select_n", operands="which no yes")
def _select_n(low: Lowering, call: CallSite, which: Value, no: Value, yes: Value) -> Value:
    return MISSING if len(call.args) > 3 else selection(low, which, yes, no, call.at, "select", call.framework)


@handles("{jax.numpy,numpy}.select", operands="condlist choicelist default?")
def _select(low: Lowering, call: CallSite, conditions: Value, choices: Value, default: Value) -> Value:
    if not isinstance(conditions, (list, tuple)) or not isinstance(choices, (list, tuple)):
        return MISSING
    result = 0 if default is None else default
    for condition, choice in reversed(list(zip(conditions, choices, strict=False))):
        made = result = selection(low, condition, choice, result, call.at, "select", call.framework)
        made.static = replace(made.static, listed=True)
    return result


@handles(methods="where", operands="self other y")
def _where(low: Lowering, call: CallSite, receiver: Value, first: Value, second: Value) -> Value:
    if not isinstance(receiver, (Node, Method)):
        return MISSING
    tensor = low.tensor(receiver, call.at)
    if tensor.kind == "bool" and low.tensor(first, call.at).kind != "bool":  # cond.where(x, y), as tinygrad spells it
        return selection(low, tensor, first, second, call.at, "where", "torch")
    return selection(low, first, tensor, second, call.at, "where", "torch")


@handles("jax.lax.clamp", operands="min x max")
def _lax_clamp(low: Lowering, call: CallSite, least: Value, value: Value, most: Value) -> Value:
    return low.node("clamp", (value, least, most), call.at, selection="clip", framework="jax")


@handles("tensorflow.clip_by_value", operands="t clip_value_min clip_value_max")
def _clip_by_value(low: Lowering, call: CallSite, value: Value, least: Value, most: Value) -> Value:
    """A clip whose lower bound wins: TensorFlow's is ``maximum(minimum(t, high), low)``."""
    if isinstance(least, Node) or isinstance(most, Node):
        most = low.node("maximum", (least, most), call.at)
    return low.node("clip", (value, least, most), call.at, selection="clip", framework="tensorflow")


@handles("{jax.numpy,numpy,torch}.nan_to_num", methods="nan_to_num nan_to_num_", operands="x|input")
def _nan_to_num(low: Lowering, call: CallSite, value: Value) -> Value:
    """The selection that it is."""
    tensor, at, owner = low.tensor(before_write(low, value, call), call.at), call.at, call.framework
    first = 1 if owner == "torch" else 2  # NumPy has `copy` there
    fills: dict[str, Value] = {"nan": 0.0, "posinf": FINFO["max"], "neginf": FINFO["min"]}
    for i, name in enumerate(fills, first):
        fill = argument(call, i, name)
        fills[name] = fills[name] if fill is None else fill
    positive = low.node("greater", (tensor, 0), at)
    infinite = low.node("where", (positive, fills["posinf"], fills["neginf"]), at)
    filled = low.node("where", (low.node("isnan", (tensor,), at), fills["nan"], infinite), at)
    finite = low.node("isfinite", (tensor,), at)
    made = low.node("where", (finite, tensor, filled), at, selection="nan_to_num" if owner else None, framework=owner)
    return made if owner else low.stop(made, at)


@handles("tensorflow.boolean_mask", "torch.masked_select", methods="masked_select", operands="tensor|input mask")
def _boolean_mask(low: Lowering, call: CallSite, value: Value, mask: Value) -> Value:
    condition = as_condition(low, mask, call.at)
    return low.node("compress", (condition, value), call.at, selection="index", framework=call.framework)


@handles("torch.masked_fill", methods="masked_fill masked_fill_", operands="input mask value")
def _masked_fill(low: Lowering, call: CallSite, tensor: Value, mask: Value, value: Value) -> Value:
    return selection(low, mask, value, before_write(low, tensor, call), call.at, "masked_fill", "torch")


@handles(methods="assign assign_add assign_sub scatter_update scatter_sub scatter_nd_update "
                 "scatter_nd_add scatter_nd_sub", operands="self")  # fmt: skip
def _write_variable(low: Lowering, call: CallSite, receiver: Value) -> Value:
    """A TensorFlow variable takes the number; no gradient flows through the write."""
    if "tensorflow" not in low.frameworks or isinstance(receiver, (list, dict)):
        return MISSING
    return low.opaque(low.text(call.at), differentiable=False)


@handles(methods="pow float_power pow_", operands="self exponent")
def _pow(low: Lowering, call: CallSite, receiver: Value, exponent: Value) -> Value:
    return power(low, receiver, exponent, call.at, "torch")
