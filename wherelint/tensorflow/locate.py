"""Which operation and which selection a gradient was lost to.

Operations are noted as they run, or those of a traced graph are run again one by one; a backward pass over them, in
which a dropped element receives nothing, says which of them break.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from wherelint.companion import Place, Poison, Report
from wherelint.companion.frames import calling, directories, places, user_and_library
from wherelint.companion.report import Places
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
_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_BRANCHES = frozenset({"If", "StatelessIf"})
_LOOPS = frozenset({"While", "StatelessWhile"})
#: How many selections are told apart: the nearest ones to what broke.
_MOST = 64


def locate(f: Callable[..., Any], *args: Any) -> Report:
    """What poisons the gradient of ``f(*args)``, or of its sum, by the arguments and the variables that it reads.

    ``f`` is called once, eagerly, the functions of ``tf.function`` in it as well. Arrays, tensors and variables of
    floats among the arguments are differentiated, in nested structures, too. The report names operation, selection and
    element; loops are not counted; experimental. TypeError where there is nothing to differentiate, ValueError where no
    gradient reaches an argument or a variable.
    """
    arguments = tf.nest.map_structure(_differentiable, args)
    leaves = [each for each in tf.nest.flatten(arguments) if is_floating(each)]
    calls: list[Call] = []

    def note(kind: str, attributes: Any, operands: Sequence[Any], results: Sequence[Any]) -> None:
        calls.append(Call(kind, attributes, operands, results, partial(places, calling(_OWN))))

    with ExitStack() as undo, tf.GradientTape() as tape, compat.noting(note):
        undo.callback(tf.config.run_functions_eagerly, tf.config.functions_run_eagerly())
        tf.config.run_functions_eagerly(True)
        tape.watch(leaves)
        values = [each for each in tf.nest.flatten(f(*arguments)) if is_floating(each)]
    variables = tape.watched_variables()
    sources = [*leaves, *variables]
    if not sources:
        raise TypeError("there is nothing to differentiate: no argument holds floats; write 0.0 for 0")
    if not values:
        raise TypeError("there is nothing to differentiate: the function returns no tensor of floats; return the loss")
    found = tape.gradient(values, sources)
    if all(each is None for each in found):
        raise ValueError(
            "the result has no gradient: leave out the `stop_gradient`, `numpy()` or cast between it and the arguments"
        )
    gradient = [None if each is None else tf.convert_to_tensor(each) for each in found]
    handles = [each.handle for each in variables]
    seeds = [tf.ones_like(each) for each in values]
    report = Report(all_finite(values), True, True, masked=tuple(gradient))
    if not all_finite(gradient):
        report = explain_calls(with_reads(calls, handles), values, [*leaves, *handles], seeds)
        report = replace(report, gradient_finite=False)
    own = len(leaves)
    return replace(report, gradient=tuple(gradient[:own]), masked=report.masked[:own])


def is_floating(each: Any) -> bool:
    """Whether something is a tensor that has a gradient."""
    return bool(tf.is_tensor(each) and each.dtype.is_floating)


def _differentiable(each: Any) -> Any:
    kinds = getattr(getattr(each, "dtype", None), "kind", "f" if isinstance(each, float) else "")
    if isinstance(each, tf.Variable) or tf.is_tensor(each) or kinds == "f":
        return tf.identity(each)
    return each


@dataclass(eq=False)
class Call:
    """One operation that ran: its attributes and tensors, and which operands are differentiated."""

    kind: str
    attributes: Any
    operands: Sequence[Any]
    results: Sequence[Any]
    #: Where the user's program stands, and where a library, if that is further in.
    places: Callable[[], Places] = lambda: (None, None)
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
        known = [_zeros(r) if ct is None else ct for r, ct in zip(self.results, cotangents, strict=True)]
        if self.kind == "ReadVariableOp":
            return known
        if self.compiled and self.kind in _COMPILED:
            found = _COMPILED[self.kind](known[0], self.results[0])
        else:
            found = compat.pulled(self.kind, self.attributes, self.operands, self.results, known)
        found = found if isinstance(found, list | tuple) else [found]
        return [None if each is None else tf.convert_to_tensor(each) for each in found]

    def again(self, operands: Sequence[Any]) -> Call:
        """The same operation of other operands."""
        results = compat.run(self.kind, self.attributes, operands, len(self.results))
        return replace(self, operands=operands, results=results)


def with_reads(calls: Sequence[Call], handles: Iterable[Any]) -> list[Call]:
    """The calls, with those that read variables and are not noted: operands that share the numbers of a variable."""
    variables = {compat.storage(compat.read(each)): each for each in handles}
    known, found = {id(result) for call in calls for result in call.results}, []
    for call in calls:
        for each in call.operands:
            if id(each) not in known and each.dtype.is_floating and compat.is_eager(each):
                known.add(id(each))
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
    """A masked backward pass over the calls, down to ``last``; with ``selections`` only those drop anything."""

    calls: Sequence[Call]
    selections: frozenset[Call] | None = None
    last: Call | None = None
    breaks: list[_Break] = field(default_factory=list)
    cotangents: dict[int, Any] = field(default_factory=dict)
    dead: dict[int, Any] = field(default_factory=dict)

    def run(self, roots: Sequence[Any], seeds: Sequence[Any]) -> _Pass:
        for root, seed in zip(roots, seeds, strict=True):
            self._hand(root, seed, tf.zeros(root.shape, tf.bool))
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
        unbroken = all_finite(cotangents)
        pulled = call.pull(cotangents)
        masks = [
            self._mask(call, i, got) if live and got is not None else None
            for i, (live, got) in enumerate(zip(call.live, pulled, strict=False))
        ]
        clean = self._clean(call, pulled, cotangents)
        for operand, dead, got, without in zip(call.operands, masks, pulled, clean, strict=False):
            if dead is not None:
                broken = ~finite(got)
                if unbroken and bool(tf.reduce_any(broken)):
                    self.breaks.append(_Break(call, broken, dead | finite(without)))
                self._hand(operand, tf.where(dead, tf.zeros_like(got), without), dead)

    def _clean(self, call: Call, pulled: list[Any], cotangents: Sequence[Any]) -> list[Any]:
        """The cotangents of the operands of sums of products, of what nothing drops."""
        if (call.kind not in _PRODUCTS and not _is_broadcast(call)) or all_finite(pulled):
            return pulled
        dead = self.dead.get(id(call.results[0]), tf.ones(call.results[0].shape, tf.bool))
        if _is_broadcast(call):  # each term by itself
            wide = call.again([tf.broadcast_to(each, dead.shape) for each in call.operands])
            parts = zip(call.operands, wide.pull(cotangents), strict=True)
            return [
                None if got is None else _summed(tf.where(dead, tf.zeros_like(got), got), each.shape)
                for each, got in parts
            ]
        operands = [
            tf.where(self._mask(call, number, each), tf.zeros_like(each), each) if each.dtype.is_floating else each
            for number, each in enumerate(call.operands)
        ]
        return replace(call, operands=operands).pull(cotangents)

    def _mask(self, call: Call, number: int, got: Any) -> Any:
        """Which elements of an operand nothing reaches but what is dead."""
        dead = [self.dead.get(id(each), tf.ones(each.shape, tf.bool)) for each in call.results]
        drops = self.selections is None or call in self.selections
        if call.kind in _ELEMENTWISE and dead[0].shape == got.shape:
            others = [each for i, each in enumerate(call.operands) if i != number and not call.live[i]]
            return dead[0] | (others[0] == 0) if call.kind == "Mul" and others and drops else dead[0]
        alive = [tf.cast(~d, r.dtype) for d, r in zip(dead, call.results, strict=True)]
        if call.kind in _KINDS:
            found = _unreached(call, number, alive, got)
            if not drops:  # what it drops by itself is alive
                found &= ~_unreached(call, number, [tf.ones_like(each) for each in call.results], got)
            return found
        if call.kind == "ReadVariableOp":
            return dead[0]
        if call.kind in _FIXED | _ELEMENTWISE and any(bool(tf.reduce_any(each)) for each in dead):
            return _unreached(_anywhere(call), number, alive, got)
        return tf.zeros(got.shape, tf.bool)

    def _hand(self, tensor: Any, cotangent: Any, dead: Any) -> None:
        key = id(tensor)
        if key in self.cotangents:
            self.cotangents[key], self.dead[key] = self.cotangents[key] + cotangent, self.dead[key] & dead
        else:
            self.cotangents[key], self.dead[key] = cotangent, dead


def explain_calls(calls: Sequence[Call], roots: Sequence[Any], sources: Sequence[Any], seeds: Sequence[Any]) -> Report:
    """What poisons the gradient of the roots by the sources, with the cotangents of the roots."""
    live = {id(each) for each in sources}
    for call in calls:
        call.live = [id(each) in live for each in call.operands]
        if any(call.live):
            live.update(id(each) for each in call.results if each.dtype.is_floating)
    calls = [call for call in calls if any(call.live)]
    pairs = [(root, seed) for root, seed in zip(roots, seeds, strict=True) if id(root) in live]
    value_finite, (roots, seeds) = all_finite(roots), ([each[i] for each in pairs] for i in (0, 1))
    run = _Pass(calls).run(roots, seeds)
    masked = tuple(run.cotangents.get(id(each)) for each in sources)
    poisons = tuple(dict.fromkeys(_poisons(run, roots, seeds)))
    return Report(value_finite, not run.breaks, all_finite(masked), poisons, masked=masked)


def explain_value(calls: Sequence[Call], roots: Sequence[Any]) -> Report:
    """Where the first inf or nan behind the roots was made of what is finite; else the first nan of what is none."""
    origins = (_origin(calls, roots, broken) for broken in (lambda each: ~finite(each), tf.math.is_nan))
    found = next((each for each in origins if each), None)
    return Report(False, False, False, (found,) if found else ())


def _origin(calls: Sequence[Call], roots: Sequence[Any], broken: Callable[[Any], Any]) -> Poison | None:
    def is_broken(each: Any) -> bool:
        return is_floating(each) and bool(tf.reduce_any(broken(each)))

    wanted, found = {id(each) for each in roots if is_broken(each)}, None
    for call in reversed(calls):
        results = [each for each in call.results if id(each) in wanted]
        if results and call.kind != "ReadVariableOp":
            operands = [each for each in call.operands if is_broken(each)]
            wanted.update(map(id, operands))
            found = found if operands else (call, results[0])
    if found is None:
        return None
    call, result = found
    elements = np.argwhere(broken(result))
    return Poison.of(_operation(call.kind), call.places(), elements, framework="tensorflow", value=True)


def _poisons(run: _Pass, roots: Sequence[Any], seeds: Sequence[Any]) -> Iterator[Poison]:
    reported: set[Any] = set()  # a loop breaks at the same place again
    for one in run.breaks:
        for genuine, elements in ((False, one.elements & one.dead), (True, one.elements & ~one.dead)):
            at = np.argwhere(elements)
            if not len(at) or (genuine, one.call.statement) in reported:
                continue
            reported.add((genuine, one.call.statement))
            selection = _clip(one.call, run.calls) if genuine else _blamed(one, elements, run, roots, seeds)
            select = (_KINDS.get(selection.kind, "multiply"), selection.places()) if selection else ()
            op, places = _operation(one.call.kind), one.call.places()
            yield Poison.of(op, places, at, *select, genuine=genuine, framework="tensorflow")


def _blamed(one: _Break, elements: Any, run: _Pass, roots: Sequence[Any], seeds: Sequence[Any]) -> Call | None:
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
        alone = _Pass(run.calls, selections=frozenset(calls), last=one.call).run(roots, seeds)
        if any(bool(tf.reduce_all(each.dead | ~elements)) for each in alone.breaks
               if each.call is one.call and each.elements.shape == elements.shape):  # fmt: skip
            return calls[0]
    return None


def _clip(call: Call, calls: Sequence[Call]) -> Call | None:
    """The clip that an operand comes from, which puts it onto the singular point."""
    operands = {id(each) for each in call.operands}
    return next((c for c in calls if c.kind in _CLIPS and operands.intersection(map(id, c.results))), None)


def _operation(kind: str) -> str:
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower()
    signature = lookup(f"tensorflow.math.{name}")
    return _NAMES.get(kind) or (signature.op if signature else name)


def _is_broadcast(call: Call) -> bool:
    """Whether an elementwise operation has an operand of another shape than its result."""
    return call.kind in _ELEMENTWISE and any(each.shape != call.results[0].shape for each in call.operands)


def _summed(cotangent: Any, shape: Any) -> Any:
    """A cotangent for an operand that was broadcast."""
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=tf.constant(shape, tf.int32), s1=tf.shape(cotangent))
    return tf.reshape(tf.reduce_sum(cotangent, axes), shape)


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
    return call.again(operands)


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


@dataclass(eq=False)
class Variable:
    """What a handle stands for: what is differentiated, and its value of the moment."""

    source: Any
    value: Any


#: What is known of a graph, by the names of its tensors: eager tensors, variables, and lists for lists of tensors.
Known = dict[str, Any]


@dataclass
class Replay:
    """Runs parts of graphs, and adds what it ran to the calls."""

    calls: list[Call] = field(default_factory=list)
    #: Whether the graph was compiled by XLA, whose derivatives spare no zero.
    compiled: bool = False

    def run(self, graph: Any, wanted: Iterable[Any], known: Known) -> list[Any]:
        """The values of some tensors of a graph. LookupError where they depend on something that is not known."""
        wanted = list(wanted)
        for operation in self._needed(wanted, known):
            self._run(operation, known)
        return [known[each.name] for each in wanted]

    def _needed(self, wanted: Sequence[Any], known: Known) -> list[Any]:
        """The operations behind tensors, each after those that it needs; what isn't pure and known is an end."""
        todo = [(each.op, False) for each in reversed(wanted)]
        seen: set[Any] = set()
        found: list[Any] = []
        while todo:
            operation, ready = todo.pop()
            if ready:
                found.append(operation)
            elif operation not in seen:
                seen.add(operation)
                todo.append((operation, True))
                there = operation.outputs and all(each.name in known for each in operation.outputs)
                if not (there and is_end(operation)):
                    todo += [(each.op, False) for each in operation.inputs]
        return found

    def _run(self, operation: Any, known: Known) -> None:
        kind, names = operation.type, [each.name for each in operation.outputs]
        if operation.inputs and all(each in known for each in names) and is_end(operation):
            if kind == "ReadVariableOp" and (variable := known.get(operation.inputs[0].name)):
                self._note(operation, kind, (), [variable.source], [known[names[0]]])
            return
        if kind in ("Placeholder", "PlaceholderWithDefault") and names[0] not in known:
            raise LookupError(f"the value of {names[0]} is not known")
        if kind == "Placeholder":
            return
        operands = [known[each.name] for each in operation.inputs]
        if kind == "Identity" and not tf.is_tensor(operands[0]):  # of a list or a variable
            known[names[0]] = operands[0]
            return
        if kind in _CALLS:
            results = self._call(operation, operation.get_attr("f").name, operands, names, known)
        elif kind in _BRANCHES:
            branch = operation.get_attr("then_branch" if bool(operands[0]) else "else_branch")
            results = self._call(operation, branch.name, operands[1:], names, known)
        elif kind in _LOOPS:
            results = self._loop(operation, operands)
        elif kind == "Const":
            results = [tf.constant(tf.make_ndarray(operation.get_attr("value")))]
        elif kind == "ReadVariableOp":
            results = [tf.identity(operands[0].value)]
            self._note(operation, kind, (), [operands[0].source], results)
        elif kind.startswith(("TensorList", "EmptyTensorList")):
            results = self._list(operation, operands)
        else:
            attributes = attributes_of(operation)
            results = list(compat.run(kind, attributes, operands, len(names)))
            results = [known.get(name, result) for name, result in zip(names, results, strict=True)]
            self._note(operation, kind, attributes, operands, results)
        known.update(zip(names, results, strict=True))

    def _note(
        self, operation: Any, kind: str, attributes: Any, operands: Sequence[Any], results: Sequence[Any]
    ) -> None:
        at = partial(_places, operation)
        self.calls.append(Call(kind, attributes, operands, results, at, compiled=self.compiled))

    def _call(
        self, operation: Any, name: str, operands: Sequence[Any], names: Sequence[str], known: Known
    ) -> list[Any]:
        """What a function returns; what is known of it already are its results."""
        graph = compat.function_graph(operation.graph, name)
        outputs = graph.outputs[: len(names)]
        inner = {to.name: value for to, value in zip(graph.inputs, operands, strict=True)}
        results = {to.name: known[name] for to, name in zip(outputs, names, strict=True) if name in known}
        return self.run(graph, outputs, results | inner)

    def _loop(self, operation: Any, state: list[Any]) -> list[Any]:
        condition, body = (
            compat.function_graph(operation.graph, operation.get_attr(each).name) for each in ("cond", "body")
        )
        while True:
            known = {to.name: value for to, value in zip(condition.inputs, state, strict=True)}
            if not bool(Replay().run(condition, condition.outputs[:1], known)[0]):
                return state
            state = self.run(body, body.outputs, {to.name: value for to, value in zip(body.inputs, state, strict=True)})

    def _list(self, operation: Any, operands: Sequence[Any]) -> list[Any]:
        """Lists of tensors: what is in them stays what it is."""
        kind, (first, *rest) = operation.type.removeprefix("TensorList"), operands
        if kind in ("EmptyTensorList", "Reserve"):
            return [[None] * (int(rest[0]) if rest and kind == "Reserve" else 0)]
        if kind == "FromTensor":
            attributes = ("num", first.shape[0], "T", first.dtype, "axis", 0)
            results = compat.run("Unpack", attributes, [first], first.shape[0])
            self._note(operation, "Unpack", attributes, [first], results)
            return [list(results)]
        if kind == "PushBack":
            return [[*first, rest[0]]]
        if kind == "PopBack":
            return [first[:-1], first[-1]]
        if kind == "SetItem":
            index, item = int(rest[0]), rest[1]
            return [[*first[:index], item, *first[index + 1 :]]]
        shape, dtype = rest[-1], operation.get_attr("element_dtype")
        shape = next((each.shape for each in first if each is not None), shape)
        full = [tf.zeros(shape, dtype) if each is None else each for each in first]
        if kind == "GetItem":
            return [full[int(rest[0])]]
        if kind != "Stack":
            raise LookupError(f"{operation.type} is not known")
        attributes = ("N", len(full), "T", dtype, "axis", 0)
        results = compat.run("Pack", attributes, full, 1)
        self._note(operation, "Pack", attributes, full, results)
        return list(results)


def is_followed(operation: Any) -> bool:
    """Whether an operation runs functions that can be looked into."""
    return operation.type in _CALLS or operation.type in _BRANCHES or operation.type in _LOOPS


def is_end(operation: Any) -> bool:
    """Whether an operation can't be run again: it is no function of its operands."""
    return bool(operation.type == "Placeholder" or (operation.op_def.is_stateful and not is_followed(operation)))


def attributes_of(operation: Any) -> tuple[Any, ...]:
    """The attributes of an operation, as an eager one has them."""
    found: list[Any] = []
    for each in operation.op_def.attr:
        if each.type not in ("func", "list(func)", "tensor"):
            value = operation.get_attr(each.name)
            if each.type == "shape":
                value = tf.TensorShape(value)
            found += [each.name, value.decode() if isinstance(value, bytes) else value]
    return tuple(found)


def _places(operation: Any) -> Places:
    """Where the user's program stands that has made an operation, and where a library, if that is further in."""
    frames = [each for each in reversed(operation.traceback) if not each.filename.startswith(_OWN)]
    found = [Place(each.filename, each.lineno, function=each.name.removeprefix("tf__")) for each in frames]
    return user_and_library(found)
