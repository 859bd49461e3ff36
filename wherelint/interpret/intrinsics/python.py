"""Python's own functions and containers."""

import ast
import builtins
import math
from contextlib import suppress

from wherelint.graph.node import Kind, Leaf, Node, Static
from wherelint.interpret import attributes
from wherelint.interpret.arithmetic import binary, capped
from wherelint.interpret.expressions import elements
from wherelint.interpret.lowering import CallSite, Lowering, container, handles
from wherelint.interpret.statements import hold
from wherelint.interpret.values import MISSING, Class, Dotted, Instance, Super, Value
from wherelint.ops import OPERATIONS

#: Functions of integers; no program means one of a number beyond: it would take as long here.
_OF_INTEGERS = frozenset("factorial comb perm gcd lcm isqrt copysign trunc".split())
_LARGEST = 1000
_PYTHON = Static(python=True)
#: What the catalogue calls another name; what raises an error unless its operand compares so with 0.
_OPERATIONS = {
    "fabs": "abs", "pow": "power", "acos": "arccos", "asin": "arcsin", "atan": "arctan", "atan2": "arctan2",
    "degrees": "rad2deg", "radians": "deg2rad",
}  # fmt: skip
_RAISES = {"sqrt": "greater_equal", "log": "greater", "log2": "greater", "log10": "greater"}


@handles("builtins.{abs,max,min,round}", "math.{sqrt,log,exp,pow,fabs,sin,cos,tan,floor,ceil,log2,log10,log1p,acos,"
         "asin,atan,atan2,hypot,tanh,cosh,sinh,gamma,lgamma,erf,prod,isnan,isinf,isfinite,degrees,radians}",
         f"math.{{{','.join(_OF_INTEGERS)}}}")  # fmt: skip
def _math(low: Lowering, call: CallSite) -> Value:
    args, at, function, of_python = call.args, call.at, call.last, call.name.startswith("builtins.")
    flat = list(args[0]) if len(args) == 1 and isinstance(args[0], (list, tuple)) else list(args)
    if function in _OF_INTEGERS and not all(isinstance(a, (int, float)) and abs(a) <= _LARGEST for a in args):
        return MISSING
    if flat and all(isinstance(a, (int, float)) for a in flat):
        try:
            result = getattr(builtins if of_python else math, function)(*args)
        except (ArithmeticError, ValueError, TypeError):
            result = None
        known = isinstance(result, (int, float))
        return capped(result) if known else low.opaque(low.text(at), differentiable=False)
    if function in ("abs", "round") and args:
        return low.node(function, (args[0],), at)
    if function in ("max", "min") and len(flat) >= 2:
        # Python compares and takes one: the other is never differentiated.
        chosen = low.tensor(flat[0], at)
        for item in flat[1:]:
            other = low.tensor(item, at)
            keep = low.node("greater_equal" if function == "max" else "less_equal", (chosen, other), at)
            chosen = low.node("cond", (keep, chosen, other), at)
        return chosen
    # `math` converts to a Python float: a traced value would not survive it.
    op = _OPERATIONS.get(function, function)
    if op in OPERATIONS and not of_python:
        for number in args:
            if isinstance(number, Leaf):
                number.setting = True
        if function in _RAISES:
            hold(low, low.node(_RAISES[function], (args[0], 0.0), at))
        return low.stop(low.node(op, args, at), at, static=_PYTHON)
    whole = all(low.tensor(a, at).kind != "float" for a in flat) and function in ("max", "min", "abs", "prod")
    kind: Kind = "int" if whole else "float"
    return low.opaque(low.text(at), tuple(map(low.identity, flat)), kind=kind, differentiable=False)


_OPERATORS = {
    "add": ast.Add, "sub": ast.Sub, "mul": ast.Mult, "truediv": ast.Div, "floordiv": ast.FloorDiv, "mod": ast.Mod,
    "pow": ast.Pow, "matmul": ast.MatMult,
}  # fmt: skip


@handles(f"operator.{{{','.join(_OPERATORS)}}}", "builtins.pow")
def _operator(low: Lowering, call: CallSite) -> Value:
    return MISSING if len(call.args) != 2 else binary(low, _OPERATORS[call.last], call.args[0], call.args[1], call.at)


@handles("operator.neg", operands="a")
def _negate(low: Lowering, call: CallSite, value: Value) -> Value:
    return low.node("negative", (value,), call.at)


@handles("typing.cast", operands="typ val")
def _typing_cast(low: Lowering, call: CallSite, kind: Value, value: Value) -> Value:
    return value


@handles("builtins.sum", operands="iterable start?")
def _sum(low: Lowering, call: CallSite, items: Value, start: Value) -> Value:
    if not isinstance(items, (list, tuple)):
        return low.node("sum", (items,), call.at)
    result: Value = start or 0
    for item in items:
        if isinstance(result, (int, float)) and isinstance(item, (int, float)):
            result += item
        else:
            empty = not isinstance(result, Node) and result == 0
            result = item if empty else low.node("add", (result, item), call.at)
    return result


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
def _isinstance(low: Lowering, call: CallSite) -> Value:
    unknown, args = low.result(call, kind="bool"), call.args
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


@handles("builtins.len", operands="obj")
def _len(low: Lowering, call: CallSite, value: Value) -> Value:
    if isinstance(value, (list, tuple, dict, str)):
        return len(value)
    low.measure(value)
    return low.size(low.text(call.at))


@handles("builtins.{hasattr,callable}")
def _query(low: Lowering, call: CallSite) -> Value:
    return low.result(call, kind="bool")


@handles("builtins.complex")
def _complex(low: Lowering, call: CallSite) -> Value:
    return low.imaginary(call.at)


@handles("builtins.{float,int,bool}")
def _number(low: Lowering, call: CallSite) -> Value:
    if not call.args:
        return 0.0 if call.last == "float" else 0
    value = call.args[0]
    if len(call.args) == 1 and isinstance(value, str) and call.last == "float":
        with suppress(ValueError):
            return float(value)
        return MISSING
    if len(call.args) == 1 and isinstance(value, str) and call.last == "int":
        return int(value) if value.isdecimal() and len(value) < 10 else MISSING
    if len(call.args) == 1 and isinstance(value, (int, float)) and (call.last == "float" or math.isfinite(value)):
        return float(value) if call.last == "float" else int(value) if call.last == "int" else bool(value)
    if call.last == "bool":
        return low.condition(value, call.at)
    return low.stop(value, call.at, "int" if call.last == "int" else "float", static=_PYTHON)


@handles("builtins.{list,tuple,reversed,sorted,iter}")
def _sequence(low: Lowering, call: CallSite) -> Value:
    of_type = tuple if call.last == "tuple" else list
    value = call.args[0] if call.args else ()
    if not isinstance(value, (list, tuple, dict)):
        return value
    return of_type(reversed(list(value)) if call.last == "reversed" else value)


@handles("builtins.dict")
def _dict(low: Lowering, call: CallSite) -> Value:
    return {**(call.args[0] if call.args and isinstance(call.args[0], dict) else {}), **call.kwargs}


@handles("builtins.range")
def _range(low: Lowering, call: CallSite) -> Value:
    numbers = [a for a in call.args if isinstance(a, int)]
    if numbers and len(numbers) == len(call.args):
        with suppress(ValueError, OverflowError):  # a step of 0, more than can be counted
            if len(r := range(*numbers)) <= 64:
                return list(r)
    low.is_size(*call.args[-1:] if len(call.args) < 3 else ())
    return low.result(call, kind="int")


@handles("builtins.{zip,enumerate}")
def _zip(low: Lowering, call: CallSite) -> Value:
    counted = call.last == "enumerate"
    columns = [elements(low, a, call.at) for a in call.args[: 1 if counted else None]]
    if counted and columns:
        known = isinstance(call.args[0], (list, tuple, dict))
        indices: list[Value] = [*range(len(columns[0]))] if known else [low.opaque(low.text(call.at), kind="int")]
        columns = [indices, columns[0]]
    return [tuple(row) for row in zip(*columns, strict=False)]


@handles("builtins.getattr", operands="obj name")
def _getattr(low: Lowering, call: CallSite, value: Value, name: Value) -> Value:
    return attributes.read(low, value, name, call.at) if isinstance(name, str) else MISSING


@handles("builtins.setattr", operands="obj name value?")
def _setattr(low: Lowering, call: CallSite, target: Value, name: Value, value: Value) -> Value:
    if isinstance(target, Instance) and isinstance(name, str):
        attributes.keep_kind(low, target, name, value)
    return None


@handles("builtins.super")
def _super(low: Lowering, call: CallSite) -> Value:
    receiver, here = low.frame.receiver, low.frame.method_of
    if isinstance(receiver, Instance) and here is not None:
        line = list(receiver.cls.ancestry())
        following = line[line.index(here) + 1 :] if here in line else []
        if following:
            return Super(receiver, following[0])
    return low.opaque(low.text(call.at), differentiable=False)


@handles("{jax.numpy,numpy,jax.lax,jax.nn,torch}.array_namespace", "array_api_compat.array_namespace",
         "scipy._lib._array_api.array_namespace", "array_api_compat.get_namespace")  # fmt: skip
def _namespace(low: Lowering, call: CallSite) -> Value:
    return Dotted("jax.numpy")


@container("append", "extend", operands="self item?")
def _append(low: Lowering, call: CallSite, receiver: Value, item: Value) -> Value:
    if isinstance(receiver, list) and len(call.args) == 2 and len(receiver) < 256:
        receiver += item if call.last == "extend" and isinstance(item, (list, tuple)) else [item]
    return None


@container("items", "keys", "values", operands="self")
def _views(low: Lowering, call: CallSite, receiver: Value) -> Value:
    return list(getattr(receiver, call.last)()) if isinstance(receiver, dict) else MISSING


@container("get", operands="self key?")
def _get(low: Lowering, call: CallSite, receiver: Value, key: Value) -> Value:
    if isinstance(receiver, dict) and isinstance(key, str) and key in receiver:
        return receiver[key]
    return low.result(call)


@container("update", operands="self other?")
def _update(low: Lowering, call: CallSite, receiver: Value, other: Value) -> Value:
    if isinstance(receiver, dict):
        receiver.update({**(other if isinstance(other, dict) else {}), **call.kwargs})
    return None
