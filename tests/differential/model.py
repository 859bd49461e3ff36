"""What wherelint's graph of a program says at given points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from executing import Outcome

from differential.programs import INPUTS
from wherelint.frontend.module import Module
from wherelint.graph.differentiate import Tape, backward
from wherelint.graph.evaluate import Values, evaluate
from wherelint.graph.node import LANES, Node, topological
from wherelint.interpret.programs import programs
from wherelint.ops import OPERATIONS, Array

#: Operations that every framework rounds alike.
_EXACT = frozenset(
    """add subtract multiply divide reciprocal sqrt square abs negative maximum minimum fmax fmin clamp_min clamp_max
    where relu identity stop_gradient floor ceil round trunc sign max min amax amin zeros_like ones_like""".split()
)
#: Where the model knowingly differs, and why.
_LIMITS = {
    "powers with exponent 0": "they do not depend on the base: to the model the exponent is a selection",
    "variances in double": "torch accumulates them in double precision, where squares do not overflow",
    "kernels of nan": "torch's vectorised kernels and their scalar tails disagree",
    "subnormals": "XLA takes them for 0 on a CPU, and so do some kernels of torch",
    "products that XLA selects": "compiled, a product with a mask drops a cotangent that is not finite",
    "ties": "of two equal operands either may be the one that is taken; an infinite cotangent is healed by neither",
}
_BY_KERNEL = frozenset({"hard_silu", "hard_sigmoid", "relu6", "selu"})
_OFF = np.float32(3e-7)
_COPIES = 16


@dataclass(frozen=True)
class Answer:
    """The value (points, lanes) and, for each input, the gradient under either arithmetic (points, lanes)."""

    value: Array
    ieee: list[Array]
    symbolic: list[Array]
    #: Documented limits of the model, each with the points at which it is met.
    limits: dict[str, Array]

    def outcome(self, i: int, arithmetic: str) -> Outcome:
        """The answer at one point."""
        return Outcome(arithmetic, self.value[i], [gradient[i] for gradient in getattr(self, arithmetic)])


class Model:
    """The graph of ``f``."""

    def __init__(self, text: str, framework: str) -> None:
        self._framework = framework
        (program,) = programs(Module("a.py", text, {}), ("f",), [framework])
        (self.root,) = program.outputs
        self.order = topological([self.root])
        self._leaves = {n.name: n for n in self.order if n.op == "leaf"}

    def at(self, points: Sequence[Sequence[Array]], dtype: Any = np.float32) -> Answer:
        """The answers at points, each of one array an input."""
        inputs: dict[Node, Array] = {}
        for i, name in enumerate(INPUTS):
            if name in self._leaves:
                inputs[self._leaves[name]] = np.stack([point[i] for point in points]).astype(dtype)
        return self._answer(evaluate(self.order, inputs, dtype), len(points))

    def rounded(self, point: Sequence[Array]) -> Answer:
        """The answers at copies of one point where every operation that is not rounded exactly is off by a little."""
        values: Values = {}
        rng = np.random.default_rng(1052)
        for node in self.order:
            if node.op == "leaf":
                values[node] = np.repeat(point[INPUTS.index(node.name)][None], _COPIES, axis=0)
                continue
            values.update(evaluate([node], {}, known=values))
            if node.kind == "float" and node.op in OPERATIONS and node.op not in _EXACT:
                value = values[node]
                off = rng.uniform(-1, 1, (_COPIES, value.shape[1])).astype(np.float32)
                off[::2] = off[::2, :1]  # the elements are off together, or each alone
                with np.errstate(all="ignore"):
                    values[node] = value * (1 + _OFF * off) + np.float32(_OFF) * off * (value == 0)
                values[node][3::4] = np.where(value == 0, -value, values[node])[3::4]  # a zero of the other sign
        return self._answer(values, _COPIES)

    def unblamed(self, point: Sequence[Array]) -> str | None:
        """Why no finding speaks of a poisoned point, where that is a limit that is known."""
        inputs = {self._leaves[name]: a[None] for name, a in zip(INPUTS, point, strict=True) if name in self._leaves}
        values = evaluate(self.order, inputs)
        ieee, symbolic = (
            {node for node, broke in found.broke.items() if broke.any()}
            for found in (
                backward(Tape(self.order), values, self.root, self._framework, symbolic=lazy) for lazy in (False, True)
            )
        )
        fresh = ieee - symbolic
        if not fresh:
            return "what is singular is so under symbolic zeros too, and a product with a mask follows it"
        if not any(node.op in OPERATIONS and OPERATIONS[node.op].code for node in fresh):
            return "an operation overflows that no rule is about"
        overflown = {node for node in symbolic if not np.isfinite(values[node]).all()}
        if all(overflown & set(topological([node])) for node in fresh):
            return "what overflows is read by what is selected, too"
        return None

    def _answer(self, values: Values, count: int) -> Answer:
        gradients, cotangents = [], {}
        for symbolic in (True, False):
            cotangents = backward(Tape(self.order), values, self.root, self._framework, symbolic=symbolic).cotangents
            none = np.zeros((count, LANES))
            gradients.append([none + cotangents.get(self._leaves.get(name), 0.0) for name in INPUTS])  # type: ignore[call-overload]
        value = np.broadcast_to(values[self.root], (count, values[self.root].shape[1]))
        return Answer(value, *reversed(gradients), self._limits(values, cotangents, count))

    def _limits(self, values: Values, cotangents: Values, count: int) -> dict[str, Array]:
        found = {limit: np.zeros(count, np.bool_) for limit in _LIMITS}

        def meet(limit: str, where: Array) -> None:
            found[limit] |= where.any(axis=1)

        for node in self.order:
            operands = [values[operand] for operand in node.inputs]
            if node.kind == "float":
                small = np.sqrt(np.finfo(np.float32).tiny)  # a derivative squares it
                meet("subnormals", (values[node] != 0) & (np.abs(values[node]) < small))
            if node.op in ("power", "power_static"):
                meet("powers with exponent 0", operands[1] == 0)
            if node.op.startswith(("std", "var")) and self._framework == "torch":
                meet(
                    "variances in double",
                    ~np.isfinite(values[node]) & np.isfinite(operands[0]).all(axis=1, keepdims=True),
                )
            if node.op in _BY_KERNEL and self._framework == "torch":
                meet("kernels of nan", np.isnan(operands[0]))
            if node.static.select and node in cotangents:
                dropped = operands[1 - node.static.operand] == 0
                meet("products that XLA selects", dropped & ~np.isfinite(cotangents[node]))
            if node.op in ("maximum", "minimum", "fmax", "fmin", "clamp_min", "clamp_max"):
                meet("ties", operands[0] == operands[1])
        return found
