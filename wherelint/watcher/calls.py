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

from wherelint.jax import _compat, _devices
from wherelint.jax._locate import Program
from wherelint.jax._values import explain_value
from wherelint.watcher.session import Explanation, Status, busy, few


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
    #: Whether it is a part of what several devices compute together.
    shared: bool


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
        count = len(jax.tree.leaves(result[0] if has_aux else result))
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
    program, shared = _compat.alone(_compat.open_constants(closed))
    return Traced(program, len(closed.consts), tree, active, keys, shared), inputs, run


class Call:
    """A traced function at some inputs, and the cotangents of its results."""

    def __init__(self, traced: Traced, inputs: Sequence[Any], cts: Sequence[Any]) -> None:
        self._program, self._active = traced.program, traced.active
        pairs = zip(inputs, traced.keys, strict=True)
        self._inputs = [x if impl is None or is_key(x) else jax.random.wrap_key_data(x, impl=impl) for x, impl in pairs]
        self._cts = [np.asarray(ct) for ct, active in zip(cts, traced.active, strict=True) if active]
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
            report = explain_value(self._run, self._inputs)
            lost = [] if report.findings else [self._names.get(i, "data") for i in self._not_finite(self._inputs)]
            note = f"Not finite before: {few([*dict.fromkeys(lost)])}." if lost else ""
            return Explanation(report, (), len(self._names), self.save, note)
        program = Program(self._run, self._inputs, {}, [*self._names])
        report = program.explain(program.flat.inputs, cts=self._cts)
        lost = [self._names[i] for i in self._not_finite(report.gradient)]
        note = "One operation at a time, it is finite: it depends on how the program is compiled." if report.ok else ""
        return Explanation(replace(report, gradient=None, masked=None), lost, len(self._names), self.save, note)

    def _run(self, *inputs: Any) -> list[Any]:
        run = _devices.evaluate if _devices.has_devices(self._program) else _compat.evaluate
        return run(self._program, inputs)[: sum(self._active)]

    def _not_finite(self, arrays: Sequence[Any]) -> list[int]:
        real = [(i, each) for i, each in enumerate(arrays) if each is not None and not is_key(each)]
        return [
            i
            for i, x in real
            if jnp.issubdtype(jnp.result_type(x), jnp.inexact) and not np.isfinite(np.asarray(x)).all()
        ]

    def save(self, directory: Path) -> list[str]:
        """Write the arguments, the function and a script that runs it; the names of the files."""
        order = sorted(range(len(self._inputs)), key=lambda i: i not in self._names)
        keys = {i: jax.random.key_impl(x) for i, x in enumerate(self._inputs) if is_key(x)}
        plain = [jax.random.key_data(x) if is_key(x) else x for x in self._inputs]
        numbers = [np.asarray(x) for x in (*(plain[i] for i in order), *self._cts)]

        def function(*given: Any) -> list[Any]:
            values = [given[order.index(i)] for i in range(len(given))]
            return self._run(
                *(jax.random.wrap_key_data(x, impl=keys[i]) if i in keys else x for i, x in enumerate(values))
            )

        struct: Any = jax.ShapeDtypeStruct
        with busy():
            exported = export.export(jax.jit(function))(*(struct(x.shape, x.dtype) for x in numbers[: len(order)]))
            (directory / "function.bin").write_bytes(exported.serialize(vjp_order=1))
        np.savez(directory / "arguments.npz", *(x.view(_storable(x)) for x in numbers))
        script = _SCRIPT.format(
            x64=jnp.zeros(0, float).dtype == np.float64, dtypes=[str(x.dtype) for x in numbers], count=len(order),
            names=[*self._names.values()],
        )  # fmt: skip
        (directory / "repro.py").write_text(script, "utf-8")
        return ["arguments.npz", "function.bin", "repro.py"]


def _storable(array: Any) -> Any:
    """A dtype of NumPy's own of the same size."""
    return array.dtype if array.dtype.kind in "biufc" else f"u{array.dtype.itemsize}"


_SCRIPT = '''"""A function whose gradient is not finite, without the program that it comes from."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

jax.config.update("jax_enable_x64", {x64})
here = pathlib.Path(__file__).parent
f = export.deserialize((here / "function.bin").read_bytes()).call
dtypes = {dtypes}
numbers = [x.view(jnp.dtype(d)) for x, d in zip(np.load(here / "arguments.npz").values(), dtypes)]
inputs, cotangents = numbers[:{count}], numbers[{count}:]
names = {names}
value, pull = jax.vjp(lambda *xs: f(*xs, *inputs[len(names):]), *inputs[: len(names)])
print("value finite:", all(bool(jnp.isfinite(x).all()) for x in value))
for name, x in zip(names, pull(cotangents)):
    print("gradient finite:", bool(jnp.isfinite(x).all()), name)
'''
