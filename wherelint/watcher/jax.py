"""Watches the gradients that a JAX program takes.

All of reverse mode passes through one function, ``vjp``. In a trace the function that is differentiated is traced once
to a jaxpr, which runs in its place; if the gradient is not finite, what has been compiled hands the numbers that went
into it over to the host, where they are explained later. Outside of a trace the program runs as it would without.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp
from jax.custom_batching import custom_vmap

from wherelint.companion.frames import is_library
from wherelint.jax import _compat
from wherelint.watcher.calls import Call, Traced, is_key, is_traced, trace
from wherelint.watcher.imports import Imports
from wherelint.watcher.session import Explanation, Hit, Session, Site, Status, current

#: The inputs of a function that are not known before, and the cotangents of its results.
_Numbers = tuple[list[Any], list[Any]]
#: The numbers of so many devices are kept.
_DEVICES = 15
_STATUS: tuple[Status, ...] = ("finite", "gradient", "value")
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
    session.barriers.append(_compat.settle)
    with ExitStack() as patches:
        sites: dict[Any, Site] = {}
        patches.enter_context(_compat.replaced(_compat.VJP, partial(_watched, sites, _Pullback)))
        patches.enter_context(_compat.replaced("linearize", partial(_watched, sites, _Pushforward)))
        patches.enter_context(_compat.replaced("linear_transpose", _transposed))
        patches.enter_context(_compat.quick_calls())
        try:
            yield
        finally:
            _compat.settle()


def _watched(sites: dict[Any, Site], kind: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    """``vjp`` with a pullback that looks at what it returns, and ``linearize`` likewise."""

    def vjp(fun: Any, *primals: Any, **options: Any) -> Any:
        session = current()
        if session is None:
            return original(fun, *primals, **options)
        called = getattr(fun, "call_wrapped", fun)
        leaves, tree = jax.tree.flatten(primals)
        again = partial(trace, called, tree, has_aux=options.get("has_aux", False))
        taken = _Taken(_site(sites, called), again)
        if _compat.is_eager():
            found = original(fun, *primals, **options)
        else:
            state = random.getstate(), np.random.get_state()
            try:
                traced, inputs, run = again(leaves)
                taken = _Taken(taken.site, None, traced, [None if is_traced(each) else each for each in inputs])
                leaves = [each for each in inputs if is_traced(each)]
                found = original(_compat.instead(fun, run), *primals, **options)
            except Exception as error:
                random.setstate(state[0])
                np.random.set_state(state[1])
                found = original(fun, *primals, **options)  # raises what the program raises
                _not_watched(session, taken.site, error)
                return found
        try:
            values = _real(found[0])
            is_loss = len(values) == 1 and np.ndim(values[0]) == 0
            return found[0], kind(found[1], taken, leaves, _finite(values), is_loss), *found[2:]
        except Exception as error:
            _not_watched(session, taken.site, error)
            return found

    return vjp


def _not_watched(session: Session, site: Site, error: Exception) -> None:
    session.unwatched.setdefault(site.name or "a function", f"{type(error).__name__}: {error}")


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
class _Taken:
    """Where a gradient is taken, and of what."""

    site: Site
    #: Traces the function, where it runs outside of a trace.
    again: Callable[..., Any] | None
    #: What it was traced to otherwise: the function itself may hold numbers of an outer trace.
    traced: Traced | None = None
    #: The inputs of that; None for those that are known only when it runs.
    kept: Sequence[Any] = ()
    #: What was handed over where several devices compute together.
    others: list[_Numbers] = field(default_factory=list)

    def see(self, status: Any = 0, numbers: Sequence[Any] = (), cts: Sequence[Any] = (), *, unwind: bool) -> None:
        """Count a gradient; if it is not finite, keep what it was taken of."""
        session = current()
        if session is None:
            return
        told = _STATUS[int(status)]
        number = session.saw(self.site, told)
        shared = self.traced is not None and self.traced.shared
        if told == "finite" or (told == "value" and self.site.pending) or (session.stopping and not shared):
            return
        given = [*map(_copied, numbers)], [*map(_copied, cts)]
        if shared:  # the others of its devices see the same, and each knows its own numbers
            self.others[:] = [*self.others[-_DEVICES:], given]
        session.hit(Hit(self.site, number, told, partial(self._explain, told, given)), unwind=unwind)

    def see_inside(self, count: int, *numbers: Any) -> None:
        """The same from what is compiled, which must not fail: so many numbers, and then cotangents."""
        try:
            status, *rest = numbers or (0,)
            self.see(status, rest[:count], rest[count:], unwind=False)
        except Exception as error:
            if (session := current()) is not None:
                _not_watched(session, self.site, error)

    def _explain(self, status: Status, given: _Numbers) -> Explanation:
        for each in (given, *self.others):
            found = self._explained(status, *each)
            if not found.report.ok:
                break
        return found

    def _explained(self, status: Status, numbers: list[Any], cts: list[Any]) -> Explanation:
        traced, values = self.traced, iter(numbers)
        inputs = [next(values) if each is None else each for each in self.kept]
        if traced is None:
            assert self.again is not None
            traced, inputs, _ = self.again(numbers)
        return Call(traced, inputs, cts).explain(status)


def _copied(leaf: Any) -> Any:
    """A number that nobody else can change or donate."""
    return np.array(leaf) if isinstance(leaf, jax.Array | np.ndarray) and not is_key(leaf) else leaf


@jax.tree_util.register_pytree_node_class
class _Pullback:
    """What ``vjp`` returns, which looks at the gradients."""

    def __init__(self, pull: Any, taken: _Taken, numbers: Sequence[Any], value: Any, is_loss: bool) -> None:
        vars(self).update(_pull=pull, _taken=taken, _numbers=numbers, _value=value, _is_loss=is_loss)

    def tree_flatten(self) -> tuple[Any, Any]:
        """Its numbers, and what is not."""
        return (self._pull, self._numbers, self._value), (self._taken, self._is_loss)

    @classmethod
    def tree_unflatten(cls, static: Any, children: Any) -> "_Pullback":
        """It, from `tree_flatten`."""
        (taken, is_loss), (pull, numbers, value) = static, children
        return cls(pull, taken, numbers, value, is_loss)

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
            try:
                status = _status(self._is_loss, self._value, _real(cts), _real(found))
                if _compat.is_eager():
                    self._taken.see(status, self._numbers, jax.tree.leaves(cts), unwind=True)
                else:
                    _tap(self._taken, status, self._numbers, jax.tree.leaves(cts))
            except Exception as error:
                _not_watched(session, self._taken.site, error)
        return found


@jax.tree_util.register_pytree_node_class
class _Pushforward(_Pullback):
    """What ``linearize`` returns; what is made of that by ``linear_transpose`` looks at the gradients."""

    def __call__(self, *tangents: Any) -> Any:
        return self._pull(*tangents)

    def transposed(self, pull: Any) -> _Pullback:
        """The pullback."""
        return _Pullback(pull, self._taken, self._numbers, self._value, self._is_loss)


def _transposed(original: Callable[..., Any]) -> Callable[..., Any]:
    def linear_transpose(fun: Any, *primals: Any, **options: Any) -> Any:
        pull = original(fun, *primals, **options)
        return fun.transposed(pull) if isinstance(fun, _Pushforward) else pull

    return linear_transpose


def _tap(taken: _Taken, status: Any, numbers: Sequence[Any], cts: Sequence[Any]) -> None:
    """From what is being traced: hand the numbers over if the gradient is not finite; of a batch the first ones."""
    see = partial(taken.see_inside, len(numbers))

    @custom_vmap
    def tell(status: Any, *operands: Any) -> Any:
        with _compat.unlisted():
            lax.cond(
                status > 0, lambda *given: jax.debug.callback(see, *given), lambda *given: jax.debug.callback(see),
                status, *operands,
            )  # fmt: skip
        return status

    @tell.def_vmap
    def tell_first(size: int, mapped: Sequence[bool], status: Any, *operands: Any) -> tuple[Any, bool]:
        every = jnp.broadcast_to(status, (size,))
        first = jnp.argmax(jnp.where(every > 0, 3 - every, 0))
        chosen = [each[first] if one else each for each, one in zip(operands, mapped[1:], strict=True)]
        return tell(every[first], *chosen), False

    plain = [jax.random.key_data(each) if is_key(each) else each for each in (*numbers, *cts)]
    tell(*map(lax.stop_gradient, (status, *plain)))


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
