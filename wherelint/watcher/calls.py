"""A differentiated call of a JAX program: why its gradient is not finite, and files that show it."""

import gc
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import export
from jax import numpy as jnp

from wherelint.companion import Report
from wherelint.jax import _compat
from wherelint.jax._locate import Program
from wherelint.jax._values import explain_value
from wherelint.watcher.session import Explanation, Status


@dataclass(frozen=True, eq=False)
class Traced:
    """A function that was traced: ``program`` takes its constants, and then the leaves of its arguments."""

    program: _compat.ClosedJaxpr
    constants: int
    tree: Any
    #: Which leaves of what is differentiated are among the results; the others are constants.
    active: tuple[bool, ...]
    #: By input, how a random key is made; None for what is none.
    keys: tuple[Any, ...]


def is_traced(leaf: Any) -> bool:
    """Whether its value is not known yet."""
    return isinstance(leaf, jax.core.Tracer)


def is_key(leaf: Any) -> bool:
    """Whether it holds random keys."""
    return jnp.issubdtype(jnp.result_type(leaf), jax.dtypes.prng_key)


def trace(
    fun: Callable[..., Any], tree: Any, arguments: Sequence[Any], has_aux: bool
) -> tuple[Traced, list[Any], Callable[..., Any]]:
    """Trace a function once; its constants and arguments; and what computes the same as the function.

    Raises RuntimeError if the function keeps a number that is being traced, and what the function raises.
    """
    seen: list[Any] = []

    def flat(*leaves: Any) -> list[Any]:
        given = _compat.current_trace()
        result = fun(*jax.tree.unflatten(tree, leaves))
        count = jax.tree.structure(result[0] if has_aux else result).num_leaves
        seen[:] = weakref.ref(given), count, *jax.tree.flatten(result)
        return [each for each in seen[2] if is_traced(each)]

    closed = jax.make_jaxpr(flat)(*arguments)
    former, count, results, shape = seen
    results = [None if is_traced(each) else each for each in results]
    seen.clear()
    if former() is not None and gc.collect() and any(map(is_traced, gc.get_referrers(former()))):
        raise RuntimeError("it keeps a number that is being traced")

    def run(*primals: Any) -> Any:
        found = iter(_compat.evaluate(closed, jax.tree.leaves(primals)))
        return jax.tree.unflatten(shape, [next(found) if each is None else each for each in results])

    active = tuple(each is None for each in results[:count])
    inputs = [*closed.consts, *arguments]
    keys = tuple(jax.random.key_impl(each) if is_key(each) else None for each in inputs)
    return Traced(_compat.open_constants(closed), len(closed.consts), tree, active, keys), inputs, run


class Call:
    """A traced function at some inputs, and the cotangents of its results."""

    def __init__(self, traced: Traced, inputs: Sequence[Any], cts: Sequence[Any]) -> None:
        self._program, self._active = traced.program, traced.active
        pairs = zip(inputs, traced.keys, strict=True)
        self._inputs = [x if impl is None or is_key(x) else jax.random.wrap_key_data(x, impl=impl) for x, impl in pairs]
        self._cts = [jnp.asarray(ct) for ct, active in zip(cts, traced.active, strict=True) if active]
        numbered = jax.tree.unflatten(traced.tree, range(traced.constants, len(inputs)))
        skipped = 0 if len(numbered) > 1 else 1
        #: The inputs that are differentiated, by their names in the arguments.
        self._names = {
            i: jax.tree_util.keystr(path[skipped:]) or "the argument"
            for path, i in jax.tree_util.tree_flatten_with_path(numbered)[0]
            if jnp.issubdtype(self._program.in_avals[i].dtype, jnp.inexact)
        }

    def explain(self, status: Status) -> Explanation:
        """Why the gradient is not finite, or the value."""
        if status == "value":
            return Explanation(explain_value(self._run, self._inputs), (), len(self._names), self.save)
        program = Program(self._run, self._inputs, {}, [*self._names])
        report = program.explain(program.flat.inputs, cts=self._cts)
        lost = [name for i, name in self._names.items() if not np.isfinite(np.asarray(report.gradient[i])).all()]
        return Explanation(replace(report, gradient=None, masked=None), lost, len(self._names), self.save)

    def _run(self, *inputs: Any) -> list[Any]:
        return _compat.evaluate(self._program, inputs)[: sum(self._active)]

    def save(self, directory: Path) -> list[str]:
        """Write the arguments, the function and a script that runs it; the names of the files."""
        raise NotImplementedError
