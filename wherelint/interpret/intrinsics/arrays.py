"""Arrays made from numbers, casts, random numbers: what is known of them without running anything."""

import ast
import math
from dataclasses import replace

import numpy as np

from wherelint.frameworks.torch import LAYERS
from wherelint.graph.node import DIAGONAL, LANES, Leaf, Node, Static, const
from wherelint.interpret.calls import is_constant, unknown
from wherelint.interpret.lowering import CallSite, Lowering, handles
from wherelint.interpret.operations import operation
from wherelint.interpret.statements import hold
from wherelint.interpret.values import MISSING, Dotted, Handler, Method, Value
from wherelint.ops.purity import is_pure


@handles("{jax.numpy,numpy,torch,tensorflow,keras.ops}.{array,asarray,tensor,as_tensor,constant,stack,concatenate,cat,"
         "concat,hstack,vstack,convert_to_tensor,from_numpy,column_stack,dstack,append}",
         "torch.{FloatTensor,scalar_tensor}",
         "{jax.numpy,numpy,torch}.{float32,float64,float16,bfloat16}", "tensorflow.Variable",
         operands="object|data|a|arrays|tensors|value|values|obj|x")  # fmt: skip
def array(low: Lowering, call: CallSite, value: Value) -> Value:
    """An array from numbers, from parts, or from another array."""
    if call.name.endswith(".append") and len(call.args) > 1:
        value = [call.args[0], call.args[1]]
    if isinstance(value, (list, tuple)):
        numbers = low.static_numbers(value)
        if numbers:
            return low.numbers(numbers, call.at)
        if not value:
            return low.opaque(low.text(call.at), differentiable=False)
    tensor = low.tensor(value, call.at)
    if tensor.op == "const":
        return tensor
    if tensor.op == "stack" and call.last == "stack":
        tensor.static = replace(tensor.static, new_axis=True)
    copies = call.name in ("torch.tensor", "torch.scalar_tensor", "torch.FloatTensor")  # numbers, not history
    if copies or call.framework is None:
        return low.stop(tensor, call.at, tensor.kind)
    return low.node("identity", (tensor,), call.at)


@handles(methods="new_tensor", operands="self data")
def _new_tensor(low: Lowering, call: CallSite, receiver: Value, data: Value) -> Value:
    return array(low, call.named("torch.tensor"), data)


@handles("{jax.numpy,numpy}.{int8,int16,int32,int64,uint8,uint16,uint32,uint64}", operands="x")
def _integer(low: Lowering, call: CallSite, value: Value) -> Value:
    if isinstance(value, (int, float)):
        return int(value) if math.isfinite(value) else MISSING
    return low.stop(value, call.at, "int")


@handles("{jax.numpy,numpy,torch,tensorflow,keras.ops}.{zeros,empty,zeros_like,empty_like,ones,ones_like}",
         operands="shape? dtype?")  # fmt: skip
def _filled(low: Lowering, call: CallSite, shape: Value, dtype: Value) -> Value:
    like = shape if call.name.endswith("_like") else None
    if like is None:
        low.is_size(*(call.args if call.name.startswith("torch.") else call.args[:1]))
    dtype = call.kwargs.get("dtype", dtype)
    kind = like.kind if isinstance(like, Node) and dtype is None else None
    value: float = float("ones" in call.name)
    if _is_bool_dtype(dtype) or kind == "bool":
        value = bool(value)
    elif _is_integer_dtype(dtype) or kind == "int":
        value = int(value)
    made = const(value, origin=low.origin(call.at))
    made.single = shape in (1, (1,), [1])
    made.like = like if isinstance(like, Node) else None
    return made


@handles(methods="new_zeros new_empty new_ones")
def _new_filled(low: Lowering, call: CallSite) -> Value:
    return const(float(call.last == "new_ones"), origin=low.origin(call.at))


@handles("{jax.numpy,numpy,torch,keras.ops}.{full,full_like}", "tensorflow.fill", operands="shape? fill_value|value")
def _full(low: Lowering, call: CallSite, shape: Value, value: Value) -> Value:
    if call.name.endswith("_like"):
        low.measure(shape)
    dtype = call.kwargs.get("dtype")
    if isinstance(value, int) and (_is_bool_dtype(dtype) or _is_integer_dtype(dtype)):
        return const(value, origin=low.origin(call.at))
    return low.tensor(float(value) if type(value) is int else value, call.at)


@handles(methods="new_full", operands="self size fill_value")
def _new_full(low: Lowering, call: CallSite, receiver: Value, size: Value, value: Value) -> Value:
    return low.tensor(value, call.at)


@handles("{jax.numpy,numpy,torch,tensorflow,keras.ops}.eye", "{jax.numpy,numpy,torch,keras.ops}.identity")
def _eye(low: Lowering, call: CallSite) -> Value:
    low.is_size(*call.args[:1])
    pattern = DIAGONAL if _is_bool_dtype(call.kwargs.get("dtype")) else [float(d) for d in DIAGONAL]
    return const(pattern, origin=low.origin(call.at))


def _dtype(value: Value) -> str:
    return value.name.rpartition(".")[2] if isinstance(value, Dotted) else value if isinstance(value, str) else ""


def _is_bool_dtype(value: Value) -> bool:
    return _dtype(value) in ("bool", "bool_")


def _is_integer_dtype(value: Value) -> bool:
    return _dtype(value).startswith(("int", "uint", "long", "short"))


@handles("{jax.numpy,numpy,torch,keras.ops}.arange", "tensorflow.range")
def _arange(low: Lowering, call: CallSite) -> Value:
    args, kwargs = call.args, call.kwargs
    start = args[0] if len(args) > 1 else kwargs.get("start", 0)
    stop = args[1] if len(args) > 1 else args[0] if args else kwargs.get("end")
    if isinstance(start, int) and len(args) < 3:
        low.is_size(stop)
        if start == 0 and isinstance(stop, Leaf):
            stop.least = stop.most = LANES  # as many as the model has elements
    if not isinstance(start, (int, float)):
        return low.opaque(low.text(call.at), kind="int")
    count = LANES
    if isinstance(stop, (int, float)) and not isinstance(stop, bool):
        count = int(np.ceil(np.clip(np.nan_to_num(float(stop) - start), 1, 64)))
    values = const([start + i for i in range(count)], origin=low.origin(call.at))
    return low.stop(values, call.at, "int" if isinstance(start, int) else "float")


@handles("{jax.numpy,numpy,torch,tensorflow,keras.ops}.{linspace,logspace,geomspace}",
         operands="start? stop|end? num|steps?")  # fmt: skip
def _linspace(low: Lowering, call: CallSite, start: Value, stop: Value, count: Value) -> Value:
    low.is_size(count)
    if call.last == "linspace" and isinstance(start, (int, float)) and isinstance(stop, (int, float)):
        return const(np.linspace(start, stop, LANES).tolist(), origin=low.origin(call.at))
    if call.last == "linspace" and all(isinstance(end, (int, float, Node)) for end in (start, stop)):
        steps = const(np.linspace(0, 1, LANES).tolist(), origin=low.origin(call.at))
        width = low.node("subtract", (stop, start), call.at)
        return low.node("add", (start, low.node("multiply", (width, steps), call.at)), call.at)
    return low.result(call, differentiable=any(isinstance(a, Node) for a in call.args))


@handles("{jax.numpy,numpy,torch}.fft.{fftfreq,rfftfreq}", "scipy.fft.{fftfreq,rfftfreq}", operands="n? d?")
def _frequencies(low: Lowering, call: CallSite, count: Value, spacing: Value) -> Value:
    low.is_size(count)
    half = LANES // 2
    cycles = np.linspace(0, 0.5, LANES) if "rfft" in call.name else (np.arange(LANES) + half) % LANES / LANES - 0.5
    return low.node("divide", (const(cycles.tolist()), 1.0 if spacing is None else spacing), call.at)


@handles("jax.nn.one_hot", "torch.nn.functional.one_hot", "tensorflow.one_hot", "keras.ops.one_hot")
def _one_hot(low: Lowering, call: CallSite) -> Value:
    values = {"on_value", "off_value"} & set(call.kwargs)
    return MISSING if values else low.result(call, kind="bool")


@handles("{jax.numpy,numpy,torch}.{finfo,iinfo}")
def _finfo(low: Lowering, call: CallSite) -> Value:
    return Dotted(f"{call.name}()")


@handles("tensorflow.keras.backend.epsilon", "keras.config.epsilon", "tensorflow.keras.config.epsilon")
def _epsilon(low: Lowering, call: CallSite) -> Value:
    return 1e-7


@handles("tensorflow.cast", "jax.lax.convert_element_type", operands="x|operand dtype|new_dtype?")
def cast(low: Lowering, call: CallSite, value: Value, dtype: Value) -> Value:
    """A change of dtype: to an integer it severs the gradient; booleans stay a mask, though they are numbers then."""
    tensor = low.tensor(value, call.at)
    if _is_bool_dtype(dtype):
        return tensor if tensor.kind == "bool" else low.node("not_equal", (tensor, 0), call.at)
    if _is_integer_dtype(dtype):
        return low.stop(tensor, call.at, "int")
    return low.node("identity", (tensor,), call.at, static=Static(number=True))


@handles(methods="astype to type view_as_real float double half long int bool type_as", operands="self dtype?")
def _astype(low: Lowering, call: CallSite, receiver: Value, dtype: Value) -> Value:
    if not isinstance(receiver, (Node, Method)):
        return MISSING
    return cast(low, call, receiver, call.last if call.last in ("long", "int", "bool") else dtype)


@handles("{jax.lax,tensorflow,keras.ops,tensorflow.keras.backend}.stop_gradient", "torch.detach",
         operands="x|input|variables")  # fmt: skip
def _stop(low: Lowering, call: CallSite, value: Value) -> Value:
    """A value, or each value of a tree, without its derivative."""
    if isinstance(value, (tuple, list)):
        return type(value)(_stop(low, call, v) for v in value)
    if isinstance(value, dict):
        return {k: _stop(low, call, v) for k, v in value.items()}
    return low.stop(value, call.at)


@handles(methods="detach detach_ item tolist numpy", operands="self!")
def _detach(low: Lowering, call: CallSite, receiver: Value) -> Value:
    return low.stop(receiver, call.at, static=Static(python=call.last == "item"))


@handles("torch.nn.Parameter", "torch.nn.parameter.Parameter", operands="data requires_grad?")
def _parameter(low: Lowering, call: CallSite, value: Value, trained: Value) -> Value:
    """One that nobody trains is a constant."""
    return low.stop(value, call.at, value.kind) if trained is False and is_constant(value) else MISSING


@handles("jax.random.{uniform,normal,truncated_normal,exponential,gamma,beta,laplace,gumbel,bernoulli}",
         "torch.{rand,randn,rand_like,randn_like,normal}", "tensorflow.random.{uniform,normal}",
         "numpy.random.{rand,randn,uniform,normal}")  # fmt: skip
def _random(low: Lowering, call: CallSite) -> Value:
    mask = call.name.endswith("bernoulli")
    kind = {"kind": "bool"} if mask else {"differentiable": False}
    drawn = low.called(call, call.name, low.identity(call.at), pure=is_pure(call.name), **kind)
    drawn.random, drawn.array = True, mask
    _bounded(low, drawn, call.kwargs.get("minval"), call.kwargs.get("maxval"), call.at)
    return drawn


@handles(methods="uniform_", operands="self! from? to?")
def _uniform(low: Lowering, call: CallSite, receiver: Value, least: Value, most: Value) -> Value:
    drawn = low.called(call, call.name, low.identity(call.at), pure=False, differentiable=False)
    drawn.random = True
    _bounded(low, drawn, least, most, call.at)
    return drawn


def _bounded(low: Lowering, drawn: Node, least: Value, most: Value, at: ast.AST) -> None:
    """Uniform numbers lie between the bounds that are given, of which one may be omitted."""
    if least is None and most is None:
        return
    low_end, high_end = 0.0 if least is None else least, 1.0 if most is None else most
    if isinstance(low_end, (int, float)) and isinstance(high_end, (int, float)) and low_end < high_end:
        hold(low, low.node("greater_equal", (drawn, low_end), at))
        hold(low, low.node("less_equal", (drawn, high_end), at))


@handles("jax.pure_callback", "jax.experimental.io_callback", "tensorflow.numpy_function",
         "tensorflow.compat.v1.py_func")  # fmt: skip
def _callback(low: Lowering, call: CallSite) -> Value:
    """Python outside of the program: JAX refuses to differentiate it, TensorFlow hands on no gradient."""
    return low.called(call, call.name, (call.name, low.identity(call.at)), differentiable=False)


@handles("torch.nn.Linear", "flax.nnx.Linear", "flax.linen.Dense", "equinox.nn.Linear")
def _affine(low: Lowering, call: CallSite) -> Value:
    """An affine map with weights of its own."""
    key, has_bias = low.identity(call.at), False not in (call.kwargs.get("bias"), call.kwargs.get("use_bias"))

    def function(low: Lowering, applied: CallSite) -> Value:
        if len(applied.args) != 1 or not isinstance(applied.args[0], (Node, Method)):
            return unknown(low, Dotted(call.name), applied)
        name = low.text(getattr(applied.at, "func", applied.at))
        weight, bias = (low.opaque(f"{name}.{part}", (key, part)) for part in ("weight", "bias"))
        operands = (applied.args[0], weight, bias if has_bias else 0.0)
        return low.node("linear", operands, applied.at, framework=call.framework)

    return Handler(function)


@handles(*(f"torch.nn.{layer}" for layer in LAYERS))
def _layer(low: Lowering, call: CallSite) -> Value:
    """An object that calls a function: a loss with its reduction, an activation with its settings."""
    name = LAYERS[call.name.rpartition(".")[2]]
    loss = call.name.endswith("Loss")

    def function(low: Lowering, applied: CallSite) -> Value:
        if loss:
            settings = {k: v for k, v in call.kwargs.items() if k == "reduction"}
            args, kwargs = applied.args, {**applied.kwargs, **settings}
        else:
            args, kwargs = [*applied.args, *call.args], call.kwargs
        made = operation(low, CallSite(f"torch.nn.functional.{name}", args, kwargs, applied.at))
        return made if loss or made else unknown(low, Dotted(call.name), applied)

    return Handler(function)
