"""The frameworks' functions: calls of the catalogue with what changes their meaning, and the selections."""

import ast
from dataclasses import replace

from wherelint.graph.node import Node
from wherelint.interpret import indexing
from wherelint.interpret.attributes import FINFO
from wherelint.interpret.lowering import Lowering, handles
from wherelint.interpret.operations import argument, as_condition, framework, selection
from wherelint.interpret.values import MISSING, Args, Kwargs, Value
from wherelint.ops.traits import INDEXING


@handles("jax.lax.select_n")
def _select_n(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if len(args) != 3:
        return MISSING
    return selection(low, args[0], args[2], args[1], at, "select", name)


@handles("{jax.numpy,numpy}.select")
def _select(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    conditions, choices = argument(args, kwargs, 0, "condlist"), argument(args, kwargs, 1, "choicelist")
    result = argument(args, kwargs, 2, "default")
    if not isinstance(conditions, (list, tuple)) or not isinstance(choices, (list, tuple)):
        return MISSING
    result = 0 if result is None else result
    for condition, choice in reversed(list(zip(conditions, choices, strict=False))):
        result = selection(low, condition, choice, result, at, "select", name)
        result.static = replace(result.static, listed=True)
    return result


@handles("jax.lax.clamp")
def _lax_clamp(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if len(args) != 3:
        return MISSING
    return low.node("clamp", (args[1], args[0], args[2]), at, selection="clip", framework="jax")


@handles("tensorflow.clip_by_value")
def _clip_by_value(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    """A clip whose lower bound wins: TensorFlow's is ``maximum(minimum(t, high), low)``."""
    value, *bounds = (argument(args, kwargs, i, n) for i, n in enumerate(("t", "clip_value_min", "clip_value_max")))
    if value is None or None in bounds:
        return MISSING
    high = low.node("maximum", bounds, at) if any(isinstance(bound, Node) for bound in bounds) else bounds[1]
    return low.node("clip", (value, bounds[0], high), at, selection="clip", framework="tensorflow")


@handles("{jax.numpy,numpy,torch}.nan_to_num")
def _nan_to_num(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    value = argument(args, kwargs, 0, "x", "input")
    if value is None:
        return MISSING
    fills = args[1 if name.startswith("torch") else 2 :]  # NumPy has `copy` there
    return nan_to_num(low, value, fills, kwargs, at, framework(name))


def nan_to_num(low: Lowering, value: Value, args: Args, kwargs: Kwargs, at: ast.AST, owner: str | None) -> Value:
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
def boolean_mask(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    """``x[mask]`` as a function."""
    value, mask = argument(args, kwargs, 0, "tensor", "input"), argument(args, kwargs, 1, "mask")
    if value is None or mask is None:
        return MISSING
    return low.node("compress", (as_condition(low, mask, at), value), at, selection="index", framework=framework(name))


@handles("torch.masked_fill")
def _masked_fill(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    value, mask, fill = (argument(args, kwargs, i, n) for i, n in enumerate(("input", "mask", "value")))
    if value is None or mask is None or fill is None:
        return MISSING
    return selection(low, mask, fill, value, at, "masked_fill", name)


@handles(f"{{jax.numpy,numpy,jax.lax,torch,tensorflow}}.{{{','.join(INDEXING)}}}")
def _gather(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if not args:
        return MISSING
    index = argument(args, kwargs, 2 if name.startswith("torch.") else 1, "index", "indices", "start_indices")
    return indexing.gathered(low, low.tensor(args[0], at), [index], at)
