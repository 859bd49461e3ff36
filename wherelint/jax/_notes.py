"""Notes that are taken while a program runs: boolean arrays, with a key each."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
from jax import lax
from jax import numpy as jnp

T = TypeVar("T")


class Notes:
    """A loop stacks the notes of its rounds; those of a branch that was not taken are False."""

    #: Whether any are taken.
    watches = False

    def __init__(self) -> None:
        self.notes: list[tuple[Any, Any]] = []

    def _apart(self, run: Callable[[], T]) -> tuple[T, list[Any], list[Any]]:
        """What a part of the program gives, and the keys and arrays of its notes."""
        outer, self.notes = self.notes, []
        try:
            result = run()
            return result, [key for key, _ in self.notes], [array for _, array in self.notes]
        finally:
            self.notes = outer

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
