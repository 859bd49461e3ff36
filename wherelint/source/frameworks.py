"""What the frameworks' own functions do beyond elementwise arithmetic: selections, constants, casts, assignment."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst
import numpy as np

from wherelint.graph.node import LANES, ROLLED, Node, const
from wherelint.ops import Signature
from wherelint.source import indexing
from wherelint.source.attributes import FINFO
from wherelint.source.calls import Args, Kwargs, operation, unknown
from wherelint.source.expressions import as_mask, binary, multiply, power
from wherelint.source.lowering import Lowering, static_numbers
from wherelint.source.values import Dotted, Function, Handler, Instance, Method, Shape, Value

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


# -- the catalogue, with arguments that change what is computed --------------------------------------------------------

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
    called = low.call_operation(name, signature, args, kwargs, at)
    if called is None:
        return None
    made = called
    if mask is not None and op == "mean":  # the mean of the elements that the mask keeps
        kept = _as_condition(low, mask, at)
        made = low.node("divide", (low.node("sum", (args[0],), at), low.node("sum", (kept,), at)), at, framework=owner)
    if mask is not None and op in ("softmax", "log_softmax") and op == "softmax":
        made = low.node("where", (mask, made, 0.0), at)
    reduction = kwargs.get("reduction", "mean") if op in _LOSSES and owner == "torch" else None
    if reduction in ("mean", "sum"):
        return low.node(reduction, (made,), at)
    return made


_LOSSES = frozenset({"squared_error", "absolute_error", "huber", "smooth_l1", "binary_cross_entropy",
                     "sigmoid_cross_entropy", "kl_divergence", "poisson_nll"})  # fmt: skip
_NEUTRAL = {
    "prod": 1.0,
    "max": -np.inf,
    "min": np.inf,
    "softmax": -np.inf,
    "log_softmax": -np.inf,
    "logsumexp": -np.inf,
}


def _masked_operand(low: Lowering, op: str, args: Args, mask: Value, at: cst.CSTNode) -> Args:
    """``reduce(x, where=mask)`` as a reduction of a selection."""
    neutral = _NEUTRAL.get(op, 0.0)
    operand = low.tensor(args[0], at)
    condition = _as_condition(low, mask, at)
    kind = None if op in ("softmax", "log_softmax") else "reduction"
    return [low.node("where", (condition, operand, neutral), at, selection=kind), *args[1:]]


def _as_condition(low: Lowering, value: Value, at: cst.CSTNode) -> Value:
    tensor = low.tensor(value, at)
    return as_mask(low, tensor, at) if tensor.op == "leaf" and tensor.kind == "float" else tensor


def _where(low: Lowering, name: str, signature: Signature, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    parts = [argument(args, kwargs, i, *signature.operands[i]) for i in range(3)]
    if parts[0] is None or parts[1] is None or parts[2] is None:
        return low.opaque(low.text(at), tuple(id(p) for p in parts), kind="int")  # the indices where it holds
    return selection(low, parts[0], parts[1], parts[2], at, "select" if name.startswith("jax.lax") else "where", name)


def selection(low: Lowering, condition: Value, a: Value, b: Value, at: cst.CSTNode, kind: str, name: str) -> Value:
    """A selection; of host NumPy it is not differentiated."""
    owner = framework(name)
    condition = _as_condition(low, condition, at)
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)) and len(a) == len(b) and static_numbers(a) is None:
        a, b = low.tensor(a, at), low.tensor(b, at)
    if owner is None:
        return low.stop(low.node("where", (condition, a, b), at), at)
    return low.select(condition, a, b, at, kind, owner)


# -- selections --------------------------------------------------------------------------------------------------------


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
    return nan_to_num(low, value, kwargs.get("nan", 0.0), at, framework(name))


def nan_to_num(low: Lowering, value: Value, fill: Value, at: cst.CSTNode, owner: str | None) -> Value:
    """``nan_to_num`` as the selection that it is."""
    tensor = low.tensor(value, at)
    finite = low.node("isfinite", (tensor,), at)
    fill = fill if isinstance(fill, (int, float)) else 0.0
    made = low.node("where", (finite, tensor, fill), at, selection="nan_to_num" if owner else None, framework=owner)
    return made if owner else low.stop(made, at)


@handles("tensorflow.boolean_mask", "torch.masked_select")
def _boolean_mask(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    value, mask = argument(args, kwargs, 0, "tensor", "input"), argument(args, kwargs, 1, "mask")
    if value is None or mask is None:
        return NotImplemented
    return low.node("compress", (_as_condition(low, mask, at), value), at, selection="index", framework=framework(name))


@handles("torch.masked_fill")
def _masked_fill(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    value, mask, fill = (argument(args, kwargs, i, n) for i, n in enumerate(("input", "mask", "value")))
    if value is None or mask is None or fill is None:
        return NotImplemented
    return selection(low, mask, fill, value, at, "masked_fill", name)


@handles("{jax.numpy,numpy,jax.lax,torch,tensorflow}.{take,gather,index_select,take_along_axis,take_along_dim,roll,"
         "flip,fliplr,flipud,gather_nd,dynamic_slice,dynamic_index_in_dim,rev}")  # fmt: skip
def _gather(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    return low.node("gather", (args[0],), at, index=ROLLED) if args else NotImplemented


# -- constants and casts -----------------------------------------------------------------------------------------------


@handles("{jax.numpy,numpy,torch,tensorflow,keras.ops}.{array,asarray,tensor,as_tensor,constant,stack,concatenate,cat,"
         "concat,hstack,vstack,convert_to_tensor,from_numpy,column_stack,dstack,append}",
         "torch.{FloatTensor,scalar_tensor}",
         "{jax.numpy,numpy,torch}.{float32,float64,float16,bfloat16}", "tensorflow.Variable")  # fmt: skip
def _array(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    value = argument(args, kwargs, 0, "object", "data", "a", "arrays", "tensors", "value", "values", "obj", "x")
    if value is None:
        return NotImplemented
    if name.endswith(".append") and len(args) > 1:
        value = [args[0], args[1]]
    if isinstance(value, (list, tuple)):
        numbers = static_numbers(value)
        if numbers:
            return const(numbers, origin=low.origin(at))
        if not value:
            return low.opaque(low.text(at), differentiable=False)
    tensor = low.tensor(value, at)
    if tensor.op == "const":
        return tensor
    if name in ("torch.tensor", "torch.scalar_tensor", "torch.FloatTensor"):  # copies numbers, not history
        return low.stop(tensor, at, tensor.kind)
    return low.node("identity", (tensor,), at) if framework(name) else low.stop(tensor, at, tensor.kind)


@handles("{jax.numpy,numpy,torch,tensorflow}.{zeros,empty,zeros_like,empty_like}")
def _zeros(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    return const(0.0, origin=low.origin(at))


@handles("{jax.numpy,numpy,torch,tensorflow}.{ones,ones_like}")
def _ones(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    return const(1.0, origin=low.origin(at))


@handles("{jax.numpy,numpy,torch}.{full,full_like}", "tensorflow.fill")
def _full(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    value = argument(args, kwargs, 1, "fill_value", "value")
    return NotImplemented if value is None else low.tensor(value, at)


@handles("{jax.numpy,numpy,torch,tensorflow}.{eye,identity}")
def _eye(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    if name == "tensorflow.identity":
        return NotImplemented
    pattern = [1.0] + [0.0] * (LANES - 2) + [1.0]
    return const([bool(p) for p in pattern] if _is_bool_dtype(kwargs.get("dtype")) else pattern, origin=low.origin(at))


def _is_bool_dtype(value: Value) -> bool:
    return isinstance(value, Dotted) and value.name.rpartition(".")[2] in ("bool", "bool_")


def _is_integer_dtype(value: Value) -> bool:
    text = value.name.rpartition(".")[2] if isinstance(value, Dotted) else value if isinstance(value, str) else ""
    return text.startswith(("int", "uint", "long", "short")) or text == "builtins.int"


@handles("{jax.numpy,numpy,torch}.arange", "tensorflow.range")
def _arange(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    start = args[0] if len(args) > 1 else kwargs.get("start", 0)
    stop = args[1] if len(args) > 1 else args[0] if args else kwargs.get("end")
    if not isinstance(start, (int, float)):
        return low.opaque(low.text(at), kind="int")
    count = LANES
    if isinstance(stop, (int, float)) and not isinstance(stop, bool):
        count = max(1, min(64, int(np.ceil(stop - start))))
    values = [start + i for i in range(count)]
    return low.stop(const(values, origin=low.origin(at)), at, "int" if isinstance(start, int) else "float")


@handles("{jax.numpy,numpy,torch,tensorflow}.{linspace,logspace,geomspace}")
def _linspace(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    start, stop = argument(args, kwargs, 0, "start"), argument(args, kwargs, 1, "stop", "end")
    if name.endswith("linspace") and isinstance(start, (int, float)) and isinstance(stop, (int, float)):
        return const(np.linspace(start, stop, LANES).tolist(), origin=low.origin(at))
    return low.opaque(low.text(at), tuple(map(id, args)), differentiable=any(isinstance(a, Node) for a in args))


@handles("{jax.numpy,numpy,torch}.{finfo,iinfo}")
def _finfo(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    return Dotted(f"{name}()")


@handles("keras.backend.epsilon", "keras.config.epsilon", "tensorflow.keras.config.epsilon")
def _epsilon(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    return 1e-7


@handles("tensorflow.cast", "jax.lax.convert_element_type")
def _cast(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    value, dtype = argument(args, kwargs, 0, "x", "operand"), argument(args, kwargs, 1, "dtype", "new_dtype")
    return NotImplemented if value is None else cast(low, value, dtype, at)


def cast(low: Lowering, value: Value, dtype: Value, at: cst.CSTNode) -> Value:
    """A change of dtype: to an integer it severs the gradient, a boolean becomes a factor of zeros and ones."""
    tensor = low.tensor(value, at)
    if _is_bool_dtype(dtype) or (isinstance(dtype, Dotted) and dtype.name == "builtins.bool"):
        return low.condition(tensor, at)
    if _is_integer_dtype(dtype) or (isinstance(dtype, Dotted) and dtype.name == "builtins.int"):
        return low.stop(tensor, at, "int")
    return tensor if tensor.kind == "bool" else low.node("identity", (tensor,), at)


@handles("{jax.lax,tensorflow}.stop_gradient", "jax.lax.stop_gradient", "keras.ops.stop_gradient",
         "keras.backend.stop_gradient")  # fmt: skip
def _stop(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    value = argument(args, kwargs, 0, "x", "input", "variables")
    return NotImplemented if value is None else stopped(low, value, at)


def stopped(low: Lowering, value: Value, at: cst.CSTNode) -> Value:
    """A value, or each value of a tree, without its derivative."""
    if isinstance(value, (tuple, list)):
        return type(value)(stopped(low, v, at) for v in value)
    if isinstance(value, dict):
        return {k: stopped(low, v, at) for k, v in value.items()}
    return low.stop(value, at)


@handles("jax.random.{uniform,normal,truncated_normal,exponential,gamma,beta,laplace,gumbel}",
         "torch.{rand,randn,rand_like,randn_like,normal}", "tensorflow.random.{uniform,normal}",
         "numpy.random.{rand,randn,uniform,normal}")  # fmt: skip
def _random(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    return low.opaque(low.text(at), id(at), differentiable=False)


@handles("jax.random.{bernoulli}")
def _random_mask(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    mask = low.opaque(low.text(at), id(at), kind="bool")
    mask.params["array"] = True
    return mask


@handles("torch.nn.{MSELoss,L1Loss,SmoothL1Loss,HuberLoss,BCELoss,BCEWithLogitsLoss,KLDivLoss}")
def _loss(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    function = {"MSELoss": "mse_loss", "L1Loss": "l1_loss", "SmoothL1Loss": "smooth_l1_loss", "HuberLoss": "huber_loss",
                "BCELoss": "binary_cross_entropy", "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
                "KLDivLoss": "kl_div"}[name.rpartition(".")[2]]  # fmt: skip
    reduction = {"reduction": kwargs["reduction"]} if "reduction" in kwargs else {}
    return Handler(
        lambda low, args, kwargs, at: operation(
            low, f"torch.nn.functional.{function}", args, {**kwargs, **reduction}, at
        )
    )


@handles("torch.nn.{ReLU,Sigmoid,Tanh,Softplus,ELU,GELU,SiLU,LeakyReLU,CosineSimilarity,Softmax}")
def _activation(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    last = name.rpartition(".")[2]
    function = {"LeakyReLU": "leaky_relu", "CosineSimilarity": "cosine_similarity"}.get(last, last.lower())
    return Handler(
        lambda low, args, kwargs, at: (
            operation(low, f"torch.nn.functional.{function}", args[:2], {}, at)
            or unknown(low, Dotted(name), args, kwargs, at)
        )
    )


# -- methods of tensors ------------------------------------------------------------------------------------------------

MethodHandle = Callable[[Lowering, Value, Args, Kwargs, cst.CSTNode], Value]
METHODS: dict[str, MethodHandle] = {}


def method(*names: str) -> Callable[[MethodHandle], MethodHandle]:
    """Register a handler for methods of a tensor of any framework."""

    def register(handle: MethodHandle) -> MethodHandle:
        for name in names:
            METHODS[name] = handle
        return handle

    return register


@method("detach", "detach_", "item", "tolist", "numpy")
def _detach(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    return low.stop(receiver, at) if isinstance(receiver, Node) else NotImplemented


@method("masked_fill", "masked_fill_")
def _fill_method(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    mask, value = argument(args, kwargs, 0, "mask"), argument(args, kwargs, 1, "value")
    if mask is None or value is None:
        return NotImplemented
    return selection(low, mask, value, receiver, at, "masked_fill", "torch")


@method("where")
def _where_method(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    if len(args) != 2 or not isinstance(receiver, (Node, Method)):
        return NotImplemented
    tensor = low.tensor(receiver, at)
    first = low.tensor(args[0], at)
    if tensor.kind == "bool" and first.kind != "bool":  # cond.where(x, y), as tinygrad spells it
        return selection(low, tensor, args[0], args[1], at, "where", "torch")
    return selection(low, args[0], tensor, args[1], at, "where", "torch")


@method("nan_to_num", "nan_to_num_")
def _nan_method(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    return nan_to_num(low, receiver, argument(args, kwargs, 0, "nan") or 0.0, at, "torch")


@method("astype", "to", "type", "view_as_real", "float", "double", "half", "long", "int", "bool", "type_as")
def _astype(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    if not isinstance(receiver, (Node, Method)):
        return NotImplemented
    name = at.func.attr.value if isinstance(at, cst.Call) and isinstance(at.func, cst.Attribute) else ""
    if name in ("long", "int"):
        return cast(low, receiver, "int", at)
    if name == "bool":
        return low.condition(_as_condition(low, receiver, at), at)
    return cast(low, receiver, argument(args, kwargs, 0, "dtype"), at)


@method("masked_select")
def _masked_select(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    return _boolean_mask(low, "torch.masked_select", [receiver, *args], kwargs, at)


@method("gather", "index_select", "take", "roll", "flip", "take_along_dim")
def _gather_method(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    return low.node("gather", (receiver,), at, index=ROLLED) if isinstance(receiver, Node) else NotImplemented


@method("new_zeros", "new_empty")
def _new_zeros(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    return const(0.0, origin=low.origin(at))


@method("new_ones")
def _new_ones(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    return const(1.0, origin=low.origin(at))


@method("new_tensor")
def _new_tensor(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    return _array(low, "torch.tensor", args, kwargs, at)


@method("new_full")
def _new_full(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    return low.tensor(args[1], at) if len(args) > 1 else NotImplemented


@method("pow", "float_power", "pow_")
def _pow_method(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    exponent = argument(args, kwargs, 0, "exponent")
    return NotImplemented if exponent is None else power(low, receiver, exponent, at, "torch")


@method("dim", "numel", "nelement", "ndimension", "get_shape")
def _size_method(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    return low.opaque(low.text(at), kind="int") if isinstance(receiver, Node) else NotImplemented


@method("size")
def _shape_method(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    if not isinstance(receiver, Node):
        return NotImplemented
    return low.size(low.text(at)) if args else Shape(low.text(at))


@method("set", "add", "multiply", "mul", "divide", "power", "min", "max", "get", "apply")
def _at(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    """``x.at[index].set(value)`` and its siblings."""
    if not isinstance(receiver, Method) or receiver.name != "at[]":
        return NotImplemented
    base, node = receiver.receiver
    tensor = low.tensor(base, at)
    name = at.func.attr.value if isinstance(at, cst.Call) and isinstance(at.func, cst.Attribute) else "set"
    if name == "get":
        return indexing.index(low, tensor, node.slice, at)
    if not args:
        return NotImplemented
    mask = indexing.where_written(low, node.slice)
    if name == "set":
        return low.select(mask, args[0], tensor, at, "assignment", "jax")
    op = {
        "add": "add",
        "multiply": "multiply",
        "mul": "multiply",
        "divide": "divide",
        "min": "minimum",
        "max": "maximum",
    }.get(name)
    if op is None:
        return low.opaque(low.text(at), (id(tensor), id(args[0])))
    return low.node("cond", (mask, low.node(op, (tensor, args[0]), at), tensor), at)


# -- Python's own functions and containers -----------------------------------------------------------------------------


@handles("builtins.{abs,max,min,pow,round}", "math.{sqrt,log,exp,pow,fabs,sin,cos,tan,floor,ceil,log2,log10,log1p,"
         "acos,asin,atan,"
         "atan2,hypot,tanh,cosh,sinh,gamma,lgamma,erf,prod,isnan,isinf,isfinite,degrees,radians}")  # fmt: skip
def _python_math(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    import builtins
    import math

    owner, _, function = name.rpartition(".")
    flat = list(args[0]) if len(args) == 1 and isinstance(args[0], (list, tuple)) else list(args)
    if flat and all(isinstance(a, (int, float)) for a in flat):
        try:
            result = getattr(builtins if owner == "builtins" else math, function)(*args)
        except (ArithmeticError, ValueError, TypeError):
            return low.opaque(low.text(at), differentiable=False)
        return result if isinstance(result, (int, float)) else low.opaque(low.text(at), differentiable=False)
    if owner == "builtins" and function == "pow" and len(args) == 2:
        return power(low, args[0], args[1], at)
    if owner == "builtins" and function in ("abs", "round") and args:
        return low.node(function, (args[0],), at)
    if owner == "builtins" and function in ("max", "min") and len(flat) >= 2:
        # Python compares and takes one: the other is never differentiated.
        result = low.tensor(flat[0], at)
        for item in flat[1:]:
            other = low.tensor(item, at)
            keep = low.node("greater_equal" if function == "max" else "less_equal", (result, other), at)
            result = low.node("cond", (keep, result, other), at)
        return result
    kind = (
        "int"
        if all(low.tensor(a, at).kind != "float" for a in flat) and function in ("max", "min", "abs", "prod")
        else "float"
    )
    # `math` converts to a Python float: a traced value would not survive it.
    return low.opaque(low.text(at), tuple(map(id, flat)), kind=kind, differentiable=False)  # type: ignore[arg-type]


_OPERATORS = {
    "add": cst.Add, "sub": cst.Subtract, "mul": cst.Multiply, "truediv": cst.Divide, "floordiv": cst.FloorDivide,
    "mod": cst.Modulo, "pow": cst.Power, "matmul": cst.MatrixMultiply,
}  # fmt: skip


@handles("operator.{add,sub,mul,truediv,floordiv,mod,pow,matmul}")
def _operator(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    if len(args) != 2:
        return NotImplemented
    return binary(low, _OPERATORS[name.rpartition(".")[2]], args[0], args[1], at)


@handles("operator.neg")
def _negate(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    return low.node("negative", args[:1], at) if args else NotImplemented


@handles("typing.cast")
def _typing_cast(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    return args[1] if len(args) > 1 else NotImplemented


@handles("builtins.sum")
def _sum(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    if not args:
        return NotImplemented
    items = args[0]
    if isinstance(items, (list, tuple)):
        result: Value = argument(args, kwargs, 1, "start") or 0
        for item in items:
            both = isinstance(result, (int, float)) and isinstance(item, (int, float))
            result = (
                result + item
                if both
                else item
                if result == 0 and not isinstance(result, Node)
                else low.node("add", (result, item), at)
            )
        return result
    return low.node("sum", (items,), at)


@handles("builtins.{len,hasattr,isinstance,callable}")
def _python_query(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    if name.endswith("len"):
        if args and isinstance(args[0], (list, tuple, dict, str)):
            return len(args[0])
        return low.size(low.text(at))
    return low.opaque(low.text(at), tuple(map(id, args)), kind="bool")


@handles("builtins.{float,complex}")
def _python_float(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    if len(args) == 1 and isinstance(args[0], str):
        try:
            return float(args[0])
        except ValueError:
            return NotImplemented
    if len(args) == 1 and isinstance(args[0], (int, float)):
        return float(args[0])
    return low.stop(args[0], at) if args else 0.0


@handles("builtins.{int,bool}")
def _python_int(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    if len(args) == 1 and isinstance(args[0], (int, float)) and np.isfinite(args[0]):
        return int(args[0]) if name.endswith("int") else bool(args[0])
    if not args:
        return 0
    return low.stop(args[0], at, "int") if name.endswith("int") else low.condition(args[0], at)


@handles("builtins.{list,tuple,reversed,sorted,iter}")
def _python_sequence(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    if not args:
        return () if name.endswith("tuple") else []
    value = list(args[0]) if isinstance(args[0], dict) else args[0]
    if not isinstance(value, (list, tuple)):
        return value
    items = list(reversed(value)) if name.endswith("reversed") else list(value)
    return tuple(items) if name.endswith("tuple") else items


@handles("builtins.dict")
def _python_dict(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    return {**(args[0] if args and isinstance(args[0], dict) else {}), **kwargs}


@handles("builtins.range")
def _range(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    if args and all(isinstance(a, int) for a in args) and len(r := range(*args)) <= 64:
        return list(r)
    return low.opaque(low.text(at), tuple(map(id, args)), kind="int")


@handles("builtins.{zip,enumerate}")
def _zip(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    from wherelint.source.expressions import elements

    columns = [elements(low, a, at) for a in args[: 1 if name.endswith("enumerate") else None]]
    if name.endswith("enumerate") and columns:
        known = isinstance(args[0], (list, tuple, dict))
        indices = list(range(len(columns[0]))) if known else [low.opaque(low.text(at), kind="int")]
        columns = [indices, columns[0]]
    return [tuple(row) for row in zip(*columns, strict=False)]


@handles("builtins.getattr")
def _getattr(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    from wherelint.source.attributes import read

    if len(args) >= 2 and isinstance(args[1], str):
        return read(low, args[0], args[1], at)
    return NotImplemented


@handles("builtins.super")
def _super(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    receiver = low.frame.receiver
    if isinstance(receiver, Instance) and receiver.cls.bases:
        from wherelint.source.values import Class

        base = receiver.cls.bases[0]
        if isinstance(base, Class):
            view = Instance(base, receiver.name, receiver.attributes)
            return view
    return low.opaque(low.text(at), differentiable=False)


@handles("{jax.numpy,numpy,jax.lax,jax.nn,torch}.array_namespace", "array_api_compat.array_namespace",
         "scipy._lib._array_api.array_namespace", "array_api_compat.get_namespace")  # fmt: skip
def _namespace(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    return Dotted(low.array_namespace)


def _container(name: str) -> Callable[[MethodHandle], MethodHandle]:
    def register(handle: MethodHandle) -> MethodHandle:
        CONTAINER_METHODS[name] = handle
        return handle

    return register


CONTAINER_METHODS: dict[str, MethodHandle] = {}


@_container("append")
def _append(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    if isinstance(receiver, list) and len(args) == 1 and len(receiver) < 256:
        receiver.append(args[0])
    return None


@_container("extend")
def _extend(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    if isinstance(receiver, list) and len(args) == 1 and len(receiver) < 256:
        receiver.extend(args[0] if isinstance(args[0], (list, tuple)) else [args[0]])
    return None


@_container("items")
def _items(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    return list(receiver.items()) if isinstance(receiver, dict) else NotImplemented


@_container("keys")
def _keys(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    return list(receiver) if isinstance(receiver, dict) else NotImplemented


@_container("values")
def _values(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    return list(receiver.values()) if isinstance(receiver, dict) else NotImplemented


@_container("get")
def _get(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    if isinstance(receiver, dict) and args and isinstance(args[0], str) and args[0] in receiver:
        return receiver[args[0]]
    return low.opaque(low.text(at), (id(receiver), *map(str, args)))


@_container("update")
def _update(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: cst.CSTNode) -> Value:
    if isinstance(receiver, dict):
        receiver.update({**(args[0] if args and isinstance(args[0], dict) else {}), **kwargs})
    return None


__all__ = ["CONTAINER_METHODS", "FINFO", "HANDLERS", "METHODS", "Function", "adapt"]
