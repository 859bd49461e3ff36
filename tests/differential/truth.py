"""What the framework says: as it is (IEEE), and with selections that never compute the arm they drop (symbolic zeros).

The second is the framework's own arithmetic, too: an array is a list of scalars, and a selection a choice of Python.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from executing import Outcome, compiled

from differential.programs import INPUTS, Program, Step, expression
from wherelint.graph.node import LANES
from wherelint.ops import SIGNATURES, Array

_OPERATORS: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "**": operator.pow,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
    "&": operator.and_, "|": operator.or_, "~": operator.invert,
}  # fmt: skip
#: Which of two operands they take: the larger one or the smaller one.
_EXTREMA = {"maximum": 1, "fmax": 1, "clamp_min": 1, "minimum": -1, "fmin": -1, "clamp_max": -1}


class Framework:
    """A program under its framework."""

    def __init__(self, program: Program, text: str) -> None:
        self.program = program
        namespace: dict[str, Any] = {}
        exec(compile(text, "a.py", "exec"), namespace)  # our own text
        self._names = namespace
        self._run = compiled(program.framework, namespace["f"], (0, 1))
        #: What the selections decided, and what they shall decide again.
        self._decided: list[bool] = []
        self._replayed: Iterator[bool] | None = None

    @property
    def function(self) -> Callable[..., Any]:
        """The program itself."""
        function: Callable[..., Any] = self._names["f"]
        return function

    def at(self, point: Sequence[Array]) -> Outcome:
        """Value and gradients: compiled in JAX, eager in torch."""
        (outcome,) = self._run(point)
        return outcome

    def uncompiled(self, point: Sequence[Array]) -> Outcome:
        """Value and gradients, one operation after the other."""
        return _eager_jax(self._names["f"], point) if self.program.framework == "jax" else self.at(point)

    def helper(self, inputs: Mapping[str, Array]) -> Iterator[Outcome]:
        """Every array that leaves the helper, with its gradients; the arguments go by their names."""
        part = self._names["part"]
        names = list(inspect.signature(part).parameters)
        given = [np.resize(np.float32(inputs.get(name, 1.0)), LANES) for name in names]
        masks = {i: self._module.asarray(given[i] != 0) for i, name in enumerate(names) if self._is_mask(name)}
        floats = [array for i, array in enumerate(given) if i not in masks]

        def results(*arrays: Any) -> tuple[Any, ...]:
            rest = iter(arrays)
            made = part(*(masks[i] if i in masks else next(rest) for i in range(len(names))))
            return made if isinstance(made, tuple) else (made,)

        for k, result in enumerate(results(*map(self._module.asarray, floats))):
            if "float" in str(result.dtype):
                one: Callable[..., Any] = lambda *arrays, k=k: results(*arrays)[k]  # noqa: E731
                yield from compiled(self.program.framework, one, range(len(floats)))(floats)
                if self.program.framework == "jax":
                    yield _eager_jax(one, floats)

    def _is_mask(self, name: str) -> bool:
        return name not in INPUTS and self.program.shape(len(INPUTS) + int(name[1:])) == "mask"

    def lazily(self, point: Sequence[Array]) -> Outcome:
        """The same where a dropped arm is not computed."""
        scalars = np.concatenate(point)
        if self.program.framework == "torch":
            (outcome,) = compiled("torch", self._lanes, range(len(scalars)))(scalars)
        else:
            self._decided = []
            outcome = _eager_jax(self._lanes, list(scalars))
        return self._outcome(outcome)

    def lazily_compiled(self, point: Sequence[Array]) -> Outcome:
        """The same as one program of XLA, which makes selects of some products; its selections are decided already."""
        self.lazily(point)
        scalars = np.concatenate(point)

        def again(*scalars: Any) -> Any:
            self._replayed = iter(self._decided)
            try:
                return self._lanes(*scalars)
            finally:
                self._replayed = None

        (outcome,) = compiled("jax", again, range(len(scalars)))(scalars)
        return self._outcome(outcome)

    def _outcome(self, outcome: Outcome) -> Outcome:
        gradients = np.array([float(g) for g in outcome.gradients]).reshape(len(INPUTS), LANES)
        return Outcome("lazy", outcome.value, list(gradients))

    def _decide(self, condition: Any) -> bool:
        if self._replayed is not None:
            return next(self._replayed)
        self._decided.append(bool(condition))
        return self._decided[-1]

    def _lanes(self, *scalars: Any) -> Any:
        values: list[list[Any]] = [list(scalars[i * LANES : (i + 1) * LANES]) for i in range(len(INPUTS))]
        for step in self.program.steps:
            values.append(self._step(step, [values[o] if type(o) is int else [o] for o in step.operands]))
        return self._module.stack(values[-1])

    @property
    def _module(self) -> Any:
        return self._names["torch" if self.program.framework == "torch" else "jnp"]

    def _step(self, step: Step, operands: list[list[Any]]) -> list[Any]:
        if step.kind == "reduce":
            whole = self._module.stack(operands[0])
            reduce = self._call(step)
            if self.program.framework == "jax":  # compiled as in the program: XLA makes selects of products with masks
                reduce = self._names["jax"].jit(reduce)
            return [reduce(whole)]
        count = max(map(len, operands))
        lanes = [[o[i % len(o)] for o in operands] for i in range(count)]
        return [self._lane(step, lane) for lane in lanes]

    def _lane(self, step: Step, operands: list[Any]) -> Any:
        if step.kind == "where":
            chosen = operands[1] if self._decide(operands[0]) else operands[2]
            return self._scalar(chosen)
        if step.kind == "product":
            if self._decide(operands[0]):
                return operands[1]
            # XLA makes a select of it; to torch 0 times what is not finite is nan.
            finite = self.program.framework == "jax" or self._decide(abs(operands[1]) < float("inf"))
            return self._scalar(0.0 if finite else float("nan"))
        if step.kind == "apply":
            signature = SIGNATURES[step.name]
            sign = _EXTREMA.get(signature.op)
            if sign is not None and self._decide((operands[0] < operands[1]) | (operands[0] > operands[1])):
                return operands[0] if self._decide(operands[0] > operands[1]) == (sign > 0) else operands[1]
            if signature.op in ("relu", "relu6") and self._decide(operands[0] < 0):
                return self._scalar(0.0)
            if signature.op == "relu6" and self._decide(operands[0] > 6):
                return self._scalar(6.0)
        return self._call(step)(*operands)

    def _scalar(self, value: Any) -> Any:
        if not isinstance(value, float):
            return value
        return self._module.tensor(value) if self.program.framework == "torch" else self._module.float32(value)

    def _call(self, step: Step) -> Callable[..., Any]:
        names = [f"o{i}" for i in range(len(step.operands))]
        text = f"lambda {', '.join(names)}: {expression(self.program, step, names)}"
        return eval(text, self._names)  # type: ignore[no-any-return]


def _eager_jax(f: Callable[..., Any], inputs: Sequence[Any]) -> Outcome:
    import jax
    import jax.numpy as jnp

    def summed(*each: Any) -> tuple[Any, Any]:
        value = f(*each)
        return jnp.sum(value), value

    gradient = jax.value_and_grad(summed, argnums=tuple(range(len(inputs))), has_aux=True)
    (_, value), gradients = gradient(*map(jnp.float32, inputs))
    return Outcome("eager", np.asarray(value), [np.asarray(g) for g in gradients])
