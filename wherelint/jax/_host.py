"""What a program computes, by NumPy: nothing is compiled, which would take longer than everything else.

Where an operation is not in the tables here, JAX computes it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from scipy import special

from wherelint.jax import _compat
from wherelint.jax._compat import ClosedJaxpr, JaxprEqn
from wherelint.jax._notes import Notes
from wherelint.jax._primitives import CALLS

_CALLS = CALLS | {"custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "custom_lin"}
_UFUNCS: dict[str, Callable[..., Any]] = {
    name: getattr(np, numpy)
    for pair in """add add_any:add sub:subtract mul:multiply neg:negative max:maximum min:minimum pow:power abs sign
    floor ceil sqrt cbrt square exp exp2 expm1 log log1p sin cos tan sinh cosh tanh asin:arcsin acos:arccos atan:arctan
    asinh:arcsinh acosh:arccosh atanh:arctanh atan2:arctan2 is_finite:isfinite eq:equal ne:not_equal lt:less
    le:less_equal gt:greater ge:greater_equal and:bitwise_and or:bitwise_or xor:bitwise_xor not:invert real imag
    stop_gradient:positive copy:asarray copy_p:asarray optimization_barrier:asarray pvary:asarray""".split()
    for name, _, numpy in [(*pair.partition(":")[:2], pair.partition(":")[2] or pair)]
} | {
    "rsqrt": lambda x: 1 / np.sqrt(x), "logistic": lambda x: 1 / (1 + np.exp(-x)), "erf": special.erf,
    "erfc": special.erfc, "rem": np.fmod,
}  # fmt: skip
_REDUCE = {"reduce_sum": np.sum, "reduce_prod": np.prod, "reduce_max": np.max, "reduce_min": np.min,
           "reduce_and": np.all, "reduce_or": np.any}  # fmt: skip


def _broadcast_in_dim(x: Any, *, shape: Any, broadcast_dimensions: Any, **_: Any) -> Any:
    laid = [1] * len(shape)
    for axis, size in zip(broadcast_dimensions, x.shape, strict=True):
        laid[axis] = size
    return np.broadcast_to(x.reshape(laid), shape)


def _dot_general(a: Any, b: Any, *, dimension_numbers: Any, **_: Any) -> Any:
    (contracted, batches) = dimension_numbers
    parts = []
    for x, summed, batch, last in ((a, contracted[0], batches[0], True), (b, contracted[1], batches[1], False)):
        free = [axis for axis in range(x.ndim) if axis not in summed and axis not in batch]
        order = [*batch, *free, *summed] if last else [*batch, *summed, *free]
        shape = [x.shape[axis] for axis in order]
        n, k = len(batch), len(free) if last else len(summed)
        parts.append(x.transpose(order).reshape(*shape[:n], int(np.prod(shape[n : n + k])), int(np.prod(shape[n + k :]))))
        parts.append([x.shape[axis] for axis in free])
    left, rows, right, columns = parts
    return (left @ right).reshape(*left.shape[:-2], *rows, *columns)


def _slice(x: Any, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    return x[tuple(map(slice, start_indices, limit_indices, strides or [1] * x.ndim))]


def _iota(*, dtype: Any, shape: Any, dimension: int, **_: Any) -> Any:
    along = np.arange(shape[dimension], dtype=dtype)
    return _broadcast_in_dim(along, shape=shape, broadcast_dimensions=[dimension])


_RULES: dict[str, Callable[..., Any]] = {
    "broadcast_in_dim": _broadcast_in_dim, "dot_general": _dot_general, "slice": _slice, "iota": _iota,
    "select_n": lambda which, *cases: np.choose(which, cases) if len(cases) > 2 else np.where(which, *cases[::-1]),
    "convert_element_type": lambda x, **_: x.real if np.iscomplexobj(x) else x,
    "reshape": lambda x, *, new_sizes, **_: x.reshape(new_sizes),
    "transpose": lambda x, *, permutation: x.transpose(permutation),
    "squeeze": lambda x, *, dimensions: x.squeeze(tuple(dimensions)),
    "expand_dims": lambda x, *, dimensions: np.expand_dims(x, tuple(dimensions)),
    "concatenate": lambda *xs, dimension: np.concatenate(xs, dimension),
    "rev": lambda x, *, dimensions: np.flip(x, dimensions),
    "integer_pow": lambda x, *, y: np.power(x, x.dtype.type(y)),
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
}  # fmt: skip


def evaluate(program: ClosedJaxpr, inputs: Sequence[Any]) -> list[Any]:
    """What a program computes, as arrays of NumPy (random keys as they are)."""
    with np.errstate(all="ignore"):
        return _evaluate(program, inputs)


def _evaluate(program: ClosedJaxpr, inputs: Sequence[Any]) -> list[Any]:
    jaxpr = program.jaxpr
    given = zip((*jaxpr.constvars, *jaxpr.invars), (*program.consts, *inputs), strict=True)
    values = {v: _as_array(x, v) for v, x in given}

    def read(v: Any) -> Any:
        return np.asarray(v.val, v.aval.dtype) if isinstance(v, _compat.Literal) else values[v]

    needed, wanted = [], {v for v in jaxpr.outvars if not isinstance(v, _compat.Literal)}
    for eqn in reversed(jaxpr.eqns):
        if not wanted.isdisjoint(eqn.outvars):
            needed.append(eqn)
            wanted.update(v for v in eqn.invars if not isinstance(v, _compat.Literal))
    for eqn in reversed(needed):
        results = _equation(eqn, [read(v) for v in eqn.invars])
        values.update((v, _as_array(x, v)) for v, x in zip(eqn.outvars, results, strict=True))
    return [read(v) for v in jaxpr.outvars]


def _as_array(x: Any, v: Any) -> Any:
    return x if jax.dtypes.issubdtype(v.aval.dtype, jax.dtypes.extended) else np.asarray(x, v.aval.dtype)


def _equation(eqn: JaxprEqn, given: list[Any]) -> list[Any]:
    name, params = eqn.primitive.name, eqn.params
    exact = any(jax.dtypes.issubdtype(x.dtype, jax.dtypes.extended) for x in given)
    if name in _CALLS and (inner := _compat.programs(eqn)) and len(inner[0].in_avals) == len(given):
        return _evaluate(inner[0], given)
    if name == "cond":
        return _evaluate(params["branches"][int(given[0])], given[1:])
    if not exact and name in _UFUNCS:
        return [_UFUNCS[name](*given)]
    if not exact and name == "div" and given[0].dtype.kind != "i":
        return [np.divide(*given)]
    if not exact and name in _REDUCE:
        return [_REDUCE[name](given[0], axis=tuple(params["axes"]))]
    if not exact and name in _RULES:
        return [_RULES[name](*given, **params)]
    return _compat.bind(eqn, given)


def noted(notes: Notes, f: Callable[..., Any], *arguments: Any) -> Any:
    """What a function of arrays that takes notes gives; the notes are arrays of NumPy."""

    def run(*leaves: Any) -> Any:
        notes.notes = []
        return f(*leaves), [array for _, array in notes.notes]

    closed, shape = jax.make_jaxpr(run, return_shape=True)(*arguments)
    keys = [key for key, _ in notes.notes]
    result, arrays = jax.tree.unflatten(jax.tree.structure(shape), evaluate(closed, jax.tree.leaves(arguments)))
    notes.notes = list(zip(keys, arrays, strict=True))
    return result
