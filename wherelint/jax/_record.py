"""Gradient coverage of JAX: the equations of a linear program that cotangents reach while it is transposed."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
from jax.interpreters import ad

from wherelint.companion.coverage import Marks
from wherelint.companion.frames import Frame
from wherelint.companion.patching import override

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
    from jax._src.interpreters import ad as private

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
                _mark(marks, traceback)
        return original(jaxpr, stack, consts, primals, cotangents)

    with override(private, **{name: transpose}):
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


def _mark(marks: Marks, traceback: Any) -> None:
    marks.gradient.update(_frames(marks, traceback))


def _frames(marks: Marks, traceback: Any) -> Iterator[Frame]:
    """The frames of the program, the innermost first."""
    for code, offset in zip(*traceback.raw_frames(), strict=True):
        ours = marks.ours[code.co_filename]
        if ours:
            yield code, offset
        elif ours is None or code.co_name.startswith("trace_to_jaxpr"):  # beyond stands whoever traced it first
            return
