"""Programs, evaluated equation by equation: by JAX, while notes are taken, or by NumPy.

By NumPy nothing is compiled, which would take longer than everything else; JAX computes what is not in the tables here.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp
from scipy import special

from wherelint.companion.patching import override
from wherelint.jax import _compat
from wherelint.jax._compat import ClosedJaxpr, JaxprEqn, Path
from wherelint.jax._primitives import CALLS

T = TypeVar("T")

#: Calls, and functions with rules of their own.
RULED_CALLS = CALLS | {"custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"}
#: So many equations of a loop are computed one by one.
_ROUNDS = 30_000
#: By the name of the primitive, which is that of NumPy where none is given.
_UFUNCS: dict[str, Callable[..., Any]] = {
    name: getattr(np, other or name)
    for name, _, other in (
        pair.partition(":")
        for pair in """add add_any:add sub:subtract mul:multiply neg:negative max:maximum min:minimum pow:power abs sign
        floor ceil sqrt cbrt square exp exp2 expm1 log log1p sin cos tan sinh cosh tanh asin:arcsin acos:arccos
        atan:arctan asinh:arcsinh acosh:arccosh atanh:arctanh atan2:arctan2 is_finite:isfinite eq:equal ne:not_equal
        lt:less le:less_equal gt:greater ge:greater_equal and:bitwise_and or:bitwise_or xor:bitwise_xor not:invert real
        imag copy:asarray copy_p:asarray""".split()
    )
}
_UFUNCS |= {
    "rsqrt": lambda x: 1 / np.sqrt(x), "logistic": lambda x: 1 / (1 + np.exp(-x)), "rem": np.fmod,
    "erf": special.erf, "erfc": special.erfc, "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "select_n": lambda which, *cases: np.where(which, *cases[::-1]) if len(cases) == 2 else np.choose(which, cases),
}  # fmt: skip
_REDUCE = {"reduce_sum": np.sum, "reduce_prod": np.prod, "reduce_max": np.max, "reduce_min": np.min,
           "reduce_and": np.all, "reduce_or": np.any}  # fmt: skip


def _broadcast_in_dim(x: Any, *, shape: Any, broadcast_dimensions: Any, **_: Any) -> Any:
    new = [axis for axis in range(len(shape)) if axis not in broadcast_dimensions]
    return np.broadcast_to(np.expand_dims(x, new), shape)


def _dot_general(a: Any, b: Any, *, dimension_numbers: Any, **_: Any) -> Any:
    (summed, batch), matrices, free = dimension_numbers, [], []
    for x, along, shared, left in zip((a, b), summed, batch, (True, False), strict=True):
        rest = [axis for axis in range(x.ndim) if axis not in along and axis not in shared]
        pair = [rest, list(along)] if left else [list(along), rest]
        sizes = [[x.shape[axis] for axis in axes] for axes in ([*shared], *pair)]
        laid = x.transpose(*shared, *pair[0], *pair[1])
        matrices.append(laid.reshape((*sizes[0], *(int(np.prod(each)) for each in sizes[1:]))))
        free += [x.shape[axis] for axis in rest]
    product = np.matmul(*matrices)
    return product.reshape((*product.shape[:-2], *free))


def _iota(*, dtype: Any, shape: Any, dimension: int, **_: Any) -> Any:
    along = np.arange(shape[dimension], dtype=dtype)
    return _broadcast_in_dim(along, shape=shape, broadcast_dimensions=[dimension])


_RULES: dict[str, Callable[..., Any]] = {
    "broadcast_in_dim": _broadcast_in_dim, "dot_general": _dot_general, "iota": _iota,
    "slice": lambda x, *, start_indices, limit_indices, strides: x[
        tuple(map(slice, start_indices, limit_indices, strides or [1] * x.ndim))
    ],
    "convert_element_type": lambda x, *, new_dtype, **_: x.real if np.dtype(new_dtype).kind != "c" else x,
    "reshape": lambda x, *, new_sizes, **_: x.reshape(new_sizes),
    "transpose": lambda x, *, permutation: x.transpose(permutation),
    "squeeze": lambda x, *, dimensions: x.squeeze(tuple(dimensions)),
    "expand_dims": lambda x, *, dimensions: np.expand_dims(x, tuple(dimensions)),
    "concatenate": lambda *parts, dimension: np.concatenate(parts, dimension),
    "rev": lambda x, *, dimensions: np.flip(x, dimensions),
    "integer_pow": lambda x, *, y: np.power(x, x.dtype.type(y)),
}  # fmt: skip


class Notes:
    """A loop stacks the notes of its rounds; those of a branch that was not taken are False."""

    #: Whether any are taken.
    watches = False

    def __init__(self) -> None:
        self.notes: list[tuple[Any, Any]] = []

    def _apart(self, run: Callable[[], T]) -> tuple[T, list[Any], list[Any]]:
        """What a part of the program gives, and the keys and arrays of its notes."""
        with override(self, notes=[]):
            result = run()
            return result, [key for key, _ in self.notes], [array for _, array in self.notes]

    def scan(self, body: Callable[[Any, Any], Any], carry: Any, xs: Any, **options: Any) -> tuple[Any, Any]:
        """``lax.scan`` of a body that takes notes."""
        keys: list[Any] = []

        def noted(carry: Any, x: Any) -> Any:
            (carry, y), keys[:], notes = self._apart(lambda: body(carry, x))
            return carry, (y, notes)

        carry, (ys, notes) = lax.scan(noted, carry, xs, **options)
        self.notes += zip(keys, notes, strict=True)
        return carry, ys

    def switch(self, which: Any, arms: Sequence[Callable[..., Any]], *operands: Any) -> Any:
        """``lax.switch`` of arms that take notes."""
        if not self.watches:
            return lax.switch(which, arms, *operands)
        keys: list[list[Any]] = [[] for _ in arms]

        def noted(k: int, shapes: Sequence[Any] = ()) -> Callable[..., Any]:
            def run(*operands: Any) -> tuple[Any, list[Any]]:
                result, keys[k], notes = self._apart(lambda: arms[k](*operands))
                every = [notes if i == k else [jnp.zeros(x.shape, bool) for x in each] for i, each in enumerate(shapes)]
                return result, every or notes

            return run

        shapes = [jax.eval_shape(noted(k), *operands)[1] for k in range(len(arms))]
        result, every = lax.switch(which, [noted(k, shapes) for k in range(len(arms))], *operands)
        for each, notes in zip(keys, every, strict=True):
            self.notes += zip(each, notes, strict=True)
        return result


class Evaluation(Notes):
    """A program, evaluated equation by equation; the programs of ``calls``, branches and loops as well."""

    calls = CALLS

    def array(self, x: Any, v: Any) -> Any:
        """A value as the evaluation keeps it, of a variable."""
        return x

    def one(self, eqn: JaxprEqn, operands: list[Any], path: Path) -> list[Any]:
        """What an equation computes that holds no others."""
        return _compat.bind(eqn, operands)

    def run(self, program: ClosedJaxpr, inputs: Sequence[Any], path: Path = ()) -> list[Any]:
        """What a program computes."""
        jaxpr = program.jaxpr
        operands = zip((*jaxpr.constvars, *jaxpr.invars), (*program.consts, *inputs), strict=True)
        values = {v: self.array(x, v) for v, x in operands}

        def read(v: Any) -> Any:
            return self.array(v.val, v) if isinstance(v, _compat.Literal) else values[v]

        for eqn in _needed(jaxpr):
            results = self.equation(eqn, [read(v) for v in eqn.invars], path)
            values.update((v, self.array(x, v)) for v, x in zip(eqn.outvars, results, strict=True))
        return [read(v) for v in jaxpr.outvars]

    def equation(self, eqn: JaxprEqn, operands: list[Any], path: Path) -> list[Any]:
        """What an equation computes."""
        name, params, inside, inner = eqn.primitive.name, eqn.params, (*path, eqn), _compat.programs(eqn)
        if name in self.calls and inner and len(inner[0].in_avals) == len(operands):
            return self.run(inner[0], operands, inside)
        if name == "cond":
            arms: list[Callable[..., Any]] = [
                lambda *values, body=branch: self.run(body, values, inside) for branch in inner
            ]
            return list(self.switch(operands[0], arms, *operands[1:]))
        if name == "scan":
            first, count = _compat.scan_counts(eqn)

            def step(carry: list[Any], each: list[Any]) -> tuple[list[Any], list[Any]]:
                results = self.run(inner[0], (*operands[:first], *carry, *each), inside)
                return results[:count], results[count:]

            carry, xs = operands[first : first + count], operands[first + count :]
            carry, ys = self.scan(step, carry, xs, length=params["length"], reverse=params["reverse"])
            return [*carry, *ys]
        return self.one(eqn, operands, path)


def _needed(jaxpr: Any) -> list[JaxprEqn]:
    """The equations that the results depend on."""
    needed, wanted = [], {v for v in jaxpr.outvars if not isinstance(v, _compat.Literal)}
    for eqn in reversed(jaxpr.eqns):
        if not wanted.isdisjoint(eqn.outvars):
            needed.append(eqn)
            wanted.update(v for v in eqn.invars if not isinstance(v, _compat.Literal))
    return needed[::-1]


class Host(Evaluation):
    """Computes by NumPy; loops that are short and the arm of a ``cond`` that is taken equation by equation."""

    calls = RULED_CALLS | {"custom_vmap_call"}

    def __init__(self) -> None:
        super().__init__()
        #: The rounds of the loops that are being run, the outermost first.
        self.rounds: list[int] = []

    def array(self, x: Any, v: Any) -> Any:
        return x if _is_key(v) else np.asarray(x, v.aval.dtype)

    def switch(self, which: Any, arms: Sequence[Callable[..., Any]], *operands: Any) -> Any:
        return arms[int(which)](*operands)

    def scan(self, body: Callable[[Any, Any], Any], carry: Any, xs: Any, **options: Any) -> tuple[Any, Any]:
        order = range(options["length"])[:: -1 if options["reverse"] else 1]
        rows: list[Any] = []
        for i in order:
            self.rounds.append(i)
            carry, ys = body(carry, [x[i] for x in xs])
            self.rounds.pop()
            rows.append(ys)
        return carry, [np.stack(column) for column in zip(*(rows[i] for i in order), strict=True)]

    def equation(self, eqn: JaxprEqn, operands: list[Any], path: Path) -> list[Any]:
        if eqn.primitive.name == "scan":
            size = eqn.params["length"] * sum(1 for _ in _compat.equations(eqn.params["jaxpr"]))
            if not 0 < size <= _ROUNDS or any(map(_is_key, (*eqn.invars, *eqn.outvars))):
                return self.one(eqn, operands, path)
        return super().equation(eqn, operands, path)

    def one(self, eqn: JaxprEqn, operands: list[Any], path: Path) -> list[Any]:
        name = eqn.primitive.name
        if not any(map(_is_key, (*eqn.invars, *eqn.outvars))):
            if name in _UFUNCS:
                return [_UFUNCS[name](*operands)]
            if name == "div" and operands[0].dtype.kind not in "iu":
                return [np.divide(*operands)]
            if name in _REDUCE:
                reduce: Any = _REDUCE[name]
                return [reduce(operands[0], axis=tuple(eqn.params["axes"]))]
            if name in _RULES:
                return [_RULES[name](*operands, **eqn.params)]
        # A primitive of another package may count on arrays of JAX.
        arrays = [x if _is_key(v) else jnp.asarray(x) for x, v in zip(operands, eqn.invars, strict=True)]
        return _compat.bind(eqn, arrays)


def _is_key(v: Any) -> bool:
    return bool(jnp.issubdtype(v.aval.dtype, jax.dtypes.extended))


def evaluate(program: ClosedJaxpr, inputs: Sequence[Any]) -> list[Any]:
    """What a program computes, as arrays of NumPy (random keys as they are)."""
    with np.errstate(all="ignore"):
        return Host().run(program, inputs)


def evaluate_with_notes(notes: Notes, f: Callable[..., Any], *arguments: Any) -> Any:
    """What a function of arrays gives that takes notes; results and notes are arrays of NumPy."""

    def run(*operands: Any) -> Any:
        notes.notes = []
        return f(*operands), [array for _, array in notes.notes]

    closed, shape = jax.make_jaxpr(run, return_shape=True)(*arguments)
    keys = [key for key, _ in notes.notes]
    result, arrays = jax.tree.unflatten(jax.tree.structure(shape), evaluate(closed, jax.tree.leaves(arguments)))
    notes.notes = list(zip(keys, arrays, strict=True))
    return result
