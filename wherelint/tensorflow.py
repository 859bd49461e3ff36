"""`locate` in a running TensorFlow program: experimental, for what runs eagerly.

What it needs of TensorFlow that is not public are the two names of the private modules imported below;
``tests/companion/test_tensorflow_locate.py`` says which one a version broke.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import backprop
from tensorflow.python.framework import op_callbacks

from wherelint.companion import Poison, Report
from wherelint.companion.frames import Frame, calling, places
from wherelint.ops import lookup

__all__ = ["locate"]

_OWN = tuple(os.path.dirname(os.path.abspath(each)) + os.sep for each in (tf.__file__, __file__))
#: Selections by the type of their operation.
_KINDS = {
    kind: name
    for name, kinds in {
        "where": "SelectV2 Select", "maximum": "Maximum Max", "minimum": "Minimum Min", "clip": "ClipByValue",
        "relu": "Relu", "relu6": "Relu6", "index": "GatherV2 GatherNd StridedSlice Slice Split SplitV Unpack TopKV2",
        "assignment": "TensorScatterUpdate",
    }.items()
    for kind in kinds.split()
}  # fmt: skip
#: What moves and adds elements: a cotangent reaches an operand where it reaches anything that was made of it.
_LINEAR = frozenset(
    """Reshape Transpose Sum Mean ConcatV2 ExpandDims Squeeze Tile Pack Cast Identity BroadcastTo Neg AddV2 Add Sub
    AddN Pad PadV2 MirrorPad ReverseV2 Cumsum MatMul BatchMatMulV2""".split()
)
_ELEMENTWISE = frozenset(
    """Sqrt Rsqrt Log Log1p Exp Expm1 Reciprocal Inv RealDiv Div DivNoNan Xdivy Xlogy Xlog1py Pow Acos Asin Acosh Asinh
    Atanh Atan Atan2 Sin Cos Tan Tanh Sinh Cosh Sigmoid Square SquaredDifference Abs Mul MulNoNan Erf Erfc Erfinv Ndtri
    Lgamma Digamma Softplus Softsign Elu Selu LeakyRelu Sign FloorMod""".split()
)
_CLIPS = frozenset({"Maximum", "Minimum", "ClipByValue", "Relu", "Relu6"})
_NAMES = {"RealDiv": "divide", "Div": "divide", "Inv": "reciprocal", "Mul": "multiply"}


@dataclass(eq=False)
class _Call:
    """One operation that ran: its attributes, tensors and frames, and which operands are differentiated."""

    kind: str
    attributes: Any
    operands: Sequence[Any]
    results: Sequence[Any]
    frames: Sequence[Frame]
    live: Sequence[bool] = ()

    def pull(self, cotangents: Sequence[Any]) -> list[Any]:
        """The cotangents of the operands."""
        given = [tf.zeros_like(r) if ct is None else ct for r, ct in zip(self.results, cotangents, strict=True)]
        found = backprop._gradient_function(
            self.kind, self.attributes, len(self.operands), self.operands, self.results, given, (), ""
        )
        found = found if isinstance(found, list | tuple) else [found]
        return [None if each is None else tf.convert_to_tensor(each) for each in found]


@dataclass
class _Break:
    call: _Call
    elements: Any
    dead: Any


@dataclass
class _Pass:
    """A backward pass over the calls; with ``killers``, only those selections drop anything."""

    calls: Sequence[_Call]
    masked: bool = True
    killers: frozenset[_Call] | None = None
    breaks: list[_Break] = field(default_factory=list)
    cotangents: dict[int, Any] = field(default_factory=dict)
    dead: dict[int, Any] = field(default_factory=dict)

    def run(self, roots: Sequence[Any]) -> _Pass:
        for root in roots:
            self._hand(root, tf.ones_like(root), tf.zeros(root.shape, tf.bool))
        for call in reversed(self.calls):
            cotangents = [self.cotangents.get(id(each)) for each in call.results]
            if any(each is not None for each in cotangents):
                self._through(call, cotangents)
        return self

    def _through(self, call: _Call, cotangents: list[Any]) -> None:
        pulled = call.pull(cotangents)
        whole = _all_finite(each for each in cotangents if each is not None)
        for number, (operand, live, got) in enumerate(zip(call.operands, call.live, pulled, strict=False)):
            if not live or got is None:
                continue
            dead = self._masks(call, number, operand) if self.masked else tf.zeros(operand.shape, tf.bool)
            broken = ~tf.math.is_finite(got)
            if whole and self.masked and bool(tf.reduce_any(broken)):
                self.breaks.append(_Break(call, broken, dead))
            self._hand(operand, tf.where(dead, tf.zeros_like(got), got), dead)

    def _masks(self, call: _Call, number: int, operand: Any) -> Any:
        """Which elements of an operand nothing reaches but what is dead."""
        dead = [self.dead.get(id(each), tf.ones(each.shape, tf.bool)) for each in call.results]
        kills = self.killers is None or call in self.killers
        if call.kind in _ELEMENTWISE:
            found = _narrowed(dead[0], operand)
            others = [each for i, each in enumerate(call.operands) if i != number and not call.live[i]]
            if call.kind == "Mul" and others and kills:
                found |= _narrowed(tf.broadcast_to(others[0] == 0, dead[0].shape), operand)
            return found
        if call.kind not in _KINDS and call.kind not in _LINEAR:
            return tf.zeros(operand.shape, tf.bool)
        found = self._unreached(call, number, [tf.cast(~d, r.dtype) for d, r in zip(dead, call.results, strict=True)])
        if call.kind in _KINDS and not kills:  # what it drops by itself is alive
            found &= ~self._unreached(call, number, [tf.ones_like(each) for each in call.results])
        return found

    def _unreached(self, call: _Call, number: int, alive: Sequence[Any]) -> Any:
        ones = [tf.ones_like(each) if each.dtype.is_floating else each for each in call.operands]
        plain = _Call(call.kind, call.attributes, call.operands if call.kind in _KINDS else ones, call.results, ())
        got = plain.pull(alive)[number]
        return tf.ones(call.operands[number].shape, tf.bool) if got is None else got == 0

    def _hand(self, tensor: Any, cotangent: Any, dead: Any) -> None:
        key = id(tensor)
        if key in self.cotangents:
            self.cotangents[key], self.dead[key] = self.cotangents[key] + cotangent, self.dead[key] & dead
        else:
            self.cotangents[key], self.dead[key] = cotangent, dead


def locate(f: Callable[..., Any], *args: Any) -> Report:
    """What poisons the gradient of ``f(*args)``, or of its sum, by the arguments; experimental.

    ``f`` is called once, eagerly, the functions of ``tf.function`` in it as well. Arrays, tensors and variables of
    floats among the arguments are differentiated, in nested structures, too; variables that ``f`` brings along are not.
    The report names operation, selection and element; loops are not counted. TypeError where there is nothing to
    differentiate, ValueError where no gradient reaches an argument.
    """
    given = tf.nest.map_structure(_differentiable, args)
    leaves = [each for each in tf.nest.flatten(given) if _is_floating(each)]
    if not leaves:
        raise TypeError("there is nothing to differentiate: no argument holds floats; write 0.0 for 0")
    calls: list[_Call] = []
    with _recorded(calls):
        values = tf.nest.flatten(f(*given))
    live = {id(each) for each in leaves}
    for call in calls:
        call.live = [id(each) in live for each in call.operands]
        if any(call.live):
            live.update(id(each) for each in call.results if each.dtype.is_floating)
    calls = [call for call in calls if any(call.live)]
    values = [each for each in values if _is_floating(each)]
    if not values:
        raise TypeError("there is nothing to differentiate: the function returns no tensor of floats; return the loss")
    roots = [each for each in values if id(each) in live]
    value_finite = _all_finite(values)
    plain = _Pass(calls, masked=False).run(roots)
    gradient = tuple(plain.cotangents.get(id(each)) for each in leaves)
    if all(each is None for each in gradient):
        raise ValueError(
            "the result has no gradient: leave out the `stop_gradient`, `numpy()` or cast between it and the arguments"
        )
    if _all_finite(each for each in gradient if each is not None):
        return Report(value_finite, True, True, gradient=gradient, masked=gradient)
    run = _Pass(calls).run(roots)
    masked = tuple(run.cotangents.get(id(each)) for each in leaves)
    poisons = tuple(dict.fromkeys(each for one in run.breaks for each in _poisons(one, calls, roots)))
    masked_finite = _all_finite(each for each in masked if each is not None)
    return Report(value_finite, False, masked_finite, poisons, gradient=gradient, masked=masked)


def _is_floating(each: Any) -> bool:
    return bool(tf.is_tensor(each) and each.dtype.is_floating)


def _differentiable(each: Any) -> Any:
    kinds = getattr(getattr(each, "dtype", None), "kind", "f" if isinstance(each, float) else "")
    if isinstance(each, tf.Variable) or tf.is_tensor(each) or kinds == "f":
        return tf.identity(each)
    return each


@contextmanager
def _recorded(calls: list[_Call]) -> Iterator[None]:
    def note(
        kind: str | bytes, operands: Any, attributes: Any, results: Any, op_name: Any = None, graph: Any = None
    ) -> None:
        kind = kind.decode() if isinstance(kind, bytes) else kind
        calls.append(_Call(kind, attributes, operands, results, calling(_OWN)))

    eager = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    op_callbacks.add_op_callback(note)
    try:
        yield
    finally:
        op_callbacks.remove_op_callback(note)
        tf.config.run_functions_eagerly(eager)


def _poisons(one: _Break, calls: Sequence[_Call], roots: Sequence[Any]) -> Iterator[Poison]:
    for genuine, elements in ((False, one.elements & one.dead), (True, one.elements & ~one.dead)):
        at = tf.where(elements).numpy()
        if not len(at):
            continue
        killer = _clip(one.call, calls) if genuine else _killer(one, elements, calls, roots)
        op_at, op_within = places(one.call.frames)
        select_at, select_within = places(killer.frames) if killer else (None, None)
        kind = _KINDS.get(killer.kind, "multiply") if killer else None
        yield Poison(
            _operation(one.call.kind), op_at, kind, select_at, tuple(map(int, at[0])), count=len(at), genuine=genuine,
            op_within=op_within, select_within=select_within, framework="tensorflow",
        )  # fmt: skip


def _killer(one: _Break, elements: Any, calls: Sequence[_Call], roots: Sequence[Any]) -> _Call | None:
    """The nearest selection that alone drops every one of the elements."""
    reached, nearest = {id(each) for each in one.call.results}, []
    for call in calls[calls.index(one.call) + 1 :]:
        if any(id(each) in reached for each in call.operands):
            reached.update(id(each) for each in call.results)
            if call.kind in _KINDS or call.kind == "Mul":
                nearest.append(call)
    for call in nearest:
        alone = _Pass(calls, killers=frozenset({call})).run(roots)
        if any(bool(tf.reduce_all(each.dead | ~elements)) for each in alone.breaks
               if each.call is one.call and each.elements.shape == elements.shape):  # fmt: skip
            return call
    return None


def _clip(call: _Call, calls: Sequence[_Call]) -> _Call | None:
    """The clip that an operand comes from, which puts it onto the singular point."""
    operands = {id(each) for each in call.operands}
    made = [each for each in calls if operands.intersection(map(id, each.results))]
    return next((each for each in made if each.kind in _CLIPS), None)


def _operation(kind: str) -> str:
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower()
    signature = lookup(f"tensorflow.math.{name}")
    return _NAMES.get(kind) or (signature.op if signature else name)


def _narrowed(mask: Any, operand: Any) -> Any:
    """A mask of the result for an operand that was broadcast: dead is what is dead all along."""
    extra = len(mask.shape) - len(operand.shape)
    mask = tf.reduce_all(mask, axis=list(range(extra))) if extra else mask
    wide = [i for i, (a, b) in enumerate(zip(operand.shape, mask.shape, strict=True)) if a == 1 and b != 1]
    return tf.reduce_all(mask, axis=wide, keepdims=True) if wide else mask


def _all_finite(found: Iterable[Any]) -> bool:
    return all(bool(tf.reduce_all(tf.math.is_finite(each))) for each in found)
