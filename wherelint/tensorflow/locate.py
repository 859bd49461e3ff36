"""Which operation and which selection a gradient was lost to.

Operations are noted as they run; a backward pass over the notes, in which a dropped element receives nothing, says
which of them break.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from wherelint.companion import Place, Poison, Report
from wherelint.companion.frames import calling, directories, places
from wherelint.companion.patching import wrap
from wherelint.ops import lookup
from wherelint.tensorflow import compat

_OWN = directories(tf.__file__, __file__)
#: Selections by the type of their operation.
_KINDS = {
    kind: name
    for name, kinds in {
        "where": "SelectV2 Select", "maximum": "Maximum Max", "minimum": "Minimum Min", "clip": "ClipByValue",
        "relu": "Relu", "relu6": "Relu6", "assignment": "TensorScatterUpdate", "pooling": "MaxPool MaxPool3D",
        "index": "GatherV2 GatherNd StridedSlice Slice Split SplitV Unpack TopKV2 ResourceGather ResourceGatherNd",
    }.items()
    for kind in kinds.split()
}  # fmt: skip
#: Their derivative is a product with the other operand: what is dropped of that is left out.
_PRODUCTS = frozenset(
    """MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3 Einsum Conv2D Conv3D DepthwiseConv2dNative
    Conv2DBackpropInput""".split()
)
#: Which elements a cotangent reaches does not depend on the operands.
_FIXED = _PRODUCTS | frozenset(
    """Reshape Transpose Sum Mean ConcatV2 ExpandDims Squeeze Tile Pack Cast Identity IdentityN
    BroadcastTo Neg AddV2 Add Sub AddN BiasAdd Pad PadV2 MirrorPad ReverseV2 Cumsum Diag MatrixDiagV3 MatrixDiagPartV3
    MatrixBandPart AvgPool UnsortedSegmentSum SegmentSumV2 Softmax LogSoftmax L2Loss SoftmaxCrossEntropyWithLogits
    SparseSoftmaxCrossEntropyWithLogits""".split()
)
_ELEMENTWISE = frozenset(
    """Sqrt Rsqrt Log Log1p Exp Expm1 Reciprocal Inv RealDiv Div DivNoNan Xdivy Xlogy Xlog1py Pow Acos Asin Acosh Asinh
    Atanh Atan Atan2 Sin Cos Tan Tanh Sinh Cosh Sigmoid Square SquaredDifference Abs Mul MulNoNan Erf Erfc Erfinv Ndtri
    Lgamma Digamma Softplus Softsign Elu Selu LeakyRelu Sign FloorMod""".split()
)
_CLIPS = frozenset({"Maximum", "Minimum", "ClipByValue", "Relu", "Relu6"})
_NAMES = {
    "RealDiv": "divide", "Div": "divide", "Inv": "reciprocal", "Mul": "multiply", "MatMul": "matmul",
    "BatchMatMulV2": "matmul", "BatchMatMulV3": "matmul",
    "IdentityN": "custom_gradient",
}  # fmt: skip
#: Derivatives that are 0 for a cotangent of 0, whatever the operand is, unless XLA compiles them.
_COMPILED: dict[str, Callable[[Any, Any], Any]] = {
    "Sqrt": lambda ct, y: ct * 0.5 / y,
    "Rsqrt": lambda ct, y: ct * -0.5 * y * y * y,
    "Reciprocal": lambda ct, y: -ct * y * y,
    "Inv": lambda ct, y: -ct * y * y,
}
#: How many selections are told apart: the nearest ones to what broke.
_MOST = 64


def locate(f: Callable[..., Any], *args: Any) -> Report:
    """What poisons the gradient of ``f(*args)``, or of its sum, by the arguments and the variables that it reads.

    ``f`` is called once, eagerly, the functions of ``tf.function`` in it as well. Arrays, tensors and variables of
    floats among the arguments are differentiated, in nested structures, too. The report names operation, selection and
    element; loops are not counted; experimental. TypeError where there is nothing to differentiate, ValueError where no
    gradient reaches an argument or a variable, or where ``f`` returns a gradient.
    """
    given = tf.nest.map_structure(_differentiable, args)
    leaves = [each for each in tf.nest.flatten(given) if is_floating(each)]
    calls: list[Call] = []
    gradients: list[Any] = []

    def collected(gradient: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        found = gradient(*args, **kwargs)
        gradients.extend(tf.nest.flatten(found))
        return found

    with record_calls(calls), wrap(tf.GradientTape, "gradient", collected), tf.GradientTape() as tape:
        results = tf.nest.flatten(f(*given))
    values = [each for each in results if is_floating(each)]
    variables = [each.handle for each in tape.watched_variables()]
    sources = [*leaves, *variables]
    if any(each is found for each in values for found in gradients):
        raise ValueError("the function returns a gradient: hand over the one that it differentiates")
    if not sources:
        raise TypeError("there is nothing to differentiate: no argument holds floats; write 0.0 for 0")
    if not values:
        raise TypeError("there is nothing to differentiate: the function returns no tensor of floats; return the loss")
    calls = with_reads(calls, variables)
    report = explain_calls(calls, values, sources, [tf.ones_like(each) for each in values])
    if all(each is None for each in report.gradient):
        raise ValueError(
            "the result has no gradient: leave out the `stop_gradient`, `numpy()` or cast between it and the arguments"
        )
    own = len(leaves)
    return replace(report, value_finite=all_finite(values), gradient=report.gradient[:own], masked=report.masked[:own])


def is_floating(each: Any) -> bool:
    """Whether something is a tensor that has a gradient."""
    return bool(tf.is_tensor(each) and each.dtype.is_floating)


def _differentiable(each: Any) -> Any:
    kinds = getattr(getattr(each, "dtype", None), "kind", "f" if isinstance(each, float) else "")
    if isinstance(each, tf.Variable) or tf.is_tensor(each) or kinds == "f":
        return tf.identity(each)
    return each


@contextmanager
def record_calls(calls: list[Call]) -> Iterator[None]:
    """Within the block all that runs is added to the calls, with the functions of ``tf.function``."""

    def note(kind: str, attributes: Any, operands: Sequence[Any], results: Sequence[Any]) -> None:
        calls.append(Call(kind, attributes, operands, results, partial(places, calling(_OWN))))

    def own(name: str, operands: Sequence[Any], results: Sequence[Any], backward: Callable[..., Any]) -> None:
        adopt(calls, Call(name, (), operands, results, partial(places, calling(_OWN)), backward))

    eager = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        with compat.noting(note), compat.own_gradients(own):
            yield
    finally:
        tf.config.run_functions_eagerly(eager)


@dataclass(eq=False)
class Call:
    """One operation that ran: its attributes and tensors, and which operands are differentiated."""

    kind: str
    attributes: Any
    operands: Sequence[Any]
    results: Sequence[Any]
    #: Where the user's program stands, and where a library, if that is further in.
    places: Callable[[], tuple[Place | None, Place | None]] = lambda: (None, None)
    #: What makes the cotangents of the operands, if that is not the registered gradient; the results are then copies
    #: of ``computed``, which other calls have made of the operands.
    backward: Callable[..., Any] | None = None
    computed: Sequence[Any] = ()
    #: Whether XLA has compiled it.
    compiled: bool = False
    live: Sequence[bool] = ()

    @property
    def statement(self) -> Any:
        """The same for the calls that a statement makes in a loop."""
        where = self.places()
        return self.kind, where if any(where) else id(self)

    def pull(self, cotangents: Sequence[Any]) -> list[Any]:
        """The cotangents of the operands."""
        given = [_zeros(r) if ct is None else ct for r, ct in zip(self.results, cotangents, strict=True)]
        if self.kind == "ReadVariableOp":
            return given
        if self.backward is not None:
            found = self.backward(*given)
        elif self.compiled and self.kind in _COMPILED:
            found = _COMPILED[self.kind](given[0], self.results[0])
        else:
            found = compat.pulled(self.kind, self.attributes, self.operands, self.results, given)
        found = found if isinstance(found, list | tuple) else [found]
        return [None if each is None else tf.convert_to_tensor(each) for each in found]


def adopt(calls: list[Call], own: Call) -> None:
    """Add a call that brings its own gradient, in place of the copies that its results are."""
    near = calls[-len(own.results) - len(own.operands) :]
    copies = {id(each.results[0]): each for each in near if each.kind == "Identity"}
    copied = [copies[id(each)] for each in own.results if id(each) in copies]
    own.computed = [each.operands[0] for each in copied]
    calls[:] = [each for each in calls if each not in copied]
    calls.append(own)


def with_reads(calls: Sequence[Call], handles: Iterable[Any]) -> list[Call]:
    """The calls, with those that read variables and are not noted: operands that share the numbers of a variable."""
    variables = {compat.storage(compat.read(each)): each for each in handles}
    made, found = {id(result) for call in calls for result in call.results}, []
    for call in calls:
        for each in call.operands:
            if id(each) not in made and each.dtype.is_floating and compat.is_eager(each):
                made.add(id(each))
                if (handle := variables.get(compat.storage(each))) is not None:
                    found.append(Call("ReadVariableOp", (), [handle], [each]))
        found.append(call)
    return found


@dataclass
class _Break:
    call: Call
    elements: Any
    dead: Any


@dataclass
class _Pass:
    """A backward pass over the calls, down to ``last``; with ``killers`` only those selections drop anything.

    It is ``masked``, or as TensorFlow computes it.
    """

    calls: Sequence[Call]
    masked: bool = True
    killers: frozenset[Call] | None = None
    last: Call | None = None
    breaks: list[_Break] = field(default_factory=list)
    cotangents: dict[int, Any] = field(default_factory=dict)
    dead: dict[int, Any] = field(default_factory=dict)

    def run(self, roots: Sequence[Any], seeds: Sequence[Any]) -> _Pass:
        for root, seed in zip(roots, seeds, strict=True):
            self._hand(root, seed, tf.zeros(root.shape, tf.bool))
        return self._back()

    def _back(self) -> _Pass:
        for call in reversed(self.calls):
            cotangents = [self.cotangents.get(id(each)) for each in call.results]
            if any(each is not None for each in cotangents):
                self._through(call, cotangents)
            if call is self.last:
                break
        return self

    def drops(self, call: Call) -> bool:
        """Whether some of what a call was given is dead."""
        return any(bool(tf.reduce_any(self.dead[id(each)])) for each in call.operands if id(each) in self.dead)

    def _through(self, call: Call, cotangents: list[Any]) -> None:
        if not self.masked:
            for operand, live, got in zip(call.operands, call.live, call.pull(cotangents), strict=False):
                if live and got is not None:
                    self._hand(operand, got, tf.zeros(got.shape, tf.bool))
            return
        unbroken = all_finite(cotangents)
        wide = _widened(call)
        pulled = wide.pull(cotangents)
        clean = self._clean(wide, pulled, cotangents)
        for number, (operand, live, got) in enumerate(zip(call.operands, call.live, pulled, strict=False)):
            if not live or got is None:
                continue
            dead = self._masks(wide, number, got)
            broken = ~finite(got)
            if unbroken and bool(tf.reduce_any(broken)):
                self.breaks.append(_Break(call, broken, dead | finite(clean[number])))
            handed = tf.where(dead, tf.zeros_like(got), clean[number])
            self._hand(operand, *((handed, dead) if wide is call else _narrowed(handed, dead, operand.shape)))

    def _clean(self, call: Call, pulled: list[Any], cotangents: Sequence[Any]) -> list[Any]:
        """The cotangents of the operands of a product of what nothing drops."""
        if call.kind not in _PRODUCTS or all_finite(pulled):
            return pulled
        operands = [
            tf.where(self._masks(call, number, each), tf.zeros_like(each), each) if each.dtype.is_floating else each
            for number, each in enumerate(call.operands)
        ]
        return replace(call, operands=operands).pull(cotangents)

    def _masks(self, call: Call, number: int, got: Any) -> Any:
        """Which elements of an operand nothing reaches but what is dead."""
        dead = [self.dead.get(id(each), tf.ones(each.shape, tf.bool)) for each in call.results]
        kills = self.killers is None or call in self.killers
        if call.backward is not None:
            return self._behind(call, number, dead, got)
        if call.kind in _ELEMENTWISE:
            others = [each for i, each in enumerate(call.operands) if i != number and not call.live[i]]
            return dead[0] | (others[0] == 0) if call.kind == "Mul" and others and kills else dead[0]
        alive = [tf.cast(~d, r.dtype) for d, r in zip(dead, call.results, strict=True)]
        if call.kind in _KINDS:
            found = _unreached(call, number, alive, got)
            if not kills:  # what it drops by itself is alive
                found &= ~_unreached(call, number, [tf.ones_like(each) for each in call.results], got)
            return found
        if call.kind == "ReadVariableOp":
            return dead[0]
        if call.kind in _FIXED and any(bool(tf.reduce_any(each)) for each in dead):
            return _unreached(_anywhere(call), number, alive, got)
        return tf.zeros(got.shape, tf.bool)

    def _behind(self, call: Call, number: int, dead: Sequence[Any], got: Any) -> Any:
        """The same for what brings its own gradient: by the calls that have computed its results."""
        inner = _Pass(_between(self.calls, call), killers=self.killers)
        for each, mask in zip(call.computed, dead, strict=False):
            inner._hand(each, tf.ones_like(each), mask)
        everything = tf.reduce_all([tf.reduce_all(each) for each in dead])
        return inner._back().dead.get(id(call.operands[number]), tf.fill(got.shape, everything))

    def _hand(self, tensor: Any, cotangent: Any, dead: Any) -> None:
        key = id(tensor)
        if key in self.cotangents:
            self.cotangents[key], self.dead[key] = self.cotangents[key] + cotangent, self.dead[key] & dead
        else:
            self.cotangents[key], self.dead[key] = cotangent, dead


def explain_calls(
    calls: Sequence[Call], roots: Sequence[Any], sources: Sequence[Any], seeds: Sequence[Any],
    gradient: Sequence[Any] | None = None,
) -> Report:  # fmt: skip
    """What poisons the gradient of the roots by the sources, with the cotangents of the roots.

    ``gradient``, if it is known, is what is not finite.
    """
    live = {id(each) for each in sources}
    for call in calls:
        call.live = [id(each) in live for each in call.operands]
        if any(call.live):
            live.update(id(each) for each in call.results if each.dtype.is_floating)
    calls = [call for call in calls if any(call.live)]
    pairs = [(root, seed) for root, seed in zip(roots, seeds, strict=True) if id(root) in live]
    value_finite, (roots, seeds) = all_finite(roots), ([each[i] for each in pairs] for i in (0, 1))
    if gradient is None:
        plain = _Pass(calls, masked=False).run(roots, seeds)
        gradient = tuple(plain.cotangents.get(id(each)) for each in sources)
        if all_finite(gradient):
            return Report(value_finite, True, True, gradient=gradient, masked=gradient)
    run = _Pass(calls).run(roots, seeds)
    masked = tuple(run.cotangents.get(id(each)) for each in sources)
    poisons = tuple(dict.fromkeys(_poisons(run, roots, seeds)))
    return Report(value_finite, False, all_finite(masked), poisons, gradient=gradient, masked=masked)


def first_not_finite(calls: Sequence[Call], roots: Sequence[Any]) -> Report:
    """Where the first inf or nan behind the roots was made of what is finite; else the first nan of what is none."""
    origins = (_origin(calls, roots, broken) for broken in (lambda each: ~finite(each), tf.math.is_nan))
    found = next((each for each in origins if each), None)
    return Report(False, False, False, (found,) if found else ())


def _origin(calls: Sequence[Call], roots: Sequence[Any], broken: Callable[[Any], Any]) -> Poison | None:
    def is_broken(each: Any) -> bool:
        return bool(each.dtype.is_floating and tf.reduce_any(broken(each)))

    wanted, found = {id(each) for each in roots if is_broken(each)}, None
    for call in reversed(calls):
        made = [each for each in call.results if id(each) in wanted]
        if made and call.kind != "ReadVariableOp":
            given = [each for each in (*call.operands, *call.computed) if is_broken(each)]
            wanted.update(map(id, given))
            found = found if given else (call, next(iter(made)))
    if found is None:
        return None
    call, result = found
    at = np.argwhere(broken(result))
    op_at, op_within = call.places()
    return Poison(
        _operation(call.kind), op_at, None, None, tuple(map(int, at[0])), count=len(at), genuine=True,
        op_within=op_within, framework="tensorflow",
    )  # fmt: skip


def _poisons(run: _Pass, roots: Sequence[Any], seeds: Sequence[Any]) -> Iterator[Poison]:
    reported: set[Any] = set()  # a loop breaks at the same place again
    for one in run.breaks:
        for genuine, elements in ((False, one.elements & one.dead), (True, one.elements & ~one.dead)):
            at = np.argwhere(elements)
            if not len(at) or (genuine, one.call.statement) in reported:
                continue
            reported.add((genuine, one.call.statement))
            killer = _clip(one.call, run.calls) if genuine else _killer(one, elements, run, roots, seeds)
            op_at, op_within = one.call.places()
            select_at, select_within = killer.places() if killer else (None, None)
            kind = _KINDS.get(killer.kind, "multiply") if killer else None
            yield Poison(
                _operation(one.call.kind), op_at, kind, select_at, tuple(map(int, at[0])), count=len(at),
                genuine=genuine, op_within=op_within, select_within=select_within, framework="tensorflow",
            )  # fmt: skip


def _killer(one: _Break, elements: Any, run: _Pass, roots: Sequence[Any], seeds: Sequence[Any]) -> Call | None:
    """The nearest selection that alone drops every one of the elements, whenever it runs."""
    reached: set[int] = {id(each) for each in one.call.results}
    nearest: dict[Any, list[Call]] = {}
    for call in run.calls[run.calls.index(one.call) :]:
        if any(id(each) in reached for each in call.operands):
            reached.update(id(each) for each in call.results)
        if (call.kind in _KINDS or call.kind == "Mul") and run.drops(call):
            nearest.setdefault(call.statement, []).append(call)
    near = [calls for calls in nearest.values() if any(id(each) in reached for call in calls for each in call.results)]
    for calls in near[:_MOST]:
        alone = _Pass(run.calls, killers=frozenset(calls), last=one.call).run(roots, seeds)
        if any(bool(tf.reduce_all(each.dead | ~elements)) for each in alone.breaks
               if each.call is one.call and each.elements.shape == elements.shape):  # fmt: skip
            return calls[0]
    return None


def _clip(call: Call, calls: Sequence[Call]) -> Call | None:
    """The clip that an operand comes from, which puts it onto the singular point."""
    operands = {id(each) for each in call.operands}
    made = [each for each in calls if operands.intersection(map(id, each.results))]
    return next((each for each in made if each.kind in _CLIPS), None)


def _operation(kind: str) -> str:
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower()
    signature = lookup(f"tensorflow.math.{name}")
    return _NAMES.get(kind) or (signature.op if signature else name)


def _between(calls: Sequence[Call], call: Call) -> list[Call]:
    """What has computed the results of a call that brings its own gradient, of its operands."""
    wanted, ends, found = {id(each) for each in call.computed}, {id(each) for each in call.operands}, []
    for each in reversed(calls[: calls.index(call)]):
        if any(id(result) in wanted for result in each.results):
            found.append(each)
            wanted.update({id(operand) for operand in each.operands} - ends)
    return found[::-1]


def _widened(call: Call) -> Call:
    """An elementwise operation whose operands have the shape of its result."""
    shape = call.results[0].shape
    if call.kind not in _ELEMENTWISE or call.backward or all(each.shape == shape for each in call.operands):
        return call
    return replace(call, operands=[tf.broadcast_to(each, shape) for each in call.operands])


def _narrowed(cotangent: Any, dead: Any, shape: Any) -> tuple[Any, Any]:
    """A cotangent and a mask for an operand that was broadcast: dead is what is dead all along."""
    extra = len(dead.shape) - len(shape)
    axes = [*range(extra), *(extra + i for i, size in enumerate(shape) if size != dead.shape[extra + i])]
    found = tf.reduce_sum(cotangent, axes), tf.reduce_all(dead, axes)
    return tf.reshape(found[0], shape), tf.reshape(found[1], shape)


def _unreached(call: Call, number: int, alive: Sequence[Any], got: Any) -> Any:
    """Which elements of an operand get nothing."""
    rng = np.random.default_rng(0)  # in general position: nothing cancels
    seeds = [each * tf.constant(rng.uniform(1, 2, each.shape), each.dtype) if each.dtype.is_floating else each
             for each in alive]  # fmt: skip
    found = call.pull(seeds)[number]
    return tf.ones(got.shape, tf.bool) if found is None else found == 0


def _anywhere(call: Call) -> Call:
    """The same operation of operands at which it is regular."""
    rng = np.random.default_rng(1)
    operands = [tf.constant(rng.uniform(1, 2, each.shape), each.dtype) if each.dtype.is_floating else each
                for each in call.operands]  # fmt: skip
    return replace(call, operands=operands, results=compat.run(call.kind, call.attributes, operands, len(call.results)))


def _zeros(like: Any) -> Any:
    zeros = tf.zeros_like(like)
    zeros._is_zeros_tensor = True  # spares TensorFlow what it does for second derivatives
    return zeros


def finite(tensor: Any) -> Any:
    """Which elements are."""
    if tensor.dtype.is_complex:
        return tf.math.is_finite(tf.math.real(tensor)) & tf.math.is_finite(tf.math.imag(tensor))
    return tf.math.is_finite(tensor)


def all_finite(found: Iterable[Any]) -> bool:
    """Whether all elements of all tensors are; None has none."""
    return all(each is None or bool(tf.reduce_all(finite(each))) for each in found)
