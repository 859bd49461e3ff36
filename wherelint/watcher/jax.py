"""Watches the gradients that a JAX program takes.

All of reverse mode passes through one function, ``vjp``. In a trace the function that is differentiated is traced once
to a jaxpr, which runs in its place; if the gradient is not finite, what has been compiled hands the numbers that went
into it over to the host, where they are explained later. Outside of a trace the program runs as it would without.
"""

from __future__ import annotations

import gc
import random
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import jax
import numpy as np
from jax import export, lax
from jax import numpy as jnp
from jax.custom_batching import custom_vmap

from wherelint.companion.frames import is_library
from wherelint.jax import _compat
from wherelint.jax._compat import substituted
from wherelint.jax._locate import Program, explain_value
from wherelint.watcher import Imports
from wherelint.watcher.session import Explanation, Hit, Session, Site, Status, busy, current, few

_STATUS: tuple[Status, ...] = ("finite", "gradient", "value")
#: Primitives of programs for several devices.
_DEVICES = frozenset(
    """shard_map xla_pmap pvary pbroadcast psum psum2 psum_invariant pmax pmin all_gather all_to_all ppermute
    reduce_scatter axis_index""".split()
)
#: So long selections are looked for.
_SECONDS = 5.0
#: Where wrappers keep the function that they call.
_INSIDE = ("__wrapped__", "__func__", "func", "f", "fun", "_fun")
#: So many are looked at for one of the program.
_DEEP = 40


@contextmanager
def hook(session: Session, imports: Imports) -> Iterator[None]:
    """Within the block the gradients of JAX are watched; at its end all have been counted."""
    clear_caches: Any = jax.clear_caches
    clear_caches()  # what a notebook has compiled is traced again
    session.callers += _compat.CALLERS
    session.barriers.append(_compat.wait_for_callbacks)
    with ExitStack() as patches:
        sites: dict[Any, Site] = {}
        patches.enter_context(_compat.around(_compat.VJP, partial(_watched, sites, _Pullback)))
        patches.enter_context(_compat.around("linearize", partial(_watched, sites, _Pushforward)))
        patches.enter_context(_compat.around("linear_transpose", _watched_transpose))
        patches.enter_context(_compat.quick_calls())
        try:
            yield
        finally:
            _compat.wait_for_callbacks()


def _watched(
    sites: dict[Any, Site], kind: Any, original: Callable[..., Any], fun: Any, *primals: Any, **options: Any
) -> Any:
    """``vjp`` with a pullback that looks at the gradients, or ``linearize`` with a pushforward."""
    session = current()
    if session is None:
        return original(fun, *primals, **options)
    called = getattr(fun, "call_wrapped", fun)
    leaves, tree = jax.tree.flatten(primals)
    again = partial(trace, called, tree, has_aux=options.get("has_aux", False))
    gradient = _Gradient(_site(sites, called), lambda numbers, cts: Call(*again(numbers)[:2], cts))
    if _compat.is_eager():
        found = original(fun, *primals, **options)
    else:
        state = random.getstate(), np.random.get_state()
        try:
            traced, inputs, run = again(leaves)
            later = [i for i, each in enumerate(inputs) if is_traced(each)]
            leaves = [inputs[i] for i in later]
            # The function itself may hold numbers of an outer trace.
            known = substituted(inputs, later, [None] * len(later))
            gradient = replace(
                gradient, call=lambda numbers, cts: Call(traced, substituted(known, later, numbers), cts)
            )
            found = original(_compat.as_differentiable(fun, run), *primals, **options)
        except Exception as error:
            random.setstate(state[0])
            np.random.set_state(state[1])
            found = original(fun, *primals, **options)  # raises what the program raises
            session.failed(str(gradient.site), error)
            return found
    with session.safely(str(gradient.site)):
        values = _real(found[0])
        is_loss = len(values) == 1 and np.ndim(values[0]) == 0
        found = found[0], kind(found[1], gradient, leaves, _finite(values), is_loss), *found[2:]
    return found


def _real(tree: Any) -> list[Any]:
    """The leaves that may be nan."""
    return [each for each in jax.tree.leaves(tree) if jnp.issubdtype(jnp.result_type(each), jnp.inexact)]


@partial(jax.jit, inline=True)
def _finite(arrays: list[Any]) -> Any:
    return jnp.stack([jnp.isfinite(each).all() for each in arrays]).all() if arrays else jnp.array(True)


@partial(jax.jit, inline=True, static_argnums=0)
def _status(is_loss: bool, value: Any, cts: list[Any], gradient: list[Any]) -> Any:
    """The number of the status of a gradient; what came of cotangents that are not finite is none of its own."""
    bad = _finite(cts) & ~_finite(gradient)
    return jnp.where(bad | ~value if is_loss else bad, jnp.where(value, 1, 2), 0)


@dataclass(frozen=True, eq=False)
class _Gradient:
    """A gradient: where the program takes it, and what is differentiated, at some numbers and cotangents."""

    site: Site
    call: Callable[[list[Any], list[Any]], Call]

    def see(self, status: Any = 0, numbers: Sequence[Any] = (), cts: Sequence[Any] = (), *, unwind: bool) -> None:
        """Count a gradient; if it is not finite, keep the numbers that it was computed from."""
        session = current()
        if session is None:
            return
        name = _STATUS[int(status)]
        number = session.saw(self.site, name)
        if name == "finite" or (name == "value" and self.site.pending) or session.stopping:
            return
        copies = [*map(_copied, numbers)], [*map(_copied, cts)]
        session.hit(Hit(self.site, number, name, lambda: self.call(*copies).explain(name)), unwind=unwind)

    def see_inside(self, count: int, *numbers: Any) -> None:
        """The same from what is compiled, which must not fail: so many numbers, and then cotangents."""
        if (session := current()) is not None:
            with session.safely(str(self.site)):
                status, *rest = numbers or (0,)
                self.see(status, rest[:count], rest[count:], unwind=False)


def _copied(leaf: Any) -> Any:
    """A number that nobody else can change or donate."""
    return np.array(leaf) if isinstance(leaf, jax.Array | np.ndarray) and not is_key(leaf) else leaf


@jax.tree_util.register_pytree_node_class
class _Pullback:
    """What ``vjp`` returns, which looks at the gradients."""

    def __init__(self, pull: Any, gradient: _Gradient, numbers: Sequence[Any], value: Any, is_loss: bool) -> None:
        vars(self).update(_pull=pull, _gradient=gradient, _numbers=numbers, _value=value, _is_loss=is_loss)

    def tree_flatten(self) -> tuple[Any, Any]:
        """Its numbers, and what is not."""
        return (self._pull, self._numbers, self._value), (self._gradient, self._is_loss)

    @classmethod
    def tree_unflatten(cls, static: Any, children: Any) -> _Pullback:
        """It, from `tree_flatten`."""
        (gradient, is_loss), (pull, numbers, value) = static, children
        return cls(pull, gradient, numbers, value, is_loss)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(vars(self)["_pull"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._pull, name, value)

    def __call__(self, *cts: Any) -> Any:
        found = self._pull(*cts)
        session = current()
        if session is not None:
            with session.safely(str(self._gradient.site)):
                status = _status(self._is_loss, self._value, _real(cts), _real(found))
                if _compat.is_eager():
                    self._gradient.see(status, self._numbers, jax.tree.leaves(cts), unwind=True)
                else:
                    _tap(self._gradient, status, self._numbers, jax.tree.leaves(cts))
        return found


@jax.tree_util.register_pytree_node_class
class _Pushforward(_Pullback):
    """What ``linearize`` returns: its transpose looks at the gradients."""

    def __call__(self, *tangents: Any) -> Any:
        return self._pull(*tangents)

    def transposed(self, pull: Any) -> _Pullback:
        """The pullback."""
        return _Pullback(pull, self._gradient, self._numbers, self._value, self._is_loss)


def _watched_transpose(original: Callable[..., Any], fun: Any, *primals: Any, **options: Any) -> Any:
    pull = original(fun, *primals, **options)
    return fun.transposed(pull) if isinstance(fun, _Pushforward) else pull


def _tap(gradient: _Gradient, status: Any, numbers: Sequence[Any], cts: Sequence[Any]) -> None:
    """From what is being traced: hand the numbers over if the gradient is not finite; of a batch the first ones."""
    see = partial(gradient.see_inside, len(numbers))

    @custom_vmap
    def hand_over(status: Any, *operands: Any) -> Any:
        with _compat.quick_callbacks():
            lax.cond(
                status > 0, lambda *hit: jax.debug.callback(see, *hit), lambda *_: jax.debug.callback(see),
                status, *operands,
            )  # fmt: skip
        return status

    @hand_over.def_vmap
    def hand_over_first(size: int, mapped: Sequence[bool], status: Any, *operands: Any) -> tuple[Any, bool]:
        every = jnp.broadcast_to(status, (size,))
        first = jnp.argmax(jnp.where(every > 0, 3 - every, 0))
        chosen = [each[first] if one else each for each, one in zip(operands, mapped[1:], strict=True)]
        return hand_over(every[first], *chosen), False

    plain = [jax.random.key_data(each) if is_key(each) else each for each in (*numbers, *cts)]
    hand_over(*map(lax.stop_gradient, (status, *plain)))


def _site(sites: dict[Any, Site], fun: Callable[..., Any]) -> Site:
    """The site of a function: of that of the program, which a library may have wrapped."""
    todo, known = [fun], set[int]()
    while todo and len(known) < _DEEP:
        each = todo.pop(0)
        if id(each) in known:
            continue
        known.add(id(each))
        if isinstance(each, FunctionType):
            if not is_library(each.__code__.co_filename):
                return sites.setdefault(each.__code__, Site("jax", each.__qualname__.replace("<locals>.", "")))
            for cell in each.__closure__ or ():
                with suppress(ValueError):  # it is empty
                    todo.append(cell.cell_contents)
        for name in _INSIDE:
            with suppress(Exception):
                todo.append(getattr(each, name))
    return sites.setdefault(type(fun), Site("jax"))


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

    Raises RuntimeError if the function keeps a number that is being traced, NotImplementedError for a program for
    several devices, and what the function raises.
    """
    seen: list[Any] = []

    def flat(*leaves: Any) -> list[Any]:
        inner = _compat.current_trace()
        result = fun(*jax.tree.unflatten(tree, leaves))
        count = len(jax.tree.leaves(result[0] if has_aux else result))
        seen[:] = weakref.ref(inner), count, *jax.tree.flatten(result)
        return [each for each in seen[2] if is_traced(each)]

    closed = jax.make_jaxpr(flat)(*arguments)
    if any(eqn.primitive.name in _DEVICES for eqn in _compat.equations(closed)):
        raise NotImplementedError("wherelint cannot watch a program for several devices (shard_map, psum)")
    former, count, results, shape = seen
    results = [None if is_traced(each) else each for each in results]
    seen.clear()
    if former() is not None and gc.collect() and any(map(is_traced, gc.get_referrers(former()))):
        raise RuntimeError("the function stores a traced value outside itself")

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
        self._keys, self._inputs = traced.keys, [jax.random.key_data(x) if is_key(x) else x for x in inputs]
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
            note = f"Not finite before this step: {few([*dict.fromkeys(lost)])}." if lost else ""
            return Explanation(report, (), len(self._names), self.save, note)
        program = Program(self._run, self._inputs, {}, [*self._names])
        report = program.explain(program.flat.inputs, time.monotonic() + _SECONDS, self._cts)
        lost = [self._names[i] for i in self._not_finite(report.gradient)]
        note = "Without compilation (one operation at a time) the gradient is finite." if report.ok else ""
        return Explanation(replace(report, gradient=None, masked=None), lost, len(self._names), self.save, note)

    def _run(self, *inputs: Any) -> list[Any]:
        pairs = zip(inputs, self._keys, strict=True)
        values = [x if impl is None else jax.random.wrap_key_data(x, impl=impl) for x, impl in pairs]
        return _compat.evaluate(self._program, values)[: sum(self._active)]

    def _not_finite(self, arrays: Sequence[Any]) -> list[int]:
        real = [(i, x) for i, x in enumerate(arrays) if x is not None and jnp.issubdtype(x.dtype, jnp.inexact)]
        return [i for i, x in real if not np.isfinite(np.asarray(x)).all()]

    def save(self, directory: Path) -> list[str]:
        """Write the arguments, the function and a script that runs it; the names of the files."""
        order = sorted(range(len(self._inputs)), key=lambda i: i not in self._names)
        numbers = [np.asarray(x) for x in (*(self._inputs[i] for i in order), *self._cts)]

        def function(*ordered: Any) -> list[Any]:
            return self._run(*(ordered[order.index(i)] for i in range(len(ordered))))

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
