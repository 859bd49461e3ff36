"""A function as a linear program: its value and residuals, and the map from tangents to tangents."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from wherelint.jax import _compat
from wherelint.jax._activity import active_outputs
from wherelint.jax._compat import ClosedJaxpr
from wherelint.jax._transpose import Known, Linear, Operand, Pair, Transposer


def replaced(values: Sequence[Any], places: Sequence[int], others: Sequence[Any]) -> list[Any]:
    """Some values, with others at some places."""
    found = list(values)
    for i, other in zip(places, others, strict=True):
        found[i] = other
    return found


@dataclass(frozen=True, eq=False)
class Plan:
    """``forward`` computes the results and then the residuals, which ``linear`` takes before its tangents."""

    forward: ClosedJaxpr
    linear: ClosedJaxpr
    #: The inputs that are differentiated.
    perturbed: tuple[int, ...]
    results: int
    #: Which residuals depend on those.
    active: tuple[bool, ...]

    def run_forward(self, inputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The results, and the residuals."""
        out = _compat.evaluate(self.forward, inputs)
        return out[: self.results], out[self.results :]

    def run_backward(self, transposer: Transposer, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Pair | None]:
        """A cotangent for each input that is differentiated, from one for each result (None: exactly zero)."""
        operands: list[Operand] = [Known(value, active) for value, active in zip(residuals, self.active, strict=True)]
        operands += [Linear(need=False)] * len(self.perturbed)
        pairs = [None if ct is None else Pair(ct) for ct in cts]
        return transposer.run(self.linear, operands, pairs)[len(residuals) :]


def plan(f: Callable[..., Sequence[Any]], inputs: Sequence[Any], perturbed: Sequence[int]) -> Plan:
    """The plan of a function of flat inputs with flat results; ``inputs`` may be shapes."""
    linear: list[ClosedJaxpr] = []
    counts: list[int] = []

    def forward(*leaves: Any) -> list[Any]:
        def differentiated(*some: Any) -> Sequence[Any]:
            return f(*replaced(leaves, perturbed, some))

        given = [leaves[i] for i in perturbed]
        results, pushed = jax.linearize(differentiated, *given)
        program = jax.make_jaxpr(pushed)(*given)
        linear.append(program)
        counts.append(len(results))
        return [*results, *program.consts]

    closed = jax.make_jaxpr(forward)(*inputs)
    active = active_outputs(closed.jaxpr, [i in perturbed for i in range(len(inputs))])
    return Plan(closed, _compat.open_constants(linear[-1]), tuple(perturbed), counts[-1], tuple(active[counts[-1] :]))
