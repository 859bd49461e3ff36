"""Methods of tensors that are more than a name of the catalogue."""

import ast

from wherelint.graph.node import Node, const
from wherelint.interpret import indexing
from wherelint.interpret.arithmetic import power
from wherelint.interpret.intrinsics.arrays import array, cast
from wherelint.interpret.intrinsics.discrete import extreme_method
from wherelint.interpret.intrinsics.selections import boolean_mask, nan_to_num
from wherelint.interpret.lowering import Lowering, method
from wherelint.interpret.operations import argument, selection
from wherelint.interpret.values import MISSING, Args, Element, Kwargs, Method, Shape, Value


@method("detach", "detach_", "item", "tolist", "numpy")
def _detach(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    return low.stop(receiver, at) if isinstance(receiver, Node) else MISSING


@method("assign", "assign_add", "assign_sub", "scatter_update", "scatter_add", "scatter_sub", "scatter_nd_update",
        "scatter_nd_add", "scatter_nd_sub")  # fmt: skip
def _write_variable(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    """A TensorFlow variable takes the number; no gradient flows through the write."""
    if "tensorflow" not in low.frameworks or isinstance(receiver, (list, dict)):
        return MISSING
    return low.opaque(low.text(at), differentiable=False)


def _written(low: Lowering, receiver: Value, at: ast.AST) -> Value:
    """What a method reads; one whose name ends in ``_`` writes there, too."""
    return low.overwritten(receiver, at) if _name(at).endswith("_") else receiver


def _name(at: ast.AST) -> str:
    return at.func.attr if isinstance(at, ast.Call) and isinstance(at.func, ast.Attribute) else ""


@method("masked_fill", "masked_fill_")
def _fill_method(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    mask, value = argument(args, kwargs, 0, "mask"), argument(args, kwargs, 1, "value")
    if mask is None or value is None:
        return MISSING
    return selection(low, mask, value, _written(low, receiver, at), at, "masked_fill", "torch")


@method("where")
def _where_method(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if len(args) != 2 or not isinstance(receiver, (Node, Method)):
        return MISSING
    tensor = low.tensor(receiver, at)
    first = low.tensor(args[0], at)
    if tensor.kind == "bool" and first.kind != "bool":  # cond.where(x, y), as tinygrad spells it
        return selection(low, tensor, args[0], args[1], at, "where", "torch")
    return selection(low, args[0], tensor, args[1], at, "where", "torch")


@method("nan_to_num", "nan_to_num_")
def _nan_method(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    return nan_to_num(low, _written(low, receiver, at), args, kwargs, at, "torch")


@method("astype", "to", "type", "view_as_real", "float", "double", "half", "long", "int", "bool", "type_as")
def _astype(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if not isinstance(receiver, (Node, Method)):
        return MISSING
    name = _name(at)
    dtype = name if name in ("long", "int", "bool") else argument(args, kwargs, 0, "dtype")
    return cast(low, receiver, dtype, at)


@method("masked_select")
def _masked_select(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    return boolean_mask(low, "torch.masked_select", [receiver, *args], kwargs, at)


@method("gather", "index_select", "take", "roll", "flip", "take_along_dim")
def _gather_method(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if not isinstance(receiver, Node):
        return MISSING
    index = argument(args, kwargs, 1, "index") or argument(args, kwargs, 0, "indices")
    return indexing.gathered(low, receiver, [index], at)


@method("new_zeros", "new_empty", "new_ones")
def _new_filled(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    return const(float(_name(at) == "new_ones"), origin=low.origin(at))


@method("new_tensor")
def _new_tensor(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    return array(low, "torch.tensor", args, kwargs, at)


@method("new_full")
def _new_full(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    return low.tensor(args[1], at) if len(args) > 1 else MISSING


@method("pow", "float_power", "pow_")
def _pow_method(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    exponent = argument(args, kwargs, 0, "exponent")
    return MISSING if exponent is None else power(low, receiver, exponent, at, "torch")


@method("dim", "numel", "nelement", "ndimension", "get_shape")
def _size_method(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    low.measure(receiver)
    return low.opaque(low.text(at), kind="int") if isinstance(receiver, Node) else MISSING


@method("size")
def _shape_method(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if not isinstance(receiver, Node):
        return MISSING
    low.measure(receiver)
    return low.size(low.text(at)) if args else Shape(low.text(at))


_WRITES = {"add": "add", "multiply": "multiply", "mul": "multiply", "divide": "divide",
           "min": "minimum", "max": "maximum"}  # fmt: skip


@method("set", "add", "multiply", "mul", "divide", "power", "min", "max", "get", "apply")
def _at(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    """``x.at[index].set(value)`` and its siblings."""
    if not isinstance(receiver, Element):
        return extreme_method(low, receiver, args, kwargs, at) if _name(at) in ("max", "min") else MISSING
    tensor = low.tensor(receiver.receiver, at)
    name = _name(at) or "set"
    if name == "get":
        return indexing.index(low, tensor, receiver.subscript.slice, at)
    if not args:
        return MISSING
    mask = indexing.where_written(low, receiver.subscript.slice)
    if name == "set":
        return low.select(mask, args[0], tensor, at, "assignment", "jax")
    op = _WRITES.get(name)
    if op is None:
        return low.opaque(low.text(at), (low.identity(tensor), low.identity(args[0])))
    return low.node("cond", (mask, low.node(op, (tensor, args[0]), at), tensor), at)
