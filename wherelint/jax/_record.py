"""Gradient coverage of JAX: the equations of a linear program that cotangents reach while it is transposed.

How near an operand comes to a singular point is computed where its operation is differentiated: by its rule, which is
asked for the derivative wherever the operation stands, in a loop, a branch or a batch.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp
from jax._src.interpreters import ad as private
from jax.custom_batching import custom_vmap
from jax.interpreters import ad

from wherelint.companion.coverage import Marks
from wherelint.companion.frames import Frame, is_library
from wherelint.companion.nearness import nearest
from wherelint.companion.patching import override
from wherelint.io.gradient_coverage import Distance
from wherelint.jax import _compat
from wherelint.jax._evaluate import RULED_CALLS, Evaluation
from wherelint.jax._primitives import CATALOGUE
from wherelint.jax._tags import FUNCTIONS
from wherelint.ops import OPERATIONS

#: What runs a jitted function.
_JITTED = frozenset({"jit", "pjit"})
_SINGULAR = {name: op for name, op in CATALOGUE.items() if OPERATIONS[op].code}
#: The function that transposes a jaxpr; ``tests/companion/test_jax_compat.py`` says which version broke it.
_TRANSPOSE = ("backward_pass3", "backward_pass")


@contextmanager
def record(path: str | os.PathLike[str], root: str | os.PathLike[str] = ".") -> Iterator[None]:
    """Note which calls reverse-mode gradients pass in the block, and write them to a file, beside what it says already.

    Only files below ``root`` count. What was compiled before is compiled again, since a program that is not traced
    cannot be seen.
    """
    marks = Marks(os.path.abspath(root))
    clear_caches: Any = jax.clear_caches
    clear_caches()
    with hook(marks):
        yield
    marks.coverage().save(Path(path))


@contextmanager
def hook(marks: Marks) -> Iterator[None]:
    """Mark what is transposed in the block."""
    name = next((name for name in _TRANSPOSE if hasattr(private, name)), None)
    if name is None:
        raise NotImplementedError(f"gradient coverage does not know how jax {jax.__version__} transposes")
    original = getattr(private, name)
    linear = tuple({ad.UndefinedPrimal, getattr(private, "GradAccum", ad.UndefinedPrimal)})
    seen: set[Any] = set()

    def transpose(jaxpr: Any, stack: Any, consts: Any, primals: Sequence[Any], cotangents: Sequence[Any]) -> Any:
        cotangents = list(cotangents)
        differentiated = [isinstance(each, linear) for each in (*consts, *primals)]
        for traceback in _tracebacks_reached(jaxpr, differentiated, cotangents):
            if traceback is not None and traceback not in seen:
                seen.add(traceback)
                marks.gradient.update(_frames(marks, traceback))
        return original(jaxpr, stack, consts, primals, cotangents)

    with override(private, **{name: transpose}), _measure_distances(marks):
        yield


def _tracebacks_reached(jaxpr: Any, differentiated: Sequence[bool], cotangents: Sequence[Any]) -> Iterator[Any]:
    """Where the linear equations come from that some cotangent reaches."""
    operands = zip((*jaxpr.constvars, *jaxpr.invars), differentiated, strict=True)
    linear = {v for v, needed in operands if needed}
    equations = []
    for eqn in jaxpr.eqns:
        if any(v in linear for v in eqn.invars if not hasattr(v, "val")):
            linear.update(eqn.outvars)
            equations.append(eqn)
    results = zip(jaxpr.outvars, cotangents, strict=True)
    needed = {v for v, ct in results if not isinstance(ct, ad.Zero) and not hasattr(v, "val")}
    for eqn in reversed(equations):
        if eqn.effects or any(v in needed for v in eqn.outvars):
            needed.update(v for v in eqn.invars if not hasattr(v, "val"))
            yield eqn.source_info.traceback


def _frames(marks: Marks, traceback: Any) -> Iterator[Frame]:
    """The frames of the program, the innermost first."""
    for code, offset in zip(*traceback.raw_frames(), strict=True):
        ours = marks.ours(code.co_filename)
        if ours:
            yield code, offset
        elif ours is None or code.co_name.startswith("trace_to_jaxpr"):  # beyond stands whoever traced it first
            return


@contextmanager
def _measure_distances(marks: Marks) -> Iterator[None]:
    """In the block, what differentiates singular operations notes how near their operands come."""
    jvps: dict[Any, Any] = ad.primitive_jvps
    others: dict[Any, Any] = getattr(private, "primitive_linearizations", {})
    before = dict(jvps), dict(others)
    measure = _Measure(marks)
    for primitive, rule in before[0].items():
        if primitive.name in _SINGULAR or primitive.name in _JITTED:
            jvps[primitive] = measure.noting(primitive.name, rule, lambda primals, tangents: primals)
    for primitive, rule in before[1].items():
        if primitive.name in _JITTED:
            others[primitive] = measure.noting(primitive.name, rule, lambda is_vjp, nonzeros, *primals: primals)
    try:
        yield
    finally:
        jvps.update(before[0])
        others.update(before[1])
        _compat.wait_for_callbacks()


class _Measure(Evaluation):
    """It notes how near the operands of singular operations come; in a library function, at its call."""

    calls = RULED_CALLS

    def __init__(self, marks: Marks, call: Frame | None = None, op: str = "") -> None:
        super().__init__()
        self._marks, self._call, self._op = marks, call, op

    def noting(self, name: str, rule: Callable[..., Any], primals: Callable[..., Sequence[Any]]) -> Callable[..., Any]:
        """The rule of a primitive, which takes notes before it returns."""

        def noted(*args: Any, **params: Any) -> Any:
            result = rule(*args, **params)
            with suppress(Exception):  # never the program's business
                self._differentiated(name, primals(*args), result[0], params)
            return result

        return noted

    def one(self, eqn: Any, operands: list[Any], path: Any) -> list[Any]:
        result = super().one(eqn, operands, path)
        if self._call is not None and eqn.primitive.name in _SINGULAR:
            self._note(str(eqn.primitive.name), operands, result[0], eqn.params, self._call)
        return result

    def _differentiated(self, name: str, primals: Sequence[Any], result: Any, params: Any) -> None:
        frame = next(_frames(self._marks, _compat.current_traceback()), None)
        if frame is None:
            return
        if name not in _JITTED:
            self._note(name, primals, result, params, frame)
        elif is_library(_compat.function(params["jaxpr"])[1]):  # what it is result of was traced for another call
            inside = _Measure(self._marks, frame, FUNCTIONS.get(str(params["name"]).lstrip("_"), ""))
            inside.run(params["jaxpr"], [*map(lax.stop_gradient, primals)])

    def _note(self, name: str, operands: Sequence[Any], result: Any, params: Any, frame: Frame) -> None:
        if name == "integer_pow" and params["y"] >= 0:
            return
        op = _SINGULAR[name]
        code = OPERATIONS[self._op or op].code
        of_norm = op == "sqrt" and code == "WL108"  # the sum of squares
        if code != OPERATIONS[op].code and not of_norm:
            return
        reals = [lax.stop_gradient(x) if jnp.issubdtype(jnp.result_type(x), jnp.floating) else None for x in operands]
        for point, near in nearest(op, "jax", reals, lax.stop_gradient(result), jnp):
            near = jnp.sign(near) * jnp.sqrt(abs(near)) if of_norm else near
            _hand_over(partial(self._note_distance, frame, str(code), point), near)

    def _note_distance(self, frame: Frame, code: str, point: float | None, near: Any) -> None:
        least, mean = np.asarray(near).tolist()
        self._marks.came(frame, Distance(code, point, least, -mean))


def _hand_over(came: Callable[[Any], None], near: Any) -> None:
    """Hand numbers over to the host once they are known: of a batch, the least."""
    if not isinstance(near, jax.core.Tracer):
        came(near)
        return

    @custom_vmap
    def hand_over(near: Any) -> Any:
        jax.debug.callback(came, near)
        return near

    @hand_over.def_vmap
    def hand_over_least(size: int, mapped: Sequence[bool], near: Any) -> tuple[Any, bool]:
        return hand_over(near.min(0)), False

    hand_over(near)
