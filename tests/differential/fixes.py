"""What a fix makes of a program: run before and after, also where the proof of the fix cannot look.

Parameters leave their defaults, random numbers are drawn from one seed, unknown calls keep count, arrays have other
shapes and types, nan and infinities are among the data. Everything runs eagerly: XLA may round one program and the
other differently, and drops products with masks. What holds in eager mode holds compiled: a fix adds selections only.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from executing import Outcome, compiled

from differential import wild
from differential.compare import POINTS, Disagreement, Point, Tally, findings_of, witnesses
from differential.model import Model
from differential.programs import INPUTS, Program, generate, write
from wherelint.finding import Finding
from wherelint.graph.node import LANES
from wherelint.ops import Array

_MOVED = (0.0, -1.0, 0.3, 2.5)
_NOT_FINITE = (np.nan, np.inf, -np.inf)


class Situation(NamedTuple):
    """Arrays for the inputs, numbers for some parameters, and what an unknown constant is."""

    inputs: Point
    parameters: Mapping[str, float] = {}
    bound: float = wild.BOUND
    differentiated: bool = True


class Ran(NamedTuple):
    """What a program makes of a situation; no gradients where it was not differentiated."""

    value: Array
    gradients: list[Array]


def ask(seed: int, framework: str, tally: Tally) -> None:
    """One wild program: it is fixed, safely, and then in every way that is left."""
    rng = random.Random(f"{framework} {seed}")
    program = generate(rng, framework, wild=True)
    examine(program, write(program, rng), tally)


def examine(program: Program, text: str, tally: Tally) -> None:
    """Ask about one text of a program."""
    count = tally.counts
    count["programs"] += 1
    report = findings_of(text, "safe")
    found = [*report.findings, *report.fixed]
    count["findings"] += len(found)
    for problem in [p for p in report.problems if p.error]:  # that a fix was given up is a warning
        tally.disagreements.append(Disagreement("problem", text, POINTS[0], problem.message))
    if program.framework == "tensorflow":
        for finding in found:
            _shown(program, text, finding, tally)
    safe = report.after.decode() if report.fixed else text
    if report.fixed:
        count["fixed"] += 1
        # What a witness says of the shape of a constant, or of what the linter cannot see, is a guess.
        guessed = any(step.kind in ("call", "test") for step in program.steps)
        settled = [] if report.findings or guessed else list(report.fixed)
        hold(program, text, safe, settled, tally, "fix")
    if report.findings:
        unsafe = findings_of(safe, "unsafe")
        if unsafe.fixed:
            count["fixed unsafely"] += 1
            ignored = Tally()
            hold(program, safe, unsafe.after.decode(), [], ignored, "unsafe fix")
            count.update({each.kind for each in ignored.disagreements})


def hold(program: Program, text: str, after: str, settled: list[Finding], tally: Tally, what: str) -> None:
    """Hold a fix against what it must keep, and note the first difference of every kind."""
    one, other = Runner(program.framework, text), Runner(program.framework, after)
    told: set[str] = set()
    for situation in situations(program, text):
        before = one.attempt(situation)
        if isinstance(before, str):
            tally.counts["raises itself"] += 1
            continue
        tally.counts["situations"] += 1
        fixed = other.attempt(situation)
        for kind, says, row in differences(before, fixed):
            if kind == "swallows nan" and isinstance(fixed, Ran) and one.drops(situation, before, fixed):
                continue
            if kind in ("value", "gradient") and isinstance(fixed, Ran) and one.wavers(situation, before, fixed):
                continue
            if kind not in told:
                told.add(kind)
                point = situation.inputs if row is None else tuple(a[row] for a in situation.inputs)
                says = f"{says}; {dict(situation.parameters)} {situation.bound}\n{after}"
                tally.disagreements.append(Disagreement(f"{what}: {kind}", text, point, says))
    for finding in settled:
        runs = ((s, one.attempt(s), other.attempt(s)) for s in shown(program, finding))
        for situation, before, after_fix in runs:
            if isinstance(before, str) or isinstance(after_fix, str) or not poisoned(before):
                continue
            tally.counts["witnesses"] += 1
            healed = zip(_healed(program, text, situation), after_fix.gradients, strict=True)
            if any((needed & ~np.isfinite(g)).any() for needed, g in healed):
                says = f"{finding.code}: {before}; fixed: {after_fix}\n{after}"
                tally.disagreements.append(Disagreement(f"{what}: left at the witness", text, situation.inputs, says))
            break


def _healed(program: Program, text: str, situation: Situation) -> list[Array]:
    """Where each gradient is finite with symbolic zeros, if the model can tell: the rest is singular in earnest."""
    if situation.parameters:
        return [np.ones(LANES, np.bool_) for _ in INPUTS]
    answer = Model(text, program.framework).at([situation.inputs])
    return [np.isfinite(gradient[0]) for gradient in answer.symbolic]


def differences(before: Ran, after: Ran | str) -> Iterator[tuple[str, str, int | None]]:
    """How a fix changes what a program computes: a kind, in words, and at which of many points that run at once."""
    if isinstance(after, str):
        yield "raises", after, None
        return
    if before.value.shape != after.value.shape or before.value.dtype != after.value.dtype:
        yield "shape or type", f"{_type(before.value)}; fixed: {_type(after.value)}", None
        return
    a, b = before.value, after.value
    close = np.isclose(a, b, 1e-5, 1e-6, equal_nan=True)
    kinds = {"swallows nan": np.isnan(a), "value": np.isfinite(a), "infinite value": np.isinf(a)}
    for kind, concerned in kinds.items():
        if (odd := concerned & ~close).any():
            yield kind, _first(odd, a, b), _row(odd)
    for number, (c, d) in enumerate(zip(before.gradients, after.gradients, strict=True)):
        finite = np.isfinite(c)
        lost = finite & ~np.isfinite(d)
        odd = finite & ~lost & ~np.isclose(c, d, 1e-3, 1e-4)
        for kind, where in (("loses a gradient", lost), ("gradient", odd)):
            if where.any():
                yield kind, f"of input {number}: {_first(where, c, d)}", _row(where)


def _gap(one: Array, other: Array) -> Array:
    """How far two arrays are from each other where both are finite."""
    both = np.isfinite(one) & np.isfinite(other)
    return np.abs(np.where(both, one, 0) - np.where(both, other, 0))


def _type(array: Array) -> str:
    return f"{array.dtype} {array.shape}"


def _first(where: Array, one: Array, other: Array) -> str:
    return f"{one[where][0]}; fixed: {other[where][0]}"


def _row(where: Array) -> int | None:
    return int(np.argwhere(where)[0, 0]) if where.ndim == 3 and len(where) == len(MANY[0]) else None


def regular(ran: Ran) -> bool:
    """Whether every gradient is finite."""
    return all(np.isfinite(g).all() for g in ran.gradients)


def poisoned(ran: Ran) -> bool:
    """Whether the value is finite and a gradient is not."""
    return bool(np.isfinite(ran.value).all()) and not regular(ran)


def _points() -> tuple[Array, ...]:
    """All points at once: arrays of shape (points, 1, lanes), so that constants of (lanes, lanes) broadcast."""
    every = list(POINTS)
    for i, value, lanes in itertools.product(range(len(INPUTS)), _NOT_FINITE, (slice(None), slice(1))):
        point = [a.copy() for a in POINTS[0]]
        point[i][lanes] = value
        every.append(tuple(point))
    return tuple(np.stack([point[i] for point in every])[:, None] for i in range(len(INPUTS)))


MANY = _points()
_SHAPES = (((), ()), ((4,), (4,)), ((3,), (3,)), ((2, 4), (2, 4)), ((4, 4), (4, 4)), ((4, 1), (4,)), ((4,), ()),
           ((0,), (0,)), ((0, 4), (0, 4)))  # fmt: skip


def situations(program: Program, text: str) -> Iterator[Situation]:
    """All points, with parameters as they are and moved; then other shapes and types."""
    moves: list[dict[str, Any]] = [{}]
    moves += [{"parameters": {name: v}} for name, d in program.parameters.items() if d != "key" for v in _MOVED]
    moves += [{"bound": v} for v in _MOVED if "elsewhere.BOUND" in text]
    couples = any(s.kind == "reduce" and not s.name.endswith(" rows") for s in program.steps)
    for move in moves:
        if couples or "elsewhere.ends" in text:  # a few points, one by one
            few = range(0, len(MANY[0]), 1 if not move else 9)
            for i in few if program.framework == "torch" else range(0, len(MANY[0]), 7):
                yield Situation(tuple(a[i] for a in MANY), **move)
        else:
            yield Situation(MANY, **move)
    rng = np.random.default_rng(1052)
    for shapes in _SHAPES:
        for kind in ("float32", "float64") if shapes == ((4,), (4,)) and program.framework != "jax" else ("float32",):
            arrays = tuple(np.round(rng.normal(0.3, 1, shape), 1).astype(kind) for shape in shapes)
            yield Situation(arrays, differentiated=False)


class Runner:
    """A program under its framework, in eager mode."""

    def __init__(self, framework: str, text: str) -> None:
        wild.reset()
        self._framework = framework
        self.names: dict[str, Any] = {}
        exec(compile(text, "a.py", "exec"), self.names)  # our own text
        self._run: Callable[[Situation, Mapping[str, Any]], Ran] = getattr(self, f"_{framework}")
        self.keyed = "key" in self.names["f"].__code__.co_varnames

    def attempt(self, situation: Situation) -> Ran | str:
        """What it makes of a situation; what it raises, in words. Always with the same random numbers."""
        wild.reset(situation.bound)
        self.names["elsewhere"] = sys.modules["elsewhere"]
        try:
            with np.errstate(all="ignore"):
                return self._run(situation, situation.parameters)
        except Exception as error:  # whatever a framework says of a program that nobody would write
            return f"{type(error).__name__}: {str(error)[:300]}"

    def drops(self, situation: Situation, before: Ran, after: Ran) -> bool:
        """Whether every nan that a fix makes a number is that number when the program is compiled.

        XLA makes a select of a product with a boolean mask of the same shape: ``0 * inf`` is nan in eager JAX and 0
        under ``jit``, which is what nearly everybody runs, and what the linter's model of JAX computes.
        """
        if self._framework != "jax":
            return False
        import jax

        given = {**situation.parameters, **({"key": jax.random.PRNGKey(1052)} if self.keyed else {})}
        run = jax.jit(lambda *arrays: self.names["f"](*arrays, **given))
        compiled = np.asarray(run(*situation.inputs))
        if np.ndim(situation.inputs[0]) == 3:  # a mask of constants is a row; so each point as one
            compiled = np.where(np.isnan(compiled), self._by_row(run, situation, compiled), compiled)
        odd = np.isnan(before.value) & ~np.isnan(after.value)
        return bool(np.allclose(compiled[odd], after.value[odd], 1e-5, 1e-6))

    @staticmethod
    def _by_row(run: Callable[..., Any], situation: Situation, compiled: Array) -> Array:
        """What a compiled program makes of rows, one by one, if that has the shape of what it makes of all."""
        rows = [np.asarray(run(*(a[i, 0] for a in situation.inputs))) for i in range(len(situation.inputs[0]))]
        return np.reshape(rows, compiled.shape) if np.size(rows) == compiled.size else compiled

    def wavers(self, situation: Situation, before: Ran, after: Ran) -> bool:
        """Whether the program differs as much from itself when its inputs move by a rounding."""
        arrays = [(before.value, after.value), *zip(before.gradients, after.gradients, strict=True)]
        gaps = [_gap(a, b) for a, b in arrays]
        room = [np.zeros_like(gap) for gap in gaps]
        for factor in (1 - 6e-8, 1 + 6e-8, 1 + 1.2e-7, 1 - 1.2e-7):
            near = self.attempt(situation._replace(inputs=tuple(np.float32(a * factor) for a in situation.inputs)))
            if isinstance(near, str):
                return False
            for most, moved, (old, _) in zip(room, [near.value, *near.gradients], arrays, strict=True):
                np.fmax(most, _gap(moved, old), out=most)
        return all(
            bool((gap <= 4 * most + 1e-6 + 1e-3 * np.abs(old))[gap > 0].all())  # what is nan has no gap
            for gap, most, (old, _) in zip(gaps, room, arrays, strict=True)
        )

    def _jax(self, situation: Situation, given: Mapping[str, Any]) -> Ran:
        import jax
        import jax.numpy as jnp

        given = {**given, **({"key": jax.random.PRNGKey(1052)} if self.keyed else {})}
        inputs = [jnp.asarray(a) for a in situation.inputs]
        if (
            not situation.differentiated
        ):  # what runs eagerly is compiled for every shape: its value is looked at for one
            if inputs[0].shape != (LANES,):
                shaped = jax.eval_shape(lambda *arrays: self.names["f"](*arrays, **given), *inputs)
                return Ran(np.zeros(shaped.shape, shaped.dtype), [])
            return Ran(np.asarray(self.names["f"](*inputs, **given)), [])

        def summed(*arrays: Any) -> tuple[Any, Any]:
            value = self.names["f"](*arrays, **given)
            return jnp.sum(value), value

        gradient = jax.value_and_grad(summed, argnums=tuple(range(len(inputs))), has_aux=True)
        (_, value), gradients = gradient(*inputs)
        return Ran(np.asarray(value), [np.asarray(g) for g in gradients])

    def _torch(self, situation: Situation, given: Mapping[str, Any]) -> Ran:
        import torch

        torch.default_generator.manual_seed(1052)  # torch.manual_seed looks at the stack each time
        inputs = [torch.tensor(a, requires_grad=situation.differentiated) for a in situation.inputs]
        value = self.names["f"](*inputs, **given)
        gradients: Sequence[Any] = []
        if value.requires_grad:
            gradients = torch.autograd.grad(value.sum(), inputs, allow_unused=True, materialize_grads=True)
        return Ran(value.detach().numpy(), [g.numpy() for g in gradients])

    def _tensorflow(self, situation: Situation, given: Mapping[str, Any]) -> Ran:
        import tensorflow as tf

        tf.random.set_seed(1052)
        given = {**given, **({"key": tf.constant([10, 52])} if self.keyed else {})}
        inputs = [tf.constant(a) for a in situation.inputs]
        if not situation.differentiated:
            return Ran(self.names["f"](*inputs, **given).numpy(), [])
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            value = self.names["f"](*inputs, **given)
            total = tf.reduce_sum(value)
        gradients = tape.gradient(total, inputs, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return Ran(value.numpy(), [tf.convert_to_tensor(g).numpy() for g in gradients])


def shown(program: Program, finding: Finding) -> Iterator[Situation]:
    """The witness of a finding; nothing where it speaks of what nobody can set."""
    assert finding.witness is not None
    inputs = finding.witness.inputs
    if finding.function == "f" and set(inputs) <= {*INPUTS, *program.parameters} - {"key"}:
        given = {name: float(np.resize(inputs[name], 1)[0]) for name in program.parameters if name in inputs}
        for point in witnesses(finding):
            yield Situation(point, given)


def _shown(program: Program, text: str, finding: Finding, tally: Tally) -> None:
    """TensorFlow: whether the gradient breaks at the witness, eagerly or under XLA."""
    if any(step.kind in ("call", "test") for step in program.steps):
        return
    runner = Runner(program.framework, text)
    tried = list(shown(program, finding))
    tally.counts["findings asked"] += bool(tried)
    says: Any = None
    for eager, situation in itertools.product((True, False), tried):
        outcome = runner.attempt(situation) if eager else _xla(runner, situation)
        if isinstance(outcome, str):
            return
        if poisoned(outcome):
            tally.counts["findings under XLA only"] += not eager
            return
        says = outcome
    if tried:
        kind = Disagreement("finding", text, tried[0].inputs, f"{finding.code} in {finding.function}: {says}")
        tally.disagreements.append(kind)


def _xla(runner: Runner, situation: Situation) -> Ran:
    def f(*arrays: Any) -> Any:
        return runner.names["f"](*arrays, **situation.parameters)

    first: Outcome = compiled("tensorflow", f, range(len(INPUTS)), eager=False)(situation.inputs)[0]
    return Ran(first.value, first.gradients)
