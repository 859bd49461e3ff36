"""Arrays made from numbers, casts, randomness: what is known of them without running anything."""

import ast
import math
from dataclasses import replace

import numpy as np

from wherelint.frameworks.torch import LAYERS
from wherelint.graph.node import DIAGONAL, LANES, Leaf, Node, Static, const
from wherelint.interpret.calls import lasts, unknown
from wherelint.interpret.lowering import Lowering, handles
from wherelint.interpret.operations import argument, framework, operation
from wherelint.interpret.values import MISSING, Args, Dotted, Handler, Kwargs, Value
from wherelint.ops.purity import is_pure


@handles("{jax.numpy,numpy,torch,tensorflow,keras.ops}.{array,asarray,tensor,as_tensor,constant,stack,concatenate,cat,"
         "concat,hstack,vstack,convert_to_tensor,from_numpy,column_stack,dstack,append}",
         "torch.{FloatTensor,scalar_tensor}",
         "{jax.numpy,numpy,torch}.{float32,float64,float16,bfloat16}", "tensorflow.Variable")  # fmt: skip
def array(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    """An array from numbers, from parts, or from another array."""
    value = argument(args, kwargs, 0, "object", "data", "a", "arrays", "tensors", "value", "values", "obj", "x")
    if value is None:
        return MISSING
    if name.endswith(".append") and len(args) > 1:
        value = [args[0], args[1]]
    if isinstance(value, (list, tuple)):
        numbers = low.static_numbers(value)
        if numbers:
            return low.numbers(numbers, at)
        if not value:
            return low.opaque(low.text(at), differentiable=False)
    tensor = low.tensor(value, at)
    if tensor.op == "const":
        return tensor
    if tensor.op == "stack" and name.endswith(".stack"):
        tensor.static = replace(tensor.static, new_axis=True)
    if name in ("torch.tensor", "torch.scalar_tensor", "torch.FloatTensor"):  # copies numbers, not history
        return low.stop(tensor, at, tensor.kind)
    return low.node("identity", (tensor,), at) if framework(name) else low.stop(tensor, at, tensor.kind)


@handles("{jax.numpy,numpy}.{int8,int16,int32,int64,uint8,uint16,uint32,uint64}")
def _integer(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if len(args) != 1 or kwargs:
        return MISSING
    if isinstance(args[0], (int, float)):
        return int(args[0]) if math.isfinite(args[0]) else MISSING
    return low.stop(args[0], at, "int")


@handles("{jax.numpy,numpy,torch,tensorflow,keras.ops}.{zeros,empty,zeros_like,empty_like,ones,ones_like}")
def _filled(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if not name.endswith("_like"):
        low.is_size(*(args if name.startswith("torch.") else args[:1]))
    dtype = kwargs.get("dtype", args[1] if len(args) > 1 else None)
    like = args[0] if name.endswith("_like") and args else None
    value: float = float("ones" in name)
    if _is_bool_dtype(dtype) or (dtype is None and isinstance(like, Node) and like.kind == "bool"):
        value = bool(value)
    elif _is_integer_dtype(dtype) or (dtype is None and isinstance(like, Node) and like.kind == "int"):
        value = int(value)
    made = const(value, origin=low.origin(at))
    made.single = len(args) > 0 and args[0] in (1, (1,), [1])
    made.like = like if isinstance(like, Node) else None
    return made


@handles("{jax.numpy,numpy,torch,keras.ops}.{full,full_like}", "tensorflow.fill")
def _full(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if name.endswith("_like"):
        low.measure(*args[:1])
    value = argument(args, kwargs, 1, "fill_value", "value")
    if isinstance(value, (bool, int)) and (
        _is_bool_dtype(kwargs.get("dtype")) or _is_integer_dtype(kwargs.get("dtype"))
    ):
        return const(value, origin=low.origin(at))
    return MISSING if value is None else low.tensor(float(value) if type(value) is int else value, at)


@handles("{jax.numpy,numpy,torch,tensorflow,keras.ops}.{eye,identity}")
def _eye(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if name == "tensorflow.identity":
        return MISSING
    low.is_size(*args[:1])
    pattern = DIAGONAL if _is_bool_dtype(kwargs.get("dtype")) else [float(d) for d in DIAGONAL]
    return const(pattern, origin=low.origin(at))


def _dtype(value: Value) -> str:
    return value.name.rpartition(".")[2] if isinstance(value, Dotted) else value if isinstance(value, str) else ""


def _is_bool_dtype(value: Value) -> bool:
    return _dtype(value) in ("bool", "bool_")


def _is_integer_dtype(value: Value) -> bool:
    return _dtype(value).startswith(("int", "uint", "long", "short"))


@handles("{jax.numpy,numpy,torch,keras.ops}.arange", "tensorflow.range")
def _arange(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    start = args[0] if len(args) > 1 else kwargs.get("start", 0)
    stop = args[1] if len(args) > 1 else args[0] if args else kwargs.get("end")
    if isinstance(start, int) and len(args) < 3:
        low.is_size(stop)
        if start == 0 and isinstance(stop, Leaf):
            stop.least = stop.most = LANES  # as many as the model has elements
    if not isinstance(start, (int, float)):
        return low.opaque(low.text(at), kind="int")
    count = LANES
    if isinstance(stop, (int, float)) and not isinstance(stop, bool):
        count = int(np.ceil(np.clip(np.nan_to_num(float(stop) - start), 1, 64)))
    values = [start + i for i in range(count)]
    return low.stop(const(values, origin=low.origin(at)), at, "int" if isinstance(start, int) else "float")


@handles("{jax.numpy,numpy,torch,tensorflow,keras.ops}.{linspace,logspace,geomspace}")
def _linspace(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    start, stop = argument(args, kwargs, 0, "start"), argument(args, kwargs, 1, "stop", "end")
    low.is_size(argument(args, kwargs, 2, "num", "steps"))
    if name.endswith("linspace") and isinstance(start, (int, float)) and isinstance(stop, (int, float)):
        return const(np.linspace(start, stop, LANES).tolist(), origin=low.origin(at))
    if name.endswith("linspace") and all(isinstance(end, (int, float, Node)) for end in (start, stop)):
        steps = const(np.linspace(0, 1, LANES).tolist(), origin=low.origin(at))
        return low.node("add", (start, low.node("multiply", (low.node("subtract", (stop, start), at), steps), at)), at)
    return low.opaque(
        low.text(at), tuple(map(low.identity, args)), differentiable=any(isinstance(a, Node) for a in args)
    )


@handles("{jax.numpy,numpy,torch}.fft.{fftfreq,rfftfreq}", "scipy.fft.{fftfreq,rfftfreq}")
def _frequencies(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    low.is_size(argument(args, kwargs, 0, "n"))
    half = LANES // 2
    cycles = np.linspace(0, 0.5, LANES) if "rfft" in name else (np.arange(LANES) + half) % LANES / LANES - 0.5
    spacing = argument(args, kwargs, 1, "d")
    return low.node("divide", (const(cycles.tolist()), 1.0 if spacing is None else spacing), at)


@handles("jax.nn.one_hot", "torch.nn.functional.one_hot", "tensorflow.one_hot", "keras.ops.one_hot")
def _one_hot(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    values = {"on_value", "off_value"} & set(kwargs)
    return MISSING if values else low.opaque(low.text(at), tuple(map(low.identity, args)), kind="bool")


@handles("{jax.numpy,numpy,torch}.{finfo,iinfo}")
def _finfo(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    return Dotted(f"{name}()")


@handles("tensorflow.keras.backend.epsilon", "keras.config.epsilon", "tensorflow.keras.config.epsilon")
def _epsilon(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    return 1e-7


@handles("tensorflow.cast", "jax.lax.convert_element_type")
def _cast(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    value, dtype = argument(args, kwargs, 0, "x", "operand"), argument(args, kwargs, 1, "dtype", "new_dtype")
    return MISSING if value is None else cast(low, value, dtype, at)


def cast(low: Lowering, value: Value, dtype: Value, at: ast.AST) -> Value:
    """A change of dtype: to an integer it severs the gradient; booleans stay a mask, though they are numbers then."""
    tensor = low.tensor(value, at)
    if _is_bool_dtype(dtype):
        return tensor if tensor.kind == "bool" else low.node("not_equal", (tensor, 0), at)
    if _is_integer_dtype(dtype):
        return low.stop(tensor, at, "int")
    return low.node("identity", (tensor,), at, static=Static(number=True))


@handles("{jax.lax,tensorflow,keras.ops,tensorflow.keras.backend}.stop_gradient", "torch.detach")
def _stop(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    value = argument(args, kwargs, 0, "x", "input", "variables")
    return MISSING if value is None else stopped(low, value, at)


@handles("torch.nn.Parameter", "torch.nn.parameter.Parameter")
def _parameter(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    """One that nobody trains is a constant."""
    value, trained = argument(args, kwargs, 0, "data"), argument(args, kwargs, 1, "requires_grad")
    return low.stop(value, at, value.kind) if trained is False and lasts(value) else MISSING


def stopped(low: Lowering, value: Value, at: ast.AST) -> Value:
    """A value, or each value of a tree, without its derivative."""
    if isinstance(value, (tuple, list)):
        return type(value)(stopped(low, v, at) for v in value)
    if isinstance(value, dict):
        return {k: stopped(low, v, at) for k, v in value.items()}
    return low.stop(value, at)


@handles("jax.random.{uniform,normal,truncated_normal,exponential,gamma,beta,laplace,gumbel}",
         "torch.{rand,randn,rand_like,randn_like,normal}", "tensorflow.random.{uniform,normal}",
         "numpy.random.{rand,randn,uniform,normal}")  # fmt: skip
def _random(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    pure = is_pure(name)
    return _drawn(
        low.called(at, name, args, (low.identity(at), *map(low.identity, args)), pure=pure, differentiable=False)
    )


@handles("jax.pure_callback", "jax.experimental.io_callback", "tensorflow.numpy_function",
         "tensorflow.compat.v1.py_func")  # fmt: skip
def _called_back(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    """Python outside of the program: JAX refuses to differentiate it, TensorFlow hands on no gradient."""
    key = (name, low.identity(at), *map(low.identity, args))
    return low.called(at, name, args, key, pure=False, differentiable=False)


def _drawn(made: Leaf) -> Leaf:
    made.random = True
    return made


@handles("jax.random.bernoulli")
def _random_mask(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    mask = low.called(at, name, args, (low.identity(at), *map(low.identity, args)), pure=True, kind="bool")
    mask.array = True
    return _drawn(mask)


@handles(*(f"torch.nn.{layer}" for layer in LAYERS if layer.endswith("Loss")))
def _loss(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    function = LAYERS[name.rpartition(".")[2]]
    reduction = {"reduction": kwargs["reduction"]} if "reduction" in kwargs else {}
    return Handler(
        lambda low, args, kwargs, at: operation(
            low, f"torch.nn.functional.{function}", args, {**kwargs, **reduction}, at
        )
    )


@handles(*(f"torch.nn.{layer}" for layer in LAYERS if not layer.endswith("Loss")))
def _activation(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    function = LAYERS[name.rpartition(".")[2]]
    return Handler(
        lambda low, given, named, at: (
            operation(low, f"torch.nn.functional.{function}", [*given, *args], kwargs, at)
            or unknown(low, Dotted(name), given, named, at)
        )
    )
