"""``mask_gradients``: the same function with a reverse mode in which what was dropped receives nothing."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import numpy as np
from jax import numpy as jnp
from jax.custom_derivatives import SymbolicZero

from wherelint.jax import _compat, _control
from wherelint.jax._compat import ClosedJaxpr, substituted
from wherelint.jax._primitives import is_inexact
from wherelint.jax._transpose import Known, Operand, Pair, Transposer

F = TypeVar("F", bound=Callable[..., Any])
assert _control  # its rules register themselves


def mask_gradients(f: F) -> F:
    """``f`` with the same value, and a gradient in which an element that a selection drops receives nothing.

    Reverse mode multiplies the cotangent of a branch that was not taken, which is 0, by its derivative; where that is
    not finite, the product is nan. Here an element is *dead* once a ``where``, an index or an undifferentiated factor
    of exactly 0 (a mask, ``maximum``, ``clip``) drops it, and stays 0 whatever it is multiplied by. Wherever the
    gradient of ``f`` is finite, it is the same. Where it is singular in earnest (``sqrt(x) ** 2`` at 0), it stays nan.

    ``f`` takes and returns pytrees; arrays and Python floats are traced as ``jax.jit`` does, everything else (integers,
    strings, functions) is left alone.

    The result composes with ``jit``, ``grad``, ``vmap``, ``scan``, ``checkpoint`` and ``hessian``. It has no forward
    mode (NotImplementedError): take ``jvp`` of ``f`` itself, forward mode is not poisoned. To differentiate the
    gradient in reverse mode, mask that as well. A linear primitive that cannot be masked (``while``, ``shard_map``,
    callbacks) is a NotImplementedError that names it.

    Source: the "symbolic zeros" of https://github.com/jax-ml/jax/issues/1052.
    """

    @functools.wraps(f)
    def masked(*args: Any, **kwargs: Any) -> Any:
        flat = Flat(f, args, kwargs)
        closed, tree = flat.trace()
        call = _with_masks(closed)
        try:
            return jax.tree.unflatten(tree, call(*closed.consts, *flat.inputs))
        except TypeError as error:
            if "forward-mode" in str(error):
                raise NotImplementedError(
                    "mask_gradients has no forward mode (jvp, jacfwd): differentiate the plain function, which "
                    "needs no mask in forward mode; hessian(f) and jacfwd(grad(f)) work"
                ) from error
            raise

    return masked  # type: ignore[return-value]


class Flat:
    """A call as a function of its arrays: what is no array stays as it is."""

    def __init__(self, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        self._f = f
        self._leaves, self._tree = jax.tree.flatten((tuple(args), kwargs))
        self._dynamic = [i for i, leaf in enumerate(self._leaves) if _is_array(leaf)]
        owners = dict(enumerate(k for k, arg in enumerate(args) for _ in jax.tree.leaves(arg)))
        #: By input, the number of the positional argument that it belongs to; -1 for a keyword's.
        self.owners = [owners.get(i, -1) for i in self._dynamic]

    @property
    def inputs(self) -> list[Any]:
        """The arrays among the leaves of the arguments."""
        return [self._leaves[i] for i in self._dynamic]

    def arguments(self, inputs: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with other arrays."""
        args, kwargs = jax.tree.unflatten(self._tree, substituted(self._leaves, self._dynamic, inputs))
        return args, kwargs

    def gradient(self, by_input: dict[int, Any]) -> tuple[Any, ...]:
        """Gradients in the shape of the positional arguments; None where nothing is differentiated."""
        places = [self._dynamic[n] for n in by_input]
        leaves = substituted([None] * len(self._leaves), places, [*by_input.values()])
        args: tuple[Any, ...] = jax.tree.unflatten(self._tree, leaves)[0]
        return args

    def values(self, inputs: Sequence[Any]) -> list[Any]:
        """The leaves of the result with other arrays."""
        return jax.tree.leaves(self._result(inputs))

    def _result(self, inputs: Sequence[Any]) -> Any:
        args, kwargs = self.arguments(inputs)
        return self._f(*args, **kwargs)

    def trace(self) -> tuple[ClosedJaxpr, Any]:
        """The jaxpr from the inputs to the leaves of the result, and the result's structure."""
        closed, shape = jax.make_jaxpr(lambda *inputs: self._result(inputs), return_shape=True)(*self.inputs)
        return closed, jax.tree.structure(shape)


def _is_array(leaf: Any) -> bool:
    if isinstance(leaf, np.ndarray | np.generic):
        return leaf.dtype.kind not in "OSU"
    return isinstance(leaf, float | complex | jax.Array)


@dataclass(frozen=True, eq=False)
class Plan:
    """``forward`` computes the results and then the residuals, which ``linear`` takes before its tangents."""

    forward: ClosedJaxpr
    linear: ClosedJaxpr
    results: int
    #: Which residuals depend on those.
    active: tuple[bool, ...]

    def run_forward(self, inputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The results, and the residuals."""
        out = _compat.evaluate(self.forward, inputs)
        return out[: self.results], out[self.results :]

    def gradient(self, transposer: Transposer, cts: Sequence[Any] | None, residuals: Sequence[Any]) -> list[Any]:
        """By input that is differentiated, the gradient of the sum of all results, or of their products with ``cts``.

        One of these is None where it is exactly zero.
        """
        outs, inputs = self.linear.jaxpr.outvars, self.linear.jaxpr.invars[len(residuals) :]
        cts = [jnp.ones(v.aval.shape, v.aval.dtype) for v in outs] if cts is None else cts
        operands: list[Operand] = [Known(value, active) for value, active in zip(residuals, self.active, strict=True)]
        pairs = [Pair(ct) if ct is not None and is_inexact(v) else None for ct, v in zip(cts, outs, strict=True)]
        found = transposer.run(self.linear, [*operands, *[None] * len(inputs)], pairs)[len(residuals) :]
        return [
            jnp.zeros(v.aval.shape, v.aval.dtype) if pair is None else pair.ct
            for pair, v in zip(found, inputs, strict=True)
        ]


def plan(f: Callable[..., Sequence[Any]], inputs: Sequence[Any], perturbed: Sequence[int]) -> Plan:
    """The plan of a function of flat inputs with flat results; ``inputs`` may be shapes."""
    linear: list[tuple[ClosedJaxpr, int]] = []

    def forward(*leaves: Any) -> list[Any]:
        def differentiated(*some: Any) -> Sequence[Any]:
            return f(*substituted(leaves, perturbed, some))

        primals = [leaves[i] for i in perturbed]
        results, pushed = jax.linearize(differentiated, *primals)
        program = jax.make_jaxpr(pushed)(*primals)
        linear.append((program, len(results)))
        return [*results, *program.consts]

    closed = jax.make_jaxpr(forward)(*inputs)
    active = _compat.active_outputs(closed, [i in perturbed for i in range(len(inputs))])
    program, count = linear[-1]
    return Plan(closed, _compat.open_constants(program), count, tuple(active[count:]))


def _with_masks(closed: ClosedJaxpr) -> Callable[..., Any]:
    """The jaxpr as a function of its constants and inputs, with a reverse rule."""
    program = _compat.open_constants(closed)

    @jax.custom_vjp
    def call(*inputs: Any) -> list[Any]:
        return _compat.evaluate(program, inputs)

    def forward(*primals: Any) -> tuple[list[Any], Any]:
        moved = [i for i, primal in enumerate(primals) if primal.perturbed]
        perturbed = [i for i in moved if jnp.issubdtype(jnp.result_type(primals[i].value), jnp.inexact)]
        values = [primal.value for primal in primals]
        linear_plan = plan(lambda *inputs: _compat.evaluate(program, inputs), values, perturbed)
        results, residuals = linear_plan.run_forward(values)

        def pull(residuals: Sequence[Any], cts: Sequence[Any]) -> tuple[Any, ...]:
            arrived = [None if isinstance(ct, SymbolicZero) or ct.dtype == jax.dtypes.float0 else ct for ct in cts]
            gradients = linear_plan.gradient(Transposer(), arrived, residuals)
            return tuple(substituted([None] * len(values), perturbed, gradients))

        residual: Any = jax.tree_util.Partial
        return results, residual(pull, residuals)

    call.defvjp(forward, lambda pull, cts: pull(cts), symbolic_zeros=True)
    return call
