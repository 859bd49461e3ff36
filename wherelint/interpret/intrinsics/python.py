"""Python's own functions and containers."""

import ast
import builtins
import math
from contextlib import suppress

from wherelint.graph.node import Kind, Node
from wherelint.interpret import attributes
from wherelint.interpret.arithmetic import binary, capped
from wherelint.interpret.expressions import elements
from wherelint.interpret.lowering import Lowering, container, handles
from wherelint.interpret.operations import argument
from wherelint.interpret.values import MISSING, Args, Class, Dotted, Instance, Kwargs, Super, Value


@handles("builtins.{abs,max,min,pow,round}", "math.{sqrt,log,exp,pow,fabs,sin,cos,tan,floor,ceil,log2,log10,log1p,"
         "acos,asin,atan,"
         "atan2,hypot,tanh,cosh,sinh,gamma,lgamma,erf,prod,isnan,isinf,isfinite,degrees,radians}")  # fmt: skip
def _python_math(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    owner, _, function = name.rpartition(".")
    flat = list(args[0]) if len(args) == 1 and isinstance(args[0], (list, tuple)) else list(args)
    if owner == "builtins" and function == "pow":
        return binary(low, ast.Pow, args[0], args[1], at) if len(args) == 2 else MISSING
    if flat and all(isinstance(a, (int, float)) for a in flat):
        try:
            result = getattr(builtins if owner == "builtins" else math, function)(*args)
        except (ArithmeticError, ValueError, TypeError):
            result = None
        known = isinstance(result, (int, float))
        return capped(result) if known else low.opaque(low.text(at), differentiable=False)
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
    whole = all(low.tensor(a, at).kind != "float" for a in flat) and function in ("max", "min", "abs", "prod")
    kind: Kind = "int" if whole else "float"
    # `math` converts to a Python float: a traced value would not survive it.
    return low.opaque(low.text(at), tuple(map(low.identity, flat)), kind=kind, differentiable=False)


#: No program means a factorial beyond: it would take as long here.
_LARGEST = 1000


@handles("math.{factorial,comb,perm,gcd,lcm,isqrt,copysign,trunc}")
def _of_numbers(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if not all(isinstance(a, (int, float)) and abs(a) <= _LARGEST for a in args):
        return MISSING
    try:
        return capped(getattr(math, name.rpartition(".")[2])(*args))
    except (ValueError, TypeError):
        return MISSING


_OPERATORS = {
    "add": ast.Add, "sub": ast.Sub, "mul": ast.Mult, "truediv": ast.Div, "floordiv": ast.FloorDiv, "mod": ast.Mod,
    "pow": ast.Pow, "matmul": ast.MatMult,
}  # fmt: skip


@handles("operator.{add,sub,mul,truediv,floordiv,mod,pow,matmul}")
def _operator(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if len(args) != 2:
        return MISSING
    return binary(low, _OPERATORS[name.rpartition(".")[2]], args[0], args[1], at)


@handles("operator.neg")
def _negate(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    return low.node("negative", args[:1], at) if args else MISSING


@handles("typing.cast")
def _typing_cast(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    return args[1] if len(args) > 1 else MISSING


@handles("builtins.sum")
def _sum(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if not args:
        return MISSING
    items = args[0]
    if isinstance(items, (list, tuple)):
        result: Value = argument(args, kwargs, 1, "start") or 0
        for item in items:
            if isinstance(result, (int, float)) and isinstance(item, (int, float)):
                result += item
            else:
                result = item if not isinstance(result, Node) and result == 0 else low.node("add", (result, item), at)
        return result
    return low.node("sum", (items,), at)


#: Classes whose instances the analysis can tell from each other; it knows Python's own values, and no array is one.
_CLASSES: dict[str, tuple[type, ...]] = {
    "builtins.bool": (bool,), "builtins.int": (int,), "builtins.float": (float,), "builtins.str": (str,),
    "builtins.tuple": (tuple,), "builtins.list": (list,), "builtins.dict": (dict,), "builtins.complex": (),
    "numbers.Number": (int, float), "numbers.Real": (int, float), "numbers.Integral": (int,),
    "collections.abc.Sequence": (str, tuple, list), "collections.abc.Mapping": (dict,),
    "collections.abc.Iterable": (str, tuple, list, dict), "collections.abc.Callable": (),
    "typing.Sequence": (str, tuple, list), "typing.Mapping": (dict,), "typing.Callable": (),
    "jax.Array": (), "jax.numpy.ndarray": (), "numpy.ndarray": (), "torch.Tensor": (), "tensorflow.Tensor": (),
    "tensorflow.Variable": (),
}  # fmt: skip


@handles("builtins.isinstance")
def _isinstance(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    unknown = low.opaque(low.text(at), tuple(map(low.identity, args)), kind="bool")
    if len(args) != 2 or not isinstance(args[0], (bool, int, float, str, tuple, list, dict, Instance)):
        return unknown
    answers: list[bool | None] = []
    for cls in args[1] if isinstance(args[1], (tuple, list)) else [args[1]]:
        if isinstance(args[0], Instance):
            known = isinstance(cls, Class) or (isinstance(cls, Dotted) and cls.name in _CLASSES)
            answers.append(any(cls is each for each in args[0].cls.ancestry()) if known else None)
        else:
            types = _CLASSES.get(cls.name) if isinstance(cls, Dotted) else () if isinstance(cls, Class) else None
            answers.append(None if types is None else isinstance(args[0], types))
    return True if True in answers else unknown if None in answers or not answers else False


@handles("builtins.{len,hasattr,callable}")
def _python_query(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if name.endswith("len"):
        if args and isinstance(args[0], (list, tuple, dict, str)):
            return len(args[0])
        low.measure(*args)
        return low.size(low.text(at))
    return low.opaque(low.text(at), tuple(map(low.identity, args)), kind="bool")


@handles("builtins.complex")
def _complex(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    return low.imaginary(at)


@handles("builtins.float")
def _python_float(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if len(args) == 1 and isinstance(args[0], str):
        try:
            return float(args[0])
        except ValueError:
            return MISSING
    if len(args) == 1 and isinstance(args[0], (int, float)):
        return float(args[0])
    return low.stop(args[0], at) if args else 0.0


@handles("builtins.{int,bool}")
def _python_int(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if len(args) == 1 and isinstance(args[0], (int, float)) and math.isfinite(args[0]):
        return int(args[0]) if name.endswith("int") else bool(args[0])
    if not args:
        return 0
    if len(args) == 1 and isinstance(args[0], str) and name.endswith("int"):
        return int(args[0]) if args[0].isdecimal() and len(args[0]) < 10 else MISSING
    return low.stop(args[0], at, "int") if name.endswith("int") else low.condition(args[0], at)


@handles("builtins.{list,tuple,reversed,sorted,iter}")
def _python_sequence(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if not args:
        return () if name.endswith("tuple") else []
    value = list(args[0]) if isinstance(args[0], dict) else args[0]
    if not isinstance(value, (list, tuple)):
        return value
    items = list(reversed(value)) if name.endswith("reversed") else list(value)
    return tuple(items) if name.endswith("tuple") else items


@handles("builtins.dict")
def _python_dict(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    return {**(args[0] if args and isinstance(args[0], dict) else {}), **kwargs}


@handles("builtins.range")
def _range(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    numbers = [a for a in args if isinstance(a, int)]
    if args and len(numbers) == len(args):
        with suppress(ValueError, OverflowError):  # a step of 0, more than can be counted
            if len(r := range(*numbers)) <= 64:
                return list(r)
    low.is_size(*args[-1:] if len(args) < 3 else ())
    return low.opaque(low.text(at), tuple(map(low.identity, args)), kind="int")


@handles("builtins.{zip,enumerate}")
def _zip(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    columns = [elements(low, a, at) for a in args[: 1 if name.endswith("enumerate") else None]]
    if name.endswith("enumerate") and columns:
        known = isinstance(args[0], (list, tuple, dict))
        indices: list[Value] = [*range(len(columns[0]))] if known else [low.opaque(low.text(at), kind="int")]
        columns = [indices, columns[0]]
    return [tuple(row) for row in zip(*columns, strict=False)]


@handles("builtins.getattr")
def _getattr(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if len(args) >= 2 and isinstance(args[1], str):
        return attributes.read(low, args[0], args[1], at)
    return MISSING


@handles("builtins.setattr")
def _setattr(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if len(args) == 3 and isinstance(args[0], Instance) and isinstance(args[1], str):
        attributes.keep_kind(low, args[0], args[1], args[2])
    return None


@handles("builtins.super")
def _super(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    receiver, here = low.frame.receiver, low.frame.method_of
    if isinstance(receiver, Instance) and here is not None:
        line = list(receiver.cls.ancestry())
        following = line[line.index(here) + 1 :] if here in line else []
        if following:
            return Super(receiver, following[0])
    return low.opaque(low.text(at), differentiable=False)


@handles("{jax.numpy,numpy,jax.lax,jax.nn,torch}.array_namespace", "array_api_compat.array_namespace",
         "scipy._lib._array_api.array_namespace", "array_api_compat.get_namespace")  # fmt: skip
def _namespace(low: Lowering, name: str, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    return Dotted("jax.numpy")


@container("append")
def _append(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if isinstance(receiver, list) and len(args) == 1 and len(receiver) < 256:
        receiver.append(args[0])
    return None


@container("extend")
def _extend(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if isinstance(receiver, list) and len(args) == 1 and len(receiver) < 256:
        receiver.extend(args[0] if isinstance(args[0], (list, tuple)) else [args[0]])
    return None


@container("items")
def _items(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    return list(receiver.items()) if isinstance(receiver, dict) else MISSING


@container("keys")
def _keys(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    return list(receiver) if isinstance(receiver, dict) else MISSING


@container("values")
def _values(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    return list(receiver.values()) if isinstance(receiver, dict) else MISSING


@container("get")
def _get(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if isinstance(receiver, dict) and args and isinstance(args[0], str) and args[0] in receiver:
        return receiver[args[0]]
    return low.opaque(low.text(at), tuple(map(low.identity, (receiver, *args))))


@container("update")
def _update(low: Lowering, receiver: Value, args: Args, kwargs: Kwargs, at: ast.AST) -> Value:
    if isinstance(receiver, dict):
        receiver.update({**(args[0] if args and isinstance(args[0], dict) else {}), **kwargs})
    return None
